"""What the process of a job makes: the answer to a selection and its parts, what a selection holds,
the verdict of a gate, a stored report."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_SOURCE_NAME, MLFLOW_SOURCE_TYPE, MLFLOW_USER

from mlflow_mleval.assembling import comparison_of, provenance, read
from mlflow_mleval.errors import (
    ChoiceError,
    MissingResultsError,
    MlevalError,
    StoreError,
    UnclearError,
    Ways,
)
from mlflow_mleval.gates import gate
from mlflow_mleval.measures.metric_names import direction_of, is_cost, proposed_direction
from mlflow_mleval.report import FILES, blocks
from mlflow_mleval.report.content import decision, study_report
from mlflow_mleval.report.content import gate as gate_report
from mlflow_mleval.report.html import fragment
from mlflow_mleval.report.text import terminal
from mlflow_mleval.secrets import redacted
from mlflow_mleval.selection import Choices, Selection, command_line
from mlflow_mleval.sentences import Argument, argument_of, count, span, worded
from mlflow_mleval.server import page_selection as page
from mlflow_mleval.server.page_selection import Job, Made
from mlflow_mleval.store import artifacts, schema
from mlflow_mleval.store.runs import about_report, log_report
from mlflow_mleval.store.runs_table import remembered
from mlflow_mleval.store.survey import take_stock, taken_for_units
from mlflow_mleval.validation import present

Tell = Callable[..., None]
#: Seconds between two lines of progress; runs that a page reads at most.
OFTEN, MOST_RUNS = 0.2, 20_000
#: Methods that a reader may choose from in the title, best first.
OFFERED = 500
#: Measures whose direction is in doubt, of each of which the page asks.
DOUBTED = 4


def make(job: Job, tell: Tell) -> Made:
    """Do the job: what it says of itself, with its texts, packed; a failure is told, not raised."""
    os.environ["MLFLOW_TRACKING_URI"] = job["server"]
    os.environ["MLFLOW_TRACKING_TOKEN"] = job["token"]
    artifacts.go_by_routes()
    kinds = {"answer": _answer, "survey": _survey, "gate": _gate, "part": _part, "store": _store}
    try:
        made: Made = {"made": int(time.time() * 1000), "held": b""}
        made |= kinds[job["what"]](job, tell)
    except Exception as error:
        return {"state": "failed", **failure(error, job)}
    texts = {name: text.encode("utf-8", "replace") for name, text in made.get("texts", {}).items()}
    return made | {"texts": {name: zlib.compress(text, 1) for name, text in texts.items()}}


# ---- what goes wrong, and what may be done about it ----------------------------------------------


class TooManyError(StoreError):
    """More runs are selected than the page reads."""


class NoPartError(MlevalError):
    """An answer has no such part."""


_BETTER = {"min": "smaller", "max": "larger"}
_OPPOSITE = {"min": "max", "max": "min"}
#: What can be done about methods without a result on a dataset.
_GAPS = (
    ("give them the worst value of the dataset", {"missing": "worst"}),
    ("leave out the datasets that have gaps", {"missing": "drop-datasets"}),
    ("leave out the methods that have gaps", {"missing": "drop-methods"}),
)
#: The status of HTTP by the kind of an error, the first that fits.
_STATUS = (
    (TooManyError, 413),
    (StoreError, 503),
    (NoPartError, 404),
    (MlevalError, 409),
    (ValueError, 400),
    (Exception, 500),
)


def failure(error: Exception, job: Job) -> Made:
    """What the reader is told of an error, and what may be done about it."""
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    text = error.text if isinstance(error, ChoiceError | UnclearError) else str(error)
    field, ways, taken = None, list[tuple[str, page.PageSelection]](), None
    if status == 500:
        traceback.print_exception(error, file=sys.stderr)
        text = "Something went wrong that nobody foresaw. The server's log says what."
    elif status == 503 and "does not accept the filter" in text:
        status, field = 400, "filter"
    elif status == 503 and job["what"] == "store" and "permission denied" in text.lower():
        status, text = 403, page.READ_ONLY
    elif status == 400:
        about = argument_of(error)
        field = next((name for name, o in page.options().items() if o.name == about), None)
    elif status == 409:
        chosen = page.parsed(job["given"])
        found, unasked = _ways_on(error, chosen)
        ways = [(what, chosen.adding(more)) for what, more in found] + _without(text, chosen)
        taken = chosen.adding(unasked).query if unasked else None
    said = page.without_flags(worded(text, page.as_field)).replace(job["server"], job["address"])
    if job["what"] == "gate":
        said = re.sub("`([a-z_]+)`", lambda name: f"“{page.FIELDS.get(name[1], name[1])}”", said)
        field = next(
            (name for name in (*page.SIDES, *page.gate_options()) if f"“{name}”" in said), None
        )
    return {
        "status": status,
        "error": " ".join(redacted(said).split()),
        "field": field,
        "ways": [{"what": what, "query": way.query} for what, way in ways],
        "taken": taken,
    }


def _ways_on(error: Exception, chosen: page.PageSelection) -> tuple[Ways, Choices]:
    """The ways on, and the one that the page takes unasked, and says so: where only directions are
    lacking, the proposed ones."""
    ways: Ways = ()
    if isinstance(error, UnclearError):
        ways = [
            (way.what, way.selection.arguments()) for way in error.ways if way.command == "rank"
        ]
        proposal = r"The proposal is to (.+?)(?:; leave out .+? other ways)?\.(?: |$)"
        if len(ways) == 1 and (proposed := re.search(proposal, error.text)):
            own = ways[0][1]
            worst = [(_GAPS[0][0], {**own, **_GAPS[0][1]})] if "missing" in own else []
            ways = [(proposed[1], own), *worst]
    elif isinstance(error, ChoiceError):
        ways = error.ways or (_GAPS if isinstance(error, MissingResultsError) else ())
    directed = Argument("directions", "proposed")
    taken = {directed.name: directed.plain}
    if chosen.choices["directions"] == "proposed":
        return ways, {}
    if not ways and directed in getattr(str(error), "parts", ()):
        ways = [("take the directions that their names suggest", taken)]
    if ways and getattr(error, "undirected", False):
        return ways, ways[0][1]
    return ways, taken if taken in [way for _, way in ways] else {}


def _without(text: str, chosen: page.PageSelection) -> list[tuple[str, page.PageSelection]]:
    """The selection without what the message says is not there."""
    ways = []
    for name, values in chosen.given:
        argument = page.options()[name].name or ""
        for value in values if argument not in ("experiment_ids", "filter_string") else ():
            if repr(value) in text or f"({value})" in text:
                rest = {**dict(chosen.given), name: tuple(v for v in values if v != value)}
                what = f"go on without “{page.FIELDS.get(argument, argument)}: {value}”"
                ways.append((what, page.parsed(rest)))
    return ways


@contextmanager
def _stage(tell: Tell, what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Progress, a few lines a second."""
    last = 0.0

    def step(done: int, total: int) -> None:
        nonlocal last
        if what == "reading" and done > MOST_RUNS:
            raise TooManyError(
                f"The selection holds more than {MOST_RUNS:,} runs, too many for a page. Choose "
                "fewer experiments, or narrow them by a filter; `mleval report` takes any number."
            )
        if time.monotonic() - last >= OFTEN:
            last = time.monotonic()
            tell(step=what, done=done, total=total, unit=unit)

    tell(step=what, done=0, total=0, unit=unit)
    yield step


