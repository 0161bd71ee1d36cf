"""May the candidate replace the champion? The verdict in words, a row a measure and slice, a forest
plot of the differences against their margins, and the history of a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.gate_tests import ALL, LEAST_SEEN, POWER, Verdict
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, Column, listed, name
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.figures.comparisons import differences_and_margins, ledger_steps
from mlflow_mleval.report.text import ARROWS, number
from mlflow_mleval.sentences import count

#: Points that a terminal shows, and rows of a table on it and on a page.
_POINTS, _ROWS, _SHOWN = 2, 12, 20
_CAPTION = (
    "Each row's difference, positive where the candidate is better, with what it may still be at "
    "the least (for the row alone) and at the most (for all rows at once). The short line is minus "
    "the margin: to its right the candidate is not worse, to its left it is."
)


def document(verdict: Verdict, provenance: doc.Provenance) -> Document:
    rows, decided = verdict.ordered, verdict.decision
    headline = f"{decided.upper()}: {_open(verdict) if verdict.more else _proved(verdict)}."
    if (stands := verdict.stands) is not None:
        anew = f" {_units_in_words(verdict)} would make a new gate say {stands.anew.upper()}."
        headline = (
            f"{stands.decision.upper()}, as decided at {stands.time} with {stands.units:,} "
            f"{verdict.over}: that stands.{anew if stands.anew != stands.decision else ''}"
        )
    told = [headline]
    unjudged = (verdict.table["verdict"] == "not judged").all()
    if verdict.more and not verdict.changed and not unjudged:
        told.append(_needed(verdict))
    if entry := verdict.entry:
        again = f" The same {verdict.over} were asked {count(entry.asked, 'time')} before."
        told.append(
            f"This is gate {entry.number} of the ledger {name(entry.ledger)}, after "
            f"{count(entry.ships, 'ship')}; its evidence is {number(verdict.tests.evidence, 2)}, "
            f"and to ship takes {number(entry.required, 2)}.{again if entry.asked else ''}"
        )
        if entry.silent:
            told.append(
                "Gates of it that took a number and entered nothing, not ended yet or dead, count "
                f"as not shipped: {entry.silent}."
            )
    blocks = [
        doc.Text(told, "lead", depth=ALWAYS),
        *doc.points([*verdict.tests.warnings, *verdict.notes], depth=ALWAYS, most=_POINTS),
        doc.Figure(differences_and_margins(rows), _CAPTION),
        _table(verdict, rows),
    ]
    sections = [
        doc.Section("verdict", "Verdict", blocks, open=True),
        *_criteria(verdict),
        doc.Section("terms", "How it was decided", [doc.Terms(_terms(verdict))]),
    ]
    return Document.of(
        provenance,
        f"May {verdict.candidate} replace {verdict.champion}?",
        sections,
        about=f"Judged on {_units_in_words(verdict)}",
        data=verdict.to_dict,
        frames=lambda: {"gate": verdict.table},
        main="gate",
    )


def _proved(verdict: Verdict) -> str:
    """What is shown: that it is as good within its margins, or where it is worse."""
    if verdict.ship:
        whole = verdict.table[verdict.table["slice"] == ALL]
        gains = "".join(
            f"; {name(row.measure)} is better by {short(row.difference)} (at least "
            f"{short(max(row.low, 0.0))})"
            for row in whole[whole["verdict"] == "better"].itertuples()
        )
        judged = whole[whole["verdict"] != "not judged"]["measure"]
        which = listed(judged) if len(judged) <= 2 else f"all {len(judged)} measures"
        within = "its margin" if len(judged) == 1 else "their margins"
        both = f"{name(verdict.candidate)} is at least as good as {name(verdict.champion)}"
        return f"{both} on {which}, within {within}{gains}"
    worse = verdict.table[verdict.table["verdict"] == "worse"].sort_values("difference")
    whole, parts = worse[worse["slice"] == ALL], worse[worse["slice"] != ALL]
    first = (whole if len(whole) else parts).iloc[0]
    text = (
        f"{name(first['measure'])} is worse by {short(first['difference'])} (at least "
        f"{short(first['high'])}) than {name(verdict.champion)}{_on(first)}"
    )
    own = parts[(parts["measure"] == first["measure"]) & (parts.index != first.name)]
    if len(own):
        text += f";{_on(own.iloc[0])} by {short(own.iloc[0]['difference'])}"
    others = len(worse) - 1 - bool(len(own))
    if not others:
        return text
    return f"{text}; and {count(others, 'more row')} of the table"


def _on(row: pd.Series) -> str:
    """On which slice, if it is of one."""
    return "" if row["slice"] == ALL else f" on {name(repr(row['slice']))}"


def _open(verdict: Verdict) -> str:
    if verdict.changed:
        first, *others = verdict.changed
        return (
            f"the tables have been changed: {name(first.measure)} of {name(first.side)} was logged "
            f"as {number(first.logged, 6)}, and the mean of its {verdict.over} is "
            f"{number(first.mean, 6)}{f'; so have {len(others)} more' if others else ''}"
        )
    table = verdict.table
    if len(lost := table[table["verdict"] == "lost"]):
        row = lost.iloc[0]
        return (
            f"{name(row['measure'])} would be worse{_on(row)} if the {verdict.over} that "
            f"{name(verdict.candidate)} lacks were as bad as can be"
        )
    whole = table[table["slice"] == ALL]
    rows = whole[whole["verdict"] == "open"].sort_values("low")
    if not len(rows) and verdict.entry is None:
        reasons = whole.groupby("reason", sort=False)["measure"]
        why = [f"{listed(measures)} ({reason})" for reason, measures in reasons]
        return f"nothing can be judged: {'; '.join(why)}"
    if not len(rows):
        more = "but a ledger asks for more evidence than that"
        return f"no measure is worse by its margin or more, {more}"
    row = rows.iloc[0]
    which = f"on {_units_in_words(verdict)} {name(row['measure'])}"
    if row["low"] > -row["margin"]:  # not worse, but it was to improve
        return f"{which} is not shown to be better yet"
    lost = "anything" if row["low"] == -inf else short(row["low"])
    allowed = short(row["margin"])
    loss = f"{lost}; its margin is {allowed}"
    if lost == allowed:
        loss = f"slightly more than its margin, {allowed}"
    return f"{which} may be worse than {name(verdict.champion)} by {loss}"


def _needed(verdict: Verdict) -> str:
    """How many units the decision takes."""
    over, tests = verdict.over, verdict.tests
    zero, observed = (tests.needed[key] for key in ("zero", "observed"))
    if tests.lost and (verdict.table["low"] == -inf).any():
        return (
            f"How many {over} it takes cannot be said: nobody knows how bad those can be that "
            f"{name(verdict.candidate)} lacks."
        )
    if isnan(zero):
        few = "Too few of them make the difference"
        few = "That is too few" if tests.units < LEAST_SEEN else few
        return f"{few} to say how many {over} it takes."
    power = f"(with probability {short(POWER)})"
    alike, differ = f"no number of {over} shows it", "no number does"
    if zero < inf:
        alike = f"about {_rounded(zero)} {over} show it {power}"
    if observed < inf:
        differ = f"about {_rounded(observed)}{'' if zero < inf else f' {power}'}"
    return f"If the two are equally good, {alike}; if they differ as observed, {differ}."


def _rounded(n: float) -> str:
    """A number of units to two digits."""
    return f"{float(f'{n:.2g}'):,.0f}"


def _units_in_words(verdict: Verdict) -> str:
    """How many units there are, as text."""
    tests = verdict.tests
    clusters = f" in {count(tests.clusters, 'cluster')}" if tests.clusters else ""
    return f"{count(tests.units, verdict.over.removesuffix('s'))}{clusters}"


def short(x: float) -> str:
    """A size as a product owner reads it: ".031"."""
    return number(abs(x), 2).removeprefix("0") if x else "0"


def _table(verdict: Verdict, rows: pd.DataFrame) -> doc.Table:
    arrows = [ARROWS[verdict.directions[m]] for m in rows["measure"]]
    columns = [doc.names("measure", rows["measure"]), Column("", arrows, "^", keep=1)]
    if (rows["slice"] != ALL).any():
        columns.append(doc.names("slice", rows["slice"].replace(ALL, "all")))
    columns += [
        Column(verdict.over, [f"{n:,}" for n in rows["n"]], keep=2),
        doc.intervals("difference", rows[["difference", "low", "high"]], by_row=True),
        doc.numbers("margin", rows["margin"]),
        Column("verdict", rows["verdict"].tolist(), "<"),
    ]
    about = "Differences are positive where the candidate is better."
    return doc.Table(columns, note=about, depth=ALWAYS, most=_ROWS, shown=_SHOWN, key="gate")


def _criteria(verdict: Verdict) -> Iterator[doc.Section]:
    """MLflow's quality criteria, which are answered beside."""
    asked = verdict.criteria
    if not len(asked):
        return
    columns = [
        doc.names("criterion", asked["criterion"]),
        doc.intervals("candidate", asked[["value", "low", "high"]], by_row=True),
        Column("answer", asked["answer"].tolist(), "<"),
    ]
    about = "Of the candidate alone, with an interval; they do not move the verdict."
    table = doc.Table(columns, title="MLflow's quality criteria", note=about, depth=ALWAYS)
    yield doc.Section("criteria", "Quality criteria", [table], open=True)


