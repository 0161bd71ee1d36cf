"""What the runs of a table say: of what they are (method, dataset, repeat), by rules over its
columns; their status and values, or why they are no results; and what tells all these apart."""

from __future__ import annotations

import re
from collections import Counter, UserDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_mleval.errors import NoRunsError
from mlflow_mleval.measures.metric_names import (
    calls_by_measure,
    direction_of,
    joined_term,
    of_training,
    proposed_direction,
)
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.selection import DIGEST, SINCE, Selection, key_of, name_parts, started
from mlflow_mleval.sentences import (
    DECLARE,
    PROPOSED,
    Argument,
    Message,
    count,
    did_you_mean,
    grouped,
    joined,
    quoted,
    some,
)
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.runs_table import MOST_MS, NAMELESS, RunsTable
from mlflow_mleval.store.schema import MAX_DIGITS, bounded_json
from mlflow_mleval.study import NEWER, Cell, Excluded, Factor

if TYPE_CHECKING:
    from mlflow import MlflowClient


#: Where MLflow keeps which prompts of its registry a run loaded.
_PROMPTS = "mlflow.linkedPrompts"
#: A class in the text of an estimator, and how much of a digest stands in a name.
_CLASS, _SHORT = re.compile(r"\b([A-Z]\w*)\("), 8
#: The rule that takes the LoggedModel of a run for its method.
_MODEL = "model"
#: Of a model's id, enough to tell a million apart.
_ID_SHOWN = len("m-") + 12
#: What is plainly a seed: these names, also as the last part of a longer one (train.seed).
_SEED = re.compile(
    r"(.*[_./:-])?(seed|random_state|random_seed|rng|try|attempt|repeat|repetition|replicate)",
    re.IGNORECASE,
)
#: What stands for no seed.
_NO_SEED = ("", "none", "nan", "null")
#: A seed within the text of an estimator.
_SEED_IN_TEXT = re.compile(r"\b(\w*_)?(seed|random_state|rng)=[^,()\[\]{}]*", re.IGNORECASE)
#: By what a method or a dataset is named where nobody says, the strongest evidence first.
_UNASKED = {
    "method": (f"tag:{schema.TAG_METHOD}", "estimator", "run_name"),
    "dataset": (f"tag:{schema.TAG_DATASET}", "input", "shape", "experiment"),
}
#: What people call the param or tag that names a method, the plainest first.
METHOD = (
    *("method", "model", "model_name", "model_type", "algorithm", "algo", "estimator_name"),
    *("estimator", "classifier", "clf", "learner", "architecture", "arch", "approach", "system"),
)
#: What people call the param or tag that names a dataset, the plainest first.
DATASET = (
    *("dataset", "dataset_name", "data", "data_name", "data_set", "corpus", "task", "benchmark"),
    "domain",
)
#: What data are called that nothing tells apart.
_ALL = "all runs"
#: Params that stand for the parts of a run's name.
_PART = "name's {}"


