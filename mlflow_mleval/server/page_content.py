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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import click
from jinja2 import Environment, PackageLoader, StrictUndefined

from mlflow_mleval.cli import main
from mlflow_mleval.cli.command import Option
from mlflow_mleval.errors import (
    CandidatesError,
    MissingResultsError,
    MlevalError,
    StoreError,
    UnclearError,
)
from mlflow_mleval.report import FILES
from mlflow_mleval.selection import (
    DIGEST,
    FLAGS,
    METHOD_RULES,
    MISSING,
    POLICIES,
    Selection,
    command_line,
)
from mlflow_mleval.server.answer_cache import CacheFolder
from mlflow_mleval.words import Argument, __version__, argument_of, redacted, worded

# --------------------------------------------------------------------------------------------------
# What a reader of the page chose: in the address, as choices of a comparison, and as the command
# that reports the same.

#: Options of `mleval report` that the page does not have: it knows experiments by id, and what it
#: makes goes nowhere else.
_ELSEWHERE = {
    "experiment_names",
    "run_ids",
    "n_resamples",
    "log",
    "log_to",
    "format",
    "filename",
    "quiet",
    "verbose",
    "timeout",
}
#: Options that the form sets by controls of their own; all others it has in a fold, as they are
#: declared.
_SHAPED = {
    *FLAGS,
    *("max_correlation", "preference", "weights", "p", "q", "s"),
    *("on", "order", "test", "correction", "control", "alpha", "rope", "seed"),
}
#: Most values of an option, characters of a value and experiments of a selection.
MOST, LONGEST, EXPERIMENTS = 200, 5_000, 50
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_YES = ("", "1", "true", "on", "yes")


class SelectionError(ValueError):
    """A field of the selection cannot be taken as it is.

    Attributes
    ----------
    field : str
        Its name in the address, which is that of the option without dashes.
    """

    def __init__(self, field: str, text: str) -> None:
        self.field = field
        super().__init__(text)


@cache
def options() -> dict[str, click.Option]:
    """The options of `mleval report` that a selection may hold, by their names in the address, in
    the order of the help.
    """
    taken = [
        p
        for p in main.commands["report"].params
        if isinstance(p, click.Option) and p.name not in _ELSEWHERE
    ]
    return {max(option.opts, key=len).removeprefix("--"): option for option in taken}


#: Options, by their names in the address, by which runs are compared and not read; measures can be
#: left out of what was read.
COMPARING = {
    "control",
    "correction",
    "drop-constant",
    "exclude-measure",
    "missing-is-failure",
    "next",
    "on",
    "order",
    "p",
    "preference",
    "q",
    "rope",
    "s",
    "test",
    "ties",
    "weights",
}


@dataclass(frozen=True)
class PageSelection:
    """A selection, each value as it was given; what equals the default is left out.

    Attributes
    ----------
    given : tuple of (str, tuple of str)
        Names in the address and values, in the order of the options.
    choices : mapping
        The same as arguments of Python, of all options.
    """

    given: tuple[tuple[str, tuple[str, ...]], ...]
    choices: Mapping[str, Any]

    @property
    def experiment_ids(self) -> tuple[str, ...]:
        return self.choices["experiment_ids"]

    @property
    def query(self) -> str:
        """For the address; the same for every way to give the same."""
        return urlencode([(name, value) for name, values in self.given for value in values])

    @property
    def command(self) -> str:
        """The command that reports the same."""
        return command_line(["mleval", "report"], _flags(self, options()))

    @property
    def runs_only(self) -> PageSelection:
        """The selection without what only the comparison heeds: the same for all that read the same
        runs.
        """
        return self.without(*COMPARING)

    def without(self, *names: str) -> PageSelection:
        """The selection as the address says it, without these names."""
        given = [(name, values) for name, values in self.given if name not in names]
        return replace(self, given=tuple(given))

    def key(self, *more: str) -> str:
        """A name for whatever this selection yields, among strangers' selections."""
        return sha256("\0".join([self.query, *more]).encode()).hexdigest()[:32]

    def adding(self, arguments: Mapping[str, Any]) -> PageSelection:
        """The selection with further arguments of Python; those that may be repeated are added to,
        others replaced.
        """
        values = {name: list(given) for name, given in self.given}
        for name, option in options().items():
            if option.name not in arguments:
                continue
            new = arguments[option.name]
            new = (
                [new]
                if isinstance(new, str)
                else [*map(str, new)]
                if isinstance(new, Iterable)
                else [str(new)]
            )
            values[name] = [*values.get(name, ()), *new] if option.multiple else new[-1:]
        return parsed(values)

    def reading(self, selection: Selection) -> PageSelection:
        """The same experiments and tests, read as that selection says."""
        own = {name: given for name, given in self.given if options()[name].name not in FLAGS}
        own["experiment-id"] = self.experiment_ids
        named = ("experiment_ids", "experiment_names", "run_ids")
        rules = {k: v for k, v in selection.arguments().items() if k not in named}
        return parsed(own).adding(rules)