# ---- a comparison and its parts ------------------------------------------------------------------
# An answer holds, packed, what it was made of; each part is made of that, and so are answers by
# other weights or fewer measures of the same runs.


@dataclass(frozen=True)
class Held:
    """Runs that were read, by which selection and when, and how they compare."""

    read_by: page.PageSelection
    material: Any
    made: int  #: when they were read, in milliseconds
    ahead: int  #: runs that ended later, by clocks that are ahead: they are no news
    chosen: page.PageSelection
    comparison: Any


def compared(job: Job, tell: Tell) -> Held:
    """The comparison that the job chooses, of runs that were read before where that is the same."""
    chosen, stage = page.parsed(job["given"]), partial(_stage, tell)
    held = pickle.loads(job["held"]) if job["held"] else None
    before, more = None, frozenset[str]()
    if held is not None:
        if held.chosen.without("pair") == chosen.without("pair"):
            return replace(held, chosen=chosen)
        off, was_off = (
            frozenset(one.choices["exclude_measures"]) for one in (chosen, held.read_by)
        )
        more = off - was_off
        if held.chosen.without("pair", "weights") == chosen.without("pair", "weights"):
            before = held.comparison
        if not (was_off <= off and held.material.can_lose(more)):
            held, before, more = None, None, frozenset()
    if held is None:
        made, ahead = int(time.time() * 1000), 0
        ids, later = [*chosen.experiment_ids], chosen.runs_after(made)
        with suppress(MlflowException):  # reading says what is the matter
            runs = MlflowClient().search_runs(ids, later, max_results=page.NEW)
            ahead = sum(run.data.tags.get(schema.TAG_KIND) not in schema.RECORDS for run in runs)
        material = read(chosen.choices, whole=True, stage=stage, word=page.as_option)
        source = {**material.study.source, "tracking_uri": job["address"]}
        material = replace(material, study=replace(material.study, source=source))
        held = Held(chosen, material, made, ahead, chosen, None)
    used = held.material.without(more) if more else held.material
    comparison = comparison_of(used, chosen.choices, whole=True, stage=stage, before=before)
    return replace(held, chosen=chosen, comparison=comparison)