@dataclass(frozen=True)
class Rule:
    """What names the method or the dataset of a run, in the forms that `_texts` knows. Several
    rules make one name, "xgb, lr=0.1": the first has to hold, the others where they do."""

    what: str
    rules: tuple[str, ...] = ()
    # What LoggedModels are called, by their ids, and by those of runs that are not linked to them
    # but gave their metrics or were registered.
    models: Mapping[str, str] = field(default_factory=dict)
    one: bool = False  # experiments are methods: data that have no other name are one dataset

    def named(self, table: RunsTable) -> tuple[pd.Series, pd.Series]:
        """The names, empty where nothing gives one, and the rules that gave them."""
        if not self.rules:
            rules = _UNASKED[self.what]
            names = pd.Series("", table.frame.index, dtype=object)
            by = names.copy()
            for rule in (*rules[:2], "all") if self.one else rules:
                texts = self._texts(rule, table)
                taken = (names == "") & (texts.str.strip() != "")
                if rule == "input":
                    taken &= texts != NAMELESS
                names = names.where(~taken, texts)
                by[taken] = rule  # where() makes a text of its own for each run
            return names, by
        first, *more = self.rules
        names = self._texts(first, table)
        names = names.where(names.str.strip() != "", "")
        said = pd.Series(names[names != ""].unique())
        are_numbers = len(said) > 0 and pd.to_numeric(said, errors="coerce").notna().all()
        if self.what == "method" and ":" in first and are_numbers:
            names = names.where(names == "", f"{key_of(first)[1]}=" + names)  # C=0.1, not 0.1
        for rule in more:
            texts = self._texts(rule, table)
            kind, key = key_of(rule)
            said = f", {key}=" if key and kind != SINCE else ", "
            names = names.where((names == "") | (texts == ""), names + said + texts)
        return names, pd.Series(", ".join(self.rules), names.index, dtype=object)

    def names(self, table: RunsTable) -> pd.Series:
        return self.named(table)[0]

    def lacking(self, table: RunsTable) -> str:
        """That these runs lack what was to name them, and of a param or tag, which there are."""
        text = f"no {self.rules[0] if self.rules else self.what}, which was to name the {self.what}"
        kind, key = key_of(self.rules[0]) if self.rules else ("", "")
        if kind not in ("param", "tag"):
            return text
        names = (n for n in table.names[f"{kind}s"] if not n.startswith(("mlflow.", "mleval.")))
        has = sorted(name for name in names if table.has(f"{kind}s.{name}").any())
        guess = did_you_mean([key], has).rstrip(".")
        return f"{text}; there is {some(has)}{f'.{guess}' if guess else ''}" if has else text

    def _texts(self, rule: str, table: RunsTable) -> pd.Series:
        kind, key = key_of(rule)
        if kind in ("tag", "param"):
            return table.texts(f"{kind}s.{key}")
        if kind == SINCE:
            begun, date = table.frame["started"], key if "-" in key else f"{key} ago"
            periods = np.where(begun < started(key), f"before {date}", f"{SINCE} {date}")
            return pd.Series(np.where(begun > 0, periods, ""), begun.index, dtype=object)
        if rule == "all":
            return pd.Series(_ALL, table.frame.index, dtype=object)
        if rule == _MODEL:
            made, ids = table.frame["model"], table.frame["run_id"]
            return made.where(made != "", ids).map(self.models).fillna(made)
        if rule == DIGEST:
            names = Rule("dataset").names(table) + " " + digests(table).str[:_SHORT]
            return names.str.rstrip()
        if rule == "estimator":
            return estimators(table)
        if rule == "prompt":

            def versions(tag: str) -> str:
                """The versions of the prompts that a run loaded, "qa/2"."""
                try:
                    linked = bounded_json(tag or "[]")
                    return ", ".join(f"{prompt['name']}/{prompt['version']}" for prompt in linked)
                except (ValueError, TypeError, KeyError):
                    return ""

            return table.tag(_PROMPTS).map(versions)
        if rule == "shape":
            # of runs whose data have no name, where an experiment holds data of several shapes:
            # these are different datasets, "autolog (13 features)"
            frame = table.frame
            known = frame["shape"].where(frame["data"].isin(["", NAMELESS]), "")
            told = frame[known != ""].groupby("experiment_id")["shape"].nunique()
            several = frame["experiment_id"].isin(told.index[told > 1]) & (known != "")
            return (frame["experiment"] + " (" + known + ")").where(several, "")
        # run_name, experiment or, of a method, run_id
        return table.frame["data" if rule == "input" else rule]


def period_doubts(rules: Sequence[str], table: RunsTable) -> list[str]:
    """That runs before and since a date differ in more than that: in how many have which setting,
    or are of which method, as far as no other rule says so."""
    doubts = []
    for rule in (rule for rule in rules if key_of(rule)[0] == SINCE):
        periods = Rule("method", (rule,)).names(table)
        told = dict(settings(table, rules).items())
        if len(rules) == 1:
            methods, by = Rule("method").named(table)
            if not (by == "run_name").any() or methods.nunique() < len(methods):
                told = {"method": methods, **told}
        differ = []
        for name, held in told.items():
            shares = pd.crosstab(periods, held, normalize="index")
            if (shares != shares.iloc[0]).any(axis=None):
                differ.append(name)
        if differ:
            when = " and ".join(sorted(periods.unique()))
            text = f"Runs {when} differ in {some(differ, 6)}, too: a difference may be theirs."
            doubts.append(text)
    return doubts


def rules_of(
    selection: Selection, client: MlflowClient | None, table: RunsTable
) -> tuple[Rule, Rule]:
    """What names the methods, and what the datasets. Where there is a client, LoggedModels are
    called by the version that was registered, else by name and id, for most are named "model"."""
    method, dataset = tuple(selection.method_by), selection.dataset_by
    if selection.name_as:
        method = (f"param:{_PART.format('method')}",)
        if "dataset" in name_parts(selection.name_as):
            dataset = dataset or f"param:{_PART.format('dataset')}"
    one = method == ("experiment",) and dataset is None
    named = Rule("method", method)
    if client is not None and _MODEL in method:
        names, measured_by = logged_models(client, [*table.experiments])
        called = {model: f"{name} {model[:_ID_SHOWN]}" for model, name in names.items()}
        ask = client.search_model_versions
        versions = store.listed(ask, lambda each: f"{each.name}/{each.version}", "model versions")
        # the last one counts
        for version in sorted(versions, key=lambda version: version.creation_timestamp):
            # a registry may know the run alone
            if made := store.id_of_version(version) or version.run_id:
                called[made] = f"{version.name}/{version.version}"
        called |= {run: called[model] for run, model in measured_by.items()}
        named = replace(named, models=called)
    return named, Rule("dataset", (dataset,) if dataset else (), one=one)


