"""An Evaluation into an MLflow run: metrics, tags, tables and the run's own report."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import mlflow
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures import inputs
from mlflow_mleval.measures.one_label import class_matrix
from mlflow_mleval.measures.owa import hard_measures
from mlflow_mleval.measures.registry import MEASURES, ONE_LABEL, known_measures
from mlflow_mleval.store import runs, schema
from mlflow_mleval.training.delivery import deliver
from mlflow_mleval.validation import binary_matrix, known_keywords, present

if TYPE_CHECKING:  # imported with the first evaluation: autologging need not wait for them
    from mlflow_mleval.training.run_content import EpochMetrics


@known_keywords
def log_evaluation(
    ev: Evaluation,
    *,
    method: str | None = None,
    dataset: str | None = None,
    step: int | None = None,
    run_id: str | None = None,
    experiment_name: str | None = None,
    test_indices: Sequence[Any] | Mapping[Hashable, Any] | None = None,
    n_train: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    measures: Iterable[str] | None = None,
    log_instances: bool = False,
    clusters: ArrayLike | None = None,
    selected_among: int | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Log an Evaluation: measures, folds and loss profiles as metrics, tables and a report as
    artifacts.

    In a loop over epochs, pass ``step=epoch`` for what is evaluated on the way: only measures and a
    few points of the loss profile are logged then, as the callbacks do, and a store that fails is
    one warning. The evaluation at the end, without `step`, is the result of the run.

    It goes into the given run, otherwise into the active one, otherwise into a new one;
    `load_study` reads it back. One run holds one method on one dataset. A digest of the truth is
    logged with it, so that a comparison can tell whether two runs saw the same data. The run counts
    as complete only when everything is written: logging that was interrupted is completed by
    calling this again with the run's id, and logging the same evaluation twice into a run changes
    nothing.

    Parameters
    ----------
    ev : Evaluation
    method, dataset : str
        What was evaluated on what; the names under which `load_study` finds it. Not needed with
        `step`.
    step : int, optional
        The epoch of a training that goes on, as the step of metrics ``mleval.epoch/<measure>``: by
        default the usual ones, else those of `measures`. Other options are for the end.
    run_id : str, optional
        The run to log into.
    experiment_name : str, optional
        Log into a new run of this experiment, even while a run is active. The experiment is made if
        there is none.
    test_indices : sequence of R arrays of int, or mapping of fold to array, optional
        Which instances of the dataset each fold tests. Their SHA-256 is logged, so that a
        comparison by fold can tell whether the folds of two runs are pairs.
    n_train : int, sequence of R int, or mapping of fold to int, optional
        Instances that each fold was trained on; tests over folds need it to allow for training data
        that folds share.
    measures : iterable of str, optional
        Measures or sets of measures to log as metrics, as far as the evaluation has them; by
        default all.
    log_instances : bool
        Also write a table with one row per instance.
    clusters : array of shape (N,), optional
        Instances that belong together, such as questions on one passage: intervals of the measures
        allow for it, and the table of instances has it as the column ``cluster``.
    selected_among : int, optional
        Number of candidates from which a search chose this method on these very folds; its values
        are optimistic then.
    tags : mapping of str to str, optional
        Further tags of the run.

    Returns
    -------
    str
        The run's id.

    Raises
    ------
    TypeError
        ``ev`` is not an Evaluation, a name is missing or not a string, or `step` is not a whole
        number.
    ValueError
        A name that MLflow cannot store, both `run_id` and `experiment_name`; folds or sizes that
        are not those of the evaluation; with `step`, no run is active, or an option is given that
        is for the end.
    StoreError
        The run holds another result already; or the store has failed, and the result is kept in the
        folder that the text names.

    >>> for epoch in range(20):  # doctest: +SKIP
    ...     train(network)
    ...     log_evaluation(evaluate(y, network(x)), step=epoch)
    >>> log_evaluation(evaluate(y, network(x)), method="MLP", dataset="yeast")  # doctest: +SKIP
    """
    of_folds = test_indices, n_train
    options = LogOptions(measures, log_instances, *of_folds, clusters, selected_among, tags)
    if step is None:
        for name, given in (("method", method), ("dataset", dataset)):
            if given is None:
                raise TypeError(f"`{name}` must be given without `step`. Pass the {name}'s name.")
        runs.check(run_id=run_id, experiment_name=experiment_name)
        payload = payload_of(ev, present(method), present(dataset), options)
        where = runs.target(run_id) if experiment_name is None else None
        epochs = _epochs.pop((mlflow.get_tracking_uri(), where), None)
        payload = replace(payload, history=epochs.pending if epochs else ())
        return deliver(payload, where, experiment_name)
    _refuse_others(ev)
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
        raise TypeError(f"`step` must be a whole number, got {step!r}. Pass the epoch.")
    late = {"experiment_name": experiment_name} | vars(replace(options, measures=None))
    for name, value in late.items():
        if value is not None and value is not False:
            raise ValueError(f"`{name}` must not be given with `step`, but at the end.")
    names = None if measures is None else tuple(known_measures(measures))
    if (where := runs.target(run_id)) is None:
        raise ValueError("`step` must have a run, and none is active: mlflow.start_run().")
    from mlflow_mleval.training.run_content import EpochMetrics

    # what the store does not take goes with the next epoch
    key = mlflow.get_tracking_uri(), where
    epochs = _epochs.pop(key, None) or EpochMetrics(where)
    epochs.add(ev, int(step), names)
    epochs.send()
    if epochs.pending:
        _epochs[key] = epochs
    return where