def _answer(job: Job, tell: Tell) -> Made:
    """What a reader sees first; the rest is made when somebody asks for it."""
    held = compared(job, tell)
    tell(step="writing", done=0, total=0)
    chosen, comparison = held.chosen, held.comparison
    document, sections = report_of(held)
    about, texts = list[Made](), dict[str, str]()
    for s in sections:
        # doubts speak of the fields of the page, not of the flags of the command
        word = page.without_flags if s.key == "doubts" else str
        told = {"key": s.key, "title": plain(s.title), "hint": word(plain(s.hint))}
        about.append({**told, "open": s.key in document.opened, "evidence": s.evidence})
        if s.key in (*document.opened, "doubts"):
            texts[f"section/{s.key}"] = word(fragment(s))
    found = []
    for at, why, ways in remedies(comparison.study, chosen.choices):
        asked = [{"what": what, "query": chosen.adding(more).query} for what, more in ways]
        found.append({"at": at, "why": why, "ways": asked})
    return {
        "reads": job["reads"],
        "made": held.made,
        "ahead": held.ahead,
        "title": plain(document.title),
        "about": plain(document.about),
        "runs": len(comparison.study.runs),
        "run_id": str(comparison.study.runs["run_id"].iloc[0]),
        "chips": chips(comparison.study),
        "leader": plain(comparison.order[0]),
        "pair": [*document.pair],
        "methods": [plain(method) for method in comparison.order[:OFFERED]],
        "experiments": comparison.study.source["experiments"],
        "sections": about,
        "remedies": found,
        "texts": texts,
        # not compressed: it shrinks by a quarter, in a third of the time of what a reader waits for
        "held": pickle.dumps(held, pickle.HIGHEST_PROTOCOL),
    }


def remedies(study: Any, choices: Choices) -> Iterator[tuple[str, str, Ways]]:
    """What removes a doubt: the section of the number that it concerns, why, and the ways."""
    declared = {*choices["minimize"], *choices["maximize"]}
    taken: dict[str, str] = {
        m: study.directions[m]
        for m in study.measures
        if m not in declared and direction_of(m) is None
    }
    left = []
    for one in study.excluded:
        way = proposed_direction(one.name)
        if one.undirected and way is not None and not is_cost(one.name):
            what = f"“{one.name}”: {_BETTER[way]} is better ✓"
            left.append((what, _declaring({**taken, one.name: way}, study, choices)))
    if left:
        yield "decision", "Left out, for nobody has said which way is better", left[:DOUBTED]
    if taken:
        told = [f"“{m}”: {_BETTER[way]}" for m, way in taken.items()][:DOUBTED]
        if len(taken) > DOUBTED:
            told.append(f"{len(taken) - DOUBTED} more")
        ways = [(f"{', '.join(told)} is better ✓", _declaring(taken, study, choices))]
        for measure in [*taken][:DOUBTED]:
            other = _OPPOSITE[taken[measure]]
            which = f"“{measure}”: " if len(taken) > 1 else ""
            changed = _declaring({**taken, measure: other}, study, choices)
            ways.append((f"{which}no, {_BETTER[other]} is better", changed))
        yield "decision", "Nobody has said which way is better; this was taken", ways
    if study.filled:
        why = f"{count(len(study.filled), 'missing result')} counted as the dataset's worst"
        yield "ranking", why, _GAPS[1:]


def _declaring(ways: Mapping[str, str], study: Any, choices: Choices) -> Choices:
    """What declares these directions, so that measures that are used stay so."""
    used = dict.fromkeys([*study.measures, *ways])
    return {
        "measures": [m for m in used if m not in (choices["measures"] or ())],
        **{f"{side}imize": [m for m, of in ways.items() if of == side] for side in _BETTER},
    }


