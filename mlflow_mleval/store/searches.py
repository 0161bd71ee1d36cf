"""What stands in other places than a run's last values: in child runs, which are folds of one
evaluation or trials of a search, and in the steps of metrics, which are folds or epochs.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunData, RunInfo, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import IncomparableRunsError, MeasureError
from mlflow_mleval.measures.metric_names import data_of
from mlflow_mleval.selection import Selection, best_metric
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.artifacts import download
from mlflow_mleval.store.bounds import computable, open_parquet, read_table
from mlflow_mleval.store.reader import Result, is_ours, metrics_of
from mlflow_mleval.store.repeats import differing_params, is_seed, mean_folds, sign_of
from mlflow_mleval.study import Excluded
from mlflow_mleval.validation import present
from mlflow_mleval.words import Argument, Message, agree, count, did_you_mean, some

#: Params that number folds.
_FOLD = re.compile(
    r"(.*[_./:-])?(fold|split)s?([_.-]?(id|idx|index|no|nr|num|number|i|k))?", re.IGNORECASE
)
#: What takes the best trial of each search.
BEST_TRIAL = Argument("children", "best:METRIC")


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


def children_of(client: MlflowClient, parents: Sequence[Run]) -> dict[str, list[Run]]:
    """By id of the parent, its finished children as they started; MLflow finds them by a tag,
    whatever the selection left out.
    """
    experiments = sorted({run.info.experiment_id for run in parents})
    families: dict[str, list[Run]] = defaultdict(list)
    for run in (
        store.search(client, experiments, f"tags.`{MLFLOW_PARENT_RUN_ID}` LIKE '%'")
        if experiments
        else ()
    ):
        if run.info.status == "FINISHED":
            families[run.data.tags[MLFLOW_PARENT_RUN_ID]].append(run)
    for runs in families.values():
        runs.sort(key=lambda r: (r.info.start_time or 0, r.info.run_id))
    return families


def trial_params(children: Sequence[Run]) -> list[str]:
    """The params in which trials of a search differ; those that number folds and seeds make
    none.
    """
    return [
        p
        for p in differing_params([r.data.params for r in children])
        if not (is_seed(p) or _FOLD.fullmatch(p))
    ]


def trials_among(runs: Sequence[Run], name: Callable[[Run], str]) -> dict[str, str]:
    """By id of each run that is a trial of a search, why it stays out; `name` tells the method of a
    run.
    """
    families: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if MLFLOW_PARENT_RUN_ID in run.data.tags:
            families[run.data.tags[MLFLOW_PARENT_RUN_ID]].append(run)
    searches = [children for children in families.values() if trial_params(children)]
    of = searched(runs, searches, name)
    why = Message(f"trials of {of} are no results; ", BEST_TRIAL, " takes the best trial of each")
    return {run.info.run_id: why for children in searches for run in children}


def searched(
    runs: Sequence[Run], searches: Sequence[Sequence[Run]], name: Callable[[Run], str]
) -> str:
    """How many searches these are, and of which methods: as the runs are called whose children the
    trials are, else as the trials are.
    """
    by_id = {run.info.run_id: run for run in runs}
    parents = (
        by_id.get(children[0].data.tags[MLFLOW_PARENT_RUN_ID], children[0]) for children in searches
    )
    methods = [text for text in dict.fromkeys(map(name, parents)) if text]
    of = "a search" if len(searches) == 1 else f"{len(searches)} searches"
    return f"{of} ({some(methods, 6)})" if methods else of


def refuse_trials(parent: Run, children: Sequence[Run]) -> None:
    """IncomparableRunsError where the children of a run are trials of a search, not folds."""
    if params := trial_params(children):
        raise IncomparableRunsError(
            Message(
                f"the {count(len(children), 'child run')} of {some([parent.info.run_name])} (run "
                f"{parent.info.run_id}) differ in {some(params, 6)}: they are trials of a search, "
                "not folds. ",
                BEST_TRIAL,
                " takes the best trial of each search.",
            )
        )


def best_trials(
    client: MlflowClient,
    runs: Sequence[Run],
    selection: Selection,
) -> BestTrials:
    """The best child of each run that has finished children.

    Raises
    ------
    IncomparableRunsError
        Children differ in nothing but the number of a fold.
    MeasureError
        No child has the metric, or its direction is not known.
    """
    metric = best_metric(present(selection.children))
    parents = {run.info.run_id: run for run in runs if run.info.status == "FINISHED"}
    families = children_of(client, [*parents.values()])
    held = {i: children for i, children in families.items() if i in parents}
    if not held:
        raise MeasureError(
            "`children` was given, but no finished run of the selection has children that "
            "finished. Leave it out."
        )
    metrics = {m for children in held.values() for run in children for m in metrics_of(run)}
    if metric not in metrics:
        guess = did_you_mean([metric], metrics)
        raise MeasureError(
            f"no child run has {metric!r}, by which to choose; they have "
            f"{some(sorted(metrics))}.{guess}"
        )
    best, larger = BestTrials(), sign_of(metric, selection)
    for parent_id, children in held.items():
        parent = parents[parent_id]
        _refuse_folds(parent, children)
        values = {k: metrics_of(run) for k, run in enumerate(children)}
        sizes = {k: larger * own[metric] for k, own in values.items() if metric in own}
        if sizes:
            trial = children[max(sizes, key=sizes.__getitem__)]
            best.searches.add(parent_id)
            best.trials[trial.info.run_id] = len(sizes)
            best.own[trial.info.run_id] = {*trial.data.params} - {*parent.data.params}
            best.runs.append(_named_as(parent, trial))
    return best


def held_out_first(
    results: Sequence[Result], named: Collection[str], excluded: list[Excluded]
) -> list[Result]:
    """Without what a search says of its winner where the same method was evaluated otherwise, but
    for runs named by id.
    """
    evaluated = {
        (r.dataset, r.method) for r in results if not r.searched and r.status == schema.COMPLETE
    }
    gone = {
        r.run_id: r
        for r in results
        if r.searched and (r.dataset, r.method) in evaluated and r.run_id not in named
    }
    why = "a search chose it by these very values, and the method was evaluated without them"
    excluded += [Excluded("run", r.name, why) for r in gone.values()]
    return [r for r in results if r.run_id not in gone]


def _refuse_folds(parent: Run, children: Sequence[Run]) -> None:
    """IncomparableRunsError where the children of a run differ in the number of a fold only."""
    params = differing_params([run.data.params for run in children])
    if trial_params(children) or not any(map(_FOLD.fullmatch, params)):
        return
    raise IncomparableRunsError(
        Message(
            f"the children of {some([parent.info.run_name])} (run {parent.info.run_id}) differ in "
            "the number of a fold only: they are no trials of a search. ",
            Argument("folds_by", "children"),
            " takes them for folds.",
        )
    )


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
    data = _data(trial.data.metrics, trial.data.params | search.data.params, tags)
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


def _data(
    metrics: Mapping[str, float], params: Mapping[str, str], tags: Mapping[str, str]
) -> RunData:
    return RunData(
        [Metric(key, value, 0, 0) for key, value in metrics.items()],
        [Param(*item) for item in params.items()],
        [RunTag(*item) for item in tags.items()],
    )


# --------------------------------------------------------------------------------------------------
# Metrics that others logged by epoch, at the step where one of them is best.

#: Steps and values of a metric, in the order of the steps.
History = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class BestSteps:
    """What ``best:METRIC`` takes of metrics by step: by the id of a run, its metrics at the step
    where that one is best, and among how many steps.
    """

    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    among: Mapping[str, int] = field(default_factory=dict)

    def of(self, run: Run) -> Run:
        """The run with the metrics of its best step."""
        metrics = self.metrics.get(run.info.run_id)
        if metrics is None:
            return run
        data = _data(metrics, run.data.params, run.data.tags)
        return Run(run.info, data, run.inputs, run.outputs)


def best_steps(
    client: MlflowClient,
    runs: Sequence[Run],
    selection: Selection,
    wanted: Callable[[str], object],
    progress: Callable[[int, int], object],
) -> BestSteps:
    """The best step of each run that others logged; a request a run and a metric that is `wanted`.

    Raises
    ------
    MeasureError
        No run has the metric by step, or its direction is not known.
    """
    metric = best_metric(present(selection.step))
    others = [run for run in runs if not is_ours(run)]
    having = [run for run in others if metric in run.data.metrics]
    larger = sign_of(metric, selection) if having else 0

    def read(run: Run) -> tuple[int, dict[str, float]] | None:
        return _at_best(client, run, metric, larger, wanted)

    metrics: dict[str, Mapping[str, float]] = {}
    among: dict[str, int] = {}
    for i, (run, best) in enumerate(zip(having, at_once(read, having), strict=True), start=1):
        progress(i, len(having))
        if isinstance(best, tuple):
            among[run.info.run_id], metrics[run.info.run_id] = best
    if not metrics:
        logged = {m for run in others for m in metrics_of(run)}
        guess = did_you_mean([metric], logged)
        there = f"they have {some(sorted(logged))}" if logged else "mleval logged all of them"
        raise MeasureError(
            f"no run has several steps of {metric!r}, by which to choose one; {there}.{guess}"
        )
    return BestSteps(metrics, among)


def step_notes(
    metric: str, steps: Mapping[tuple[str, str], int], used: Collection[str]
) -> list[str]:
    """By what the steps were chosen, and on which data."""
    if not steps:
        return []
    data = data_of(metric)
    cells = some((f"{method} on {dataset} (of {n})" for (dataset, method), n in steps.items()), 6)
    note = f"Values are of the step with the best {metric}, chosen on the {data} data: {cells}."
    if same := [m for m in used if data_of(m) == data]:
        note += f" {some(same)} {agree(same, 'is')} of the same data, and optimistic."
    return [note]


def _at_best(
    client: MlflowClient, run: Run, metric: str, larger: int, wanted: Callable[[str], object]
) -> tuple[int, dict[str, float]] | None:
    """The number of steps, and the metrics of the run at the best of them; None for one step."""
    chooser = _steps_of(client, run, metric)
    if len(chooser) < 2:
        return None
    place = max(range(len(chooser)), key=lambda i: larger * chooser[i][1])
    step, metrics = chooser[place][0], {**run.data.metrics, metric: chooser[place][1]}
    for key in run.data.metrics:
        if key != metric and wanted(key):
            history = _steps_of(client, run, key)
            upto = [value for at, value in history if at <= step]
            if len(history) > 1 and upto:
                metrics[key] = upto[-1]
    return len(chooser), metrics


def _steps_of(client: MlflowClient, run: Run, key: str) -> History:
    """A metric's history, of each step the later value; where all have the same step, as Keras
    logs its validation_loss, they are counted from 0.
    """
    logged = client.get_metric_history(run.info.run_id, key)
    logged = sorted((m for m in logged if computable(m.value)), key=lambda m: m.timestamp)
    steps = {m.step for m in logged}
    if len(steps) == 1:
        return [(i, m.value) for i, m in enumerate(logged)]
    return sorted({m.step: m.value for m in logged}.items())


# --------------------------------------------------------------------------------------------------
# Values by fold that travel in no tag of ours: of runs that others logged, and of our own where
# they were too many.

#: Requests at a time.
_AT_ONCE = 8
Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class FoldRule:
    """Where runs without our tag hold their values by fold.

    ``key:PATTERN``: in metrics of their own, such as ``fold3_f1`` for ``key:fold{fold}_{measure}``;
    ``steps``: in the history of each metric, step = fold; ``children``: in child runs, one a fold,
    numbered in the order in which they started.

    Raises
    ------
    IncomparableRunsError
        From `values`: children differ in their params, so that they are trials of a search.

    >>> FoldRule("key:cv/{fold}/{measure}").match("cv/3/f1")
    ('f1', 3)
    """

    rule: str

    def match(self, key: str) -> tuple[str, int] | None:
        """The measure and the fold that a metric key names; None for another key or another kind of
        rule.
        """
        if not self.rule.startswith("key:"):
            return None
        text = re.escape(self.rule.removeprefix("key:"))
        text = text.replace(r"\{fold\}", r"(?P<fold>\d+)").replace(
            r"\{measure\}", "(?P<measure>.+)"
        )
        hit = re.fullmatch(text, key)
        return (hit["measure"], int(hit["fold"])) if hit else None

    def values(
        self,
        client: MlflowClient,
        runs: Sequence[Run],
        measures: Collection[str],
        excluded: list[Excluded],
    ) -> dict[str, schema.FoldValues]:
        """By run id, the values by fold of the runs that have any and do not carry our tag; what
        cannot be read goes to the list.

        ``steps`` takes a request per run and measure, ``children`` one paged search, a pattern
        none.
        """
        others = [r for r in runs if schema.TAG_FOLDS not in r.data.tags]
        values: Sequence[schema.FoldValues | str | None]
        if self.rule == "steps":
            values = at_once(lambda run: _steps(client, run, measures), others)
        elif self.rule == "children":
            values = _children(client, others)
        else:
            values = [self._keys(run) for run in others]
        read: dict[str, schema.FoldValues] = {}
        for run, folds in zip(others, values, strict=True):
            if isinstance(folds, str):
                excluded.append(
                    Excluded("folds", f"{run.info.run_name} ({run.info.run_id})", folds)
                )
            elif folds is not None:
                read[run.info.run_id] = folds
        return read

    def _keys(self, run: Run) -> schema.FoldValues | None:
        named = ((self.match(key), value) for key, value in run.data.metrics.items())
        return _folds((*at, value) for at, value in named if at is not None)


def elsewhere(
    client: MlflowClient, runs: Mapping[str, str], measures: Collection[str]
) -> dict[str, schema.FoldValues | str | None]:
    """By run id, the values by fold that a tag only points to, or the reason why they cannot be
    read; None where there are none.

    Parameters
    ----------
    client : MlflowClient
    runs : mapping of str to str
        By run id, what the tag says: the path of a table, or a prefix of metrics whose steps are
        the folds.
    measures : collection of str
    """

    def read(item: tuple[str, str]) -> schema.FoldValues | str | None:
        run_id, where = item
        if where.endswith("/"):
            return _history(client, run_id, {m: where + m for m in measures})
        table = artifact(client, run_id, where, lambda path: _fold_table(path, measures))
        if not isinstance(table, pd.DataFrame):
            return table
        return schema.FoldValues(table.index.tolist(), {m: table[m].tolist() for m in table})

    return dict(zip(runs, at_once(read, runs.items()), strict=True))


def artifact(
    client: MlflowClient, run_id: str, path: str, read: Callable[[Path], Found]
) -> Found | str | None:
    """What is read of a file among the artifacts of a run, or the reason why it cannot be read;
    None where there is none.
    """

    def content() -> Found | None:
        with tempfile.TemporaryDirectory() as folder:
            local = download(client, run_id, path, folder)
            return None if local is None else read(local)

    return store.of_one_run(content)


def by_fold(table: pd.DataFrame) -> pd.Series:
    """The column fold as whole numbers.

    Raises
    ------
    ValueError
        It holds others.
    """
    fold = table["fold"].to_numpy(float)
    if not ((np.abs(fold) < 2**53) & (fold % 1 == 0)).all():
        raise ValueError("its column fold holds something else than whole numbers")
    return table["fold"].astype(int)


def _fold_table(path: Path, measures: Collection[str]) -> pd.DataFrame:
    held = open_parquet(path, ["fold"]).schema_arrow.names
    table = read_table(path, ["fold", *(m for m in measures if m in held)])
    if table["fold"].duplicated().any():
        raise ValueError("it has a fold twice")
    return table.assign(fold=by_fold(table)).set_index("fold").astype(float)


def at_once(read: Callable[[Item], Found], items: Iterable[Item]) -> list[Found | str]:
    """What reading each run yields, or why it cannot be read; several at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda item: store.of_one_run(partial(read, item)), items))


