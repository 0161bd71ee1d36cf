"""May the candidate replace the champion? Runs of the store into a verdict: ship, block, or run
more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.gate_tests import (
    Entry,
    GateTests,
    Stands,
    Terms,
    Verdict,
    gate_tests,
    ledger_level,
    needed_units,
)
from mlflow_mleval.gate_units import GateRequest, Shared, shown
from mlflow_mleval.measures.registry import expand
from mlflow_mleval.selection import FLAGS, Selection
from mlflow_mleval.sentences import some
from mlflow_mleval.validation import Stated, of_kind, one_of, refuse_keywords

if TYPE_CHECKING:
    from mlflow_mleval.store.ledger import Ledger

Over = Literal["auto", "answers", "instances", "folds", "repeats", "datasets"]
OVER = ("auto", "answers", "instances", "folds", "repeats", "datasets")


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
        is left at its place, so that of all that is shipped on average at most alpha is wrong.
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
    one_of(over, "over", OVER)
    one_of(ledger_error, "ledger_error", ("fdr", "family"))
    refuse_keywords(gate, selection, (*FLAGS, *_OF_ANSWERS, *_OF_FOLDS))
    of_answers = {key: selection.pop(key) for key in _OF_ANSWERS if key in selection}
    of_folds = {key: selection.pop(key) for key in _OF_FOLDS if key in selection}
    for name, one in (("candidate", candidate), ("champion", champion)):
        of_kind(one, name, str, "the id of a run, a model or the name of a method")
    names = shown(candidate), shown(champion)
    candidate, champion = pinned(candidate, champion)
    asked = GateRequest(
        candidate,
        champion,
        Selection(**selection),
        [*expand(measures)] if measures is not None else None,
        [*slices],
        cluster,
        of_answers,
        of_folds,
        alpha,
    )
    move = None if promote is None else Promotion.of(candidate, champion, promote)
    shared = asked.read(over).bounded(bounds)
    terms = Terms(
        margins=shared.margins(margins),
        improve=tuple(shared.named(dict.fromkeys(improve), "improve")),
        alpha=alpha,
        anytime=anytime,
        n_resamples=n_resamples,
        seed=seed,
    )
    looks = _Looks.of(shared, terms, champion) if anytime else None
    if looks is not None:
        shared, terms = looks.fixed(shared, terms)
    tests, entered = gate_tests(shared.units, terms), None
    if ledger is not None:
        entered = _Entered.of(ledger, ledger_error, alpha, shared.digest)
        tests = entered.judged(tests, shared)
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
        crossings=shared.crossings,
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
        verdict = replace(verdict, notes=(*verdict.notes, move.make()))
    return verdict


@dataclass(frozen=True)
class _Looks:
    """What the candidate's run remembers of earlier looks: the rows and margins of the first, and
    what was decided.
    """

    run_id: str
    champion: str
    first: Mapping[str, Any]

    @classmethod
    def of(cls, shared: Shared, terms: Terms, champion: str) -> _Looks:
        """Those of these two sides; this look is the first where there were none."""
        from mlflow_mleval.store.ledger import looks_of, now

        run_id = next(iter(shared.runs["candidate"]))
        asked: dict[str, Any] = {
            "over": shared.over,
            "alpha": terms.alpha,
            "improve": sorted(terms.improve),
            "margins": dict(terms.margins),
        }
        champion = _short_digest(champion)
        if (first := looks_of(run_id, champion)) is None:
            slices = [_short_digest(name) for name in shared.units.slices]
            return cls(run_id, champion, asked | {"slices": slices, "time": now(), "decided": None})
        known = asked["margins"].items() & first["margins"].items()
        asked["margins"] = dict(known)
        if different := [name for name, value in asked.items() if first[name] != value]:
            raise ValueError(
                f"`{different[0]}` must be what it was at the first look ({first['time']}), "
                f"{first[different[0]]}, got {asked[different[0]]}. Ask as then, or judge another "
                "run."
            )
        return cls(run_id, champion, first)

    def fixed(self, shared: Shared, terms: Terms) -> tuple[Shared, Terms]:
        """The units and terms with the rows of the first look, and a note on what is new."""
        slices = {
            name: part
            for name, part in shared.units.slices.items()
            if _short_digest(name) in self.first["slices"]
        }
        new = [*(m for m in terms.margins if m not in self.first["margins"])]
        new += [name for name in shared.units.slices if name not in slices]
        notes = [*shared.notes]
        if new:
            notes.append(f"New since the first look, and not judged: {some(new)}.")
        units = replace(shared.units, slices=slices)
        terms = replace(terms, margins=self.first["margins"])
        return replace(shared, units=units, notes=tuple(notes)), terms

    def decide(self, tests: GateTests) -> Stands | None:
        """What was decided at an earlier look and stands; a decision of this look is kept."""
        from mlflow_mleval.store.ledger import now, remember_looks

        if self.first["decided"] is not None:
            decision, time, units = self.first["decided"]
            return Stands(decision, time, units, tests.decision)
        decided = [tests.decision, now(), tests.units] if tests.decision != "run more" else None
        remember_looks(self.run_id, self.champion, {**self.first, "decided": decided})
        return None


def _short_digest(name: str) -> str:
    """A name as a run remembers it: tags are short, and their keys are of few characters."""
    return hashlib.sha256(name.encode()).hexdigest()[:10]


@dataclass(frozen=True)
class _Entered:
    """A place in a ledger that has been taken."""

    entry: Entry
    book: Ledger
    digest: str

    @classmethod
    def of(cls, name: str, error: str, alpha: float, digest: str) -> _Entered:
        """The next place; gates before it that have entered nothing count as none that shipped."""
        from mlflow_mleval.store.ledger import Ledger

        book = Ledger.open(name, alpha=alpha, error=error)
        number = book.claim()
        before = book.gates()[: number - 1]
        ships = sum(gate.shipped for gate in before)
        entered = [gate.values for gate in before if gate.values is not None]
        asked = sum(values["units"] == digest for values in entered)
        silent = some(gate.number for gate in before if gate.values is None)
        level = ledger_level(alpha, number, ships, error)
        return cls(Entry(name, number, level, ships, asked, error, silent), book, digest)

    def judged(self, tests: GateTests, shared: Shared) -> GateTests:
        """The tests at the level of this place; how many units more it takes at the next."""
        place, terms = self.entry, tests.terms
        if tests.decision == "block":
            return tests
        if tests.evidence >= place.required:
            return replace(tests, decision="ship")
        level = ledger_level(terms.alpha, place.number + 1, place.ships, place.error)
        needed = needed_units(shared.units, terms, 1 / level)
        return replace(tests, decision="run more", needed=needed)

    def write(self, verdict: Verdict) -> None:
        """Enter the verdict."""
        entry = self.entry
        values = {name: getattr(verdict, name) for name in ("decision", "candidate", "champion")}
        about = {"units": self.digest, "asked": entry.asked, "level": entry.level}
        evidence = min(verdict.tests.evidence, 1e300)
        self.book.write(
            entry.number, {**values, **about, "evidence": evidence, "over": verdict.over}
        )


#: What stands in a history of a gate that entered nothing.
_SILENT: dict[str, Any] = {
    **{"candidate": "", "champion": "", "evidence": np.nan, "level": np.nan},
    **{"decision": "no entry", "asked": 0, "time": ""},
}


def history(ledger: str) -> pd.DataFrame:
    """A row a gate: number, candidate, champion, evidence, level, decision ("no entry" of one that
    took its number only), asked, time.
    """
    from mlflow_mleval.store.ledger import Ledger

    gates = Ledger.open(ledger).gates()
    rows = [{"number": gate.number, **(gate.values or _SILENT)} for gate in gates]
    return pd.DataFrame(rows, columns=["number", *_SILENT])


@dataclass(frozen=True)
class Promotion:
    """An alias of a registered model that may move from the version judged to the candidate."""

    model: str
    alias: str
    version: str
    judged: str

    @classmethod
    def of(cls, candidate: str, champion: str, alias: str) -> Promotion:
        """The versions that the two sides are, as `pinned` names them."""
        from mlflow_mleval.store import store

        client = store.connect()
        versions = []
        for name in (candidate, champion):
            if (found := store.version_of(client, name)) is None:
                raise ValueError(
                    f"`promote` must go with versions of a registered model, got {name!r}. Name "
                    "both as models:/NAME/VERSION or models:/NAME@ALIAS."
                )
            versions.append(found)
        new, judged = versions
        if new.name != judged.name:
            raise ValueError(
                f"`promote` must go with one model, got {new.name!r} and {judged.name!r}."
            )
        return cls(new.name, alias, str(new.version), str(judged.version))

    def make(self) -> str:
        """Move the alias, and say what is so; see `mlflow_mleval.store.ledger.promote`."""
        from mlflow_mleval.store.ledger import promote

        unseen = promote(self.model, self.alias, self.version, self.judged)
        return unseen or f"{self.model}@{self.alias} is version {self.version} now."


def pinned(*sides: str) -> list[str]:
    """The sides of a gate with the versions that aliases are now: what is judged, logged and
    promoted is that, wherever an alias points afterwards.
    """
    from mlflow_mleval.store import store

    if not any(map(store.is_model, sides)):
        return [*sides]
    client = store.connect()
    return [store.pinned(client, side) for side in sides]


def log_verdict(verdict: Verdict) -> str:
    """Store a verdict with the candidate's run, the last of them; returns its id."""
    from mlflow_mleval.store import schema
    from mlflow_mleval.store.ledger import log_gate

    run_id = [*verdict.runs["candidate"]][-1]
    made = verdict.report()
    files = {path: made.render(format) for format, path in schema.ARTIFACTS_GATE.items()}
    log_gate(run_id, files, verdict.decision)
    return run_id


