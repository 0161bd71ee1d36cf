"""What the tests of the reports share: the published study, small studies of known shape, by
folds and with loss profiles, hostile names.
"""

from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd
from scipy import stats

from mlflow_mleval.analysis.comparison import Comparison, compare
from mlflow_mleval.analysis.loss_profiles import ProfileComparison, Profiles, compare_profiles
from mlflow_mleval.measures.registry import SETS
from mlflow_mleval.report.content.study_report import document
from mlflow_mleval.study import Study

PROVENANCE = {
    "command": "mleval report -n madjarov2012 --missing worst",
    "versions": {"python": "3.11.2", "mlflow-mleval": "0.1.0"},
    "tracking_uri": "sqlite:///mlflow.db",
    "experiments": ["madjarov2012"],
    "filter": "",
    "run_ids": ["0" * 32, "1" * 32],
    "policy": "worst",
    "seed": 0,
    "time": "2025-01-01T00:00:00+00:00",
}
NASTY = [
    *("<img src=x onerror=alert(1)>", "=cmd()|' /C calc'!A0", r"\input{/etc/passwd}"),
    *("\x1b[31mred\x1b[0m", "a\nb|c", "{0} %s {}", "[click](https://evil.example)"),
    *("\u202egnp.exe", "*", "[x]", "💥木村" * 12, "run-" + "x" * 300),
]


def render(
    comparison: Comparison,
    format: str = "table",
    what: str = "report",
    provenance: dict = PROVENANCE,
    width: int = 100,
):
    """The report about a comparison, or a part of it, in a format."""
    return document(comparison, provenance, what).render(format, width)


@cache
def published_study(missing: str = "worst") -> Study:
    """Madjarov et al. 2012 by the sixteen measures."""
    with (files("mlflow_mleval") / "data" / "madjarov2012.csv").open(encoding="utf-8") as file:
        long = pd.read_csv(file)
    wide = long.pivot(index=["dataset", "method"], columns="measure", values="value")
    pairs = pd.MultiIndex.from_product(
        [long["dataset"].unique(), long["method"].unique()], names=["dataset", "method"]
    )
    return Study.from_frame(
        wide.reindex(pairs)[list(SETS["sixteen"])].reset_index(), missing=missing
    )


@cache
def published(**options) -> Comparison:
    """The published study compared."""
    return compare(published_study(), **options)


def study_of(
    n_methods: int,
    n_datasets: int,
    gap: float = 0.0,
    seed: int = 0,
    decimals: int = 4,
    measures: tuple[str, ...] = ("f1", "hamming_loss"),
    names: list[str] | None = None,
) -> Study:
    """Method i is better than method i + 1 by `gap` on every dataset, plus noise."""
    rng = np.random.default_rng(seed)
    methods = names or [f"m{i}" for i in range(n_methods)]
    rows = []
    for d in range(n_datasets):
        for i in range(n_methods):
            quality = np.round(0.5 - gap * i + 0.01 * rng.standard_normal(len(measures)), decimals)
            values = {
                m: 1 - x if m == "hamming_loss" else x
                for m, x in zip(measures, quality, strict=True)
            }
            rows.append({"dataset": f"d{d}", "method": methods[i], **values})
    return Study.from_frame(
        pd.DataFrame(rows),
        maximize=[m for m in measures if m not in ("f1", "hamming_loss", "recall")],
    )


def nasty(**options) -> Comparison:
    """A comparison in which methods, datasets and a measure have hostile names."""
    study = study_of(
        len(NASTY), 4, gap=0.02, names=NASTY, measures=("f1", "hamming_loss", "\x1b[2J|<b>&_x")
    )
    values = study.values.rename(
        index=dict(zip([f"d{i}" for i in range(4)], NASTY, strict=False)), level=0
    )
    return compare(
        Study(values, study.directions, notes=("a note on \x1b]0;title\x07 </script> %",)),
        **options,
    )


def cells(table, head: str) -> list[str]:
    """The column of a table that stands under this heading."""
    return next(c.cells for c in table.columns if c.head == head)


