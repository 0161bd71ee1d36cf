"""What the runs of a table say: method, dataset, status and values, or why they are no results."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.measures.metric_names import (
    by_measure,
    direction_of,
    joined_term,
    of_training,
    proposed_direction,
    term,
)
from mlflow_mleval.measures.owa import MEASURED, hard_measures
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.selection import Selection
from mlflow_mleval.sentences import DECLARE, PROPOSED, Argument, Message, quoted, some
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.identity import Rule, digests, repeat_names
from mlflow_mleval.store.runs_table import MOST_MS, RunsTable
from mlflow_mleval.store.schema import MAX_DIGITS
from mlflow_mleval.study import NEWER

CHILD = "children of other runs are no results"
#: Why a run is left out that failed.
FAILED = "status FAILED"
#: How the reason begins why a run is left out of whose metrics none has a direction.
UNDIRECTED = "nobody knows which way its metrics are better"
#: Measures that the profile of the label sets gives.
FROM_PROFILE = ("hamming_loss", "subset_accuracy", *MEASURED)
#: A metric of cross-validation, by its name.
_OF_FOLDS = re.compile(r"(^|[_/.-])(cv|folds?|split)_?\d*([_/.-]|$)|_std$", re.IGNORECASE)
#: What `Study.runs` says of each run.
COLUMNS = (
    "run_id",
    "experiment_id",
    "experiment",
    "dataset",
    "method",
    "status",
    "conventions",
    "split_digest",
    "dataset_digest",
    "n_train",
    "n_test",
    "selected_among",
    "repeat",
    "start_time",
)
#: Tags that are columns of results.
_TAGS = {
    "split_digest": schema.TAG_SPLIT_DIGEST,
    "hierarchy": schema.TAG_HIERARCHY_DIGEST,
    "propensities": schema.TAG_PROPENSITIES,
    "weights": schema.TAG_WEIGHTS,
    "folds": schema.TAG_FOLDS,
    "commit": "mlflow.source.git.commit",
}


class RunProfiles(Mapping[str, schema.ProfileTag]):
    """The loss profiles that a run carries, "hard" and "soft"; each tag is decoded when it is first
    asked for.
    """

    def __init__(self, tags: Mapping[str, str]) -> None:
        self._tags = {kind: text for kind, text in tags.items() if text}
        self._found: dict[str, schema.ProfileTag] = {}

    def __getitem__(self, kind: str) -> schema.ProfileTag:
        if kind not in self._found:
            decode = {"hard": schema.decode_profile, "soft": schema.decode_soft_profile}[kind]
            self._found[kind] = decode(self._tags[kind])
        return self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tags)

    def __len__(self) -> int:
        return len(self._tags)


@dataclass(frozen=True)
class Results:
    """Runs that can be used, in the order in which they started; all tables have the same index.

    table
    rows: `COLUMNS`, and what tells whether runs compare: method_by and dataset_by, the rules that
        named them; protocol, over how many folds (1 is hold-out, −1 an unknown number, 0 where
        nobody says); searched, whether it is what a search says of its winner; n_rows, hierarchy,
        propensities, weights, commit, and folds as our tag has them.
    values: One column a measure, NaN where a run has none.
    plain: Which of them were logged without our prefix, though they are named like our measures.
    keys: The metrics whose names MLflow made of calls, by measure, empty where there is none.
    by_fold: By run id, values by fold that stand in no tag of ours.
    broken: By run id and tag, why it cannot be read.
    """

    table: RunsTable
    rows: pd.DataFrame
    values: pd.DataFrame
    plain: pd.DataFrame
    keys: pd.DataFrame
    by_fold: Mapping[str, schema.FoldValues] = field(default_factory=dict)
    broken: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, mask: Any) -> Results:
        """Some of the runs."""
        mask = np.asarray(mask, bool)
        return self if mask.all() else self.at(self.rows.index[mask])

    def at(self, labels: Any) -> Results:
        """The runs with these labels, in this order."""
        parts = {name: getattr(self, name).loc[labels] for name in _ALIKE}
        return replace(self, table=self.table.at(labels), **parts)

    @cached_property
    def finished(self) -> pd.Series:
        return self.rows["status"] == schema.COMPLETE

    @property
    def cells(self) -> pd.Series:
        """The dataset and method of each run, as "method on dataset"."""
        return self.rows["method"] + " on " + self.rows["dataset"]

    @property
    def titles(self) -> pd.Series:
        """How lists name the runs."""
        return self.cells + " (run " + self.rows["run_id"] + ")"

    def profiles(self, label: Any) -> RunProfiles:
        """The loss profiles of a run."""
        tags = {k: self.table.frame.get(f"tags.{tag}") for k, tag in schema.TAG_PROFILES.items()}
        held = {kind: column.at[label] for kind, column in tags.items() if column is not None}
        return RunProfiles({kind: text for kind, text in held.items() if isinstance(text, str)})

    def bad(self, label: Any) -> Mapping[str, float]:
        """Measures of a run whose values are no results."""
        unusable = self.table.unusable.get(self.rows.at[label, "run_id"], {})
        return {
            schema.measure_of(key) or key: value
            for key, value in unusable.items()
            if schema.measure_of(key) or not key.startswith("mleval.")
        }

    def with_profile_measures(self, asked: Collection[str]) -> Results:
        """With the measures that were asked for and that the loss profile of a run gives, where it
        lacks them.
        """
        asked = [m for m in asked if m in FROM_PROFILE]
        lacking = self.values.reindex(columns=asked).isna().any(axis=1) & self.finished
        there = self.table.has(f"tags.{schema.TAG_PROFILE}")
        values = self.values.copy()
        for label in self.rows.index[lacking & there]:
            profiles = self.profiles(label)
            found = store.of_one_run(partial(_of_profile, profiles))
            if isinstance(found, str):  # whoever compares profiles is told
                continue
            for m in asked:
                lacks = m not in values or np.isnan(values.at[label, m])
                if lacks and np.isfinite(found.get(m, np.nan)):
                    values.loc[label, m] = found[m]
        return replace(self, values=values)


_ALIKE = ("rows", "values", "plain", "keys")


def results_of_runs(
    table: RunsTable,
    rules: tuple[Rule, Rule],
    selection: Selection,
    wanted: Callable[[str], object] = lambda measure: True,
) -> tuple[Results, pd.Series]:
    """The results among the runs of a table, and why the others hold none (empty for results).

    Measures that have values by fold get their mean; `wanted` tells whether a measure may count.
    """
    status = table.tag(schema.TAG_STATUS)
    state = table.frame["status"].replace("FINISHED", schema.COMPLETE)
    status = status.where(status != "", state)
    conventions = table.tag(schema.TAG_CONVENTIONS)
    conventions = conventions.where(conventions != "", schema.UNKNOWN_CONVENTIONS)
    reasons = _why_none(table, status, conventions)
    named = [rule.named(table) for rule in rules]
    for rule, (names, _) in zip(rules, named, strict=True):
        lacking = (reasons == "") & (names == "")
        if lacking.any():
            reasons[lacking] = rule.lacking(table.where(lacking))
    usable = table.where(reasons == "")
    rows, broken = _rows_of_results(usable, status, conventions, named, selection)
    values, plain, keys = measured(usable)
    means = _means_by_fold(usable)
    for m in means:
        old = values.get(m, np.nan)
        values[m] = means[m].where(means[m].notna(), old)
        if m in MEASURES:
            plain[m] = plain.get(m, False) | (means[m].notna() & ~usable.ours)
    rows["protocol"] = _protocols(usable, rows, values)
    values[rows["status"] != schema.COMPLETE] = np.nan
    results = Results(usable, rows, values, plain, keys, usable.by_fold, broken)
    counting = values[[m for m in values if wanted(m)]].notna().any(axis=1)
    strangers = results.finished & ~usable.ours & ~counting
    for at in rows.index[strangers]:
        reasons[at] = _unmeasured([m for m in values if not np.isnan(values.at[at, m])])
    if not (selection.method_by or selection.dataset_by) and table.ours.any():
        beside = Argument("method_by"), " and ", Argument("dataset_by")
        why = Message(f"no tag {schema.TAG_METHOD}; ", *beside, " say how to read such a run")
        reasons[(reasons == "") & ~table.ours] = why
    return results.where(reasons[rows.index] == ""), reasons


def _why_none(table: RunsTable, status: pd.Series, conventions: pd.Series) -> pd.Series:
    """Why runs hold no results, whatever these are of; empty where they may."""
    reasons = pd.Series("", table.frame.index, dtype=object)

    def leave_out(mask: Any, why: Any) -> None:
        mask = (reasons == "") & mask
        reasons[mask] = why[mask] if isinstance(why, pd.Series) else why

    versions = table.tag(schema.TAG_SCHEMA)
    for version in versions[table.has(f"tags.{schema.TAG_SCHEMA}")].unique():
        if newer := schema.newer_schema({schema.TAG_SCHEMA: version}):
            leave_out(versions == version, NEWER + newer.removeprefix("schema ").rstrip("."))
    leave_out(table.is_child & (~table.ours | table.has(f"tags.{schema.TAG_TRIAL}")), CHILD)
    leave_out(status == schema.INCOMPLETE, "written in part only; import or log again")
    leave_out(~status.isin([schema.COMPLETE, schema.DNF]), "status " + status)
    known = f"are none of {some(schema.CONVENTIONS)}"
    for other in conventions[~conventions.isin(schema.CONVENTIONS)].unique():
        leave_out(conventions == other, f"its conventions, {quoted(other)}, {known}")
    timeless = table.frame["started"].abs() > MOST_MS
    for at in table.frame.index[timeless]:
        since = f"{table.frame.at[at, 'started']:,} milliseconds after 1970"
        reasons[at] = reasons[at] or f"it is said to have started {since}, which is no time"
    return reasons


def _rows_of_results(
    table: RunsTable,
    status: pd.Series,
    conventions: pd.Series,
    named: list[tuple[pd.Series, pd.Series]],
    selection: Selection,
) -> tuple[pd.DataFrame, dict[str, dict[str, str]]]:
    """What results say of themselves, and by run id the tags that cannot be read."""
    index, ids = table.frame.index, table.frame["run_id"]
    (methods, method_by), (datasets, dataset_by) = named
    broken: dict[str, dict[str, str]] = {}
    sizes: dict[str, list[tuple[int, ...]]] = {"n_train": [()] * len(index)}
    sizes["n_test"] = [()] * len(index)
    checks: dict[str, Callable[[str], Any]] = {
        schema.TAG_FOLD_SIZES: schema.decode_fold_sizes,
        schema.TAG_WITHDRAWN: schema.decode_withdrawn,
        schema.TAG_RUN: schema.decode,
    }
    for tag, decode in checks.items():
        texts = table.tag(tag)
        known: dict[str, Any] = {}
        for i in np.flatnonzero(texts != ""):
            text = texts.iloc[i]
            if text not in known:
                try:
                    known[text] = decode(text)
                except ValueError as error:
                    known[text] = str(error).rstrip(".")
            if isinstance(known[text], str):
                broken.setdefault(ids.iloc[i], {})[tag] = known[text]
            elif tag == schema.TAG_FOLD_SIZES:
                for name, held in known[text].items():
                    sizes[name][i] = held
    among = table.tag(schema.TAG_SELECTED)
    is_number = among.str.isdecimal() & (among.str.len() < MAX_DIGITS)
    columns = {
        **{name: table.frame[name] for name in ("run_id", "experiment_id", "experiment", "n_rows")},
        "dataset": datasets[index],
        "method": methods[index],
        "method_by": method_by[index],
        "dataset_by": dataset_by[index],
        "status": status[index],
        "conventions": conventions[index],
        "dataset_digest": digests(table),
        **{name: pd.Series(held, index, dtype=object) for name, held in sizes.items()},
        "selected_among": among.where(is_number, "1").astype(int),
        "searched": table.has(f"tags.{schema.TAG_SELECTED}"),
        "repeat": repeat_names(table, selection.repeats_by),
        "start_time": pd.to_datetime(table.frame["started"], unit="ms", utc=True),
        **{name: table.tag(tag) for name, tag in _TAGS.items()},
    }
    # the size is of the data that the run's own input names
    own = table.tag(schema.TAG_DATASET_DIGEST)
    columns["n_rows"] = columns["n_rows"].where((own == "") | (own == table.frame["digest"]), 0)
    return pd.DataFrame(columns, index), broken


def measured(table: RunsTable) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Values by measure; which of them are plain metrics named like a known measure; and the keys
    of those whose names MLflow made of calls.
    """
    own: dict[str, np.ndarray] = {}
    others: dict[str, np.ndarray] = {}
    for key in table.names["metrics"]:
        column = table.numbers(key).to_numpy(copy=True)
        if np.isnan(column).all():
            continue
        if measure := schema.measure_of(key):
            own[measure] = column
        elif not key.startswith("mleval."):
            others[key] = column
    gone = table.tag(schema.TAG_WITHDRAWN)
    for at in np.flatnonzero(gone != ""):
        for measure in schema.withdrawn({schema.TAG_WITHDRAWN: gone.iloc[at]}) & own.keys():
            own[measure][at] = np.nan
    has_own = np.zeros(len(table), bool)
    for column in own.values():
        has_own |= ~np.isnan(column)
    plain = {}
    for measure in MEASURES.keys() & others:
        # beside our own metrics, somebody else's "accuracy" is another accuracy
        others[measure][has_own] = np.nan
        plain[measure] = ~np.isnan(others[measure])
    keys = _joined_calls(others, ~has_own) | _joined_terms(others, ~has_own)
    for measure, column in others.items():
        held = own.get(measure, np.nan)
        own[measure] = np.where(np.isnan(held), column, held)
    index = table.frame.index
    return pd.DataFrame(own, index), pd.DataFrame(plain, index), pd.DataFrame(keys, index)


