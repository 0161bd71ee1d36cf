"""Comparisons that the tests of the reports share: the published study, small studies of known
shape, hostile names.
"""

from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import Comparison, compare
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
    "<img src=x onerror=alert(1)>",
    "=cmd()|' /C calc'!A0",
    r"\input{/etc/passwd}",
    "\x1b[31mred\x1b[0m",
    "a\nb|c",
    "{0} %s {}",
    "[click](https://evil.example)",
    "\u202egnp.exe",
    "*",
    "[x]",
    "💥木村" * 12,
    "run-" + "x" * 300,
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