# --------------------------------------------------------------------------------------------------
# MLflow's quality criteria: thresholds of means, answered with their intervals.

_CRITERIA = "mlflow.genaiEvaluate.qualityCriteria"
_CRITERION = re.compile(r"\s*([\w./-]+)\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*")


def _criteria(shared: Shared, alpha: float) -> pd.DataFrame:
    """One row a criterion of the candidate's run: criterion, value, low, high (each at 1 - alpha),
    answer ("met", "missed", "not yet known", "no values here", "not understood").
    """
    from mlflow_mleval.store import store

    client = store.connect()
    with store.store_errors("read"):
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
        units = replace(
            shared.units,
            differences=values - middle,
            worst=pd.DataFrame(),
            slices={},
            bounds={measure: (ends[1] - ends[0]) / 2} if known else {},
        )
        found = gate_tests(units, Terms({measure: 0.0}, alpha=alpha)).table.iloc[0]
        value, low, high = found[["difference", "low", "high"]] + middle
        above, below = low >= threshold, high < threshold
        if falls:
            above, below = high <= threshold, low > threshold
        answer = "met" if above else "missed" if below else "not yet known"
        row |= {"value": value, "low": low, "high": high, "answer": answer}
    return pd.DataFrame(rows)


#: What says how answers are read, and how folds were made.
_OF_ANSWERS, _OF_FOLDS = ("table", "instance_by", "grades"), ("protocol", "ratio")
