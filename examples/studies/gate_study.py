"""How often a gate errs, and what it finds: `python examples/studies/gate_study.py errors|…`.

The others are power, looks and ledger. Prints a Markdown table; the figures in the guide to the
statistics are from the default sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import stats

from mlflow_mleval.analysis.gate_tests import (
    Entry,
    GateTests,
    Terms,
    Units,
    gate_tests,
    in_ledger,
    ledger_level,
)

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


def skewed(rng: np.random.Generator, n: int, m: int) -> Array:
    """Long tails of losses; measures without bounds."""
    return -0.1 * (np.exp(normal(rng, n, m) * 10) - np.exp(0.5))


def gains(rng: np.random.Generator, n: int, m: int) -> Array:
    """Long tails of gains; measures without bounds."""
    return -skewed(rng, n, m)


def judge(d: Array, bounded: bool, parts: int = 0, **more: object) -> GateTests:
    """The gate on differences, with disjoint slices of equal size."""
    frame = pd.DataFrame(d, columns=[f"m{i}" for i in range(d.shape[1])])
    place = np.arange(len(d)) % max(parts, 1)
    slices = {f"part {k}": place == k for k in range(parts)}
    bounds = dict.fromkeys(frame, 1.2) if bounded else {}
    terms = {name: more.pop(name) for name in ("anytime", "improve") if name in more}
    asked = Terms(dict.fromkeys(frame, MARGIN), alpha=ALPHA, n_resamples=DRAWS, **terms)
    return gate_tests(Units(frame, slices, bounds=bounds, **more), asked)


DESIGNS: dict[str, tuple[Maker, bool, int]] = {
    "normal": (normal, False, 1),
    "wins and losses": (binary, True, 1),
    "rare losses": (rare, True, 1),
    "skewed losses": (skewed, False, 1),
    "skewed gains": (gains, False, 1),
    "clusters of ten": (normal, False, 10),
}


def errors(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """Blocked though nothing is worse than its margin, and shipped though one measure is."""
    for size, m, parts in ((100, 1, 0), (600, 20, 10)):
        for name, (make, bounded, cluster) in DESIGNS.items():
            wrong = {"block": 0, "ship": 0}
            for _ in range(n if m == 1 else n // 5):
                d = make(rng, size // cluster, m).repeat(cluster, axis=0)
                d = d + 0.3 * np.std(d) * rng.normal(size=d.shape) * (cluster > 1)
                more = {"clusters": np.arange(size) // cluster} if cluster > 1 else {}
                wrong["block"] += judge(d - MARGIN, bounded, parts, **more).decision == "block"
                gained = np.where(np.arange(m) == 0, -MARGIN, 0.05)
                wrong["ship"] += judge(d + gained, bounded, 0, **more).decision == "ship"
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
    for name in ("normal", "wins and losses"):
        make, bounded, _ = DESIGNS[name]
        for what, shift, slices in (
            ("ship", 0.01, 0),
            ("block", -0.03, 0),
            ("block", -0.03, 10),
        ):
            hits = {"gate": 0, "t tests": 0}
            size = 300 if name == "normal" else 2_000
            for _ in range(n):
                d = make(rng, size, 8)
                d = d + (shift if what == "ship" else shift * (np.arange(8) == 0))
                hits["gate"] += judge(d, bounded, slices).decision == what
                hits["t tests"] += simple(d, slices) == what
            about = {"differences": name, "units": size, "slices": slices, "true": shift}
            yield about | {"decision": what} | {key: hit / n for key, hit in hits.items()}


def looks(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """Fifty looks at a store that grows to 1,000 units."""
    for name in ("wins and losses", "rare losses"):
        make, bounded, _ = DESIGNS[name]
        for way in ("bets", "the gate at each look"):
            found = {"block": 0, "ship": 0}
            for _ in range(n if way == "bets" else n // 10):
                d = make(rng, 1_000, 3) - MARGIN
                for decision in found:
                    at_margin = d + 0.05 * ((np.arange(3) > 0) & (decision == "ship"))
                    ends = [1_000] if way == "bets" else range(20, 1_001, 20)
                    seen = (judge(at_margin[:end], bounded, anytime=way == "bets") for end in ends)
                    found[decision] += any(each.decision == decision for each in seen)
            count = n if way == "bets" else n // 10
            rates = {f"wrongly {key}": value / count for key, value in found.items()}
            yield {"differences": name, "looks by": way} | rates


def ledger(rng: np.random.Generator, n: int, gates: int = 700) -> Iterator[dict[str, object]]:
    """700 changes to a system, judged on the same 1,000 answers: to be better is to be shipped."""
    for share, gain in ((0.0, 0.0), (0.05, 0.1)):
        for error in ("fdr", "family", "P ≥ .95 each time"):
            wrong, right, good_ones = 0, 0, 0
            for _ in range(n):
                ships, good = 0, rng.random(gates) < share
                for t in range(1, gates + 1):
                    d = binary(rng, 1_000, 1) + 0.0
                    turned = (d < 0) & (rng.random(d.shape) < 10 * gain) & good[t - 1]
                    d = np.where(turned, 1.0, d)
                    if error.startswith("P"):
                        shipped = stats.ttest_1samp(d, 0, alternative="greater").pvalue[0] <= ALPHA
                    else:
                        entry = Entry(
                            "", t, ledger_level(ALPHA, t, ships, error), ships, t - 1, error
                        )
                        shipped = in_ledger(improved(d), entry).decision == "ship"
                    ships += shipped
                    wrong, right = (
                        wrong + (shipped and not good[t - 1]),
                        right + (shipped and good[t - 1]),
                    )
                good_ones += good.sum()
            about = {"good ones": f"{share:.0%} by {2 * gain * 0.48:.2f}", "error": error}
            found = "" if not good_ones else round(right / good_ones, 3)
            yield about | {"wrongly shipped": wrong / n, "share found": found}


def improved(d: Array) -> GateTests:
    """The gate on one measure that must improve, with few draws: bets decide in a ledger."""
    asked = Terms({"m0": MARGIN}, ("m0",), alpha=ALPHA, n_resamples=99)
    return gate_tests(Units(pd.DataFrame(d, columns=["m0"]), bounds={"m0": 1.0}), asked)


PARTS = {"errors": errors, "power": power, "looks": looks, "ledger": ledger}
#: Repetitions by default.
SIZES = {"errors": 300, "power": 60, "looks": 100, "ledger": 3}


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
