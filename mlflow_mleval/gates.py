"""May the candidate replace the champion? What both sides share in the store (answers, instances,
folds, repeats, datasets or counts) into a verdict: ship, block, or run more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.answer_comparison import Ranges, directed, is_scored, ranges_known
from mlflow_mleval.analysis.gate_tests import (
    LEAST_UNITS,
    Changed,
    Differences,
    Entry,
    GateTests,
    Stands,
    Terms,
    Verdict,
    gate_tests,
    ledger_level,
    needed_units,
)
from mlflow_mleval.errors import (
    IncomparableRunsError,
    MeasureError,
    MissingResultsError,
    NoRunsError,
    UndirectedError,
)
from mlflow_mleval.measures.metric_names import direction_of, proposed_direction, range_of
from mlflow_mleval.measures.registry import MEASURES, Direction, expand
from mlflow_mleval.selection import FLAGS, Choices, Selection
from mlflow_mleval.sentences import Argument, Message, agree, did_you_mean, some
from mlflow_mleval.store import schema
from mlflow_mleval.study import Study, Units, left_out
from mlflow_mleval.validation import AnyArray, Stated, by_name, of_kind, one_of, refuse_keywords

if TYPE_CHECKING:
    from mlflow_mleval.store.ledger import Ledger
    from mlflow_mleval.store.run_answers import SelectedAnswers

Over = Literal["auto", "answers", "instances", "folds", "repeats", "datasets"]
OVER: tuple[Over, ...] = get_args(Over)
#: What says how answers are read, and how folds were made.
_OF_ANSWERS, _OF_FOLDS = ("table", "instance_by", "grades"), ("protocol", "ratio")


def gate(
    candidate: str,
    champion: str,
    *,
    measures: Iterable[str] | None = None,
    margins: Stated = None,
    bounds: Stated = None,
    improve: Iterable[str] = (),
    over: Over = "auto",
    slices: Iterable[str] = (),
    cluster: str | None = None,
    alpha: float = 0.05,
    anytime: bool = False,
    ledger: str | None = None,
    ledger_error: Literal["fdr", "family"] = "fdr",
    promote: str | None = None,
    log: bool = False,
    n_resamples: int = 9_999,
    seed: int = 0,
    **selection: Any,
) -> Verdict:
    """Whether a candidate may replace a champion.

    BLOCK where some measure, or a slice of it, is worse by more than its margin; SHIP where every
    measure is not worse by its margin or more, and those to improve are better; RUN MORE where
    neither is shown yet, with the number of units that it takes, if known. Each of the first two is
    wrong with a chance of at most alpha.

    Parameters
    ----------
    candidate, champion : str
        Ids of runs, ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``; with a selection of
        experiments the names of two methods.
    measures : iterable of str, optional
        Measures or sets. Default: all that both have, of which a direction is known.
    margins : float or mapping of measure to float, optional
        The loss that does not matter. Default: .01 for measures between 0 and 1; others are
        reported without a verdict unless they are given one.
    bounds : float or mapping of measure to float, optional
        The largest difference between two answers or instances that counts; larger ones are cut.
        Default: what the range of the measure allows; without either it is not judged. One number
        is for all measures whose range is not known.
    improve : iterable of str
        Measures that must be better.
    over : {"auto", "answers", "instances", "folds", "repeats", "datasets"}
        What counts as a unit. Default: answers or instances where the runs hold them, else folds,
        repeats, datasets.
    slices : iterable of str
        Columns of the units, "dataset", or, over folds, "label": each of their values is a part
        that can block.
    cluster : str, optional
        The column that says which answers or instances belong together.
    alpha : float
        Level of both errors.
    anytime : bool
        Decide by bets, which may be looked at whenever units have been added. The candidate's run
        remembers the rows and margins of the first look, and the decision once there is one, which
        stands at every later look.
    ledger : str, optional
        Enter the gate into this ledger, which is made if there is none: it ships at the level that
        is left at its place, so that of all that is shipped on average at most alpha is wrong. All
        measures that decide must lie between bounds.
    ledger_error : {"fdr", "family"}
        What the ledger keeps: that share, or the chance of any wrong ship.
    promote : str, optional
        Move this alias of the registered model to the candidate, only on SHIP, and only if it still
        points at the champion that was judged.
    log : bool
        Store the verdict with the candidate's run.
    n_resamples, seed : int
        Random sign changes, and their seed.
    **selection
        As for `load_study`: experiment_names, minimize, maximize …; table, instance_by, grades of
        answers; and protocol, ratio of folds.

    Returns
    -------
    Verdict
        .decision, .ship, .block, .more, .text, .table, .needed, .to_dict(), .to_markdown(),
        .to_html(). Its repr is the whole verdict: ``assert gate(...).ship`` says why it failed.

    Raises
    ------
    NoRunsError, IncomparableRunsError, MeasureError, StoreError
        As `load_study` does; none of them is a verdict.
    ValueError
        Arguments that do not fit.
    """
    from mlflow_mleval.store import store

    one_of(over, "over", OVER)
    one_of(ledger_error, "ledger_error", ("fdr", "family"))
    refuse_keywords(gate, selection, (*FLAGS, *_OF_ANSWERS, *_OF_FOLDS))
    of_answers = {key: selection.pop(key) for key in _OF_ANSWERS if key in selection}
    of_folds = {key: selection.pop(key) for key in _OF_FOLDS if key in selection}
    for name, one in (("candidate", candidate), ("champion", champion)):
        of_kind(one, name, str, "the id of a run, a model or the name of a method")
    names = shown(candidate), shown(champion)
    candidate, champion = store.pinned(candidate, champion)
    asked = GateRequest(
        (candidate, champion),
        Selection(**selection),
        [*expand(measures)] if measures is not None else None,
        [*slices],
        cluster,
        of_answers,
        of_folds,
    )
    move = None if promote is None else promotion(candidate, champion, promote)
    shared = asked.read(over).bounded(bounds)
    must = tuple(shared.named(dict.fromkeys(improve), "improve"))
    terms = Terms(shared.margins(margins), must, alpha, anytime, n_resamples, seed)
    looks = entered = None
    if anytime:
        looks, shared, terms = _Looks.of(shared, terms, champion)
    tests = gate_tests(shared.units, terms)
    if ledger is not None:
        entered, tests = _Entered.of(ledger, ledger_error, tests, shared)
    if shared.changed:
        tests = replace(tests, decision="run more")
    stands = None if looks is None or shared.changed else looks.decide(tests)
    if stands is not None:
        tests = replace(tests, decision=stands.decision)
    verdict = Verdict(
        candidate=names[0],
        champion=names[1],
        tests=tests,
        over=shared.over,
        directions=shared.directions,
        criteria=_criteria(shared, alpha),
        entry=None if entered is None else entered.entry,
        changed=shared.changed,
        stands=stands,
        notes=shared.notes,
        runs=shared.runs,
        source=shared.source,
    )
    if entered is not None:
        entered.write(verdict)
    if log:
        log_verdict(verdict)
    if move is not None and verdict.ship:
        verdict = replace(verdict, notes=(*verdict.notes, move()))
    return verdict


@dataclass(frozen=True)
class _Looks:
    """What the candidate's run remembers: rows and margins of the first look, and the decision."""

    run_id: str
    champion: str
    first: Mapping[str, Any]

    @classmethod
    def of(cls, shared: Shared, terms: Terms, champion: str) -> tuple[_Looks, Shared, Terms]:
        """Those of these two sides, of which this one is the first where there were none; the units
        and terms with the rows of the first, and a note on what is new."""
        from mlflow_mleval.store.ledger import looks_of, now

        run_id = next(iter(shared.runs["candidate"]))
        asked: dict[str, Any] = {
            "over": shared.over,
            "alpha": terms.alpha,
            "improve": sorted(terms.improve),
            "margins": dict(terms.margins),
        }
        # names as a run remembers them: tags are short, and their keys are of few characters
        champion, slices = schema.sha256_of(champion)[:10], shared.units.slices
        digests = {name: schema.sha256_of(name)[:10] for name in slices}
        if (first := looks_of(run_id, champion)) is None:
            first = asked | {"slices": [*digests.values()], "time": now(), "decided": None}
        asked["margins"] = dict(asked["margins"].items() & first["margins"].items())
        if different := [name for name, value in asked.items() if first[name] != value]:
            raise ValueError(
                f"`{different[0]}` must be what it was at the first look ({first['time']}), "
                f"{first[different[0]]}, got {asked[different[0]]}. Ask as then, or judge another "
                "run."
            )
        added = [name for name in slices if digests[name] not in first["slices"]]
        new = [*(m for m in terms.margins if m not in first["margins"]), *added]
        units = replace(shared.units, slices={n: slices[n] for n in slices if n not in added})
        told = [f"New since the first look, and not judged: {some(new)}."] if new else []
        shared = replace(shared, units=units, notes=(*shared.notes, *told))
        return cls(run_id, champion, first), shared, replace(terms, margins=first["margins"])

    def decide(self, tests: GateTests) -> Stands | None:
        """What was decided at an earlier look and stands; a decision of this look is kept."""
        from mlflow_mleval.store.ledger import now, remember_looks

        if self.first["decided"] is not None:
            decision, time, units = self.first["decided"]
            return Stands(decision, time, units, tests.decision)
        decided = [tests.decision, now(), tests.units] if tests.decision != "run more" else None
        remember_looks(self.run_id, self.champion, {**self.first, "decided": decided})
        return None