def _flags(
    chosen: PageSelection, taken: Mapping[str, click.Option]
) -> list[tuple[str, str | None]]:
    """What was chosen, as it is typed."""
    return [
        (f"--{name}", None if taken[name].is_flag else value)
        for name, values in chosen.given
        for value in values
    ]


def parsed(values: Mapping[str, Iterable[str]]) -> PageSelection:
    """The selection that these values make; names that no option has are for others.

    Raises
    ------
    SelectionError
        A value is none that the option takes.
    """
    selection = _parsed(values, options())
    _check_experiments(selection.choices["experiment_ids"])
    return selection


def _parsed(
    values: Mapping[str, Iterable[str]], taken: Mapping[str, click.Option]
) -> PageSelection:
    """What these values make of these options."""
    given: list[tuple[str, tuple[str, ...]]] = []
    choices: dict[str, Any] = {}
    context = click.Context(main)
    for name, option in taken.items():
        texts = [text for text in values.get(name, ()) if text or option.is_flag]
        _check_texts(name, texts)
        if option.multiple:
            texts = list(dict.fromkeys(texts))
            choices[option.name] = tuple(_converted(option, name, text) for text in texts)
        elif option.is_flag:
            on = bool(texts) and texts[-1].lower() in _YES
            texts = ["1"] if on else []
            choices[option.name] = option.callback(context, option, on) if option.callback else on
        else:
            default = option.default if isinstance(option.default, str | int | float) else None
            value = _converted(option, name, texts[-1]) if texts else default
            texts = texts[-1:] if value != default else []
            choices[option.name] = value
        if texts:
            given.append((name, tuple(texts)))
    return PageSelection(tuple(given), choices)


def _check_texts(name: str, texts: Sequence[str]) -> None:
    if len(texts) > MOST or any(len(text) > LONGEST for text in texts):
        raise SelectionError(
            name, f"at most {MOST} values of {LONGEST:,} characters each. Name fewer."
        )
    if any(not text.isprintable() for text in texts):
        raise SelectionError(name, "it holds a character that cannot be shown. Leave it out.")


def _check_experiments(ids: Sequence[str]) -> None:
    if wrong := [i for i in ids if not _ID.fullmatch(i)]:
        raise SelectionError(
            "experiment-id",
            f"{wrong[0][:40]!r} is no id of an experiment. Choose one from the list.",
        )
    if len(ids) > EXPERIMENTS:
        raise SelectionError(
            "experiment-id",
            f"{len(ids)} experiments are chosen; {EXPERIMENTS} are the most. Choose fewer.",
        )


def _converted(option: click.Option, name: str, text: str) -> Any:
    try:
        return option.type.convert(text, option, None)
    except click.BadParameter as error:
        raise SelectionError(name, error.message) from error


def field_of(argument: str) -> str | None:
    """The name in the address of an argument of Python; None where the page has none."""
    return next((name for name, option in options().items() if option.name == argument), None)


def as_option(argument: Argument) -> str:
    """An argument of Python as an option of `mleval report`, as the stored report has it."""
    name = field_of(argument.name)
    return f"--{name} {argument.plain}".rstrip() if name else str(argument)


#: What the page calls its fields, by the argument of Python of which sentences speak.
_FIELDS = {
    "method_by": "methods",
    "dataset_by": "datasets",
    "repeats_by": "repeats",
    "folds_by": "folds",
    "children": "child runs",
    "step": "metrics by epoch",
    "duplicates": "runs that differ",
    "missing": "missing results",
    "minimize": "smaller is better",
    "maximize": "larger is better",
    "weights": "weights",
    "measures": "measures",
    "exclude_measures": "measures left out",
    "on": "compared by",
    "control": "compared with",
    "filter_string": "only runs that match",
    "directions": "directions",
    "methods": "methods",
    "datasets": "datasets",
    "exclude_methods": "methods left out",
    "exclude_datasets": "datasets left out",
    "margins": "margin",
    "slices": "slice",
}


