"""Counts of right and wrong label cells by fold, from the artifacts of the runs of a study."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.folds.fold_comparison import COUNTS
from mlflow_mleval.errors import MeasureError, MissingResultsError
from mlflow_mleval.naming import some
from mlflow_mleval.study import Study
from mlflow_mleval.tracking import schema, store
from mlflow_mleval.tracking.fold_sources import artifact, at_once
from mlflow_mleval.tracking.query import load_study

CELLS = ("tp", "fp", "fn", "tn")


def with_counts(study: Study, labels: Iterable[Hashable] | None = None) -> Study:
    """The study with tp, fp, fn and tn of every fold beside its measures, summed over labels.

    Tests over folds can then be made on them and on the rates that follow (tpr, fpr ..), or on a single label.

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
    tables = at_once(lambda run_id: artifact(client, run_id, schema.ARTIFACT_COUNTS), runs["run_id"])
    parts, without = [], []
    for run, table in zip(runs.itertuples(), tables, strict=True):
        if table is not None and wanted is not None:
            table = table[table["label"].astype(str).isin(wanted)]
        if table is None or table.empty:
            without.append(f"{run.method} on {run.dataset}")
            continue
        sums = table.groupby("fold")[list(CELLS)].sum().astype(float)
        keys = [(run.dataset, run.method, fold) for fold in sums.index]
        parts.append(sums.set_axis(pd.MultiIndex.from_tuples(keys, names=["dataset", "method", "fold"])))
    if study.folds is None or not parts:
        which = "" if wanted is None else f" of {some(map(repr, wanted))}"
        raise MissingResultsError(f"no run of the study carries counts by fold{which}. Log the evaluations with folds.")
    notes = [f"{len(without)} of {len(runs)} runs carry no counts ({some(without)})."] if without else []
    folds = study.folds.drop(columns=[c for c in CELLS if c in study.folds]).join(pd.concat(parts))
    return replace(study, folds=folds, notes=(*study.notes, *notes))


def load_folds(measures: Iterable[str] | None = None, **selection: Any) -> Study:
    """The Study that a selection of runs yields, with counts by fold where measures or rates of counts are asked for.

    Parameters
    ----------
    measures : iterable of str, optional
        As for `load_study`; also tp, fp, fn, tn and the rates tpr, fpr, tnr, fnr, from metrics of these names where runs have
        them, else from their tables of counts.
    **selection
        The other arguments of `load_study`.
    """
    names = None if measures is None else list(measures)
    counted = [m for m in names or () if m in COUNTS]
    if not counted:
        return load_study(measures=names, **selection)
    others = [m for m in names if m not in COUNTS]
    declared = {way: [m for m in CELLS if COUNTS[m] == way[:3]] for way in ("minimize", "maximize")}
    ways = {way: [*selection.pop(way, ()), *declared[way]] for way in declared}
    try:
        return load_study(measures=[*others, *CELLS], **ways, **selection)
    except MeasureError:
        return with_counts(load_study(measures=others or None, **selection))
