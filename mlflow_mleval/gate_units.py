"""What two sides of a gate share: answers, instances, folds, repeats, datasets or counts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.answer_comparison import Ranges, directed, is_scored, ranges_known
from mlflow_mleval.analysis.gate_tests import LEAST_UNITS, Changed, Differences
from mlflow_mleval.errors import (
    IncomparableRunsError,
    MarginError,
    MeasureError,
    MissingResultsError,
    NoRunsError,
    UndirectedError,
)
from mlflow_mleval.measures.metric_names import direction_of, proposed_direction, range_of
from mlflow_mleval.measures.registry import MEASURES, Direction
from mlflow_mleval.selection import Choices, Selection
from mlflow_mleval.sentences import Argument, Message, agree, did_you_mean, some
from mlflow_mleval.study import Study, Units, left_out
from mlflow_mleval.validation import AnyArray, Stated, by_name

if TYPE_CHECKING:
    from mlflow_mleval.analysis.pairs import Crossings
    from mlflow_mleval.store.run_answers import SelectedAnswers

T = TypeVar("T")
#: The loss that does not matter, of measures between 0 and 1 of which none is stated.
MARGIN = 0.01
#: Measures of which a message states a margin.
_STATED = 6
#: Fewer datasets than this cannot decide; then repeats count, where there are any.
_LEAST_DATASETS = 5
#: Values of a column whose units are parts.
_MOST_PARTS = 200
#: What readers of answers tell beside the columns of a run.
_OF_READERS = ["link", "asked", "output", "address"]
#: Fewer values of a column are kinds of questions, not groups that change together; and the share
#: of its values that are those of several questions.
_LEAST_GROUPS, _MOSTLY = 5, 0.9
#: How far a value may lie outside of its measure's range by rounding.
_ROUNDING = 1e-6
#: How MLflow's stores name runs.
_RUN_ID = re.compile("[0-9a-f]{32}")
#: Slices that are no columns: by the dataset of a unit, and by the labels of label sets or classes.
_DATASET, _LABEL = "dataset", "label"
#: Shares of right answers, and the metrics that add up to the number of examples they are of.
_SHARES = {
    "accuracy_score": ("example_count",),
    "exact_match/v1": ("example_count",),
    "recall_score": ("true_positives", "false_negatives"),
}
#: Measures that are made up of those of single labels, and what they are of one label.
_OF_LABEL = {"hamming_loss": "hamming_loss"} | {
    f"{kind}_{rate}": rate for kind in ("macro", "micro") for rate in ("precision", "recall", "f1")
}


def shown(named: str) -> str:
    """How a reader is told of a run or a model.

    >>> shown("models:/tagger@champion"), shown("0123456789abcdef0123456789abcdef")
    ('tagger@champion', 'run 01234567')
    """
    if re.fullmatch("[0-9a-f]{32}", named):
        return f"run {named[:8]}"
    return named.removeprefix("models:/")


def _words_of_name(measure: str) -> set[str]:
    """The words that a measure's name is made of."""
    return {*filter(None, re.split("[^a-z0-9]+", measure.lower()))}


