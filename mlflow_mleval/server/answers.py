"""What a process of the pool makes: the answer to a selection and its parts, what a selection
holds, the verdict of a gate, a stored report.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mlflow_mleval.errors import (
    CandidatesError,
    MissingResultsError,
    MlevalError,
    StoreError,
    UnclearError,
    UndirectedError,
)
from mlflow_mleval.measures.metric_names import direction_of, is_cost, proposed_direction
from mlflow_mleval.report import FILES
from mlflow_mleval.secrets import redacted
from mlflow_mleval.selection import Selection, command_line
from mlflow_mleval.sentences import Argument, argument_of, count, worded
from mlflow_mleval.server.page_selection import (
    FIELDS,
    NEW,
    READ_ONLY,
    SIDES,
    PageSelection,
    as_field,
    as_option,
    field_of,
    further_options,
    gate_options,
    offered,
    options,
    parsed,
    parsed_gate,
    rendered,
    without_flags,
)

Tell = Callable[..., None]
Job = Mapping[str, Any]
#: Seconds between two lines of progress; runs that a page reads at most.
OFTEN, MOST_RUNS = 0.2, 20_000
#: Methods that a reader may choose from in the title, best first.
OFFERED = 500
#: Measures whose direction is in doubt, of each of which the page asks.
DOUBTED = 4


def make(job: Job, tell: Tell) -> dict[str, Any]:
    """Do the job: what it says of itself, with its texts; a failure is told, not raised."""
    from mlflow_mleval.store import artifacts

    os.environ["MLFLOW_TRACKING_URI"] = job["server"]
    os.environ["MLFLOW_TRACKING_TOKEN"] = job["token"]
    artifacts.go_by_routes()
    kinds = {"answer": _answer, "survey": _survey, "gate": _gate, "part": _part, "store": _store}
    try:
        return {"made": int(time.time() * 1000)} | kinds[job["what"]](job, tell)
    except Exception as error:
        return {"state": "failed", **failure(error, job)}
    finally:
        del os.environ["MLFLOW_TRACKING_TOKEN"]


class TooManyError(StoreError):
    """More runs are selected than the page reads."""


_Ways = Sequence[tuple[str, Mapping[str, Any]]]
_BETTER = {"min": "smaller", "max": "larger"}
#: What can be done about methods without a result on a dataset.
_GAPS = (
    ("give them the worst value of the dataset", {"missing": "worst"}),
    ("leave out the datasets that have gaps", {"missing": "drop-datasets"}),
    ("leave out the methods that have gaps", {"missing": "drop-methods"}),
)


def _kind_of(error: Exception, what: str) -> tuple[int, str, str | None, _Ways]:
    """The status of HTTP for an error, its text, the field that it is about, and ways on."""
    text = str(error)
    if isinstance(error, CandidatesError | UndirectedError):
        return 409, error.text, None, error.ways
    if isinstance(error, UnclearError):
        return 409, error.text, None, _ways_to_rank(error)
    if isinstance(error, MissingResultsError):
        return 409, error.text, None, error.ways or _GAPS
    if isinstance(error, TooManyError):
        return 413, text, None, ()
    if what == "store" and "permission denied" in text.lower():
        return 403, READ_ONLY, None, ()
    if isinstance(error, StoreError):
        of_filter = "does not accept the filter" in text
        return (400, text, "filter", ()) if of_filter else (503, text, None, ())
    if isinstance(error, ValueError):
        return 400, text, field_of(argument_of(error)), ()
    if isinstance(error, KeyError) and what == "part":
        return 404, "The answer has no such part.", None, ()
    if isinstance(error, MlevalError):
        return 409, text, None, ()
    traceback.print_exc(file=sys.stderr)
    return 500, "Something went wrong that nobody foresaw. The server's log says what.", None, ()


def failure(error: Exception, job: Job) -> dict[str, Any]:
    """What the reader is told of an error, and what may be done about it."""
    status, text, field, ways = _kind_of(error, job["what"])
    named: list[tuple[str, PageSelection]] = []
    taken = None
    if status == 409:
        chosen = parsed(job["given"])
        ways, taken = _with_directions(error, ways, chosen)
        named = [(what, chosen.adding(more)) for what, more in ways] + _without(text, chosen)
    text = _on_page(worded(text, as_field), job)
    if job["what"] == "gate":
        text = re.sub("`([a-z_]+)`", lambda name: f"“{FIELDS.get(name[1], name[1])}”", text)
        field = next((name for name in (*SIDES, *gate_options()) if f"“{name}”" in text), None)
    return {
        "status": status,
        "error": " ".join(redacted(text).split()),
        "field": field,
        "ways": [{"what": what, "query": way.query} for what, way in named],
        "taken": taken,
    }


def _with_directions(
    error: Exception, ways: _Ways, chosen: PageSelection
) -> tuple[_Ways, str | None]:
    """The ways on, and of them the one that the page takes unasked, and says so: where all that
    lacks is a direction, the proposed ones.
    """
    if chosen.choices["directions"] == "proposed":
        return ways, None
    proposed = Argument("directions", "proposed")
    own = {proposed.name: proposed.plain}
    if isinstance(error, UndirectedError):
        is_way = own in [way for _, way in ways]
    elif proposed in getattr(str(error), "parts", ()):
        ways, is_way = [("take the directions that their names suggest", own)], True
    elif getattr(error, "undirected", False):
        own, is_way = dict(ways[0][1]), True
    else:
        is_way = False
    return ways, chosen.adding(own).query if is_way else None


def _on_page(text: str, job: Job) -> str:
    """A text of the command line with the fields and the address of the page."""
    return without_flags(text).replace(job["server"], job["address"])


def _ways_to_rank(stop: UnclearError) -> list[tuple[str, Mapping[str, Any]]]:
    """The ways to a ranking; where the only one is what the text proposes, in its words, and then
    what else may be done about gaps.
    """
    ways = [(way.what, way.selection.arguments()) for way in stop.ways if way.command == "rank"]
    proposed = re.search(
        r"The proposal is to (.+?)(?:; leave out .+? other ways)?\.(?: |$)", stop.text
    )
    if len(ways) != 1 or proposed is None:
        return ways
    arguments = ways[0][1]
    ways = [(proposed[1], arguments)]
    if "missing" in arguments:
        ways += [
            (what, {**arguments, **more}) for what, more in _GAPS if more["missing"] == "worst"
        ]
    return ways


def _without(text: str, chosen: PageSelection) -> list[tuple[str, PageSelection]]:
    """The selection without what the message says is not there."""
    ways = []
    for name, values in chosen.given:
        argument = options()[name].name or ""
        for value in values if argument not in ("experiment_ids", "filter_string") else ():
            if repr(value) in text or f"({value})" in text:
                rest = {**dict(chosen.given), name: tuple(v for v in values if v != value)}
                what = f"go on without “{FIELDS.get(argument, argument)}: {value}”"
                ways.append((what, parsed(rest)))
    return ways


def _stages(tell: Tell) -> Callable[[str, str], Any]:
    """Progress, a few lines a second."""

    @contextmanager
    def stage(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
        last = 0.0

        def step(done: int, total: int) -> None:
            nonlocal last
            if what == "reading" and done > MOST_RUNS:
                raise TooManyError(
                    f"The selection holds more than {MOST_RUNS:,} runs, too many for a page. "
                    "Choose fewer experiments, or narrow them by a filter; `mleval report` takes "
                    "any number."
                )
            if time.monotonic() - last >= OFTEN:
                last = time.monotonic()
                tell(step=what, done=done, total=total, unit=unit)

        tell(step=what, done=0, total=0, unit=unit)
        yield step

    return stage


# --------------------------------------------------------------------------------------------------
# A comparison, which the process holds until it reads others, and its parts.


@dataclass
class _Held:
    """What this process has read and compared: further jobs are about the same runs."""

    reads: str
    chosen: PageSelection
    material: Any
    made: int  #: when it was read, in milliseconds
    ahead: int  #: runs that ended later, by clocks that are ahead: they are no news
    compared: tuple[PageSelection, Any]
    report: tuple[Any, list[Any]] | None = None

    def sections(self) -> tuple[Any, list[Any]]:
        """The report, and its sections with those that are made when they are asked for."""
        if self.report is None:
            self.report = _sections(self.compared[1], self.compared[0])
        return self.report


#: What this process holds, if anything.
_held: list[_Held] = []


def _compared(job: Job, tell: Tell) -> _Held:
    """What the process holds, compared as the job says; read now where it was not. By other weights
    than before, what these change is made anew.
    """
    from mlflow_mleval.assembling import comparison_of, read

    chosen, stage = parsed(job["given"]), _stages(tell)
    held = _held[0] if _held and _held[0].reads == job["reads"] else None
    if held is not None and held.made > job["newer"]:
        off = [{*one.choices["exclude_measures"]} for one in (held.chosen, chosen)]
        more = off[1] - off[0]
        if held.compared[0] == chosen:
            return held
        if held.compared[0].without("pair") == chosen.without("pair"):
            held.compared, held.report = (chosen, held.compared[1]), None
            return held
        if not off[0] - off[1] and held.material.can_lose(more):
            alike = held.compared[0].without("weights") == chosen.without("weights")
            before = held.compared[1] if alike else None
            material = held.material.without(more) if more else held.material
            choices = chosen.choices
            made = comparison_of(material, choices, whole=True, stage=stage, before=before)
            held.compared, held.report = (chosen, made), None
            return held
    made_at = int(time.time() * 1000)
    _held.clear()
    ahead = _ending_after(made_at, chosen)
    material = read(chosen.choices, whole=True, stage=stage, word=as_option)
    source = {**material.study.source, "tracking_uri": job["address"]}
    material = replace(material, study=replace(material.study, source=source))
    comparison = comparison_of(material, chosen.choices, whole=True, stage=stage)
    _held.append(_Held(job["reads"], chosen, material, made_at, ahead, (chosen, comparison)))
    return _held[0]


def _ending_after(moment: int, chosen: PageSelection) -> int:
    """How many runs of the selection, up to `NEW`, say that they ended after a moment."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    from mlflow_mleval.store import schema

    rule, own = f"attributes.end_time > {moment}", chosen.choices["filter_string"]
    asked = f"{rule} and {own}" if own.strip() else rule
    try:
        runs = MlflowClient().search_runs([*chosen.experiment_ids], asked, max_results=NEW)
    except MlflowException:  # reading says what is the matter
        return 0
    return sum(run.data.tags.get(schema.TAG_KIND) not in schema.RECORDS for run in runs)