def _steps(client: MlflowClient, run: Run, measures: Collection[str]) -> schema.FoldValues | None:
    return _history(client, run.info.run_id, {m: m for m in run.data.metrics if m in measures})


def _history(
    client: MlflowClient, run_id: str, keys: Mapping[str, str]
) -> schema.FoldValues | None:
    """Metrics that have several steps; of a step that was logged twice, the later value."""
    values = []
    for measure, key in keys.items():
        history = sorted(client.get_metric_history(run_id, key), key=lambda m: m.timestamp)
        latest = {metric.step: metric.value for metric in history}
        if len(latest) > 1:
            values += [(measure, step, value) for step, value in latest.items()]
    return _folds(values)


def _children(client: MlflowClient, parents: Sequence[Run]) -> list[schema.FoldValues | None]:
    """The finished children of each run."""
    by_parent = children_of(client, parents)
    folds: list[schema.FoldValues | None] = []
    for parent in parents:
        children = by_parent[parent.info.run_id]
        refuse_trials(parent, children)
        values = (
            (schema.measure_of(key) or key, fold, value)
            for fold, run in enumerate(children)
            for key, value in run.data.metrics.items()
        )
        folds.append(_folds(values) if len(children) > 1 else None)
    return folds


def _folds(values: Iterable[tuple[str, int, float]]) -> schema.FoldValues | None:
    """(measure, fold, value) as columns, NaN where the value is no result; None if there are
    none.
    """
    cells = {
        (measure, fold): value if computable(value) else np.nan for measure, fold, value in values
    }
    folds = sorted({fold for _, fold in cells})
    measures = dict.fromkeys(measure for measure, _ in cells)
    columns = {m: [float(cells.get((m, fold), np.nan)) for fold in folds] for m in measures}
    return schema.FoldValues(folds, columns) if cells else None


