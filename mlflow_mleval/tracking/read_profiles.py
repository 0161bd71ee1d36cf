"""Loss profiles of tracked runs: `load_profiles` returns
`mlflow_mleval.analysis.loss_profiles.Profiles`.

One paged search reads them, for they travel in tags: the numbers of wrong labels by fold ("hard"),
and the mean i-th largest errors by fold ("soft"). `profiles_of` takes them from a Study that is
loaded already, so that a report of measures and profiles needs one search. Where a tag says that it
had no room, the artifact mleval/profile.csv is read, which has no folds. What has no profile is
listed in `Profiles.absent` with the reason; `Profiles.runs`, `.notes` and `.source` are those of
the study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.loss_profiles import Array, Pair, Profiles, gather
from mlflow_mleval.errors import MeasureError, NoRunsError
from mlflow_mleval.naming import some
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.tracking import schema, store
from mlflow_mleval.tracking.bounds import read_table
from mlflow_mleval.tracking.fold_sources import artifact, at_once
from mlflow_mleval.tracking.query import load_study
from mlflow_mleval.tracking.read_run import errors_of
from mlflow_mleval.validation import one_of, refuse_keywords

_OTHER = {"hard": "soft", "soft": "hard"}
_WHAT = {"hard": "label sets", "soft": "scores"}


def load_profiles(kind: Literal["hard", "soft"] = "hard", **selection: Any) -> Profiles:
    """The loss profiles that a selection of tracked runs carries.

    Parameters
    ----------
    kind : {"hard", "soft"}
        Of the predicted label sets, as in the study of Hüllermeier et al. (2022, section 5), or of
        the scores.
    **selection
        As for `load_study`: experiment_names, methods, datasets, filter_string …

    Returns
    -------
    Profiles

    Raises
    ------
    NoRunsError
        No run of the selection has such a profile; and as `load_study` does.
    MlevalError
        As `load_study` does.
    """
    refuse_keywords(load_study, selection)
    try:  # the measure that every profile gives: runs need not have any other in common
        study = load_study(
            **selection | {"measures": selection.get("measures") or ["hamming_loss"]}
        )
    except MeasureError:
        study = load_study(**selection)
    found = profiles_of(study, kind)
    return replace(
        found,
        notes=(*found.notes, *left_out(e for e in study.excluded if e.kind in ("run", "tag"))),
    )


def profiles_of(study: Study, kind: Literal["hard", "soft"] = "hard") -> Profiles:
    """The loss profiles of the runs of a study.

    Parameters
    ----------
    study : Study
        As `load_study` returns it.
    kind : {"hard", "soft"}

    Returns
    -------
    Profiles

    Raises
    ------
    NoRunsError
        None of the runs has such a profile.
    StoreError
        The store cannot be reached for runs whose tags do not hold the profile.
    """
    one_of(kind, "kind", schema.TAG_PROFILES)
    errors: dict[Pair, Array] = {}
    n_labels: dict[Pair, int] = {}
    folds: dict[Pair, tuple[int, ...]] = {}
    absent: dict[str, str] = {}
    pooled, elsewhere = [], []
    ids = (
        study.runs.set_index(["dataset", "method"])["run_id"].to_dict()
        if "run_id" in study.runs
        else {}
    )
    for pair in map(tuple, study.values.index):
        held, name = study.profiles.get(pair, {}), f"{pair[1]} on {pair[0]}"
        if kind not in [*held]:
            other = f"its run carries a profile of {_WHAT[_OTHER[kind]]} only"
            absent[name] = other if held else "its run carries no profile"
            continue
        tag = store.of_one_run(partial(held.__getitem__, kind))
        if isinstance(tag, str):
            absent[name] = f"{tag} (run {ids.get(pair, '')})"
            continue
        n_labels[pair], folds[pair] = tag.n_labels, tuple(tag.folds)
        if tag.omitted:
            elsewhere.append(pair)
        else:
            errors[pair] = errors_of(tag, kind)
        if tag.omitted or tag.pooled:
            pooled.append(name)
    tables = _from_artifacts({pair: (ids[pair], n_labels[pair]) for pair in elsewhere}, kind)
    for pair, row in zip(elsewhere, tables, strict=True):
        if row is None or isinstance(row, str):
            why = "" if row is None else f"{row}; "
            absent[f"{pair[1]} on {pair[0]}"] = (
                f"its run has no {schema.ARTIFACT_PROFILE} that holds it ({why}run {ids[pair]})"
            )
        else:
            errors[pair] = row.to_numpy()
    if not errors:
        reasons = "; ".join(f"{some([name])}: {why}" for name, why in list(absent.items())[:3])
        raise NoRunsError(
            f"no run of the selection has a loss profile of {_WHAT[kind]} ({reasons})."
        )
    notes = list(study.notes)
    if several := [f"{m} on {d}" for d, m in errors if (study.n_repeats.get((d, m), 1)) > 1]:
        notes.append(f"Loss profiles are of the latest repeat only: {some(several, 3)}.")
    if pooled:
        notes.append(
            f"{len(pooled)} profiles are of all folds together, for instances have weights or a "
            f"tag has no room for more ({some(pooled, 3)})."
        )
    return gather(
        errors,
        n_labels,
        folds,
        kind,
        absent=absent,
        runs=study.runs,
        notes=notes,
        source=study.source,
    )


def _from_artifacts(
    runs: Mapping[Pair, tuple[str, int]], kind: str
) -> list[pd.DataFrame | str | None]:
    """The mean i-th largest errors of all instances, one row, of runs (id, number of labels) whose
    tag had no room for them.
    """
    if not runs:
        return []
    client = store.connect()
    return at_once(
        lambda run: artifact(
            client, run[0], schema.ARTIFACT_PROFILE, lambda path: _errors(path, kind, run[1])
        ),
        runs.values(),
    )


def _errors(path: Path, kind: str, n_labels: int) -> pd.DataFrame:
    table = read_table(path, ["parameter", "loss"], ["family", "kind"])
    own = table[(table["family"] == schema.ERRORS) & (table["kind"] == kind)]
    at, loss = own["parameter"].to_numpy(float), own["loss"].to_numpy(float)
    if not len(own):
        raise ValueError("it holds none of this kind")
    if not ((at % 1 == 0) & (at >= 1) & (at <= min(n_labels, schema.MOST_ERRORS))).all() or len(
        set(at)
    ) < len(at):
        raise ValueError("its parameters are none, or more than are read")
    row = np.zeros((1, int(at.max())))
    row[0, at.astype(int) - 1] = loss
    if not ((loss >= 0) & (loss <= 1 + schema.SLACK)).all() or (np.diff(row) > schema.SLACK).any():
        raise ValueError("its errors are none")
    return pd.DataFrame(row)
