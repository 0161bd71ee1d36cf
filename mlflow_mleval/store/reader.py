"""What one run says: its method, dataset, status and values, or why it is no result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT, MLFLOW_GIT_COMMIT, MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import NoRunsError
from mlflow_mleval.measures.metric_names import (
    by_measure,
    direction_of,
    of_training,
    proposed_direction,
)
from mlflow_mleval.measures.owa import MEASURED, hard_measures
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.selection import DIGEST, Selection, key_of
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.bounds import MAX_DIGITS, bounded_json, computable
from mlflow_mleval.validation import present
from mlflow_mleval.words import DECLARE, PROPOSED, Message, did_you_mean, quoted, some

#: Where MLflow keeps which prompts of its registry a run loaded.
_PROMPTS = "mlflow.linkedPrompts"
#: Why a run is left out that a newer version wrote begins with this.
NEWER = "it has schema "
#: The name that MLflow gives to a dataset input without one.
_NAMELESS = "dataset"
#: A class in the text of an estimator, and how much of a digest stands in a name.
_CLASS, _SHORT = re.compile(r"\b([A-Z]\w*)\("), 8
#: Measures that the profile of the label sets gives.
FROM_PROFILE = ("hamming_loss", "subset_accuracy", *MEASURED)
CHILD = "children of other runs are no results"
#: Rules that take the LoggedModel of a run, or the versions of the prompts that it loaded, for its
#: method.
MODEL, PROMPT = "model", "prompt"
_TEST_CONTEXTS = ("eval", "evaluation", "test", "testing", "validation")
COLUMNS = (
    "run_id",
    "experiment_id",
    "experiment",
    "dataset",
    "method",
    "status",
    "conventions",
    "split_digest",
    "dataset_digest",
    "n_train",
    "n_test",
    "selected_among",
    "repeat",
    "start_time",
)


class RunProfiles(Mapping[str, schema.ProfileTag]):
    """The loss profiles that a run carries, "hard" and "soft"; each tag is decoded when it is first
    asked for.

    Raises
    ------
    ValueError
        A tag that is asked for cannot be read.
    """

    def __init__(self, tags: Mapping[str, str]) -> None:
        self._tags = {kind: tags[key] for kind, key in schema.TAG_PROFILES.items() if key in tags}
        self._found: dict[str, schema.ProfileTag] = {}

    def __getitem__(self, kind: str) -> schema.ProfileTag:
        if kind not in self._found:
            self._found[kind] = {"hard": schema.decode_profile, "soft": schema.decode_soft_profile}[
                kind
            ](self._tags[kind])
        return self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tags)

    def __len__(self) -> int:
        return len(self._tags)


@dataclass(frozen=True)
class Result:
    """A run that can be used.

    `plain` names measures that were logged without our prefix, `bad` those whose values are no
    results. `broken` says by tag why it cannot be read; what it tells is then unknown. Values by
    fold are in `folds` as our tag has them, or in `by_fold` as another rule found them. `repeat`
    says which repeat the run is, `config` holds its other params; `keys` has the metrics whose
    names MLflow made of calls, by measure, `n_rows` the size of the data; the mean of several runs
    has them as its `repeats`.
    """

    run_id: str
    experiment_id: str
    experiment: str
    dataset: str
    method: str
    named_by: tuple[tuple[str, ...], tuple[str, ...]]
    status: str
    conventions: str
    hierarchy: str
    split_digest: str
    dataset_digest: str
    n_train: tuple[int, ...]
    n_test: tuple[int, ...]
    selected_among: int
    start_time: pd.Timestamp
    values: Mapping[str, float]
    plain: Collection[str]
    bad: Mapping[str, float]
    folds: str
    profiles: RunProfiles
    by_fold: schema.FoldValues | None = None
    broken: Mapping[str, str] = field(default_factory=dict)
    repeat: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    propensities: str = ""
    weights: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    n_rows: int | None = None
    repeats: tuple[Result, ...] = ()
    searched: bool = False  #: whether it is what a search says of its winner

    @property
    def members(self) -> tuple[Result, ...]:
        """The runs of which this is the mean, or itself."""
        return self.repeats or (self,)

    @property
    def name(self) -> str:
        runs = f"run {self.run_id}" if not self.repeats else f"{len(self.repeats)} runs"
        return f"{self.method} on {self.dataset} ({runs})"


@dataclass(frozen=True)
class Rule:
    """What names the method or the dataset of a run: ``tag:NAME``, ``param:NAME``, ``run_name``,
    ``experiment``; of a dataset ``input`` or ``digest``, of a method ``run_id``,
    ``estimator``, ``model`` or ``prompt``.

    Several rules make one name, "xgb, lr=0.1": the first has to hold, the others where they do.
    `models` says what LoggedModels are called by their ids, and by those of runs that are not
    linked to them but gave their metrics or were registered.
    """

    what: str
    rules: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)

    def find(self, run: Run, experiment: str) -> tuple[str, tuple[str, ...]] | None:
        """The name and the rules that gave it; None where the first gives none."""
        if not self.rules:
            named = {"method": _default_method, "dataset": _default_dataset}[self.what](
                run, experiment
            )
            return named and (named[0], (named[1],))
        name = self._one(self.rules[0], run, experiment)
        if not (name and name.strip()):
            return None
        for rule in self.rules[1:]:
            if text := self._one(rule, run, experiment):
                name += f", {key_of(rule)[1]}={text}" if ":" in rule else f", {text}"
        return name, self.rules

    def name_of(self, run: Run, experiment: str) -> str:
        """The name; empty where the first rule gives none."""
        named = self.find(run, experiment)
        return named[0] if named else ""

    def lacking(self, run: Run) -> str:
        """That the run lacks what was to name it, and of a param or tag, which ones it has."""
        text = f"no {self.rules[0]}, which was to name the {self.what}"
        kind, key = key_of(self.rules[0])
        if kind not in ("param", "tag"):
            return text
        has = run.data.params if kind == "param" else run.data.tags
        names = tuple(sorted(n for n in has if not n.startswith(("mlflow.", "mleval."))))
        return f"{text}; it has {some(names)}{_guess(key, names)}" if names else text

    def _one(self, rule: str, run: Run, experiment: str) -> str | None:
        kind, key = key_of(rule)
        if kind in ("tag", "param"):
            return {"tag": run.data.tags, "param": run.data.params}[kind].get(key)
        if rule == MODEL:
            model = model_of(run)
            return self.models.get(model or run.info.run_id, model)
        if rule == DIGEST:
            named = _default_dataset(run, experiment)
            return named and f"{named[0]} {digest_of(run)[:_SHORT]}".rstrip()
        return {
            "run_name": run.info.run_name,
            "run_id": run.info.run_id,
            "experiment": experiment,
            "estimator": estimator_of(run),
            "input": _input(run)[0],
            PROMPT: _prompts(run),
        }[rule]


def rules_of(selection: Selection) -> tuple[Rule, Rule]:
    """What names the methods, and what the datasets."""
    by = selection.dataset_by
    return Rule("method", tuple(selection.method_by)), Rule("dataset", (by,) if by else ())


@lru_cache
def _guess(key: str, names: tuple[str, ...]) -> str:
    """Most runs of an experiment have the same params."""
    return f".{did_you_mean([key], names)}".rstrip(".")


def model_of(run: Run) -> str | None:
    """The id of the one LoggedModel that the run made, or took; None where there is none, or
    several.
    """
    made = {m.model_id for m in run.outputs.model_outputs} if run.outputs else set()
    taken = {m.model_id for m in run.inputs.model_inputs} if run.inputs else set()
    ids = made or taken
    return next(iter(ids)) if len(ids) == 1 else None


def _prompts(run: Run) -> str | None:
    """The versions of the prompts that the run loaded, "qa/2"."""
    try:
        linked = bounded_json(run.data.tags.get(_PROMPTS, "[]"))
        return ", ".join(f"{prompt['name']}/{prompt['version']}" for prompt in linked) or None
    except (ValueError, TypeError, KeyError):
        return None


def is_ours(run: Run) -> bool:
    """Whether the run says what it is in our tags."""
    return schema.TAG_METHOD in run.data.tags


def started(run: Run) -> pd.Timestamp:
    """When the run started.

    Raises
    ------
    ValueError
        What it says is no time.
    """
    try:
        time = pd.Timestamp(run.info.start_time or 0, unit="ms", tz="UTC")
        time.value  # noqa: B018 - raises OverflowError where tables of times have no room for it
        return time
    except (ValueError, OverflowError):
        since = f"{run.info.start_time:,} milliseconds after 1970"
        raise ValueError(f"it is said to have started {since}, which is no time") from None


def read_run(
    run: Run,
    experiment: str,
    method: Rule,
    dataset: Rule,
    wanted: Callable[[str], object],
    by_fold: schema.FoldValues | None = None,
    repeat_of: Callable[[Run], tuple[str, Mapping[str, str]]] = lambda run: ("", {}),
) -> Result | str:
    """The result that the run holds, or the reason why it holds none; measures that have values by
    fold get their mean.

    `wanted` tells whether a measure may count, `repeat_of` which repeat a run is, and its other
    params.
    """
    tags = run.data.tags
    finished = {"FINISHED": schema.COMPLETE}.get(run.info.status, run.info.status)
    status = tags.get(schema.TAG_STATUS) or finished
    conventions = tags.get(schema.TAG_CONVENTIONS, schema.UNKNOWN_CONVENTIONS)
    if reason := _unusable(run, status, conventions):
        return reason
    names = [rule.find(run, experiment) for rule in (method, dataset)]
    if None in names:
        return (method, dataset)[names.index(None)].lacking(run)
    (method_name, method_rules), (dataset_name, dataset_rules) = map(present, names)
    values, plain, bad, keys = _values(run, by_fold)
    repeat, config = repeat_of(run)
    broken: dict[str, str] = {}
    sizes = _decoded(tags, schema.TAG_FOLD_SIZES, schema.decode_fold_sizes, broken)
    _decoded(tags, schema.TAG_WITHDRAWN, schema.decode_withdrawn, broken)
    _decoded(tags, schema.TAG_RUN, schema.decode, broken)
    stranger = status == schema.COMPLETE and not is_ours(run)
    if stranger and not any(map(wanted, values)):
        return _unmeasured(values)
    return Result(
        run_id=run.info.run_id,
        experiment_id=run.info.experiment_id,
        experiment=experiment,
        method=method_name,
        dataset=dataset_name,
        named_by=(method_rules, dataset_rules),
        status=status,
        conventions=conventions,
        hierarchy=tags.get(schema.TAG_HIERARCHY_DIGEST, ""),
        propensities=tags.get(schema.TAG_PROPENSITIES, ""),
        weights=tags.get(schema.TAG_WEIGHTS, ""),
        split_digest=tags.get(schema.TAG_SPLIT_DIGEST, ""),
        dataset_digest=digest_of(run),
        **(sizes or {"n_train": (), "n_test": ()}),
        selected_among=_selected_among(tags),
        searched=schema.TAG_SELECTED in tags,
        start_time=started(run),
        values=values if status == schema.COMPLETE else {},
        plain=plain,
        bad=bad,
        folds=tags.get(schema.TAG_FOLDS, ""),
        profiles=RunProfiles(tags),
        by_fold=by_fold,
        broken=broken,
        repeat=repeat,
        config=config,
        commit=tags.get(MLFLOW_GIT_COMMIT, ""),
        keys=keys,
        n_rows=n_rows_of(run),
    )


def _unmeasured(values: Collection[str]) -> str:
    """Why a run of others without any measure that may count is no result."""
    if not values:
        return "it has no metrics"
    if of_training(values).issuperset(values):
        return f"its metrics are of training data ({some(sorted(values), 6)})"
    lacking = [m for m in sorted(values) if direction_of(m) is None]
    if not lacking:
        return f"none of the measures that count; it has {some(sorted(values), 6)}"
    text = f"nobody knows which way its metrics are better ({some(lacking, 6)}); declare "
    suggested = any(map(proposed_direction, lacking))
    proposed = (", or take what their names suggest: ", PROPOSED) * suggested
    return Message(text, DECLARE, *proposed)


def _unusable(run: Run, status: str, conventions: str) -> str:
    """Why the run holds no result that can be read; empty where it may."""
    tags = run.data.tags
    if newer := schema.newer_schema(tags):
        return NEWER + newer.removeprefix("schema ").rstrip(".")
    if MLFLOW_PARENT_RUN_ID in tags and (not is_ours(run) or schema.TAG_TRIAL in tags):
        return CHILD
    if status == schema.INCOMPLETE:
        return "written in part only; import or log again"
    if status not in (schema.COMPLETE, schema.DNF):
        return f"status {status}"
    if conventions not in schema.CONVENTIONS:
        return f"its conventions, {quoted(conventions)}, are none of {some(schema.CONVENTIONS)}"
    return ""


def _selected_among(tags: Mapping[str, str]) -> int:
    n = tags.get(schema.TAG_SELECTED, "")
    return int(n) if n.isdecimal() and len(n) < MAX_DIGITS else 1


def _decoded(
    tags: Mapping[str, str], tag: str, decode: Callable[[str], Any], broken: dict[str, str]
) -> Any:
    """What the tag says; None where the run has none, or it cannot be read, and why is then
    told.
    """
    if not tags.get(tag):
        return None
    try:
        return decode(tags[tag])
    except ValueError as error:
        broken[tag] = str(error).rstrip(".")
        return None


def _values(
    run: Run, by_fold: schema.FoldValues | None
) -> tuple[dict[str, float], set[str], dict[str, float], dict[str, str]]:
    """Values by measure, which of them are plain metrics named like a known measure, values that
    are no results, and the keys of those whose names MLflow made of calls.
    """
    values: dict[str, float] = {}
    others: dict[str, float] = {}
    bad: dict[str, float] = {}
    for key, value in run.data.metrics.items():
        measure = schema.measure_of(key)
        if measure is None and key.startswith("mleval."):
            continue
        into = others if measure is None else values
        into = into if computable(value) else bad
        into[measure or key] = value
    for measure in schema.withdrawn(run.data.tags):
        values.pop(measure, None)
    # Beside our own metrics, somebody else's "accuracy" is another accuracy.
    plain = set() if values else MEASURES.keys() & others
    others = {m: v for m, v in others.items() if m in plain or m not in MEASURES}
    others, keys = (others, {}) if values else by_measure(others)
    values = {**values, **others, **values}
    if by_fold is not None:
        values, means = _with_means(values, by_fold)
        plain |= set() if is_ours(run) else MEASURES.keys() & means
    return values, plain, bad, keys


def _with_means(
    values: Mapping[str, float], by_fold: schema.FoldValues
) -> tuple[dict[str, float], set[str]]:
    """The values with those means over folds that are numbers, and of which measures there are
    folds.
    """
    means = {m: float(np.mean(v)) for m, v in by_fold.values.items()}
    return {**values, **{m: v for m, v in means.items() if math.isfinite(v)}}, {*means}


def metrics_of(run: Run) -> dict[str, float]:
    """Finite values by measure or metric, without those by fold and step that mleval logs, and
    those of the machine.
    """
    values = {schema.measure_of(key) or key: value for key, value in run.data.metrics.items()}
    own = ("mleval.", "system/")
    values = {m: v for m, v in values.items() if not m.startswith(own) and computable(v)}
    return values if is_ours(run) else by_measure(values)[0]


def with_profile_measures(result: Result, asked: Collection[str]) -> Result:
    """The result with the measures that were asked for and that its loss profile gives, where it
    lacks them.
    """
    missing = [m for m in asked if m in FROM_PROFILE and m not in result.values]
    if not missing or "hard" not in result.profiles or result.status != schema.COMPLETE:
        return result
    measures = store.of_one_run(lambda: _of_profile(result.profiles["hard"]))
    if isinstance(measures, str):  # whoever compares profiles is told
        return result
    values = {m: v for m, v in measures.items() if m in missing and math.isfinite(v)}
    return replace(result, values={**result.values, **values})


def _of_profile(tag: schema.ProfileTag) -> dict[str, float]:
    """The measures that a loss profile gives; none where the tag only points to it."""
    if tag.omitted:
        return {}
    return {
        m: float(v.mean()) for m, v in hard_measures(errors_of(tag, "hard"), tag.n_labels).items()
    }


def errors_of(tag: schema.ProfileTag, kind: str) -> np.ndarray:
    """Mean i-th largest errors, one row a fold, zeros at the end left out."""
    rows = np.zeros((len(tag.rows), max(map(len, tag.rows))))
    for i, row in enumerate(tag.rows):
        rows[i, : len(row)] = row
    if kind == "soft":
        return rows
    return np.cumsum(rows[:, ::-1], axis=1)[:, -2::-1] / rows.sum(
        axis=1, keepdims=True
    )  # 1 where at least i labels are wrong


def _named(name: str | None, by: str) -> tuple[str, str] | None:
    return (name, by) if name and name.strip() else None


def _default_method(run: Run, experiment: str) -> tuple[str, str] | None:
    return (
        _named(run.data.tags.get(schema.TAG_METHOD), f"tag:{schema.TAG_METHOD}")
        or _named(estimator_of(run), "estimator")
        or _named(run.info.run_name, "run_name")
    )


def estimator_of(run: Run) -> str | None:
    """The scikit-learn estimator that MLflow's autologging saw, with those that a pipeline or a
    search holds: "Pipeline(StandardScaler, SVC)", "GridSearchCV(SVC)".
    """
    params = run.data.params
    name = params.get("estimator_name") or run.data.tags.get("estimator_name")
    held = params.get("steps" if name == "Pipeline" else "estimator", "")
    if not name or not (name == "Pipeline" or name.endswith("SearchCV")):
        return name
    classes = [c for c in _CLASS.findall(held) if c != "Pipeline"]
    return f"{name}({', '.join(classes)})" if classes else name


def digest_of(run: Run) -> str:
    """The digest of the data that the run was evaluated on, or, where only these were logged,
    trained on; empty where there is none.
    """
    return run.data.tags.get(schema.TAG_DATASET_DIGEST) or _input(run)[1]


def n_rows_of(run: Run) -> int | None:
    """How many rows the data of `digest_of` have, by their profile; None where nobody says."""
    inputs = run.inputs.dataset_inputs if run.inputs else []
    profiles = {i.dataset.profile for i in inputs if i.dataset.digest == digest_of(run)}
    try:
        (profile,) = profiles
        described = bounded_json(profile or "{}")
        rows = described.get("num_rows") or described["features_shape"][0]
        return int(rows)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


def _default_dataset(run: Run, experiment: str) -> tuple[str, str] | None:
    name = _input(run)[0]
    return (
        _named(run.data.tags.get(schema.TAG_DATASET), f"tag:{schema.TAG_DATASET}")
        or _named(None if name == _NAMELESS else name, "input")
        or _named(experiment, "experiment")
    )


def _input(run: Run) -> tuple[str, str]:
    """Name and digest of the dataset input: the one for testing, or the only one; empty where that
    is not clear.
    """
    inputs = run.inputs.dataset_inputs if run.inputs else []
    tests = [
        i
        for i in inputs
        if any(t.key == MLFLOW_DATASET_CONTEXT and t.value in _TEST_CONTEXTS for t in i.tags)
    ]
    pairs = {(i.dataset.name, i.dataset.digest) for i in tests or inputs}
    return pairs.pop() if len(pairs) == 1 else ("", "")


# --------------------------------------------------------------------------------------------------
# Which runs a selection names: experiments, run ids, a filter.

#: Of a model's id, enough to tell a million apart.
_ID_SHOWN = len("m-") + 12
#: Run ids in one filter.
_IDS_AT_ONCE = 500


def select(
    client: MlflowClient,
    selection: Selection,
    doubts: list[str] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> tuple[list[Run], dict[str, str]]:
    """The runs, the first started first, and the names of the experiments by their ids; `doubts`
    takes what a reader must know.

    Raises
    ------
    NoRunsError
        An experiment or a run is not there, or no experiment was named.
    StoreError
        The store cannot be reached or does not accept the filter.
    """
    selection = store.with_runs_of_models(client, selection)
    named = selection.experiment_ids, selection.experiment_names
    if selection.run_ids and not any(named):
        experiments = store.all_experiments(client)
    else:
        experiments = store.find_experiments(client, *named)
    names = {e.experiment_id: e.name for e in experiments}
    texts = filters_of(selection)
    runs = [
        run for text in texts for run in store.search(client, list(names), text, doubts, progress)
    ]
    if lost := set(selection.run_ids) - {r.info.run_id for r in runs}:
        raise NoRunsError(
            f"there is no run {some(sorted(lost))} in the selection. Is it deleted, or in "
            "another experiment?"
        )
    return runs, names


def filters_of(selection: Selection) -> list[str]:
    """The filters to search with; one, unless there are very many run ids."""
    own, ids = selection.filter_string, list(dict.fromkeys(selection.run_ids))
    if not ids:
        return [own]
    if wrong := [i for i in ids if not i.replace("-", "").isalnum()]:
        raise NoRunsError(f"no run id: {some(map(repr, wrong))}.")
    parts = (ids[i : i + _IDS_AT_ONCE] for i in range(0, len(ids), _IDS_AT_ONCE))
    chosen = [f"attributes.run_id IN ({', '.join(map(repr, part))})" for part in parts]
    return [f"{text} and {own}" for text in chosen] if own.strip() else chosen


def with_models(client: MlflowClient, experiment_ids: Sequence[str], rule: Rule) -> Rule:
    """The rule, knowing what LoggedModels are called where it needs that: by the version that was
    registered, else by name and id, for most are named "model".
    """
    if MODEL not in rule.rules:
        return rule
    named, measured = logged_models(client, experiment_ids)
    versions = _registered_versions(client)
    unregistered = {model: f"{name} {model[:_ID_SHOWN]}" for model, name in named.items()}
    called = unregistered | versions
    return replace(rule, models=called | {run: called[model] for run, model in measured.items()})


def _registered_versions(client: MlflowClient) -> dict[str, str]:
    """What the registry calls models, "tagger/2", by their ids, and by the ids of the runs that
    made them where it knows only these; the version that was registered last counts.
    """

    def search(token: str | None) -> Any:
        with store.store_errors("read"):
            return client.search_model_versions(page_token=token)

    found = store.paged(
        search, lambda version: f"{version.name}/{version.version}", "model versions"
    )
    versions = [version for page in found for version in page]
    versions.sort(key=lambda version: version.creation_timestamp)
    named = {store.id_of_version(v) or v.run_id: f"{v.name}/{v.version}" for v in versions}
    return {key: name for key, name in named.items() if key}


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