def study_folds(
    client: MlflowClient | None,
    results: Sequence[Result],
    used: Sequence[str],
    excluded: list[Excluded],
) -> tuple[pd.DataFrame | None, list[str]]:
    """Values by fold of the runs that carry them, and what a reader must know about them; what is
    broken goes to the list.
    """
    tagged = _tagged_folds(results, excluded)
    folds, absent = _fetched_folds(client, tagged, used, excluded)
    rounded = [r.name for r, tag in tagged if tag.digits and not tag.omitted]
    by_cell: dict[tuple[str, str], list[tuple[Result, schema.FoldValues]]] = {}
    for r, values in folds:
        by_cell.setdefault((r.dataset, r.method), []).append((r, values))
    cells: dict[tuple[str, str], schema.FoldValues] = {}
    for (dataset, method), repeats in by_cell.items():
        mean = mean_folds(repeats)
        if isinstance(mean, str):
            excluded.append(Excluded("folds", f"{method} on {dataset}", mean))
        else:
            cells[dataset, method] = mean
    notes = [
        *_fold_doubt(absent, "are too many for one tag, and not where it says"),
        *_fold_doubt(rounded, "are rounded to few digits, because there are many"),
        *_differing_folds(cells),
    ]
    return _table_by_fold(cells, used), notes