@dataclass(frozen=True)
class Shared:
    """The units that two sides share, and what is known of them."""

    units: Differences
    over: str
    directions: Mapping[str, str]
    #: Between which values each measure lies; those between 0 and 1 have a margin.
    ranges: Ranges
    runs: Mapping[str, Sequence[str]]
    #: Those of the candidate, by unit and measure.
    values: pd.DataFrame
    notes: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    #: Where the mean of a run's units is not the metric that was logged with them.
    changed: tuple[Changed, ...] = ()
    #: Measures of both sides of which nobody knows which way is better, and what is proposed.
    undirected: Mapping[str, Direction | None] = field(default_factory=dict)
    #: Which measures of both sides cannot be judged, and why.
    without: str = ""
    #: Over repeats, where either side is certainly better on some dataset.
    crossings: Crossings = ()

    def bounded(self, stated: Stated) -> Shared:
        """With stated bounds, at which differences are cut, and a note on measures without any."""
        units, notes = self.units, [*self.notes]
        unbounded = [m for m in self.directions if m not in units.bounds]
        stated = self.named(by_name(stated, unbounded), "bounds")
        if stated and units.means:
            raise ValueError(
                f"`bounds` must go with answers or instances, got {some(stated)} over {self.over}. "
                "Leave them out."
            )
        if below := {m: bound for m, bound in stated.items() if not bound > 0}:
            raise ValueError(f"`bounds` must be above 0, got {below}.")
        bounds = {**units.bounds, **stated}
        given = units.differences
        ends = pd.Series(stated, dtype=float).reindex(given.columns, fill_value=np.inf)
        beyond = (given.abs() > ends).sum()
        for measure, n in beyond[beyond > 0].items():
            notes.append(
                f"{n:,} of {len(given):,} differences of {measure} are larger than "
                f"{stated[str(measure)]:g} and count as that."
            )
        endless = [] if units.means else given.columns.difference(list(bounds), sort=False)
        if len(endless):
            largest = float(np.ceil(given[endless[0]].abs().max() or 1.0))
            notes.append(
                Message(
                    f"Not judged: {some(endless)} {agree(len(endless), 'has')} no bound, and a "
                    "single answer may be worse than all that were seen; ",
                    Argument("bounds", (f"{endless[0]}={largest:g}",)),
                    " gives it one.",
                )
            )
        cut, worst = (table.clip(-ends, ends, axis=1) for table in (given, units.worst))
        units = replace(units, differences=cut, worst=worst, bounds=bounds)
        return replace(self, units=units, notes=tuple(notes))

    def named(self, stated: Mapping[str, T], name: str) -> dict[str, T]:
        """What was stated of measures, by their own names: f1 stands for f1_score where no other
        measure has that word.
        """
        found, wrong = {}, []
        for given, value in stated.items():
            like = [m for m in self.directions if _words_of_name(given) <= _words_of_name(m)]
            own = given if given in self.directions else like[0] if len(like) == 1 else None
            wrong += [given] if own is None else []
            found[own or given] = value
        if unknown := [given for given in wrong if given in self.undirected]:
            suggested = {m: way for m in unknown if (way := self.undirected[m])}
            text = f"no direction is known for {some(unknown)}."
            raise UndirectedError(text, UndirectedError.ways_for(unknown, suggested, every=True))
        if wrong:
            text = (
                f"`{name}` must name measures that both sides have, got {some(wrong)}. They have "
                f"{some(self.directions)}.{did_you_mean(wrong, self.directions)} {self.without}"
            )
            raise ValueError(text.rstrip())
        return found

    def margins(self, stated: Stated) -> dict[str, float]:
        """The margin of each measure that has one."""
        if isinstance(stated, int | float):
            return dict.fromkeys(self.directions, float(stated))
        shares = [m for m, ends in self.ranges.items() if tuple(ends) == (0, 1)]
        margins = dict.fromkeys(shares, MARGIN) | self.named(stated or {}, "margins")
        if not margins:
            text = (
                f"no margin is known for {some(self.directions)}: only measures between 0 and 1 "
                "have one by default. State what loss does not matter."
            )
            measures = [*self.directions][:_STATED]
            means = {m: self.values[m].abs().mean() for m in measures}
            small = {m: float(f"{mean / 100 or MARGIN:.1g}") for m, mean in means.items()}
            what = "take about 1% of the candidate's mean, which somebody has to confirm"
            raise MarginError(text, [(what, {"margins": small})])
        return margins

    @property
    def digest(self) -> str:
        """What tells these units from others."""
        text = "\0".join([self.over, *map(str, self.units.differences.index)])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class GateRequest:
    """Which two sides are compared, on what."""

    candidate: str
    champion: str
    selection: Selection
    measures: Sequence[str] | None = None
    slices: Sequence[str] = ()
    cluster: str | None = None
    of_answers: Choices = field(default_factory=dict)
    of_folds: Choices = field(default_factory=dict)
    #: The level at which a side is called better on a dataset, all of them together.
    alpha: float = 0.05

    def read(self, over: str) -> Shared:
        """The units, of the kind that is asked for or the first that the runs hold."""
        from mlflow_mleval.store.runs_table import remembered

        with remembered():
            asked = self._resolved()
            if over in ("auto", "answers"):
                answers = asked._answers()
                if answers is not None:
                    return answers
                if over == "answers":
                    raise MissingResultsError("none of the runs holds answers.")
            return _of_study(asked, over)

    @property
    def sides(self) -> tuple[str, str]:
        """Candidate and champion."""
        return self.candidate, self.champion

    def check(self, over: str) -> None:
        """Refuse columns that units of tables do not have."""
        if self.cluster:
            raise ValueError(
                f"`cluster` must go with answers or instances, got {self.cluster!r} over {over}."
            )
        parts = {_DATASET, _LABEL} if over == "folds" else {_DATASET}
        if unknown := {*self.slices} - parts:
            raise ValueError(
                f"`slices` over {over} must be among {some(sorted(parts))}, got "
                f"{some(sorted(unknown))}. Columns are those of answers and instances, labels "
                "those of folds."
            )

    @property
    def columns(self) -> dict[str, str]:
        """The columns that make slices and clusters, by what they are for."""
        named = {name: name for name in self.slices if name != _DATASET}
        return named | ({_CLUSTER: self.cluster} if self.cluster else {})

    def _resolved(self) -> GateRequest:
        """The same with the two sides as methods of the selection."""
        from mlflow_mleval.store import store
        from mlflow_mleval.store.repeats import everywhere

        chosen = self.selection
        if chosen.experiment_names or chosen.experiment_ids or chosen.filter_string:
            if self.candidate == self.champion:
                raise ValueError(
                    f"`candidate` and `champion` must differ, got {self.champion!r} for both."
                )
            return replace(self, selection=replace(chosen, methods=self.sides))
        client = store.connect()
        ids = [store.run_of(client, each).run_id for each in self.sides]
        if not any(map(_RUN_ID.fullmatch, ids)):
            # the only experiment with runs of these names, if there is one
            places = []
            every = () if "'" in "".join(ids) else everywhere(client, Selection()).experiment_ids
            for name in ids if every else ():
                runs = store.search(client, every, f"run_name = '{name}'")
                places.append({run.info.experiment_id for run in runs})
            if places and len(place := set.intersection(*places)) == 1:
                chosen = replace(chosen, experiment_ids=tuple(place))
                return replace(self, selection=chosen)._resolved()
            if files := [each for each in ids if Path(each).is_file()]:
                text = f"a gate compares runs, got files ({some(files)}). Log what they hold with "
                raise NoRunsError(f"{text}mleval evaluate or mleval import, and name the runs.")
            text = f"no run is called {' or '.join(ids)}. Methods take their experiments, too: "
            raise NoRunsError(Message(text, store.EXPERIMENTS, "."))
        if ids[0] == ids[1]:
            raise ValueError(
                f"`candidate` and `champion` must be different runs, got {ids[0]} for both."
            )
        chosen = replace(chosen, run_ids=tuple(ids), method_by=("run_id",))
        return replace(self, candidate=ids[0], champion=ids[1], selection=chosen)

    def _answers(self) -> Shared | None:
        from mlflow_mleval.store.run_answers import load_answers

        try:
            found = load_answers(
                self.selection, **self.of_answers, measures=self.measures, asked_of=self.champion
            )
        except NoRunsError:
            if self.of_answers.get("table"):
                raise
            return None
        if not found.found:
            if self.of_answers:
                raise MissingResultsError(
                    " ".join(f"{dataset}: {why}" for dataset, why in found.absent.items())
                )
            return None
        both = {d: a for d, a in found.found.items() if {*self.sides} <= {*a.tables}}
        if not both:
            raise IncomparableRunsError(
                f"{self.candidate} and {self.champion} share no answers: they are on "
                f"{some(found.found)}."
            )
        parts = [_of_answers(self, dataset, one) for dataset, one in both.items()]
        return replace(_pooled(self, "answers", parts, found, found.notes), changed=found.changed)


