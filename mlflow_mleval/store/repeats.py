"""Which runs compare: those of one method on one dataset are repeats, whose mean counts, or
candidates, among which somebody has to choose; child runs and steps are trials or folds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from mlflow_mleval.errors import (
    CandidatesError,
    IncomparableRunsError,
    MeasureError,
    NoRunsError,
    UndirectedError,
)
from mlflow_mleval.files.results import RunRow
from mlflow_mleval.measures.metric_names import (
    direction_of,
    directions,
    is_bookkeeping,
    is_cost,
    of_training,
    suggestions,
)
from mlflow_mleval.measures.registry import MEASURES, meant
from mlflow_mleval.selection import DIGEST, Progress, Selection, best_metric, in_silence, key_of
from mlflow_mleval.sentences import Argument, Message, agree, count, did_you_mean, grouped, some
from mlflow_mleval.store import artifacts, schema, store
from mlflow_mleval.store.reader import METHOD, Results, Rule, is_seed, measured, settings
from mlflow_mleval.store.runs_table import RunsTable, read_children, read_store, result_name
from mlflow_mleval.store.schema import computable, open_parquet, read_table
from mlflow_mleval.study import Cell, Excluded
from mlflow_mleval.validation import present

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: A metric of validation, by its name: what one chooses by.
_VALIDATION = re.compile(r"(^|[_./-])(val|valid|validation|dev|cv)([_./-]|$)", re.IGNORECASE)
#: What differs where one run was cross-validated and another not, or over other folds.
FOLDS = "number of folds"
#: What chooses runs.
FILTER = Argument("filter_string")
#: Cells that an error names.
_SHOWN = 4
#: By cell, the params in which its runs differ though they are no repeats; and by which metric, and
#: among how many candidates, the best of a cell was chosen.
Mixed: TypeAlias = Mapping[int, Sequence[str]]
Chosen: TypeAlias = dict[Cell, tuple[str, int]]


def sign_of(metric: str, selection: Selection) -> int:
    """1 where larger values of the metric are better, else −1; MeasureError where nobody says."""
    try:
        proposed = selection.directions == "proposed"
        ways = selection.minimize, selection.maximize
        return 1 if directions([metric], *ways, proposed)[metric] == "max" else -1
    except ValueError as error:
        text = f"no direction is known for {metric!r}, by which to choose.{meant([metric])}"
        choices = UndirectedError.ways_for([metric], suggestions([metric]), every=True)
        raise UndirectedError(text, choices) from error


@dataclass(frozen=True)
class Cells:
    """The runs that count, and what they say by method and dataset."""

    members: Results  # the runs of a cell one after the other
    # What the last run of a cell that finished says, or the last; label is that run, n how many
    # there are, and selected_among the most of them.
    rows: pd.DataFrame
    values: pd.DataFrame  # means over the runs that finished
    excluded: list[Excluded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # of how runs became cells
    chosen: Chosen = field(default_factory=dict)

    @property
    def finished(self) -> pd.Series:
        return self.rows["status"] == schema.COMPLETE

    def name(self, cell: Cell) -> str:
        """How lists call it."""
        run_id, n = self.rows.at[cell, "run_id"], self.rows.at[cell, "n"]
        return f"{result_name(*cell)} ({f'run {run_id}' if n == 1 else f'{n} runs'})"

    def where(self, mask: Any) -> Cells:
        """Some of the cells."""
        if np.all(mask):
            return self
        rows = self.rows[np.asarray(mask, bool)]
        keys = pd.MultiIndex.from_frame(self.members.rows[["dataset", "method"]])
        members = self.members.where(keys.isin(rows.index))
        return replace(self, members=members, rows=rows, values=self.values.loc[rows.index])


class _Gathering:
    """Runs on their way to cells, without copies."""

    def __init__(self, results: Results, selection: Selection, searched: Mapping[str, set[str]]):
        self.results, self.selection = results, selection
        self.excluded: list[Excluded] = []
        rows = results.rows
        cells = rows.groupby(["dataset", "method"], sort=False)
        self.cell, self.names = cells.ngroup(), cells.size().index  # by run, its place in names
        self.settings = settings(results.table, selection.repeats_by)
        own = ((name, run_id) for run_id, params in searched.items() for name in params)
        for name, run_ids in grouped(own).items():  # what was searched tells no repeats apart
            if name in self.settings:
                self.settings.loc[rows["run_id"].isin(run_ids), name] = -1
        # a candidate has equal settings and protocols
        equal = [rows["protocol"], *map(self.settings.get, self.settings)]
        self.candidate = rows.groupby(equal, sort=False).ngroup()
        # of runs that say just the same the last counts: one logged twice is no second repeat
        several = self.cell.duplicated(keep=False)
        said = rows.loc[several, ["repeat", "status", "folds", "split_digest"]]
        said = said.assign(cell=self.cell[several], candidate=self.candidate[several])
        values = results.values.reindex(said.index)
        copied = pd.concat([said, values], axis=1).duplicated(keep="last")
        copied = copied.reindex(self.cell.index, fill_value=False)
        self.keep(~copied, "the same result was logged again")

    def named(self, cell: int) -> str:
        return result_name(*self.names[cell])

    def keep(self, kept: pd.Series, reason: str) -> None:
        """Go on with these runs only; the others are listed."""
        if kept.all():
            return
        gone = self.results.at(self.cell[~kept].sort_values(kind="stable").index).titles
        self.excluded += [Excluded("run", name, reason) for name in gone]
        self.results, self.settings = self.results.where(kept), self.settings[kept]
        self.cell, self.candidate = self.cell[kept], self.candidate[kept]

    def refuse_other_data(self) -> None:
        """CandidatesError where runs of a cell are on different data."""
        digests = self.results.rows["dataset_digest"]
        digests = digests[digests != ""]
        n = digests.groupby(self.cell[digests.index]).nunique()
        several = digests[self.cell[digests.index].isin(n.index[n > 1])]
        shapes = self.results.table.frame["shape"]
        which = []
        for cell, held in several.groupby(self.cell[several.index]):
            alike = {*shapes[self.cell == cell]}  # data of one shape are splits of one dataset
            if schema.differ(held) and (len(alike) > 1 or "" in alike):
                which.append(f"{self.named(cell)}: {count(held.nunique(), 'digest')}")
        if not which:
            return
        text = (
            "Runs of one method on one dataset were made on different data "
            f"({some(which, _SHOWN)}): they are no repeats of each other, and are not averaged "
            "unasked."
        )
        ways: list[tuple[str, dict[str, Any]]] = [
            ("keep the runs on the latest data only", {"duplicates": "latest-data"})
        ]
        if self.selection.dataset_by is None:
            ways.append(("make a dataset of each digest", {"dataset_by": DIGEST}))
        what = "take them for splits of the same data, one a repeat"
        ways.append((what, {"repeats_by": [*self.selection.repeats_by, DIGEST]}))
        raise CandidatesError(text, ways, sure=False)

    def mixed(self) -> Mixed:
        """By cell, the params in which its runs differ, beside their seed; `FOLDS` where their
        protocols do. A run without any param tells nothing of how its method was set."""
        told = self.settings[(self.settings >= 0).any(axis=1)]
        protocols = self.results.rows["protocol"]
        protocols = protocols.where(protocols != 0).groupby(self.cell).nunique()
        differ = told.groupby(self.cell[told.index]).nunique().reindex(protocols.index)
        several = pd.concat([differ, protocols.rename(FOLDS)], axis=1) > 1
        several = several[several.any(axis=1)]
        named = ([*compress(several, row)] for row in several.to_numpy())
        return dict(zip(several.index, named, strict=True))

    def best(self, mixed: Mixed) -> Chosen:
        """Of each of these cells the repeats of the candidate whose mean is best count."""
        metric, here = best_metric(self.selection.duplicates), self.cell.isin([*mixed])
        values = self.results.values.reindex(columns=[metric])[here]
        by_candidate = values.groupby([self.cell[here], self.candidate[here]], sort=False)
        means = by_candidate[metric].mean()
        lacking = means.isna().groupby(level=0).all()
        if lacking.any():
            cells = lacking.index[lacking]
            which = some(map(self.named, cells), _SHOWN)
            values = self.results.values[self.cell.isin(cells)]
            there = sorted(values.dropna(axis=1, how="all"))
            raise MeasureError(
                f"no run of {which} has {metric!r}, by which to choose; there are "
                f"{some(there)}.{did_you_mean([metric], there)}"
            )
        sizes = sign_of(metric, self.selection) * means.dropna()
        best = sizes.groupby(level=0, sort=False).idxmax()
        runs = pd.MultiIndex.from_arrays([self.cell, self.candidate])
        reason = f"another candidate of the same method and dataset has a better {metric}"
        candidates = means.groupby(level=0).size()
        chosen = {self.names[cell]: (metric, int(candidates[cell])) for cell in mixed}
        self.keep(~here | runs.isin(best), reason)
        return chosen

    def refuse(self, mixed: Mixed) -> CandidatesError:
        """What stops where candidates are not chosen, and the ways on."""
        which = "; ".join(map(": ".join, self.which(mixed)[:_SHOWN]))
        more = f"; and {count(len(mixed) - _SHOWN, 'more cell')}" if len(mixed) > _SHOWN else ""
        text = (
            f"{which}{more}. They are different methods or candidates of a search, which are not "
            "averaged unasked."
        )
        ways: list[tuple[str, dict[str, Any]]] = []
        if apart := self.apart(mixed):
            ways.append(("compare them as methods of their own", apart))
        ways.append(("average them all the same", {"duplicates": "mean"}))
        # A metric that every run has and whose direction is known, rather one that is not compared.
        # Nobody chooses by what a method costs, unasked.
        chosen = self.selection
        declared, compared = {*chosen.minimize, *chosen.maximize}, chosen.measures or ()
        proposed = chosen.directions == "proposed"
        shared = {*self.results.values[self.cell.isin([*mixed])].dropna(axis=1)}
        directed = [
            m
            for m in shared - of_training(shared)
            if m in declared or (direction_of(m, proposed) and not is_cost(m))
        ]
        if directed:
            metric = min(
                directed,
                key=lambda m: (m in compared, not _VALIDATION.search(m), m not in declared, m),
            )
            also = len(directed) == 1 if chosen.measures is None else metric in compared
            studies = chosen.method_by == ("experiment",)  # whose runs are trials
            what = f"take the best candidate by {metric}, with its repeats"
            at = 0 if studies or not also else len(ways)
            ways.insert(at, (what, {"duplicates": f"best:{metric}"}))
        ways.append(("take the run that started last", {"duplicates": "latest"}))
        return CandidatesError(text, ways)

    def which(self, mixed: Mixed) -> list[tuple[str, str]]:
        """The cells, and in what how many runs of each differ."""
        sizes = self.cell.value_counts()
        return [
            (self.named(c), f"{count(int(sizes[c]), 'run')} that differ in {some(names, 6)}")
            for c, names in mixed.items()
        ]

    def apart(self, mixed: Mixed) -> dict[str, Any]:
        """Options that make methods of candidates, on one dataset where others would have gaps."""
        params, rows = self.telling(mixed), self.results.rows
        more: dict[str, Any] = {}
        if params and self.selection.missing == "error":
            methods = rows.groupby([rows["method"], *map(self.settings.get, params)]).ngroup()
            if methods.groupby(rows["dataset"]).nunique().min() < methods.nunique():
                dataset, _ = self.names[next(iter(mixed))]
                more = {"datasets": [dataset]}
                params = self.telling(
                    {c: d for c, d in mixed.items() if self.names[c][0] == dataset}
                )
        by = rows.loc[self.cell == next(iter(mixed)), "method_by"].iloc[0].split(", ")
        rules = [*by, *(rule for param in params if (rule := f"param:{param}") not in by)]
        return more | {"method_by": rules} if params else {}

    def telling(self, mixed: Mixed) -> list[str]:
        """The fewest params that tell the candidates apart; empty where params do not."""
        differ = {name for names in mixed.values() for name in names}
        if FOLDS in differ:
            return []
        here, telling = self.settings[self.cell.isin([*mixed])], list[str]()
        left = {name: here[name] for name in here if name in differ}
        most = here.groupby([self.cell[here.index], *left.values()]).ngroups
        n = 0
        while n < most:
            by = [self.cell[here.index], *map(here.get, telling)]
            told = {name: here.groupby([*by, codes]).ngroups for name, codes in left.items()}
            name = max(told, key=told.__getitem__)
            n = told[name]
            telling.append(name)
            del left[name]
        return [name for name in here if name in telling]

    def doubts(self) -> Iterator[str]:
        """What may be wrong with the means, and of which cells."""
        runs = self.results.where(self.cell.duplicated(keep=False))
        cell, asked = self.cell[runs.rows.index], bool(self.selection.repeats_by)
        said = runs.rows[["repeat", "dataset_digest", "split_digest"]]
        said = said.assign(cell=cell, candidate=self.candidate[cell.index])
        seeds = said[(said["repeat"] != "") & (not asked)]
        twice = seeds[seeds.duplicated()].drop_duplicates()
        size, done = cell.value_counts(), runs.finished.groupby(cell).sum().to_dict()
        having = runs.values.notna().groupby(cell).sum()
        commits = runs.rows["commit"].str[:7]
        commits = commits[commits != ""].groupby(cell).unique()
        found: dict[str, Iterable[tuple[int, str]]] = {
            "Repeats have the same seed and other results, and all of them count": zip(
                twice["cell"], twice["repeat"], strict=True
            ),
            "Some repeats did not finish, so that means are over the others": (
                (c, f"{size[c] - n} of {size[c]}") for c, n in done.items() if 0 < n < size[c]
            ),
            "Some repeats lack a value, so that its means are over the others": (
                (c, f"{m} in {done[c] - n} of {done[c]}")
                for m, held in having.items()
                for c, n in held.items()
                if 0 < n < done[c]
            ),
            "Repeats were made by different versions of the code (their Git commits differ)": (
                (c, some(sorted(held), 3)) for c, held in commits.items() if len(held) > 1
            ),
        }
        for text, pairs in found.items():
            cells = sorted(grouped(pairs).items())
            if named := [f"{self.named(c)} ({some(shown, 3)})" for c, shown in cells]:
                yield f"{text}: {some(named, 6)}."

    def cells(self, notes: list[str], chosen: Chosen) -> Cells:
        """The cells of the runs that are left."""
        order = self.cell.sort_values(kind="stable")
        members = self.results.at(order.index)
        # those that finished come last
        ranked = order.iloc[np.lexsort((members.finished, order))]
        last = ranked.drop_duplicates(keep="last")
        among = members.rows["selected_among"].groupby(order)
        n, most = among.size().to_numpy(), among.max().to_numpy()
        said = {"label": last.index, "n": n, "selected_among": most}
        rows = members.at(last.index).rows.assign(**said)
        rows.index = pd.MultiIndex.from_frame(rows[["dataset", "method"]].astype("str"))
        values = members.values
        if len(values) > len(last):
            values = values.groupby(order).mean()
        return Cells(members, rows, values.set_axis(rows.index), self.excluded, notes, chosen)


def gather(
    results: Results, selection: Selection, searched: Mapping[str, set[str]] | None = None
) -> Cells:
    """One cell a method and dataset: of repeats the mean, of candidates as `duplicates` says; by
    the ids of the best trials of searches, `searched` has the params that these searched."""
    found, policy = _Gathering(results, selection, searched or {}), selection.duplicates
    if policy == "latest-data":  # of each dataset those on the data that were used last count
        rows = found.results.rows
        kept = pd.Series(True, rows.index)
        for _, held in rows[rows["dataset_digest"] != ""].groupby("dataset", sort=False):
            if schema.differ(held["dataset_digest"]):
                last = held.loc[held["start_time"].idxmax(), "dataset_digest"]
                kept[held.index] = held["dataset_digest"] == last
        found.keep(kept, "it is on other data than the latest runs of its dataset")
    elif policy not in ("latest", "mean") and DIGEST not in selection.repeats_by:
        found.refuse_other_data()
    mixed = {} if policy == "latest" else found.mixed()
    notes: list[str] = []
    chosen: Chosen = {}
    if policy == "latest":
        gone = found.cell.duplicated(keep="last")
        n = int(gone.sum())
        passed = f"{count(n, 'run')} {agree(n, 'was')} passed over, because a later one "
        found.keep(~gone, f"{passed}of the same method and dataset counts")
    elif mixed and policy in ("error", "latest-data"):
        raise found.refuse(mixed)
    elif mixed and policy == "mean":
        which = (f"{cell} ({differ})" for cell, differ in found.which(mixed))
        notes.append(
            "As asked, runs that are no repeats of each other count as one method, by their "
            f"mean: {some(which, _SHOWN)}."
        )
    elif mixed:
        chosen = found.best(mixed)
    return found.cells([*notes, *found.doubts()], chosen)


def repeats_table(cells: Cells, used: Sequence[str]) -> pd.DataFrame | None:
    """The values of every run that finished; None where no method has several on a dataset."""
    runs = cells.members.where(cells.members.finished)
    rows = runs.rows[["dataset", "method", "repeat"]]
    by = [rows["dataset"], rows["method"]]
    if not rows.duplicated(["dataset", "method"]).any():
        return None
    vague = (rows["repeat"] == "") | rows.duplicated()
    vague = vague.groupby(by, sort=False).transform("any")
    numbers = "run " + (rows.groupby(by, sort=False).cumcount() + 1).astype(str)
    repeats = rows["repeat"].where(~vague, numbers)
    keys = [*zip(rows["dataset"], rows["method"], repeats, strict=True)]
    index = pd.MultiIndex.from_tuples(keys, names=["dataset", "method", "repeat"])
    return runs.values.reindex(columns=list(used)).set_axis(index)


# --------------------------------------------------------------------------------------------------
# Results of different kinds, whose values do not compare.


def check_comparable(results: Results, repeats_by: Sequence[str]) -> None:
    """Refuse results that were computed under different conventions or, on one dataset, over
    different hierarchies or with other weights of instances; and those of which none has what was
    to name the repeats."""
    rows = results.rows
    if repeats_by and not (rows["repeat"] != "").any():
        has = [*settings(results.table, repeats_by)]
        guess = did_you_mean((key_of(rule)[1] for rule in repeats_by), has)
        params = f" Their params are {some(has)}.{guess}" if has else ""
        raise NoRunsError(
            f"no run has {some(repeats_by)}, which was to tell repeats apart.{params}"
        )
    stated = rows[rows["conventions"] != schema.UNKNOWN_CONVENTIONS]
    if stated["conventions"].nunique() > 1:
        names = results.cells[stated.index].groupby(stated["conventions"]).agg(list)
        which = "; ".join(
            f"{kind}: {count(len(held), 'run')} ({some(held, 3)})" for kind, held in names.items()
        )
        what = "the runs were computed under different conventions for empty sets and ties"
        raise _of_different_kinds(f"{what}: {which}", schema.TAG_CONVENTIONS)
    if mixed := _datasets_that_differ(rows, "hierarchy"):
        what = f"runs on {some(mixed)} used different hierarchies"
        raise _of_different_kinds(what, schema.TAG_HIERARCHY_DIGEST)
    weighted, plain = stated[stated["weights"] != ""], stated[stated["weights"] == ""]
    kinds = weighted.drop_duplicates(["dataset", "dataset_digest", "weights"])
    unlike = {*kinds.loc[kinds.duplicated(["dataset", "dataset_digest"]), "dataset"]}
    if unlike := unlike | {*plain["dataset"]} & {*weighted["dataset"]}:
        what = f"runs on {some(sorted(unlike))} weigh the instances in different ways"
        raise _of_different_kinds(what, schema.TAG_WEIGHTS)


def check_propensities(cells: Cells, used: Sequence[str]) -> None:
    """Refuse measures of one dataset that weigh labels by different training labels."""
    mixed = _datasets_that_differ(cells.rows.reset_index(drop=True), "propensities")
    if mixed and (scored := [m for m in used if m in MEASURES and m.startswith(("ps", "s_min"))]):
        what = (
            f"runs on {some(mixed)} took the propensities or information of labels from different "
            f"training labels, by which {some(scored, 4)} weigh them"
        )
        raise _of_different_kinds(what, schema.TAG_PROPENSITIES)


def _datasets_that_differ(rows: pd.DataFrame, column: str) -> list[str]:
    """The datasets of which runs say several things in this column."""
    said = rows[rows[column] != ""].groupby("dataset", sort=False)[column].nunique()
    return [*said.index[said > 1]]


def _of_different_kinds(what: str, tag: str) -> IncomparableRunsError:
    choose = f"{what}. Their values do not compare; choose those of one kind by "
    return IncomparableRunsError(Message(choose, FILTER, f" on the tag {tag}."))


# --------------------------------------------------------------------------------------------------
# Child runs, which are folds of an evaluation or trials of a search.

#: Params that number folds.
_FOLD = re.compile(
    r"(.*[_./:-])?(fold|split)s?([_.-]?(id|idx|index|no|nr|num|number|i|k))?", re.IGNORECASE
)
#: What takes the best trial of each search.
BEST_TRIAL = Argument("children", "best:METRIC")


@dataclass(frozen=True)
class Searches:
    """Children of runs, among which those are trials of a search that differ in their params."""

    children: RunsTable
    # By the id of the parent, the positions of its children, and the params in which they differ.
    families: Mapping[str, Sequence[int]]
    params: Mapping[str, list[str]]

    @classmethod
    def among(cls, children: RunsTable) -> Searches:
        """The searches whose trials these runs are."""
        parents = children.parent.groupby(children.parent, sort=False)
        codes = {n: children.frame[f"params.{n}"].cat.codes for n in children.names["params"]}
        held = {name: of for name, of in codes.items() if of.max() >= 0}  # by any of these runs
        several = pd.DataFrame(held, children.frame.index).groupby(children.parent).nunique()
        several = zip(several.index, several.to_numpy(int) > 1, strict=True)
        params = {parent: [*compress(held, differ)] for parent, differ in several}
        return cls(children, parents.indices, params)

    def trial_params(self, parent: str) -> list[str]:
        """The params in which trials differ; those that number folds and seeds make none."""
        return [p for p in self.params[parent] if not (is_seed(p) or _FOLD.fullmatch(p))]

    @property
    def searches(self) -> list[str]:
        """The ids of the parents whose children are trials."""
        return [parent for parent in self.families if self.trial_params(parent)]

    def why(self) -> dict[str, str]:
        """By id of each trial, why it is no result."""
        text = Message("trials of a search are no results; ", BEST_TRIAL, " takes the best of each")
        ids = self.children.frame["run_id"].to_numpy()
        return {run_id: text for parent in self.searches for run_id in ids[self.families[parent]]}


@dataclass(frozen=True)
class BestTrials:
    """What ``best:METRIC`` takes of searches."""

    table: RunsTable  # with the best trials in the place of their searches, named as these are
    # By id of a best trial, how many trials of its search have the metric, and the params that its
    # search has not: what was searched tells no repeats apart.
    among: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, set[str]] = field(default_factory=dict)


def best_trials(client: MlflowClient | None, table: RunsTable, selection: Selection) -> BestTrials:
    """The best child of each run that has finished children; of the table without a client."""
    metric = best_metric(present(selection.children))
    parents = table.where(table.frame["status"] == "FINISHED")
    found = Searches.among(read_children(client, table, parents))
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
    positions = pd.Index(table.frame["run_id"]).get_indexer([*chosen])
    searches = table.at(table.frame.index[positions])
    rows, among, own = [], {}, {}
    ours = (schema.TAG_METHOD, schema.TAG_DATASET)
    for search, trial in zip(searches.rows(), trials.rows(), strict=True):
        tags = {**trial.tags}
        del tags[schema.MLFLOW_PARENT]
        named = (key for key in search.tags if key in ours or not key.startswith("mleval."))
        tags |= {key: search.tags[key] for key in named}
        about = trial if trial.data or trial.digest else search
        data = {name: getattr(about, name) for name in ("data", "digest", "shape")}
        params = {**trial.params, **search.params}
        like = replace(trial, run_name=search.run_name, tags=tags, params=params, model="", **data)
        rows.append(like)
        among[trial.run_id] = int((~np.isnan(sizes[found.families[search.run_id]])).sum())
        own[trial.run_id] = {*trial.params} - {*search.params}
    gone = table.frame["run_id"].isin(chosen) | table.parent.isin(chosen)
    whole = RunsTable.of([*table.where(~gone).rows(), *rows], table.experiments)
    return BestTrials(replace(whole, by_fold=table.by_fold, doubts=table.doubts), among, own)


# --------------------------------------------------------------------------------------------------
# Values by fold that stand in no tag: of runs that others logged, and of ours with too many.


@dataclass(frozen=True)
class FoldRule:
    """Where runs without our tag hold values by fold: ``key:fold{fold}_{measure}`` names metrics,
    ``steps`` are those of each, ``children`` are child runs in the order in which they started."""

    rule: str

    def match(self, key: str) -> tuple[str, int] | None:
        """The measure and the fold that a metric key names; None for other keys and rules."""
        if not self.rule.startswith("key:"):
            return None
        text = re.escape(self.rule.removeprefix("key:")).replace(r"\{fold\}", r"(?P<fold>\d+)")
        text = text.replace(r"\{measure\}", "(?P<measure>.+)")
        hit = re.fullmatch(text, key)
        return (hit["measure"], int(hit["fold"])) if hit else None

    def values(
        self,
        client: Callable[[], MlflowClient],
        table: RunsTable,
        measures: Collection[str],
        excluded: list[Excluded],
    ) -> dict[str, schema.FoldValues]:
        """By run id, values by fold of runs without our tag; what is broken goes to the list."""
        others = table.where(~table.has(f"tags.{schema.TAG_FOLDS}"))

        def values_of_run(row: RunRow) -> schema.FoldValues | None:
            if self.rule == "steps":
                keys = {m: m for m in row.metrics if m in measures}
                return _fold_history(client(), row.run_id, keys)
            named = ((self.match(key), value) for key, value in row.metrics.items())
            return _columns_by_fold((*at, value) for at, value in named if at)

        if self.rule == "children":
            return _children(client(), others)
        each = artifacts.at_once if self.rule == "steps" else map
        found = each(values_of_run, others.rows())
        runs = [*zip(others.frame["run_id"], others.titles, found, strict=True)]
        excluded += [
            Excluded("folds", title, why) for _, title, why in runs if isinstance(why, str)
        ]
        return {run_id: of for run_id, _, of in runs if isinstance(of, schema.FoldValues)}


def _fold_history(
    client: MlflowClient, run_id: str, keys: Mapping[str, str]
) -> schema.FoldValues | None:
    """Metrics that have several steps; of a step that was logged twice, the later value."""
    values = []
    for measure, key in keys.items():
        history = sorted(client.get_metric_history(run_id, key), key=lambda m: m.timestamp)
        latest = {metric.step: metric.value for metric in history}
        if len(latest) > 1:
            values += [(measure, step, value) for step, value in latest.items()]
    return _columns_by_fold(values)


def _children(client: MlflowClient, parents: RunsTable) -> dict[str, schema.FoldValues]:
    """By run id the values by fold, from finished children."""
    found = Searches.among(read_children(client, parents, parents))
    names = dict(zip(parents.frame["run_id"], parents.frame["run_name"], strict=True))
    values, _, _ = measured(found.children)
    folds = {}
    for parent, at in found.families.items():
        if params := found.trial_params(parent):
            raise IncomparableRunsError(
                Message(
                    f"the {count(len(at), 'child run')} of {some([names[parent]])} (run {parent}) "
                    f"differ in {some(params, 6)}: they are trials of a search, not folds. ",
                    BEST_TRIAL,
                    " takes the best trial of each search.",
                )
            )
        columns = values.iloc[at].dropna(axis=1, how="all").to_dict("list")
        if columns and len(at) > 1:
            folds[parent] = schema.FoldValues(range(len(at)), columns)
    return folds


def _columns_by_fold(values: Iterable[tuple[str, int, float]]) -> schema.FoldValues | None:
    """(measure, fold, value) as columns, NaN for what is no result; None if there are none."""
    held = {(m, fold): float(value) if computable(value) else np.nan for m, fold, value in values}
    folds = sorted({fold for _, fold in held})
    whole = {m: [held.get((m, fold), np.nan) for fold in folds] for m, _ in held}
    return schema.FoldValues(folds, whole) if folds else None


def study_folds(
    client: MlflowClient | None, cells: Cells, used: Sequence[str], excluded: list[Excluded]
) -> tuple[pd.DataFrame | None, list[str]]:
    """Values by fold, means over repeats, and notes on them; what is broken is listed."""
    held, notes = _folds_of_runs(client, cells.members, used, excluded), list[str]()
    rounded = [label for label, values in held.items() if values.digits]
    if rounded:
        names = some(cells.members.at(pd.Index(rounded)).titles, 3)
        what = f"Values by fold of {count(len(rounded), 'run')} are rounded to few digits"
        notes.append(f"{what}, because there are many ({names}).")
    rows = cells.members.rows.loc[held.index, ["dataset", "method", "split_digest"]]
    rows["folds"] = held.map(lambda values: tuple(sorted(values.folds)))
    by_cell = rows.groupby(["dataset", "method"], sort=False)
    kinds = by_cell["folds"].nunique()
    splits = by_cell["split_digest"].agg(list).map(schema.differ).eq(True)
    for cell in kinds.index[(kinds > 1) | splits]:
        differ = "split the data in different ways"
        differ = "have different folds" if kinds[cell] > 1 else differ
        why = Message(f"its repeats {differ}; ", FILTER, " chooses one of them")
        excluded.append(Excluded("folds", result_name(*cell), why))
    alike = kinds.index[(kinds == 1) & ~splits]
    rows = rows[pd.MultiIndex.from_frame(rows[["dataset", "method"]]).isin(alike)]
    several = rows.groupby("dataset", sort=False)["folds"].nunique() > 1
    if several.any():
        notes.append(f"Not all runs have the same folds on {some(several.index[several])}.")
    parts = held[rows.index]
    n = [len(part.folds) for part in parts]
    folds = [*chain.from_iterable(part.folds for part in parts)]
    keys = [rows["dataset"].repeat(n), rows["method"].repeat(n), folds]
    index = pd.MultiIndex.from_arrays(keys, names=["dataset", "method", "fold"])
    columns = {}
    for m in used:
        of_runs = (part.values.get(m, [np.nan] * len(part.folds)) for part in parts)
        columns[m] = [*chain.from_iterable(of_runs)]
    frame = pd.DataFrame(columns, index, dtype=float).dropna(axis=1, how="all")
    if not (frame.empty or index.is_unique):
        by_fold = frame.groupby(level=[0, 1, 2], sort=False)
        frame = by_fold.mean().where(by_fold.count().eq(by_fold.size(), axis=0))
    return None if frame.empty else frame, notes


def _folds_of_runs(
    client: MlflowClient | None, members: Results, used: Sequence[str], excluded: list[Excluded]
) -> pd.Series:
    """The values by fold of the runs that have any, also where a tag only points to them."""
    has_folds = members.finished & (members.rows["folds"] != "")
    members = members.where(has_folds | members.rows["run_id"].isin(members.table.by_fold))
    titles, tags = members.titles, members.rows["folds"]  # of those alone: names take much memory
    read = partial(_folds_of_run, client, members, used)
    far = tags.str.contains('"omitted"', regex=False)  # which takes requests, several at a time
    found = {label: store.of_one_run(partial(read, label)) for label in tags.index[~far]}
    if far.any():  # else no store is needed
        found |= zip(tags.index[far], artifacts.at_once(read, tags.index[far]), strict=True)
    held = {label: found[label] for label in tags.index}
    for label, why in held.items():
        if isinstance(why, str):
            kind = "artifact" if far[label] else "tag"
            excluded.append(Excluded(kind, f"{schema.TAG_FOLDS} of {titles[label]}", why))
    sound = {label: of for label, of in held.items() if not isinstance(of, str)}
    return pd.Series(sound, dtype=object)


def _folds_of_run(
    client: MlflowClient | None, members: Results, measures: Collection[str], label: int
) -> schema.FoldValues:
    """The values by fold of a run, wherever they are; else a ValueError."""
    run_id = members.rows["run_id"].at[label]
    tag = members.rows["folds"].at[label]
    values = members.table.by_fold.get(run_id) or schema.decode_folds(tag)
    if (where := values.omitted) is None:
        return values

    def fold_table(path: Path) -> schema.FoldValues:
        there = open_parquet(path, ["fold"]).schema_arrow.names
        table = read_table(path, ["fold", *(m for m in measures if m in there)])
        if table["fold"].duplicated().any():
            raise ValueError("it has a fold twice")
        folds = artifacts.by_fold(table).tolist()
        return schema.FoldValues(folds, table.drop(columns="fold").astype(float).to_dict("list"))

    found: schema.FoldValues | str | None = None
    if client and where.endswith("/"):
        found = _fold_history(client, run_id, {m: where + m for m in measures})
    elif client:
        found = artifacts.artifact(client, run_id, where, fold_table)
    if isinstance(found, schema.FoldValues):
        return found
    why = found or "the values are too many for one tag, and not there"
    raise ValueError(f"{where}: {why}")


# --------------------------------------------------------------------------------------------------
# What is read where nobody names an experiment: those that can be compared and belong together.

_METHOD_RULES = tuple(f"{kind}:{name}" for kind in ("param", "tag") for name in METHOD)


def is_placed(selection: Selection) -> bool:
    """Whether it names experiments, runs or a table."""
    chosen = store.asked(selection.experiment_ids, selection.experiment_names)
    return selection.results is not None or any(chosen) or bool(selection.run_ids)


def everywhere(client: MlflowClient, selection: Selection) -> Selection:
    """The same in all experiments, but for registers."""
    there = store.all_experiments(client)
    ids = [e.experiment_id for e in there if schema.TAG_REGISTER not in e.tags]
    return replace(selection, experiment_ids=ids)


def placed(
    selection: Selection, progress: Progress = in_silence
) -> tuple[Selection, RunsTable | None]:
    """The selection with the one group of experiments that holds runs which can be compared, and
    these runs, for they have been read; as it is where it names some, or several do, or none."""
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
    others' runs, and the runs that count: where only children have metrics, these."""

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
    """What tells whether an experiment belongs to others: datasets, measures that most runs have on
    new data, methods by each rule that may name them, and whether finished runs have metrics."""

    name: str
    ours: bool
    datasets: frozenset[str]
    measures: frozenset[str]
    methods: frozenset[tuple[str, str]]
    usable: bool

    @classmethod
    def of(cls, table: RunsTable, name: str, selection: Selection) -> _Experiment:
        """What the runs of an experiment say."""
        found = Found.among(table)
        tops, used = found.tops, found.used
        counts = found.values.notna().sum()
        told = {m for m, n in counts.items() if 2 * n > len(used) and not is_bookkeeping(m)}
        rules = selection.method_by or ("estimator", "run_name", *_METHOD_RULES)
        named = {rule: Rule("method", (rule,)).names(tops) for rule in rules}
        named["tag"] = tops.tag(schema.TAG_METHOD)
        data = Rule("dataset", (selection.dataset_by,) if selection.dataset_by else ())
        return cls(
            name,
            len(used) > 0 and bool(used.ours.all()),
            frozenset(data.names(tops)),
            frozenset(told - of_training(told)),
            frozenset((rule, text) for rule, texts in named.items() for text in {*texts} - {""}),
            len(used) > 0,
        )

    def belongs_to(self, other: _Experiment) -> bool:
        """The same measures, methods in common by some rule, and data apart."""
        if self.ours != other.ours or self.datasets & other.datasets:
            return False
        own, others, shared = (
            Counter(rule for rule, _ in named)
            for named in (self.methods, other.methods, self.methods & other.methods)
        )
        in_common = any(2 * n >= max(own[rule], others[rule], 2) for rule, n in shared.items())
        fewer = min(len(self.measures), len(other.measures))
        return in_common and 2 * len(self.measures & other.measures) >= max(fewer, 1)


def usable_groups(table: RunsTable, selection: Selection) -> list[list[str]]:
    """The experiments that hold runs, by name, each with those that belong to it; the last used
    first. Where one group alone can be compared, the others do not count."""
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
