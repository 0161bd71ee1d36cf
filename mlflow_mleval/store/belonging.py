"""Which experiments of a store hold runs that can be compared, and which of them belong together:
what is read where nobody names one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_mleval.measures.metric_names import is_bookkeeping, of_training
from mlflow_mleval.selection import Selection, key_of
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.reader import METHOD, Rule, measured
from mlflow_mleval.store.repeats import Searches
from mlflow_mleval.store.runs_table import RunsTable, read_store

if TYPE_CHECKING:
    from mlflow import MlflowClient

_METHOD_RULES = tuple(f"{kind}:{name}" for kind in ("param", "tag") for name in METHOD)


def is_placed(selection: Selection) -> bool:
    """Whether it names experiments, runs or a table."""
    chosen = store.asked(selection.experiment_ids, selection.experiment_names)
    return selection.results is not None or any(chosen) or bool(selection.run_ids)


def everywhere(client: MlflowClient, selection: Selection) -> Selection:
    """The same in all experiments, but for registers."""
    ids = [
        e.experiment_id for e in store.all_experiments(client) if schema.TAG_REGISTER not in e.tags
    ]
    return replace(selection, experiment_ids=ids)


def placed(
    selection: Selection, progress: Callable[[int, int], object] = lambda done, total: None
) -> tuple[Selection, RunsTable | None]:
    """The selection with the experiment, or those that belong together, that alone hold runs which
    can be compared, and these runs, for they have been read; as it is where it names some, or where
    there are several, or none.
    """
    if is_placed(selection):
        return selection, None
    client = store.connect()
    table = read_store(client, everywhere(client, selection), progress)
    groups = usable_groups(table, selection)
    if len(groups) != 1:
        return selection, None
    return replace(selection, experiment_names=groups[0]), in_experiments(table, groups[0])


def in_experiments(table: RunsTable, names: Collection[str]) -> RunsTable:
    """The runs of these experiments."""
    experiments = {i: name for i, name in table.experiments.items() if name in names}
    return replace(table.where(table.frame["experiment"].isin(names)), experiments=experiments)


@dataclass(frozen=True)
class Found:
    """The runs that may be results, which of them have metrics, the searches among the children of
    runs that others logged, and the runs that count with their values: where only children have
    metrics, what there is lies in them.
    """

    tops: RunsTable
    with_metrics: pd.Series
    searches: Searches
    used: RunsTable
    values: pd.DataFrame

    @classmethod
    def among(cls, table: RunsTable) -> Found:
        table = table.where(~table.is_record)
        child = table.is_child & ~table.ours
        tops, children = table.where(~child), table.where(child & are_finished(table))
        held = values_of(tops)
        with_metrics = held.notna().any(axis=1)
        usable = with_metrics & are_finished(tops)
        used, values = tops.where(usable), held[usable]
        if not len(used):
            held = values_of(children)
            usable = held.notna().any(axis=1)
            used, values = children.where(usable), held[usable]
        return cls(tops, with_metrics, Searches.among(children), used, values)


def values_of(table: RunsTable) -> pd.DataFrame:
    """Values by measure or metric, without those of the machine."""
    values, _, _ = measured(table)
    return values[[m for m in values if not m.startswith("system/")]]


def are_finished(table: RunsTable) -> pd.Series:
    own = table.tag(schema.TAG_STATUS).isin([schema.COMPLETE, schema.DNF])
    return own | (table.frame["status"] == "FINISHED")


@dataclass(frozen=True)
class _Experiment:
    """What tells whether an experiment belong to others: its datasets, the measures that most of
    its runs have on new data, by each rule that may name methods their names, and whether it holds
    finished runs with metrics.
    """

    name: str
    ours: bool
    datasets: frozenset[str]
    measures: frozenset[str]
    methods: Mapping[str, frozenset[str]]
    usable: bool

    @classmethod
    def of(cls, table: RunsTable, name: str, selection: Selection) -> _Experiment:
        """What the runs of an experiment say."""
        found = Found.among(table)
        tops, used = found.tops, found.used
        counts = found.values.notna().sum()
        told = {m for m, n in counts.items() if 2 * n > len(used) and not is_bookkeeping(m)}
        there = [rule for rule in _METHOD_RULES if "{}s.{}".format(*key_of(rule)) in table.frame]
        rules = selection.method_by or ("estimator", "run_name", *there)
        by_rule = {rule: {*Rule("method", (rule,)).names(tops)} for rule in rules}
        by_rule["tag"] = {*tops.tag(schema.TAG_METHOD)}
        data = Rule("dataset", (selection.dataset_by,) if selection.dataset_by else ())
        return cls(
            name,
            len(used) > 0 and bool(used.ours.all()),
            frozenset(data.names(tops)),
            frozenset(told - of_training(told)),
            {rule: frozenset(texts - {""}) for rule, texts in by_rule.items() if texts - {""}},
            len(used) > 0,
        )

    def belongs_to(self, other: _Experiment) -> bool:
        """The same measures, methods in common, and data apart."""
        if self.ours != other.ours or self.datasets & other.datasets:
            return False
        shared = {
            rule: self.methods[rule] & names
            for rule, names in other.methods.items()
            if rule in self.methods
        }
        in_common = any(
            2 * len(names) >= max(len(self.methods[rule]), len(other.methods[rule]), 2)
            for rule, names in shared.items()
        )
        fewer = min(len(self.measures), len(other.measures))
        return in_common and 2 * len(self.measures & other.measures) >= max(fewer, 1)


def usable_groups(table: RunsTable, selection: Selection) -> list[list[str]]:
    """The experiments that hold runs, by name, each with those that belong to it; the last used
    first. Where one group alone can be compared, the others do not count.
    """
    results = table.where(~table.is_record)
    last = results.frame.groupby("experiment_id")["started"].max().sort_values(ascending=False)
    groups: list[list[_Experiment]] = []
    for experiment_id in last.index:
        here = results.where(results.frame["experiment_id"] == experiment_id)
        one = _Experiment.of(here, table.experiments[experiment_id], selection)
        group = next((g for g in groups if all(one.belongs_to(e) for e in g)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    usable = [group for group in groups if any(e.usable for e in group)]
    return [[e.name for e in group] for group in (usable if len(usable) == 1 else groups)]
