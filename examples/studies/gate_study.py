"""How often a gate errs, and what it finds: `python examples/studies/gate_study.py command|…`.

The parts are command, needed, looks, ledger, peer, power and together. The last two go through the
function that decides, the others through runs of a store and the command line. Each prints a
Markdown table; the figures in the guide to the statistics are from the default sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from mlflow_mleval.analysis.gate_tests import Differences, GateTests, Terms, gate_tests

Array = np.ndarray
ALPHA, MARGIN, DRAWS = 0.05, 0.01, 999


# --------------------------------------------------------------------------------------------------
# Through the command: tables of answers of two runs, whose true difference is minus the margin.


class Answers(NamedTuple):
    """Scores of champion and candidate (NaN is lost), columns beside them, and how it is asked."""

    champion: Array
    candidate: Array
    columns: Mapping[str, list[str]] = MappingProxyType({})
    options: tuple[str, ...] = ()


def zero_one(rng: np.random.Generator, n: int, margin: float, changed: float) -> Answers:
    """Right and wrong answers, of which a share changes."""
    lost = (changed + margin) / 2
    d = rng.choice([-1.0, 0.0, 1.0], n, p=[lost, 1 - changed, changed - lost])
    champion = np.where(d == 0, rng.random(n) < 0.7, d < 0).astype(float)
    return Answers(champion, champion + d)


def grades(rng: np.random.Generator, n: int, margin: float) -> Answers:
    """Grades from 1 to 5, of which two in five change by one or two."""
    size = rng.choice([1, 2], n, p=[0.75, 0.25])
    falls = 0.2 + 4 * margin / 1.25 / 2
    d = rng.choice([-1, 0, 1], n, p=[falls, 0.6, 0.4 - falls]) * size
    champion = np.full(n, 3.0)
    return Answers(champion, champion + d, options=("--bound", "score=4"))


def f1_of_answers(rng: np.random.Generator, n: int, margin: float) -> Answers:
    """Shares of words; two in five change, and some answers fail altogether."""
    values, p = [0.0, 0.4, 0.5, 0.67, 0.8, 1.0], [0.1, 0.1, 0.2, 0.2, 0.2, 0.2]
    champion, other = rng.choice(values, (2, n), p=p)
    candidate = np.where(rng.random(n) < 0.4, other, champion)
    fails = rng.random(n) < margin / np.dot(values, p)
    options = ("--bound", "score=1")
    return Answers(champion, np.where(fails, 0.0, candidate), options=options)


def rare_failures(rng: np.random.Generator, n: int, margin: float) -> Answers:
    """Scores that hardly differ, but for the few that fail altogether."""
    champion = 0.8 + 0.05 * rng.normal(size=n).clip(-3, 3)
    candidate = (champion + 0.02 * rng.normal(size=n)).clip(0, 1)
    fails = rng.random(n) < margin / 0.8
    return Answers(champion, np.where(fails, 0.0, candidate), options=("--bound", "score=1"))


def rare_losses(rng: np.random.Generator, n: int, margin: float) -> Answers:
    """Scores near 1, of which each loses or gains a little and a few lose all."""
    champion, other = 1 - 0.05 * rng.random((2, n))
    fails = rng.random(n) < margin / 0.975
    return Answers(champion, np.where(fails, 0.0, other), options=("--bound", "score=1"))


def clustered(rng: np.random.Generator, n: int, margin: float) -> Answers:
    """Five answers about each passage, which change together."""
    of, _ = np.divmod(np.arange(n), 5)
    each = zero_one(rng, of[-1] + 1, margin, 0.2)
    columns = {"passage": [f"p{k}" for k in of]}
    return Answers(each.champion[of], each.candidate[of], columns, ("--cluster", "passage"))


def sliced(rng: np.random.Generator, n: int, margin: float) -> Answers:
    """Two languages, neither better than the other."""
    found = zero_one(rng, n, margin, 0.2)
    columns = {"lang": np.where(rng.random(n) < 0.3, "es", "en").tolist()}
    return found._replace(columns=columns, options=("--slice", "lang"))


def with_losses(rng: np.random.Generator, n: int, margin: float) -> Answers:
    """Three answers in a hundred, right ones of the champion, are not there; the others make up
    for it but for the margin.
    """
    gone = rng.random(n) < 0.03
    gone &= ~gone.all()  # a run without any answer is an error
    rest = zero_one(rng, n, (margin - 0.03) / 0.97, 0.2)
    champion = np.where(gone, 1.0, rest.champion)
    return Answers(champion, np.where(gone, np.nan, rest.candidate))


TABLES: dict[str, Callable[[np.random.Generator, int, float], Answers]] = {
    "0/1, 2% changed": partial(zero_one, changed=0.02),
    "0/1, 10% changed": partial(zero_one, changed=0.1),
    "0/1, 30% changed": partial(zero_one, changed=0.3),
    "0/1, 50% changed": partial(zero_one, changed=0.5),
    "grades 1–5": grades,
    "F1 of answers": f1_of_answers,
    "rare failures": rare_failures,
    "0/1, clusters of 5": clustered,
    "0/1, a slice of 30%": sliced,
    "0/1, 3% lost": with_losses,
}
UNITS = (1, 2, 5, 10, 20, 60, 200, 1_000)


class Store:
    """Runs with tables of answers, and the command on them."""

    def __init__(self) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient()
        self.experiment = self.client.create_experiment(f"gates {os.urandom(4).hex()}")

    def log(self, scores: Array, columns: Mapping[str, list[str]], first: int = 0) -> str:
        """The id of a run with these answers, of which the first has this number."""
        run_id = self.client.create_run(self.experiment).info.run_id
        self.add(run_id, scores, columns, first)
        self.client.set_terminated(run_id)
        return run_id

    def add(
        self, run_id: str, scores: Array, columns: Mapping[str, list[str]], first: int = 0
    ) -> None:
        """More answers of a run."""
        there = np.flatnonzero(~np.isnan(scores))
        table = {"question": [f"q{first + i}" for i in there], "score": scores[there].tolist()}
        table |= {name: [values[i] for i in there] for name, values in columns.items()}
        self.client.log_table(run_id, table, "answers.json")

    def trace(self, scores: Array) -> str:
        """The id of an evaluation run: a trace an answer, with its passage and a score a scorer."""
        import mlflow

        tags = {"mlflow.runType": "genai_evaluate"}
        with mlflow.start_run(experiment_id=self.experiment, tags=tags) as run:
            for i, row in enumerate(scores):
                with mlflow.start_span("answer") as span:
                    span.set_inputs({"question": f"question {i}", "passage": f"passage {i // 5}"})
                for k, value in enumerate(row):
                    mlflow.log_feedback(
                        trace_id=span.trace_id, name=f"scorer {k}", value=float(value)
                    )
        return run.info.run_id

    def gate(self, candidate: str, champion: str, *options: str) -> dict[str, Any]:
        """What `mleval gate --output json` says."""
        from click.testing import CliRunner

        from mlflow_mleval.cli import main

        said = CliRunner().invoke(
            main, ["gate", candidate, "--champion", champion, *options, "--output", "json"]
        )
        if said.exit_code not in (0, 3, 4):
            raise RuntimeError(said.output)
        return json.loads(said.stdout)

    def judge(self, answers: Answers, margin: float, *more: str, first: int = 0) -> dict[str, Any]:
        """The verdict on these answers."""
        both = (answers.candidate, answers.champion)
        return self.ask(
            [self.log(side, answers.columns, first) for side in both],
            margin,
            *more,
            *answers.options,
        )

    def ask(self, sides: Sequence[str], margin: float, *more: str) -> dict[str, Any]:
        """The verdict on runs with tables of answers."""
        asked = ("--read", "table=answers.json", "--read", "instance-by=question", "--max", "score")
        return self.gate(*sides, *asked, "--margin", f"score={margin:g}", *more)


def command(
    rng: np.random.Generator,
    n: int,
    tables: Sequence[str] = tuple(TABLES),
    sizes: Sequence[int] = UNITS,
) -> Iterator[dict[str, object]]:
    """Wrong SHIP and wrong BLOCK of one measure whose true difference is minus its margin, by the
    gate and by t tests on the same answers.
    """
    store = Store()
    wrong, asked = np.zeros((2, 2, len(sizes))), np.zeros(len(sizes))
    for name in tables:
        make = TABLES[name]
        for scale in (0.01, 0.05):
            margin = 4 * scale if make is grades else scale
            if (name, scale) == ("0/1, 2% changed", 0.05):
                continue  # no such difference: it would take more changes
            rows = [{"differences": name, "margin": margin, "by": by} for by in ("gate", "t tests")]
            for at, units in enumerate(sizes):
                if make is clustered and units < 10:
                    for row in rows:
                        row[f"{units:,}"] = "–"  # a single cluster is an error
                    continue
                drawn = [make(rng, units, scale) for _ in range(n)]
                said = [
                    [store.judge(answers, margin)["decision"] for answers in drawn],
                    [simple(differences(answers), margin) for answers in drawn],
                ]
                asked[at] += n
                for row, decisions, counts in zip(rows, said, wrong, strict=True):
                    found = [decisions.count("ship"), decisions.count("block")]
                    counts[:, at] += found
                    row[f"{units:,}"] = ", ".join(f"{count / n:.2f}" for count in found)
            yield from rows
    for by, counts in zip(("gate", "t tests"), wrong, strict=True):
        rates = {
            f"{units:,}": f"{ship:.3f}, {block:.3f}"
            for units, ship, block in zip(sizes, *counts / asked, strict=True)
        }
        yield {"differences": "all together", "margin": "", "by": by} | rates


def differences(answers: Answers) -> Array:
    """Of the answers that both have, units x 1."""
    d = answers.candidate - answers.champion
    return d[~np.isnan(d), None]


def needed(
    rng: np.random.Generator,
    n: int,
    sizes: Sequence[int] = (60, 200, 1_000),
    fresh: int = 4,
    by: str = "one look",
) -> Iterator[dict[str, object]]:
    """In how many gates on two that are equal a number of units is told, and how many gates on as
    many fresh ones ship: at one look, by bets, or as the next gates of ledgers.
    """
    store = Store()
    for units in sizes:
        margin = 0.02 if units >= 1_000 else 0.05
        for changed in (0.1, 0.3, 0.5):
            told, shares = [], []
            for _ in range(n):
                said = store.judge(zero_one(rng, units, 0.0, changed), margin, *_first(by))
                if said["decision"] == "run more" and (count := said["needed"]["zero"]):
                    ships = [
                        _ships(store, rng, int(count), changed, margin, by) for _ in range(fresh)
                    ]
                    told.append(count)
                    shares.append(np.mean(ships))
            row = {"asked": by, "units": units, "changed": changed, "margin": margin}
            row |= {"gates": n, "told": f"{len(told) / n:.2f}"}
            row["needed"] = round(np.median(told)) if told else "–"
            yield row | {"power": rate(shares), "fresh gates": fresh * len(told)}


def _first(by: str) -> tuple[str, ...]:
    """Options of a gate; a ledger of its own."""
    ledger = ("--ledger", f"needed {os.urandom(6).hex()}")
    return {"one look": (), "bets": ("--anytime",), "ledger": ledger}[by]


def _ships(
    store: Store, rng: np.random.Generator, count: int, changed: float, margin: float, by: str
) -> bool:
    """Whether a gate on so many answers ships; in a ledger the second, as told for."""
    asked = _first(by)
    if by == "ledger":
        store.judge(zero_one(rng, 2, 0.0, changed), margin, *asked)
    said = store.judge(zero_one(rng, count, 0.0, changed), margin, *asked)
    return bool(said["decision"] == "ship")


def rate(values: Sequence[float] | Array) -> str:
    """The mean of values, and its standard error."""
    if len(values) < 2:
        return "–"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def looks(
    rng: np.random.Generator, n: int, times: int = 50, each: int = 20
) -> Iterator[dict[str, object]]:
    """Fifty looks at two runs that grow to 1,000 answers, of which the candidate is worse by just
    the margin, by bets.
    """
    store = Store()
    designs: dict[str, tuple[Callable[..., Answers], float]] = {
        "0/1, 10% changed": (TABLES["0/1, 10% changed"], 0.05),
        "0/1, 50% changed": (TABLES["0/1, 50% changed"], 0.05),
        "3% lose 1": (rare_losses, 0.03),
    }
    for name, (make, margin) in designs.items():
        found = []
        for _ in range(n):
            sides = [store.client.create_run(store.experiment).info.run_id for _ in range(2)]
            decisions = []
            for look in range(times):
                answers = make(rng, each, margin)
                for side, scores in zip(sides, (answers.candidate, answers.champion), strict=True):
                    store.add(side, scores, {}, look * each)
                said = store.ask(sides, margin, "--anytime", *answers.options)
                decisions.append(said["decision"])
                if decisions[-1] != "run more":
                    break  # what was decided stands
            found.append(decisions[-1])
        row = {"differences": name, "margin": margin, "repetitions": n}
        yield row | {
            f"wrongly {key}": rate(np.equal(found, key).astype(float)) for key in ("ship", "block")
        }


def ledger(
    rng: np.random.Generator, n: int, gates: int = 200, units: int = 1_000
) -> Iterator[dict[str, object]]:
    """A stream of changes to a system, each judged on fresh answers of which some 12% change: to be
    better is to be shipped. One in ten is better by .1, or none is.
    """
    store = Store()
    for share, error in ((0.1, "fdr"), (0.1, "family"), (0.0, "fdr")):
        kept: dict[str, list[Array]] = {f"ledger, {error}": [], "P ≥ .95 each time": []}
        for stream in range(n):
            good = rng.random(gates) < share
            ships = np.zeros((2, gates), bool)
            name = f"{store.experiment}-{share}-{error}-{stream}"
            asked = ("--ledger", f"{name}:error={error}", "--improve", "score")
            for at in range(gates):
                answers = zero_one(rng, units, -0.1 * good[at], 0.12)
                said = store.judge(answers, MARGIN, *asked, first=at * units)["decision"]
                ships[:, at] = said == "ship", simple(differences(answers), 0.0) == "ship"
            for streams, row in zip(kept.values(), ships, strict=True):
                streams.append(np.array([row & ~good, row & good, good]).sum(axis=1))
        for by, streams in kept.items():
            wrong, right, there = np.transpose(streams)
            row = {"better by .1": f"{share:.0%}", "streams": n, "gates": n * gates, "kept by": by}
            row |= {"wrong ones kept": wrong.mean(), "of": (gates - there).mean()}
            row["share wrong"] = f"{np.mean(wrong / np.maximum(wrong + right, 1)):.3f}"
            yield row | {"good ones kept": f"{right.sum()} of {there.sum()}"}


# --------------------------------------------------------------------------------------------------
# Differences straight into the tests.


def binary(rng: np.random.Generator, n: int, m: int) -> Array:
    """Wins and losses on a tenth of the units, mostly of the same ones."""
    differ = rng.random((n, 1)) < 0.12
    return np.where(differ & (rng.random((n, m)) < 0.8), rng.choice([-1.0, 1.0], (n, m)), 0.0)


def rare(rng: np.random.Generator, n: int, m: int) -> Array:
    """Losses on one unit in a hundred, and no wins, around their mean."""
    return 0.01 - (rng.random((n, m)) < 0.01)


def judge(d: Array, parts: int = 0, margin: float = MARGIN, **more: object) -> GateTests:
    """The gate on differences, with disjoint slices of equal size."""
    frame = pd.DataFrame(d.clip(-1.2, 1.2), columns=[f"m{i}" for i in range(d.shape[1])])
    place = np.arange(len(d)) % max(parts, 1)
    slices = {f"part {k}": place == k for k in range(parts)}
    bounds = dict.fromkeys(frame, max(float(frame.abs().max(axis=None)), 1.0))
    terms = {name: more.pop(name) for name in ("anytime", "improve") if name in more}
    asked = Terms(dict.fromkeys(frame, margin), alpha=ALPHA, n_resamples=DRAWS, **terms)
    return gate_tests(Differences(frame, slices, bounds=bounds, **more), asked)


def simple(d: Array, margin: float) -> str:
    """A gate by t tests: Bonferroni over the measures for BLOCK, each at alpha for SHIP."""
    if len(d) < 2:
        return "run more"
    mean, deviation = d.mean(axis=0) + margin, d.std(axis=0, ddof=1) / np.sqrt(len(d))
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.nan_to_num(mean / deviation)
    if stats.t.cdf(statistic.min(), len(d) - 1) <= ALPHA / len(statistic):
        return "block"
    return "ship" if stats.t.sf(statistic.min(), len(d) - 1) <= ALPHA else "run more"


def power(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """What the gate finds beside t tests with Bonferroni, and how often each errs."""
    for changed, margin, measures in ((0.1, 0.05, 1), (0.3, 0.05, 1), (0.3, 0.05, 6)):
        for true, right in ((0.05, "ship"), (0.0, "ship"), (-margin, "neither"), (-0.15, "block")):
            if abs(true) > changed:
                continue
            row: dict[str, object] = {"measures": measures, "changed": changed, "true": true}
            for units in (60, 200, 1_000):
                counts = {"gate": 0, "t": 0}
                lost = (changed - true) / 2
                for _ in range(n):
                    p = [lost, 1 - changed, changed - lost]
                    d = rng.choice([-1.0, 0.0, 1.0], (units, measures), p=p)
                    said = {"gate": judge(d, margin=margin).decision, "t": simple(d, margin)}
                    for who, what in said.items():
                        counts[who] += what == right if right != "neither" else what != "run more"
                shares = (f"{who} {count / n:.2f}" for who, count in counts.items())
                row[f"{units:,}"] = ", ".join(shares)
            yield row | {"counted": right if right != "neither" else "ship or block: errors"}


def peer(rng: np.random.Generator, n: int) -> Iterator[dict[str, object]]:
    """Runs of answers with traces, by two sides that are equally good: how often
    `mlflow.genai.compare_evaluations` (MLflow 3.18) says at .05 that one is better, t tests with
    Bonferroni that the candidate is worse, and `mleval gate` without a margin that it is.
    """
    from mlflow.genai import compare_evaluations

    store = Store()
    for name, make in (
        ("60 answers, six scorers of 0 and 1", six_scorers),
        ("60 answers about 12 passages, which change together", passages),
        ("60 answers, most gain a little and a few lose all", skewed),
    ):
        said = {"compare_evaluations": 0, "t tests": 0, "gate": 0}
        for _ in range(n):
            champion, candidate, options = make(rng)
            runs = [store.trace(scores) for scores in (candidate, champion)]
            scorers = compare_evaluations(*runs).scorers.values()
            said["compare_evaluations"] += any(
                scorer.status == "ok" and scorer.p_value < ALPHA for scorer in scorers
            )
            said["t tests"] += simple(candidate - champion, 0.0) == "block"
            asked = ("--directions", "proposed", "--margin", "0", *options)
            said["gate"] += store.gate(*runs, *asked)["decision"] == "block"
        yield {"answers": name} | {who: count / n for who, count in said.items()}


def six_scorers(rng: np.random.Generator) -> tuple[Array, Array, tuple[str, ...]]:
    """Champion, candidate, and how the gate is asked."""
    pairs = [zero_one(rng, 60, 0.0, 0.3) for _ in range(6)]
    champion, candidate = (np.column_stack([pair[side] for pair in pairs]) for side in (0, 1))
    return champion, candidate, ()


def passages(rng: np.random.Generator) -> tuple[Array, Array, tuple[str, ...]]:
    """Champion, candidate, and how the gate is asked."""
    of = np.arange(60) // 5
    each = zero_one(rng, 12, 0.0, 0.5)
    return each.champion[of, None], each.candidate[of, None], ("--cluster", "passage")


def skewed(rng: np.random.Generator) -> tuple[Array, Array, tuple[str, ...]]:
    """Champion, candidate, and how the gate is asked."""
    d = np.where(rng.random(60) < 0.05, -0.8, 0.8 * 0.05 / 0.95)
    champion = np.full((60, 1), 0.8)
    return champion, champion + d[:, None], ("--bound", "1")


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


PARTS = {
    "command": command,
    "needed": needed,
    "needed-bets": partial(needed, sizes=(200,), by="bets"),
    "needed-ledger": partial(needed, sizes=(200,), by="ledger"),
    "looks": looks,
    "ledger": ledger,
    "peer": peer,
    "power": power,
    "together": together,
}
#: Repetitions by default.
SIZES = {
    **{"command": 100, "needed": 40, "needed-bets": 20, "needed-ledger": 20},
    **{"looks": 8, "ledger": 1},
    **{"peer": 40, "power": 300, "together": 200},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    n = chosen.repetitions or SIZES[chosen.part]
    if chosen.part not in ("power", "together"):
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{tempfile.mkdtemp()}/mlflow.db"
        os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    for i, row in enumerate(PARTS[chosen.part](np.random.default_rng(chosen.seed), n)):
        if not i:
            print("|", " | ".join(row), "|\n|", "---|" * len(row), sep="")
        print("|", " | ".join(map(str, row.values())), "|", flush=True)


if __name__ == "__main__":
    main()