def _answer(job: Job, tell: Tell) -> dict[str, Any]:
    """What a reader sees first; the rest is made when somebody asks for it."""
    from mlflow_mleval.report.html import fragment

    held = _compared(job, tell)
    tell(step="writing", done=0, total=0)
    chosen, comparison = held.compared
    document, sections = held.sections()
    first = [s for s in sections if s.key in (*document.opened, "doubts")]
    about = [
        {
            "key": s.key,
            "title": plain(s.title),
            "hint": _in_words(s.key, plain(s.hint)),
            "open": s.key in document.opened,
            "evidence": s.evidence,
        }
        for s in sections
    ]
    return {
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
        "remedies": [
            {
                "at": at,
                "why": why,
                "ways": [{"what": what, "query": chosen.adding(more).query} for what, more in ways],
            }
            for at, why, ways in remedies(comparison.study, chosen.choices)
        ],
        "texts": {f"section/{s.key}": _in_words(s.key, fragment(s)) for s in first},
    }


def _in_words(key: str, text: str) -> str:
    """Doubts speak of the fields of the page, not of the flags of the command."""
    return without_flags(text) if key == "doubts" else text


def _undirected(study: Any) -> dict[str, str]:
    """Measures that were left out for want of a direction, with what their names suggest."""
    ways = {one.name: proposed_direction(one.name) for one in study.excluded if one.undirected}
    return {name: way for name, way in ways.items() if way and not is_cost(name)}