def _joined_calls(columns: dict[str, np.ndarray], among: np.ndarray) -> dict[str, np.ndarray]:
    """Put metrics that MLflow named after a call under their measure; returns under which keys they
    stand in the runs. Runs that have the same of them are read alike.
    """
    called = {m: known.measure for m in columns if (known := term(m)) and known.variable}
    if not called:
        return {}
    measures = {*called.values()}
    plain = [m for m in columns if m.removeprefix("val_").removeprefix("training_") in measures]
    names = [*dict.fromkeys([*called, *plain])]
    there = ~np.isnan(np.array([*map(columns.get, names)])) & among
    patterns, which = np.unique(there.T, axis=0, return_inverse=True)
    found: dict[str, np.ndarray] = {}
    joined: dict[str, np.ndarray] = {}
    for i, pattern in enumerate(patterns):
        held = {name: 0.0 for name, has in zip(names, pattern, strict=True) if has}
        left, keys = by_measure(held)
        rows = which.ravel() == i
        for measure, key in keys.items():
            column = joined.setdefault(measure, np.full(len(among), np.nan))
            column[rows] = columns[key][rows]
            found.setdefault(measure, np.full(len(among), "", dtype=object))[rows] = key
        for name in held.keys() - left.keys():
            columns[name][rows] = np.nan
    for measure, column in joined.items():
        old = columns.get(measure, np.nan)
        columns[measure] = np.where(np.isnan(column), old, column)
    for name in called:
        if np.isnan(columns[name]).all():
            del columns[name]
    return found


