"""A Study: the table methods x datasets x measures (x folds) that a query of tracked runs
yields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from mlflow_mleval.errors import IncomparableRunsError, MeasureError, MissingResultsError, Ways
from mlflow_mleval.measures.metric_names import TRAINING, directions, is_bookkeeping
from mlflow_mleval.measures.registry import Direction, expand
from mlflow_mleval.package import Reported
from mlflow_mleval.selection import DIGEST, MISSING, Missing, Selection, command_line
from mlflow_mleval.sentences import (
    Argument,
    Message,
    Wording,
    agree,
    count,
    did_you_mean,
    grouped,
    some,
    worded,
)
from mlflow_mleval.validation import in_pandas, one_of

Cell = tuple[str, str]  #: a dataset and a method
_PAIR = ["dataset", "method"]
MANY = 6  #: more names than this are counted


#: How the reason begins for which a measure is left out that nobody gave a direction.
NO_DIRECTION = "no direction is known"
NEWER = "it has schema "  #: how the reason begins for which a run of a later version is left out


@dataclass(frozen=True)
class Excluded:
    """What was left out, and why; kind is run, child run, tag, measure, unasked, dataset, ..."""

    kind: str
    name: str
    reason: str

    @property
    def undirected(self) -> bool:
        """Whether it is a measure of which nobody knows which way is better."""
        return self.kind == "measure" and self.reason.startswith(NO_DIRECTION)


@dataclass(frozen=True)
class Factor:
    """What tells methods, datasets or repeats apart: how many there are, and by what."""

    what: str
    n: int  #: of repeats, at most
    by: str
    doubt: str = ""  #: why that is too weak for a test that counts them
    names: tuple[str, ...] = ()


Kind = Literal["datasets", "folds", "repeats", "instances", "answers"]  #: what counts as a unit


def _no_column(name: str) -> pd.Series:
    raise ValueError(f"no unit tells {name!r}.")


@dataclass(frozen=True)
class Units:
    """What methods scored, unit by unit: all that tests of pairs, gates and planning go by."""

    kind: Kind
    #: By method, a table of units x measures, or a function that takes the name of a measure and
    #: returns its column. Their index says which units are the same; of datasets together, its
    #: first level is the dataset.
    tables: Mapping[Any, Any]
    measures: list[str]  #: that all methods have
    clusters: pd.Series | None = None  #: by unit, which ones belong together, where known
    folds: pd.Series | None = None  #: by instance, which fold tested it, where there are several
    #: Takes the name of what else is told of units, such as a slice, and returns it by unit.
    column: Callable[[str], pd.Series] = _no_column
    #: By method, every single answer, where a unit is a question.
    answers: Mapping[str, Any] = field(default_factory=dict)
    passing: Sequence[str] = ()  #: measures of pass or fail
    weighted: bool = False  #: whether instances count by weights, which `column` tells
    notes: tuple[str, ...] = ()

    def values(self, measure: str) -> pd.DataFrame:
        """Units x methods; NaN where a method has no value."""
        tables = self.tables.items()
        return pd.DataFrame({m: t(measure) if callable(t) else t[measure] for m, t in tables})


@dataclass(frozen=True)
class Study(Reported):
    """What several methods reached on several datasets.

    Attributes
    ----------
    values : pandas.DataFrame
        One row a (dataset, method), one column a measure; NaN where there is no result. Means over
        folds and repeats.
    directions : mapping of str to {"min", "max"}
        Which way each measure is better.
    missing : {"error", "worst", "drop-datasets", "drop-methods"}
        What `complete` does about empty cells.
    folds : pandas.DataFrame or None
        The same per fold: index (dataset, method, fold). None where no run carries folds.
    repeats : pandas.DataFrame or None
        The same per run: index (dataset, method, repeat), where the repeat is the seed, or the
        number of the run. None where no method has several runs on a dataset; `values` are then
        those of the only ones, and else the means over repeats.
    runs : pandas.DataFrame
        One row a run that was used: run_id, experiment, dataset, method, status, conventions and
        what else is known.
    profiles : mapping of (dataset, method) to mapping of {"hard", "soft"} to what follows
        What the losses of every family follow from, of the runs that carry it;
        `mlflow_mleval.profiles_of` makes a table of it.
    excluded : tuple of Excluded
        What was left out on the way here, with reasons.
    notes : tuple of str
        Doubts a reader must know: duplicate runs, conventions not stated, how names were found.
    filled : tuple of (dataset, method)
        Cells of which the policy ``worst`` supplied some values.
    imputed : frozenset of (dataset, method, measure)
        These values.
    failed : frozenset of (dataset, method)
        Cells of which a run failed and none finished.
    factors : tuple of Factor
        What tells methods, datasets and repeats apart; empty where they have names in a table.
    costs : pandas.DataFrame
        What methods cost, as `values`: metrics of time, money, tokens or size beside the measures.
    source : mapping
        How it came about (tracking URI, experiments, filter …), for the report's provenance.
    """

    values: pd.DataFrame
    directions: Mapping[str, Direction]
    missing: Missing = "error"
    folds: pd.DataFrame | None = None
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    profiles: Mapping[Cell, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()
    filled: tuple[Cell, ...] = ()
    imputed: frozenset[tuple[str, str, str]] = frozenset()
    source: Mapping[str, object] = field(default_factory=dict)
    repeats: pd.DataFrame | None = None
    failed: frozenset[Cell] = frozenset()
    factors: tuple[Factor, ...] = ()
    costs: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __post_init__(self) -> None:
        one_of(self.missing, "missing", MISSING)
        if without := [m for m in self.values.columns if m not in self.directions]:
            raise MeasureError(f"no direction for {', '.join(map(repr, without))}.")
        if self.values.index.has_duplicates:
            twice = self.values.index[self.values.index.duplicated()].unique()
            raise IncomparableRunsError(
                f"{some(twice)}: more than one row for the same dataset and method."
            )

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        minimize: Iterable[str] = (),
        maximize: Iterable[str] = (),
        missing: Missing = "error",
    ) -> Study:
        """A Study from results that lie in a data frame.

        Parameters
        ----------
        frame : data frame (pandas, polars, pyarrow)
            Wide: columns ``dataset`` and ``method`` and one column a measure, one row a pair. Long:
            columns ``measure``, ``dataset``, ``method`` and ``value``. Or a leaderboard: rows are
            methods (the index, or the column ``method``), columns are datasets, and the measure is
            called ``value``. NaN where a method did not finish. `load_study` takes folds and
            repeats, too.
        minimize, maximize : iterable of str
            Directions of measures that the registry does not know.
        missing : str
            Policy for empty cells.

        >>> frame = pd.DataFrame({"dataset": ["d", "d"], "method": ["a", "b"], "f1": [0.5, 0.6]})
        >>> Study.from_frame(frame).matrix("d").f1.tolist()
        [0.5, 0.6]
        >>> board = pd.DataFrame({"wine": [0.9, 0.8], "iris": [0.7, 0.9]}, index=["svm", "rf"])
        >>> Study.from_frame(board, maximize=["value"]).datasets
        ['wine', 'iris']
        """
        frame = in_pandas(frame)
        if {*_PAIR, "measure", "value"} <= {*frame}:
            values = frame.set_index([*_PAIR, "measure"])["value"].unstack(sort=False)
        elif {*_PAIR} <= {*frame}:
            values = frame.set_index(_PAIR)
        elif "dataset" in frame:
            raise ValueError("the table has no column 'method'. Add it.")
        else:
            methods = frame.set_index("method") if "method" in frame else frame
            values = methods.T.stack(future_stack=True).rename_axis(_PAIR).to_frame("value")
        values = values.astype(float)
        return cls(values, directions(values.columns, minimize, maximize), missing)

    def worded(self, word: Wording) -> Study:
        """The study with what it says of arguments in the words of a surface."""
        excluded = (replace(gone, reason=worded(gone.reason, word)) for gone in self.excluded)
        notes = (worded(note, word) for note in self.notes)
        factors = _worded_factors(self.factors, word)
        return replace(self, excluded=tuple(excluded), notes=tuple(notes), factors=factors)

    def unsure(self, what: str) -> str:
        """Why nobody knows what a test over datasets or over repeats would count (`what` as in
        `Factor`); empty where that is known.
        """
        return next((factor.doubt for factor in self.factors if factor.what == what), "")

    @property
    def datasets(self) -> list[str]:
        """Datasets in order of first appearance."""
        return self.values.index.unique(0).tolist()

    @property
    def methods(self) -> list[str]:
        """Methods in order of first appearance."""
        return self.values.index.unique(1).tolist()

    @property
    def measures(self) -> list[str]:
        """Measures in column order."""
        return list(self.values.columns)

    @property
    def minimize(self) -> list[str]:
        """The measures of which the smaller value is better."""
        return [m for m in self.measures if self.directions[m] == "min"]

    @property
    def _repeated(self) -> Any:
        """The repeats of each (dataset, method), grouped; no groups where there are none."""
        repeats = self.values.iloc[:0] if self.repeats is None else self.repeats
        return repeats.groupby(level=[0, 1], sort=False)

    @property
    def n_repeats(self) -> pd.Series:
        """The number of runs that finished by (dataset, method); empty where nothing is known of
        runs.
        """
        return self._repeated.size().rename("runs")

    @property
    def spread(self) -> pd.DataFrame:
        """Standard deviation over repeats, as `values`; NaN where there are fewer than two."""
        return self._repeated.std()

    @property
    def standard_errors(self) -> pd.DataFrame:
        """Standard error of the mean over repeats: `spread` over the root of the number of
        values.
        """
        return self._repeated.sem()

    def over(self, kind: Kind, dataset: str | None = None) -> Units:
        """The values by dataset, fold or repeat, of all datasets together or of one.

        Raises
        ------
        IncomparableRunsError
            There are none.

        Examples
        --------
        >>> frame = pd.DataFrame({"dataset": ["d", "d"], "method": ["a", "b"], "f1": [0.5, 0.6]})
        >>> Study.from_frame(frame).over("datasets").values("f1").to_dict("index")
        {'d': {'a': 0.5, 'b': 0.6}}
        """
        by_kind = {"datasets": self.values, "folds": self.folds, "repeats": self.repeats}
        table = by_kind.get(kind)
        if table is not None and dataset is not None:
            table = table[table.index.get_level_values(0) == dataset].droplevel(0)
        if table is None or table.empty:
            on = "" if dataset is None else f" on {dataset}"
            none = {
                "repeats": f"no method has several runs{on}; repeat them with other seeds.",
                "folds": f"no run has values by fold{on}. Log them with folds.",
            }
            one_of(kind, "kind", by_kind)
            raise IncomparableRunsError(none.get(kind, f"the study holds no {kind}{on}."))
        level = 0 if dataset is not None else 1
        by_method = table.groupby(level=level, sort=False)
        tables = {method: rows.droplevel(level) for method, rows in by_method}
        return Units(kind, tables, list(table.columns))

    @property
    def repeat_rules(self) -> list[str]:
        """What tells repeats apart, beside their seeds."""
        rules: Any = self.source.get("repeats_by", ())
        named = rules.split(", ") if isinstance(rules, str) else rules
        return [rule for rule in named if rule != "seeds"]

    def same_split(self, dataset: str | None = None) -> bool | None:
        """Whether the repeats of every method share their split of the data (of one dataset, or of
        all); None where unknown.

        On the same split they tell how much training varies, and nothing of other data.
        """
        if self.repeats is None:
            return None
        if DIGEST in self.repeat_rules:
            return False
        if not {*_PAIR, "split_digest"} <= {*self.runs}:
            return None
        runs = self.runs if dataset is None else self.runs[self.runs["dataset"] == dataset]
        several = runs[runs.duplicated(_PAIR, keep=False)]
        digests = [c for c in ("split_digest", "dataset_digest") if c in several]
        if several.groupby(_PAIR)[digests].nunique().gt(1).any(axis=None):
            return False
        unknown = several["split_digest"].fillna("").eq("")
        return None if several.empty or unknown.any() else True

    def cells(self, measure: str) -> pd.DataFrame:
        """One measure as a table datasets x methods; NaN where there is no value."""
        _refuse_unknown("measure", [measure], self.measures)
        return self.values[measure].unstack().reindex(index=self.datasets, columns=self.methods)

    def ranks(self, measure: str) -> pd.DataFrame:
        """Ranks by one measure: datasets x methods, 1 is best, ties averaged; NaN where there is no
        value.
        """
        return self.cells(measure).rank(axis=1, ascending=self.directions[measure] == "min")

    def by_cost(self, name: str) -> Study:
        """The study with this cost alone; a MeasureError where it has none of this name."""
        _refuse_unknown("cost", [name], [*self.costs])
        return replace(self, costs=self.costs[[name]])

    def finished(self) -> pd.DataFrame:
        """Datasets x methods: whether every measure has a value there."""
        there = self.values.notna().all(axis=1).unstack(fill_value=False)
        return there.reindex(index=self.datasets, columns=self.methods)

    def gaps(self) -> list[Cell]:
        """The (dataset, method) pairs that lack a value of at least one measure."""
        there = self.finished().stack()
        return there.index[~there].tolist()

    def why_empty(self, cells: Collection[Cell]) -> str:
        """Why these cells (dataset, method) have no result, as far as the runs tell: "8 did not
        finish, 1 without a run".
        """
        status = self.statuses()
        there = [cell for cell in cells if status.get(cell) == "complete"]
        empty = self.values.reindex(there).isna().any()
        # nobody knows it of what a policy has filled
        lacking = some(empty.index[empty], 3) if there else ""
        newer = [each.name for each in self.excluded if each.reason.startswith(NEWER)]
        later = "written by a later version, which this one cannot read"
        words = {
            "dnf": "did not finish",
            "": f"never run, or {later} (run {some(newer, 3)})" if newer else "never run",
            "failed": "failed",
            "complete": f"without a value of {lacking or 'some measure'}",
        }
        reasons = Counter(words[status.get(cell, "")] for cell in cells) if status else {}
        return ", ".join(f"{n} {why}" if len(reasons) > 1 else why for why, n in reasons.items())

    @property
    def is_foreign(self) -> bool:
        """Whether others logged some of its runs."""
        return self.source.get("method_by", "tag:mleval.method") != "tag:mleval.method"

    def statuses(self) -> dict[Cell, str]:
        """Status of the run (complete or dnf, or that all failed) by (dataset, method); empty where
        nothing is known of runs.
        """
        if not {*_PAIR, "status"} <= {*self.runs}:
            return {}
        # of repeats, one that finished counts
        runs = self.runs.sort_values("status", ascending=False, kind="stable")
        return dict.fromkeys(self.failed, "failed") | runs.set_index(_PAIR)["status"].to_dict()

    def matrix(self, dataset: str) -> pd.DataFrame:
        """The decision matrix methods x measures of one dataset, with the missing-value policy
        applied.
        """
        study = self.complete()
        _refuse_unknown("dataset", [dataset], study.datasets, KeyError)
        return study.values.loc[dataset].reindex(study.methods)

    def select(
        self,
        measures: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        methods: Iterable[str] | None = None,
        datasets: Iterable[str] | None = None,
    ) -> Study:
        """The same study with fewer measures, methods or datasets.

        Names of measure sets are allowed.
        """
        wanted = expand(measures) if measures is not None else self.measures
        _refuse_unknown("measure", wanted, self.measures)
        chosen = without(wanted, exclude)
        values = self.values[chosen]
        for level, what, names in ((1, "method", methods), (0, "dataset", datasets)):
            if names is not None:
                kept, there = [*names], values.index.get_level_values(level)
                _refuse_unknown(what, kept, sorted({*there}), IncomparableRunsError)
                values = values[there.isin(kept)]
        folds, repeats = (_matching(table, values) for table in (self.folds, self.repeats))
        source = dict(self.source)
        if chosen != self.measures and "measures_by" in source:
            source["measures_by"] = f"those that you kept of {len(self.measures)}"
        return replace(
            self,
            values=values,
            folds=folds,
            repeats=repeats,
            source=source,
            filled=tuple(cell for cell in self.filled if cell in values.index),
            directions={m: self.directions[m] for m in chosen},
        )

    def _ways_on(self, gaps: Sequence[Cell]) -> Ways:
        """What can be done about empty cells, with the arguments that do it; the worst value stands
        for results of runs that failed, not for those that nobody asked for.
        """
        datasets, methods = ([*dict.fromkeys(gap[k] for gap in gaps)] for k in (0, 1))
        status = self.statuses()
        failed = not status or all(status.get(gap) in ("dnf", "failed") for gap in gaps)
        n, k = len(self.datasets), len(self.methods)
        fewer = [
            ((n - len(datasets)) * k, datasets, {"missing": "drop-datasets"}),
            ((k - len(methods)) * n, methods, {"missing": "drop-methods"}),
        ]
        if k - len(methods) < 2:
            fewer.pop()
        fewer.sort(key=lambda way: -way[0])  # what keeps most results comes first
        ways: list[tuple[str, dict[str, Any]]] = []
        if failed:
            ways.append(("give them the worst value of their dataset", {"missing": "worst"}))
        ways += [(f"leave out {some(names)}", more) for left, names, more in fewer if left]
        if not failed and len(self.methods) > 2:
            there = self.finished().astype(int)
            common = there.T @ there  # by pair of methods, the datasets that both have
            pair = max(combinations(self.methods, 2), key=lambda pair: common.loc[pair])
            if common.loc[pair]:
                text = f"compare {some(pair)}, on the datasets that both have"
                ways.append((text, {"methods": [*pair], "missing": "drop-datasets"}))
        return ways

    def complete(self, missing: Missing | None = None) -> Study:
        """The study with its policy for missing values applied: no cell is empty, and what was done
        is listed.

        Parameters
        ----------
        missing : str, optional
            Policy to use in place of the study's own. ``worst``: the worst finished value of that
            dataset and measure; ``drop-datasets``: only datasets on which every method finished;
            ``drop-methods``: only methods that finished everywhere; ``error``: MissingResultsError
            that names the cells.
        """
        policy = missing or self.missing
        if not (gaps := self.gaps()):
            return replace(self, missing=policy)
        why = f"; {why}" if (why := self.why_empty(gaps)) else ""
        index = pd.MultiIndex.from_product([self.datasets, self.methods], names=_PAIR)
        named = (
            f"{len(gaps)} of {len(index)} cells {agree(gaps, 'has')} no result "
            f"({some(f'{m} on {d}' for d, m in gaps)}{why})"
        )
        if policy == "error":
            raise MissingResultsError(f"{named}.", self._ways_on(gaps))
        full = self.values.reindex(index)
        if policy == "worst":
            ways = {m: "max" if self.directions[m] == "min" else "min" for m in full}
            worst = full.groupby(level=0, sort=False).agg(ways)
            values = full.fillna(worst.reindex(full.index, level=0))
            unknown, empty = (table.isna().stack() for table in (worst, full))
            if unknown.any():
                lacking = some(f"{m} on {d}" for d, m in unknown.index[unknown])
                raise MissingResultsError(
                    f"no method has a value of {lacking}, so there is no worst one to use. Leave "
                    "out the dataset or the measure."
                )
            imputed = frozenset(empty.index[empty])
            return replace(self, values=values, missing=policy, filled=tuple(gaps), imputed=imputed)
        level, what = (0, "dataset") if policy == "drop-datasets" else (1, "method")
        lost = grouped((gap[level], gap[1 - level]) for gap in gaps)
        rest = full[~full.index.get_level_values(level).isin([*lost])]
        if rest.empty:
            asked = Argument("missing", policy)
            text = " would leave nothing. Choose another policy."
            raise MissingResultsError(Message(f"{named}, so ", asked, text))
        gone = [
            Excluded(what, name, f"no result of {some(cells)} (policy {policy})")
            for name, cells in lost.items()
        ]
        made = {"values": rest, "repeats": _matching(self.repeats, rest), "missing": policy}
        return replace(self, **made, excluded=(*self.excluded, *gone))


def without(measures: Sequence[str], exclude: Iterable[str]) -> list[str]:
    """The measures but those of these names or sets; a MeasureError where none is left."""
    dropped = set(expand(exclude))
    if not (left := [m for m in measures if m not in dropped]):
        raise MeasureError("no measure is left after the exclusions. Keep at least one.")
    return left


def _refuse_unknown(
    what: str, names: Iterable[str], there: Sequence[str], error: type[Exception] = MeasureError
) -> None:
    """An error that tells which of these names the study does not have, and which it has."""
    if unknown := [name for name in names if name not in there]:
        has = some(there) or "none"
        guess = did_you_mean(unknown, there)
        raise error(f"the study has no {what} {some(map(repr, unknown))}; it has {has}.{guess}")


def _matching(table: pd.DataFrame | None, values: pd.DataFrame) -> pd.DataFrame | None:
    """What a table by fold or by repeat says of these values."""
    if table is None:
        return None
    return table.loc[table.index.droplevel(2).isin(values.index), [m for m in values if m in table]]


def left_out(excluded: Iterable[Excluded]) -> list[str]:
    """What was left out: a sentence for each kind and reason; what nobody asked for is passed over.
    >>> left_out([Excluded("run", f"rf on iris ({id})", "status FAILED") for id in ("1f", "2a")])
    ['Left out: 2 runs of rf on iris: status FAILED.']
    """
    asked = (gone for gone in excluded if gone.kind != "unasked")
    groups = grouped(((gone.kind, gone.reason), gone.name) for gone in asked)
    told: list[str] = []
    for (kind, why), names in sorted(groups.items(), key=lambda item: -len(item[1])):
        bare = dict.fromkeys(name.rpartition(" (")[0] or name for name in names)  # without ids
        which = f"{kind}{'s' if len(names) > 1 else ''} {some(names)}"
        if len(bare) < len(names) and len(bare) <= MANY:
            which = f"{count(len(names), kind)} of {some(bare, MANY)}"
        elif len(names) > MANY:
            which = f"{count(len(names), kind)}, such as {names[0]}"
        told.append(Message(f"Left out: {which}: ", why, "."))
    return told


def _worded_factors(factors: Iterable[Factor], word: Wording) -> tuple[Factor, ...]:
    return tuple(replace(f, by=worded(f.by, word), doubt=worded(f.doubt, word)) for f in factors)


# --------------------------------------------------------------------------------------------------
# A Survey: what selected runs hold, before anybody has said what names a method, and which way a
# metric is better.


@dataclass(frozen=True)
class Candidate:
    """A rule that might name the method, dataset, repeats or folds (`role`) of a run."""

    role: str
    rule: str
    reason: str
    chosen: bool = False  #: whether the commands use it


@dataclass(frozen=True)
class Way:
    """Something to do next: what it does, or on what condition it is right, and the command."""

    what: str
    command: str  #: rank, runs or compare
    selection: Selection
    over: str = ""  #: what `compare` tests over
    #: What `rank` would compare, where that was tried out.
    study: Study | None = field(default=None, repr=False, compare=False)
    settles: bool = False  #: whether it says what the runs do not, so that somebody has to know it

    @property
    def line(self) -> str:
        """As it is typed, with every part quoted that needs it."""
        over = [("--over", self.over)] * bool(self.over)
        results = self.selection.results
        file = [str(results)] if isinstance(results, str | Path) else []
        typed = ["mleval", self.command, *file]
        return command_line(typed, [*self.selection.options(), *over])


@dataclass(frozen=True)
class Survey(Reported):
    """What selected runs hold."""

    #: One row an experiment: experiment, experiment_id, runs, finished, failed, running, children,
    #: last_start, metrics (a tuple of names).
    experiments: pd.DataFrame
    #: One row a metric of the finished runs that are no children: metric, runs, low, high,
    #: direction ("max", "min" or empty), data ("held-out", "validation", "training" or empty),
    #: proposed (the direction that the name of another metric suggests).
    metrics: pd.DataFrame
    #: One row a param or tag with several values: kind, name, runs, values (their number),
    #: examples (a tuple).
    variables: pd.DataFrame
    n_runs: int  #: finished ones with metrics, which the tables count
    candidates: tuple[Candidate, ...] = ()
    ways: tuple[Way, ...] = ()  #: what to do next, the best first
    foreign: bool = False  #: whether runs that others logged are read by rules that nobody chose
    trials: tuple[str, ...] = ()  #: metrics of all trials of searches whose parents have none
    problem: str = ""  #: why the runs cannot be compared as they were selected
    notes: tuple[str, ...] = ()
    factors: tuple[Factor, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rankings(self) -> list[Way]:
        """The ways to a ranking that need nobody who knows more."""
        return [way for way in self.ways if way.command == "rank" and not way.settles]

    def worded(self, word: Wording) -> Survey:
        """The survey with what it says of arguments in the words of a surface."""
        notes = tuple(worded(note, word) for note in self.notes)
        factors = _worded_factors(self.factors, word)
        return replace(self, problem=worded(self.problem, word), notes=notes, factors=factors)

    @property
    def undirected(self) -> list[str]:
        """Metrics of predictions on other than training data whose direction nobody knows."""
        unknown = (self.metrics["direction"] == "") & (self.metrics["data"] != TRAINING)
        names = self.metrics.loc[unknown, "metric"]
        return [name for name in names if not is_bookkeeping(name)]