@dataclass(frozen=True)
class _Entered:
    """A place in a ledger that has been taken."""

    entry: Entry
    book: Ledger
    digest: str  #: what tells the units from others

    @classmethod
    def of(
        cls, name: str, error: str, tests: GateTests, shared: Shared
    ) -> tuple[_Entered, GateTests]:
        """The next place, where gates before it that have entered nothing count as none that
        shipped; and the tests at its level, with how many units more it takes at the place after.
        """
        from mlflow_mleval.store.ledger import Ledger

        terms = tests.terms
        endless = [m for m in terms.margins if m not in shared.units.bounds]
        if shared.units.means and endless:
            raise ValueError(
                f"`ledger` must go with measures between bounds, got {some(endless)}: of others "
                "there is no evidence. Leave them out."
            )
        book = Ledger.open(name, alpha=terms.alpha, error=error)
        number = book.claim()
        before = book.gates()[: number - 1]
        ships = sum(gate.shipped for gate in before)
        text = "\0".join([shared.over, *map(str, shared.units.differences.index)])
        digest = schema.sha256_of(text)[:16]
        asked = sum(gate.values["units"] == digest for gate in before if gate.values is not None)
        silent = some(gate.number for gate in before if gate.values is None)
        level, after = (ledger_level(terms.alpha, n, ships, error) for n in (number, number + 1))
        place = Entry(name, number, level, ships, asked, error, silent)
        if tests.decision != "block" and tests.evidence >= place.required:
            tests = replace(tests, decision="ship")
        elif tests.decision != "block":
            needed = needed_units(shared.units, terms, 1 / after)
            tests = replace(tests, decision="run more", needed=needed)
        return cls(place, book, digest), tests

    def write(self, verdict: Verdict) -> None:
        """Enter the verdict."""
        entry = self.entry
        about = ("decision", "candidate", "champion", "over")
        values = {name: getattr(verdict, name) for name in about}
        values |= {"units": self.digest, "asked": entry.asked, "level": entry.level}
        self.book.write(entry.number, values | {"evidence": min(verdict.tests.evidence, 1e300)})


