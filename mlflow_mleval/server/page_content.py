"""What the worker makes: the answer to a selection with its files, what a selection holds, details,
and a stored report.
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
from dataclasses import replace
from functools import cache
from inspect import signature
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mlflow_mleval import __version__
from mlflow_mleval.errors import CandidatesError, MissingResultsError, MlevalError, StoreError
from mlflow_mleval.redaction import redacted
from mlflow_mleval.server.answer_cache import CacheFolder
from mlflow_mleval.server.page_selection import PageSelection, field_of, in_fields, in_words, parsed

Tell = Callable[..., None]
#: Seconds between two lines of progress.
_OFTEN = 0.2
#: Runs that a page reads at most.
MOST_RUNS = 20_000


def warm() -> None:
    """Import what answers need, and have it do what is slow the first time."""
    import mlflow
    import pandas as pd
    from mlflow import MlflowClient  # noqa: F401
    from mlflow.store.tracking.rest_store import RestStore  # noqa: F401

    from mlflow_mleval import assembling
    from mlflow_mleval.analysis.comparison import compare
    from mlflow_mleval.report.content.listings import found_document  # noqa: F401
    from mlflow_mleval.report.content.study_report import document
    from mlflow_mleval.report.html import fragment
    from mlflow_mleval.study import Study
    from mlflow_mleval.tracking import query, read_profiles, reports, stock  # noqa: F401

    assert mlflow and assembling
    frame = pd.DataFrame(
        {"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]}
    )
    for section in document(compare(Study.from_frame(frame)), {}).sections:
        fragment(section)


def make(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., None]
) -> None:
    """Do the job; `hold` then answers questions about it. A failure is told, not raised."""
    from mlflow_mleval.tracking import artifact_routes

    os.environ["MLFLOW_TRACKING_URI"] = job["server"]
    os.environ["MLFLOW_TRACKING_TOKEN"] = job["token"]
    artifact_routes.go_by_routes()
    try:
        {"answer": _answer, "survey": _survey, "store": _store}[job["what"]](
            folder, key, job, tell, hold
        )
    except Exception as error:
        tell(state="failed", **failure(error, job))


class TooManyError(StoreError):
    """More runs are selected than the page reads."""


def failure(error: Exception, job: dict[str, Any]) -> dict[str, Any]:
    """What the reader is told of an error, and what may be done about it."""
    status, text, field = 409, str(error), None
    ways: Sequence[tuple[str, Mapping[str, Any]]] = ()
    if isinstance(error, CandidatesError):
        text, ways = error.text, error.ways
    elif isinstance(error, MissingResultsError):
        text, ways = text.partition(" Choose what")[0], _GAPS
    elif isinstance(error, TooManyError):
        status = 413
    elif isinstance(error, StoreError):
        status, field = (400, "filter") if "does not accept the filter" in text else (503, None)
    elif isinstance(error, ValueError):
        status, about = 400, re.match("`([a-z_]+)`", text)
        field = about and field_of(about[1])
    elif not isinstance(error, MlevalError):
        traceback.print_exc(file=sys.stderr)
        status, text = 500, "Something went wrong that nobody foresaw. The server's log says what."
    chosen, said = (
        parsed(job["given"]),
        in_fields(redacted(text.replace(job["server"], job["address"]))),
    )
    return {
        "status": status,
        "error": " ".join(said.split()),
        "field": field,
        "ways": [{"what": what, "query": chosen.adding(more).query} for what, more in ways],
    }


#: What can be done about methods without a result on a dataset.
_GAPS = (
    ("give them the worst value of the dataset", {"missing": "worst"}),
    ("leave out the datasets that have gaps", {"missing": "drop-datasets"}),
    ("leave out the methods that have gaps", {"missing": "drop-methods"}),
)


def _answer(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., None]
) -> None:
    from mlflow_mleval.assembling import compared
    from mlflow_mleval.report.html import fragment
    from mlflow_mleval.tracking.reports import described

    made = int(time.time() * 1000)
    chosen = parsed(job["given"])
    comparison = compared(chosen.choices, whole=True, stage=_stages(tell), worded=in_words)
    tell(state="working", step="writing", done=0, total=0)
    study = comparison.study
    comparison = replace(
        comparison, study=replace(study, source={**study.source, "tracking_uri": job["address"]})
    )
    document = _document(comparison, chosen)
    names = file_names(document)
    about = {
        "made": made,
        "title": _plain(document.title),
        "about": _plain(document.about),
        "runs": len(study.runs),
        "files": names,
        "experiments": study.source["experiments"],
        "sections": [
            {
                "key": s.key,
                "title": _plain(s.title),
                "hint": _plain(s.hint),
                "open": s.open or i < 4,
            }
            for i, s in enumerate(document.sections)
        ],
    }
    sections = [(f"section/{s.key}", fragment(s)) for s in document.sections]
    folder.write(key, [("about.json", json.dumps(about)), *sections])

    def write_files() -> None:
        tell(state="done")
        os.environ.pop("MLFLOW_TRACKING_TOKEN", None)
        stored = json.dumps(described(comparison, asked=chosen.choices), default=str)
        folder.write(
            f"{key}f",
            [*((f"file/{name}", text) for name, text in _files(document)), ("store.json", stored)],
        )

    def detail(question: dict[str, Any]) -> dict[str, Any]:
        if not question:
            return {}
        try:
            return {"html": _detail(comparison, **question)}
        except Exception as error:
            return failure(error, job)

    hold(detail, write_files)


def _document(comparison: Any, chosen: PageSelection) -> Any:
    from mlflow_mleval.assembling import provenance
    from mlflow_mleval.report.content.study_report import document

    study = comparison.study
    return document(
        comparison,
        provenance(chosen.command, study.source, list(study.runs["run_id"]), comparison.options),
    )


def _plain(text: str) -> str:
    from mlflow_mleval.report.document import plain
    from mlflow_mleval.report.escape import terminal

    return terminal(plain(text))


#: What a report is called in each format.
_FORMATS = {"report.html": "html", "report.md": "md", "report.tex": "latex"}


def _svg_name(title: str, i: int) -> str:
    words = "".join(char if char.isascii() and char.isalnum() else "-" for char in title.lower())
    return f"{i:02}-{'-'.join(filter(None, words.split('-')))[:60]}.svg"


def file_names(document: Any) -> list[str]:
    """What there is to download."""
    from mlflow_mleval.report.document import PAGE, Figure

    titles = dict.fromkeys(
        b.svg.title for s in document.sections for b in s.linear(PAGE) if isinstance(b, Figure)
    )
    tables = [f"{name}.csv" for name, frame in document.frames().items() if len(frame)]
    return [
        *_FORMATS,
        "report.json",
        *tables,
        *(_svg_name(title, i) for i, title in enumerate(titles, 1)),
    ]


def _files(document: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, document.render(format)) for name, format in _FORMATS.items())
    yield from document.parts()
    yield from (
        (_svg_name(title, i), svg) for i, (title, svg) in enumerate(document.figures().items(), 1)
    )


def _detail(
    comparison: Any, of: str, method: str = "", dataset: str = "", against: str = ""
) -> str:
    from mlflow_mleval.report.content.details import section
    from mlflow_mleval.report.html import fragment

    return fragment(
        section(comparison, of, method=method, dataset=dataset, against=against, base="../")
    )


@cache
def _environment() -> Environment:
    from mlflow_mleval.report.escape import terminal

    made = Environment(
        loader=PackageLoader("mlflow_mleval.server", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters["shown"] = (
        terminal  # names of strangers, without what would turn the text around them
    )
    made.filters["said"] = lambda text: in_fields(terminal(text))
    return made


def rendered(template: str, **values: Any) -> str:
    """A page or a fragment of the templates beside this module."""
    return _environment().get_template(template).render(version=__version__, **values)


def _survey(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., None]
) -> None:
    from mlflow_mleval.tracking.query import load_study
    from mlflow_mleval.tracking.stock import take_stock

    made = int(time.time() * 1000)
    chosen = parsed(job["given"])
    taken = {
        name: chosen.choices[name]
        for name in signature(load_study).parameters
        if name in chosen.choices
    }
    with _stages(tell)("reading", "runs") as step:
        study, found = take_stock(**taken, progress=step)
    found = replace(found, problem=found.problem.replace(job["server"], job["address"]))
    ways = [
        {"what": way.what, "query": chosen.adding(way.options).query}
        for way in found.ways
        if way.command == "rank"
    ]
    given = {name: list(values) for name, values in chosen.given}
    fragment = rendered("survey.html.j2", survey=found, study=study, selection=given, ways=ways)
    folder.write(key, [("about.json", json.dumps({"made": made})), ("survey", fragment)])
    tell(state="done")


def _store(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., None]
) -> None:
    """Store the report that the answer `job["of"]` has among its files, as the member whose token
    the job has.
    """
    from mlflow.utils.mlflow_tags import MLFLOW_SOURCE_NAME, MLFLOW_SOURCE_TYPE, MLFLOW_USER

    from mlflow_mleval.tracking import artifact_routes, schema
    from mlflow_mleval.tracking.reports import log_report

    tell(state="working", step="storing", done=0, total=0)
    files, about = f"{job['of']}f", folder.read(f"{job['of']}f", "store.json")
    if about is None:
        raise StoreError("the answer is not there any more. Compare again.")
    held = {
        name.removeprefix("file/"): folder.read(files, name) or ""
        for name in folder.names(files)
        if name != "store.json"
    }
    page, summary = held.pop("report.html"), held.pop("report.md")
    paths = {schema.ARTIFACT_REPORT: page, schema.ARTIFACT_SUMMARY: summary}
    paths |= {
        f"{schema.ARTIFACT_FOLDER}/{name}": text
        for name, text in held.items()
        if name.endswith((".json", ".csv"))
    }
    large = [
        path for path, text in paths.items() if len(text.encode()) > artifact_routes.MOST_BYTES
    ]
    if schema.ARTIFACT_REPORT in large:
        most = artifact_routes.MOST_BYTES >> 20
        raise StoreError(
            f"the report is larger than the {most} MiB that MLflow takes in one piece. Download it."
        )
    said = json.loads(about)
    said["tags"] |= {
        MLFLOW_USER: job["user"],
        MLFLOW_SOURCE_NAME: job["address"] + "/mleval/",
        MLFLOW_SOURCE_TYPE: "LOCAL",
    }
    kept = {path: text for path, text in paths.items() if path not in large}
    run_id = log_report(kept, summary=summary, **said)
    folder.write(
        key,
        [
            (
                "about.json",
                json.dumps(
                    {
                        "made": int(time.time() * 1000),
                        "run_id": run_id,
                        "experiment_id": said["experiment_id"],
                        "left_out": large,
                    }
                ),
            )
        ],
    )
    tell(state="done")


def _stages(tell: Tell) -> Callable[[str, str], Any]:
    """Progress as lines to the worker, a few a second."""

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
            if time.monotonic() - last >= _OFTEN:
                last = time.monotonic()
                tell(state="working", step=what, done=done, total=total)

        tell(state="working", step=what, done=0, total=0)
        yield step

    return stage
