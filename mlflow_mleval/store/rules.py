"""Rules: expressions over the columns of a runs table that say what a run is of, its method, its
dataset, and which repeat it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient

from mlflow_mleval.errors import NoRunsError
from mlflow_mleval.selection import DIGEST, Selection, key_of, name_parts
from mlflow_mleval.sentences import did_you_mean, some
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.bounds import bounded_json
from mlflow_mleval.store.runs_table import RunsTable

#: Where MLflow keeps which prompts of its registry a run loaded.
_PROMPTS = "mlflow.linkedPrompts"
#: The name that MLflow gives to a dataset input without one.
NAMELESS = "dataset"
#: A class in the text of an estimator, and how much of a digest stands in a name.
_CLASS, _SHORT = re.compile(r"\b([A-Z]\w*)\("), 8
#: The rule that takes the LoggedModel of a run for its method.
_MODEL = "model"
#: Of a model's id, enough to tell a million apart.
_ID_SHOWN = len("m-") + 12
#: What is plainly a seed: these names, also as the last part of a longer one (model__random_state,
#: train.seed, data_seed).
_SEED = re.compile(
    r"(.*[_./:-])?(seed|random_state|random_seed|rng|try|attempt|repeat|repetition|replicate)",
    re.IGNORECASE,
)
#: A seed within the text of an estimator.
_SEED_IN_TEXT = re.compile(r"\b(\w*_)?(seed|random_state|rng)=[^,()\[\]{}]*", re.IGNORECASE)


#: What names a dataset where no tag of ours does, the strongest evidence first.
_DATASET = ("input", "shape", "experiment")
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
    """What names the method or the dataset of a run: ``tag:NAME``, ``param:NAME``, ``run_name``,
    ``experiment``; of a dataset ``input`` or ``digest``, of a method ``run_id``,
    ``estimator``, ``model`` or ``prompt``.

    Several rules make one name, "xgb, lr=0.1": the first has to hold, the others where they do.
    Where experiments are methods, all data that have no other name are `one` dataset. `models` says
    what LoggedModels are called by their ids, and by those of runs that are not linked to them but
    gave their metrics or were registered.
    """

    what: str
    rules: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    one: bool = False

    def named(self, table: RunsTable) -> tuple[pd.Series, pd.Series]:
        """The names, empty where nothing gives one, and the rules that gave them."""
        if not self.rules:
            first = schema.TAG_METHOD if self.what == "method" else schema.TAG_DATASET
            others = ("estimator", "run_name") if self.what == "method" else _DATASET
            parts = [(f"tag:{first}", table.tag(first))]
            parts += [(rule, self._texts(rule, table)) for rule in others]
            if self.what == "dataset":
                parts[1] = ("input", parts[1][1].where(parts[1][1] != NAMELESS, ""))
            if self.one:
                parts[2:] = [("all", pd.Series(_ALL, table.frame.index, dtype=object))]
            return _first_of(parts, table.frame.index)
        first, *more = self.rules
        names = self._texts(first, table)
        names = names.where(names.str.strip() != "", "")
        if self.what == "method" and ":" in first and _are_numbers(names):
            names = names.where(names == "", f"{key_of(first)[1]}=" + names)  # C=0.1, not 0.1
        for rule in more:
            texts = self._texts(rule, table)
            said = f", {key_of(rule)[1]}=" if ":" in rule else ", "
            names = names.where((names == "") | (texts == ""), names + said + texts)
        return names, pd.Series(", ".join(self.rules), names.index, dtype=object)

    def names(self, table: RunsTable) -> pd.Series:
        return self.named(table)[0]

    def lacking(self, table: RunsTable) -> list[str]:
        """That each of these runs lacks what was to name it, and of a param or tag, which ones it
        has.
        """
        text = f"no {self.rules[0] if self.rules else self.what}, which was to name the {self.what}"
        kind, key = key_of(self.rules[0]) if self.rules else ("", "")
        if kind not in ("param", "tag"):
            return [text] * len(table)
        hidden = ("mlflow.", "mleval.")
        names = sorted(n for n in table.names[f"{kind}s"] if not n.startswith(hidden))
        there = np.array([table.has(f"{kind}s.{n}").to_numpy() for n in names]).T
        texts: dict[bytes, str] = {}
        reasons = []
        for row in there.reshape(len(table), len(names)):
            if row.tobytes() not in texts:  # most runs of an experiment have the same params
                has = [name for name, held in zip(names, row, strict=True) if held]
                guess = f".{did_you_mean([key], has)}".rstrip(".")
                texts[row.tobytes()] = f"{text}; it has {some(has)}{guess}" if has else text
            reasons.append(texts[row.tobytes()])
        return reasons

    def _texts(self, rule: str, table: RunsTable) -> pd.Series:
        kind, key = key_of(rule)
        if kind in ("tag", "param"):
            return table.texts(f"{kind}s.{key}")
        if rule == _MODEL:
            made, ids = table.frame["model"], table.frame["run_id"]
            return made.where(made != "", ids).map(self.models).fillna(made)
        if rule == DIGEST:
            names = Rule("dataset").names(table) + " " + digests(table).str[:_SHORT]
            return names.str.rstrip()
        if rule == "estimator":
            return estimators(table)
        if rule == "prompt":
            return table.tag(_PROMPTS).map(_prompts)
        if rule == "shape":
            return _shapes(table)
        return table.frame["data" if rule == "input" else rule]


def _are_numbers(names: pd.Series) -> bool:
    """Whether those that are not empty are numbers."""
    texts = pd.Series(names.unique())
    return len(texts) > 0 and bool(pd.to_numeric(texts[texts != ""], errors="coerce").notna().all())


def _first_of(
    parts: Iterable[tuple[str, pd.Series]], index: pd.Index
) -> tuple[pd.Series, pd.Series]:
    """Of each run the first of several names that is not empty, and what gave it."""
    names, by = pd.Series("", index, dtype=object), pd.Series("", index, dtype=object)
    for rule, texts in parts:
        taken = (names == "") & (texts.str.strip() != "")
        names, by = names.where(~taken, texts), by.where(~taken, rule)
    return names, by


def _shapes(table: RunsTable) -> pd.Series:
    """The experiment with the shape of the data, "autolog (13 features)", of runs whose data have
    no name, where an experiment holds data of several shapes: these are different datasets.
    """
    frame = table.frame
    known = frame["shape"].where(frame["data"].isin(["", NAMELESS]), "")
    told = frame[known != ""].groupby("experiment_id")["shape"].nunique()
    several = frame["experiment_id"].isin(told.index[told > 1]) & (known != "")
    return (frame["experiment"] + " (" + known + ")").where(several, "")


def rules_of(selection: Selection) -> tuple[Rule, Rule]:
    """What names the methods, and what the datasets."""
    method, dataset = tuple(selection.method_by), selection.dataset_by
    if selection.name_as:
        method = (f"param:{_PART.format('method')}",)
        if "dataset" in name_parts(selection.name_as):
            dataset = dataset or f"param:{_PART.format('dataset')}"
    if method == ("experiment",) and dataset is None:
        return Rule("method", method), Rule("dataset", one=True)
    return Rule("method", method), Rule("dataset", (dataset,) if dataset else ())


def with_name_parts(table: RunsTable, pattern: str) -> RunsTable:
    """The runs with the parts of their names as params; the seed is one of that name.

    Raises
    ------
    NoRunsError
        No name is like the pattern.
    """
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
    return replace(table, frame=frame.assign(**parts))


def digests(table: RunsTable) -> pd.Series:
    """The digest of the data that each run was evaluated on, or, where only these were logged,
    trained on; empty where there is none.
    """
    own = table.tag(schema.TAG_DATASET_DIGEST)
    return own.where(own != "", table.frame["digest"])


def estimators(table: RunsTable) -> pd.Series:
    """The scikit-learn estimator that MLflow's autologging saw, with those that a pipeline or a
    search holds: "Pipeline(StandardScaler, SVC)", "GridSearchCV(SVC)"; empty where there is none.
    """
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


def _prompts(tag: str) -> str:
    """The versions of the prompts that a run loaded, "qa/2"."""
    try:
        linked = bounded_json(tag or "[]")
        return ", ".join(f"{prompt['name']}/{prompt['version']}" for prompt in linked)
    except (ValueError, TypeError, KeyError):
        return ""


# --------------------------------------------------------------------------------------------------
# Which repeat a run is, and in which params repeats are equal.


def is_seed(param: str) -> bool:
    """Whether a param of this name is plainly a seed, or counts repeats.

    >>> [is_seed(name) for name in ("seed", "model__random_state", "data_seed", "n_seeds", "lr")]
    [True, True, True, False, False]
    >>> [is_seed(name) for name in ("try", "attempt", "trial", "n_repeats")]
    [True, True, False, False]
    """
    return _SEED.fullmatch(param) is not None


def repeat_names(table: RunsTable, rules: Sequence[str]) -> pd.Series:
    """Which repeat each run is, by its seed or by what ``param:NAME`` or ``tag:NAME`` names; with
    ``digest`` each is on another split of the same data. Empty where nothing says so.
    """
    if not rules:
        seeds = sorted(filter(is_seed, table.names["params"]), key=len)
        names = pd.Series("", table.frame.index, dtype=object)
        unnamed = pd.Series(True, names.index)
        for seed in seeds:
            has = table.has(f"params.{seed}") & unnamed
            names, unnamed = names.where(~has, table.texts(f"params.{seed}")), unnamed & ~has
        return names
    parts = [
        digests(table) if rule == DIGEST else table.texts("{}s.{}".format(*key_of(rule)))
        for rule in rules
    ]
    names = parts[0]
    for part in parts[1:]:
        between = np.where((names != "") & (part != ""), ", ", "")
        names = names + between + part
    return names


def settings(table: RunsTable, rules: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The params in which repeats of a run are equal, without seeds and what tells repeats apart,
    and a number for each value, −1 where there is none: runs x params.
    """
    gone = {key for kind, key in map(key_of, rules) if kind == "param"}
    names, codes = table.codes()
    kept = [i for i, name in enumerate(names) if not (is_seed(name) or name in gone)]
    names, codes = [names[i] for i in kept], codes[:, kept]
    found = table.has("metrics.best_cv_score").to_numpy()
    for i, name in enumerate(names):
        if name.startswith("best_"):  # what a search found is no setting of it
            codes[found, i] = -1
        texts = table.frame[f"params.{name}"].cat.categories
        bare = [_SEED_IN_TEXT.sub("", text) for text in texts]
        if len({*bare}) < len(bare):
            same = pd.factorize(np.array(bare, dtype=object))[0]
            codes[:, i] = np.where(codes[:, i] < 0, -1, same[codes[:, i]])
    return names, codes