def chips(study: Any) -> list[Made]:
    """What counts as method, dataset and repeat, with counts; and how many runs are left out."""
    used = len(study.runs)
    if {"dataset", "method"} <= {*study.runs}:  # some went with their dataset or method
        used = study.runs.set_index(["dataset", "method"]).index.isin(study.values.index).sum()
    out = sum(one.kind in ("run", "child run") for one in study.excluded) + len(study.runs) - used
    counts = {"method": len(study.methods), "dataset": len(study.datasets)}
    texts = [count(n, what) for what, n in counts.items()]
    texts += [*filter(None, [repeats_of(study)]), count(int(used), "run")]
    left_out = [{"text": f"{count(int(out), 'run')} left out", "out": True}] if out else []
    return [*({"text": text, "out": False} for text in texts), *left_out]


def report_of(held: Held) -> tuple[Any, list[Any]]:
    """The report about a comparison; all sections, also those made when they are asked for."""
    comparison, study = held.comparison, held.comparison.study
    command = held.chosen.command
    made_by = provenance(command, study.source, list(study.runs["run_id"]), comparison.options)
    address = f"{study.source['tracking_uri']}/mleval/?{held.chosen.query}"
    asked = held.chosen.choices["pair"] or ()
    pair = asked if {*asked} <= {*comparison.order} else ()  # who was asked about may be left out
    report = study_report.document(comparison, {**made_by, "address": address}, pair=pair)
    sections = [*report.sections]

    late = [decision.over_time_section(comparison)]
    if comparison.tells_of_next_dataset and not comparison.options["next_dataset"]:
        options = {**comparison.options, "next_dataset": True}
        late.insert(0, decision.next_dataset_section(replace(comparison, options=options)))
    sections[-1:-1] = [replace(section, evidence=True) for section in late if section is not None]
    return report, sections


def _part(job: Job, tell: Tell) -> Made:
    """A part of an answer: a section (that over time also by each so many runs), the list of its
    files, one of these, details."""
    held = compared(job, tell)
    kind, _, name = job["part"].partition("/")
    try:
        if kind == "detail":
            about = study_report.detail_section(held.comparison, **job["question"], base="../")
            return {"texts": {"text": fragment(about)}}
        report, sections = report_of(held)
        if kind == "section":
            key, _, each = name.partition("/")
            section = {s.key: s for s in sections}[key]
            if each:
                section = present(decision.over_time_section(held.comparison, int(each)))
            text = fragment(section)
        else:
            files = files_of(report)
            text = json.dumps([*files]) if kind == "files" else "".join(files[name]())
    except KeyError:
        raise NoPartError("The answer has no such part.") from None
    return {"texts": {"text": text}}


def plain(text: str) -> str:
    """A text of a report without its markup, safe to be shown."""
    return terminal(blocks.plain(text))


def files_of(document: Any) -> dict[str, Callable[[], Iterable[str]]]:
    """What there is to download, and how each is made, whole or in pieces."""
    made: dict[str, Callable[[], Iterable[str]]] = {}
    made |= {name: partial(document.render, format) for format, name in FILES.items()}
    made |= document.parts()
    for i, (title, svg) in enumerate(document.figures().items(), 1):
        words = re.findall("[a-z0-9]+", title.lower())
        made[f"{i:02}-{'-'.join(words)[:60]}.svg"] = partial(str, svg)
    return made


def _store(job: Job, tell: Tell) -> Made:
    """Store the report of an answer as the member whose token the job has."""
    tell(step="storing", done=0, total=0)
    held = compared(job, tell)
    files = files_of(report_of(held)[0])
    paths = {f"{schema.ARTIFACT_FOLDER}/{n}": n for n in files if n.endswith((".json", ".csv"))}
    paths |= {schema.ARTIFACT_REPORT: FILES["html"], schema.ARTIFACT_SUMMARY: FILES["md"]}
    made = ((path, "".join(files[name]())) for path, name in paths.items())
    texts = {path: text for path, text in made if len(text.encode()) <= artifacts.MOST_BYTES}
    large = [path for path in paths if path not in texts]
    if schema.ARTIFACT_REPORT in large:
        raise StoreError("the report is larger than MLflow takes in one piece. Download it.")
    about = about_report(held.comparison, asked=held.chosen.choices)
    about["tags"] |= {
        MLFLOW_USER: job["user"],
        MLFLOW_SOURCE_NAME: job["address"] + "/mleval/",
        MLFLOW_SOURCE_TYPE: "LOCAL",
    }
    run_id = log_report(texts, summary=texts[schema.ARTIFACT_SUMMARY], **about)
    return {"run_id": run_id, "experiment_id": about["experiment_id"], "left_out": large}