#: What stands in a history of a gate that entered nothing.
_SILENT: dict[str, Any] = {
    **{"candidate": "", "champion": "", "evidence": np.nan, "level": np.nan},
    **{"decision": "no entry", "asked": 0, "time": ""},
}


def history(ledger: str) -> pd.DataFrame:
    """A row a gate; the decision of one that took its number only is "no entry"."""
    from mlflow_mleval.store.ledger import Ledger

    gates = Ledger.open(ledger).gates()
    rows = [{"number": gate.number, **(gate.values or _SILENT)} for gate in gates]
    return pd.DataFrame(rows, columns=["number", *_SILENT])


def promotion(candidate: str, champion: str, alias: str) -> Callable[[], str]:
    """What moves the alias from the version judged to the candidate, both named as `store.pinned`
    does; see `mlflow_mleval.store.ledger.promote`."""
    from mlflow_mleval.store import ledger, store

    client = store.connect()
    new, judged = (store.version_of(client, name) for name in (candidate, champion))
    if new is None or judged is None or new.name != judged.name:
        raise ValueError(
            "`promote` must go with versions of one registered model, got "
            f"{candidate!r} and {champion!r}. Name both as models:/NAME/VERSION or "
            "models:/NAME@ALIAS."
        )
    return partial(ledger.promote, new.name, alias, str(new.version), str(judged.version))


