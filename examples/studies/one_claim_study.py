"""How often pages claim what is not so, and what tests on few datasets find.

python examples/studies/one_claim_study.py null-pages [--pages 200]
python examples/studies/one_claim_study.py power [--studies 120]
python examples/studies/one_claim_study.py few-datasets [--draws 400]
python examples/studies/one_claim_study.py contradictions [--studies 150]
python examples/studies/one_claim_study.py companions [--choices 6]
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from click.testing import CliRunner
from scipy.stats import binom

from mlflow_mleval.analysis.answer_comparison import Answers, aligned, compare_answers
from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.loss_profiles import Profiles, compare_profiles
from mlflow_mleval.analysis.pairs import PairTests, jointly
from mlflow_mleval.analysis.pairs_by_unit import flows_of_repeats, instance_tests
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.recommendation import NO, YES, decision
from mlflow_mleval.cli import main as mleval
from mlflow_mleval.errors import MissingResultsError
from mlflow_mleval.measures.registry import SETS
from mlflow_mleval.report.blocks import plain
from mlflow_mleval.report.content.decision import sentences
from mlflow_mleval.study import Study, Units

#: More null pages than this claim too much, whatever the page; and how rarely chance may say so of
#: a row, of which there are many.
MOST, BY_CHANCE = 0.06, 0.01
MEASURES = ["f1", "hamming_loss"]
Page = Callable[[np.random.Generator, Path], bool]
#: Words of a claim about the datasets that there are, and of one about others.
THESE, OTHERS = re.compile(r"these \w+ datasets"), re.compile(r"new datasets|\b[Uu]se ")


def results(
    rng: np.random.Generator,
    methods: int,
    datasets: int,
    units: int = 1,
    unit: str = "fold",
    design: str = "normal",
) -> pd.DataFrame:
    """Values of equal methods, as `mleval rank FILE` reads them: one row a dataset, method and fold
    or seed; datasets and folds are easy or hard for all methods. See `DESIGNS`.
    """
    index = pd.MultiIndex.from_product(
        [[f"d{k}" for k in range(datasets)], [f"m{k}" for k in range(methods)], range(units)],
        names=["dataset", "method", unit],
    )
    shape = datasets, methods, units, len(MEASURES)
    shared = 0.05 * rng.standard_normal((datasets, 1, 1, 1))
    folds = 0.02 * rng.standard_normal((datasets, 1, units, 1))
    both = 0.02 * rng.standard_normal((*shape[:3], 1))  # measures of a model go together
    values = 0.6 + shared + folds + DESIGNS[design](rng, both + 0.01 * rng.standard_normal(shape))
    values = values.round(2 if design == "ties" else 12)
    table = pd.DataFrame(values.reshape(-1, len(MEASURES)), index, MEASURES)
    table["hamming_loss"] = 1 - table["hamming_loss"]
    return table.reset_index() if units > 1 else table.droplevel(2).reset_index()


def _families(rng: np.random.Generator, own: np.ndarray) -> np.ndarray:
    """Methods in threes that are nearly one."""
    first = np.arange(own.shape[1]) // 3 * 3
    return own[:, first] + 0.1 * own


def _unequal(rng: np.random.Generator, own: np.ndarray) -> np.ndarray:
    """The first method varies three times as much, and some datasets much more than others."""
    own = own * np.exp(rng.standard_normal((len(own), 1, 1, 1)))
    own[:, 0] *= 3
    return own


def _crashes(rng: np.random.Generator, own: np.ndarray) -> np.ndarray:
    """Eight of 100 results fail."""
    return own - 0.5 * (rng.random((*own.shape[:3], 1)) < 0.08)


def _interactions(rng: np.random.Generator, own: np.ndarray) -> np.ndarray:
    """Equal over all datasets that there are, but each suits some methods more than others."""
    return own + 0.02 * rng.standard_normal((*own.shape[:2], 1, 1))


#: How equal methods vary by themselves; ties are values of two decimals.
DESIGNS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "normal": lambda rng, own: own,
    "ties": lambda rng, own: own,
    "families": _families,
    "unequal spread": _unequal,
    "crashes": _crashes,
    "interactions": _interactions,
}


def claims(record: Any) -> bool:
    """Whether the JSON of a page says of any two methods that they differ, in any sentence, a
    mark, the verdict on its question or a crossing, or an interval of a pair excludes 0.
    """
    if isinstance(record, list):
        return any(map(claims, record))
    if not isinstance(record, dict):
        return False
    low, high = (record.get(f"flow_{end}", record.get(end)) for end in ("low", "high"))
    return (
        any(record.get(mark) for mark in ("separated", "significant", "differ", "crossing"))
        or record.get("verdict") in (YES, NO)
        or ("separated" in record and low is not None and not low <= 0 <= high)
        or any(claims(value) for key, value in record.items() if key != "learned")
    )


def claims_of_others(record: dict[str, Any]) -> bool:
    """Whether a page claims a difference, and not of the datasets alone that it has."""
    said = " ".join(sentence["text"] for sentence in record["answer"]["sentences"])
    return claims(record) and (OTHERS.search(said) is not None or THESE.search(said) is None)


def command(
    *args: str,
    methods: int,
    datasets: int,
    units: int = 1,
    unit: str = "fold",
    design: str = "normal",
    found: Callable[[dict[str, Any]], bool] = claims,
) -> Page:
    """A page that a command makes from a file, and whether this is found in its JSON."""

    def page(rng: np.random.Generator, folder: Path) -> bool:
        file = folder / "results.csv"
        results(rng, methods, datasets, units, unit, design).to_csv(file, index=False)
        called = [args[0], str(file), *args[1:], "--output", "json"]
        done = CliRunner().invoke(mleval, called, catch_exceptions=False)
        if done.exit_code:
            raise click.ClickException(done.output)
        return found(json.loads(done.stdout))

    return page


def apart(tests: dict[str, PairTests]) -> bool:
    """Whether tests of several datasets, corrected together, separate any pair."""
    return any(one.separated for one in jointly(tests).values())


def over_instances(rng: np.random.Generator, folder: Path) -> bool:
    """Three methods on the 40 instances of each of eight datasets."""

    def tables() -> dict[str, pd.DataFrame]:
        hard = rng.standard_normal((40, 1))
        values = [hard + rng.standard_normal((40, 2)) for _ in range(3)]
        return {f"m{k}": pd.DataFrame(v, columns=MEASURES) for k, v in enumerate(values)}

    return apart({f"d{k}": instance_tests(tables(), MEASURES, n_resamples=999) for k in range(8)})


def over_answers(rng: np.random.Generator, folder: Path) -> bool:
    """Three methods that answer 60 questions of each of four datasets, two scorers."""

    def answered() -> Units:
        keys = pd.Index([f"q{k}" for k in range(60)])
        about = pd.DataFrame({"link": "", "asked": keys}, keys)
        right = rng.random(60)[:, None]
        given = [(rng.random((60, 2)) < right).astype(float) for _ in range(3)]
        tables = [pd.DataFrame(values, keys, ["exact", "polite"]) for values in given]
        passing = ("exact", "polite")
        answers = {f"m{k}": Answers(t, about, passing=passing) for k, t in enumerate(tables)}
        return aligned(answers)

    return apart({f"d{k}": compare_answers(answered(), n_resamples=999) for k in range(4)})


def over_profiles(rng: np.random.Generator, folder: Path) -> bool:
    """Three methods on six datasets with six labels, ten folds of 80 instances: every claim."""
    counts = {}
    for dataset in range(6):
        share = rng.dirichlet(np.full(7, 2.0))
        for method in range(3):
            folds = rng.multinomial(80, share, size=10)
            counts[f"d{dataset}", f"m{method}"] = folds
    known = {"split_digest": "x", "n_train": 720, "n_test": 80}
    runs = pd.DataFrame([{"dataset": d, "method": m, "run_id": d + m, **known} for d, m in counts])
    return len(compare_profiles(Profiles.from_counts(counts, runs=runs)).claims) > 0


PAGES: dict[str, Page] = {
    "rank": command("rank", methods=5, datasets=10),
    "rank, 20 x 10": command("rank", methods=20, datasets=10),
    "rank, 6 x 5 datasets": command("rank", methods=6, datasets=5),
    "rank, near-equal families": command("rank", methods=9, datasets=12, design="families"),
    "rank, ties": command("rank", methods=5, datasets=12, design="ties"),
    "rank, unequal spread": command("rank", methods=5, datasets=15, design="unequal spread"),
    "rank -m f1, crashes": command(*("rank", "-m", "f1"), methods=5, datasets=20, design="crashes"),
    "rank, 2 x 10, interactions": command("rank", methods=2, datasets=10, design="interactions"),
    "compare": command("compare", methods=5, datasets=10),
    "compare, interactions": command("compare", methods=5, datasets=8, design="interactions"),
    "report": command("report", methods=4, datasets=8, units=5),
    "report, 8 datasets x 5 repeats": command(
        "report", methods=4, datasets=8, units=5, unit="seed"
    ),
    "report, 2 datasets x 10 folds": command("report", methods=4, datasets=2, units=10),
    "report, 1 dataset x 10 folds": command("report", methods=4, datasets=1, units=10),
    "report, 1 dataset x 5 repeats": command("report", methods=4, datasets=1, units=5, unit="seed"),
    **{
        f"report, 3 datasets x 3 repeats, {design}": command(
            "report", methods=6, datasets=3, units=3, unit="seed", design=design
        )
        for design in ("normal", "families", "unequal spread")
    },
    "report, 2 x 10 x 3 repeats, interactions": command(
        "report", methods=2, datasets=10, units=3, unit="seed", design="interactions"
    ),
    "compare --over folds": command("compare", "--over", "folds", methods=4, datasets=5, units=10),
    "compare --over repeats": command(
        "compare", "--over", "repeats", methods=4, datasets=3, units=5, unit="seed"
    ),
    "compare --over instances": over_instances,
    "compare --over instances, answers": over_answers,
    "compare --over profiles": over_profiles,
}


def _few_that_interact(found: Callable[[dict[str, Any]], bool]) -> dict[str, Page]:
    """Methods that differ on each of fewer than six datasets, and not over all that there are."""
    design: dict[str, Any] = {"methods": 4, "design": "interactions", "found": found}
    return {
        "report, 3 datasets x 3 repeats": command(
            "report", datasets=3, units=3, unit="seed", **design
        ),
        "report, 2 datasets x 10 folds": command("report", datasets=2, units=10, **design),
        "report, 5 datasets": command("report", datasets=5, **design),
    }


#: What they claim is true of these datasets: it is as often as they differ. Each must say of what.
INTERACT = _few_that_interact(claims)
PAGES |= {
    f"{name}, claims of others": p for name, p in _few_that_interact(claims_of_others).items()
}


def null_pages(
    pages: int, seed: int = 0, names: Sequence[str] = (), made: Mapping[str, Page] = PAGES
) -> pd.DataFrame:
    """By page, how many were made from equal methods, the share of them that say of any two that
    they differ, and whether it is too large.
    """
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, page) in enumerate(made.items()):
            if names and name not in names:
                continue
            rng = np.random.default_rng([seed, number])
            claimed = sum(page(rng, Path(folder)) for _ in range(pages))
            too_many = binom.sf(claimed - 1, pages, MOST) < BY_CHANCE
            rows[name] = pages, claimed / pages, too_many
    return pd.DataFrame.from_dict(rows, orient="index", columns=["pages", "share", "too many"])


def few_datasets(draws: int, seed: int = 0) -> Iterator[tuple[str, float, float, float]]:
    """By design: how often blocks of repeats separate any two equal methods; the same where methods
    suit datasets so that they are equal on average; and the share of pairs with the better of two
    groups of methods, one standard deviation apart, that they separate.
    """
    rng = np.random.default_rng(seed)
    for datasets, repeats, methods in ((2, 3, 3), (2, 5, 3), (3, 3, 3), (3, 5, 8), (5, 3, 8)):
        shape = datasets, methods
        none, cancels, better = [], [], []
        for _ in range(draws):
            none.append(len(separated(rng, np.zeros(shape), repeats)) > 0)
            suits = np.zeros(shape)
            suits[0, : methods // 2], suits[-1, : methods // 2] = 1.0, -1.0
            cancels.append(len(separated(rng, suits, repeats)) > 0)
            good = np.zeros(shape)
            good[:, : methods // 2] = 1.5
            pairs = separated(rng, good, repeats)
            true = [a < methods // 2 <= b for a, b in pairs]
            better.append(sum(true) / (methods // 2 * (methods - methods // 2)))
        design = f"{datasets} x {repeats} repeats, {methods} methods"
        yield design, *(float(np.mean(x)) for x in (none, cancels, better))


def separated(rng: np.random.Generator, effects: np.ndarray, repeats: int) -> list[tuple[int, int]]:
    """The pairs (better, worse) that blocks of repeats separate; effects are datasets x methods, in
    standard deviations of a repeat.
    """
    datasets, methods = effects.shape
    index = pd.MultiIndex.from_product([range(datasets), range(methods), range(repeats)])
    values = np.repeat(effects.ravel(), repeats)[:, None] + rng.standard_normal((len(index), 2))
    values += np.repeat(rng.standard_normal(datasets), methods * repeats)[:, None]
    table = pd.DataFrame(values, index.set_names(["dataset", "method", "repeat"]), ["a", "b"])
    means = table.groupby(level=[0, 1]).mean()
    fusion = fuse(Study(means, {"a": "max", "b": "max"}, repeats=table))
    flows = flows_of_repeats(fusion)
    return [] if flows is None else list(max_t(flows).significant_pairs)


def power(studies: int, seed: int = 0) -> Iterator[tuple[str, float, float, float, float]]:
    """By design, of one measure: the share of pairs of methods from two groups that max-T, Nemenyi
    and Wilcoxon's test with Holm's correction find, and how often max-T separates equal ones.
    """
    rng = np.random.default_rng(seed)
    tails = {"t with 2 degrees": lambda shape: rng.standard_t(2, shape)}
    for methods, datasets, gap in ((5, 30, 1.0), (10, 20, 1.0)):
        good = np.arange(methods) < methods // 2
        for design in ("normal", "unequal spread", "8% crashes", "t with 2 degrees"):
            found = {test: list[float]() for test in ("max-t", "nemenyi", "wilcoxon")}
            wrong = []
            shape = datasets, methods
            for _ in range(studies):
                values = tails.get(design, rng.standard_normal)(shape) + gap * good
                if design == "unequal spread":
                    values *= np.exp(1.5 * rng.standard_normal((datasets, 1)))
                if design == "8% crashes":
                    values -= 20 * (rng.random(shape) < 0.08)
                frame = pd.DataFrame(values, [f"d{k}" for k in range(datasets)])
                long = frame.rename_axis("dataset").stack().rename_axis(["dataset", "method"])
                study = Study.from_frame(long.rename("f1").reset_index())
                for test, shares in found.items():
                    pairs = compare(study, test=test).separated
                    true = [good[a] and not good[b] for a, b in pairs]
                    shares.append(sum(true) / (good.sum() * (~good).sum()))
                    if test == "max-t":
                        wrong.append(any(good[a] == good[b] for a, b in pairs))
            shares = (float(np.mean(x)) for x in (*found.values(), wrong))
            yield f"{methods} x {datasets}, {design}", *shares


FORBIDDEN = re.compile(r"V-shape|entropy|Λ|separated|possible|weighs")


def published() -> Study:
    """Madjarov et al. (2012) by their sixteen measures; what did not finish counts as the worst."""
    with (files("mlflow_mleval") / "data" / "madjarov2012.csv").open(encoding="utf-8") as file:
        long = pd.read_csv(file)
    wide = long.pivot(index=["dataset", "method"], columns="measure", values="value")
    cells = pd.MultiIndex.from_product(
        [long["dataset"].unique(), long["method"].unique()], names=["dataset", "method"]
    )
    frame = wide.reindex(cells)[list(SETS["sixteen"])].reset_index()
    return Study.from_frame(frame, missing="worst")


def contradictions(n: int, seed: int) -> None:
    """Pages of random sub-studies that name a method which a separation puts below another."""
    rng, study = np.random.default_rng(seed), published()
    wrong, turned, one, words, forbidden = 0, 0, 0, [], 0
    done = 0
    while done < n:
        part = study.select(
            measures=_some(rng, study.measures, 1),
            methods=_some(rng, study.methods, 2),
            datasets=_some(rng, study.datasets, 6),
        )
        try:
            c = compare(part)
        except MissingResultsError:  # no method of this choice finished some dataset
            continue
        done += 1
        advice, below = decision(c), {worse for _, worse in c.separated}
        place = {method: i for i, method in enumerate(c.order)}
        against = any(place[better] > place[worse] for better, worse in c.separated)
        wrong += bool(against or below & {c.leader, *advice.ahead, *advice.best_set})
        turned += c.ranks.mean().idxmin() != c.leader
        one += len(advice.best_set) == 1
        said = " ".join(plain(sentence.text) for sentence in sentences(c, advice))
        words.append(len(said.split()))
        forbidden += bool(FORBIDDEN.search(said))
    print(f"{n} sub-studies (seed {seed})")
    print(f"contradicted by a separation: {wrong}")
    print(f"best mean rank is not the leader: {turned / n:.2f}")
    print(f"best set of one method: {one / n:.2f}")
    print(f"words of a decision: median {np.median(words):g}, most {max(words)}")
    print(f"decisions with a word of statistics: {forbidden}")


def _some(rng: np.random.Generator, names: list[str], least: int) -> list[str]:
    """At least so many of the names, at random, in their order."""
    chosen = set(rng.choice(names, rng.integers(least, len(names) + 1), replace=False))
    return [name for name in names if name in chosen]


def companions(n: int, seed: int) -> None:
    """P-values of pairs of methods under choices of three others that stand beside them."""
    rng, study = np.random.default_rng(seed), published()
    finished = study.finished().sum(axis=1)
    study = study.select(datasets=finished.index[finished >= 8].tolist())
    spread, crossing = [], 0
    pairs = list(combinations(study.methods, 2))
    for pair in pairs:
        others = [m for m in study.methods if m not in pair]
        pvalues = []
        for _ in range(n):
            beside = rng.choice(others, 3, replace=False)
            part = study.select(methods=[m for m in study.methods if m in {*pair, *beside}])
            flows = fuse(part).phi.where(part.finished().reindex(part.datasets))
            table = max_t(flows).table.set_index(["method_a", "method_b"])
            pvalues.append(float(table.loc[pair, "pvalue_corrected"]))
        spread.append((min(pvalues), max(pvalues), pair))
        crossing += min(pvalues) <= 0.05 < max(pvalues)
    print(f"{len(pairs)} pairs, each beside {n} choices of three others (seed {seed})")
    print(f"separated beside some companions and not beside others: {crossing}")
    for low, high, pair in sorted(spread, key=lambda row: row[0] - row[1])[:3]:
        print(f"{pair[0]} – {pair[1]}: p from {low:.3f} to {high:.2f}")
    whole = compare(study).needed_by
    print(whole[["better", "worse", "jackknife", "companions"]].to_string())


@click.group()
def main() -> None:
    """What pages claim, simulated."""


@main.command("null-pages")
@click.option("--pages", default=200, show_default=True)
def _null_pages(pages: int) -> None:
    found = null_pages(pages)
    click.echo(found.round(3).to_string())
    click.echo("Of fewer than six datasets on which methods differ, with claims that say so:")
    click.echo(null_pages(pages, made=INTERACT)["share"].round(3).to_string())
    if found["too many"].any():
        raise click.ClickException("some pages claim too often")


@main.command("power")
@click.option("--studies", default=120, show_default=True)
def _power(studies: int) -> None:
    for design, ours, nemenyi, wilcoxon, wrong in power(studies):
        click.echo(f"| {design} | {ours:.2f} | {nemenyi:.2f} | {wilcoxon:.2f} | {wrong:.3f} |")


@main.command("few-datasets")
@click.option("--draws", default=400, show_default=True)
def _few_datasets(draws: int) -> None:
    for design, none, cancels, better in few_datasets(draws):
        click.echo(f"{design}: error {none:.3f}, {cancels:.3f} where cancelled; power {better:.2f}")


@main.command("contradictions")
@click.option("--studies", default=150)
@click.option("--seed", default=0)
def _contradictions(studies: int, seed: int) -> None:
    """Random sub-studies of the published table: does a page contradict its own test?"""
    contradictions(studies, seed)


@main.command("companions")
@click.option("--choices", default=6)
@click.option("--seed", default=0)
def _beside(choices: int, seed: int) -> None:
    """Pairs of the published table beside other methods."""
    companions(choices, seed)


if __name__ == "__main__":
    main()