def _joined_terms(columns: dict[str, np.ndarray], among: np.ndarray) -> dict[str, np.ndarray]:
    """Put metrics by which libraries call one measure under one name, where each run has one of
    them; returns under which keys they stand in the runs.
    """
    alike: dict[str, list[str]] = {}
    for name in columns:
        alike.setdefault(joined_term(name), []).append(name)
    alike.pop("", None)
    found = {}
    for joined, names in alike.items():
        held = np.where(among, np.array([columns[name] for name in names]), np.nan)
        there = ~np.isnan(held)
        if len(names) < 2 or (there.sum(axis=0) > 1).any():
            continue
        for name in names:
            columns[name] = np.where(among, np.nan, columns[name])
        old = columns.get(joined, np.nan)
        which = np.array([*names, ""], dtype=object)[np.where(there.any(0), there.argmax(0), -1)]
        columns[joined] = np.where(there.any(0), np.nansum(held, axis=0), old)
        found[joined] = which
    return found


def _means_by_fold(table: RunsTable) -> pd.DataFrame:
    """The means over folds, where they are numbers, of the runs with values by fold."""
    means = {
        at: {m: float(np.mean(v)) for m, v in table.by_fold[run_id].values.items()}
        for at, run_id in table.frame["run_id"].items()
        if run_id in table.by_fold
    }
    frame = pd.DataFrame.from_dict(means, orient="index", dtype=float)
    return frame.replace([np.inf, -np.inf], np.nan).reindex(table.frame.index)