def log_verdict(verdict: Verdict) -> str:
    """Store a verdict with the candidate's run, the last of them; returns its id."""
    from mlflow_mleval.store.ledger import log_gate

    made, run_id = verdict.report(), verdict.runs["candidate"][-1]
    files = {path: made.render(format) for format, path in schema.ARTIFACTS_GATE.items()}
    log_gate(run_id, files, verdict.decision)
    return run_id


# --------------------------------------------------------------------------------------------------
# MLflow's quality criteria: thresholds of means, answered with their intervals.

_CRITERIA = "mlflow.genaiEvaluate.qualityCriteria"
_CRITERION = re.compile(r"\s*([\w./-]+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*")


def _criteria(shared: Shared, alpha: float) -> pd.DataFrame:
    """One row a criterion of the candidate's run; low and high are each at 1 - alpha."""
    from mlflow_mleval.store import store

    client = store.connect()
    run = client.get_run([*shared.runs["candidate"]][-1])
    texts = re.split(r"\s+AND\s+", run.data.tags.get(_CRITERIA, ""), flags=re.IGNORECASE)
    rows = []
    for text in filter(None, map(str.strip, texts)):
        row = {"criterion": text, "value": np.nan, "low": np.nan, "high": np.nan}
        rows.append(row)
        if (parts := _CRITERION.fullmatch(text)) is None:
            row["answer"] = "not understood"
            continue
        measure = parts[1].removesuffix("/mean")
        if measure not in shared.directions or shared.values[measure].isna().all():
            row["answer"] = "no values here"
            continue
        threshold, falls = float(parts[3]), parts[2].startswith("<")
        ends = shared.ranges[measure]
        known = bool(np.isfinite(ends).all())
        # what the candidate lacks counts as its worst
        lost = ends[falls] if known else np.nan
        values = shared.values[[measure]].where(shared.units.worst[[measure]].isna(), lost)
        middle = sum(ends) / 2 if known else 0.0
        about: dict[str, Any] = {
            "slices": {},
            "bounds": {measure: (ends[1] - ends[0]) / 2} if known else {},
        }
        units = replace(shared.units, differences=values - middle, worst=pd.DataFrame(), **about)
        found = gate_tests(units, Terms({measure: 0.0}, alpha=alpha)).table.iloc[0]
        value, low, high = found[["difference", "low", "high"]] + middle
        met = high <= threshold if falls else low >= threshold
        missed = low > threshold if falls else high < threshold
        answer = "met" if met else "missed" if missed else "not yet known"
        row |= {"value": value, "low": low, "high": high, "answer": answer}
    return pd.DataFrame(rows)


# --------------------------------------------------------------------------------------------------
# What the two sides share.

MARGIN = 0.01  #: the loss that does not matter, of measures between 0 and 1 of which none is stated
#: Fewer datasets than this cannot decide; then repeats count, where there are any.
_LEAST_DATASETS = 5
_MOST_PARTS = 200  #: values of a column whose units are parts
#: What readers of answers tell beside the columns of a run.
_OF_READERS = ["link", "asked", "output", "address"]
#: Fewer values of a column are kinds of questions, not groups that change together; and the share
#: of its values that are those of several questions.
_LEAST_GROUPS, _MOSTLY = 5, 0.9
_ROUNDING = 1e-6  #: how far a value may lie outside of its measure's range by rounding
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
    return f"run {named[:8]}" if schema.HEX_ID.fullmatch(named) else named.removeprefix("models:/")