# ---- what the chosen runs hold, and the form set to it -------------------------------------------


def _survey(job: Job, tell: Tell) -> Made:
    chosen = page.parsed(job["given"])
    with remembered(), _stage(tell, "reading", "runs") as step:
        study, survey = take_stock(Selection.of(chosen.choices), progress=step)
        set_to, study, ways = form_of(chosen, study, survey)
    notes = [note for note in survey.notes if not survey.problem or survey.problem not in note]
    problem = page.without_flags(worded(survey.problem, page.as_field))
    told = replace(survey, notes=tuple(notes)).worded(page.as_field)
    shown = {
        "survey": replace(told, notes=tuple(map(page.without_flags, told.notes))),
        "study": study,
        "selection": {name: list(values) for name, values in set_to.given},
        "ways": [{"what": what, "query": way.query} for what, way in ways],
        "problem": problem.replace(job["server"], job["address"]),
        "repeats": repeats_of(study),
        "further": page.further_options(),
        "values": page.offered(),
    }
    return {"texts": {"text": page.rendered("survey.html.j2", **shown)}}


def form_of(
    chosen: page.PageSelection, study: Any, survey: Any
) -> tuple[page.PageSelection, Any, list[tuple[str, page.PageSelection]]]:
    """To what the form is set, the study that this compares, None where it stops, and how it may be
    set else."""
    # As it was asked; where nobody has said yet how to read these runs, as the survey proposes and
    # the answer takes it, each direction declared, to be seen and confirmed.
    ranked = survey.rankings
    asked = Selection.of(chosen.choices)
    if asked.is_ruled or len(ranked) != 1 or ranked[0].study is None:
        ways = [(way.what, chosen.reading(way.selection)) for way in ranked]
        bogus = survey.foreign and not asked.is_ruled
        others = [(what, way) for what, way in ways if way != chosen]
        return chosen, None if bogus else study, others
    taken = ranked[0].selection
    if taken.directions == "proposed":
        held = survey.metrics[survey.metrics["runs"] == survey.n_runs]
        smaller, larger = (held.loc[held["proposed"] == w, "metric"] for w in ("min", "max"))
        minimize, maximize = [*taken.minimize, *smaller], [*taken.maximize, *larger]
        taken = replace(taken, directions="declared", minimize=minimize, maximize=maximize)
    return chosen.reading(taken), ranked[0].study, []


def repeats_of(study: Any) -> str:
    """How many repeats a method has on a dataset, as text; empty where each has one run."""
    if study is None or study.repeats is None:
        return ""
    return f"{span(study.n_repeats.min(), study.n_repeats.max())} repeats"


# ---- the gate: may this run replace that one? ----------------------------------------------------


def _gate(job: Job, tell: Tell) -> Made:
    """The verdict on the runs `job["sides"]`, or on two methods; it is stored nowhere."""
    tell(step="judging", done=0, total=0)
    how = page.parsed(job["how"], page.gate_options())
    stated = {name: value for name, value in how.choices.items() if value not in ((), None)}
    read = Selection()
    if job["given"]:  # read as for the answer, so that its methods are there
        asked = replace(Selection.of(page.parsed(job["given"]).choices), methods=None)
        read, _ = taken_for_units(asked)
    candidate, champion = job["sides"]
    verdict = gate(candidate, champion, **{**stated, **read.arguments()})
    names = dict(zip(page.SIDES, job["names"], strict=True))
    source = {**verdict.source, "tracking_uri": job["address"]}
    notes = tuple(worded(note, page.as_field) for note in verdict.notes)
    verdict = replace(verdict, **names, source=source, notes=notes)
    run_ids = [run_id for ids in verdict.runs.values() for run_id in ids]
    flags = [*how.flags(page.gate_options()), *read.options()]
    command = command_line(["mleval", "gate", candidate, "--champion", champion], flags)
    report = gate_report.document(verdict, provenance(command, source, run_ids, {}))
    parts = [{"title": plain(s.title), "html": fragment(s)} for s in report.sections]
    about = {"title": plain(report.title), "decision": verdict.decision}
    return {"texts": {"text": page.rendered("verdict.html.j2", parts=parts, **about)}}