def remedies(study: Any, choices: Mapping[str, Any]) -> Iterator[tuple[str, str, _Ways]]:
    """What removes a doubt: the section of the number that it concerns, why, and the ways."""
    declared = {*choices["minimize"], *choices["maximize"]}
    unsure = [m for m in study.measures if m not in declared and direction_of(m) is None]

    def confirmed(measure: str = "", way: str = "") -> Mapping[str, Any]:
        """With the directions that were taken so far, and this one."""
        ways = {m: study.directions[m] for m in unsure} | ({measure: way} if measure else {})
        used = dict.fromkeys([*study.measures, *ways])
        return {
            "measures": [m for m in used if m not in (choices["measures"] or ())],
            **{f"{side}imize": [m for m, of in ways.items() if of == side] for side in _BETTER},
        }

    left = [
        (f"“{name}”: {_BETTER[way]} is better ✓", confirmed(name, way))
        for name, way in _undirected(study).items()
    ]
    if left:
        yield "decision", "Left out, for nobody has said which way is better", left[:DOUBTED]
    if unsure:
        told = [f"“{m}”: {_BETTER[study.directions[m]]}" for m in unsure[:DOUBTED]]
        more = [f"{len(unsure) - DOUBTED} more"] if len(unsure) > DOUBTED else []
        ways = [(f"{', '.join(told + more)} is better ✓", confirmed())]
        for m in unsure[:DOUBTED]:
            way = "min" if study.directions[m] == "max" else "max"
            which = f"“{m}”: " if len(unsure) > 1 else ""
            ways.append((f"{which}no, {_BETTER[way]} is better", confirmed(m, way)))
        yield "decision", "Nobody has said which way is better; this was taken", ways
    if study.filled:
        why = f"{count(len(study.filled), 'missing result')} counted as the dataset's worst"
        yield "ranking", why, [way for way in _GAPS if way[1]["missing"] != choices["missing"]]


