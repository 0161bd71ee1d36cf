"""Which runs compare: those of one method on one dataset are repeats, whose mean counts, or
candidates, among which somebody has to choose; and results of different kinds stay apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.errors import CandidatesError, IncomparableRunsError, MeasureError, NoRunsError
from mlflow_mleval.measures.metric_names import direction_of, directions, of_training
from mlflow_mleval.measures.registry import MEASURES, meant
from mlflow_mleval.selection import DIGEST, Selection, best_metric, key_of
from mlflow_mleval.sentences import DECLARE, Argument, Message, count, did_you_mean, some
from mlflow_mleval.store import schema
from mlflow_mleval.store.reader import Results
from mlflow_mleval.store.rules import differing, settings
from mlflow_mleval.study import Cell, Excluded

#: A metric of validation, by its name: what one chooses by.
_VALIDATION = re.compile(r"(^|[_./-])(val|valid|validation|dev|cv)([_./-]|$)", re.IGNORECASE)
#: What differs where one run was cross-validated and another not, or over other folds.
FOLDS = "number of folds"
#: What chooses runs.
FILTER = Argument("filter_string")
#: Cells that an error names.
_SHOWN = 4


def check_repeats(results: Results, rules: Sequence[str]) -> None:
    """NoRunsError where no run has what was to name the repeats."""
    if rules and not (results.rows["repeat"] != "").any():
        has, _ = settings(results.table, rules)
        guess = did_you_mean((key_of(rule)[1] for rule in rules), has)
        params = f" Their params are {some(has)}.{guess}" if has else ""
        raise NoRunsError(f"no run has {some(rules)}, which was to tell repeats apart.{params}")


def sign_of(metric: str, selection: Selection) -> int:
    """1 where larger values of the metric are better, -1 where smaller ones are; MeasureError where
    nobody says.
    """
    try:
        proposed = selection.directions == "proposed"
        ways = selection.minimize, selection.maximize
        way = directions([metric], *ways, proposed)[metric]
        return 1 if way == "max" else -1
    except ValueError as error:
        text = f"no direction is known for {metric!r}, by which to choose.{meant([metric])} "
        raise MeasureError(Message(text, "Declare it: ", DECLARE, ".")) from error


@dataclass(frozen=True)
class Cells:
    """The runs that count, and what they say by method and dataset.

    Attributes
    ----------
    members : Results
        The runs, those of a cell one after the other.
    rows : DataFrame
        One row a cell: what the last run of it that finished says, or the last; label is that run,
        name how lists call the cell, n its runs, and selected_among the most of them.
    values : DataFrame
        One row a cell: means over the runs that finished.
    excluded : list of Excluded
    notes : list of str
        What a reader must know of how runs became cells.
    chosen : dict of (dataset, method) to (str, int)
        By which metric, and among how many candidates, the best was chosen.
    """

    members: Results
    rows: pd.DataFrame
    values: pd.DataFrame
    excluded: list[Excluded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    chosen: dict[Cell, tuple[str, int]] = field(default_factory=dict)

    @property
    def finished(self) -> pd.Series:
        return self.rows["status"] == schema.COMPLETE

    def where(self, mask: Any) -> Cells:
        """Some of the cells."""
        rows = self.rows[np.asarray(mask, bool)]
        keys = pd.MultiIndex.from_frame(self.members.rows[["dataset", "method"]])
        members = self.members.where(keys.isin(rows.index))
        return Cells(
            members, rows, self.values.loc[rows.index], self.excluded, self.notes, self.chosen
        )


class _Gathering:
    """Runs on their way to cells: which of them count, and which settings they have."""

    def __init__(self, results: Results, selection: Selection, searched: Mapping[str, set[str]]):
        self.results, self.selection = results, selection
        self.excluded: list[Excluded] = []
        self.notes: list[str] = []
        rows = results.rows
        self.cell = rows.groupby(["dataset", "method"], sort=False).ngroup()
        names = rows.drop_duplicates(["dataset", "method"])[["dataset", "method"]]
        self.names: list[Cell] = [*names.itertuples(index=False, name=None)]
        self.params, self.codes = settings(results.table, selection.repeats_by)
        for i, run_id in enumerate(rows["run_id"] if searched else ()):
            own = searched.get(run_id, ())  # what was searched tells no repeats apart
            self.codes[i, [name in own for name in self.params]] = -1
        identity = rows["protocol"].to_numpy()
        for column in self.codes.T if len(rows) > len(self.names) else ():
            identity = pd.factorize(identity * (column.max() + 2) + column + 1)[0]
        self.identity = pd.Series(identity, rows.index)
        self.told = pd.Series((self.codes >= 0).any(axis=1), rows.index)

    def keep(self, kept: pd.Series, reason: str | Callable[[int], str]) -> None:
        """Go on with these runs only; the others are listed."""
        gone = self.results.titles[~kept]
        why = reason if isinstance(reason, str) else reason(len(gone))
        order = self.cell[gone.index].sort_values(kind="stable").index
        self.excluded += [Excluded("run", name, why) for name in gone[order]]
        at = kept.to_numpy()
        self.results, self.codes = self.results.where(at), self.codes[at]
        self.cell, self.identity = self.cell[at], self.identity[at]
        self.told = self.told[at]

    def places(self) -> dict[int, np.ndarray]:
        """By cell, in the order in which these came, the positions of its runs."""
        return self.cell.groupby(self.cell, sort=True).indices

    def without_copies(self) -> None:
        """Of runs that say just the same only the last counts: a result that was logged twice is no
        second repeat.
        """
        rows = self.results.rows
        several = self.cell.duplicated(keep=False)
        if not several.any():
            return
        said = rows.loc[several, ["repeat", "status", "folds", "split_digest"]]
        said = said.assign(cell=self.cell, identity=self.identity)
        said = pd.concat([said, self.results.values[several]], axis=1)
        copied = said.duplicated(keep="last").reindex(rows.index, fill_value=False)
        self.keep(~copied, "the same result was logged again")

    def of_latest_data(self) -> None:
        """Of each dataset the runs on the data that were used last count."""
        rows = self.results.rows
        kept = pd.Series(True, rows.index)
        for _, held in rows[rows["dataset_digest"] != ""].groupby("dataset", sort=False):
            if schema.differ(held["dataset_digest"]):
                last = held.loc[held["start_time"].idxmax(), "dataset_digest"]
                kept[held.index] = held["dataset_digest"] == last
        self.keep(kept, "it is on other data than the latest runs of its dataset")

    def refuse_other_data(self) -> None:
        """CandidatesError where runs of a cell are on different data."""
        rows, chosen = self.results.rows, self.selection
        known = rows[rows["dataset_digest"] != ""]
        held = known.groupby(self.cell[known.index])["dataset_digest"].unique()
        differ = {int(cell): digests for cell, digests in held.items() if schema.differ(digests)}
        if not differ:
            return
        # data of one shape are splits of one dataset
        shapes = self.results.table.frame["shape"].groupby(self.cell).agg(["nunique", "min"])
        alike = [c for c in differ if shapes.at[c, "nunique"] == 1 and shapes.at[c, "min"]]
        differ = {cell: digests for cell, digests in differ.items() if cell not in alike}
        if not differ:
            return
        which = [f"{_said(self.names[c])}: {count(len(d), 'digest')}" for c, d in differ.items()]
        text = (
            "Runs of one method on one dataset were made on different data "
            f"({some(which, _SHOWN)}): they are no repeats of each other, and are not averaged "
            "unasked."
        )
        ways: list[tuple[str, dict[str, Any]]] = [
            ("keep the runs on the latest data only", {"duplicates": "latest-data"})
        ]
        if chosen.dataset_by is None:
            ways.append(("make a dataset of each digest", {"dataset_by": DIGEST}))
        sure = True
        for cell, digests in differ.items():
            # splits: three runs or more, each on data of its own, and all of one size
            runs = rows[self.cell == cell]
            sizes = {*zip(runs["n_rows"], runs["n_test"], strict=True)}
            sure &= len(digests) == len(runs) > 2 and len(sizes) == 1 and (0, ()) not in sizes
        what = "take them for splits of the same data, one a repeat"
        splits = (what, {"repeats_by": [*chosen.repeats_by, DIGEST]})
        ways.insert(0 if sure else len(ways), splits)
        raise CandidatesError(text, ways, sure)

    def mixed(self) -> dict[int, list[str]]:
        """By cell, the params in which its runs differ, beside their seed; `FOLDS` where their
        protocols do. A run without any param tells nothing of how its method was set.
        """
        told = self.identity[self.told].groupby(self.cell).nunique() > 1
        protocols = self.results.rows["protocol"]
        folds = protocols[protocols != 0].groupby(self.cell).nunique() > 1
        places = self.places()
        names = {}
        for cell in sorted({*told.index[told], *folds.index[folds]}):
            at = places[cell]
            differ = differing(self.params, self.codes[at[self.told.to_numpy()[at]]])
            differ += [FOLDS] * bool(folds.get(cell, False))
            if differ:
                names[cell] = differ
        return names

    def best(self, mixed: Mapping[int, Sequence[str]]) -> dict[Cell, tuple[str, int]]:
        """Of each of these cells the repeats of the candidate whose mean is best count; by what,
        and among how many candidates it was chosen.
        """
        metric = best_metric(self.selection.duplicates)
        self.check_chooser(metric, [*mixed])
        larger = sign_of(metric, self.selection)
        places, values = self.places(), self.results.values[metric].to_numpy()
        identity = self.identity.to_numpy()
        kept, chosen = np.ones(len(identity), bool), {}
        for cell in mixed:
            at = places[cell]
            candidates = dict.fromkeys(identity[at])
            means = {}
            for candidate in candidates:
                held = values[at[identity[at] == candidate]]
                if not np.isnan(held).all():
                    means[candidate] = larger * np.nanmean(held)
            if not means:
                self.check_chooser(metric, [cell])
            best = max(means, key=means.__getitem__)
            kept[at] = identity[at] == best
            chosen[self.names[cell]] = metric, len(candidates)
        reason = f"another candidate of the same method and dataset has a better {metric}"
        self.keep(pd.Series(kept, self.cell.index), reason)
        return chosen

    def check_chooser(self, metric: str, cells: Collection[int]) -> None:
        """MeasureError where no run of these cells has the metric by which to choose."""
        values = self.results.values[self.cell.isin(cells)].dropna(axis=1, how="all")
        if metric not in values:
            which = some((_said(self.names[cell]) for cell in cells), _SHOWN)
            guess = did_you_mean([metric], values)
            raise MeasureError(
                f"no run of {which} has {metric!r}, by which to choose; there are "
                f"{some(sorted(values))}.{guess}"
            )

    def refuse(self, mixed: Mapping[int, Sequence[str]]) -> CandidatesError:
        """What stops where candidates are not chosen, and the ways on."""
        which = "; ".join(self.which(cell, mixed[cell]) for cell in [*mixed][:_SHOWN])
        more = f"; and {count(len(mixed) - _SHOWN, 'more cell')}" if len(mixed) > _SHOWN else ""
        text = (
            f"{which}{more}. They are different methods or candidates of a search, which are not "
            "averaged unasked."
        )
        ways: list[tuple[str, dict[str, Any]]] = []
        metric, also = self.to_choose_by(mixed)
        if metric:
            what = f"take the best candidate by {metric}, with its repeats"
            if also:
                what += (
                    f" ({metric} is compared, too, so that a doubt will call the result optimistic)"
                )
            ways.append((what, {"duplicates": f"best:{metric}"}))
        if apart := self.apart(mixed):
            ways.append(("compare them as methods of their own", apart))
        ways += [
            ("average them all the same", {"duplicates": "mean"}),
            ("take the run that started last", {"duplicates": "latest"}),
        ]
        return CandidatesError(text, ways)

    def which(self, cell: int, params: Sequence[str], before: str = ": ", after: str = "") -> str:
        runs = count(int((self.cell == cell).sum()), "run")
        differ = some(params, 6)
        return f"{_said(self.names[cell])}{before}{runs} that differ in {differ}{after}"

    def to_choose_by(self, cells: Collection[int]) -> tuple[str, bool]:
        """A metric that every run has and whose direction is known, rather one that is not
        compared, and whether it will be.
        """
        chosen = self.selection
        declared, compared = {*chosen.minimize, *chosen.maximize}, chosen.measures
        proposed = chosen.directions == "proposed"
        shared = {*self.results.values[self.cell.isin(cells)].dropna(axis=1)}
        held_out = shared - of_training(shared)
        directed = [m for m in held_out if m in declared or direction_of(m, proposed)]
        if not directed:
            return "", False
        best = min(
            directed,
            key=lambda m: (m in (compared or ()), not _VALIDATION.search(m), m not in declared, m),
        )
        return best, best in compared if compared is not None else len(directed) == 1

    def apart(self, mixed: Mapping[int, Sequence[str]]) -> dict[str, Any]:
        """The options that make methods of the candidates; on one dataset where others would have
        gaps; empty where none does.
        """
        rules = self.telling(mixed)
        if rules and self.selection.missing == "error":
            kept = [self.params.index(key) for kind, key in map(key_of, rules) if kind == "param"]
            rows = self.results.rows[["dataset", "method"]].assign(
                **{f"param{i}": self.codes[:, i] for i in kept if i < len(self.params)}
            )
            there = rows.drop_duplicates()
            methods = there.drop(columns="dataset").drop_duplicates()
            if len(there) < len(methods) * there["dataset"].nunique():
                dataset = self.names[next(iter(mixed))][0]
                here = {c: names for c, names in mixed.items() if self.names[c][0] == dataset}
                rules = self.telling(here)
                return {"datasets": [dataset], "method_by": rules} if rules else {}
        return {"method_by": rules} if rules else {}

    def telling(self, mixed: Mapping[int, Sequence[str]]) -> list[str]:
        """The rules that name the method now, and the fewest params that tell the candidates apart;
        empty where params do not.
        """
        places = self.places()
        first = self.results.rows.iloc[places[next(iter(mixed))][0]]
        by = first["method_by"].split(", ")
        params: dict[str, None] = {}
        for cell, names in mixed.items():
            if FOLDS in names:
                return []
            at = [self.params.index(name) for name in names]
            codes = self.codes[places[cell]][:, at]
            most, telling = len(np.unique(codes, axis=0)), list[int]()
            while not telling or len(np.unique(codes[:, telling], axis=0)) < most:
                others = [i for i in range(len(at)) if i not in telling]
                apart = [len(np.unique(codes[:, [*telling, i]], axis=0)) for i in others]
                telling.append(others[int(np.argmax(apart))])
            params |= dict.fromkeys(names[i] for i in sorted(telling))
        return [*by, *(f"param:{name}" for name in params if f"param:{name}" not in by)]

    def doubts(self) -> list[str]:
        """What may be wrong with the means, and of which cells."""
        rows, finished = self.results.rows, self.results.finished
        found: dict[str, dict[int, list[str]]] = {}

        def doubt(text: str, cell: int, shown: Any) -> None:
            found.setdefault(text, {}).setdefault(cell, []).append(str(shown))

        several = self.cell.duplicated(keep=False)
        if not self.selection.repeats_by:
            seeds = rows.loc[several & (rows["repeat"] != ""), ["repeat"]]
            seeds = seeds.assign(cell=self.cell, identity=self.identity)
            twice = seeds[seeds.duplicated()].drop_duplicates()
            text = "Repeats have the same seed and other results, and all of them count"
            for seed, cell in zip(twice["repeat"], twice["cell"], strict=True):
                doubt(text, cell, seed)
        by_cell = finished[several].groupby(self.cell)
        sizes, done = by_cell.size(), by_cell.sum()
        for cell in sizes.index[(done > 0) & (done < sizes)]:
            text = "Some repeats did not finish, so that means are over the others"
            doubt(text, cell, f"{sizes[cell] - done[cell]} of {sizes[cell]}")
        having = self.results.values[several].notna().groupby(self.cell).sum()
        for m in having:
            text = "Some repeats lack a value, so that its means are over the others"
            for cell in having.index[(having[m] > 0) & (having[m] < done)]:
                doubt(text, cell, f"{m} in {done[cell] - having.at[cell, m]} of {done[cell]}")
        commits = rows.loc[several & (rows["commit"] != ""), "commit"].str[:7]
        for cell, held in commits.groupby(self.cell).unique().items():
            text = "Repeats were made by different versions of the code (their Git commits differ)"
            for commit in sorted(held) if len(held) > 1 else ():
                doubt(text, int(str(cell)), commit)
        return [
            f"{text}: "
            + some((f"{_said(self.names[c])} ({some(at[c], 3)})" for c in sorted(at)), 6)
            + "."
            for text, at in found.items()
        ]

    def cells(self, notes: list[str], chosen: dict[Cell, tuple[str, int]]) -> Cells:
        """The cells of the runs that are left."""
        order = self.cell.sort_values(kind="stable")
        members = self.results.at(order.index)
        rows, finished = members.rows, members.finished
        last = pd.concat([order[~finished], order[finished]]).drop_duplicates(keep="last")
        last = last.sort_values()
        n = order.groupby(order).size()
        table = rows.loc[last.index].assign(
            label=last.index,
            n=n.loc[last].to_numpy(),
            selected_among=rows["selected_among"].groupby(order).max().loc[last].to_numpy(),
        )
        runs = table["n"].astype(str).where(table["n"] > 1, "run " + table["run_id"])
        runs = runs.where(table["n"] == 1, runs + " runs")
        table["name"] = table["method"] + " on " + table["dataset"] + " (" + runs + ")"
        keys = [*zip(table["dataset"], table["method"], strict=True)]
        table.index = pd.MultiIndex.from_tuples(keys, names=["dataset", "method"])
        values = members.values.groupby(order).mean().loc[last]
        return Cells(members, table, values.set_axis(table.index), self.excluded, notes, chosen)


def _said(cell: Cell) -> str:
    return f"{cell[1]} on {cell[0]}"


def gather(
    results: Results, selection: Selection, searched: Mapping[str, set[str]] | None = None
) -> Cells:
    """One cell a method and dataset: of repeats the mean, of candidates as `duplicates` says.

    `searched` has, by the ids of the best trials of searches, the params that these searched.

    Raises
    ------
    CandidatesError
        Runs differ in more than their seed, and the policy is "error".
    MeasureError
        No run has the metric by which to choose, or its direction is not known.
    """
    found, policy = _Gathering(results, selection, searched or {}), selection.duplicates
    found.without_copies()
    if policy == "latest-data":
        found.of_latest_data()
    elif policy not in ("latest", "mean") and DIGEST not in selection.repeats_by:
        found.refuse_other_data()
    mixed = {} if policy == "latest" else found.mixed()
    notes = found.notes
    chosen: dict[Cell, tuple[str, int]] = {}
    if policy == "latest":
        later = "because a later one of the same method and dataset counts"
        found.keep(
            ~found.cell.duplicated(keep="last"),
            lambda n: f"{n:,} {'run was' if n == 1 else 'runs were'} passed over, {later}",
        )
    elif mixed and policy in ("error", "latest-data"):
        raise found.refuse(mixed)
    elif mixed and policy == "mean":
        which = (found.which(cell, params, " (", ")") for cell, params in mixed.items())
        notes.append(
            "As asked, runs that are no repeats of each other count as one method, by their "
            f"mean: {some(which, _SHOWN)}."
        )
    elif mixed:
        chosen = found.best(mixed)
    notes += found.doubts()
    return found.cells(notes, chosen)


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


def choice_notes(chosen: Mapping[Cell, tuple[str, int]], used: Sequence[str]) -> list[str]:
    """By what candidates and trials were chosen, and among how many."""
    notes = []
    for metric in sorted({metric for metric, _ in chosen.values()}):
        cells = some((f"{_said(c)} (of {n})" for c, (by, n) in chosen.items() if by == metric), 6)
        also = (
            ""
            if metric in used
            else (
                f" {metric} itself is not compared; if it was measured on the same data as what "
                "is, these results are optimistic."
            )
        )
        notes.append(f"The best of several candidates by {metric} was taken: {cells}.{also}")
    return notes


# --------------------------------------------------------------------------------------------------
# Results of different kinds, whose values do not compare.


def check_comparable(results: Results) -> None:
    """Refuse results that were computed under different conventions or, on one dataset, over
    different hierarchies or with other weights of instances.
    """
    rows = results.rows
    stated = rows[rows["conventions"] != schema.UNKNOWN_CONVENTIONS]
    names = results.cells[stated.index].groupby(stated["conventions"]).agg(list)
    if len(names) > 1:
        which = "; ".join(
            f"{kind}: {count(len(held), 'run')} ({some(held, 3)})" for kind, held in names.items()
        )
        raise _of_different_kinds(
            f"the runs were computed under different conventions for empty sets and ties: {which}.",
            f"tags.`{schema.TAG_CONVENTIONS}` = '{min(names.index)}'",
        )
    if mixed := _several(rows, "hierarchy"):
        text = f"runs on {some(mixed)} used different hierarchies. Choose those of one by "
        raise IncomparableRunsError(Message(text, FILTER, "."))
    weighted, plain = stated[stated["weights"] != ""], stated[stated["weights"] == ""]
    kinds = weighted.drop_duplicates(["dataset", "dataset_digest", "weights"])
    unlike = {*kinds.loc[kinds.duplicated(["dataset", "dataset_digest"]), "dataset"]}
    if unlike := unlike | {*plain["dataset"]} & {*weighted["dataset"]}:
        raise _of_different_kinds(
            f"runs on {some(sorted(unlike))} weigh the instances in different ways "
            "(`sample_weight`), or some do and others do not.",
            f"tags.`{schema.TAG_WEIGHTS}` = "
            f"'{weighted.loc[weighted['dataset'].isin(unlike), 'weights'].min()}'",
        )


def check_propensities(cells: Cells, used: Sequence[str]) -> None:
    """Refuse measures of one dataset that weigh labels by different training labels."""
    mixed = _several(cells.rows.reset_index(drop=True), "propensities")
    if mixed and (scored := [m for m in used if m in MEASURES and m.startswith(("ps", "s_min"))]):
        raise IncomparableRunsError(
            Message(
                f"runs on {some(mixed)} took the propensities or information of labels from "
                "different training labels. Choose those of one by ",
                FILTER,
                f" (tag {schema.TAG_PROPENSITIES}), or leave out {some(scored, 4)}.",
            )
        )


def _several(rows: pd.DataFrame, column: str) -> list[str]:
    """The datasets of which runs say several things in this column."""
    said = rows[rows[column] != ""].groupby("dataset", sort=False)[column].nunique()
    return [*said.index[said > 1]]


def _of_different_kinds(what: str, example: str) -> IncomparableRunsError:
    choose = f"{what} Their values do not compare; choose those of one kind by "
    return IncomparableRunsError(Message(choose, FILTER, f', for example "{example}".'))