@dataclass(frozen=True)
class _Part:
    """The units of one dataset: tables of candidate and champion, with what the champion has as
    rows, and the columns that make slices and clusters.
    """

    dataset: str
    tables: Sequence[pd.DataFrame]
    directions: Mapping[str, str]
    columns: Mapping[str, pd.Series] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    changed: tuple[Changed, ...] = ()
    undirected: Mapping[str, Direction | None] = field(default_factory=dict)


def _pooled(
    asked: GateRequest,
    over: str,
    parts: Sequence[_Part],
    of: Study | SelectedAnswers,
    notes: Iterable[str],
    slices: Mapping[str, pd.DataFrame] | None = None,
    ratio: float | None = None,
) -> Shared:
    """The units of all datasets together, with their slices and clusters: one that the champion has
    and the candidate lacks is lost.
    """
    directions = parts[0].directions
    tables = [
        pd.concat({part.dataset: part.tables[k][[*directions]] for part in parts}) for k in (0, 1)
    ]
    champion = tables[1]
    candidate = tables[0].reindex(champion.index)
    ranges = _ranges(dict(zip(asked.sides, (candidate, champion), strict=True)), parts)
    falls = np.array([way == "min" for way in directions.values()])
    signs = np.where(falls, -1.0, 1.0)
    low, high = np.array([ranges[m] for m in directions]).T
    lost = candidate.isna() & champion.notna()
    columns = {
        name: pd.concat([part.columns[name] for part in parts]).to_numpy(object)
        for name in parts[0].columns
    }
    columns[_DATASET] = champion.index.get_level_values(0).to_numpy(object)
    units = Differences(
        (candidate - champion) * signs,
        slices={**_slices(asked, over, columns), **(slices or {})},
        clusters=columns.get(_CLUSTER),
        worst=((np.where(falls, high, low) - champion) * signs).where(lost),
        bounds={m: high - low for m, (low, high) in ranges.items() if np.isfinite(high - low)},
        means=over not in ("answers", "instances"),
        ratio=ratio,
    )
    runs = of.runs.groupby("method")["run_id"].agg(list).to_dict()
    return Shared(
        units,
        over,
        directions,
        ranges,
        {"candidate": runs[asked.candidate], "champion": runs[asked.champion]},
        candidate,
        tuple(dict.fromkeys([*chain.from_iterable(part.notes for part in parts), *notes])),
        of.source,
        changed=tuple(chain.from_iterable(part.changed for part in parts)),
        undirected={m: way for part in parts for m, way in part.undirected.items()},
    )