def _protocols(table: RunsTable, rows: pd.DataFrame, values: pd.DataFrame) -> pd.Series:
    """Over how many folds each run was made, as `Results` says."""
    told = values[[m for m in values if _OF_FOLDS.search(m)]].notna().any(axis=1)
    protocols = pd.Series(np.where(told, -1, 1), rows.index)
    protocols[rows["method_by"].str.startswith("tag:mleval.")] = 0
    for at, run_id in rows["run_id"].items():
        if run_id in table.by_fold:
            protocols[at] = len(table.by_fold[run_id].folds)
    sizes = rows["n_test"].map(len)
    return protocols.where(sizes == 0, sizes)


def _unmeasured(values: Collection[str]) -> str:
    """Why a run of others without any measure that may count is no result."""
    if not values:
        return "it has no metrics"
    if of_training(values).issuperset(values):
        return f"its metrics are of training data ({some(sorted(values), 6)})"
    lacking = [m for m in sorted(values) if direction_of(m) is None]
    if not lacking:
        return f"none of the measures that count; it has {some(sorted(values), 6)}"
    text = f"{UNDIRECTED} ({some(lacking, 6)}); declare "
    suggested = any(map(proposed_direction, lacking))
    proposed = (", or take what their names suggest: ", PROPOSED) if suggested else ()
    return Message(text, DECLARE, *proposed)


def _of_profile(profiles: RunProfiles) -> dict[str, float]:
    """The measures that a loss profile gives; none where the tag only points to it."""
    tag = profiles["hard"]
    if tag.omitted:
        return {}
    measures = hard_measures(errors_of(tag, "hard"), tag.n_labels)
    return {m: float(values.mean()) for m, values in measures.items()}


def errors_of(tag: schema.ProfileTag, kind: str) -> np.ndarray:
    """Mean i-th largest errors, one row a fold, zeros at the end left out."""
    rows = np.zeros((len(tag.rows), max(map(len, tag.rows))))
    for i, row in enumerate(tag.rows):
        rows[i, : len(row)] = row
    if kind == "soft":
        return rows
    # 1 where at least i labels are wrong
    return np.cumsum(rows[:, ::-1], axis=1)[:, -2::-1] / rows.sum(axis=1, keepdims=True)