def fold_study(
    shifts: dict[str, tuple[float, ...]],
    measures: tuple[str, ...] = ("precision", "recall"),
    n_folds: int = 10,
    datasets: tuple[str, ...] = ("birds",),
    seed: int = 0,
    **known: object,
) -> Study:
    """Results by fold around .6 plus each method's shifts, with noise of .02; `known` is what every
    run says of itself.
    """
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [datasets, shifts, range(n_folds)], names=["dataset", "method", "fold"]
    )
    noise = rng.normal(0.6, 0.02, (len(index), len(measures)))
    shift = np.array([shifts[m] for m in index.get_level_values("method")])
    folds = pd.DataFrame(noise + shift, index, list(measures))
    means = folds.groupby(level=[0, 1], sort=False).mean()
    runs = pd.DataFrame(
        [{"dataset": d, "method": m, "run_id": f"{d}/{m}", **known} for d, m in means.index]
    )
    return Study(means, dict.fromkeys(measures, "max"), folds=folds, runs=runs)


@cache
def three_methods() -> Study:
    """BR and CC alike, LP with better recall and worse precision; the split and the sizes of the
    folds are known.
    """
    shifts = {"BR": (0.0, 0.0), "CC": (0.0, 0.0), "LP": (-0.06, 0.06)}
    return fold_study(
        shifts, datasets=("birds", "flags"), split_digest="abc", n_train=90, n_test=10
    )


#: Share of instances that are touched at all, and the chance that a label of those is wrong.
BEHAVIOUR = {"BR": (1.0, 0.13), "LP": (0.4, 0.4), "CC": (0.75, 0.2)}


def histogram(
    touched: float, wrong: float, n_labels: int, n: int, rng: np.random.Generator
) -> np.ndarray:
    """How many of `n` instances have 0, 1, …, K wrong labels."""
    share = touched * stats.binom.pmf(np.arange(n_labels + 1), n_labels, wrong)
    share[0] += 1 - touched
    return rng.multinomial(n, share / share.sum())


def profiles(
    datasets: dict[str, int],
    behaviour: dict[str, tuple[float, float]] = BEHAVIOUR,
    n_folds: int = 10,
    n: int = 200,
    seed: int = 0,
) -> Profiles:
    """`datasets` names the number of labels of each; one row a fold, all folds the same split."""
    rng = np.random.default_rng(seed)
    counts = {
        (d, m): np.array([histogram(*how, k, n, rng) for _ in range(n_folds)])
        for d, k in datasets.items()
        for m, how in behaviour.items()
    }
    counts = {pair: rows[0] if n_folds == 1 else rows for pair, rows in counts.items()}
    known = {"split_digest": "same", "n_train": 9 * n, "n_test": n}
    runs = pd.DataFrame(
        [{"dataset": d, "method": m, "run_id": f"{d}/{m}", **known} for d, m in counts]
    )
    return Profiles.from_counts(counts, runs=runs)


@cache
def whole() -> Comparison:
    """Methods compared by two measures and by their profiles."""
    found = profiles({"yeast": 14, "scene": 6, "flags": 7})
    ends = found.awareness()
    values = pd.DataFrame({"hamming_loss": ends["hamming"], "f1": 1 - ends["subset"]})
    return compare(
        Study(values, {"hamming_loss": "min", "f1": "max"}, runs=found.runs), profiles=found
    )


@cache
def compared(
    datasets: tuple[tuple[str, int], ...] = (("yeast", 14), ("scene", 6), ("flags", 7)), **options
) -> ProfileComparison:
    """Three methods compared on these datasets."""
    return compare_profiles(profiles(dict(datasets)), **options)


@cache
def hostile():
    """Names of strangers, and the comparison of methods that are called so."""
    names = [*NASTY[:5], "<script>alert(1)</script>", "\u202egnp.exe", "x" * 200]
    behaviour = {name: (1 - 0.08 * i, 0.12 + 0.03 * i) for i, name in enumerate(names)}
    datasets = {NASTY[0]: 5, "<script>alert(2)</script>": 4}
    return names, compare_profiles(profiles(datasets, behaviour, n=60))