def differing(names: Sequence[str], codes: np.ndarray) -> list[str]:
    """The names that have several values among these rows; one that some lack has.

    >>> differing(["lr", "depth"], np.array([[0, 1], [1, 1]]))
    ['lr']
    """
    several = (codes != codes[:1]).any(axis=0)
    return [name for name, differs in zip(names, several, strict=True) if differs]


# --------------------------------------------------------------------------------------------------
# What LoggedModels are called.


def with_models(client: MlflowClient, experiment_ids: Sequence[str], rule: Rule) -> Rule:
    """The rule, knowing what LoggedModels are called where it needs that: by the version that was
    registered, else by name and id, for most are named "model".
    """
    if _MODEL not in rule.rules:
        return rule
    named, measured = logged_models(client, experiment_ids)

    def search(token: str | None) -> Any:
        with store.store_errors("read"):
            return client.search_model_versions(page_token=token)

    pages = store.paged(search, lambda each: f"{each.name}/{each.version}", "model versions")
    versions = [version for page in pages for version in page]
    versions.sort(key=lambda version: version.creation_timestamp)  # the last one counts
    called = {model: f"{name} {model[:_ID_SHOWN]}" for model, name in named.items()}
    for version in versions:
        # a registry may know the run alone
        if made := store.id_of_version(version) or version.run_id:
            called[made] = f"{version.name}/{version.version}"
    return replace(rule, models=called | {run: called[model] for run, model in measured.items()})


def logged_models(
    client: MlflowClient, experiment_ids: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The names of the LoggedModels by their ids, and their ids by those of the runs that gave
    metrics of one alone.

    A run of `mlflow.genai.evaluate` is linked to its model in no other way.
    """
    named: dict[str, str] = {}
    by_run: dict[str, set[str]] = {}

    def search(token: str | None) -> Any:
        with store.store_errors("read"):
            return client.search_logged_models(
                experiment_ids=list(experiment_ids), page_token=token
            )

    for page in store.paged(search, lambda model: model.model_id, "models"):
        for model in page:
            named[model.model_id] = model.name
            for metric in model.metrics or ():
                by_run.setdefault(metric.run_id, set()).add(model.model_id)
    return named, {run: next(iter(models)) for run, models in by_run.items() if len(models) == 1}
