"""What a store holds, and how it can be compared: for whoever has not said yet what names a method
or a dataset.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import (
    CandidatesError,
    MissingResultsError,
    MlevalError,
    StoreError,
    UnclearError,
)
from mlflow_mleval.measures.metric_names import (
    HELD_OUT,
    TRAINING,
    VALIDATION,
    direction_of,
    is_bookkeeping,
    of_training,
    proposed_direction,
    term,
)
from mlflow_mleval.measures.registry import NOT_BY_DEFAULT
from mlflow_mleval.selection import Directions, Selection, key_of
from mlflow_mleval.store import query, schema, store
from mlflow_mleval.store.read_answers import holds_answers
from mlflow_mleval.store.reader import (
    Rule,
    estimator_of,
    filters_of,
    is_ours,
    metrics_of,
    select,
    started,
)
from mlflow_mleval.store.repeats import is_seed
from mlflow_mleval.store.searches import BEST_TRIAL, FoldRule, searched, trial_params
from mlflow_mleval.study import Candidate, Study, Survey, Way
from mlflow_mleval.words import Argument, Message, count, joined, some

#: What people call the param or tag that names a method or a dataset, the plainest first.
METHOD = (
    "method",
    "model",
    "model_name",
    "model_type",
    "algorithm",
    "algo",
    "estimator_name",
    "estimator",
    "classifier",
    "clf",
    "learner",
    "architecture",
    "arch",
    "approach",
    "system",
)
DATASET = (
    "dataset",
    "dataset_name",
    "data",
    "data_name",
    "data_set",
    "corpus",
    "task",
    "benchmark",
    "domain",
)
_REPEAT = re.compile(
    r"(.*[_./:-])?(repeat|repetition|replicate|replication|rep)([_.-]?(id|no|number))?",
    re.IGNORECASE,
)
#: A metric of one fold: what is before the number, and what is after.
_FOLD = re.compile(
    r"(?P<before>(?P<measure>.*?)[_/. -]?(?:fold|split|cv)[_/. -]?)\d+(?:(?P<gap>[_/. "
    r"-]+)(?P<after>.+))?",
    re.IGNORECASE,
)
_METHOD_RULES = tuple(f"{kind}:{name}" for kind in ("param", "tag") for name in METHOD)
#: A name that MLflow makes up for a run without one.
_MADE_UP = re.compile(r"[a-z]+-[a-z]+-\d{1,4}")
#: A metric by which one compares, rather than choose by it, by its name.
_TEST = re.compile(r"(^|[_./-])(test|eval|heldout|holdout)([_./-]|$)", re.IGNORECASE)
#: Parts of a metric's name that say on what data it was measured.
_PART = re.compile(
    r"(^|[_./ -])(test|eval|heldout|holdout|val|valid|validation|dev)([_./ -]|$)", re.IGNORECASE
)
#: Values of a param that are shown; names of methods recur, so that there are fewer of them than
#: this share of the runs.
_SHOWN, _MOST = 6, 0.5
#: Of fewer runs than this each name may name a method of its own.
_FEW = 20
#: Why the run's name names the method where nothing else does.
_ALONE = "nothing else tells: every run counts as a method"
#: What stops where all that lacks is a direction.
_CONFIRM = "Which way the metrics are better is proposed by their names alone. Confirm it."
#: How often what a command lacks is added, before it is given up.
_TRIES = 4


def take_stock(
    selection: Selection, *, progress: Callable[[int, int], object] = lambda done, total: None
) -> tuple[Study | None, Survey]:
    """The Study that a selection yields, None where it yields none yet, and what the store holds;
    where no experiment is named and several hold runs, what each holds.

    Raises
    ------
    NoRunsError
        An experiment or a run that was named does not exist.
    StoreError, ValueError
        As `load_study`.
    """
    selection = store.with_runs_of_models(store.connect(), selection)
    with store.remembered():
        chosen = store.asked(selection.experiment_ids, selection.experiment_names)
        named = any(chosen) or bool(selection.run_ids)
        study, error = _tried(selection, progress) if named else (None, None)
        names, runs = _all_runs(chosen, selection, progress)
        if error is not None and {*selection.run_ids} - {run.info.run_id for run in runs}:
            raise error
        groups = [] if named else _groups(runs, names, selection)
        problem = _nothing(runs, selection)
        if len(groups) > 1:
            taken, study = survey(runs, names, selection), None
            ways = tuple(_ways_to_choose(groups, runs, names, selection))
            taken = replace(taken, ways=ways, problem=problem)
        else:
            if groups:
                selection = replace(selection, experiment_names=groups[0])
                runs = [r for r in runs if names[r.info.experiment_id] in groups[0]]
                study, error = _tried(selection)
            problem = problem or _problem(error)
            taken = replace(survey(runs, names, selection), problem=problem)
            taken = _with_ways(taken, selection)
            if sum(map(holds_answers, runs)) > 1:
                proposed = any(way.selection.directions == "proposed" for way in taken.ways)
                by_answer = _by_answer(selection, "proposed" if proposed else "declared")
                taken = replace(taken, ways=(*taken.ways, by_answer))
        source = {
            "tracking_uri": store.store_name(),
            "filter": store.without_passwords(selection.filter_string),
        }
        return study, replace(taken, source=source)


def taken_unasked(selection: Selection, with_gaps: bool = False) -> tuple[Selection, str]:
    """What a comparison takes where nobody said which runs, or how to read them: the one way that
    `take_stock` finds, and what that is as a command; `with_gaps` where nothing need be done about
    what is missing.

    Raises
    ------
    UnclearError
        There are several ways, or none.
    """
    _, held = take_stock(selection)
    ways = [way for way in held.ways if way.command == "rank"]
    text = held.problem or "It is not clear what to compare with what."
    if len(ways) == 1 and not held.problem:
        way = ways[0].selection
        if with_gaps:
            way = replace(way, missing=selection.missing, directions=selection.directions)
        if (way.missing, way.directions) == (selection.missing, selection.directions):
            return way, ways[0].line
        # what is missing, and which way is better, takes someone who says so
        text = joined(" ", held.notes) if held.notes else _CONFIRM
    raise UnclearError(text, held.ways)


def taken_for_units(selection: Selection) -> tuple[Selection, str]:
    """The selection of tests within datasets; where nobody said which runs, or how to read those of
    others, the one that `mleval runs` finds, and what that is as a command.

    Raises
    ------
    UnclearError
        No experiment was named, and there are several ways, or none.
    """
    if selection.is_ruled or selection.results is not None:
        return selection, ""
    chosen = store.asked(selection.experiment_ids, selection.experiment_names)
    named = any(chosen) or bool(selection.run_ids)
    if named and all(map(is_ours, select(store.connect(), selection)[0])):
        return selection, ""
    try:
        return taken_unasked(selection, with_gaps=True)
    except UnclearError:
        if named:  # the tests say what is the matter
            return selection, ""
        raise


def _all_runs(
    chosen: tuple[list[str], list[str]],
    selection: Selection,
    progress: Callable[[int, int], object],
) -> tuple[dict[str, str], list[Run]]:
    """The names of the experiments that were chosen, or of all, by their ids, and their runs."""
    client = store.connect()
    experiments = (
        store.find_experiments(client, *chosen)
        if any(chosen)
        else [e for e in store.all_experiments(client) if schema.TAG_REGISTER not in e.tags]
    )
    names = {e.experiment_id: e.name for e in experiments}
    searching = partial(store.search, client, [*names], progress=progress)
    return names, [run for text in filters_of(selection) for run in searching(text)]


def _problem(error: MlevalError | None) -> str:
    if error is None:
        return ""
    return error.text if isinstance(error, CandidatesError) else str(error)


def _by_answer(selection: Selection, directions: Directions) -> Way:
    """How the answers of these runs are compared."""
    where = Selection(
        experiment_ids=selection.experiment_ids,
        experiment_names=selection.experiment_names,
        run_ids=selection.run_ids,
        filter_string=selection.filter_string,
        directions=directions,
    )
    return Way("who answers better, answer by answer", "compare", where, "instances")


def survey(
    runs: Sequence[Run], experiments: Mapping[str, str], selection: Selection | None = None
) -> Survey:
    """What these runs hold, and what may name their methods, datasets, repeats and folds.

    Parameters
    ----------
    runs : sequence of mlflow.entities.Run
        As a search gives them, with failed runs and children.
    experiments : mapping of str to str
        Their experiments, id to name.
    selection : Selection, optional
        What was chosen already: declared directions count as known, rules as chosen.
    """
    selection = selection or Selection()
    tops, children = _parted(runs)
    searches = _families(children)
    # where only children have metrics, what there is lies in them
    used = [*filter(_usable, tops)] or [*filter(_usable, children)]
    rule = selection.folds_by or _fold_pattern(used)
    variables = _variables(used)
    candidates = [
        *_method(variables, used, selection),
        *_dataset(variables, used, experiments, selection),
        *_repeats(variables, selection),
        *_folds(rule, searches, used, selection),
        *_steps(used, selection),
    ]
    chosen = [c.rule for c in candidates if c.role == "method" and c.chosen]
    by_rule = Rule("method", tuple(chosen[:1]))

    def named(run: Run) -> str:
        return by_rule.name_of(run, experiments.get(run.info.experiment_id, ""))

    return Survey(
        experiments=_experiments(runs, experiments),
        metrics=_metrics(used, FoldRule(rule) if rule else None, selection),
        variables=variables,
        n_runs=len(used),
        trials=_trial_metrics(tops, searches),
        candidates=tuple(candidates),
        notes=tuple(_notes(tops, searches, named)),
        foreign=any(not is_ours(run) for run in used) and not selection.method_by,
    )


def _parted(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Results, and children of runs that others logged."""
    parts: tuple[list[Run], list[Run]] = ([], [])
    for run in runs:
        if not _is_record(run):
            child = MLFLOW_PARENT_RUN_ID in run.data.tags and not is_ours(run)
            parts[child].append(run)
    return parts