def _ranges(tables: Mapping[str, pd.DataFrame], parts: Sequence[_Part]) -> Ranges:
    """Between which values each measure lies, as all parts say or by its name; infinite where that
    is not known. An error where a side has a value that its measure cannot have.
    """
    known = {m: ends for part in parts for m, ends in part.ranges.items()}
    known = {m: ends for m, ends in known.items() if all(m in part.ranges for part in parts)}
    ranges = {}
    for measure in next(iter(tables.values())):
        values = pd.concat([table[measure] for table in tables.values()]).dropna()
        low, high = ranges[measure] = known.get(measure) or range_of(measure, values)
        for side, table in tables.items():
            there = table[measure]
            if len(beyond := there[(there < low - _ROUNDING) | (there > high + _ROUNDING)]):
                raise IncomparableRunsError(
                    f"{shown(side)} has {measure} of {beyond.iloc[0]:g}, and no value lies outside "
                    f"of [{low:g}, {high:g}]: it cannot be judged. Log {measure} on its own scale, "
                    "or choose other measures."
                )
    return ranges


#: The column that says which units belong together, among those that make slices.
_CLUSTER = "\0cluster"


def _slices(asked: GateRequest, over: str, columns: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Each value of each column that is asked for as a part; the column is named where there are
    several. Folds are those of one dataset, which is no part of them.
    """
    named = [] if over == "folds" else [name for name in asked.slices if name in columns]
    parts = {}
    for column in named:
        values = columns[column]
        if (n := pd.Series(values).nunique()) > _MOST_PARTS:
            raise ValueError(
                f"`slices` must name columns of at most {_MOST_PARTS} values, got {column!r} with "
                f"{n:,}. Name a column that groups them."
            )
        prefix = f"{column}=" if len(named) > 1 else ""
        for value in pd.unique(values):
            if not pd.isna(value) and str(value).strip():
                parts[f"{prefix}{value}"] = values == value
    return parts


# --------------------------------------------------------------------------------------------------
# Answers.


def _of_answers(asked: GateRequest, dataset: str, answers: Units) -> _Part:
    grades = asked.of_answers.get("grades") or {}
    ranges = ranges_known(answers, grades)
    own = [m for m in ranges if m not in {*answers.passing, *grades}]
    directions, undirected, notes = _answer_directions(asked.selection, answers, own)
    # the first two columns by whose values questions may belong together: five values at least,
    # nearly all of them of several questions
    about = answers.answers[asked.champion].about
    about = about[~about.index.duplicated()].drop(columns=[*asked.slices], errors="ignore")
    found = [] if asked.cluster else about.columns.difference(_OF_READERS, sort=False)
    sizes = {column: about.groupby(column).size() for column in found}
    several = (c for c, n in sizes.items() if len(n) >= _LEAST_GROUPS and (n > 1).mean() >= _MOSTLY)
    for column in islice(several, 2):
        text = (
            f"Several questions share each {column}. If their answers tend to be right or wrong "
            "together, the verdict is too sure of itself; say so: "
        )
        notes.append(Message(text, Argument("cluster", (column,)), "."))
    return _Part(
        dataset,
        [answers.tables[side] for side in asked.sides],
        directions,
        {key: answers.column(column) for key, column in asked.columns.items()},
        ranges,
        tuple(notes),
        undirected=undirected,
    )


def _answer_directions(
    chosen: Selection, answers: Units, binary: Sequence[str]
) -> tuple[dict[str, Direction], dict[str, Direction | None], list[str]]:
    """Which way measures are better, what is proposed of those of which nobody knows it, and
    notes; of the `binary` ones only 0 and 1 were seen.
    """
    scored = {m for m in answers.measures if is_scored(answers, m)}
    passing = [m for m in binary if m in scored and proposed_direction(m) != "min"]
    directed_ones, directions, _ = directed(
        replace(answers, passing=[*answers.passing, *passing]),
        chosen.minimize,
        chosen.maximize,
        ways=chosen.directions,
    )
    undirected = {}
    for m in answers.measures:
        if m not in directions:
            undirected[m] = direction_of(m, True) or ("max" if m in scored else None)
    notes = [*directed_ones.notes]
    if taken := [m for m in binary if m in directions]:
        notes.append(f"Only 0 and 1 were seen, which count as pass or fail: {some(taken)}.")
    return directions, undirected, notes


# --------------------------------------------------------------------------------------------------
# A study: instances, folds, repeats, datasets.


def _of_study(asked: GateRequest, over: str) -> Shared:
    readers = {
        "instances": _of_instances,
        "folds": _of_folds,
        "repeats": _of_repeated_runs,
        "counts": _of_counts,
        "datasets": _of_datasets,
    }
    if over != "auto":
        return readers[over](asked, _study(asked, over))
    skipped = []
    named = asked.cluster or {*asked.slices} - {_DATASET, _LABEL}  # columns of single answers
    for kind in ("instances", *_unit_kinds(_study(asked, "instances"))):
        study = _study(asked, kind)
        try:
            shared = readers[kind](asked, study)
        except (MissingResultsError, MeasureError, IncomparableRunsError) as error:
            passes = isinstance(error, MissingResultsError | MeasureError)
            each_its_data = kind == "instances" and study.repeats is not None
            if kind == "datasets" or named or not (passes or each_its_data):
                raise
            skipped.append(f"Not over {kind}: {error}")
        else:
            return replace(shared, notes=(*shared.notes, *skipped))
    raise MissingResultsError("the two sides share no units. Log folds, instances or repeats.")


def _study(asked: GateRequest, over: str) -> Study:
    """The study of both sides; instances may have measures that no run has as a whole."""
    from mlflow_mleval.store.query import selected_study

    if over != "instances":
        asked.check(over)
    wanted = None if over == "instances" else asked.measures
    study = selected_study(replace(asked.selection, measures=wanted, missing="drop-datasets"))
    for side in asked.sides:
        if side not in study.methods:
            raise NoRunsError(
                f"there is no {side!r} among the methods {some(study.methods)}. Name one of them."
            )
    return study


def _unit_kinds(study: Study) -> Iterator[str]:
    """The kinds of units that may decide, in their order, where instances do not."""
    several = len(study.datasets) > 1
    if study.folds is not None and not several:
        yield "folds"
    if study.repeats is not None and len(study.datasets) < _LEAST_DATASETS:
        yield "repeats"
    if not several and {*_SHARES} & {*study.measures}:
        yield "counts"
    yield "datasets"


def _of_instances(asked: GateRequest, study: Study) -> Shared:
    from mlflow_mleval.store import schema
    from mlflow_mleval.store.study_artifacts import changed_means, instances_of

    parts = []
    wanted = None if asked.measures is None else [*asked.measures]
    for dataset in _of_both(study, asked):
        with instances_of(study, dataset, wanted) as instances:
            if lacking := {*asked.sides} - {*instances.tables}:
                raise MissingResultsError(
                    f"{some(sorted(lacking))} has no values by instance on {dataset}. Log them."
                )
            directions = {
                m: study.directions.get(m) or MEASURES[m].direction for m in instances.measures
            }
            tables = [
                pd.DataFrame({m: instances.tables[side](m) for m in directions})
                for side in asked.sides
            ]
            weights = instances.column(schema.INSTANCE_WEIGHT) if instances.weighted else None
            changed = []
            for side, values in zip(asked.sides, tables, strict=True):
                logged = study.values.loc[(dataset, side)]
                changed += changed_means(shown(side), values, logged, weights)
            keys = tables[1].index
            columns = {k: instances.column(c).reindex(keys) for k, c in asked.columns.items()}
            notes, told = instances.notes, tuple(changed)
        parts.append(_Part(dataset, tables, directions, columns, notes=notes, changed=told))
    return _pooled(asked, "instances", parts, study, _notes(study))


def _of_both(study: Study, asked: GateRequest) -> list[str]:
    """The datasets on which both sides have a result."""
    cells = {*study.values.index}
    both = [d for d in study.datasets if {(d, side) for side in asked.sides} <= cells]
    if not both:
        raise IncomparableRunsError(
            f"{shown(asked.candidate)} and {shown(asked.champion)} share no dataset: there are "
            f"{some(study.datasets)}."
        )
    return both


def _notes(study: Study) -> list[str]:
    """What to tell of a study."""
    gone = left_out(e for e in study.excluded if e.kind not in ("measure", "unasked"))
    return [*study.notes, *gone]


def _table_part(study: Study, dataset: str, tables: Sequence[pd.DataFrame]) -> _Part:
    """Units of tables, candidate and champion, by the measures of the study."""
    undirected = {e.name: direction_of(e.name, True) for e in study.excluded if e.undirected}
    return _Part(dataset, tables, study.directions, undirected=undirected)


def _of_folds(asked: GateRequest, study: Study) -> Shared:
    from mlflow_mleval.analysis.fold_protocol import recorded_protocol, runs_of, unpaired

    both = _of_both(study, asked)
    if study.folds is None:
        raise MissingResultsError("no run holds values by fold. Log them with folds.")
    if len(both) > 1:
        raise IncomparableRunsError(
            f"folds are those of one dataset, and there are {some(both)}. Choose one, or gate over "
            "datasets."
        )
    dataset = both[0]
    by_method = study.over("folds", dataset).tables
    tables = [by_method[side] for side in asked.sides if side in by_method]
    if len(tables) < 2 or len(tables[1]) < 2:
        raise MissingResultsError(f"not both sides have two folds on {dataset}.")
    runs = runs_of(study.runs, dataset, asked.sides)
    apart, doubts = unpaired(runs, asked.sides)
    if apart is not None and apart.any():
        raise IncomparableRunsError(f"the two sides split {dataset} differently.")
    kind, stated = asked.of_folds.get("protocol"), asked.of_folds.get("ratio")
    how, notes = recorded_protocol(runs, len(tables[1]), kind=kind, ratio=stated)
    slices: dict[str, pd.DataFrame] = {}
    if _LABEL in asked.slices:
        slices, of_labels = _label_slices(study, asked, dataset, tables[1].index)
        notes = [*notes, *of_labels]
    notes = [*_notes(study), *doubts, *notes]
    parts = [_table_part(study, dataset, tables)]
    return _pooled(asked, "folds", parts, study, notes, slices, how.headline_ratio)


def _label_slices(
    study: Study, asked: GateRequest, dataset: str, folds: pd.Index
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """By label the differences in each fold, and which labels are not judged."""
    from mlflow_mleval.store.study_artifacts import label_counts

    of_label = {_OF_LABEL[m]: m for m in sorted(study.directions, reverse=True) if m in _OF_LABEL}
    if not of_label:
        raise MeasureError(
            f"slices by label are of {some(_OF_LABEL)}, and the two sides share none of them."
        )
    candidate, champion = (label_counts(study, dataset, side) for side in asked.sides)
    if candidate is None or champion is None:
        raise MissingResultsError(
            "slices by label take counts by fold, and not both sides have them. Log the "
            "evaluations with folds."
        )
    names = [*of_label.values()]
    signs = [-1.0 if study.directions[m] == "min" else 1.0 for m in names]
    rates = []
    for counts in (candidate, champion):
        tp, fp, fn = (counts[cell] for cell in ("tp", "fp", "fn"))
        true = (tp + fn).where(tp + fn > 0)  # NaN where no instance of a fold has the label
        of_side = {
            "precision": (tp / (tp + fp)).fillna(0.0).where(true.notna()),
            "recall": tp / true,
            "f1": 2 * tp / (true + tp + fp),
            "hamming_loss": (fp + fn) / counts.sum(axis=1),
        }
        rates.append(pd.DataFrame(of_side).rename(columns=of_label)[names])
    differences = (rates[0] - rates[1]) * signs
    true = champion[["tp", "fn"]].sum(axis=1).groupby(level=0).sum()
    known = true.index.isin(candidate.index.get_level_values(0))
    judged = true.index[known & (true >= LEAST_UNITS)]
    notes = []
    if len(gone := true.index.difference(judged, sort=False)):
        notes.append(
            f"Labels with fewer than {LEAST_UNITS} true instances are not judged: {some(gone)}."
        )
    return {label: differences.loc[label].reindex(folds) for label in judged}, notes


def _of_repeated_runs(asked: GateRequest, study: Study) -> Shared:
    """Blocks of dataset and repeat, by seed where both have the same, else in order."""
    from mlflow_mleval.analysis.comparison import tests_of_repeats
    from mlflow_mleval.analysis.pairs import crossings

    if study.repeats is None:
        raise MissingResultsError("neither side has repeats. Log runs with other seeds.")
    both, notes, parts = _of_both(study, asked), [], []
    for dataset in both:
        tables = study.over("repeats", dataset).tables
        named = [side for side in asked.sides if side in tables]
        if len(named) < 2:
            raise MissingResultsError(f"only {some(named)} has repeats on {dataset}.")
        a, b = (tables[side] for side in asked.sides)
        if {*a.index} != {*b.index} or a.index.has_duplicates:
            least = min(len(a), len(b))
            notes.append(f"On {dataset} the seeds differ: {least} repeats are paired in order.")
            a, b = (each.head(least).reset_index(drop=True) for each in (a, b))
        parts.append(_table_part(study, dataset, (a, b)))
    tests = tests_of_repeats(study, [*study.measures], asked.alpha) if len(both) > 1 else {}
    found = [one for one in crossings(tests) if {*one[1]} == {*asked.sides}]
    shared = _pooled(asked, "repeats", parts, study, [*_notes(study), *notes])
    return replace(shared, crossings=found)


def _of_counts(asked: GateRequest, study: Study) -> Shared:
    """Answers of which only is known how many are right, paired so that as many as possible differ:
    no other pairing has a larger variance.
    """
    from mlflow_mleval.store import store

    both = _of_both(study, asked)
    with store.store_errors("read"):
        client = store.connect()
        last = study.runs.drop_duplicates("method", keep="last").set_index("method")["run_id"]
        told = [client.get_run(last[side]).data.metrics for side in asked.sides]
    tables = pd.DataFrame(), pd.DataFrame()
    for share, counted in _SHARES.items():
        n, other = (int(sum(metrics.get(name, 0) for name in counted)) for metrics in told)
        if share in study.measures and n == other and n:
            right = [round(metrics[share] * n) for metrics in told]
            place = pd.Series(range(n))
            tables[0][share] = (place < right[0]).astype(float)
            tables[1][share] = (place >= n - right[1]).astype(float)
    shares = [*tables[0]]
    if not shares or len(both) > 1:
        raise MissingResultsError("not both sides tell how many examples they were evaluated on.")
    notes = [
        *_notes(study),
        "Only counts are known, and which answers differ is not: as many as possible are taken to. "
        'Fewer do once both sides log their answers: evaluators=["default", "mleval"] in '
        "mlflow.models.evaluate, mleval.log_evaluation(..., log_instances=True), or "
        "mleval evaluate --log-instances.",
    ]
    without = ""
    if others := [m for m in study.measures if m not in shares]:
        without = f"Not judged, for no counts are known: {some(others)}."
        notes.append(without)
    ways, ranges = dict.fromkeys(shares, "max"), dict.fromkeys(shares, (0.0, 1.0))
    parts = [_Part(both[0], tables, ways, ranges=ranges)]
    return replace(_pooled(asked, "answers", parts, study, notes), without=without)


def _of_datasets(asked: GateRequest, study: Study) -> Shared:
    tables = study.over("datasets").tables
    named = [tables[side] for side in asked.sides if side in tables]
    parts = [_table_part(study, d, [table.reindex([d]) for table in named]) for d in named[1].index]
    return _pooled(asked, "datasets", parts, study, _notes(study))
