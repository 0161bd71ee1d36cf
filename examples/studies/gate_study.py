"""How often a gate errs, and what it finds: `python examples/studies/gate_study.py errors|…`.

The others are together, power, looks and ledger. Prints a Markdown table; the figures in
the guide to the statistics are from the default sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import special, stats

from mlflow_mleval.analysis.gate_tests import (
    Differences,
    GateTests,
    Terms,
    gate_tests,
    ledger_level,
)
from mlflow_mleval.analysis.posthoc.betting import BETS, SHARES

Array = np.ndarray
Maker = Callable[[np.random.Generator, int, int], Array]
ALPHA, MARGIN, DRAWS = 0.05, 0.01, 999


def normal(rng: np.random.Generator, n: int, m: int) -> Array:
    """Differences of m correlated measures with mean zero."""
    return 0.1 * (rng.normal(size=(n, 1)) + rng.normal(size=(n, m))) / np.sqrt(2)


def binary(rng: np.random.Generator, n: int, m: int) -> Array:
    """Wins and losses on a tenth of the units, mostly of the same ones."""
    differ = rng.random((n, 1)) < 0.12
    return np.where(differ & (rng.random((n, m)) < 0.8), rng.choice([-1.0, 1.0], (n, m)), 0.0)


def rare(rng: np.random.Generator, n: int, m: int) -> Array:
    """Losses on one unit in a hundred, and no wins, around their mean."""
    return 0.01 - (rng.random((n, m)) < 0.01)


def judge(d: Array, parts: int = 0, **more: object) -> GateTests:
    """The gate on differences, with disjoint slices of equal size."""
    frame = pd.DataFrame(d.clip(-1.2, 1.2), columns=[f"m{i}" for i in range(d.shape[1])])
    place = np.arange(len(d)) % max(parts, 1)
    slices = {f"part {k}": place == k for k in range(parts)}
    bounds = dict.fromkeys(frame, 1.2)
    terms = {name: more.pop(name) for name in ("anytime", "improve") if name in more}
    asked = Terms(dict.fromkeys(frame, MARGIN), alpha=ALPHA, n_resamples=DRAWS, **terms)
    return gate_tests(Differences(frame, slices, bounds=bounds, **more), asked)


DESIGNS: dict[str, tuple[Maker, int]] = {
    "normal": (normal, 1),
    "wins and losses": (binary, 1),
    "rare losses": (rare, 1),
    "clusters of ten": (normal, 10),
}


def errors(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """Blocked though nothing is worse than its margin, and shipped though one measure is."""
    for size, m, parts in ((100, 1, 0), (600, 20, 10)):
        for name, (make, cluster) in DESIGNS.items():
            wrong = {"block": 0, "ship": 0}
            for _ in range(n if m == 1 else n // 5):
                d = make(rng, size // cluster, m).repeat(cluster, axis=0)
                d = d + 0.3 * np.std(d) * rng.normal(size=d.shape) * (cluster > 1)
                more = {"clusters": np.arange(size) // cluster} if cluster > 1 else {}
                wrong["block"] += judge(d - MARGIN, parts, **more).decision == "block"
                gained = np.where(np.arange(m) == 0, -MARGIN, 0.05)
                wrong["ship"] += judge(d + gained, 0, **more).decision == "ship"
            count = n if m == 1 else n // 5
            rates = {f"wrongly {key}": value / count for key, value in wrong.items()}
            yield {"differences": name, "units": size, "rows": m * (parts + 1)} | rates


def simple(d: Array, parts: int) -> str:
    """A gate by t tests: Bonferroni over all rows for BLOCK, each measure at alpha for SHIP."""
    place = np.arange(len(d)) % max(parts, 1)
    groups = [d, *(d[place == k] for k in range(parts))]
    worse = [stats.ttest_1samp(g + MARGIN, 0, alternative="less").pvalue for g in groups]
    if np.min(worse) <= ALPHA / np.size(worse):
        return "block"
    ship = stats.ttest_1samp(d + MARGIN, 0, alternative="greater").pvalue
    return "ship" if np.max(ship) <= ALPHA else "run more"


def power(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """What the gate finds, beside t tests with Bonferroni."""
    for name in ("wins and losses",):
        make, _ = DESIGNS[name]
        for what, shift, slices in (
            ("ship", 0.01, 0),
            ("block", -0.03, 0),
            ("block", -0.03, 10),
        ):
            hits = {"gate": 0, "t tests": 0}
            size = 2_000
            for _ in range(n):
                d = make(rng, size, 8)
                d = d + (shift if what == "ship" else shift * (np.arange(8) == 0))
                hits["gate"] += judge(d, slices).decision == what
                hits["t tests"] += simple(d, slices) == what
            about = {"differences": name, "units": size, "slices": slices, "true": shift}
            yield about | {"decision": what} | {key: hit / n for key, hit in hits.items()}


def looks(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """Fifty looks at a store that grows to 1,000 units."""
    for name in ("wins and losses", "rare losses"):
        make, _ = DESIGNS[name]
        for way in ("bets", "the gate at each look"):
            found = {"block": 0, "ship": 0}
            for _ in range(n if way == "bets" else n // 10):
                d = make(rng, 1_000, 3) - MARGIN
                for decision in found:
                    at_margin = d + 0.05 * ((np.arange(3) > 0) & (decision == "ship"))
                    ends = [1_000] if way == "bets" else range(20, 1_001, 20)
                    seen = (judge(at_margin[:end], anytime=way == "bets") for end in ends)
                    found[decision] += any(each.decision == decision for each in seen)
            count = n if way == "bets" else n // 10
            rates = {f"wrongly {key}": value / count for key, value in found.items()}
            yield {"differences": name, "looks by": way} | rates


def together(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """All at once: 20 measures x 10 slices, correlated, in clusters, wins and losses and skewed
    scores; looked at once, or 50 times by bets. What bets have decided stands, so that the last of
    50 looks tells of all.
    """
    for looks_by in ("once", "50 times, by bets"):
        wrong = {"block": 0, "ship": 0}
        for _ in range(n):
            d = mixed(rng)
            gained = np.where(np.arange(20) == rng.integers(20), 0.0, 0.06)
            for decision, differences in (("block", d), ("ship", d + gained)):
                found = judge_mixed(rng, differences, anytime="50" in looks_by)
                wrong[decision] += found.decision == decision
        yield {"looked at": looks_by} | {f"wrongly {key}": v / n for key, v in wrong.items()}


def mixed(rng: np.random.Generator) -> Array:
    """1,000 units in clusters of five x 20 measures, each minus its margin on average: ten with
    wins and losses, five with a long tail of gains, five of losses.
    """
    shared = np.sqrt(0.2) * rng.normal(size=(200, 20)).repeat(5, axis=0)
    shared += np.sqrt(0.4) * rng.normal(size=(1_000, 1))
    uniform = stats.norm.cdf(shared + np.sqrt(0.4) * rng.normal(size=(1_000, 20)))
    wins = (uniform > 0.955).astype(float) - (uniform < 0.055)
    tails = 0.9 * uniform**8 - 0.1  # their mean is zero: that of the power is 1/9
    return np.hstack([wins[:, :10], tails[:, 10:15] - MARGIN, -tails[:, 15:] - MARGIN])


def judge_mixed(rng: np.random.Generator, d: Array, anytime: bool) -> GateTests:
    """The gate on `mixed` differences, with ten random slices and the clusters."""
    frame = pd.DataFrame(d, columns=[f"m{i}" for i in range(d.shape[1])])
    place = rng.integers(10, size=len(d))
    slices = {f"part {k}": place == k for k in range(10)}
    bounds = dict.fromkeys(frame, 1.1)
    terms = Terms(dict.fromkeys(frame, MARGIN), alpha=ALPHA, anytime=anytime, n_resamples=DRAWS)
    return gate_tests(Differences(frame, slices, np.arange(len(d)) // 5, bounds), terms)


def ledger(rng: np.random.Generator, n: int, gates: int = 700) -> Iterator[dict[str, object]]:
    """700 changes to a system, judged on 1,000 answers of which a tenth changes: to be better is to
    be shipped. Their e-values follow from the numbers of wins and losses alone.
    """
    for share, gain, answers in (
        (0.0, 0.0, "fresh"),
        (0.0, 0.0, "the same, one champion"),
        (0.05, 0.05, "fresh"),
        (0.05, 0.1, "fresh"),
    ):
        good = rng.random((n, gates)) < share
        wins, losses = won_and_lost(rng, good, gain, answers != "fresh")
        values = evidence(wins, losses, 1_000)
        for error in ("fdr", "family", "P ≥ .95 each time"):
            if error.startswith("P"):
                kept = better_by_t(wins, losses, 1_000)
            else:
                kept = np.array([shipped(row, error) for row in values])
            wrong = (kept & ~good).sum(axis=1)
            row = {"good ones": f"{share:.0%} by {gain:.2f}", "answers": answers, "kept by": error}
            row |= {"wrongly kept": wrong.mean(), "any wrong": (wrong > 0).mean()}
            row["share wrong"] = (wrong / np.maximum(kept.sum(axis=1), 1)).mean()
            found = (kept & good).sum() / good.sum() if good.any() else ""
            yield {key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()} | {
                "share found": round(float(found), 3) if good.any() else ""
            }


def won_and_lost(
    rng: np.random.Generator, good: Array, gain: float, one_champion: bool
) -> tuple[Array, Array]:
    """Of 1,000 answers how many each change wins and loses, 48 of each on average where it is not
    better. Against one champion on the same answers, what it got wrong by chance is there for all.
    """
    wrong = np.full((len(good), 1), 500)
    if one_champion:
        wrong = rng.binomial(1_000, 0.5, (len(good), 1))
        return rng.binomial(wrong, 0.096, good.shape), rng.binomial(
            1_000 - wrong, 0.096, good.shape
        )
    won = np.where(good, 0.048 + gain / 2, 0.048)
    lost = np.where(good, max(0.048 - gain / 2, 0.0), 0.048)
    wins = rng.binomial(1_000, won)
    return wins, rng.binomial(1_000 - wins, lost / (1 - won))


def evidence(wins: Array, losses: Array, n: int) -> Array:
    """The e-values of gates on so many wins and losses: the capital of the less certain of two
    bets, on a gain and on no harm beyond the margin.
    """

    def log_capital(centre: float) -> Array:
        stakes = BETS.reshape(-1, *[1] * np.ndim(wins)) / (1 + centre)
        numbers = ((wins, 1.0), (losses, -1.0), (n - wins - losses, 0.0))
        steps = [
            special.xlog1py(count, np.maximum(stakes * (d - centre), -1.0)) for count, d in numbers
        ]
        shares = np.log(SHARES).reshape(stakes.shape)
        return special.logsumexp(sum(steps) + shares, axis=0)

    return np.exp(np.minimum(log_capital(-MARGIN), log_capital(0.0)))


def shipped(values: Array, error: str) -> Array:
    """Which of a stream of e-values a ledger ships."""
    kept = np.zeros(len(values), bool)
    ships = 0
    for at, value in enumerate(values):
        kept[at] = value >= 1 / ledger_level(ALPHA, at + 1, ships, error)
        ships += int(kept[at])
    return kept


def better_by_t(wins: Array, losses: Array, n: int) -> Array:
    """Which are better by a t test at alpha, each by itself."""
    mean = (wins - losses) / n
    deviation = np.sqrt(np.maximum((wins + losses) / n - mean**2, 1e-12) * n / (n - 1))
    return stats.t.sf(mean / deviation * np.sqrt(n), n - 1) <= ALPHA


PARTS = {
    "errors": errors,
    "together": together,
    "power": power,
    "looks": looks,
    "ledger": ledger,
}
#: Repetitions by default.
SIZES = {"errors": 300, "together": 200, "power": 60, "looks": 100, "ledger": 300}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    n = chosen.repetitions or SIZES[chosen.part]
    for i, row in enumerate(PARTS[chosen.part](np.random.default_rng(chosen.seed), n)):
        if not i:
            print("|", " | ".join(row), "|\n|", "---|" * len(row), sep="")
        print("|", " | ".join(map(str, row.values())), "|", flush=True)


if __name__ == "__main__":
    main()