def _trial_metrics(tops: Sequence[Run], families: Mapping[str, Sequence[Run]]) -> tuple[str, ...]:
    """Metrics that all trials of searches have whose parents have none."""
    empty = {run.info.run_id for run in tops if _finished(run) and not metrics_of(run)}
    trials = [
        {*metrics_of(run)}
        for parent, runs in families.items()
        if parent in empty and trial_params(runs)
        for run in runs
    ]
    return tuple(sorted(set.intersection(*trials))) if trials else ()


def _usable(run: Run) -> bool:
    return _finished(run) and bool(metrics_of(run))


def _is_record(run: Run) -> bool:
    return run.data.tags.get(schema.TAG_KIND) in schema.RECORDS


def _finished(run: Run) -> bool:
    return (
        run.data.tags.get(schema.TAG_STATUS, "") in (schema.COMPLETE, schema.DNF)
        or run.info.status == "FINISHED"
    )


def _families(children: Sequence[Run]) -> dict[str, list[Run]]:
    """Finished children by the id of their parent."""
    families: dict[str, list[Run]] = defaultdict(list)
    for run in children:
        if _finished(run):
            families[run.data.tags[MLFLOW_PARENT_RUN_ID]].append(run)
    return families


def _experiments(runs: Sequence[Run], names: Mapping[str, str]) -> pd.DataFrame:
    """One row an experiment, the last used first."""
    rows = []
    for experiment_id, name in names.items():
        here = [run for run in runs if run.info.experiment_id == experiment_id]
        results = [run for run in here if not _is_record(run)]
        status = Counter(run.info.status for run in results)
        finished = sum(map(_finished, results))
        running = status["RUNNING"] + status["SCHEDULED"]
        times = (store.of_one_run(partial(started, run)) for run in results)
        last = max((time for time in times if not isinstance(time, str)), default=pd.NaT)
        rows.append(
            {
                "experiment": name,
                "experiment_id": experiment_id,
                "runs": len(results),
                "finished": finished,
                "failed": max(len(results) - finished - running, 0),
                "running": running,
                "children": sum(MLFLOW_PARENT_RUN_ID in run.data.tags for run in results),
                "reports": sum(
                    r.data.tags.get(schema.TAG_KIND) == schema.KIND_REPORT for r in here
                ),
                "last_start": last,
                "metrics": tuple(
                    sorted({key for run in results if _finished(run) for key in metrics_of(run)})
                ),
            }
        )
    rows.sort(key=lambda row: (row["last_start"] is pd.NaT, -row["last_start"].value))
    return pd.DataFrame(
        rows,
        columns=[
            "experiment",
            "experiment_id",
            "runs",
            "finished",
            "failed",
            "running",
            "children",
            "reports",
            "last_start",
            "metrics",
        ],
    )