def chips(study: Any) -> list[dict[str, Any]]:
    """What counts as method, dataset and repeat, with counts; and how many runs are left out."""
    counts = [(len(study.methods), "method"), (len(study.datasets), "dataset")]
    texts = [count(n, what) for n, what in counts] + [repeats_of(study)]
    out = sum(one.kind in ("run", "child run") for one in study.excluded)
    used = len(study.runs)
    if {"dataset", "method"} <= {*study.runs}:  # some went with their dataset or method
        cells = zip(study.runs["dataset"], study.runs["method"], strict=True)
        used = sum(cell in study.values.index for cell in cells)
    out += len(study.runs) - used
    texts.append(count(used, "run"))
    found = [{"text": text, "out": False} for text in texts if text]
    return found + ([{"text": f"{count(out, 'run')} left out", "out": True}] if out else [])


def _sections(comparison: Any, chosen: PageSelection) -> tuple[Any, list[Any]]:
    """The report about a comparison, and its sections with the late ones."""
    from mlflow_mleval.assembling import provenance
    from mlflow_mleval.report.blocks import Late
    from mlflow_mleval.report.content.beyond import (
        next_dataset_heading,
        over_time_blocks,
        over_time_heading,
    )
    from mlflow_mleval.report.content.study_report import document

    study = comparison.study
    runs = list(study.runs["run_id"])
    made_by = provenance(chosen.command, study.source, runs, comparison.options)
    address = f"{study.source['tracking_uri']}/mleval/?{chosen.query}"
    asked = chosen.choices["pair"]
    pair = asked if {*asked} <= {*comparison.order} else ()  # who was asked about may be left out
    report = document(comparison, {**made_by, "address": address}, pair=pair)
    sections = [*report.sections]
    if comparison.tells_of_next_dataset and not comparison.options["next_dataset"]:
        late = Late(lambda: _next_dataset(comparison))
        sections.insert(-1, replace(next_dataset_heading(comparison, late), evidence=True))
    if over_time := over_time_heading(comparison, Late(lambda: over_time_blocks(comparison, 0))):
        sections.insert(-1, replace(over_time, evidence=True))
    return report, sections


