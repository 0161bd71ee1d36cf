"""Counts of right and wrong label cells by fold, from the artifacts of the runs of a study."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.folds.fold_comparison import COUNTS
from mlflow_mleval.errors import MeasureError, MissingResultsError
from mlflow_mleval.naming import some
from mlflow_mleval.study import Excluded, Study, left_out
from mlflow_mleval.tracking import schema, store
from mlflow_mleval.tracking.bounds import read_table
from mlflow_mleval.tracking.fold_sources import artifact, at_once, by_fold
from mlflow_mleval.tracking.query import load_study
from mlflow_mleval.validation import refuse_keywords

CELLS = ("tp", "fp", "fn", "tn")


def with_counts(study: Study, labels: Iterable[Hashable] | None = None) -> Study:
    """The study with tp, fp, fn and tn of every fold beside its measures, summed over labels.

    Tests over folds can then be made on them and on the rates that follow (tpr, fpr ..), or on a
    single label.

    Parameters
    ----------
    study : Study
        As `load_study` returns it, with values by fold.
    labels : iterable, optional
        Only these labels. Runs hold their names as text.

    Raises
    ------
    MissingResultsError
        No run of the study carries counts, or none of its labels is among `labels`.
    StoreError
        The store cannot be reached.
    """
    wanted = None if labels is None else [str(label) for label in labels]
    runs = study.runs[["dataset", "method", "run_id"]].drop_duplicates("run_id")
    client = store.connect()
    tables = at_once(
        lambda run_id: artifact(
            client, run_id, schema.ARTIFACT_COUNTS, lambda path: _sums(path, wanted)
        ),
        runs["run_id"],
    )
    parts, without, broken = [], [], []
    for run, sums in zip(runs.itertuples(), tables, strict=True):
        if isinstance(sums, str):
            name = f"{schema.ARTIFACT_COUNTS} of {run.method} on {run.dataset} (run {run.run_id})"
            broken.append(Excluded("artifact", name, sums))
        if not isinstance(sums, pd.DataFrame) or sums.empty:
            without.append(f"{run.method} on {run.dataset}")
            continue
        keys = [(run.dataset, run.method, fold) for fold in sums.index]
        parts.append(
            sums.set_axis(pd.MultiIndex.from_tuples(keys, names=["dataset", "method", "fold"]))
        )
    if study.folds is None or not parts:
        which = "" if wanted is None else f" of {some(map(repr, wanted))}"
        why = f" {' '.join(left_out(broken))}" if broken else ""
        raise MissingResultsError(
            f"no run of the study carries counts by fold{which}. Log the evaluations with "
            f"folds.{why}"
        )
    notes = (
        [f"{len(without)} of {len(runs)} runs carry no counts ({some(without)})."]
        if without
        else []
    )
    over_repeats = pd.concat(parts).groupby(level=[0, 1, 2]).mean()
    folds = study.folds.drop(columns=[c for c in CELLS if c in study.folds]).join(over_repeats)
    return replace(
        study, folds=folds, notes=(*study.notes, *notes), excluded=(*study.excluded, *broken)
    )


def _sums(path: Path, labels: list[str] | None) -> pd.DataFrame:
    """tp, fp, fn and tn of each fold in a run's table of counts, of these labels only."""
    table = read_table(path, ["fold", *CELLS], ["label"] if labels is not None else [])
    if labels is not None:
        table = table[table["label"].isin(labels)]
    if (table[list(CELLS)].to_numpy(float) < 0).any():
        raise ValueError("a count is negative")
    return table.groupby(by_fold(table))[list(CELLS)].sum().astype(float)


def load_folds(measures: Iterable[str] | None = None, **selection: Any) -> Study:
    """The Study that a selection of runs yields, with counts by fold where measures or rates of
    counts are asked for.

    Parameters
    ----------
    measures : iterable of str, optional
        As for `load_study`; also tp, fp, fn, tn and the rates tpr, fpr, tnr, fnr, from metrics of
        these names where runs have them, else from their tables of counts.
    **selection
        The other arguments of `load_study`.
    """
    refuse_keywords(load_study, selection)
    names = None if measures is None else list(measures)
    counted = [m for m in names or () if m in COUNTS]
    if not counted:
        return load_study(measures=names, **selection)
    others = [m for m in names if m not in COUNTS]
    declared = {way: [m for m in CELLS if COUNTS[m] == way[:3]] for way in ("minimize", "maximize")}
    ways = {way: [*selection.pop(way, ()), *declared[way]] for way in declared}
    selected: dict[str, Any] = {**selection, **ways}
    try:
        return load_study(measures=[*others, *CELLS], **selected)
    except MeasureError:
        return with_counts(load_study(measures=others or None, **selection))
