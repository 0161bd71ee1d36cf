"""The runs table: what a store or a table of results says of runs, one row a run, in the columns of
`mlflow.search_runs`. Studies, surveys and rules read this table and nothing else."""

from __future__ import annotations

import hashlib
import re
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_mleval.errors import MeasureError, NoRunsError
from mlflow_mleval.files.results import (
    RunRow,
    exported_runs,
    is_leaderboard,
    read_cells,
    tidy,
    with_datasets_alone,
    with_names_known_here,
)
from mlflow_mleval.measures.metric_names import data_of
from mlflow_mleval.selection import Progress, Selection, in_silence, started
from mlflow_mleval.sentences import agree, count, did_you_mean, some
from mlflow_mleval.store import artifacts, schema, store
from mlflow_mleval.store.schema import bounded_json, computable
from mlflow_mleval.study import Cell

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_TEST_CONTEXTS = ("eval", "evaluation", "test", "testing", "validation")
#: The name that MLflow gives to a dataset input without one, and names that say what part it is.
NAMELESS = "dataset"
_PART = re.compile(r"(train|training|val|valid|validation|eval|test)([_-]?\d+)?", re.IGNORECASE)
#: Tags that are long, and name nothing.
_PASSED_OVER = ("mlflow.log-model.history", "mlflow.note.content")
#: Columns that fewer runs than this share have are stored as what is there.
_RARE = 0.1
#: Later, or earlier, there is no time that tables have room for.
MOST_MS = 9_000_000_000_000
#: Run ids in one filter.
_IDS_AT_ONCE = 500
#: The one experiment of a table.
_ONLY = "0"
_KINDS = ("metrics", "params", "tags")
_ABOUT = tuple(name for name in RunRow.__dataclass_fields__ if name not in _KINDS)
_WHOLE = ("started", "last_step")