def _next_dataset(comparison: Any) -> Sequence[Any]:
    """What is said of the next dataset."""
    from mlflow_mleval.report.blocks import Text
    from mlflow_mleval.report.content.beyond import next_dataset_section

    asked = replace(comparison, options={**comparison.options, "next_dataset": True})
    section = next_dataset_section(asked)
    empty = "Fewer than two datasets have folds or repeats that can be compared."
    return [Text([empty])] if section is None else section.blocks


def _again(job: Job, tell: Tell) -> _Held | None:
    """What an answer was made of; None where this process holds its runs no more."""
    if not (_held and _held[0].reads == job["reads"] and _held[0].made == job["of"]):
        return None
    return _compared({**job, "newer": 0}, tell)


def _part(job: Job, tell: Tell) -> dict[str, Any]:
    """A part of an answer: a section, that over time also by each so many runs, the answer as a
    paragraph, the list of its files, each of these, details. A KeyError where there is no such
    part.
    """
    from mlflow_mleval.report.content.beyond import over_time_blocks
    from mlflow_mleval.report.content.details import section as details
    from mlflow_mleval.report.html import fragment

    held = _again(job, tell)
    if held is None:
        return {"gone": True}
    comparison = held.compared[1]
    kind, _, name = job["part"].partition("/")
    if kind == "detail":
        return {"texts": {"text": fragment(details(comparison, **job["question"], base="../"))}}
    report, sections = held.sections()
    if kind == "section":
        key, _, each = name.partition("/")
        section = {s.key: s for s in sections}[key]
        if each:
            section = replace(section, blocks=over_time_blocks(comparison, int(each)))
        text = fragment(section)
    elif kind == "text":
        text = plain(report.text)
    else:
        files = files_of(report)
        text = json.dumps([*files]) if kind == "files" else files[name]()
    return {"texts": {"text": text}}


def plain(text: str) -> str:
    """A text of a report without its markup, safe to be shown."""
    from mlflow_mleval.report import blocks
    from mlflow_mleval.report.text import terminal

    return terminal(blocks.plain(text))


def files_of(document: Any) -> dict[str, Callable[[], str]]:
    """What there is to download, and how each is made."""
    made: dict[str, Callable[[], Any]] = {}
    made |= {name: partial(document.render, format) for format, name in FILES.items()}
    made |= document.parts()
    for i, (title, svg) in enumerate(document.figures().items(), 1):
        words = re.findall("[a-z0-9]+", title.lower())
        made[f"{i:02}-{'-'.join(words)[:60]}.svg"] = partial(str, svg)
    return {name: partial(_whole, make) for name, make in made.items()}


def _whole(make: Callable[[], Any]) -> str:
    """A text that may be made in pieces."""
    made = make()
    return made if isinstance(made, str) else "".join(made)


def _store(job: Job, tell: Tell) -> dict[str, Any]:
    """Store the report of an answer as the member whose token the job has."""
    from mlflow.utils.mlflow_tags import MLFLOW_SOURCE_NAME, MLFLOW_SOURCE_TYPE, MLFLOW_USER

    from mlflow_mleval.store import artifacts, schema
    from mlflow_mleval.store.runs import about_report, log_report

    tell(step="storing", done=0, total=0)
    held = _again(job, tell)
    if held is None:
        return {"gone": True}
    files = files_of(held.sections()[0])
    page, summary = (files[FILES[format]]() for format in ("html", "md"))
    paths = {schema.ARTIFACT_REPORT: page, schema.ARTIFACT_SUMMARY: summary}
    for name in files:
        if name.endswith((".json", ".csv")):
            paths[f"{schema.ARTIFACT_FOLDER}/{name}"] = files[name]()
    large = [path for path, text in paths.items() if len(text.encode()) > artifacts.MOST_BYTES]
    if schema.ARTIFACT_REPORT in large:
        most = artifacts.MOST_BYTES >> 20
        raise StoreError(
            f"the report is larger than the {most} MiB that MLflow takes in one piece. Download it."
        )
    about = about_report(held.compared[1], asked=held.compared[0].choices)
    about["tags"] |= {
        MLFLOW_USER: job["user"],
        MLFLOW_SOURCE_NAME: job["address"] + "/mleval/",
        MLFLOW_SOURCE_TYPE: "LOCAL",
    }
    small = {path: text for path, text in paths.items() if path not in large}
    run_id = log_report(small, summary=summary, **about)
    return {"run_id": run_id, "experiment_id": about["experiment_id"], "left_out": large}


