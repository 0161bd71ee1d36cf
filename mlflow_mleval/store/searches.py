"""What stands in other places than a run's last values: in child runs, which are folds of one
evaluation or trials of a search, and in the steps of metrics, which are folds or epochs.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import IncomparableRunsError, MeasureError
from mlflow_mleval.measures.metric_names import data_of
from mlflow_mleval.selection import Selection, best_metric
from mlflow_mleval.sentences import Argument, Message, agree, count, did_you_mean, some
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.artifacts import download
from mlflow_mleval.store.bounds import computable, open_parquet, read_table
from mlflow_mleval.store.reader import Results, measured
from mlflow_mleval.store.repeats import Cells, sign_of
from mlflow_mleval.store.rules import differing, is_seed
from mlflow_mleval.store.runs_table import RunRow, RunsTable, families, read_children
from mlflow_mleval.study import Cell, Excluded
from mlflow_mleval.validation import present

#: Params that number folds.
_FOLD = re.compile(
    r"(.*[_./:-])?(fold|split)s?([_.-]?(id|idx|index|no|nr|num|number|i|k))?", re.IGNORECASE
)
#: What takes the best trial of each search.
BEST_TRIAL = Argument("children", "best:METRIC")


@dataclass(frozen=True)
class Searches:
    """Children of runs, among which those are trials of a search that differ in their params.

    Attributes
    ----------
    children : RunsTable
    families : mapping of str to sequence of int
        By the id of the parent, the positions of its children.
    params : mapping of str to list of str
        By the id of the parent, the params in which its children differ; the others hold folds.
    """

    children: RunsTable
    families: Mapping[str, Sequence[int]]
    params: Mapping[str, list[str]]

    @classmethod
    def among(cls, children: RunsTable) -> Searches:
        """The searches whose trials these runs are."""
        held = families(children)
        names, codes = children.codes()
        params = {parent: differing(names, codes[at]) for parent, at in held.items()}
        return cls(children, held, params)

    def trial_params(self, parent: str) -> list[str]:
        """The params in which trials differ; those that number folds and seeds make none."""
        return [p for p in self.params[parent] if not (is_seed(p) or _FOLD.fullmatch(p))]

    @property
    def searches(self) -> list[str]:
        """The ids of the parents whose children are trials."""
        return [parent for parent in self.families if self.trial_params(parent)]

    def named(self, runs: RunsTable, names: pd.Series) -> str:
        """How many searches these are, and of which methods: as the runs are called whose children
        the trials are, else as the trials are.
        """
        by_id = dict(zip(runs.frame["run_id"], names, strict=True))
        ids = self.children.frame["run_id"]
        methods = dict.fromkeys(
            by_id.get(parent) or by_id.get(ids.iloc[self.families[parent][0]], "")
            for parent in self.searches
        )
        n = len(self.searches)
        of = "a search" if n == 1 else f"{n} searches"
        named = [name for name in methods if name]
        return f"{of} ({some(named, 6)})" if named else of

    def why(self, runs: RunsTable, names: pd.Series) -> dict[str, str]:
        """By id of each trial, why it is no result."""
        of = self.named(runs, names)
        text = Message(
            f"trials of {of} are no results; ", BEST_TRIAL, " takes the best trial of each"
        )
        ids = self.children.frame["run_id"].to_numpy()
        return {run_id: text for parent in self.searches for run_id in ids[self.families[parent]]}


@dataclass(frozen=True)
class BestTrials:
    """What ``best:METRIC`` takes of searches.

    Attributes
    ----------
    table : RunsTable
        The runs with the best trials in the place of their searches: each is named as the search is
        and repeats as it does.
    among : mapping of str to int
        By id of a best trial, how many trials of its search have the metric.
    own : mapping of str to set of str
        By id of a best trial, the params that its search has not: what was searched tells no
        repeats apart.
    """

    table: RunsTable
    among: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, set[str]] = field(default_factory=dict)


def best_trials(client: MlflowClient, table: RunsTable, selection: Selection) -> BestTrials:
    """The best child of each run that has finished children.

    Raises
    ------
    IncomparableRunsError
        Children differ in nothing but the number of a fold.
    MeasureError
        No child has the metric, or its direction is not known.
    """
    metric = best_metric(present(selection.children))
    parents = table.where(table.frame["status"] == "FINISHED")
    found = Searches.among(read_children(client, parents))
    if not found.families:
        raise MeasureError(
            "`children` was given, but no finished run of the selection has children that "
            "finished. Leave it out."
        )
    values, _, _ = measured(found.children)
    if metric not in values:
        guess = did_you_mean([metric], values)
        raise MeasureError(
            f"no child run has {metric!r}, by which to choose; they have "
            f"{some(sorted(values))}.{guess}"
        )
    sizes = sign_of(metric, selection) * values[metric].to_numpy()
    names = dict(zip(parents.frame["run_id"], parents.frame["run_name"], strict=True))
    chosen: dict[str, int] = {}
    for parent, at in found.families.items():
        if not found.trial_params(parent) and any(map(_FOLD.fullmatch, found.params[parent])):
            raise IncomparableRunsError(
                Message(
                    f"the children of {some([names[parent]])} (run {parent}) differ in the number "
                    "of a fold only: they are no trials of a search. ",
                    Argument("folds_by", "children"),
                    " takes them for folds.",
                )
            )
        if not np.isnan(sizes[at]).all():
            chosen[parent] = at[int(np.nanargmax(sizes[at]))]
    trials = found.children.at(found.children.frame.index[[*chosen.values()]])
    searches = table.where(table.frame["run_id"].isin(chosen))
    by_id = {row.run_id: row for row in searches.rows()}
    rows, among, own = [], {}, {}
    for parent, trial in zip(chosen, trials.rows(), strict=True):
        search = by_id[parent]
        rows.append(_named_as(search, trial))
        among[trial.run_id] = int((~np.isnan(sizes[found.families[parent]])).sum())
        own[trial.run_id] = {*trial.params} - {*search.params}
    gone = table.frame["run_id"].isin(chosen) | table.parent.isin(chosen)
    whole = RunsTable.of([*table.where(~gone).rows(), *rows], table.experiments)
    return BestTrials(replace(whole, by_fold=table.by_fold, doubts=table.doubts), among, own)


def _named_as(search: RunRow, trial: RunRow) -> RunRow:
    """The trial with the name, tags and params of its search, and its own where that has none."""
    ours = (schema.TAG_METHOD, schema.TAG_DATASET)
    tags = {key: text for key, text in trial.tags.items() if key != MLFLOW_PARENT_RUN_ID}
    tags |= {k: v for k, v in search.tags.items() if not k.startswith("mleval.") or k in ours}
    about = trial if trial.data or trial.digest else search
    data = {name: getattr(about, name) for name in ("data", "digest", "n_rows", "shape")}
    params = {**trial.params, **search.params}
    return replace(trial, run_name=search.run_name, tags=tags, params=params, model="", **data)


def held_out_first(results: Results, named: Collection[str], excluded: list[Excluded]) -> Results:
    """Without what a search says of its winner where the same method was evaluated otherwise, but
    for runs named by id.
    """
    rows = results.rows
    evaluated = {*results.cells[~rows["searched"] & results.finished]}
    gone = rows["searched"] & results.cells.isin(evaluated) & ~rows["run_id"].isin(named)
    why = "a search chose it by these very values, and the method was evaluated without them"
    excluded += [Excluded("run", name, why) for name in results.titles[gone]]
    return results.where(~gone)


# --------------------------------------------------------------------------------------------------
# Metrics that others logged by epoch, at the step where one of them is best.

#: Steps and values of a metric, in the order of the steps.
History = Sequence[tuple[int, float]]


def best_steps(
    client: MlflowClient,
    table: RunsTable,
    selection: Selection,
    wanted: Callable[[str], object],
    progress: Callable[[int, int], object],
) -> tuple[RunsTable, dict[str, int]]:
    """The runs with the metrics of their best step, where others logged them, and by run id among
    how many steps that is; a request a run and a metric that is `wanted`.

    Raises
    ------
    MeasureError
        No run has the metric by step, or its direction is not known.
    """
    metric = best_metric(present(selection.step))
    having = table.where(~table.ours & table.has(f"metrics.{metric}"))
    larger = sign_of(metric, selection) if len(having) else 0

    def read(row: RunRow) -> tuple[int, dict[str, float]] | None:
        """The number of steps, and the metrics at the best of them; None for one step."""
        chooser = _steps_of(client, row.run_id, metric)
        if len(chooser) < 2:
            return None
        step, best = max(chooser, key=lambda at: larger * at[1])
        metrics = {metric: best}
        for key in row.metrics:
            if key != metric and wanted(key):
                history = _steps_of(client, row.run_id, key)
                upto = [value for at, value in history if at <= step]
                if len(history) > 1 and upto:
                    metrics[key] = upto[-1]
        return len(chooser), metrics

    frame, among = table.frame.copy(), {}
    found = at_once(read, having.rows())
    runs = zip(having.frame.index, having.frame["run_id"], found, strict=True)
    for i, (label, run_id, best) in enumerate(runs, start=1):
        progress(i, len(having))
        if isinstance(best, tuple):
            among[run_id], metrics = best
            for key, value in metrics.items():
                frame[f"metrics.{key}"] = frame[f"metrics.{key}"].astype(float)
                frame.loc[label, f"metrics.{key}"] = value
    if not among:
        logged, _, _ = measured(table.where(~table.ours))
        guess = did_you_mean([metric], logged)
        there = (
            f"they have {some(sorted(logged))}"
            if len(logged.columns)
            else "mleval logged all of them"
        )
        raise MeasureError(
            f"no run has several steps of {metric!r}, by which to choose one; {there}.{guess}"
        )
    return replace(table, frame=frame), among


def step_notes(metric: str, steps: Mapping[Cell, int], used: Collection[str]) -> list[str]:
    """By what the steps were chosen, and on which data."""
    if not steps:
        return []
    data = data_of(metric)
    cells = some((f"{method} on {dataset} (of {n})" for (dataset, method), n in steps.items()), 6)
    note = f"Values are of the step with the best {metric}, chosen on the {data} data: {cells}."
    if same := [m for m in used if data_of(m) == data]:
        note += f" {some(same)} {agree(same, 'is')} of the same data, and optimistic."
    return [note]


def _steps_of(client: MlflowClient, run_id: str, key: str) -> History:
    """A metric's history, of each step the later value; where all have the same step, as Keras
    logs its validation_loss, they are counted from 0.
    """
    logged = client.get_metric_history(run_id, key)
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
        client: Callable[[], MlflowClient],
        table: RunsTable,
        measures: Collection[str],
        excluded: list[Excluded],
    ) -> dict[str, schema.FoldValues]:
        """By run id, the values by fold of the runs that have any and do not carry our tag; what
        cannot be read goes to the list.

        ``steps`` takes a request per run and measure, ``children`` one paged search, a pattern
        none.
        """
        others = table.where(~table.has(f"tags.{schema.TAG_FOLDS}"))
        values: Iterable[schema.FoldValues | str | None]
        if self.rule == "steps":
            held = client()

            def history(row: RunRow) -> schema.FoldValues | None:
                return _history(held, row.run_id, {m: m for m in row.metrics if m in measures})

            values = at_once(history, others.rows())
        elif self.rule == "children":
            values = _children(client(), others)
        else:
            named = {key: at for key in table.names["metrics"] if (at := self.match(key))}
            values = [
                _folds((*named[k], v) for k, v in row.metrics.items() if k in named)
                for row in others.rows()
            ]
        read: dict[str, schema.FoldValues] = {}
        for run_id, title, folds in zip(others.frame["run_id"], others.titles, values, strict=True):
            if isinstance(folds, str):
                excluded.append(Excluded("folds", title, folds))
            elif folds is not None:
                read[run_id] = folds
        return read


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


def _children(client: MlflowClient, parents: RunsTable) -> list[schema.FoldValues | None]:
    """The values by fold of each run, from its finished children."""
    found = Searches.among(read_children(client, parents))
    rows = [*found.children.rows()]
    folds: list[schema.FoldValues | None] = []
    for parent, name in zip(parents.frame["run_id"], parents.frame["run_name"], strict=True):
        at = found.families.get(parent, [])
        if len(at) and (params := found.trial_params(parent)):
            raise IncomparableRunsError(
                Message(
                    f"the {count(len(at), 'child run')} of {some([name])} (run {parent}) differ "
                    f"in {some(params, 6)}: they are trials of a search, not folds. ",
                    BEST_TRIAL,
                    " takes the best trial of each search.",
                )
            )
        values = (
            (schema.measure_of(key) or key, fold, value)
            for fold, i in enumerate(at)
            for key, value in rows[i].metrics.items()
        )
        folds.append(_folds(values) if len(at) > 1 else None)
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
    cells: Cells,
    used: Sequence[str],
    excluded: list[Excluded],
) -> tuple[pd.DataFrame | None, list[str]]:
    """Values by fold of the runs that carry them, and what a reader must know about them; what is
    broken goes to the list.
    """
    tagged, absent, rounded = _tagged_folds(client, cells.members, used, excluded)
    rows = cells.members.rows.loc[[*tagged]]
    by_cell: dict[Cell, schema.FoldValues] = {}
    for (dataset, method), runs in rows.groupby(["dataset", "method"], sort=False):
        mean = _mean_folds([tagged[label] for label in runs.index], runs["split_digest"])
        if isinstance(mean, str):
            excluded.append(Excluded("folds", f"{method} on {dataset}", mean))
        else:
            by_cell[dataset, method] = mean
    doubts = {
        "are too many for one tag, and not where it says": absent,
        "are rounded to few digits, because there are many": rounded,
    }
    notes = [
        f"Values by fold of {count(len(names), 'run')} {what} ({some(names, 3)})."
        for what, names in doubts.items()
        if names
    ]
    ways = {(dataset, tuple(sorted(values.folds))) for (dataset, _), values in by_cell.items()}
    counts = Counter(dataset for dataset, _ in sorted(ways))
    if unlike := [dataset for dataset, n in counts.items() if n > 1]:
        notes.append(f"Not all runs have the same folds on {some(unlike)}.")
    tables = [
        pd.DataFrame(values.values, index=[(*cell, fold) for fold in values.folds], dtype=float)
        for cell, values in by_cell.items()
    ]
    measures = [m for m in used if any(m in table for table in tables)]
    if not measures:
        return None, notes
    table = pd.concat(tables).reindex(columns=measures)
    index = pd.MultiIndex.from_tuples([*table.index], names=["dataset", "method", "fold"])
    return table.set_axis(index), notes


def _tagged_folds(
    client: MlflowClient | None,
    members: Results,
    used: Sequence[str],
    excluded: list[Excluded],
) -> tuple[dict[int, schema.FoldValues], list[str], list[str]]:
    """By the labels of runs, their values by fold, also those to which a tag only points; and the
    runs of which these are not there, or rounded.
    """
    rows, titles = members.rows, members.titles
    tagged: dict[int, schema.FoldValues] = {}
    for label, run_id, tag in zip(rows.index, rows["run_id"], rows["folds"], strict=True):
        values: schema.FoldValues | str | None = members.by_fold.get(run_id)
        if values is None and tag and members.finished[label]:
            values = store.of_one_run(partial(schema.decode_folds, tag))
        if isinstance(values, str):
            excluded.append(Excluded("tag", f"{schema.TAG_FOLDS} of {titles[label]}", values))
        elif values is not None:
            tagged[label] = values
    rounded = [titles[at] for at, tag in tagged.items() if tag.digits and not tag.omitted]
    pointers = {label: tag.omitted for label, tag in tagged.items() if tag.omitted}
    there: dict[str, schema.FoldValues | str | None] = {}
    if pointers and client is not None:
        ids = {rows.at[label, "run_id"]: where for label, where in pointers.items()}
        there = elsewhere(client, ids, used)
    absent = []
    for label, where in pointers.items():
        found = there.get(rows.at[label, "run_id"])
        if isinstance(found, schema.FoldValues):
            tagged[label] = found
            continue
        del tagged[label]
        if found is None:
            absent.append(titles[label])
        else:
            excluded.append(Excluded("artifact", f"{where} of {titles[label]}", found))
    return tagged, absent, rounded


def _mean_folds(
    repeats: Sequence[schema.FoldValues], split_digests: Iterable[str]
) -> schema.FoldValues | str:
    """Values by fold as means over repeats, or why there are none."""
    first = repeats[0]
    if len(repeats) == 1:
        return first
    folds, chooses = sorted(first.folds), (Argument("filter_string"), " chooses one of them")
    if any(sorted(values.folds) != folds for values in repeats):
        return Message("its repeats have different folds; ", *chooses)
    if schema.differ(split_digests):
        return Message("its repeats split the data in different ways; ", *chooses)
    tables = [pd.DataFrame(values.values, index=values.folds) for values in repeats]
    measures = dict.fromkeys(m for table in tables for m in table)
    whole = [table.reindex(folds, columns=list(measures)) for table in tables]
    means = np.mean([table.to_numpy(float) for table in whole], axis=0)
    return schema.FoldValues(folds, dict(zip(measures, means.T.tolist(), strict=True)))
