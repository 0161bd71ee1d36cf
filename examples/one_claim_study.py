"""How often pages claim what is not so, and what tests on few datasets find.

python examples/one_claim_study.py null-pages [--pages 200]
python examples/one_claim_study.py few-datasets [--draws 400]
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from click.testing import CliRunner

from mlflow_mleval.analysis.answer_comparison import Aligned, Answers, aligned, compare_answers
from mlflow_mleval.analysis.fusion import fuse
from mlflow_mleval.analysis.instance_tests import instance_tests
from mlflow_mleval.analysis.loss_profiles import Profiles
from mlflow_mleval.analysis.pair_tests import PairTests, jointly
from mlflow_mleval.analysis.posthoc.max_t import max_t
from mlflow_mleval.analysis.profile_comparison import compare_profiles
from mlflow_mleval.analysis.repeat_tests import flows_of_repeats
from mlflow_mleval.cli import main as mleval
from mlflow_mleval.study import Study

#: More null pages than this claim too much, whatever the page; and by how many standard errors.
MOST, ERRORS = 0.06, 2
MEASURES = ["f1", "hamming_loss"]
Page = Callable[[np.random.Generator, Path], bool]


def results(
    rng: np.random.Generator, methods: int, datasets: int, units: int = 1, unit: str = "fold"
) -> pd.DataFrame:
    """Values of equal methods, as `mleval rank FILE` reads them: one row a dataset, method and fold
    or seed; datasets and folds are easy or hard for all methods.
    """
    index = pd.MultiIndex.from_product(
        [
            [f"d{k}" for k in range(datasets)],
            [f"m{k}" for k in range(methods)],
            range(units),
        ],
        names=["dataset", "method", unit],
    )
    shape = datasets, methods, units, len(MEASURES)
    shared = 0.05 * rng.standard_normal((datasets, 1, 1, 1))
    folds = 0.02 * rng.standard_normal((datasets, 1, units, 1))
    both = 0.02 * rng.standard_normal((*shape[:3], 1))  # measures of a model go together
    values = 0.6 + shared + folds + both + 0.01 * rng.standard_normal(shape)
    table = pd.DataFrame(values.reshape(-1, len(MEASURES)), index, MEASURES)
    table["hamming_loss"] = 1 - table["hamming_loss"]
    return table.reset_index() if units > 1 else table.droplevel(2).reset_index()


def claims(record: dict[str, Any]) -> bool:
    """Whether the JSON of a page says of any two methods that they differ."""
    said = [*record.get("answer", {}).get("sentences", ()), *_sentences(record)]
    return bool(record["separated"]) or any(sentence["differ"] for sentence in said)


def _sentences(record: dict[str, Any]) -> list[Any]:
    verdict = record["verdict"]  # tests over other units than datasets say it as text
    return verdict if isinstance(verdict, list) else []


def command(*args: str, methods: int, datasets: int, units: int = 1, unit: str = "fold") -> Page:
    """A page that a command makes from a file."""

    def page(rng: np.random.Generator, folder: Path) -> bool:
        file = folder / "results.csv"
        results(rng, methods, datasets, units, unit).to_csv(file, index=False)
        called = [args[0], str(file), *args[1:], "--output", "json", "--quiet"]
        done = CliRunner().invoke(mleval, called, catch_exceptions=False)
        if done.exit_code:
            raise click.ClickException(done.output)
        return claims(json.loads(done.stdout))

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

    def answered() -> Aligned:
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
    """Three methods on six datasets with six labels, ten folds of 80 instances: every claim, over
    folds and over datasets.
    """
    counts = {}
    for dataset in range(6):
        share = rng.dirichlet(np.full(7, 2.0))
        for method in range(3):
            folds = rng.multinomial(80, share, size=10)
            counts[f"d{dataset}", f"m{method}"] = folds
    known = {"split_digest": "x", "n_train": 720, "n_test": 80}
    runs = pd.DataFrame([{"dataset": d, "method": m, "run_id": d + m, **known} for d, m in counts])
    found = compare_profiles(Profiles.from_counts(counts, runs=runs), n_resamples=10)
    across = found.across is not None and found.across["significant"].any()
    tests = [one for one in found.awareness_tests.values() if one is not None]
    return bool(len(found.claims) or across or any(one.significant_pairs for one in tests))


PAGES: dict[str, Page] = {
    "rank": command("rank", methods=5, datasets=10),
    "compare": command("compare", methods=5, datasets=10),
    "report": command("report", methods=4, datasets=8, units=5),
    "report, 2 datasets x 10 folds": command("report", methods=4, datasets=2, units=10),
    "report, 3 datasets x 3 repeats": command(
        "report", methods=4, datasets=3, units=3, unit="seed"
    ),
    "compare --over folds": command("compare", "--over", "folds", methods=4, datasets=5, units=10),
    "compare --over repeats": command(
        "compare", "--over", "repeats", methods=4, datasets=3, units=5, unit="seed"
    ),
    "compare --over instances": over_instances,
    "compare --over instances, answers": over_answers,
    "compare --over profiles": over_profiles,
}


#: Pages that take long.
SLOW = {name for name in PAGES if name.startswith("report") or name.endswith("folds")}


def null_pages(pages: int, seed: int = 0, names: Sequence[str] = ()) -> pd.DataFrame:
    """By page, how many were made from equal methods (of slow ones a third), the share of them that
    say of any two that they differ, and whether it is too large.
    """
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, page) in enumerate(PAGES.items()):
            if names and name not in names:
                continue
            rng = np.random.default_rng([seed, number])
            n = max(1, pages // (3 if name in SLOW else 1))
            share = float(np.mean([page(rng, Path(folder)) for _ in range(n)]))
            error = np.sqrt(MOST * (1 - MOST) / n)
            rows[name] = n, share, share > MOST + ERRORS * error
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


@click.group()
def main() -> None:
    """What pages claim, simulated."""


@main.command("null-pages")
@click.option("--pages", default=200, show_default=True)
def _null_pages(pages: int) -> None:
    found = null_pages(pages)
    click.echo(found.round(3).to_string())
    if found["too many"].any():
        raise click.ClickException("some pages claim too often")


@main.command("few-datasets")
@click.option("--draws", default=400, show_default=True)
def _few_datasets(draws: int) -> None:
    for design, none, cancels, better in few_datasets(draws):
        click.echo(f"{design}: error {none:.3f}, {cancels:.3f} where cancelled; power {better:.2f}")


if __name__ == "__main__":
    main()