@dataclass(frozen=True)
class LogOptions:
    """What of an Evaluation is logged, and what is known of it beside: as in `log_evaluation`."""

    measures: Iterable[str] | None = None
    log_instances: bool = False
    test_indices: Sequence[Any] | Mapping[Hashable, Any] | None = None
    n_train: int | Sequence[int] | Mapping[Hashable, int] | None = None
    clusters: ArrayLike | None = None
    selected_among: int | None = None
    tags: Mapping[str, str] | None = None
    truth: Any = None  #: of the whole dataset, where folds test only a part of it, or parts twice


#: By store and run, the epochs of trainings that are not in the store yet.
_epochs: dict[tuple[str, str | None], EpochMetrics] = {}


def _refuse_others(ev: Any) -> None:
    if not isinstance(ev, Evaluation):
        raise TypeError(f"`ev` must be an Evaluation, as of evaluate, got {type(ev).__name__}.")


def payload_of(
    ev: Evaluation, method: str, dataset: str, options: LogOptions, **more: Any
) -> runs.Payload:
    """What `log_evaluation` writes, checked without asking the store; more that a payload holds."""
    from mlflow_mleval.report.content.run import description
    from mlflow_mleval.training.run_content import RunContent

    _refuse_others(ev)
    runs.check(method=method, dataset=dataset)
    if options.log_instances and ev.instances is None:
        raise ValueError("`log_instances` must be False: the evaluation kept no instances.")
    if options.clusters is not None:
        from mlflow_mleval.analysis.measure_intervals import with_clusters

        ev = with_clusters(ev, options.clusters)
    trained = _fold_values(options.n_train, "n_train", ev)
    for n in trained.values():
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"`n_train` must hold numbers of fitted instances, got {n!r}.")
    content = RunContent(ev, method, dataset, trained)
    tags = dict(options.tags or {}) | content.tags()
    if options.selected_among is not None:
        tags[schema.TAG_SELECTED] = str(options.selected_among)
    tags |= _digests(options, ev)
    asked = options.measures
    wanted = {*MEASURES, *ev.measures} if asked is None else set(known_measures(asked))
    report = content.report(tags)
    by_fold = ev.folds if len(ev.folds) else {}
    return runs.Payload(
        method=method,
        dataset=dataset,
        means={m: v for m, v in content.result.means.items() if m in wanted},
        folds=content.fold_numbers,
        by_fold={m: v.tolist() for m, v in by_fold.items() if m in wanted},
        curves=content.curves(),
        tags=tags,
        files=content.files(report, options.log_instances),
        note=description(report),
        **more,
    )