@dataclass(frozen=True)
class RunsTable:
    """Runs, one row each."""

    # The columns run_id, run_name, status, started, experiment_id, experiment, data, digest, shape,
    # model and last_step, and by name ``metrics.f1`` (floats), ``params.lr`` and ``tags.team``
    # (categories); what a run has not is NaN, and takes no room where few runs have it.
    frame: pd.DataFrame
    experiments: Mapping[str, str] = field(default_factory=dict)  # name by id, also without a run
    # By run id, metrics whose values are no results, and values by fold that stand in no tag.
    unusable: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    by_fold: Mapping[str, schema.FoldValues] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()  # what a reader must know
    source: Mapping[str, str] = field(default_factory=dict)  # empty for a store
    told_by: Mapping[str, str] = field(default_factory=dict)  # what tells a role where no run does

    @classmethod
    def of(cls, rows: Iterable[RunRow], experiments: Mapping[str, str], **more: Any) -> RunsTable:
        """The table of these rows."""
        about: dict[str, Any] = {name: [] for name in _ABOUT}
        about |= {name: array("q") for name in _WHOLE}
        columns: dict[str, dict[str, _Column]] = {kind: {} for kind in _KINDS}
        for i, row in enumerate(rows):
            for name, values in about.items():
                values.append(getattr(row, name))
            for kind, of_kind in columns.items():
                for key, value in getattr(row, kind).items():
                    if key not in of_kind:
                        of_kind[key] = _Column(is_text=kind != "metrics")
                    of_kind[key].add(i, value)
        frame: dict[str, Any] = {}
        for name in _ABOUT:  # as of the columns below
            whole = name in _WHOLE
            frame[name] = pd.Series(about.pop(name), dtype=np.int64 if whole else object)
        frame["experiment"] = frame["experiment_id"].map(lambda i: experiments.get(i, ""))
        ids = frame["run_id"]
        unusable: dict[str, dict[str, float]] = {}
        for kind, of_kind in columns.items():
            for key in [*of_kind]:
                # the rows of each are let go before the next is made
                column, no_results = of_kind.pop(key).of(len(ids))
                for at, value in no_results.items():
                    unusable.setdefault(ids[at], {})[key] = value
                if column is not None:
                    frame[f"{kind}.{key}"] = column
        return cls(pd.DataFrame(frame, copy=False), experiments, unusable, **more)

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The names of metrics, params and tags."""
        found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for column in self.frame:
            kind, _, name = str(column).partition(".")
            if kind in found:
                found[kind].append(name)
        return found

    def texts(self, column: str) -> pd.Series:
        """The texts of a param or tag, empty where a run has none."""
        if column not in self.frame:
            return pd.Series("", self.frame.index, dtype=object)
        texts = self.frame[column].astype(object)
        return texts.where(texts.notna(), "")

    def tag(self, name: str, otherwise: Any = None) -> pd.Series:
        """A tag as text, and what is given in its place where a run has none."""
        texts = self.texts(f"tags.{name}")
        return texts if otherwise is None else texts.where(texts != "", otherwise)

    def has(self, column: str) -> pd.Series:
        """Which runs have it."""
        having = column in self.frame and self.frame[column].notna().to_numpy(bool)
        return pd.Series(having, self.frame.index)

    def where(self, mask: Any) -> RunsTable:
        """Some of the runs."""
        mask = np.asarray(mask, bool)
        return self if mask.all() else replace(self, frame=self.frame[mask])

    @cached_property
    def ours(self) -> pd.Series:
        """Which runs say what they are in our tags."""
        return self.has(f"tags.{schema.TAG_METHOD}")

    @cached_property
    def parent(self) -> pd.Series:
        return self.tag(schema.MLFLOW_PARENT)

    @property
    def is_child(self) -> pd.Series:
        return self.has(f"tags.{schema.MLFLOW_PARENT}")

    @property
    def is_record(self) -> pd.Series:
        """Which runs hold no results: reports, gates and registers."""
        return self.tag(schema.TAG_KIND).isin(schema.RECORDS)

    @property
    def titles(self) -> pd.Series:
        """How lists name the runs."""
        return self.frame["run_name"] + " (" + self.frame["run_id"] + ")"

    def rows(self) -> Iterator[RunRow]:
        """The runs one by one, for what changes a few of them."""
        held: dict[Any, dict[str, dict[str, Any]]]
        held = {label: {kind: {} for kind in _KINDS} for label in self.frame.index}
        for kind, names in self.names.items():
            for name in names:
                for label, value in self.frame[f"{kind}.{name}"].dropna().items():
                    held[label][kind][name] = value
        for label, about in self.frame[[*_ABOUT]].to_dict("index").items():
            held[label]["metrics"] |= self.unusable.get(about["run_id"], {})
            known: dict[str, Any] = {**about, **held[label]}
            yield RunRow(**known)

    def sorted(self) -> RunsTable:
        """The runs in the order in which they started."""
        order = np.lexsort([self.frame[name].to_numpy() for name in ("run_id", "started")])
        return self.at(self.frame.index[order])

    def at(self, labels: Any) -> RunsTable:
        """The runs with these labels, in this order."""
        same = self.frame.index.equals(labels)  # a copy takes as much memory again
        return self if same else replace(self, frame=self.frame.loc[labels])


class _Column:
    """A metric, param or tag of rows as they come: values or codes, and the rows that have it;
    these are kept from the first gap on."""

    def __init__(self, is_text: bool) -> None:
        self.values = array("i" if is_text else "d")
        self._rows: array[int] | None = None
        self.codes: dict[str, int] | None = {} if is_text else None

    def add(self, row: int, value: Any) -> None:
        if self._rows is None and row > len(self.values):
            self._rows = array("i", range(len(self.values)))
        if self._rows is not None:
            self._rows.append(row)
        if self.codes is not None:
            value = self.codes.setdefault(value, len(self.codes))
        self.values.append(value)

    def of(self, n: int) -> tuple[Any, dict[int, float]]:
        """Floats of `n` rows or categories, NaN where there is none, None without any result; and
        by row the values that are no results."""
        values = np.asarray(self.values)
        rows = np.arange(len(values)) if self._rows is None else np.asarray(self._rows)
        if self.codes is not None:
            codes = np.full(n, -1, dtype=np.int32)
            codes[rows] = values
            return pd.Categorical.from_codes(codes, pd.Index([*self.codes], dtype=object)), {}
        bad = ~computable(values)
        no_results = dict(zip(rows[bad].tolist(), values[bad].tolist(), strict=True))
        values[bad] = np.nan
        if np.isnan(values).all():
            return None, no_results
        if len(rows) == n:
            return values, no_results  # a copy takes as much memory again
        if len(rows) < _RARE * n:
            of_rows = pd.arrays.SparseArray.from_indices
            sparse = of_rows(values, rows, length=n, kind="integer", fill_value=np.nan)
            return sparse, no_results
        column = np.full(n, np.nan)
        column[rows] = values
        return column, no_results


# --------------------------------------------------------------------------------------------------
# Of a store: experiments, run ids, a filter.

#: The tables of searches that are made once, by experiments and filters.
_known: ContextVar[dict[tuple[frozenset[str], tuple[str, ...]], RunsTable] | None]
_known = ContextVar("known", default=None)


@contextmanager
def remembered() -> Iterator[None]:
    """While the block runs, the same runs are read once."""
    token = _known.set({} if (known := _known.get()) is None else known)
    try:
        yield
    finally:
        _known.reset(token)


def read_store(
    client: MlflowClient, selection: Selection, progress: Progress = in_silence
) -> RunsTable:
    """The runs of a selection as they started; NoRunsError where one that it names is lost."""
    selection = store.with_runs_of_models(client, selection)
    named = selection.experiment_ids, selection.experiment_names
    everywhere = selection.run_ids and not any(named)
    there = store.all_experiments(client) if everywhere else store.find_experiments(client, *named)
    experiments = {e.experiment_id: e.name for e in there}
    table = _searched(client, experiments, filters_of(selection), progress)
    ids = table.frame["run_id"]
    if unknown := {*selection.exclude_runs}.difference(ids):
        raise NoRunsError(
            f"the selection has no run {some(sorted(unknown))} to leave out; it has "
            f"{count(len(ids), 'run')}."
        )
    if lost := {*selection.run_ids}.difference(ids):
        raise NoRunsError(
            f"there is no run {some(sorted(lost))} in the selection. Is it deleted, in another "
            "experiment, or not yours to read?"
        )
    return table.where(~ids.isin(selection.exclude_runs))


def _searched(
    client: MlflowClient,
    experiments: Mapping[str, str],
    filters: Sequence[str],
    progress: Progress = in_silence,
) -> RunsTable:
    """The table of what these filters find; a run is let go as soon as its row is there."""
    known, wanted = _known.get(), frozenset(experiments)
    for (held, texts), table in (known or {}).items():
        if texts == tuple(filters) and wanted <= held:  # of more experiments, perhaps
            here = table.where(table.frame["experiment_id"].isin(wanted))
            return replace(here, experiments=experiments)
    doubts: list[str] = []

    def made(runs: Iterable[Run]) -> RunsTable:
        return RunsTable.of(map(_row_of, runs), experiments).sorted()

    search = partial(store.search, client, [*experiments], doubts=doubts, progress=progress)
    if len(filters) == 1:
        table = search(filters[0], made=made)
    else:
        table = made(run for text in filters for run in search(text))
    table = replace(table, doubts=tuple(doubts))
    if known is not None:
        known[wanted, tuple(filters)] = table
    return table


def runs_of(client: MlflowClient, table: RunsTable) -> dict[str, Run]:
    """The runs of a table by their ids, as MLflow gives them; those that were deleted are not."""
    experiments = [*table.frame["experiment_id"].unique()]
    filters = filters_of(Selection(run_ids=[*table.frame["run_id"]])) if len(table) else []
    runs = (run for text in filters for run in store.search(client, experiments, text))
    return {run.info.run_id: run for run in runs}


def _row_of(run: Run) -> RunRow:
    info = run.info
    return RunRow(
        info.run_id,
        info.run_name or "",
        sys.intern(info.status),
        info.start_time or 0,
        sys.intern(info.experiment_id),
        run.data.metrics,
        run.data.params,
        {key: text for key, text in run.data.tags.items() if key not in _PASSED_OVER},
        *_dataset_input(run),
        store.model_of(run) or "",
        max((metric.step for metric in run.data._metric_objs), default=0),
    )


def _dataset_input(run: Run) -> tuple[str, str, str]:
    """Name, digest and shape of the data of a run; empty where it is not clear."""
    inputs = run.inputs.dataset_inputs if run.inputs else []
    tests = [
        given
        for given in inputs
        if any(t.key == schema.MLFLOW_CONTEXT and t.value in _TEST_CONTEXTS for t in given.tags)
    ]
    held = {(g.dataset.name, g.dataset.digest): g.dataset for g in tests or inputs}
    if len(held) != 1:
        return "", "", ""
    (((name, digest), dataset),) = held.items()
    name, shape = _as_named(name), ""
    with suppress(ValueError, TypeError, AttributeError, KeyError, ZeroDivisionError):
        profile = bounded_json(dataset.profile or "{}")
        n, *size = map(int, profile.get("features_shape") or [profile["num_rows"]])
        if not size and "estimator_name" in run.data.tags:  # tables of others may hold outputs
            size = [profile["num_elements"] // n]
        shape = count(int(np.prod(size)), "feature") if size else ""
    return name, digest, shape


def _as_named(data: str) -> str:
    """The name of a dataset; that it has none where it says what part it is."""
    return NAMELESS if _PART.fullmatch(data or "") else data


def filters_of(selection: Selection) -> list[str]:
    """The filters to search with; one, unless there are very many run ids."""
    own, ids = selection.filter_string, list(dict.fromkeys(selection.run_ids))
    if selection.since is not None:
        own = store.filter_of(own, f"attributes.start_time >= {started(selection.since)}")
    if not ids:
        return [own]
    if wrong := [i for i in ids if not i.replace("-", "").isalnum()]:
        raise NoRunsError(f"no run id: {some(map(repr, wrong))}.")
    parts = (ids[i : i + _IDS_AT_ONCE] for i in range(0, len(ids), _IDS_AT_ONCE))
    return [
        store.filter_of(f"attributes.run_id IN ({', '.join(map(repr, part))})", own)
        for part in parts
    ]


def read_children(client: MlflowClient | None, table: RunsTable, parents: RunsTable) -> RunsTable:
    """The finished children of runs, as they started; MLflow finds them by a tag, whatever the
    selection left out. Without a client they are in the table."""
    if client is not None and len(parents):
        there = {*parents.frame["experiment_id"]}
        experiments = {i: name for i, name in parents.experiments.items() if i in there}
        table = _searched(client, experiments, [f"tags.`{schema.MLFLOW_PARENT}` LIKE '%'"])
    finished = table.frame["status"] == "FINISHED"
    return table.where(finished & table.parent.isin(parents.frame["run_id"])).sorted()


# --------------------------------------------------------------------------------------------------
# Metrics that others logged by epoch, at the step where one of them is best.


def best_steps(
    client: MlflowClient,
    table: RunsTable,
    metric: str,
    sign: Callable[[], int],
    wanted: Collection[str],
    progress: Progress,
) -> tuple[RunsTable, dict[str, int]]:
    """The runs with the metrics of the step where one is best, where others logged them, and by run
    id among how many steps that is; a request a run and a metric that is `wanted`."""
    others = table.where(~table.ours)
    having = others.where(others.has(f"metrics.{metric}"))
    larger = sign() if len(having) else 0
    read = partial(_at_best_step, client, metric, larger, wanted)
    found = artifacts.at_once(read, having.rows())
    progress(len(having), len(having))
    runs = zip(having.frame.index, found, strict=True)
    read_at = {label: held for label, held in runs if isinstance(held, tuple) and held[0]}
    if not read_at:
        logged = sorted(m for m in others.names["metrics"] if others.has(f"metrics.{m}").any())
        raise MeasureError(
            f"no run of others has several steps of {metric!r}, by which to choose one; they have "
            f"{some(logged) or 'no metrics'}.{did_you_mean([metric], logged)}"
        )
    values = pd.DataFrame.from_dict({at: held for at, (_, held) in read_at.items()}, orient="index")
    frame = table.frame.copy()
    frame[[*values]] = frame[[*values]].astype(float)
    frame.update(values)
    ids = having.frame["run_id"]
    return replace(table, frame=frame), {ids[at]: n for at, (n, _) in read_at.items()}


def _at_best_step(
    client: MlflowClient, metric: str, larger: int, wanted: Collection[str], row: RunRow
) -> tuple[int, dict[str, float]]:
    """The number of steps of a run, and its columns of metrics at the best of them."""
    chooser = _steps_of(client, row.run_id, metric)
    if len(chooser) < 2:
        return 0, {}
    best = max(chooser, key=lambda step: larger * chooser[step])
    values = {f"metrics.{metric}": chooser[best]}
    for key in (key for key in row.metrics if key != metric and key in wanted):
        steps = _steps_of(client, row.run_id, key)
        upto = [value for step, value in steps.items() if step <= best]
        if len(steps) > 1 and upto:
            values[f"metrics.{key}"] = upto[-1]
    return len(chooser), values


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


def _steps_of(client: MlflowClient, run_id: str, key: str) -> dict[int, float]:
    """A metric's values by step, in this order, of each step the later one; where all have the same
    step, as Keras logs its validation_loss, they are counted from 0."""
    logged = client.get_metric_history(run_id, key)
    logged = sorted((m for m in logged if computable(m.value)), key=lambda m: m.timestamp)
    if len({m.step for m in logged}) == 1:
        return {i: m.value for i, m in enumerate(logged)}
    return dict(sorted({m.step: m.value for m in logged}.items()))


# --------------------------------------------------------------------------------------------------
# Of a file or a DataFrame, which are read in the place of a store: nothing is written.


def read_results_table(selection: Selection) -> RunsTable:
    """The results of a table, or the runs of an export, as runs that are in no store."""
    results: str | Path | pd.DataFrame = selection.results
    cells = read_cells(results)
    source, about = {"results": "a DataFrame"}, "a DataFrame"
    if not isinstance(results, pd.DataFrame):
        digest = hashlib.sha256(Path(results).read_bytes()).hexdigest()
        source, about = {"results": str(results), "sha256": digest}, Path(results).stem
    exported = exported_runs(
        cells, {*(selection.measures or ()), *selection.minimize, *selection.maximize}
    )
    if exported is not None:
        runs, names = exported
        for run in runs:
            run.tags, run.data = schema.unpacked(run.tags), _as_named(run.data)
        # where it names no experiment, they are of one that is called as the file is
        names = names or {run.experiment_id: about for run in runs}
        return RunsTable.of(runs, names, source=source).sorted()
    cells = with_names_known_here(cells)
    doubts, told_by = [], {"method": "the table", "dataset": "the table"}
    if is_leaderboard(cells):
        told_by = {"method": "the rows", "dataset": "the columns"}
        read = with_datasets_alone(cells)
        columns, n = some(read.header[1:], 4), len(read.cells)
        doubts.append(
            f"No column of {read.name} is called dataset: its {count(n, 'row')} {agree(n, 'was')} "
            f"read as methods, its columns ({columns}) as data sets, and its values as one "
            "measure, called value."
        )
    tidied = tidy(cells)
    del cells  # large, and of no more use
    warnings = [*doubts, *tidied.attrs["notes"]]
    by_fold: dict[str, schema.FoldValues] = {}

    def each() -> Iterator[RunRow]:
        for i, ((dataset, method, seed), held) in enumerate(grouped_results(tidied).items()):
            tags = {
                schema.TAG_SCHEMA: str(schema.SCHEMA_VERSION),
                schema.TAG_KIND: schema.KIND_IMPORT,
                schema.TAG_METHOD: method,
                schema.TAG_DATASET: dataset,
                schema.TAG_STATUS: schema.COMPLETE if held.means else schema.DNF,
            }
            metrics = {schema.METRIC_PREFIX + m: v for m, v in held.means.items()}
            status = "FINISHED" if held.means else "KILLED"
            params = {"seed": seed} if seed else {}
            if held.folds.values:
                by_fold[str(i)] = held.folds
            warnings.extend(held.warnings)
            yield RunRow(str(i), held.name, status, i, _ONLY, metrics, params, tags)

    more = {"by_fold": by_fold, "told_by": told_by}
    table = RunsTable.of(each(), {_ONLY: about}, source=source, **more)
    return replace(table, doubts=tuple(warnings))


@dataclass(frozen=True)
class TableResult:
    """What a table of results says of one method on one dataset with one seed: means over folds,
    values by fold, and the measures that lack a fold."""

    name: str
    means: Mapping[str, float]
    folds: schema.FoldValues
    warnings: Sequence[str]


def result_name(dataset: str, method: str, seed: str = "") -> str:
    """What lists call it."""
    return f"{method} on {dataset}{f' (seed {seed})' if seed else ''}"


def grouped_results(table: pd.DataFrame) -> dict[tuple[str, str, str], TableResult]:
    """By dataset, method and seed (empty where there are no repeats), what a tidy table of
    `read_results` holds, in its order."""
    rows = table.reindex(columns=["dataset", "method", "seed", "measure", "fold", "value"])
    rows["seed"] = rows["seed"].where(rows["seed"].notna(), "")
    rows["fold"] = rows["fold"].astype(object).where(rows["fold"].notna(), None)
    by_key: dict[tuple[str, str, str], dict[str, dict[int | None, float]]] = {}
    for *key, measure, fold, value in rows.itertuples(index=False, name=None):
        by_measure = by_key.setdefault((key[0], key[1], key[2]), {})
        by_measure.setdefault(measure, {})[fold] = value  # of the fold None where there are none
    results = {}
    for cell, by_measure in by_key.items():
        name, means, values, warnings = result_name(*cell), {}, {}, []
        folds = sorted({fold for held in by_measure.values() for fold in held if fold is not None})
        for m, held in by_measure.items():
            column = [held.get(fold, np.nan) for fold in folds]
            gaps = [fold for fold, value in zip(folds, column, strict=True) if np.isnan(value)]
            mean = held[None] if held.keys() == {None} else sum(column) / len(folds)
            if not np.isnan(mean):
                means[m] = float(mean)
            if len(gaps) < len(folds):
                values[m] = column
                if gaps:
                    which, where = some([f"{m} of {name}"]), f"fold {some(gaps)} of {len(folds)}"
                    why = "its mean counts as not finished"
                    warnings.append(f"{which} has no value in {where}: {why}")
        of_folds = schema.FoldValues(folds if values else [], values)
        results[cell] = TableResult(name, means, of_folds, warnings)
    return results