def as_field(argument: Argument) -> str:
    """An argument of Python as a field of the page.

    >>> as_field(Argument("children", "best:METRIC")), as_field(Argument("measures"))
    ('“child runs: best:METRIC”', '“measures”')
    """
    name = _FIELDS.get(argument.name)
    value = argument.plain and f": {argument.plain}"
    return f"“{name}{value}”" if name else str(argument)


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
    from mlflow_mleval.store import query, study_artifacts  # noqa: F401
    from mlflow_mleval.study import Study

    assert mlflow and assembling
    frame = pd.DataFrame(
        {"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]}
    )
    for section in document(compare(Study.from_frame(frame)), {}).sections:
        fragment(section)


def make(
    folder: CacheFolder, job: dict[str, Any], tell: Tell, hold: Callable[..., Any]
) -> dict[str, Any] | None:
    """Do the job; `hold` then answers questions about it, and may return another one about the same
    runs. A failure is told, not raised.
    """
    from mlflow_mleval.store import artifacts

    os.environ["MLFLOW_TRACKING_URI"] = job["server"]
    os.environ["MLFLOW_TRACKING_TOKEN"] = job["token"]
    artifacts.go_by_routes()
    try:
        kinds = {"answer": _answer, "survey": _survey, "store": _store, "gate": _gate}
        return kinds[job["what"]](folder, job["key"], job, tell, hold)
    except Exception as error:
        tell(state="failed", **failure(error, job))
    return None


class TooManyError(StoreError):
    """More runs are selected than the page reads."""


def failure(error: Exception, job: dict[str, Any]) -> dict[str, Any]:
    """What the reader is told of an error, and what may be done about it."""
    status, text, field = 409, str(error), None
    ways: Sequence[tuple[str, Mapping[str, Any]]] = ()
    if isinstance(error, CandidatesError):
        text, ways = error.text, _mean_first(error)
    elif isinstance(error, UnclearError):
        ranked = [way for way in error.ways if way.command == "rank"]
        text, ways = error.text, [(way.what, way.selection.arguments()) for way in ranked]
    elif isinstance(error, MissingResultsError):
        text, ways = error.text, error.ways or _GAPS
    elif isinstance(error, TooManyError):
        status = 413
    elif job["what"] == "store" and "permission denied" in text.lower():
        status, text = 403, _READ_ONLY
    elif isinstance(error, StoreError):
        status, field = (400, "filter") if "does not accept the filter" in text else (503, None)
    elif isinstance(error, ValueError):
        status, field = 400, field_of(argument_of(error))
    elif not isinstance(error, MlevalError):
        traceback.print_exc(file=sys.stderr)
        status, text = 500, "Something went wrong that nobody foresaw. The server's log says what."
    chosen = parsed(job["given"])
    if status == 409:
        ways = [*ways, *_asked_for(error, chosen)]
        named = [(what, chosen.adding(more)) for what, more in ways] + _without(text, chosen)
    else:
        named = []
    text = _without_flags(worded(text, as_field))
    if job["what"] == "gate":
        text = re.sub("`([a-z_]+)`", lambda name: f"“{_FIELDS.get(name[1], name[1])}”", text)
        field = next((name for name in (*SIDES, *gate_options()) if f"“{name}”" in text), None)
    text = redacted(text.replace(job["server"], job["address"]))
    return {
        "status": status,
        "error": " ".join(text.split()),
        "field": field,
        "ways": [{"what": what, "query": way.query} for what, way in named],
    }


def _asked_for(error: Exception, chosen: PageSelection) -> list[tuple[str, Mapping[str, Any]]]:
    """The way that a message itself names: to take the directions that names suggest."""
    parts = getattr(str(error), "parts", ())
    named = Argument("directions", "proposed") in parts
    if not named or chosen.choices["directions"] == "proposed":
        return []
    return [("take the directions that their names suggest", {"directions": "proposed"})]


def _without(text: str, chosen: PageSelection) -> list[tuple[str, PageSelection]]:
    """The selection without what the message says is not there."""
    ways = []
    for name, values in chosen.given:
        argument = options()[name].name or ""
        for value in values if argument not in ("experiment_ids", "filter_string") else ():
            if repr(value) in text or f"({value})" in text:
                rest = {n: v for n, v in chosen.given if n != name}
                rest[name] = tuple(v for v in values if v != value)
                what = f"go on without “{_FIELDS.get(argument, argument)}: {value}”"
                ways.append((what, parsed(rest)))
    return ways


#: What a member hears who wants a report stored where they may only read.
_READ_ONLY = (
    "You may read these runs, but not store a report beside them: that takes the right to edit "
    "the experiment. Ask its owner, or download the report."
)
#: What can be done about methods without a result on a dataset.
_GAPS = (
    ("give them the worst value of the dataset", {"missing": "worst"}),
    ("leave out the datasets that have gaps", {"missing": "drop-datasets"}),
    ("leave out the methods that have gaps", {"missing": "drop-methods"}),
)


@dataclass
class _Held:
    """What this process has read and compared: further jobs are about the same runs."""

    chosen: PageSelection
    material: Any
    made: int  #: when it was read, in milliseconds
    compared: tuple[PageSelection, Any] | None = None

    @classmethod
    def of(cls, job: dict[str, Any], chosen: PageSelection, tell: Tell) -> _Held:
        """What is read now."""
        from mlflow_mleval.assembling import read

        made = int(time.time() * 1000)
        material = read(chosen.choices, whole=True, stage=_stages(tell), word=as_option)
        source = {**material.study.source, "tracking_uri": job["address"]}
        study = replace(material.study, source=source)
        return cls(chosen, replace(material, study=study), made)

    def without_measures(self, chosen: PageSelection) -> Any:
        """What was read, without the further measures that are left out now; None where it would
        have been read otherwise.
        """
        before, now = ({*one.choices["exclude_measures"]} for one in (self.chosen, chosen))
        more = now - before
        if before - now or not self.material.can_lose(more):
            return None
        return self.material.without(more) if more else self.material

    def comparison(self, chosen: PageSelection, material: Any, tell: Tell) -> Any:
        """What is compared; by other weights than before, what these change is made anew."""
        from mlflow_mleval.assembling import comparison_of

        before = None
        if self.compared and self.compared[0].without("weights") == chosen.without("weights"):
            before = self.compared[1]
        stage = _stages(tell)
        made = comparison_of(material, chosen.choices, whole=True, stage=stage, before=before)
        self.compared = chosen, made
        return made


#: What this process holds, if anything.
_HELD: list[_Held] = []


def _compared(job: dict[str, Any], chosen: PageSelection, tell: Tell) -> tuple[Any, int]:
    """The comparison, and when its runs were read."""
    material = _HELD[0].without_measures(chosen) if _HELD else None
    if material is None:
        _HELD[:] = [_Held.of(job, chosen, tell)]
        material = _HELD[0].material
    return _HELD[0].comparison(chosen, material, tell), _HELD[0].made


def _answer(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., Any]
) -> Any:
    """Write what a reader sees first, then hold the comparison and make the rest of the answer when
    somebody asks for it.
    """
    from mlflow_mleval.report.html import fragment

    chosen = parsed(job["given"])
    comparison, made = _compared(job, chosen, tell)
    tell(state="working", step="writing", done=0, total=0)
    study = comparison.study
    parts = _Parts(comparison, chosen)
    document, sections = parts.document, parts.sections
    about = {
        "made": made,
        "title": _plain(document.title),
        "about": _plain(document.about),
        "runs": len(study.runs),
        "leader": _plain(comparison.order[0]),
        "experiments": study.source["experiments"],
        "sections": [
            {
                "key": s.key,
                "title": _plain(s.title),
                "hint": _plain(s.hint),
                "open": s.key in document.opened,
            }
            for s in sections
        ],
    }
    first = [s for s in sections if s.key in (*document.opened, "doubts")]
    texts = [(f"section/{s.key}", fragment(s)) for s in first]

    def publish() -> None:
        folder.write(key, [("about.json", json.dumps(about)), *texts])
        tell(state="done", made=made)
        os.environ.pop("MLFLOW_TRACKING_TOKEN", None)

    def asked(question: dict[str, Any]) -> dict[str, Any]:
        try:
            if "part" not in question:
                return {"html": _detail(comparison, **question)}
            written = part_key(key, made, question["part"])
            if not folder.names(written):
                folder.write(written, parts.made(question["part"]))
                folder.shrink()
            return {}
        except KeyError:
            return {"status": 404, "error": "The answer has no such part."}
        except Exception as error:
            return failure(error, job)

    return hold(key, asked, publish)