def _metrics(runs: Sequence[Run], folds: FoldRule | None, selection: Selection) -> pd.DataFrame:
    """One row a metric, those of most runs first."""
    values: dict[str, list[float]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for run in runs:
        here: set[str] = set()
        for key, value in metrics_of(run).items():
            at = folds.match(key) if folds else None
            values[at[0] if at else key].append(value)
            here.add(at[0] if at else key)
        counts.update(here)
    declared: dict[str, str] = dict.fromkeys(selection.minimize, "min")
    declared |= dict.fromkeys(selection.maximize, "max")
    confirmed = selection.directions == "proposed"
    training = set() if all(map(is_ours, runs)) else of_training(counts)
    rows: list[dict[str, Any]] = []
    for m, n in counts.items():
        known = term(m)
        told = declared.get(m) or direction_of(m, confirmed) or ""
        proposed = "" if told or m in training or is_bookkeeping(m) else proposed_direction(m)
        row = {"metric": m, "runs": n, "low": min(values[m]), "high": max(values[m])}
        data = TRAINING if m in training else known.data if known else ""
        rows.append(row | {"direction": told, "data": data, "proposed": proposed or ""})
    order = [HELD_OUT, "", VALIDATION, TRAINING]

    def place(row: dict[str, Any]) -> tuple[bool, bool, int, int, str]:
        """Those of training data, and last what measures no prediction, stand behind others."""
        metric, data = row["metric"], row["data"]
        last = is_bookkeeping(metric), data == TRAINING
        return *last, -row["runs"], order.index(data), metric

    rows.sort(key=place)
    columns = ["metric", "runs", "low", "high", "direction", "data", "proposed"]
    return pd.DataFrame(rows, columns=columns)


def _variables(runs: Sequence[Run]) -> pd.DataFrame:
    """One row a param or tag that has several values, those of most runs first."""
    texts_of: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for run in runs:
        for key, text in run.data.params.items():
            texts_of["param", key][text] += 1
        for key, text in run.data.tags.items():
            if not key.startswith(("mleval.", "mlflow.")):
                texts_of["tag", key][text] += 1
    rows: list[dict[str, Any]] = [
        {
            "kind": kind,
            "name": name,
            "runs": texts.total(),
            "values": len(texts),
            "examples": tuple(text for text, _ in texts.most_common(_SHOWN)),
        }
        for (kind, name), texts in texts_of.items()
        if len(texts) > 1 or texts.total() < len(runs)
    ]
    rows.sort(key=lambda row: (-row["runs"], row["kind"], row["name"]))
    return pd.DataFrame(rows, columns=["kind", "name", "runs", "values", "examples"])


def _called(variables: pd.DataFrame, names: Sequence[str]) -> list[Any]:
    """The variables whose last part is one of these names, in their order."""
    place = {name: i for i, name in enumerate(names)}
    last = [(place.get(_last(v.name), len(names)), v) for v in variables.itertuples(index=False)]
    return [
        v for at, v in sorted(last, key=lambda item: item[0]) if at < len(names) and v.values > 1
    ]


def _last(name: str) -> str:
    """The last part of a name."""
    return re.split(r"[./:]|__", name)[-1].lower()


def _chosen_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [replace(candidate, chosen=i == 0) for i, candidate in enumerate(candidates)]


def _as_asked(role: str, rules: Sequence[str], others: Sequence[Candidate] = ()) -> list[Candidate]:
    """The rules that were asked for, and others that were not chosen."""
    asked = [Candidate(role, rule, "as asked", True) for rule in rules]
    return [*asked, *(replace(c, chosen=False) for c in others if c.rule not in rules)]


def _method(variables: pd.DataFrame, runs: Sequence[Run], selection: Selection) -> list[Candidate]:
    if rules := selection.method_by:
        return _as_asked("method", rules, _method(variables, runs, Selection()))
    if not runs or all(map(is_ours, runs)):
        return []
    named = _called(variables, METHOD)
    candidates = _candidates("method", named, "is called like one", len(runs))
    estimators = {estimator_of(run) for run in runs}
    if None not in estimators and len(estimators) > 1:
        reason = f"scikit-learn's estimator; {len(estimators)} in all of {count(len(runs), 'run')}"
        mine = Candidate("method", "estimator", reason)
        at = sum(METHOD.index("estimator_name") > METHOD.index(_last(v.name)) for v in named)
        candidates = [c for c in candidates if not c.rule.endswith(":estimator_name")]
        candidates.insert(at, mine)
    names = Counter(run.info.run_name for run in runs)
    made_up = any(_MADE_UP.fullmatch(name or "") for name in names)
    if not made_up and len(names) > 1 and (len(names) <= _MOST * len(runs) or len(runs) < _FEW):
        recur = "recur in" if len(names) < len(runs) else "name"
        reason = f"{len(names)} names {recur} {count(len(runs), 'run')}"
        candidates.append(Candidate("method", "run_name", reason))
    others = [*named, *_called(variables, DATASET)]
    words = [v for v in _wordy(variables, len(runs)) if v not in others]
    candidates += _candidates("method", words[:3], "holds words", len(runs))
    alone = Candidate("method", "run_name", _ALONE)
    return _chosen_first(candidates or [alone])


def _wordy(variables: pd.DataFrame, runs: int) -> list[Any]:
    """Variables of most runs whose values are words that recur."""
    return [
        v
        for v in variables.itertuples(index=False)
        if 1 < v.values <= _MOST * runs < v.runs
        and not _REPEAT.fullmatch(v.name)
        and not any(map(_is_number, v.examples))
    ]


def _candidates(role: str, variables: Iterable[Any], why: str, runs: int) -> list[Candidate]:
    of = count(runs, "run")
    return [
        Candidate(
            role,
            f"{v.kind}:{v.name}",
            f"{why}; {v.values} values in {v.runs if v.runs < runs else 'all'} of {of}",
        )
        for v in variables
    ]


def _dataset(
    variables: pd.DataFrame,
    runs: Sequence[Run],
    experiments: Mapping[str, str],
    selection: Selection,
) -> list[Candidate]:
    if rule := selection.dataset_by:
        others = _dataset(variables, runs, experiments, Selection())
        return _as_asked("dataset", [rule], others)
    if not runs or all(map(is_ours, runs)):
        return []
    named = _called(variables, DATASET)
    candidates = _candidates("dataset", named, "is called like one", len(runs))
    by_input = Rule("dataset", ("input",))
    inputs = Counter(by_input.name_of(run, "") for run in runs)
    del inputs[""], inputs["dataset"]  # MLflow's name for one without a name
    if inputs:
        of = count(len(runs), "run")
        reason = f"{count(len(inputs), 'dataset input')} in {inputs.total()} of {of}"
        candidates.append(Candidate("dataset", "input", reason))
    held = len({run.info.experiment_id for run in runs})
    reason = f"each of the {held} is one" if held > 1 else "all runs are of one"
    return _chosen_first([*candidates, Candidate("dataset", "experiment", reason)])


def _repeats(variables: pd.DataFrame, selection: Selection) -> list[Candidate]:
    candidates = _as_asked("repeats", selection.repeats_by)
    for v in variables.itertuples(index=False):
        if v.kind == "param" and is_seed(v.name):
            candidates.append(
                Candidate(
                    "repeats",
                    f"param:{v.name}",
                    f"a seed, with {count(v.values, 'value')}: runs that differ in "
                    "nothing else are repeats without any option",
                    True,
                )
            )
        elif _REPEAT.fullmatch(v.name) and not selection.repeats_by:
            candidates.append(
                Candidate(
                    "repeats",
                    f"{v.kind}:{v.name}",
                    f"is called like one; {count(v.values, 'value')}",
                    True,
                )
            )
    return candidates


def _folds(
    rule: str | None,
    families: Mapping[str, Sequence[Run]],
    runs: Sequence[Run],
    selection: Selection,
) -> list[Candidate]:
    if selection.folds_by:
        return _as_asked("folds", [selection.folds_by])
    candidates = [Candidate("folds", rule, "metrics are numbered like this", True)] if rule else []
    alike = [
        children
        for children in families.values()
        if len(children) > 1 and not trial_params(children)
    ]
    if alike:
        reason = f"{count(len(alike), 'run')} have children that do not differ in params"
        candidates.append(Candidate("folds", "children", reason, not rule))
    if stepped := _last_steps(runs):
        reason = f"{_by_step(stepped)}: right if steps are folds, not epochs"
        candidates.append(Candidate("folds", "steps", reason))
    return candidates


def _steps(runs: Sequence[Run], selection: Selection) -> list[Candidate]:
    """Which of the values that were logged by step count, and what else might."""
    if selection.step:
        return _as_asked("step", [selection.step])
    stepped = _last_steps(runs)
    if not stepped or selection.folds_by:
        return []
    candidates = [Candidate("step", "last", _by_step(stepped), True)]
    counts = Counter(m for run in runs if not is_ours(run) for m in run.data.metrics)
    by_validation = [m for m in counts if (known := term(m)) and known.data == VALIDATION]
    if by_validation:
        best = max(by_validation, key=lambda m: (counts[m], m.endswith("loss")))
        reason = f"the epoch in which {best} is best, which is chosen on the validation data"
        candidates.append(Candidate("step", f"best:{best}", reason))
    return candidates


def _last_steps(runs: Sequence[Run]) -> list[int]:
    """The last steps of the runs that others logged by step."""
    others = (run.data.to_proto().metrics for run in runs if not is_ours(run))
    last = (max((m.step for m in metrics), default=0) for metrics in others)
    return [step for step in last if step > 0]


def _by_step(last: Sequence[int]) -> str:
    upto = f"{min(last)}" if min(last) == max(last) else f"{min(last)} to {max(last)}"
    return f"{count(len(last), 'run')} logged metrics by step, the last is {upto}"


def _fold_pattern(runs: Sequence[Run]) -> str | None:
    """The rule that most metrics of single folds follow; None where there are none, or one fold
    only.
    """
    rules: Counter[str] = Counter()
    keys = dict.fromkeys(key for run in runs for key in metrics_of(run))
    for key in keys:
        if at := _FOLD.fullmatch(key):
            number = at.group()[len(at["before"]) :]
            if at["after"]:
                rules[f"key:{at['before']}{{fold}}{at['gap']}{{measure}}"] += 1
            elif at["measure"] and number.isdecimal():
                rules[f"key:{{measure}}{at['before'][len(at['measure']) :]}{{fold}}"] += 1
    for rule, _ in rules.most_common():
        if (
            rule.count("{measure}") == 1
            and len({m[1] for key in keys if (m := FoldRule(rule).match(key))}) > 1
        ):
            return rule
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in ("true", "false", "none", "")
    return True


def _notes(
    tops: Sequence[Run],
    families: Mapping[str, Sequence[Run]],
    named: Callable[[Run], str],
) -> Iterator[str]:
    """Which runs the tables do not count, and why."""
    without = [
        run
        for run in tops
        if run.info.status == "FINISHED"
        and run.data.tags.get(schema.TAG_STATUS) != schema.DNF
        and not metrics_of(run)
        and run.info.run_id not in families
    ]
    searches = [children for children in families.values() if trial_params(children)]
    if searches:
        params = dict.fromkeys(p for children in searches for p in trial_params(children))
        n, of = sum(map(len, searches)), searched(tops, searches, named)
        yield Message(
            f"{n} child runs are trials of {of} over {some(params, 6)}: ",
            BEST_TRIAL,
            " takes the best trial of each.",
        )
    if without:
        their = "its" if len(without) == 1 else "their"
        yield f"{count(len(without), 'finished run')} without a metric of {their} own."


def _tried(
    selection: Selection, progress: Callable[[int, int], object] = lambda done, total: None
) -> tuple[Study | None, MlevalError | None]:
    """The Study, or why there is none."""
    try:
        study = query.selected_study(selection, progress)
    except StoreError:
        raise
    except MlevalError as error:
        return None, error
    return study, None


def _nothing(runs: Sequence[Run], selection: Selection) -> str:
    """Why nothing can be compared, where that is for want of runs."""
    results = [run for run in runs if not _is_record(run)]
    if any(map(_finished, results)):
        return ""
    if not results:
        if selection.filter_string:
            return f"No run fits the filter in {store.store_name()}."
        return f"The store {store.store_name()} holds no runs."
    status = Counter(run.info.status for run in results)
    return (
        f"No run has finished: {', '.join(f'{n} {what}' for what, n in status.most_common())}. "
        "Their values are no results."
    )


@dataclass(frozen=True)
class _Experiment:
    """What tells whether an experiment belong to others: its datasets, the measures that most of
    its runs have on new data, and by each rule that may name methods, their names.
    """

    name: str
    ours: bool
    datasets: frozenset[str]
    measures: frozenset[str]
    methods: Mapping[str, frozenset[str]]

    def belongs_to(self, other: _Experiment) -> bool:
        """The same measures, methods in common, and data apart."""
        if self.ours != other.ours or self.datasets & other.datasets:
            return False
        shared = {
            rule: self.methods[rule] & names
            for rule, names in other.methods.items()
            if rule in self.methods
        }
        in_common = any(
            2 * len(names) >= max(len(self.methods[rule]), len(other.methods[rule]), 2)
            for rule, names in shared.items()
        )
        fewer = min(len(self.measures), len(other.measures))
        return in_common and 2 * len(self.measures & other.measures) >= max(fewer, 1)


def _groups(runs: Sequence[Run], names: Mapping[str, str], selection: Selection) -> list[list[str]]:
    """The experiments that hold finished runs, by name, each with those that belong to it; the last
    used first.
    """
    held: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.info.start_time or 0, reverse=True):
        if not _is_record(run):
            held[run.info.experiment_id].append(run)
    groups: list[list[_Experiment]] = []
    for experiment_id, there in held.items():
        one = _described(there, names[experiment_id], selection)
        group = next((g for g in groups if all(one.belongs_to(e) for e in g)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return [[e.name for e in group] for group in groups]


def _described(runs: Sequence[Run], name: str, selection: Selection) -> _Experiment:
    tops, children = _parted(runs)
    used = [*filter(_usable, tops)] or [*filter(_usable, children)]
    counts = Counter(m for run in used for m in metrics_of(run))
    told = {m for m in counts if 2 * counts[m] > len(used) and not is_bookkeeping(m)}
    rules = selection.method_by or ("estimator", "run_name", *_METHOD_RULES)
    by_rule = {rule: {Rule("method", (rule,)).name_of(run, name) for run in tops} for rule in rules}
    by_rule["tag"] = {run.data.tags.get(schema.TAG_METHOD, "") for run in tops}
    data = Rule("dataset", (selection.dataset_by,) if selection.dataset_by else ())
    return _Experiment(
        name,
        bool(used) and all(map(is_ours, used)),
        frozenset(data.name_of(run, name) for run in tops),
        frozenset(told - of_training(told)),
        {rule: frozenset(texts - {""}) for rule, texts in by_rule.items() if texts - {""}},
    )


def _ways_to_choose(
    groups: Sequence[Sequence[str]],
    runs: Sequence[Run],
    names: Mapping[str, str],
    selection: Selection,
) -> Iterator[Way]:
    """How to rank what belongs together, or, where that is not clear, to look at it."""
    for group in groups[:_SHOWN]:
        here = replace(selection, experiment_names=group)
        there = [run for run in runs if names[run.info.experiment_id] in group]
        if not any(map(_finished, there)):
            continue
        held = _with_ways(survey(there, names, here), here)
        what = f"{some(group, 4)}: the same measures and methods on other data"
        if len(group) == 1:
            what = f"{group[0]} alone"
        if len(held.ways) == 1 and not held.problem:
            yield replace(held.ways[0], what=what)
        else:
            yield Way(f"what {some(group, 4)} holds, and how to rank it", "runs", here)


def _with_ways(held: Survey, selection: Selection) -> Survey:
    """With the command that ranks these runs, tried out, and what it chooses; with several where it
    takes someone who knows.
    """
    if not len(held.metrics):
        return held
    base = _with_candidates(held, selection)
    open_ = selection.measures is None and not (selection.minimize or selection.maximize)
    compared = _compared(held, selection)
    undeclared: tuple[str, ...] = ()
    if open_ and not compared:
        proposed = held.metrics["proposed"] != ""
        in_all = held.metrics["runs"] == held.n_runs
        if (proposed & in_all).any():
            base = replace(base, directions="proposed")
            compared = held.metrics.loc[proposed & in_all, "metric"].tolist()
        else:
            undeclared = tuple(held.undirected[:1])
            compared = [*undeclared]
    by_hand = base.children or base.folds_by
    if not by_hand and {*compared[: 1 if open_ or len(compared) == 1 else 0]} & {*held.trials}:
        chooser = _counterpart(compared[0], held) or compared[0]
        base = replace(base, children=f"best:{chooser}")
    trial = _Trial(base, _either_way(undeclared))
    others = [c.rule for c in held.candidates if c.role == "method" and not c.chosen]
    notes = trial.notes
    if trial.reason and others and selection.method_by and not trial.choices:
        notes = [Message("As it was asked for: ", trial.reason)]
        trial = _Trial(replace(trial.base, method_by=others[:1]), trial.variants)
        notes += trial.notes
    ways = tuple(trial.ways()) if trial.choices or not trial.reason else held.ways
    problem = trial.reason or _vague(held)
    taken = _measured(trial.study, base) if not trial.reason else ()
    candidates = (*held.candidates, *taken)
    return replace(
        held, ways=ways, problem=problem, notes=(*held.notes, *notes), candidates=candidates
    )


def _compared(held: Survey, selection: Selection) -> list[str]:
    """The metrics that were asked for, else those whose direction is known, of test data first."""
    asked = [*(selection.measures or ()), *selection.minimize, *selection.maximize]
    known = held.metrics[
        (held.metrics["direction"] != "")
        & (2 * held.metrics["runs"] > held.n_runs)
        & (held.metrics["data"] != TRAINING)
    ]
    tested = known[known["data"] != VALIDATION]
    usable = [m for m in (tested if len(tested) else known)["metric"] if m not in NOT_BY_DEFAULT]
    return asked or usable


def _measured(study: Study | None, selection: Selection) -> tuple[Candidate, ...]:
    """Which measures the command takes, and why."""
    if study is None:
        return ()
    why = {HELD_OUT: "of held-out data", VALIDATION: "of validation data; there are none of a test"}
    if selection.directions == "proposed":
        why[HELD_OUT] = "its name suggests the direction"
    rows = []
    for measure in study.measures:
        known = term(measure)
        data = known.data if known else HELD_OUT
        better = "larger" if study.directions[measure] == "max" else "smaller"
        reason = f"{why.get(data, 'of training data, as asked')}; {better} is better"
        rows.append(Candidate("measure", measure, reason, True))
    return tuple(rows)


def _vague(held: Survey) -> str:
    """That nothing names the methods, where each run would be one, under a name that MLflow made
    up; empty where something does.
    """
    method = next((c for c in held.candidates if c.role == "method" and c.chosen), None)
    if method is None or method.reason != _ALONE:
        return ""
    return (
        "Nothing names the methods: the runs have names that MLflow made up, and no param or tag "
        "that is called like a method's."
    )


class _Trial:
    """A selection and its variants, tried out: what has to be added for a ranking, what that does
    in words, and why it is to no avail; `choices` are ways among which somebody has to choose.
    """

    def __init__(self, base: Selection, variants: list[tuple[str, dict[str, Any]]]) -> None:
        self.base, self.variants = base, variants
        self.added: dict[str, Any] = {}
        self.notes: list[str] = []
        self.choices: Sequence[tuple[str, Mapping[str, Any]]] = ()
        self.study: Study | None = None
        self.reason = self._completed(replace(base, **variants[0][1]))

    def ways(self) -> Iterator[Way]:
        if self.choices:
            for what, more in self.choices:
                yield Way(what, "rank", replace(self.base, **{**self.added, **more}))
            return
        study = self.study if len(self.variants) == 1 else None
        for what, more in self.variants:
            yield Way(what, "rank", replace(self.base, **{**more, **self.added}), study=study)

    def _completed(self, selection: Selection) -> str:
        """Add what a ranking takes; why it is to no avail, empty where there is one."""
        for _ in range(_TRIES):
            try:
                study = query.selected_study(replace(selection, **self.added))
                self.study = study.complete()
            except (CandidatesError, MissingResultsError) as error:
                sure = not isinstance(error, CandidatesError) or error.sure
                if not error.ways or not sure:
                    self.choices = error.ways
                    return error.text
                what, more = error.ways[0]
                options = joined(" and ", (Message(Argument(*item)) for item in more.items()))
                text = f"{error.text} The proposal is to {what}; leave out "
                self.notes.append(Message(text, options, " to be told the other ways."))
                self.added |= more
            except MlevalError as error:
                return str(error)
            else:
                alone = f"There is one method only, {study.methods[0]}, and nothing to compare"
                return f"{alone} it with." if len(study.methods) < 2 else ""
        return "No option was found by which they can be compared."


def _with_candidates(held: Survey, selection: Selection) -> Selection:
    """The selection with the rules that were chosen for it, but for those that hold unasked."""
    rules: dict[str, Any] = {}
    for c in held.candidates:
        if not c.chosen or c.reason == "as asked":
            continue
        if c.role == "method" or (c.role == "repeats" and not is_seed(key_of(c.rule)[1])):
            rules[f"{c.role}_by"] = [c.rule]
        elif c.role == "folds" or (c.role == "dataset" and c.rule not in ("experiment", "input")):
            rules[f"{c.role}_by"] = c.rule
    return replace(selection, **rules)


def _either_way(metrics: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The options that declare metrics, either way; none where there are no metrics."""
    if not metrics:
        return [("a ranking of them", {})]
    ways = (("larger", "maximize"), ("smaller", "minimize"))
    return [
        (f"if {what} values of {' and '.join(metrics)} are better", {way: metrics})
        for what, way in ways
    ]


def _counterpart(metric: str, held: Survey) -> str:
    """The metric that is the same on other data, val_auc of test_auc, to choose candidates by;
    empty where there is none.
    """
    stem = _PART.sub(r"\1*\3", metric)
    alike = [
        m
        for m in dict.fromkeys([*held.metrics["metric"], *held.trials])
        if m != metric and _PART.search(m) and _PART.sub(r"\1*\3", m) == stem
    ]
    return next((m for m in alike if not held.trials or m in held.trials), "")
