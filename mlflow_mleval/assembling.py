"""From runs of the store to a Comparison: the one way that the command line and the page on the
server go."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import version
from inspect import signature
from typing import TYPE_CHECKING, Any

from mlflow_mleval.errors import MlevalError, NoRunsError, StoreError, UnclearError
from mlflow_mleval.selection import Choices, Selection, given
from mlflow_mleval.sentences import Argument, Message, Wording, count, some, worded

if TYPE_CHECKING:
    from mlflow_mleval.analysis.answer_comparison import AnswerComparison
    from mlflow_mleval.analysis.pairs_by_unit import InstanceTests
    from mlflow_mleval.store.run_answers import SelectedAnswers
    from mlflow_mleval.study import Study

#: A report of more runs does not look for their values by instance: `mleval compare --over
#: instances` does.
MOST_RUNS = 100
#: Answers that a report reads, of all runs together; `mleval compare --over instances` reads any
#: number.
MOST_ANSWERS = 50_000
MEAN = "/mean"  #: how MLflow marks the metric that is the mean of a scorer's values
Say = Callable[[str], object]  #: takes a message for whoever waits
#: Takes what is being done and in what it is counted, and gives what is to be called as
#: ``step(done, total)``.
Stage = Callable[[str, str], AbstractContextManager[Callable[[int, int], object]]]


@dataclass(frozen=True)
class Material:
    """What is compared: a study and, by dataset, what instances and answers say; loss profiles."""

    study: Study
    instances: Mapping[str, Any]
    profiles: Any = None

    def can_lose(self, measures: Collection[str]) -> bool:
        """Whether the rest was read as it is without these measures, which can be left out."""
        tests = [one for one in self.instances.values() if not isinstance(one, str)]
        tested = {m for one in tests for m in one.measures}
        return {*measures} < {*self.study.measures} and tested.isdisjoint(measures)

    def without(self, measures: Collection[str]) -> Material:
        """The same with fewer measures."""
        from mlflow_mleval.study import Excluded

        study = self.study.select(exclude=measures)
        gone = (Excluded("measure", m, "excluded as asked") for m in sorted(measures))
        return replace(self, study=replace(study, excluded=(*study.excluded, *gone)))


def read(
    choices: Choices, *, whole: bool, stage: Stage, say: Say = lambda text: None, word: Wording
) -> Material:
    """What a selection of runs and some options yield, to be compared: arguments of `load_study`,
    `fuse` and `compare`, `cost`, `protocol`, `ratio`, `paired`; others are not heeded. With `whole`
    all is read that a report tells: loss profiles and, of few runs, tests over instances."""
    from mlflow_mleval.store.query import selected_study
    from mlflow_mleval.store.runs_table import remembered

    selection = Selection.of(choices)
    tracked = selection.results is None  # a table holds neither answers nor instances
    answers: dict[str, Any] = {}
    means: dict[str, Any] = {}
    with remembered() if tracked else nullcontext():
        study, selection = _study_asked_for(selection, stage, say)
        if whole and tracked:
            answers, means = _answers_by_dataset(selection, choices, stage, say, word)
        if isinstance(study, MlevalError):
            if not any(means.values()):
                raise study
            # metrics that are means of answers, which are by their direction
            with stage("reading", "runs") as step:
                study = selected_study(replace(selection, **means), step)
            words = zip(("smaller", "larger"), means.values(), strict=True)
            sides = (f"{word} values of {some(names)}" for word, names in words if names)
            assumed = Message(
                f"Taken for better, as of single answers: {' and '.join(sides)}. Declare them (",
                Argument("minimize"),
                ", ",
                Argument("maximize"),
                ") if that is wrong.",
            )
            study = replace(study, notes=(*study.notes, assumed))
    study = study.worded(word)
    instances = {}
    profiles = None
    if whole:
        from mlflow_mleval.store.study_artifacts import profiles_of

        with suppress(NoRunsError):  # the runs carry none
            profiles = profiles_of(study)
        if tracked and len(study.runs) <= MOST_RUNS:
            how = given(choices, ("alpha", "seed"))
            how |= {"minimize": selection.minimize, "maximize": selection.maximize}
            instances = tested_instances(study, None, say, **how)[0]
    return Material(study, instances | answers, profiles)


def comparison_of(
    material: Material,
    choices: Choices,
    *,
    whole: bool,
    stage: Stage,
    say: Say = lambda text: None,
    before: Any = None,
) -> Any:
    """The Comparison of what was read, by these options; `before` is one by other weights."""
    from mlflow_mleval.analysis.comparison import compare
    from mlflow_mleval.analysis.fusion import fuse

    study = material.study
    if choices.get("cost"):
        study = study.by_cost(choices["cost"])
    say(
        f"comparing {count(len(study.methods), 'method')} on "
        f"{count(len(study.datasets), 'dataset')} by {count(len(study.measures), 'measure')} …"
    )
    fusing = given(choices, signature(fuse).parameters)
    for name, default in (("preference", "v_shape"), ("weights", 1.0)):
        if isinstance(fusing.get(name), dict):
            fusing[name] = dict.fromkeys(study.measures, default) | fusing[name]
    if before is not None:
        return before.reweighed(fusing.get("weights", "entropy"))
    options = given(choices, signature(compare).parameters)
    if choices.get("as_in_papers"):
        options |= {"order": "mean-rank", "ties": "ignore"}
    folds = {"protocol": None, "ratio": None, "paired": True}
    options["over_folds"] = {key: choices.get(key, default) for key, default in folds.items()}
    stability = whole and choices.get("n_resamples", True)
    beside = {"profiles": material.profiles, "instances": material.instances}
    with stage("comparing", "steps") as step:
        fusion = fuse(study, **fusing)
        return compare(fusion, **options, **beside, stability=stability, progress=step)


def _study_asked_for(
    selection: Selection, stage: Stage, say: Say
) -> tuple[Study | MlevalError, Selection]:
    """The study that was asked for, or why no run holds one (it may hold answers); and of what."""
    from mlflow_mleval.store.query import selected_study
    from mlflow_mleval.store.repeats import is_placed, placed

    table = None
    named = selection.results is not None or is_placed(selection)
    if selection.is_ruled and not named:
        with stage("reading", "runs") as step:
            selection, table = placed(selection, step)
        named = table is not None
        if named:
            say(f"read in {some(selection.experiment_names)}, which alone can be compared")
    if not named:
        return _as_surveyed(selection, None, say)
    try:
        with stage("reading", "runs") as step:
            study = selected_study(selection, step, table)
    except StoreError:
        raise
    except MlevalError as error:
        if not selection.is_ruled:
            return _as_surveyed(selection, error, say)
        if isinstance(error, NoRunsError):
            return error, selection
        raise
    if selection.is_ruled or not study.is_foreign:
        return study, selection
    return _as_surveyed(selection, study, say)


def _as_surveyed(
    selection: Selection, asked_for: Study | MlevalError | None, say: Say
) -> tuple[Study | MlevalError, Selection]:
    """What `mleval runs` finds where nobody said how to read runs of others, or which to take; or
    why nobody knows."""
    from mlflow_mleval.store.query import selected_study
    from mlflow_mleval.store.survey import taken_unasked

    try:
        taken, line = taken_unasked(selection)
    except UnclearError as unclear:
        if isinstance(asked_for, MlevalError):
            # names are those that the survey's rules find, if it has any
            told = unclear.ways or selection.methods or selection.datasets
            return unclear if told else asked_for, selection
        if asked_for is None:
            experiments = {tuple(way.selection.experiment_names) for way in unclear.ways}
            if len(experiments) != 1:
                raise
            selection = replace(selection, experiment_names=[*experiments.pop()])
        return unclear, selection
    say(f"taken as `mleval runs` finds it: {line}")
    study = selected_study(taken)
    return replace(study, source={**study.source, "taken_as": line}), selection


def compared_answers(
    selection: Selection,
    choices: Choices,
    options: Choices,
    *,
    stage: Stage,
    say: Say,
    word: Wording,
    measures: list[str] | None = None,
    most: int | None = None,
) -> tuple[SelectedAnswers, dict[str, AnswerComparison], dict[str, Any]]:
    """The answers of a selection; by data set, what they say by these options of the tests, or why
    that is unknown. Measures that were named have to have a direction."""
    from mlflow_mleval.analysis.answer_comparison import compare_answers
    from mlflow_mleval.analysis.pairs import on_each
    from mlflow_mleval.store.run_answers import load_answers

    how = asked_answers(choices)
    with stage("reading answers", "runs") as step:
        asked = load_answers(selection, **how, measures=measures, most=most, progress=step)
    say("comparing the answers …")
    options = {
        "minimize": [m.removesuffix(MEAN) for m in selection.minimize],
        "maximize": [m.removesuffix(MEAN) for m in selection.maximize],
        "ways": selection.directions,
        "named": measures is not None,
        "grades": how["grades"],
        **options,
    }
    tests, failed = on_each(asked.found, lambda d: compare_answers(asked.found[d], **options))
    for dataset, one in tests.items():
        tests[dataset] = replace(one, notes=tuple(worded(note, word) for note in one.notes))
    return asked, tests, {**asked.absent, **failed}


def _answers_by_dataset(
    selection: Selection, choices: Choices, stage: Stage, say: Say, word: Wording
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """By data set, what its answers say or why that is unknown; and, by direction, their means."""
    options = given(choices, ("alpha", "cluster", "seed"))
    try:
        asked, tests, absent = compared_answers(
            selection, choices, options, stage=stage, say=say, word=word, most=MOST_ANSWERS
        )
    except NoRunsError:  # no run holds any, or there are no runs at all, which others will say
        return {}, {}
    means: dict[str, list[str]] = {"minimize": [], "maximize": []}
    directed = (pair for one in tests.values() for pair in one.directions.items())
    for measure, side in dict.fromkeys(directed):
        if measure + MEAN in asked.metrics:
            means[f"{side}imize"].append(measure + MEAN)
    return {dataset: worded(why, word) for dataset, why in absent.items()} | tests, means


def asked_answers(choices: Choices) -> Choices:
    """Of the choices, how answers are read, as `load_answers` takes it."""
    of_measures = {}
    for text in choices.get("grades", ()):
        measure, _, grades = text.partition("=")
        listed = [grade.strip() for grade in grades.split(",") if grade.strip()]
        if not measure or len(listed) < 2 or len(set(listed)) < len(listed):
            raise ValueError(
                f"`grades`: {text!r} is not MEASURE=WORST,…,BEST with two grades or more."
            )
        of_measures[measure] = listed
    return given(choices, ("table", "instance_by", "shared")) | {"grades": of_measures}


def tested_instances(
    study: Any, wanted: list[str] | None, say: Say, cluster: str | None = None, **options: Any
) -> tuple[dict[str, InstanceTests], dict[str, str], list[str]]:
    """Tests over the instances by dataset, why other datasets have none, and notes."""
    from mlflow_mleval.analysis.pairs import on_each
    from mlflow_mleval.analysis.pairs_by_unit import instance_tests
    from mlflow_mleval.store.study_artifacts import instances_of

    notes: list[str] = []

    def test(dataset: str) -> InstanceTests:
        say(f"testing over the instances of {dataset} …")
        with instances_of(study, dataset, wanted, cluster) as each:
            groups: dict[str, Any] = {"clusters": each.clusters, "blocks": each.folds}
            found = instance_tests(each.tables, each.measures, **groups, **options)
            notes.extend(each.notes)
            return found

    tests, failed = on_each(study.datasets, test)
    return tests, {dataset: str(error) for dataset, error in failed.items()}, notes


def provenance(
    command: str, source: Mapping[str, Any], run_ids: list[str], options: Choices
) -> dict[str, Any]:
    """What reproduces a result: command, versions, store, selection, runs, policy, seed, time."""
    packages = ("mlflow-mleval", "mlflow", "numpy", "scipy", "pandas", "networkx")
    versions = {name: version(name) for name in packages}
    return {
        "command": command,
        "versions": {"python": platform.python_version(), **versions},
        **source,
        "experiments": [experiment["name"] for experiment in source.get("experiments", ())],
        "run_ids": run_ids,
        "policy": options.get("missing"),
        "seed": options.get("seed"),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