def part_key(key: str, made: int, part: str) -> str:
    """Under which name a part of an answer lies that was made when it was asked for."""
    return sha256(f"{key}\0{made}\0{part}".encode()).hexdigest()[:32]


class _Parts:
    """The parts of an answer, made when they are asked for: its sections, that over time also by
    each so many runs, the answer as a paragraph, the list of its files, each of these, and what is
    stored as a run. A KeyError where there is no such part.
    """

    def __init__(self, comparison: Any, chosen: PageSelection) -> None:
        from mlflow_mleval.report.blocks import Late
        from mlflow_mleval.report.content.beyond import next_dataset_heading, over_time_heading

        self.comparison, self.chosen = comparison, chosen
        self.document = _document(comparison, chosen)
        self.sections = [*self.document.sections]
        if comparison.tells_of_next_dataset and not comparison.options["next_dataset"]:
            late = Late(lambda: _next_dataset(comparison))
            self.sections.insert(-1, next_dataset_heading(comparison, late))
        if over_time := over_time_heading(comparison, Late(lambda: _over_time(comparison))):
            self.sections.insert(-1, over_time)

    def made(self, part: str) -> list[tuple[str, Any]]:
        """Names and texts of a part."""
        from mlflow_mleval.report.html import fragment

        kind, _, name = part.partition("/")
        if kind == "section":
            key, _, each = name.partition("/")
            section = {s.key: s for s in self.sections}[key]
            if each:
                section = replace(section, blocks=_over_time(self.comparison, int(each)))
            return [("text", fragment(section))]
        if kind == "text":
            return [("text", _plain(self.document.text))]
        if kind == "file":
            return [("text", self.files[name]())]
        if kind == "files":
            return [("text", json.dumps([*self.files]))]
        if kind == "store":
            return self._stored()
        raise KeyError(part)

    @cached_property
    def files(self) -> dict[str, Callable[[], Any]]:
        """What there is to download, and how each is made."""
        return files_of(self.document)

    def _stored(self) -> list[tuple[str, Any]]:
        from mlflow_mleval.store.runs import described

        asked = described(self.comparison, asked=self.chosen.choices)
        names = [FILES["html"], FILES["md"]]
        names += [name for name in self.files if name.endswith((".json", ".csv"))]
        files = [(f"file/{name}", self.files[name]()) for name in names]
        return [("store.json", json.dumps(asked, default=str)), *files]


