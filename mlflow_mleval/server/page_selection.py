"""What a reader of the page chose, in the address, as choices of a comparison, and as the command
that reports the same; and the controls by which they choose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import urlencode

import click
from jinja2 import Environment, PackageLoader, StrictUndefined

from mlflow_mleval.cli import main
from mlflow_mleval.cli.command import Option, leaves, said, texts_of
from mlflow_mleval.cli.options import experiment_ids
from mlflow_mleval.package import __version__
from mlflow_mleval.report.text import terminal
from mlflow_mleval.selection import (
    DATASET_RULES,
    DIGEST,
    FLAGS,
    METHOD_RULES,
    Choices,
    Selection,
    Typed,
    command_line,
)
from mlflow_mleval.sentences import Argument, grouped

#: What is to be done, and for whom; and what is told of that, or made of it.
Job: TypeAlias = Mapping[str, Any]
Made: TypeAlias = dict[str, Any]
#: Options of `mleval report` that the page does not have: it knows experiments by id, and what it
#: makes goes nowhere else.
_ELSEWHERE = {
    *("experiment_names", "run_ids", "n_resamples", "log", "output", "verbose", "timeout", "h")
}
#: Options that the form sets by controls of their own; all others it has in a fold, as they are
#: declared.
_SHAPED = {
    *({*FLAGS} - {"percent", "since", "exclude_runs"}),
    *("preference", "weights", "p", "q", "s"),
    *("on", "test", "control", "alpha", "rope", "seed", "pair"),
}
#: What a member hears who wants a report stored where they may only read.
READ_ONLY = (
    "You may read these runs, but not store a report beside them: that takes the right to edit "
    "the experiment. Ask its owner, or download the report."
)
#: Most values of an option, characters of a value and experiments of a selection.
MOST, LONGEST, EXPERIMENTS = 200, 5_000, 50
#: Runs that are counted as new at most.
NEW = 100
#: Values of an option that takes two.
PAIR = 2
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SelectionError(ValueError):
    """A field of the selection, by its name in the address, cannot be taken as it is."""

    def __init__(self, field: str, text: str) -> None:
        self.field = field
        super().__init__(text)


@cache
def options() -> dict[str, Option]:
    """The options of `mleval report` that a selection may hold, by their names in the address."""
    declared = [experiment_ids, *leaves(main.commands["report"].params)]
    return {o.field: o for o in declared if o.name not in _ELSEWHERE}


#: Options, by their names in the address, by which runs are compared and not read: without them a
#: selection is the same for all that read the same runs. Measures can be left out of what was read.
COMPARING = {
    *("as-in-papers", "control", "drop-constant", "exclude-measure", "missing-is-failure", "next"),
    *("on", "p", "pair", "preference", "q", "rope", "s", "test", "weights"),
}


@dataclass(frozen=True)
class PageSelection:
    """A selection: what was given by its names in the address, in the order of the options and
    without what equals the default; and all options as arguments of Python."""

    given: tuple[tuple[str, tuple[str, ...]], ...]
    choices: Choices = field(compare=False)

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
        return command_line(["mleval", "report"], self.flags(options()))

    def flags(self, taken: Mapping[str, Option]) -> list[Typed]:
        """What was chosen by these options, as it is typed."""
        typed: list[Typed] = []
        for name, values in self.given:
            if name == experiment_ids.field:
                typed += [("-n", value) for value in values]
            elif taken[name].nargs == PAIR:
                typed += [(f"--{name}", values[0]), (values[1], None)]
            else:
                typed += [taken[name].typed(None if taken[name].is_flag else v) for v in values]
        return typed

    def runs_after(self, moment: int) -> str:
        """A filter of MLflow: the runs of the selection that say that they ended after a moment."""
        rule, own = f"attributes.end_time > {moment}", self.choices["filter_string"]
        return f"{rule} and {own}" if own.strip() else rule

    def without(self, *names: str) -> PageSelection:
        """The selection as the address says it, without these names."""
        given = [(name, values) for name, values in self.given if name not in names]
        return replace(self, given=tuple(given))

    def adding(self, arguments: Choices) -> PageSelection:
        """The selection with further arguments of Python: added to what may be repeated."""
        values = {name: list(given) for name, given in self.given}
        for name, option in options().items():
            if option.name in arguments:
                texts = texts_of(arguments[option.name])
                values[name] = [*values.get(name, ()), *texts] if option.multiple else texts[-1:]
        return parsed(values)

    def reading(self, selection: Selection) -> PageSelection:
        """The same experiments and tests, read as that selection says."""
        own = {name: given for name, given in self.given if options()[name].name not in FLAGS}
        own["experiment-id"] = self.experiment_ids
        named = ("experiment_ids", "experiment_names", "run_ids")
        rules = {k: v for k, v in selection.arguments().items() if k not in named}
        return parsed(own).adding(rules)


def parsed(
    values: Mapping[str, Iterable[str]], taken: Mapping[str, Option] | None = None
) -> PageSelection:
    """The selection that these values make of these options (by default a report's), as the command
    line reads them; a SelectionError where an option does not take one. Other names are ignored."""
    declared, given, typed = taken or options(), dict[str, list[str]](), list[str]()
    for name, option in declared.items():
        given[name] = texts = _given(option, values.get(name, ()))
        if option.multiple:
            typed += [f"--{name}={text}" for text in texts]
        elif texts:
            typed += [f"--{name}", *([] if option.is_flag else texts)]
    command = click.Command("page", params=[*declared.values()], add_help_option=False)
    try:
        unsaid, choices = (command.make_context("", words).params for words in ([], typed))
    except click.BadParameter as error:
        raise SelectionError(getattr(error.param, "field", ""), error.message) from error
    arguments = {name: str(option.name) for name, option in declared.items()}
    own = [name for name, of in arguments.items() if choices[of] != unsaid[of]]
    return PageSelection(tuple((name, tuple(given[name])) for name in own), choices)


def _given(option: Option, values: Iterable[str]) -> list[str]:
    """The texts that count of those given for an option; a SelectionError where none may be so."""
    texts, wrong = [text for text in values if text], ""
    ids = {*texts} if option is experiment_ids else set[str]()
    strange = next((one for one in ids if not _ID.fullmatch(one)), None)
    if len(texts) > MOST or max(map(len, texts), default=0) > LONGEST:
        wrong = f"at most {MOST} values of {LONGEST:,} characters each. Name fewer."
    elif not all(map(str.isprintable, texts)):
        wrong = "it holds a character that cannot be shown. Leave it out."
    elif strange is not None:
        wrong = f"{strange[:40]!r} is no id of an experiment. Choose one from the list."
    elif len(ids) > EXPERIMENTS:
        wrong = f"{len(ids)} experiments are chosen; {EXPERIMENTS} are the most. Choose fewer."
    if wrong:
        raise SelectionError(option.field, wrong)
    if option.multiple:
        return [*dict.fromkeys(texts)]
    last = texts[-option.nargs :]
    complete = last == ["1"] if option.is_flag else len(last) == option.nargs
    return last if complete else []


def as_option(argument: Argument) -> str:
    """An argument of Python as an option of `mleval report`, as the stored report has it."""
    return said(argument, options().values())


#: What the page calls its fields, by the argument of Python of which sentences speak.
FIELDS = {
    "method_by": "methods",
    "dataset_by": "datasets",
    "repeats_by": "repeats",
    "folds_by": "folds",
    "children": "child runs",
    "step": "metrics by epoch",
    "name_as": "names of runs",
    "duplicates": "runs that differ",
    "missing": "missing results",
    "minimize": "smaller is better",
    "maximize": "larger is better",
    "exclude_measures": "measures left out",
    "on": "compared by",
    "control": "compared with",
    "filter_string": "only runs that match",
    **{name: name for name in ("weights", "measures", "directions", "methods", "datasets")},
    "exclude_methods": "methods left out",
    "exclude_datasets": "datasets left out",
    "margins": "margin",
    "slices": "slice",
}


def as_field(argument: Argument) -> str:
    """An argument of Python as a field of the page: “child runs: best:METRIC”."""
    name = FIELDS.get(argument.name)
    value = argument.plain and f": {argument.plain}"
    return f"“{name}{value}”" if name else str(argument)


#: The templates beside this module.
_TEMPLATES = Environment(
    loader=PackageLoader("mlflow_mleval.server", "templates"),
    undefined=StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,  # those of the code that runs, also while the package is upgraded
)
_TEMPLATES.filters["shown"] = terminal  # names of strangers, without what turns the text around


def rendered(template: str, **values: Any) -> str:
    """A page or a fragment of the templates."""
    return _TEMPLATES.get_template(template).render(version=__version__, **values)


@cache
def further_options() -> dict[str, list[dict[str, Any]]]:
    """The options that have no control of their own in the form, by the headings of the help."""
    further = {name: o for name, o in options().items() if o.name not in _SHAPED}
    return grouped((option.heading, control(name, option)) for name, option in further.items())


def control(name: str, option: Option) -> dict[str, Any]:
    """An option as the templates show it, in the words of its help."""
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    label, _, help = without_flags((option.help or "").replace("`", "")).partition(". ")
    default = option.default if isinstance(option.default, str) else ""
    shown = [("", default or "by default"), *((c, c) for c in choices if c != default)]
    about = {"name": name, "label": label.rstrip("."), "help": help}
    kind = {"flag": option.is_flag, "multiple": option.multiple}
    hint = f"{option.default}" if isinstance(option.default, float) else option.metavar or ""
    return about | kind | {"choices": shown if choices else (), "metavar": hint}


def without_flags(text: str) -> str:
    """A text of the command line as the page says it.

    >>> without_flags("Say --dataset-by RULE or --dataset-by experiment.")
    'Say “datasets” or “datasets: experiment”.'
    >>> without_flags("Say --read name-as={method} split {seed}.")
    'Say “names of runs” {method} split {seed}.'
    >>> without_flags("With --missing worst a --nonsense stops; take --min or (--max NAME).")
    'With “missing results: worst” a --nonsense stops; take “smaller is better” or (“larger is better”).'
    """  # noqa: E501

    def field(flag: re.Match[str]) -> str:
        option = options().get(flag[1])
        if option is None:
            return flag[0]
        values = {*getattr(option.type, "choices", ()), *dict(offered().get(flag[1], ()))}
        values |= {*METHOD_RULES, *DATASET_RULES} if flag[1].endswith("-by") else set()
        name, value = FIELDS.get(option.name or "", flag[1]), flag[2] or ""
        if value in values - {""}:
            return f"“{name}: {value}”"
        return f"“{name}” {value}" if value and not value.isupper() else f"“{name}”"

    text = re.sub(r"; leave out [^;]+ to be told the other ways(?=\.)", "", text)
    text = re.sub(r"(?<![\w-])--read ([a-z-]+)=", r"--\1 ", text)
    return re.sub(r"(?<![\w-])--([a-z][a-z-]+)(?: ([a-z-]+|[A-Z]+))?", field, text)


@cache
def offered() -> dict[str, list[tuple[str, str]]]:
    """The values that the page offers of options; the default, not in the address, comes first."""
    from mlflow_mleval.analysis.posthoc import tests
    from mlflow_mleval.report.content.decision import PREFERENCES

    against = {True: ", against one method", False: ""}
    titles = {t.asked: t.title + against[bool(t.control)] for t in tests()}
    values = {}
    for name, texts in {"test": titles, "preference": PREFERENCES, **_POLICIES}.items():
        default = str(options()[name].default or "error")
        others = [(value, text) for value, text in texts.items() if value != default]
        values[name] = [("", texts[default]), *others]
    values["method-by"] = [(rule, rule) for rule in METHOD_RULES]
    values["dataset-by"] = values["repeats-by"] = [(DIGEST, "the digest of the data")]
    return values


#: What the page says for the policies about runs that differ, and about missing results.
_POLICIES = {
    "duplicates": {
        "error": "stop and ask",
        "mean": "their mean",
        "latest": "the latest",
        "latest-data": "those on the latest data",
    },
    "missing": {
        "error": "stop and ask",
        "worst": "count as the dataset’s worst value",
        "drop-datasets": "leave those datasets out",
        "drop-methods": "leave those methods out",
    },
}


# ---- the gate: may this run replace that one? ----------------------------------------------------

#: The sides of a gate.
SIDES = ("candidate", "champion")
#: Options of `mleval gate` that the page has; none of them writes.
_OF_GATES = ("over", "margins", "bounds", "improve", "slices", "cluster", "alpha")


@cache
def gate_options() -> dict[str, Option]:
    """The options of a gate that the page has, by their names in the address."""
    declared = {option.name: option for option in leaves(main.commands["gate"].params)}
    return {declared[name].field: declared[name] for name in _OF_GATES}