# --------------------------------------------------------------------------------------------------
# What the chosen runs hold, and the form set to it.


def _survey(job: Job, tell: Tell) -> dict[str, Any]:
    from mlflow_mleval.store import store
    from mlflow_mleval.store.survey import take_stock

    chosen = parsed(job["given"])
    with store.remembered(), _stages(tell)("reading", "runs") as step:
        study, survey = take_stock(Selection.of(chosen.choices), progress=step)
        set_to, study, ways = form_of(chosen, study, survey)
    notes = [note for note in survey.notes if not survey.problem or survey.problem not in note]
    told = replace(survey, notes=tuple(notes)).worded(as_field)
    shown = {
        "survey": replace(told, notes=tuple(map(without_flags, told.notes))),
        "study": study,
        "selection": {name: list(values) for name, values in set_to.given},
        "ways": [{"what": what, "query": way.query} for what, way in ways],
        "problem": _on_page(worded(survey.problem, as_field), job),
        "repeats": repeats_of(study),
        "further": further_options(),
        "values": offered(),
    }
    return {"texts": {"text": rendered("survey.html.j2", **shown)}}


def form_of(
    chosen: PageSelection, study: Any, survey: Any
) -> tuple[PageSelection, Any, list[tuple[str, PageSelection]]]:
    """To what the form is set, the study that this compares, None where it stops, and how it may be
    set else: as it was asked, or where nobody has said yet how to read these runs, as the survey
    proposes and the answer takes it, each direction declared, to be seen and confirmed.
    """
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
    per_cell = study.repeats.groupby(level=["dataset", "method"]).size()
    low, high = int(per_cell.min()), int(per_cell.max())
    return f"{high} repeats" if low == high else f"{low} to {high} repeats"


# --------------------------------------------------------------------------------------------------
# The gate: may this run replace that one?


def _gate(job: Job, tell: Tell) -> dict[str, Any]:
    """The verdict on the runs `job["sides"]`, or on two methods; it is stored nowhere."""
    from mlflow_mleval.assembling import provenance
    from mlflow_mleval.gates import gate
    from mlflow_mleval.report.content.gate import document
    from mlflow_mleval.report.html import fragment
    from mlflow_mleval.store.survey import taken_for_units

    tell(step="judging", done=0, total=0)
    how = parsed_gate(job["how"])
    options = {name: value for name, value in how.choices.items() if value not in ((), None)}
    if "margins" in options:
        options["margins"] = _margins(options["margins"])
    read = Selection()
    if job["given"]:  # read as for the answer, so that its methods are there
        asked = replace(Selection.of(parsed(job["given"]).choices), methods=None)
        read, _ = taken_for_units(asked)
    candidate, champion = job["sides"]
    verdict = gate(candidate, champion, **{**options, **read.arguments()})
    names = dict(zip(SIDES, job["names"], strict=True))
    source = {**verdict.source, "tracking_uri": job["address"]}
    notes = tuple(worded(note, as_field) for note in verdict.notes)
    verdict = replace(verdict, **names, source=source, notes=notes)
    run_ids = [run_id for ids in verdict.runs.values() for run_id in ids]
    flags = [*how.flags(gate_options()), *read.options()]
    command = command_line(["mleval", "gate", candidate, "--champion", champion], flags)
    report = document(verdict, provenance(command, source, run_ids, {}))
    parts = [{"title": plain(s.title), "html": fragment(s)} for s in report.sections]
    about = {"title": plain(report.title), "decision": verdict.decision}
    return {"texts": {"text": rendered("verdict.html.j2", parts=parts, **about)}}


def _margins(stated: Sequence[float | dict[str, float]]) -> float | dict[str, float]:
    """One number for all measures, or numbers by name."""
    by_name: dict[str, float] = {}
    for each in stated:
        if not isinstance(each, dict):
            return each
        by_name |= each
    return by_name