def _document(comparison: Any, chosen: PageSelection) -> Any:
    from mlflow_mleval.assembling import provenance
    from mlflow_mleval.report.content.study_report import document

    study = comparison.study
    made_by = provenance(
        chosen.command, study.source, list(study.runs["run_id"]), comparison.options
    )
    address = f"{study.source['tracking_uri']}/mleval/?{chosen.query}"
    return document(comparison, {**made_by, "address": address})


def _plain(text: str) -> str:
    from mlflow_mleval.report.blocks import plain
    from mlflow_mleval.report.text import terminal

    return terminal(plain(text))


def _svg_name(title: str, i: int) -> str:
    words = "".join(char if char.isascii() and char.isalnum() else "-" for char in title.lower())
    return f"{i:02}-{'-'.join(filter(None, words.split('-')))[:60]}.svg"


def files_of(document: Any) -> dict[str, Callable[[], Any]]:
    """What there is to download, and how each is made."""
    made: dict[str, Callable[[], Any]] = {}
    made |= {name: partial(document.render, format) for format, name in FILES.items()}
    made |= document.parts()
    drawn = enumerate(document.figures().items(), 1)
    return made | {_svg_name(title, i): partial(str, svg) for i, (title, svg) in drawn}


def _next_dataset(comparison: Any) -> Sequence[Any]:
    """What is said of the next dataset."""
    from mlflow_mleval.report.blocks import Text
    from mlflow_mleval.report.content.beyond import next_dataset_section

    asked = replace(comparison, options={**comparison.options, "next_dataset": True})
    section = next_dataset_section(asked)
    empty = "Fewer than two datasets have folds or repeats that can be compared."
    return [Text([empty])] if section is None else section.blocks


def _over_time(comparison: Any, each: int = 0) -> Sequence[Any]:
    """What is said of earlier days, or of the time before each so many of the last runs."""
    from mlflow_mleval.report.content.beyond import over_time_blocks

    return over_time_blocks(comparison, each)


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
    from mlflow_mleval.report.text import terminal

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
    return made