@dataclass(frozen=True)
class Shared:
    """The units that two sides share, and what is known of them."""

    units: Differences
    over: str
    directions: Mapping[str, str]
    #: Between which values each measure lies; those between 0 and 1 have a margin.
    ranges: Ranges
    runs: Mapping[str, Sequence[str]]
    values: pd.DataFrame  #: those of the candidate, by unit and measure
    notes: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    #: Where the mean of a run's units is not the metric that was logged with them.
    changed: tuple[Changed, ...] = ()
    #: Measures of both sides of which nobody knows which way is better, and what is proposed.
    undirected: Mapping[str, Direction | None] = field(default_factory=dict)

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
            text = (
                f"Not judged: {some(endless)} {agree(len(endless), 'has')} no bound, and a single "
            )
            text += "answer may be worse than all that were seen; "
            one = Argument("bounds", (f"{endless[0]}={largest:g}",))
            notes.append(Message(text, one, " gives it one."))
        cut, worst = (table.clip(-ends, ends, axis=1) for table in (given, units.worst))
        units = replace(units, differences=cut, worst=worst, bounds=bounds)
        return replace(self, units=units, notes=tuple(notes))

    def named(self, stated: Mapping[str, Any], name: str) -> dict[str, Any]:
        """What was stated; f1 stands for f1_score where no other measure has that word."""
        found, wrong = {}, []
        words = {m: {*re.findall("[a-z0-9]+", m.lower())} for m in (*self.directions, *stated)}
        for given, value in stated.items():
            like = [m for m in self.directions if words[given] <= words[m]]
            own = given if given in self.directions else like[0] if len(like) == 1 else None
            wrong += [given] if own is None else []
            found[own or given] = value
        if unknown := [given for given in wrong if given in self.undirected]:
            suggested = {m: way for m in unknown if (way := self.undirected[m])}
            text = f"no direction is known for {some(unknown)}."
            raise UndirectedError(text, UndirectedError.ways_for(unknown, suggested, every=True))
        if wrong:
            raise ValueError(
                f"`{name}` must name measures that both sides have, got {some(wrong)}. They have "
                f"{some(self.directions)}.{did_you_mean(wrong, self.directions)}"
            )
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
                "have one by default. State what loss does not matter: "
            )
            one = Argument("margins", (f"{next(iter(self.directions))}=NUMBER",))
            raise MeasureError(Message(text, one, "."))
        return margins