def _terms(verdict: Verdict) -> list[tuple[str, str]]:
    terms = verdict.tests.terms
    way = "bets, at any number of looks" if terms.anytime else "sign changes of whole units"
    way = "t tests corrected for shared training data" if verdict.over == "folds" else way
    return [
        ("Level", f"BLOCK and SHIP are each wrong with a chance of at most {short(terms.alpha)}"),
        ("Tests", f"{way}; they allow for what was not seen yet"),
        *([("To improve", listed(terms.improve))] if terms.improve else []),
        ("Seed", f"{terms.seed}, {terms.n_resamples:,} draws"),
    ]


def history_document(ledger: str, entries: pd.DataFrame) -> Document:
    """The gates of a ledger, a row each."""
    shipped = int((entries["decision"] == "ship").sum())
    asked = int(entries["asked"].max()) if len(entries) else 0
    lead = (
        f"Ledger {name(ledger)}: {count(len(entries), 'gate')}, {shipped} shipped; the same units "
        f"were asked up to {count(asked + 1, 'time')}."
    )
    columns = [
        Column("gate", [f"{n}" for n in entries["number"]]),
        doc.names("candidate", entries["candidate"]),
        doc.names("champion", entries["champion"]),
        doc.numbers("evidence", entries["evidence"]),
        doc.numbers("needed", 1 / entries["level"]),
        Column("decision", entries["decision"].tolist(), "<"),
        Column("time", entries["time"].tolist(), "<", keep=1),
    ]
    blocks: list[Any] = [
        doc.Text([lead], "lead", depth=ALWAYS),
        doc.note("A gate ships when its evidence reaches what was needed at its place.", ALWAYS),
        doc.Table(columns, depth=ALWAYS, most=len(entries), key="ledger"),
    ]
    if entries["evidence"].notna().any():
        caption = "Evidence, and what was needed, gate by gate."
        blocks.append(doc.Figure(ledger_steps(entries), caption))
    return Document(
        f"Ledger {ledger}",
        [doc.Section("ledger", "Ledger", blocks, open=True)],
        data=lambda: {"ledger": ledger, "gates": entries},
        frames=lambda: {"ledger": entries},
        main="ledger",
    )
