"""Repeats: how many runs each value is the mean of, and how they scatter."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.document import ALWAYS, Column, Section, Table, Text, name
from mlflow_mleval.report.numerals import ARROWS, NONE, aligned, fixed
from mlflow_mleval.study import Study

#: Measures that are shown, those of most weight; rows of a table.
MEASURES, METHODS = 3, 100


def section(c: Comparison) -> Section | None:
    """Mean, standard deviation and number of runs of each cell; nothing where no method has several
    runs.
    """
    if c.study.repeats is None or c.study.n_repeats.max() < 2:
        return None
    shown = [c.on] if c.on != FUSED else c.fusion.by_weight[:MEASURES]
    if len(c.study.datasets) == 1:
        tables = [_on_one(c, shown)]
    else:
        tables = [_over_datasets(c, measure, i) for i, measure in enumerate(shown, start=1)]
    runs = c.study.n_repeats
    return Section(
        "repeats",
        "Repeats",
        [Text([*sentences(c.study)], depth=ALWAYS), *tables],
        hint=f"{_span(runs)} runs each",
    )


def data(c: Comparison) -> dict[str, Any]:
    study = c.study
    return {
        "repeats": _nested(study.n_repeats.to_dict()),
        "spread": _nested(study.spread.to_dict(orient="index")),
        "standard_errors": _nested(study.standard_errors.to_dict(orient="index")),
        "same_split": study.same_split(),
    }


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
    if c.study.repeats is None:
        return {}
    parts = {
        "mean": c.study.repeats.groupby(level=[0, 1], sort=False).mean(),
        "sd": c.study.spread,
        "standard_error": c.study.standard_errors,
        "runs": c.study.repeats.groupby(level=[0, 1], sort=False).count(),
    }
    stacked = {key: frame.rename_axis(columns="measure").stack() for key, frame in parts.items()}
    table = pd.DataFrame(stacked).reindex(stacked["runs"].index).reset_index()
    return {
        "repeats": table[["measure", "dataset", "method", "runs", "mean", "sd", "standard_error"]]
    }


def sentences(study: Study) -> list[str]:
    """What the values are means of, and whether their spread is that of training or that of the
    data, too.
    """
    runs = study.n_repeats
    said = {
        True: (
            "The repeats share their split of the data, so that their spread is the training's, "
            "not the data's."
        ),
        False: (
            "The repeats split the data in different ways, so that their spread is that of "
            "training and data together."
        ),
        None: (
            "How the repeats split the data is not recorded; on one split, their spread is the "
            "training's, not the data's."
        ),
    }[study.same_split()]
    alike = "" if study.source.get("duplicates") == "mean" else " that differ in their seed only"
    words = (
        f"Each value is the mean over {_span(runs)} runs{alike} ({count(int(runs.sum()), 'run')})."
    )
    return [f"{words} {said}"]


def _span(runs: pd.Series) -> str:
    low, high = int(runs.min()), int(runs.max())
    return str(low) if low == high else f"{low} to {high}"


def _nested(cells: dict[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for (dataset, method), value in cells.items():
        found.setdefault(dataset, {})[method] = value
    return found


def _cells(
    study: Study, measure: str, dataset: str, methods: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """Mean with standard deviation, standard error, and number of runs, a method each."""
    means, spread = study.values[measure], study.spread[measure]
    errors, runs = study.standard_errors[measure], study.n_repeats
    at = [(dataset, m) for m in methods]
    numbers = aligned(
        [x for cell in at for x in (means.get(cell), spread.get(cell), errors.get(cell))]
    )
    texts = [
        mean if sd == NONE else f"{mean} ± {sd}"
        for mean, sd in zip(numbers[::3], numbers[1::3], strict=True)
    ]
    return texts, numbers[2::3], [fixed(runs.get(cell), 0) for cell in at]


def _on_one(c: Comparison, measures: Sequence[str]) -> Table:
    dataset, methods = c.study.datasets[0], c.order[:METHODS]
    columns = [doc.names("method", methods)]
    for i, measure in enumerate(measures):
        texts, errors, runs = _cells(c.study, measure, dataset, methods)
        columns.append(
            Column(f"{name(measure, 18)} {ARROWS[c.study.directions[measure]]}", texts, keep=3)
        )
        columns.append(
            Column("SE", errors, keep=1, note="" if i else "SE: standard error of the mean.")
        )
    columns.insert(1, Column("runs", runs, note="Mean ± standard deviation over the runs."))
    return Table(
        columns,
        len(c.order),
        caption=f"Mean and spread over repeats on {name(dataset)}",
        key="repeats",
        things="methods",
        depth=ALWAYS,
    )


def _over_datasets(c: Comparison, measure: str, i: int) -> Table:
    methods = c.order[:METHODS]
    columns = [doc.names("method", methods)]
    for k, dataset in enumerate(c.study.datasets):
        texts, _, runs = _cells(c.study, measure, dataset, methods)
        cells = [
            text if n == NONE else f"{text} ({n})" for text, n in zip(texts, runs, strict=True)
        ]
        columns.append(
            Column(
                name(dataset, 18), cells, keep=len(c.study.datasets) - k, marks={"dataset": dataset}
            )
        )
    note = (
        "Mean ± standard deviation (number of runs); the standard error is the deviation over "
        "the root of the number."
    )
    shown = f"{name(measure)} {ARROWS[c.study.directions[measure]]}"
    return Table(
        columns,
        len(c.order),
        title=f"{shown} over repeats",
        caption=f"Mean and spread of {shown} over repeats",
        key=f"repeats-{i}",
        things="methods",
        note=note,
        depth=ALWAYS if i == 1 else doc.PAPER,
    )