def _digests(options: LogOptions, ev: Evaluation) -> dict[str, str]:
    """As tags, the digests of the whole truth, and of which instances each fold tests."""
    tags = {}
    if (truth := options.truth) is not None:
        one, names = ev.kind == ONE_LABEL, ev.label_names
        matrix = class_matrix(truth, "Y", names) if one else binary_matrix(truth, "Y")
        rows = inputs.row_digests(matrix)
        tags[schema.TAG_DATASET_DIGEST] = inputs.truth_digest(names, len(rows), inputs.added(rows))
    if not (tested := _fold_values(options.test_indices, "test_indices", ev)):
        return tags
    for key, indices in tested.items():
        rows, n = np.asarray(indices), ev.sums[key].n
        if rows.shape != (n,) or rows.dtype.kind not in "iu":
            raise ValueError(
                f"`test_indices` must hold the {n} rows of fold {key!r}, got {rows.dtype} of shape "
                f"{rows.shape}."
            )
    tags[schema.TAG_SPLIT_DIGEST] = digest = inputs.split_digest(tested.values())
    if ev.split not in (None, digest):
        raise ValueError("`test_indices` must be those of `ev`, got others. Omit them.")
    return tags


def _fold_values(values: Any, name: str, ev: Evaluation) -> dict[Hashable, Any]:
    """One value a fold in the order of the evaluation's folds; nothing where none were given."""
    if values is None:
        return {}
    keys = list(ev.sums)
    if isinstance(values, Mapping):
        if values.keys() != set(keys):
            raise ValueError(
                f"`{name}` must have the folds of `ev`, {keys!r}, as keys, got {list(values)!r}."
            )
        return {key: values[key] for key in keys}
    if np.isscalar(values):
        return dict.fromkeys(keys, values)
    if len(values) != len(keys):
        raise ValueError(f"`{name}` must hold values of {len(keys)} folds, got {len(values)}.")
    return dict(zip(keys, values, strict=True))


# ---- loss profiles from numbers of wrong labels --------------------------------------------------


@known_keywords
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
    ValueError, TypeError
        Invalid counts, folds or sizes that do not fit them, a name that MLflow cannot store, both
        `run_id` and `experiment_name`.
    StoreError
        The run holds another result already; or the store has failed, and the result is kept in the
        folder that the text names.
    """
    from mlflow_mleval.analysis.loss_profiles import Profiles
    from mlflow_mleval.training.run_content import ALPHAS, error_rows, profile_rows, steps

    runs.check(method=method, dataset=dataset, run_id=run_id, experiment_name=experiment_name)
    pair = (dataset, method)
    profiles = Profiles.from_counts({pair: counts}, folds=None if folds is None else {pair: folds})
    rows = np.atleast_2d(np.asarray(counts)).astype(np.int64)
    numbers: Any = profiles.folds[pair]  # whole numbers, as they were checked
    values = pd.DataFrame(hard_measures(profiles.errors[pair]))
    grids = {"binomial": steps(profiles.n_labels[dataset]), "polynomial": list(ALPHAS)}
    tables, curves = [], {}
    for family, grid in grids.items():
        curve = profiles.losses(dataset, family, grid).loc[method]
        curves[schema.PROFILE_PREFIXES["hard"] + family] = curve.to_dict()
        tables.append(profile_rows(family, "hard", curve.index, curve.to_numpy()))
    errors = np.average(profiles.errors[pair], axis=0, weights=rows.sum(axis=1))
    text = pd.concat([*tables, error_rows("hard", errors)]).to_csv(index=False)
    identity = {**(tags or {}), schema.TAG_PROFILE: schema.encode_profile(rows.tolist(), numbers)}
    if numbers:
        sizes = [] if n_train is None else np.broadcast_to(n_train, len(rows)).tolist()
        identity[schema.TAG_FOLD_SIZES] = schema.encode_fold_sizes(rows.sum(axis=1), sizes)
    payload = runs.Payload(
        method=method,
        dataset=dataset,
        means={m: v for m, v in values.mean(skipna=False).items() if np.isfinite(v)},
        folds=numbers,
        by_fold=values.to_dict("list") if numbers else {},
        curves=curves,
        tags=identity,
        files={schema.ARTIFACT_PROFILE: lambda: text},
    )
    return deliver(payload, run_id, experiment_name)