def _tagged_folds(
    results: Sequence[Result], excluded: list[Excluded]
) -> list[tuple[Result, schema.FoldValues]]:
    """The runs with values by fold, or with a tag that says where these are."""
    tagged = []
    for r in (m for result in results for m in result.members):
        values: schema.FoldValues | str | None = r.by_fold
        if values is None and r.folds and r.status == schema.COMPLETE:
            values = store.of_one_run(partial(schema.decode_folds, r.folds))
        if isinstance(values, str):
            excluded.append(Excluded("tag", f"{schema.TAG_FOLDS} of {r.name}", values))
        elif values is not None:
            tagged.append((r, values))
    return tagged


def _fetched_folds(
    client: MlflowClient | None,
    tagged: Sequence[tuple[Result, schema.FoldValues]],
    used: Sequence[str],
    excluded: list[Excluded],
) -> tuple[list[tuple[Result, schema.FoldValues]], list[str]]:
    """The values by fold, also those to which a tag only points, and the runs that have none
    there.
    """
    pointers = {r.run_id: tag.omitted for r, tag in tagged if tag.omitted}
    there: dict[str, Any] = dict.fromkeys(pointers)
    if pointers and client is not None:
        there = elsewhere(client, pointers, used)
    folds, absent = [], []
    for r, tag in tagged:
        values = there.get(r.run_id, tag)
        if isinstance(values, str):
            excluded.append(Excluded("artifact", f"{pointers[r.run_id]} of {r.name}", values))
        elif values is None:
            absent.append(r.name)
        else:
            folds.append((r, values))
    return folds, absent