@dataclass(frozen=True)
class GateRequest:
    """Which two sides are compared, on what."""

    sides: tuple[str, str]  #: candidate and champion
    selection: Selection
    measures: Sequence[str] | None
    slices: Sequence[str]
    cluster: str | None
    of_answers: Choices
    of_folds: Choices

    def read(self, over: str) -> Shared:
        """The units, of the kind that is asked for or the first that the runs hold."""
        from mlflow_mleval.store.runs_table import remembered

        with remembered():
            asked = self._resolved()
            if over in ("auto", "answers") and (answers := asked._answers()) is not None:
                return answers
            if over == "answers":
                raise MissingResultsError("none of the runs holds answers.")
            return _of_study(asked, over)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that make slices and clusters, by what they are for."""
        named = {name: name for name in self.slices if name != _DATASET}
        return named | ({_CLUSTER: self.cluster} if self.cluster else {})

    def _resolved(self) -> GateRequest:
        """The same with the two sides as methods of the selection."""
        from mlflow_mleval.store import store
        from mlflow_mleval.store.repeats import everywhere

        chosen, sides = self.selection, list(self.sides)
        read: dict[str, Any] = {"methods": sides}
        if not (chosen.experiment_names or chosen.experiment_ids or chosen.filter_string):
            client, places = store.connect(), []
            sides = [store.run_of(client, each) for each in self.sides]
            read = {"run_ids": sides, "method_by": ("run_id",)}
            if not any(map(schema.HEX_ID.fullmatch, sides)):
                # methods of the only experiment with runs of these names, if there is one
                every = everywhere(client, Selection()).experiment_ids
                for name in sides if every and "'" not in "".join(sides) else ():
                    runs = store.search(client, every, f"run_name = '{name}'")
                    places.append({run.info.experiment_id for run in runs})
                if not places or len(place := set.intersection(*places)) != 1:
                    if files := [each for each in sides if Path(each).is_file()]:
                        text = f"a gate compares runs, got files ({some(files)}). Log what they "
                        text += "hold with mleval evaluate or mleval import, and name the runs."
                        raise NoRunsError(text)
                    text = f"no run is called {' or '.join(sides)}. Methods take their "
                    raise NoRunsError(Message(f"{text}experiments, too: ", store.EXPERIMENTS, "."))
                sides, read = [*self.sides], {"experiment_ids": [*place], "methods": self.sides}
        if sides[0] == sides[1]:
            text = "`candidate` and `champion` must be different runs or methods"
            raise ValueError(f"{text}, got {sides[0]} for both.")
        selection = replace(chosen, **read)
        return replace(self, sides=(sides[0], sides[1]), selection=selection)

    def _answers(self) -> Shared | None:
        from mlflow_mleval.store.run_answers import load_answers

        try:
            found = load_answers(
                self.selection, **self.of_answers, measures=self.measures, asked_of=self.sides[1]
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
                f"{' and '.join(self.sides)} share no answers: they are on {some(found.found)}."
            )
        return replace(self._judged(both, found), changed=found.changed)

    def _judged(self, both: Mapping[str, Units], found: SelectedAnswers) -> Shared:
        """The units of answers on the datasets that both sides have."""
        grades = self.of_answers.get("grades") or {}
        ranges = [ranges_known(one, grades) for one in both.values()]
        notes, undirected, ways = list[str](), dict[str, Direction | None](), []
        tables = {}
        for (dataset, one), known in zip(both.items(), ranges, strict=True):
            tables[dataset] = [one.tables[side] for side in self.sides]
            # of these only 0 and 1 were seen
            binary = [m for m in known if m not in {*one.passing, *grades}]
            directions, unknown, told = _answer_directions(self.selection, one, binary)
            ways.append(directions)
            undirected |= unknown
            notes += told
            # the first two columns by whose values questions may belong together
            about = one.answers[self.sides[1]].about
            about = about[~about.index.duplicated()].drop(columns=[*self.slices], errors="ignore")
            columns = [] if self.cluster else about.columns.difference(_OF_READERS, sort=False)
            sizes = ((column, about.groupby(column).size()) for column in columns)
            many = (c for c, n in sizes if len(n) >= _LEAST_GROUPS and (n > 1).mean() >= _MOSTLY)
            for column in islice(many, 2):
                text = (
                    f"Several questions share each {column}. If their answers tend to be right or "
                    "wrong together, the verdict is too sure of itself; say so: "
                )
                notes.append(Message(text, Argument("cluster", (column,)), "."))
        return _pooled(
            self,
            "answers",
            tables,
            found,
            [*notes, *found.notes],
            _agreed(ways, both.values()),
            undirected=undirected,
            ranges=_agreed(ranges, both.values()),
            columns={k: [one.column(c) for one in both.values()] for k, c in self.columns.items()},
        )


def _agreed(told: Iterable[Mapping[str, Any]], answers: Iterable[Units]) -> dict[str, Any]:
    """What is told of measures of which every dataset that has them tells it."""
    has = [(own, one.measures) for own, one in zip(told, answers, strict=True)]
    return {
        m: value
        for own, _ in has
        for m, value in own.items()
        if all(m in other for other, measures in has if m in measures)
    }


_NOTHING: Mapping[str, Any] = {}


def _pooled(
    asked: GateRequest,
    over: str,
    tables: Mapping[str, Sequence[pd.DataFrame]],
    of: Study | SelectedAnswers,
    notes: Iterable[str],
    directions: Mapping[str, Direction],
    *,
    undirected: Mapping[str, Direction | None] = _NOTHING,
    ranges: Mapping[str, tuple[float, float]] = _NOTHING,
    columns: Mapping[str, Sequence[pd.Series]] = _NOTHING,
    slices: Mapping[str, pd.DataFrame] = _NOTHING,
    ratio: float | None = None,
) -> Shared:
    """The units of all datasets together: the rows that the champion has, and what the candidate
    lacks of them is lost. `ranges` are of measures not known by their names."""
    candidate, champion = (
        pd.concat({d: pair[k].reindex(columns=[*directions]) for d, pair in tables.items()})
        for k in (0, 1)
    )
    candidate, (new, judged) = candidate.reindex(champion.index), asked.sides
    ends = {}
    for measure in directions:
        sides = {new: candidate[measure], judged: champion[measure]}
        known = ranges.get(measure)
        low, high = ends[measure] = known or range_of(measure, pd.concat(sides).dropna())
        for side, there in sides.items():
            if len(beyond := there[(there < low - _ROUNDING) | (there > high + _ROUNDING)]):
                raise IncomparableRunsError(
                    f"{shown(side)} has {measure} of {beyond.iloc[0]:g}, and no value lies outside "
                    f"of [{low:g}, {high:g}]: it cannot be judged. Log {measure} on its own scale, "
                    "or choose other measures."
                )
    falls = np.array([way == "min" for way in directions.values()])
    signs = np.where(falls, -1.0, 1.0)
    low, high = np.array([*ends.values()]).T
    lost = candidate.isna() & champion.notna()
    told = {name: pd.concat(parts).to_numpy(object) for name, parts in columns.items()}
    told[_DATASET] = champion.index.get_level_values(0).to_numpy(object)
    units = Differences(
        (candidate - champion) * signs,
        slices={**_slices(asked, over, told), **slices},
        clusters=told.get(_CLUSTER),
        worst=((np.where(falls, high, low) - champion) * signs).where(lost),
        bounds={m: high - low for m, (low, high) in ends.items() if np.isfinite(high - low)},
        means=over not in ("answers", "instances"),
        ratio=ratio,
    )
    notes, has = [*notes], champion.notna().groupby(level=0, sort=False).any()
    for measure in has.columns[has.any() & ~has.all()]:
        alone = some(has.index[has[measure]])
        notes.append(f"{measure} is judged on {alone} alone: the champion has none elsewhere.")
    runs = of.runs.groupby("method")["run_id"].agg(list).to_dict()
    return Shared(
        units,
        over,
        directions,
        ends,
        {"candidate": runs[new], "champion": runs[judged]},
        candidate,
        tuple(dict.fromkeys(notes)),
        of.source,
        undirected=undirected,
    )


#: The column that says which units belong together, among those that make slices.
_CLUSTER = "\0cluster"


def _slices(asked: GateRequest, over: str, columns: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Each value of each column asked for as a part, named with the column if there are several."""
    # folds are those of one dataset, which is no part of them
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