def rendered(template: str, **values: Any) -> str:
    """A page or a fragment of the templates beside this module."""
    return _environment().get_template(template).render(version=__version__, **values)


def _survey(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., Any]
) -> None:
    from mlflow_mleval.store import store
    from mlflow_mleval.store.survey import take_stock

    made = int(time.time() * 1000)
    chosen = parsed(job["given"])
    with store.remembered(), _stages(tell)("reading", "runs") as step:
        study, survey = take_stock(Selection.of(chosen.choices), progress=step)
        form = _form(chosen, study, survey)
    notes = [note for note in survey.notes if not form.problem or form.problem not in note]
    survey = replace(survey, notes=tuple(notes)).worded(as_field)
    problem = _without_flags(worded(form.problem, as_field))
    problem = problem.replace(job["server"], job["address"])
    given = {name: list(values) for name, values in form.set_to.given}
    ways = [{"what": what, "query": way.query} for what, way in form.ways]
    shown = {"survey": survey, "study": form.study, "selection": given, "ways": ways}
    shown |= {"problem": problem, "repeats": _repeats(form.study), "further": further_options()}
    fragment = rendered("survey.html.j2", **shown, values=offered())
    folder.write(key, [("about.json", json.dumps({"made": made})), ("survey", fragment)])
    tell(state="done")


@dataclass(frozen=True)
class _Form:
    """How the form is set when it appears.

    Attributes
    ----------
    study : Study or None
        What that compares; None where it stops.
    problem : str
        Why it stops.
    ways : sequence of (str, PageSelection)
        How it may be set else, each as what it does.
    """

    set_to: PageSelection
    study: Any
    problem: str = ""
    ways: Sequence[tuple[str, PageSelection]] = ()


def _form(chosen: PageSelection, study: Any, survey: Any) -> _Form:
    """The form as it was set; where nobody has said yet how to read these runs, as the survey
    proposes it. What takes someone who knows stays open.
    """
    asked = Selection.of(chosen.choices)
    ranked = [way for way in survey.ways if way.command == "rank"]
    if asked.is_ruled or len(ranked) != 1 or ranked[0].study is None:
        ways = [(way.what, chosen.reading(way.selection)) for way in ranked]
        others = [(what, way) for what, way in ways if way != chosen]
        bogus = survey.foreign and not asked.is_ruled
        return _Form(chosen, None if bogus else study, survey.problem, others)
    way = ranked[0]
    if way.selection.duplicates == asked.duplicates:
        rules = _with_directions(way.selection, survey)
        return _Form(chosen.reading(rules), way.study, survey.problem)
    undecided = replace(way.selection, duplicates=asked.duplicates)
    undecided_form = chosen.reading(_with_directions(undecided, survey))
    stop = _stop(undecided)
    ways = [(what, undecided_form.adding(more)) for what, more in _mean_first(stop)]
    return _Form(undecided_form, None, stop.text, ways)


def _with_directions(selection: Selection, survey: Any) -> Selection:
    """The selection with each direction that was proposed declared, to be seen and confirmed."""
    if selection.directions != "proposed":
        return selection
    held = survey.metrics[survey.metrics["runs"] == survey.n_runs]
    smaller, larger = (
        held.loc[held["proposed"] == way, "metric"].tolist() for way in ("min", "max")
    )
    minimize, maximize = [*selection.minimize, *smaller], [*selection.maximize, *larger]
    return replace(selection, directions="declared", minimize=minimize, maximize=maximize)


def _stop(selection: Selection) -> CandidatesError:
    """Why runs that differ stop the comparison, and the ways on."""
    from mlflow_mleval.store.query import selected_study

    try:
        selected_study(selection).complete()
    except CandidatesError as error:
        return error
    except MlevalError as error:
        return CandidatesError(str(error), ())
    return CandidatesError("", ())


def _mean_first(stop: CandidatesError) -> list[tuple[str, Mapping[str, Any]]]:
    """The ways on, the best candidate last: it looks better than it is."""
    best = [way for way in stop.ways if str(way[1].get("duplicates", "")).startswith("best:")]
    mean = [way for way in stop.ways if way[1].get("duplicates") == "mean"]
    return [*mean, *(way for way in stop.ways if way not in (*mean, *best)), *best]