def _fold_doubt(names: Sequence[str], what: str) -> list[str]:
    runs = count(len(names), "run")
    return [f"Values by fold of {runs} {what} ({some(names, 3)})."] if names else []


def _differing_folds(cells: Mapping[tuple[str, str], schema.FoldValues]) -> list[str]:
    ways = {(dataset, tuple(sorted(values.folds))) for (dataset, _), values in cells.items()}
    counts = Counter(dataset for dataset, _ in sorted(ways))
    differing = [dataset for dataset, n in counts.items() if n > 1]
    return [f"Not all runs have the same folds on {some(differing)}."] if differing else []


def _table_by_fold(
    cells: Mapping[tuple[str, str], schema.FoldValues], used: Sequence[str]
) -> pd.DataFrame | None:
    """One row a dataset, method and fold; None where no run has values by fold of these
    measures.
    """
    measures = [m for m in used if any(m in values.values for values in cells.values())]
    if not measures:
        return None
    rows = [(*cell, fold) for cell, values in cells.items() for fold in values.folds]
    columns = {
        m: [
            value
            for held in cells.values()
            for value in held.values.get(m, [math.nan] * len(held.folds))
        ]
        for m in measures
    }
    return table_of(rows, columns, "fold")


def table_of(
    rows: Sequence[tuple[Any, ...]], columns: Mapping[str, Sequence[float]], *by: str
) -> pd.DataFrame:
    """Values by dataset and method, and by what else is named."""
    index = pd.MultiIndex.from_tuples(rows, names=["dataset", "method", *by])
    return pd.DataFrame(columns, index=index, dtype=float)