def with_name_parts(table: RunsTable, pattern: str) -> RunsTable:
    """The runs with the parts of their names as params; the seed is one of that name."""
    text = re.escape(pattern)
    for part in name_parts(pattern):
        text = text.replace(rf"\{{{part}\}}", r"(\d+)" if part == "seed" else "(.+?)")
    found = table.frame["run_name"].str.extract(f"^{text}$")
    if not len(found) or found[0].isna().all():
        names = some(map(repr, table.frame["run_name"].unique()), 4)
        raise NoRunsError(f"no run has a name like {pattern!r}; they have {names}.")
    parts = {
        f"params.{'seed' if part == 'seed' else _PART.format(part)}": found[i].astype("category")
        for i, part in enumerate(name_parts(pattern))
    }
    frame = table.frame.drop(columns=[name for name in parts if name in table.frame])
    # put beside, for pandas warns of single columns that join a hundred others
    return replace(table, frame=pd.concat([frame, pd.DataFrame(parts)], axis=1))


def digests(table: RunsTable) -> pd.Series:
    """The digest of the data that a run was evaluated, else trained on; empty without any."""
    return table.tag(schema.TAG_DATASET_DIGEST, table.frame["digest"])


def estimators(table: RunsTable) -> pd.Series:
    """The scikit-learn estimator that autologging saw, with those that a pipeline or a search
    holds: "Pipeline(StandardScaler, SVC)", "GridSearchCV(SVC)"; empty where there is none."""
    names = table.texts("params.estimator_name")
    names = names.where(names != "", table.tag("estimator_name"))
    is_pipeline = names == "Pipeline"
    for at in names.index[is_pipeline | names.str.endswith("SearchCV")]:
        param = "params.steps" if is_pipeline[at] else "params.estimator"
        text = table.frame.at[at, param] if param in table.frame else ""
        classes = [c for c in _CLASS.findall(text) if c != "Pipeline"] if text == text else []
        if classes:
            names[at] = f"{names[at]}({', '.join(classes)})"
    return names


# --------------------------------------------------------------------------------------------------
# Which repeat a run is, and in which params repeats are equal.


def is_seed(param: str) -> bool:
    """Whether a param of this name is plainly a seed, or counts repeats.
    >>> [is_seed(name) for name in ("model__random_state", "try", "n_seeds", "trial", "n_repeats")]
    [True, True, False, False, False]
    """
    return _SEED.fullmatch(param) is not None


def repeat_names(table: RunsTable, rules: Sequence[str]) -> pd.Series:
    """Which repeat each run is, by its seed or by what ``param:NAME`` or ``tag:NAME`` names; with
    ``digest`` each is on another split of the same data. Empty where nothing says so."""
    if not rules:
        seeds = sorted(filter(is_seed, table.names["params"]), key=len)
        names = pd.Series("", table.frame.index, dtype=object)
        for seed in seeds:
            texts = table.texts(f"params.{seed}")
            names = names.where((names != "") | texts.str.lower().isin(_NO_SEED), texts)
        return names
    parts = (
        digests(table) if rule == DIGEST else table.texts("{}s.{}".format(*key_of(rule)))
        for rule in rules
    )
    names = next(parts)
    for part in parts:
        names = names + np.where((names != "") & (part != ""), ", ", "") + part
    return names


def settings(table: RunsTable, rules: Sequence[str]) -> pd.DataFrame:
    """The params in which repeats of a run are equal, without seeds and what tells repeats apart,
    as a number for each value, −1 where there is none."""
    gone = {key for kind, key in map(key_of, rules) if kind == "param"}
    searched, runs = table.has("metrics.best_cv_score"), table.frame["run_name"]
    are_named = not any(map(MADE_UP.fullmatch, runs.unique()))
    columns = {}
    for name in table.names["params"]:
        texts = table.frame[f"params.{name}"]
        if is_seed(name) or name in gone or texts.isna().all():
            continue
        # no settings are params that hold no more than the run's name, as it is or at the end of a
        # path: what Trainers log as run_name and output_dir
        last = texts.map(lambda text: text.rpartition("/")[2], "ignore").astype(object)
        if are_named and texts.nunique() > 1 and ((last == runs) | last.isna()).all():
            continue
        bare = texts.map(partial(_SEED_IN_TEXT.sub, ""), "ignore")
        codes = bare.astype("category").cat.codes
        # what a search found is no setting of it
        columns[name] = codes.where(~searched | (not name.startswith("best_")), -1)
    return pd.DataFrame(columns, table.frame.index)


# --------------------------------------------------------------------------------------------------
# What LoggedModels are called.


