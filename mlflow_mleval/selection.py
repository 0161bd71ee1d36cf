"""A Selection: which runs are read, and how they become methods, datasets, repeats and folds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from mlflow_mleval.secrets import masked, redacted

#: What was chosen by options, in fields or in Python: arguments by name.
Choices = Mapping[str, Any]
Typed: TypeAlias = tuple[str, str | None]  #: a flag, and what follows it
#: What is told how far reading is: how much is done, and of how much.
Progress: TypeAlias = Callable[[int, int], object]
Missing = Literal["error", "worst", "drop-datasets", "drop-methods"]
MISSING: tuple[Missing, ...] = get_args(Missing)
#: The rules that name a method without a param or tag.
METHOD_RULES = ("run_name", "run_id", "experiment", "estimator", "model", "prompt")
SINCE = "since"  #: the kind of rule that makes two periods of a time: before it, and since
#: The rules that name a dataset without a param or tag.
DATASET_RULES = ("run_name", "experiment", "shape", "input", "digest")
NAME_PARTS = ("method", "dataset", "seed")  #: what a pattern finds in the names of runs
POLICIES = ("mean", "latest", "latest-data", "error")
DIGEST = "digest"  #: the rule by which the digest of a run's data tells datasets, or repeats, apart
Directions = Literal["declared", "proposed"]
DIRECTIONS: tuple[Directions, ...] = get_args(Directions)


@dataclass(frozen=True)
class Selection:
    """Which runs are read, and how: the arguments of `load_study`, checked; texts that stand alone
    where several may stand become tuples."""

    experiment_ids: Sequence[str] = ()
    experiment_names: Sequence[str] = ()
    run_ids: Sequence[str] = ()
    exclude_runs: Sequence[str] = ()
    since: str | None = None
    filter_string: str = ""
    method_by: Sequence[str] = ()
    dataset_by: str | None = None
    methods: Sequence[str] | None = None
    exclude_methods: Sequence[str] = ()
    datasets: Sequence[str] | None = None
    exclude_datasets: Sequence[str] = ()
    repeats_by: Sequence[str] = ()
    folds_by: str | None = None
    children: str | None = None
    step: str | None = None
    measures: Sequence[str] | None = None
    exclude_measures: Sequence[str] = ()
    minimize: Sequence[str] = ()
    maximize: Sequence[str] = ()
    directions: Directions = "declared"
    percent: Sequence[str] = ()
    name_as: str | None = None
    duplicates: str = "error"
    missing: Missing = "error"
    results: Any = field(default=None, compare=False)  # a file or a table in place of a store

    def __post_init__(self) -> None:
        for name in SEVERAL:
            value = getattr(self, name)
            if value is not None or name not in _UNSAID:
                names = (value,) if isinstance(value, str) else (*(value or ()),)
                if other := [each for each in names if not isinstance(each, str)]:
                    raise TypeError(f"`{name}` must hold text, got {other[0]!r}.")
                object.__setattr__(self, name, names)
        # brings numpy, for which help need not wait
        from mlflow_mleval.validation import in_pandas, one_of

        one_of(self.missing, "missing", MISSING)
        one_of(self.directions, "directions", DIRECTIONS)
        if self.duplicates not in POLICIES and not best_metric(self.duplicates):
            listed = f"{', '.join(POLICIES)} or best:METRIC"
            raise ValueError(f"`duplicates` must be one of {listed}, got {self.duplicates!r}.")
        if self.since is not None:
            started(self.since)
        self._check_rules()
        if self.results is not None:
            object.__setattr__(self, "results", in_pandas(self.results))
            for name in _OF_STORES:
                if getattr(self, name):
                    raise ValueError(
                        f"`{name}` must not be given with a table of results, which is read in "
                        "place of a store. Leave it out."
                    )

    def _check_rules(self) -> None:
        for name, folds, what in (
            ("children", "children", "children are trials of a search, or folds"),
            ("step", "steps", "steps are epochs, or folds"),
        ):
            policy = getattr(self, name)
            if policy is not None and not best_metric(policy):
                raise ValueError(f"`{name}` must be best:METRIC, got {policy!r}.")
            if policy and self.folds_by == folds:
                raise ValueError(f"`{name}` must not be given with folds_by={folds!r}: {what}.")
        _check_names("method_by", self.method_by, METHOD_RULES)
        _check_names("dataset_by", [self.dataset_by], DATASET_RULES)
        _check_names("repeats_by", self.repeats_by, (DIGEST,))
        kind, _, pattern = (self.folds_by or "").partition(":")
        once = pattern.count("{fold}") == pattern.count("{measure}") == 1
        if self.folds_by not in (None, "steps", "children") and not (kind == "key" and once):
            raise ValueError(
                "`folds_by` must be one of steps, children, or key:PATTERN with {fold} and "
                "{measure} once each, as in key:fold{fold}_{measure}, got "
                f"{self.folds_by!r}."
            )
        if self.name_as:
            parts = name_parts(self.name_as)
            if "method" not in parts or sorted(parts) != sorted({*parts} & {*NAME_PARTS}):
                raise ValueError(
                    "`name_as` must hold {method}, and maybe {dataset} and {seed}, once each, as "
                    f"in {{method}}_{{dataset}}_s{{seed}}, got {self.name_as!r}."
                )
            if self.method_by:
                raise ValueError(
                    "`name_as` must not be given with `method_by`. Leave one of them out."
                )

    @classmethod
    def of(cls, choices: Choices) -> Selection:
        """The selection among the choices of a command."""
        return cls(**given(choices, FLAGS), results=choices.get("results"))

    @property
    def is_ruled(self) -> bool:
        """Whether anybody said how runs are read."""
        rules = self.method_by, self.dataset_by, self.repeats_by, self.folds_by, self.children
        return any((*rules, self.name_as)) or self.duplicates != "error"

    def arguments(self) -> dict[str, Any]:
        """What was chosen, as arguments of `load_study`, without what is as it is by default."""
        named = (f for f in fields(self) if f.name in FLAGS)
        return {f.name: getattr(self, f.name) for f in named if getattr(self, f.name) != f.default}

    def options(self) -> Iterator[tuple[str, str]]:
        """The same as options of the command line: flags and what follows them."""
        for name, value in self.arguments().items():
            for text in [value] if isinstance(value, str) else value:
                flag, _, key = FLAGS[name][-1 if text.startswith("-") else 0].partition(" ")
                yield flag, f"{key}={text}" if key else text


#: By argument, how it is typed on the command line: the short flag, and the long one; or the flag
#: and the key that goes before the value.
FLAGS: dict[str, tuple[str, ...]] = {
    "experiment_ids": ("-n", "--experiment-name"),
    "experiment_names": ("-n", "--experiment-name"),
    "run_ids": ("--run-id",),
    "exclude_runs": ("--exclude run",),
    "since": ("--since",),
    "filter_string": ("--filter",),
    "method_by": ("--method-by",),
    "dataset_by": ("--dataset-by",),
    "methods": ("--method",),
    "exclude_methods": ("--exclude method",),
    "datasets": ("--dataset",),
    "exclude_datasets": ("--exclude dataset",),
    "repeats_by": ("--read repeats-by",),
    "folds_by": ("--read folds-by",),
    "children": ("--read children",),
    "step": ("--read step",),
    "measures": ("-m", "--measure"),
    "exclude_measures": ("--exclude measure",),
    "minimize": ("--min",),
    "maximize": ("--max",),
    "directions": ("--directions",),
    "percent": ("--read percent",),
    "name_as": ("--read name-as",),
    "duplicates": ("--read duplicates",),
    "missing": ("--missing",),
}
#: Of these, None says that nothing was said, and no name that there shall be none.
_UNSAID = ("methods", "datasets", "measures")
#: What a table of results does not have.
_OF_STORES = (
    *("experiment_ids", "experiment_names", "run_ids", "exclude_runs", "since"),
    *("filter_string", "step"),
)
#: Those that hold several values.
SEVERAL = [*_UNSAID, *(f.name for f in fields(Selection) if f.default == ())]


def given(choices: Choices, names: Iterable[str]) -> dict[str, Any]:
    """The choices of these names; what may be repeated and is an empty tuple was not given."""
    return {name: choices[name] for name in names if choices.get(name, ()) != ()}


def in_silence(done: int, total: int) -> None:
    """The progress that nobody wants to know."""


_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def started(since: str, argument: str = "`since` must be") -> int:
    """Milliseconds after which a run starts, from a span before now or a date of this place.
    >>> started("2026-11-16T08:30+00:00")
    1794817800000
    """
    try:
        if span := _SPAN.fullmatch(since):
            begin = datetime.now() - timedelta(**{_UNITS[span[2]]: int(span[1])})
        else:
            begin = datetime.fromisoformat(since)
        return max(0, int(begin.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{argument} a span such as 7d, 12h or 2w, or a date such as 2026-11-16, got {since!r}."
        ) from None


def key_of(rule: str) -> tuple[str, str]:
    """Kind and name of a rule: param and lr of param:lr; an empty name for one without."""
    kind, _, key = rule.partition(":")
    return (kind, key) if key else (rule, "")


def name_parts(pattern: str) -> list[str]:
    """What a pattern of names finds, in its order: method and seed of {method}_s{seed}."""
    return re.findall(r"\{(\w*)\}", pattern)


def best_metric(policy: str) -> str:
    """The metric of ``best:METRIC``; empty for other policies."""
    return policy.partition(":")[2] if policy.startswith("best:") else ""


def _check_names(argument: str, rules: Iterable[str | None], plain: Sequence[str]) -> None:
    """ValueError for a rule that names no method, dataset or repeat."""
    for rule in rules:
        if rule is None or rule in plain:
            continue
        kind, key = key_of(rule)
        if argument == "method_by" and kind == SINCE and key:
            started(key, f"`{argument}` must be {SINCE}: and")
        elif not (kind in ("tag", "param") and key):
            *first, last = ("tag:NAME", "param:NAME", *plain)
            allowed = f"{', '.join(first)} or {last}"
            raise ValueError(f"`{argument}` must be one of {allowed}, got {rule!r}.")


def command_line(typed: Iterable[str], options: Iterable[Typed] = ()) -> str:
    """What was typed, and further options, to be copied into a shell; passwords are hidden."""
    words = [*typed]
    for flag, text in options:
        if text is None:
            words.append(flag)
        else:  # what begins with a dash would be read as a flag
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]

    # also of a URI whose password has spaces or quotes
    login = re.compile(r"[\w+.-]*://[^/].*:.*@", re.DOTALL)
    shown = (redacted(word, typed=True) for word in words)
    return shlex.join(
        login.sub(lambda hit: masked(f"{hit[0]}host").removesuffix("host"), word) for word in shown
    )
