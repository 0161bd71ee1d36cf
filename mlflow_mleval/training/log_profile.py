"""A loss profile that is known from numbers of wrong labels alone, such as a published one, into an
MLflow run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.analysis.loss_profiles import Profiles
from mlflow_mleval.measures.awareness import hard_measures
from mlflow_mleval.tracking import runs, schema
from mlflow_mleval.training.delivery import deliver
from mlflow_mleval.training.run_content import ALPHAS, steps


def log_profile(
    counts: ArrayLike,
    *,
    method: str,
    dataset: str,
    run_id: str | None = None,
    experiment_name: str | None = None,
    folds: Sequence[int] | None = None,
    n_train: int | Sequence[int] | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Log the loss profile of label sets, and the measures that follow from it, from the numbers of
    wrong labels.

    The run holds what `log_evaluation` would log of them: both families as stepped metrics, the tag
    that `load_profiles` reads, and hamming_loss, subset_accuracy, binomial_area, binomial_slope and
    binomial_gain. It counts as complete only when everything is written; logging the same twice
    into a run changes nothing.

    Parameters
    ----------
    counts : array of int, shape (R, K + 1) or (K + 1,)
        Numbers of instances with 0, 1, …, K wrong labels, of each fold or of all instances.
    method, dataset : str
        What was evaluated on what; the names under which `load_profiles` and `load_study` find it.
    run_id, experiment_name, tags
        As for `log_evaluation`.
    folds : sequence of R int, optional
        Numbers of the folds; by default 0, 1 ..
    n_train : int or sequence of R int, optional
        Instances that each fold was trained on; tests over folds need it to allow for training data
        that folds share.

    Returns
    -------
    str
        The run's id.

    Raises
    ------
    ValueError
        Invalid counts, folds or sizes that do not fit them, a name that MLflow cannot store, both
        `run_id` and `experiment_name`.
    StoreError
        The run holds another result already; or the store has failed, and the result is kept in the
        folder that the text names.
    """
    try:
        runs.check(method=method, dataset=dataset, run_id=run_id, experiment_name=experiment_name)
    except TypeError as error:  # as ever here
        raise ValueError(str(error)) from error
    pair = (dataset, method)
    profiles = Profiles.from_counts({pair: counts}, folds=None if folds is None else {pair: folds})
    rows = np.atleast_2d(np.asarray(counts)).astype(np.int64)
    numbers = profiles.folds[pair]
    values = pd.DataFrame(hard_measures(profiles.errors[pair]))
    n_labels = profiles.n_labels[dataset]
    grids = {"binomial": steps(n_labels), "polynomial": list(ALPHAS)}
    losses = {
        family: profiles.losses(dataset, family, grid).loc[method] for family, grid in grids.items()
    }
    identity = dict(tags or {}) | {
        schema.TAG_PROFILE: schema.encode_profile(rows.tolist(), numbers)
    }
    if numbers:
        sizes = [] if n_train is None else np.broadcast_to(n_train, len(rows)).tolist()
        identity[schema.TAG_FOLD_SIZES] = schema.encode_fold_sizes(rows.sum(axis=1), sizes)
    payload = runs.Payload(
        method=method,
        dataset=dataset,
        means={m: v for m, v in values.mean(skipna=False).items() if np.isfinite(v)},
        folds=numbers,
        by_fold=values.to_dict("list") if numbers else {},
        curves={
            schema.PROFILE_PREFIXES["hard"] + family: curve.to_dict()
            for family, curve in losses.items()
        },
        tags=identity,
        files={
            schema.ARTIFACT_PROFILE: lambda: _table(profiles, rows, pair, losses).to_csv(
                index=False
            )
        },
    )
    return deliver(payload, run_id, experiment_name)


def _table(
    profiles: Profiles, rows: np.ndarray, pair: tuple[str, str], losses: Mapping[str, pd.Series]
) -> pd.DataFrame:
    """Loss by family, kind and parameter, and the mean i-th largest errors, as in the table of an
    evaluation.
    """
    errors = np.average(profiles.errors[pair], axis=0, weights=rows.sum(axis=1))
    found = [(family, "hard", p, v) for family, curve in losses.items() for p, v in curve.items()]
    found += [(schema.ERRORS, "hard", i + 1, errors[i]) for i in np.flatnonzero(errors)]
    return pd.DataFrame(found, columns=["family", "kind", "parameter", "loss"])