def logged_models(
    client: MlflowClient, experiment_ids: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The names of the LoggedModels by their ids, and their ids by those of the runs that gave
    metrics of one alone: `mlflow.genai.evaluate` links its runs in no other way."""
    named: dict[str, str] = {}
    by_run: dict[str, set[str]] = {}
    ask = partial(client.search_logged_models, experiment_ids=list(experiment_ids))
    for model in store.listed(ask, lambda model: model.model_id, "models"):
        named[model.model_id] = model.name
        for metric in model.metrics or ():
            by_run.setdefault(metric.run_id, set()).add(model.model_id)
    return named, {run: next(iter(models)) for run, models in by_run.items() if len(models) == 1}


# --------------------------------------------------------------------------------------------------
# Status and values of the runs that are results.

CHILD = "children of other runs are no results"
#: Why a run is left out that failed.
FAILED = "status FAILED"
#: How the reason begins why a run is left out of whose metrics none has a direction.
UNDIRECTED = "nobody knows which way its metrics are better"
#: A metric of cross-validation, by its name.
_OF_FOLDS = re.compile(r"(^|[_/.-])(cv|folds?|split)_?\d*([_/.-]|$)|_std$", re.IGNORECASE)
#: What `Study.runs` says of each run.
COLUMNS = (
    *("run_id", "experiment_id", "experiment", "dataset", "method", "status", "conventions"),
    *("split_digest", "dataset_digest", "n_train", "n_test", "selected_among", "repeat"),
    "start_time",
)
#: Tags that are columns of results.
_TAGS = {
    "split_digest": schema.TAG_SPLIT_DIGEST,
    "hierarchy": schema.TAG_HIERARCHY_DIGEST,
    "propensities": schema.TAG_PROPENSITIES,
    "weights": schema.TAG_WEIGHTS,
    "folds": schema.TAG_FOLDS,
    "commit": "mlflow.source.git.commit",
}
#: Tags that are read, and listed where they cannot be.
_DECODED: dict[str, Callable[[str], Any]] = {
    schema.TAG_FOLD_SIZES: schema.decode_fold_sizes,
    schema.TAG_WITHDRAWN: schema.decode_withdrawn,
    schema.TAG_RUN: schema.decode,
}


class RunProfiles(UserDict[str, Any]):
    """The loss profiles of a run, "hard" and "soft"; a tag is decoded when it is asked for."""

    def __getitem__(self, kind: str) -> schema.ProfileTag:
        return schema.decode_profile(self.data[kind], kind)


@dataclass(frozen=True)
class Results:
    """Runs that can be used, in the order in which they started; all tables have the same index."""

    table: RunsTable
    # `COLUMNS` and `_TAGS`; method_by and dataset_by, the rules that named them; searched, whether
    # it is what a search says of its winner; protocol, over how many folds: 1 is hold-out, −1 an
    # unknown number, 0 where nobody says.
    rows: pd.DataFrame
    values: pd.DataFrame  # by measure, NaN where a run has none
    plain: pd.DataFrame  # which of them others logged, named like our measures
    keys: pd.DataFrame  # by measure, metrics whose names MLflow made of calls; else empty

    def where(self, mask: Any) -> Results:
        """Some of the runs."""
        return self.at(self.rows.index[np.asarray(mask, bool)])

    def at(self, labels: Any) -> Results:
        """The runs with these labels, in this order."""
        if self.rows.index.equals(labels):
            return self
        parts = {name: getattr(self, name).loc[labels] for name in _ALIKE}
        return replace(self, table=self.table.at(labels), **parts)

    @cached_property
    def finished(self) -> pd.Series:
        return self.rows["status"] == schema.COMPLETE

    @property
    def cells(self) -> pd.Series:
        """The dataset and method of each run, as "method on dataset"."""
        return self.rows["method"] + " on " + self.rows["dataset"]

    @property
    def titles(self) -> pd.Series:
        """How lists name the runs."""
        return self.cells + " (run " + self.rows["run_id"] + ")"

    def unreadable(self) -> Iterator[Excluded]:
        """The tags that cannot be read."""
        for tag in _DECODED:
            said = _decoded(self.table, tag).items()
            if whys := {text: why for text, why in said if isinstance(why, str)}:
                broken = self.table.tag(tag).map(whys).dropna()
                for title, why in zip(self.at(broken.index).titles, broken, strict=True):
                    yield Excluded("tag", f"{tag} of {title}", why)

    def unusable(self) -> dict[Cell, dict[str, float]]:
        """By cell, measures of its runs whose values are no results."""
        found: dict[Cell, dict[str, float]] = {}
        rows = self.rows[self.rows["run_id"].isin(self.table.unusable)]
        for run_id, *cell in rows[["run_id", "dataset", "method"]].itertuples(index=False):
            for key, value in self.table.unusable[run_id].items():
                measure = schema.measure_of(key)
                if measure or not key.startswith("mleval."):
                    found.setdefault(tuple(cell), {})[measure or key] = value
        return found


_ALIKE = ("rows", "values", "plain", "keys")


def results_of_runs(
    table: RunsTable,
    rules: tuple[Rule, Rule],
    selection: Selection,
    wanted: Callable[[str], object],
) -> tuple[Results, pd.Series]:
    """The results among the runs of a table, means over folds where there are some, and why the
    others hold none (empty for results); `wanted` tells whether a measure may count."""
    rows = _rows_of_runs(table, rules, selection)
    reasons = pd.Series("", rows.index, dtype=object)
    for mask, why in _why_none(table, rows):
        left_out = mask & (reasons == "")
        reasons[left_out] = why[left_out] if isinstance(why, pd.Series) else why
    for rule in rules:
        lacking = (reasons == "") & (rows[rule.what] == "")
        if lacking.any():
            reasons[lacking] = rule.lacking(table.where(lacking))
    usable = table.where(reasons == "")
    rows = rows if len(usable) == len(table) else rows.loc[usable.frame.index]
    values, plain, keys = measured(usable)
    values = _with_folds(usable, rows, values, plain)
    finished = rows["status"] == schema.COMPLETE
    values = values if finished.all() else values.where(finished)
    counting = values[[m for m in values if wanted(m)]].notna().any(axis=1)
    for at in rows.index[finished & ~usable.ours & ~counting]:
        reasons[at] = _unmeasured([m for m in values if not np.isnan(values.at[at, m])])
    if not (selection.method_by or selection.dataset_by) and table.ours.any():
        beside = Argument("method_by"), " and ", Argument("dataset_by")
        why = Message(f"no tag {schema.TAG_METHOD}; ", *beside, " say how to read such a run")
        reasons[(reasons == "") & ~table.ours] = why
    results = Results(usable, rows, values, plain, keys)
    return results.where(reasons[rows.index] == ""), reasons


def _why_none(table: RunsTable, rows: pd.DataFrame) -> Iterator[tuple[pd.Series, Any]]:
    """Which runs hold no results, whatever these are of, and why; the first reason counts."""
    versions = table.tag(schema.TAG_SCHEMA, str(schema.SCHEMA_VERSION))
    whys = {text: schema.newer_schema({schema.TAG_SCHEMA: text}) for text in versions.unique()}
    newer = {
        text: NEWER + why.removeprefix("schema ").rstrip(".") for text, why in whys.items() if why
    }
    too_new = versions.isin(newer)
    yield too_new, versions[too_new].map(newer)
    yield table.is_child & (~table.ours | table.has(f"tags.{schema.TAG_TRIAL}")), CHILD
    status, stated = rows["status"], rows["conventions"]
    yield status == schema.INCOMPLETE, "written in part only; import or log again"
    unfit = ~status.isin([schema.COMPLETE, schema.DNF])
    yield unfit, "status " + status[unfit]
    known = f"are none of {some(schema.CONVENTIONS)}"
    odd = ~stated.isin(schema.CONVENTIONS)
    yield odd, "its conventions, " + stated[odd].map(quoted) + f", {known}"
    timeless = table.frame["started"].abs() > MOST_MS
    yield timeless, "it is said to have started at what is no time"


def _rows_of_runs(table: RunsTable, rules: tuple[Rule, Rule], selection: Selection) -> pd.DataFrame:
    """What runs say of themselves."""
    index = table.frame.index
    sizes = table.tag(schema.TAG_FOLD_SIZES).map(_decoded(table, schema.TAG_FOLD_SIZES))
    of_folds = {
        name: [held[name] if isinstance(held, dict) else () for held in sizes]
        for name in ("n_train", "n_test")
    }
    among = table.tag(schema.TAG_SELECTED)
    is_number = among.str.isdecimal() & (among.str.len() < MAX_DIGITS)
    state = table.frame["status"].replace("FINISHED", schema.COMPLETE)
    started = table.frame["started"].clip(-MOST_MS, MOST_MS)
    columns: dict[str, Any] = {
        **{name: table.frame[name] for name in ("run_id", "experiment_id", "experiment")},
        "status": table.tag(schema.TAG_STATUS, state),
        "conventions": table.tag(schema.TAG_CONVENTIONS, schema.UNKNOWN_CONVENTIONS),
        "dataset_digest": digests(table),
        **of_folds,
        "selected_among": among.where(is_number, "1").astype(int),
        "searched": table.has(f"tags.{schema.TAG_SELECTED}"),
        "repeat": repeat_names(table, selection.repeats_by),
        "start_time": pd.to_datetime(started, unit="ms", utc=True),
        **{name: table.tag(tag) for name, tag in _TAGS.items()},
    }
    for rule in rules:
        columns[rule.what], columns[f"{rule.what}_by"] = rule.named(table)
    return pd.DataFrame(columns, index, copy=False)


def _decoded(table: RunsTable, tag: str) -> dict[str, Any]:
    """What the texts of a tag say, or as a text why they cannot be read."""
    said: dict[str, Any] = {}
    column = f"tags.{tag}"
    for text in table.frame[column].cat.categories if column in table.frame else ():
        try:
            said[text] = _DECODED[tag](text)
        except ValueError as error:
            said[text] = str(error).rstrip(".")
    return said


def measured(table: RunsTable) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Values by measure; which of them are plain metrics named like a known measure; and the keys
    of those whose names MLflow made of calls."""
    own: dict[str, np.ndarray] = {}
    others: dict[str, np.ndarray] = {}
    for key in table.names["metrics"]:
        column = table.frame[f"metrics.{key}"].to_numpy(float)
        if np.isnan(column).all():
            continue
        if measure := schema.measure_of(key):
            own[measure] = column
        elif not key.startswith("mleval."):
            others[key] = column
    gone = table.tag(schema.TAG_WITHDRAWN)
    for text in gone[gone != ""].unique():
        for measure in schema.withdrawn({schema.TAG_WITHDRAWN: text}) & own.keys():
            own[measure] = np.where(gone == text, np.nan, own[measure])
    has_own = np.zeros(len(table), bool)
    for column in own.values():
        has_own |= ~np.isnan(column)
    plain = {}
    for measure in MEASURES.keys() & others:
        # beside our own metrics, somebody else's "accuracy" is another accuracy
        others[measure] = np.where(has_own, np.nan, others[measure])
        plain[measure] = ~np.isnan(others[measure])
    keys: dict[str, np.ndarray] = {}
    # those that are alike are looked for when calls have been joined
    for measure, calls in chain(calls_by_measure(others).items(), _alike(others, ~has_own)):
        _join(others, keys, measure, calls, ~has_own)
    for measure, column in others.items():
        held = own.get(measure, np.nan)
        own[measure] = np.where(np.isnan(held), column, held)
    index = table.frame.index
    values = pd.DataFrame(own, index, copy=False)  # a copy takes as much memory again
    return values, pd.DataFrame(plain, index), pd.DataFrame(keys, index)


def _alike(
    columns: Mapping[str, np.ndarray], among: np.ndarray
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The metrics by which libraries call one measure, by its name, where no run has two."""
    alike = grouped((joined_term(name), (name, "")) for name in columns)
    for measure, calls in alike.items():
        n = np.sum([~np.isnan(columns[name]) & among for name, _ in calls], axis=0)
        if measure and len(calls) > 1 and n.max(initial=0) <= 1:
            yield measure, calls


def _join(
    columns: dict[str, np.ndarray],
    keys: dict[str, np.ndarray],
    measure: str,
    calls: Sequence[tuple[str, str]],
    among: np.ndarray,
) -> None:
    """Put metrics under the measure that they are, where a run has none of that name: the last that
    it has, whose key goes to the keys; others of the same variable are the same."""
    names, variables = (np.array(texts, dtype=object) for texts in zip(*calls, strict=True))
    held = np.where(among, np.array([*map(columns.get, names)]), np.nan)
    last = len(names) - 1 - (~np.isnan(held))[::-1].argmax(axis=0)
    value = np.take_along_axis(held, last[np.newaxis], axis=0)[0]
    for name, variable in calls:
        taken = ~np.isnan(value) & (variables[last] == variable)
        columns[name] = np.where(taken, np.nan, columns[name])
    old = columns.get(measure, np.full(len(among), np.nan))
    free = np.isnan(old) & ~np.isnan(value)
    if free.any():
        columns[measure] = np.where(free, value, old)
        keys[measure] = np.where(free, names[last], keys.get(measure, ""))
    for name in names:
        if np.isnan(columns[name]).all():
            del columns[name]


def _with_folds(
    table: RunsTable, rows: pd.DataFrame, values: pd.DataFrame, plain: pd.DataFrame
) -> pd.DataFrame:
    """The values with the means over folds, where they are numbers, of the runs with values by
    fold; over how many folds each run was made goes to the rows, as `Results` says."""
    runs = rows["run_id"].items()
    held = {at: table.by_fold[run_id] for at, run_id in runs if run_id in table.by_fold}
    folds = pd.Series(held, dtype=object)
    means_of_runs = [{m: np.mean(v) for m, v in each.values.items()} for each in folds]
    means = pd.DataFrame(means_of_runs, folds.index)
    means = means.astype(float).replace([np.inf, -np.inf], np.nan)
    if len(means.columns):
        order = dict.fromkeys([*values, *means])
        values = means.combine_first(values).reindex(columns=[*order])
    for m in MEASURES.keys() & means.columns:
        own = means[m].notna().reindex(rows.index, fill_value=False)
        plain[m] = plain.get(m, False) | (own & ~table.ours)
    told = values[[m for m in values if _OF_FOLDS.search(m)]].notna().any(axis=1)
    protocols = told.map({True: -1, False: 1})
    protocols[rows["method_by"].str.startswith("tag:mleval.")] = 0
    for at, of_run in folds.items():
        protocols[at] = len(of_run.folds)
    sizes = rows["n_test"].map(len)
    rows["protocol"] = protocols.where(sizes == 0, sizes)
    return values


def _unmeasured(values: Collection[str]) -> str:
    """Why a run of others without any measure that may count is no result."""
    if not values:
        return "it has no metrics"
    if of_training(values).issuperset(values):
        return f"its metrics are of training data ({some(sorted(values), 6)})"
    lacking = [m for m in sorted(values) if direction_of(m) is None]
    if not lacking:
        return f"none of the measures that count; it has {some(sorted(values), 6)}"
    text = f"{UNDIRECTED} ({some(lacking, 6)}); declare "
    suggested = any(map(proposed_direction, lacking))
    proposed = (", or take what their names suggest: ", PROPOSED) if suggested else ()
    return Message(text, DECLARE, *proposed)


# --------------------------------------------------------------------------------------------------
# What tells methods, datasets and repeats apart, and where that is too weak.

#: What names a method or a dataset, in words.
_IN_WORDS = {
    "tag:mleval.method": "its own tag",
    "tag:mleval.dataset": "its own tag",
    "estimator": "scikit-learn's estimator",
    "run_name": "the name of the run",
    "input": "the name of the dataset input",
    "shape": "the shape of the data",
    "experiment": "the experiment",
    DIGEST: "the digest of the data",
    "all": "nothing: experiments are methods, and their data are taken for the same",
}
#: A part of a run's name that numbers repeats.
_NUMBERED = re.compile(r"(?P<before>|s|seed|r|rep|repeat|run|try|split)\d+", re.I)
#: A name that MLflow or a search makes up for a run without one.
MADE_UP = re.compile(r"[a-z]+-[a-z]+-\d{1,4}|(trial[_ -]?)?\d+", re.IGNORECASE)
#: What settles that each experiment is a dataset.
_ALONE = Argument("dataset_by", "experiment")
#: What tells repeats apart where nothing does, and what that leaves open.
NOTHING = "nothing: they have the same params"
_UNTOLD = (
    "Runs of a method differ in nothing that was recorded: they may be repeats, or results on "
    "several datasets. Say "
)
#: What stands between the parts of names.
_BETWEEN = ("_", "/", "-", " ", ".", "|")


def factors_of(rows: pd.DataFrame, table: RunsTable, selection: Selection) -> tuple[Factor, ...]:
    """What tells the methods, the datasets and the repeats of these runs apart."""
    by = table.told_by.get("method", told_by(rows["method_by"]))
    methods = Factor("method", rows["method"].nunique(), by, names=(*rows["method"].unique(),))
    repeats = rows.groupby(["dataset", "method"]).size()
    repeated = ""  # what tells repeats apart: what was asked for, seeds, the data, or nothing
    if repeats.max() > 1:
        runs, told = rows[rows.duplicated(["dataset", "method"], keep=False)], []
        cells = [runs["dataset"], runs["method"]]
        if selection.repeats_by:
            told.append(f"{', '.join(selection.repeats_by)}, as asked")
        elif (runs["repeat"].groupby(cells).nunique() > 1).any():
            seeds: Sequence[str] = sorted(filter(is_seed, table.names["params"]), key=len)
            told.append(f"param:{seeds[0]}" if seeds else "its number")
        data = runs["dataset_digest"] + runs["split_digest"]
        if (data.groupby(cells).nunique() > 1).any():
            told.append("different splits of the data")
        repeated = joined(" and ", told) if told else NOTHING
    doubt, more = _doubts(rows, table, selection, repeated)
    # digests are splits of one dataset, unless somebody says otherwise
    shapes = table.frame["shape"]
    names = (*rows["dataset"].unique(),)
    n, by = len(names), table.told_by.get("dataset", told_by(rows["dataset_by"]))
    known = rows[rows["dataset_digest"] != ""]
    # of one method: tables of several differ in what these predicted
    several = known.groupby(["dataset", "method"])["dataset_digest"].transform("nunique") > 1
    splits = known[several].groupby("dataset")["dataset_digest"].nunique()
    if selection.dataset_by == DIGEST and 0 < shapes.nunique() < n and (shapes != "").all():
        by = f"{by}, as asked; by its shape there would be {shapes.nunique()}"
    elif selection.dataset_by is None and len(splits):
        text = f"{by}; {splits.sum()} digests are splits of them ("
        by = Message(text, Argument("dataset_by", DIGEST), " if each is its own)")
    factors = [methods, Factor("dataset", n, by, more, names)]
    if repeated:
        factors.append(Factor("repeat", int(repeats.max()), repeated, doubt))
    return tuple(factors)


def _doubts(
    rows: pd.DataFrame, table: RunsTable, selection: Selection, repeated: str
) -> tuple[str, str]:
    """That there may be more datasets, or repeats on several, where nothing but the experiment
    names the dataset and something says otherwise; and that, or that there may be fewer."""
    unnamed = rows["dataset_by"] == "experiment"
    if selection.dataset_by or "dataset" in name_parts(selection.name_as or ""):
        return "", ""
    n, rows, table = rows["dataset"].nunique(), rows[unnamed], table.where(unnamed)
    these = "This may be one dataset" if n == 1 else f"These may be {n} datasets"
    for rule, texts in called_dataset(table):
        if (texts.groupby(rows["dataset"]).nunique() > 1).any():
            several = f"{these} or {texts.nunique()}, for {rule} differs: say "
            doubt = Message(several, Argument("dataset_by", rule), " or ", _ALONE, ".")
            return doubt, doubt
    pattern = pattern_of(table)
    if "dataset" in name_parts(pattern):
        several = f"{these} or more, for the names of the runs differ in further parts: say "
        doubt = Message(several, Argument("name_as", pattern), " or ", _ALONE, ".")
        return doubt, doubt
    if not len(rows):
        return "", ""
    if repeated == NOTHING:
        doubt = Message(_UNTOLD, Argument("dataset_by", "RULE"), " or ", _ALONE, ".")
        return doubt, doubt
    shapes = table.frame["shape"]
    of_each = shapes.groupby(rows["dataset"]).agg(["nunique", "first"])
    told = (of_each["nunique"] == 1).all() and of_each["first"].is_unique and (shapes != "").all()
    if n == 1 or told:
        return "", ""
    text = f"These may be {n} datasets, for nothing but the experiment tells them apart: say "
    return "", Message(text, _ALONE, " if each is of its own data.")


def told_by(rules: pd.Series, words: Mapping[str, str] = _IN_WORDS) -> str:
    """By what names were found, with counts where there are several ways."""
    counts = Counter(rules)
    return ", ".join(
        f"{words.get(rule, rule)} ({count(n, 'run')})" if len(counts) > 1 else words.get(rule, rule)
        for rule, n in counts.most_common()
    )


def last_part(name: str) -> str:
    """The last part of the name of a param or tag, in small letters."""
    return re.split(r"[./:]|__", name)[-1].lower()


def called_dataset(table: RunsTable) -> list[tuple[str, pd.Series]]:
    """The params and tags that are called like a dataset's, with their texts."""
    return [
        (f"{kind}:{name}", table.texts(f"{kind}s.{name}"))
        for kind in ("param", "tag")
        for name in table.names[f"{kind}s"]
        if last_part(name) in DATASET and not name.startswith("mlflow.")
    ]


def pattern_of(table: RunsTable) -> str:
    """What the names of the runs seem to say, as `name_as` takes it; empty where they are not built
    alike. A guess, which nobody may follow unasked."""
    names = table.frame["run_name"]
    if any(map(MADE_UP.fullmatch, names.unique())):
        return ""
    for between in _BETWEEN:
        parts = names.str.split(between, regex=False)
        if len(names) and parts.map(len).nunique() == 1 and len(parts.iloc[0]) > 1:
            columns = pd.DataFrame(parts.tolist(), index=names.index)
            texts, varying = _parts_that_vary(columns)
            if len(varying) not in (1, 2):
                continue
            # the method comes first, unless a param says that the other part is it
            params = (f"params.{name}" for name in table.names["params"] if not is_seed(name))
            last = columns[varying[-1]].tolist()
            if len(varying) == 2 and any(table.texts(name).tolist() == last for name in params):
                varying.reverse()
            for part, i in zip(("{method}", "{dataset}"), varying, strict=False):
                texts[i] = part
            if len(varying) == 2 or "{seed}" in "".join(texts):
                return between.join(filter(None, texts))
    return ""


def _parts_that_vary(columns: pd.DataFrame) -> tuple[list[str], list[int]]:
    """The parts of names, ``{seed}`` for one that numbers repeats, and the positions of those that
    vary; of several that vary together the first, for these are one name of several words."""
    texts, varying, numbered = columns.iloc[0].tolist(), list[int](), False
    for i in columns:
        n = columns[i].nunique()
        numbers = [_NUMBERED.fullmatch(text) for text in columns[i].unique()]
        before = {hit["before"] for hit in numbers if hit}
        if n > 1 and all(numbers) and len(before) == 1 and not numbered:
            texts[i], numbered = f"{before.pop()}{{seed}}", True
        elif n > 1 and varying and n == columns[varying[-1]].nunique():
            if len(columns[[varying[-1], i]].drop_duplicates()) == n:
                texts[i] = ""
            else:
                varying.append(i)
        elif n > 1:
            varying.append(i)
    return texts, varying