def _repeats(study: Any) -> str:
    """How many repeats a method has on a dataset, as text; empty where each has one run."""
    if study is None or study.repeats is None:
        return ""
    per_cell = study.repeats.groupby(level=["dataset", "method"]).size()
    low, high = int(per_cell.min()), int(per_cell.max())
    return f"{high} repeats" if low == high else f"{low} to {high} repeats"


@cache
def further_options() -> dict[str, list[dict[str, Any]]]:
    """The options that have no control of their own in the form, by the headings of the help."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, option in options().items():
        if option.name not in _SHAPED and isinstance(option, Option):
            groups.setdefault(option.heading, []).append(_control(name, option))
    return groups


def _control(name: str, option: Option) -> dict[str, Any]:
    """An option as the templates show it, in the words of its help."""
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    label, _, help = _without_flags((option.help or "").replace("`", "")).partition(". ")
    default = option.default if isinstance(option.default, str) else ""
    shown = [("", default or "by default"), *((c, c) for c in choices if c != default)]
    about = {"name": name, "label": label.rstrip("."), "help": help}
    kind = {"flag": option.is_flag, "multiple": option.multiple}
    hint = f"{option.default}" if isinstance(option.default, float) else option.metavar or ""
    return about | kind | {"choices": shown if choices else (), "metavar": hint}


def _without_flags(text: str) -> str:
    """A text of the command line as the page says it.

    >>> _without_flags("With --missing worst a --nonsense stops.")
    'With “missing results” worst a --nonsense stops.'
    """

    def field(flag: re.Match[str]) -> str:
        option = options().get(flag[1])
        return f"“{_FIELDS.get(option.name or '', flag[1])}”" if option else flag[0]

    return re.sub(r"(?<!\S)--([a-z][a-z-]+)", field, text)


@cache
def offered() -> dict[str, list[tuple[str, str]]]:
    """The values that the page offers of options, as their registries call them, the default first:
    that need not stand in the address.
    """
    from mlflow_mleval.analysis.pairs import CORRECTIONS
    from mlflow_mleval.analysis.posthoc import tests
    from mlflow_mleval.report.content.decision import PREFERENCES

    titles = {
        test.asked: f"{test.title}, against one method" if test.control else test.title
        for test in tests()
        if test.asked != "anytime"  # an option of its own
    }
    words = {"test": titles, "correction": CORRECTIONS, "preference": PREFERENCES}
    values = {}
    for name, texts in words.items():
        default = str(options()[name].default)
        others = [(value, text) for value, text in texts.items() if value != default]
        values[name] = [("", texts[default]), *others]
    policies = [(policy, _POLICY_WORDS[policy]) for policy in POLICIES if policy != "error"]
    values["duplicates"] = [("", _POLICY_WORDS["error"]), *policies]
    values["missing"] = [
        ("" if name == "error" else name, _MISSING_WORDS[name]) for name in MISSING
    ]
    values["method-by"] = [(rule, rule) for rule in METHOD_RULES]
    values["dataset-by"] = values["repeats-by"] = [(DIGEST, "the digest of the data")]
    return values


#: What the page says for the policies about runs that differ.
_POLICY_WORDS = {
    "mean": "their mean",
    "latest": "the latest",
    "latest-data": "those on the latest data",
    "error": "stop and ask",
}
#: And for those about missing results.
_MISSING_WORDS = {
    "error": "stop and ask",
    "worst": "count as the dataset’s worst value",
    "drop-datasets": "leave those datasets out",
    "drop-methods": "leave those methods out",
}


# --------------------------------------------------------------------------------------------------
# The gate: may this run replace that one?

#: The sides of a gate.
SIDES = ("candidate", "champion")
#: Options of `mleval gate` that the page has; none of them writes.
_OF_GATES = ("over", "margins", "improve", "slices", "cluster", "alpha", "anytime")


@cache
def gate_options() -> dict[str, Option]:
    """The options of a gate that the page has, by their names in the address."""
    declared = {option.name: option for option in main.commands["gate"].params}
    chosen = [declared[name] for name in _OF_GATES]
    return {
        max(option.opts, key=len).removeprefix("--"): option
        for option in chosen
        if isinstance(option, Option)
    }


def parsed_gate(values: Mapping[str, Iterable[str]]) -> PageSelection:
    """How a gate is to judge, as the address says it.

    Raises
    ------
    SelectionError
        A value is none that the option takes.
    """
    return _parsed(values, gate_options())


def gate_form(values: Mapping[str, Sequence[str]], sides: Sequence[tuple[str, str]]) -> str:
    """The form for the two sides, set to what the address says."""
    controls = [_control(name, option) for name, option in gate_options().items()]
    given = {name: [*texts] for name, texts in values.items()}
    return rendered("gate.html.j2", selection=given, sides=sides, controls=controls)


def _gate(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., None]
) -> None:
    """The verdict on the runs `job["sides"]`, or on methods of the selection; it is stored
    nowhere.
    """
    from mlflow_mleval.assembling import provenance
    from mlflow_mleval.gates import gate
    from mlflow_mleval.report.content.gate import document
    from mlflow_mleval.report.html import fragment

    made = int(time.time() * 1000)
    tell(state="working", step="judging", done=0, total=0)
    how = parsed_gate(job["how"])
    options = {name: value for name, value in how.choices.items() if value not in ((), None)}
    if "margins" in options:
        options["margins"] = _margins(options["margins"])
    read = Selection.of(parsed(job["given"]).choices) if job["given"] else Selection()
    read = replace(read, methods=None)
    candidate, champion = job["sides"]
    verdict = gate(candidate, champion, **{**options, **read.arguments()})
    names = dict(zip(SIDES, job["names"], strict=True))
    source = {**verdict.source, "tracking_uri": job["address"]}
    notes = tuple(worded(note, as_field) for note in verdict.notes)
    verdict = replace(verdict, **names, source=source, notes=notes)
    run_ids = [run_id for ids in verdict.runs.values() for run_id in ids]
    flags = [*_flags(how, gate_options()), *read.options()]
    command = command_line(["mleval", "gate", candidate, "--champion", champion], flags)
    report = document(verdict, provenance(command, source, run_ids, {}))
    parts = [{"title": _plain(s.title), "html": fragment(s)} for s in report.sections]
    about = {"made": made, "decision": verdict.decision}
    shown = rendered("verdict.html.j2", title=_plain(report.title), parts=parts, **about)
    folder.write(key, [("about.json", json.dumps(about)), ("gate", shown)])
    tell(state="done")


def _margins(stated: Sequence[float | dict[str, float]]) -> float | dict[str, float]:
    """One number for all measures, or numbers by name."""
    by_name: dict[str, float] = {}
    for each in stated:
        if not isinstance(each, dict):
            return each
        by_name |= each
    return by_name


def _store(
    folder: CacheFolder, key: str, job: dict[str, Any], tell: Tell, hold: Callable[..., Any]
) -> None:
    """Store the report that was made under the name `job["of"]`, as the member whose token the job
    has.
    """
    from mlflow.utils.mlflow_tags import MLFLOW_SOURCE_NAME, MLFLOW_SOURCE_TYPE, MLFLOW_USER

    from mlflow_mleval.store import artifacts, schema
    from mlflow_mleval.store.runs import log_report

    tell(state="working", step="storing", done=0, total=0)
    about = folder.read(job["of"], "store.json")
    if about is None:
        raise StoreError("the answer is not there any more. Compare again.")
    files = {
        name.removeprefix("file/"): folder.read(job["of"], name) or ""
        for name in folder.names(job["of"])
        if name != "store.json"
    }
    page, summary = files.pop(FILES["html"]), files.pop(FILES["md"])
    paths = {schema.ARTIFACT_REPORT: page, schema.ARTIFACT_SUMMARY: summary}
    paths |= {f"{schema.ARTIFACT_FOLDER}/{name}": text for name, text in files.items()}
    large = [path for path, text in paths.items() if len(text.encode()) > artifacts.MOST_BYTES]
    if schema.ARTIFACT_REPORT in large:
        most = artifacts.MOST_BYTES >> 20
        raise StoreError(
            f"the report is larger than the {most} MiB that MLflow takes in one piece. Download it."
        )
    described = json.loads(about)
    described["tags"] |= {
        MLFLOW_USER: job["user"],
        MLFLOW_SOURCE_NAME: job["address"] + "/mleval/",
        MLFLOW_SOURCE_TYPE: "LOCAL",
    }
    small = {path: text for path, text in paths.items() if path not in large}
    run_id = log_report(small, summary=summary, **described)
    folder.write(
        key,
        [
            (
                "about.json",
                json.dumps(
                    {
                        "made": int(time.time() * 1000),
                        "run_id": run_id,
                        "experiment_id": described["experiment_id"],
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