def _answer_directions(
    chosen: Selection, answers: Units, binary: Sequence[str]
) -> tuple[dict[str, Direction], dict[str, Direction | None], list[str]]:
    """Directions, known and proposed, and notes; of `binary` measures only 0 and 1 were seen."""
    scored = {m for m in answers.measures if is_scored(answers, m)}
    passing = [m for m in binary if m in scored and proposed_direction(m) != "min"]
    directed_ones, directions, _ = directed(
        replace(answers, passing=[*answers.passing, *passing]),
        chosen.minimize,
        chosen.maximize,
        ways=chosen.directions,
    )
    undirected = {
        m: direction_of(m, True) or ("max" if m in scored else None)
        for m in answers.measures
        if m not in directions
    }
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
        "datasets": _of_means,
    }
    if over != "auto":
        return readers[over](asked, _study(asked, over))
    study = _study(asked, "instances")
    several = len(study.datasets) > 1
    may_decide = {
        "folds": study.folds is not None and not several,
        "repeats": study.repeats is not None and len(study.datasets) < _LEAST_DATASETS,
        "counts": not several and bool({*_SHARES} & {*study.measures}),
    }
    skipped = []
    named = asked.cluster or {*asked.slices} - {_DATASET, _LABEL}  # columns of single answers
    for kind in (kind for kind in readers if may_decide.get(kind, True)):
        study = _study(asked, kind)
        try:
            shared = readers[kind](asked, study)
            break
        except (MissingResultsError, MeasureError, IncomparableRunsError) as error:
            passes = isinstance(error, MissingResultsError | MeasureError)
            each_its_data = kind == "instances" and study.repeats is not None
            if kind == "datasets" or named or not (passes or each_its_data):
                raise
            skipped.append(f"Not over {kind}: {error}")
    return replace(shared, notes=(*shared.notes, *skipped))


def _study(asked: GateRequest, over: str) -> Study:
    """The study of both sides; instances may have measures that no run has as a whole."""
    from mlflow_mleval.store.query import selected_study

    wanted = None
    if over != "instances":
        wanted = asked.measures
        if asked.cluster:
            raise ValueError(
                f"`cluster` must go with answers or instances, got {asked.cluster!r} over {over}."
            )
        parts = {_DATASET, _LABEL} if over == "folds" else {_DATASET}
        if unknown := {*asked.slices} - parts:
            raise ValueError(
                f"`slices` over {over} must be among {some(sorted(parts))}, got "
                f"{some(sorted(unknown))}. Columns are those of answers and instances, labels "
                "those of folds."
            )
    study = selected_study(replace(asked.selection, measures=wanted, missing="drop-datasets"))
    for side in asked.sides:
        if side not in study.methods:
            raise NoRunsError(
                f"there is no {side!r} among the methods {some(study.methods)}. Name one of them."
            )
    return study


def _of_both(study: Study, asked: GateRequest) -> list[str]:
    """The datasets on which both sides have a result."""
    cells = {*study.values.index}
    both = [d for d in study.datasets if {(d, side) for side in asked.sides} <= cells]
    if not both:
        raise IncomparableRunsError(
            f"{' and '.join(map(shown, asked.sides))} share no dataset: there are "
            f"{some(study.datasets)}."
        )
    return both


def _notes(study: Study) -> list[str]:
    """What to tell of a study."""
    gone = left_out(e for e in study.excluded if e.kind not in ("measure", "unasked"))
    return [*study.notes, *gone]


