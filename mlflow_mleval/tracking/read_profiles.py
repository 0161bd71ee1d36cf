"""Loss profiles of tracked runs: `load_profiles` returns `mlflow_mleval.analysis.loss_profiles.Profiles`.

One paged search reads them, for they travel in tags: the numbers of wrong labels by fold ("hard"), and the mean i-th largest
errors by fold ("soft"). `profiles_of` takes them from a Study that is loaded already, so that a report of measures and profiles
needs one search. Where a tag says that it had no room, the artifact mleval/profile.csv is read, which has no folds. What has no
profile is listed in `Profiles.absent` with the reason; `Profiles.runs`, `.notes` and `.source` are those of the study.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mlflow_mleval.analysis.loss_profiles import Array, Pair, Profiles, gather
from mlflow_mleval.errors import MeasureError, NoRunsError
from mlflow_mleval.naming import some
from mlflow_mleval.study import Study, left_out
from mlflow_mleval.tracking import schema, store
from mlflow_mleval.tracking.fold_sources import artifact, at_once
from mlflow_mleval.tracking.query import load_study
from mlflow_mleval.tracking.read_run import errors_of
from mlflow_mleval.validation import one_of

_OTHER = {"hard": "soft", "soft": "hard"}
_WHAT = {"hard": "label sets", "soft": "scores"}


def load_profiles(kind: Literal["hard", "soft"] = "hard", **selection: Any) -> Profiles:
    """The loss profiles that a selection of tracked runs carries.

    Parameters
    ----------
    kind : {"hard", "soft"}
        Of the predicted label sets, as in the study of Hüllermeier et al. (2022, section 5), or of the scores.
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
    try:  # the measure that every profile gives: runs need not have any other in common
        study = load_study(**selection | {"measures": selection.get("measures") or ["hamming_loss"]})
    except MeasureError:
        study = load_study(**selection)
    found = profiles_of(study, kind)
    return replace(found, notes=(*found.notes, *left_out(e for e in study.excluded if e.kind == "run")))


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
    for pair in map(tuple, study.values.index):
        held, name = study.profiles.get(pair, {}), f"{pair[1]} on {pair[0]}"
        try:
            tag = held[kind]
        except KeyError:
            absent[name] = f"its run carries a profile of {_WHAT[_OTHER[kind]]} only" if held else "its run carries no profile"
            continue
        except ValueError as error:
            absent[name] = str(error)
            continue
        n_labels[pair], folds[pair] = tag.n_labels, tuple(tag.folds)
        if tag.omitted:
            elsewhere.append(pair)
        else:
            errors[pair] = errors_of(tag, kind)
        if tag.omitted or tag.pooled:
            pooled.append(name)
    for pair, row in zip(elsewhere, _from_artifacts(study, elsewhere, kind), strict=True):
        if row is None or row.shape[1] > n_labels[pair]:
            absent[f"{pair[1]} on {pair[0]}"] = f"its run has no {schema.ARTIFACT_PROFILE} that holds it"
        else:
            errors[pair] = row
    if not errors:
        reasons = some((f"{name}: {why}" for name, why in absent.items()), 3)
        raise NoRunsError(f"no run of the selection has a loss profile of {_WHAT[kind]} ({reasons}).")
    notes = list(study.notes)
    if pooled:
        notes.append(f"{len(pooled)} profiles are of all folds together, for a tag has no room for more ({some(pooled, 3)}).")
    return gather(errors, n_labels, folds, kind, absent=absent, runs=study.runs, notes=notes, source=study.source)


def _from_artifacts(study: Study, pairs: list[Pair], kind: str) -> list[Array | None]:
    """The mean i-th largest errors of all instances, from the tables of runs that had no room for them in a tag."""
    if not pairs:
        return []
    ids = study.runs.set_index(["dataset", "method"])["run_id"]
    client = store.connect()
    tables = at_once(lambda pair: artifact(client, ids[pair], schema.ARTIFACT_PROFILE), pairs)
    found: list[Array | None] = []
    for table in tables:
        own = None if table is None else table[(table["family"] == schema.ERRORS) & (table["kind"] == kind)]
        if own is None or own.empty:
            found.append(None)
            continue
        row = np.zeros((1, int(own["parameter"].max())))
        row[0, own["parameter"].astype(int) - 1] = own["loss"]
        found.append(row)
    return found
