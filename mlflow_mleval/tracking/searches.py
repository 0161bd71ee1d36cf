"""Children of runs: folds of one evaluation, or trials of a search, which differ in their
params.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunData, RunInfo, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import IncomparableRunsError, MeasureError
from mlflow_mleval.naming import count, did_you_mean, some
from mlflow_mleval.tracking import schema, store
from mlflow_mleval.tracking.repeats import best_metric, differing_params, is_seed, sign_of

#: Params that number folds.
_FOLD = re.compile(
    r"(.*[_./:-])?(fold|split)s?([_.-]?(id|idx|index|no|nr|num|number|i|k))?", re.IGNORECASE
)


@dataclass(frozen=True)
class BestTrials:
    """What ``best:METRIC`` takes of searches.

    Attributes
    ----------
    runs : list of Run
        One a search: its best trial, which is named as the search is and repeats as it does.
    searches : set of str
        Ids of the runs that it stands for: the parents.
    trials : dict of str to int
        By id of a best trial, how many trials of its search have the metric.
    own : dict of str to set of str
        By id of a best trial, the params that its search has not: what was searched tells no
        repeats apart.
    """

    runs: list[Run] = field(default_factory=list)
    searches: set[str] = field(default_factory=set)
    trials: dict[str, int] = field(default_factory=dict)
    own: dict[str, set[str]] = field(default_factory=dict)


def check_rule(rule: str | None) -> None:
    """ValueError for another rule than ``best:METRIC``."""
    if rule is not None and not best_metric(rule):
        raise ValueError(f"`children` must be best:METRIC, got {rule!r}.")


def children_of(client: MlflowClient, parents: Sequence[Run]) -> dict[str, list[Run]]:
    """By id of the parent, its finished children as they started; MLflow finds them by a tag,
    whatever the selection left out.
    """
    experiments = sorted({run.info.experiment_id for run in parents})
    found: dict[str, list[Run]] = defaultdict(list)
    for run in (
        store.search(client, experiments, f"tags.`{MLFLOW_PARENT_RUN_ID}` LIKE '%'")
        if experiments
        else ()
    ):
        if run.info.status == "FINISHED":
            found[run.data.tags[MLFLOW_PARENT_RUN_ID]].append(run)
    for runs in found.values():
        runs.sort(key=lambda r: (r.info.start_time or 0, r.info.run_id))
    return found


def trial_params(children: Sequence[Run]) -> list[str]:
    """The params in which trials of a search differ; those that number folds and seeds make
    none.
    """
    return [
        p
        for p in differing_params([r.data.params for r in children])
        if not (is_seed(p) or _FOLD.fullmatch(p))
    ]


def trials_among(runs: Sequence[Run], name: Callable[[Run], str | None]) -> dict[str, str]:
    """By id of each run that is a trial of a search, why it stays out; `name` tells the method of a
    run.
    """
    families: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if MLFLOW_PARENT_RUN_ID in run.data.tags:
            families[run.data.tags[MLFLOW_PARENT_RUN_ID]].append(run)
    searches = [children for children in families.values() if trial_params(children)]
    of = "a search" if len(searches) == 1 else f"{len(searches)} searches"
    of += f" ({some(names, 6)})" if (names := searched(runs, searches, name)) else ""
    why = f"trials of {of} are no results; `children='best:METRIC'` takes the best trial of each"
    return {run.info.run_id: why for children in searches for run in children}


def searched(
    runs: Sequence[Run], searches: Sequence[Sequence[Run]], name: Callable[[Run], str | None]
) -> list[str]:
    """The methods that were searched: as the runs are called whose children the trials are, else as
    the trials are.
    """
    by_id = {run.info.run_id: run for run in runs}
    parents = (
        by_id.get(children[0].data.tags[MLFLOW_PARENT_RUN_ID], children[0]) for children in searches
    )
    return [text for text in dict.fromkeys(map(name, parents)) if text]


def refuse_trials(parent: Run, children: Sequence[Run]) -> None:
    """IncomparableRunsError where the children of a run are trials of a search, not folds."""
    if params := trial_params(children):
        raise IncomparableRunsError(
            f"the {count(len(children), 'child run')} of {some([parent.info.run_name])} (run "
            f"{parent.info.run_id}) differ in {some(params, 6)}: they are trials of a search, "
            "not folds. `children='best:METRIC'` takes the best trial of each search."
        )


def best_trials(
    client: MlflowClient,
    runs: Sequence[Run],
    rule: str,
    minimize: Collection[str],
    maximize: Collection[str],
) -> BestTrials:
    """The best child of each run that has finished children.

    Raises
    ------
    IncomparableRunsError
        Children differ in nothing but the number of a fold.
    MeasureError
        No child has the metric, or its direction is not known.
    """
    metric = best_metric(rule)
    larger = sign_of(metric, minimize, maximize)
    parents = {run.info.run_id: run for run in runs if run.info.status == "FINISHED"}
    held = {
        i: found for i, found in children_of(client, [*parents.values()]).items() if i in parents
    }
    if not held:
        raise MeasureError(
            "`children` was given, but no finished run of the selection has children that "
            "finished. Leave it out."
        )
    found = BestTrials()
    metrics: set[str] = set()
    for parent_id, children in held.items():
        parent = parents[parent_id]
        if not trial_params(children) and any(
            _FOLD.fullmatch(p) for p in differing_params([r.data.params for r in children])
        ):
            raise IncomparableRunsError(
                f"the children of {some([parent.info.run_name])} (run {parent_id}) differ in the "
                "number of a fold only: they are no trials of a search. `folds_by='children'` "
                "takes them for folds."
            )
        values = [_metrics(run) for run in children]
        metrics = metrics.union(*values)
        having = [k for k, known in enumerate(values) if metric in known]
        if not having:
            continue
        best = max(having, key=lambda k: larger * values[k][metric])
        trial = children[best]
        found.searches.add(parent_id)
        found.trials[trial.info.run_id] = len(having)
        found.own[trial.info.run_id] = {*trial.data.params} - {*parent.data.params}
        found.runs.append(_named_as(parent, trial))
    if not found.runs:
        guess = did_you_mean([metric], metrics)
        raise MeasureError(
            f"no child run has {metric!r}, by which to choose; they have "
            f"{some(sorted(metrics))}.{guess}"
        )
    return found


def _metrics(run: Run) -> Mapping[str, float]:
    return {
        schema.measure_of(key) or key: value
        for key, value in run.data.metrics.items()
        if value == value
    }


def _named_as(search: Run, trial: Run) -> Run:
    """The trial with the name, tags and params of its search, and its own where that has none."""
    ours = (schema.TAG_METHOD, schema.TAG_DATASET)
    named = {
        key: text
        for key, text in search.data.tags.items()
        if not key.startswith("mleval.") or key in ours
    }
    tags = {
        key: text for key, text in trial.data.tags.items() if key != MLFLOW_PARENT_RUN_ID
    } | named
    metrics = [Metric(key, value, 0, 0) for key, value in trial.data.metrics.items()]
    params = trial.data.params | search.data.params
    data = RunData(
        metrics, [Param(*item) for item in params.items()], [RunTag(*item) for item in tags.items()]
    )
    names = (
        "run_id",
        "experiment_id",
        "user_id",
        "status",
        "start_time",
        "end_time",
        "lifecycle_stage",
        "artifact_uri",
    )
    info = RunInfo(
        **{name: getattr(trial.info, name) for name in names}, run_name=search.info.run_name
    )
    return Run(
        info, data, trial.inputs if trial.inputs and trial.inputs.dataset_inputs else search.inputs
    )