def _of_means(
    asked: GateRequest,
    study: Study,
    over: str = "datasets",
    tables: Mapping[str, Sequence[pd.DataFrame]] | None = None,
    notes: Iterable[str] = (),
    **of_folds: Any,
) -> Shared:
    """Units that are means of many answers: the datasets of the study, if no others are given."""
    if tables is None:
        results = study.over("datasets").tables
        candidate, champion = (results[side] for side in asked.sides)
        tables = {d: [candidate.reindex([d]), champion.loc[[d]]] for d in champion.index}
    undirected = {e.name: direction_of(e.name, True) for e in study.excluded if e.undirected}
    told, ways = [*_notes(study), *notes], study.directions
    return _pooled(asked, over, tables, study, told, ways, undirected=undirected, **of_folds)


def _of_instances(asked: GateRequest, study: Study) -> Shared:
    from mlflow_mleval.store.study_artifacts import changed_means, instances_of

    wanted = None if asked.measures is None else [*asked.measures]
    tables, ways, notes, changed = {}, list[dict[str, Direction]](), list[str](), list[Changed]()
    columns: dict[str, list[pd.Series]] = {name: [] for name in asked.columns}
    for dataset in _of_both(study, asked):
        with instances_of(study, dataset, wanted) as instances:
            if lacking := {*asked.sides} - {*instances.tables}:
                raise MissingResultsError(
                    f"{some(sorted(lacking))} has no values by instance on {dataset}. Log them."
                )
            directions = {
                m: study.directions.get(m) or MEASURES[m].direction for m in instances.measures
            }
            ways.append(directions)
            tables[dataset] = [
                pd.DataFrame({m: instances.tables[side](m) for m in directions})
                for side in asked.sides
            ]
            weights = instances.column(schema.INSTANCE_WEIGHT) if instances.weighted else None
            for side, values in zip(asked.sides, tables[dataset], strict=True):
                logged = study.values.loc[(dataset, side)]
                changed += changed_means(shown(side), values, logged, weights)
            for name, column in asked.columns.items():
                columns[name].append(instances.column(column).reindex(tables[dataset][1].index))
            notes += instances.notes
    told = [*notes, *_notes(study)]
    directions = {m: way for own in ways for m, way in own.items()}
    shared = _pooled(asked, "instances", tables, study, told, directions, columns=columns)
    return replace(shared, changed=tuple(changed))


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
    how, notes = recorded_protocol(runs, len(tables[1]), asked.of_folds)
    slices, of_labels = dict[str, pd.DataFrame](), list[str]()
    if _LABEL in asked.slices:
        slices, of_labels = _label_slices(study, asked, dataset, tables[1].index)
    notes = [*doubts, *notes, *of_labels]
    more = {"slices": slices, "ratio": how.headline_ratio}
    return _of_means(asked, study, "folds", {dataset: tables}, notes, **more)


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
    if study.repeats is None:
        raise MissingResultsError("neither side has repeats. Log runs with other seeds.")
    both, notes, paired = _of_both(study, asked), [], {}
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
        paired[dataset] = a, b
    return _of_means(asked, study, "repeats", paired, notes)


def _of_counts(asked: GateRequest, study: Study) -> Shared:
    """Answers of which only is known how many are right, paired so that as many as possible differ:
    no other pairing has a larger variance."""
    from mlflow_mleval.analysis.fold_protocol import runs_of
    from mlflow_mleval.store import store

    both = _of_both(study, asked)
    client, runs = store.connect(), runs_of(study.runs, both[0], asked.sides)["run_id"]
    told = [client.get_run(runs[side]).data.metrics for side in asked.sides]
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
    others = [m for m in study.measures if m not in shares]
    notes = [
        *_notes(study),
        "Only counts are known, and which answers differ is not: as many as possible are taken to. "
        'Fewer do once both sides log their answers: evaluators=["default", "mleval"] in '
        "mlflow.models.evaluate, mleval.log_evaluation(..., log_instances=True), or "
        "mleval evaluate --log-instances.",
    ]
    if others:
        notes.append(f"Not judged, for no counts are known: {some(others)}.")
    ways: dict[str, Direction] = dict.fromkeys(shares, "max")
    ranges = dict.fromkeys(shares, (0.0, 1.0))
    return _pooled(asked, "answers", {both[0]: tables}, study, notes, ways, ranges=ranges)
