"""What a store holds, and how it can be compared: for whoever has not said yet what names a method
or a dataset.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import CandidatesError, MissingResultsError, MlevalError, StoreError
from mlflow_mleval.measures.registry import MEASURES, NOT_BY_DEFAULT
from mlflow_mleval.selection import Selection, key_of
from mlflow_mleval.store import query, schema, store
from mlflow_mleval.store.read_answers import holds_answers
from mlflow_mleval.store.reader import Rule, filters_of, is_ours, metrics_of, started
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
#: A metric by which one compares, rather than choose by it, by its name.
_TEST = re.compile(r"(^|[_./-])(test|eval|heldout|holdout)([_./-]|$)", re.IGNORECASE)
#: Parts of a metric's name that say on what data it was measured.
_PART = re.compile(
    r"(^|[_./ -])(test|eval|heldout|holdout|val|valid|validation|dev)([_./ -]|$)", re.IGNORECASE
)
#: Values of a param that are shown; names of methods recur, so that there are fewer of them than
#: this share of the runs.
_SHOWN, _MOST = 6, 0.5
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
        study, error = _tried(selection, progress)
        chosen = store.asked(selection.experiment_ids, selection.experiment_names)
        names, runs = _all_runs(chosen, selection, progress)
        if error is not None and {*selection.run_ids} - {run.info.run_id for run in runs}:
            raise error
        held = dict.fromkeys(run.info.experiment_id for run in runs if not _is_report(run))
        named = any(chosen) or bool(selection.run_ids)
        if not named and len(held) != 1:
            taken, study = survey(runs, names, selection), None
            ways = tuple(_ways_to_choose(taken, selection))
            taken = replace(taken, ways=ways, problem=_nothing(runs, selection))
        else:
            if not named:
                selection = replace(selection, experiment_names=[names[i] for i in held])
                study, error = _tried(selection)
            problem = _nothing(runs, selection) or _problem(error)
            taken = replace(survey(runs, names, selection), problem=problem)
            taken = _with_ways(taken, selection)
            if sum(map(holds_answers, runs)) > 1:
                taken = replace(taken, ways=(_by_answer(selection), *taken.ways))
        source = {
            "tracking_uri": store.store_name(),
            "filter": store.without_passwords(selection.filter_string),
        }
        return study, replace(taken, source=source)


def _all_runs(
    chosen: tuple[list[str], list[str]],
    selection: Selection,
    progress: Callable[[int, int], object],
) -> tuple[dict[str, str], list[Run]]:
    """The names of the experiments that were chosen, or of all, by their ids, and their runs."""
    client = store.connect()
    experiments = (
        store.find_experiments(client, *chosen) if any(chosen) else store.all_experiments(client)
    )
    names = {e.experiment_id: e.name for e in experiments}
    searching = partial(store.search, client, [*names], progress=progress)
    return names, [run for text in filters_of(selection) for run in searching(text)]


def _problem(error: MlevalError | None) -> str:
    if error is None:
        return ""
    return error.text if isinstance(error, CandidatesError) else str(error)


def _by_answer(selection: Selection) -> Way:
    """How the answers of these runs are compared."""
    where = Selection(
        experiment_ids=selection.experiment_ids,
        experiment_names=selection.experiment_names,
        run_ids=selection.run_ids,
        filter_string=selection.filter_string,
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
        if not _is_report(run):
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


def _is_report(run: Run) -> bool:
    return run.data.tags.get(schema.TAG_KIND) == schema.KIND_REPORT


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
        results = [run for run in here if not _is_report(run)]
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
                "reports": len(here) - len(results),
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
    ways: dict[str, str] = {m.name: m.direction for m in MEASURES.values()}
    ways |= dict.fromkeys(selection.minimize, "min") | dict.fromkeys(selection.maximize, "max")
    rows: list[dict[str, Any]] = [
        {
            "metric": m,
            "runs": n,
            "low": min(values[m]),
            "high": max(values[m]),
            "direction": ways.get(m, ""),
        }
        for m, n in counts.items()
    ]
    rows.sort(key=lambda row: (-row["runs"], _TEST.search(row["metric"]) is None, row["metric"]))
    return pd.DataFrame(rows, columns=["metric", "runs", "low", "high", "direction"])


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
    last = [
        (place.get(re.split(r"[./:]|__", v.name)[-1].lower(), len(names)), v)
        for v in variables.itertuples(index=False)
    ]
    return [
        v for at, v in sorted(last, key=lambda item: item[0]) if at < len(names) and v.values > 1
    ]


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
    names = Counter(run.info.run_name for run in runs)
    if 1 < len(names) <= _MOST * len(runs):
        reason = f"{len(names)} names recur in {count(len(runs), 'run')}"
        candidates.append(Candidate("method", "run_name", reason))
    others = [*named, *_called(variables, DATASET)]
    words = [v for v in _wordy(variables, len(runs)) if v not in others]
    candidates += _candidates("method", words[:3], "holds words", len(runs))
    alone = Candidate("method", "run_name", "nothing else tells: every run counts as a method")
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
    last = [
        max((m.step for m in run.data.to_proto().metrics), default=0)
        for run in runs
        if not is_ours(run)
    ]
    if stepped := [step for step in last if step > 0]:
        low, high = min(stepped), max(stepped)
        upto = f"{low}" if low == high else f"{low} to {high}"
        reason = (
            f"{count(len(stepped), 'run')} logged metrics by step, the last is {upto}: right if "
            "steps are folds, not epochs"
        )
        candidates.append(Candidate("folds", "steps", reason))
    return candidates


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
        if _finished(run) and not metrics_of(run) and run.info.run_id not in families
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
    results = [run for run in runs if not _is_report(run)]
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


def _ways_to_choose(held: Survey, selection: Selection) -> Iterator[Way]:
    """Which experiments to look at next: each by itself, and together those that have metrics in
    common.
    """
    table = held.experiments[held.experiments["finished"] > 0]
    first = {*table["metrics"].iloc[0]} if len(table) else set()
    together = [e.experiment for e in table.itertuples() if {*e.metrics} & first]
    what, alone = "those with metrics in common, to compare them", table["experiment"]
    if len(together) > 1:
        yield Way(what, "runs", replace(selection, experiment_names=together))
    for name in alone.head(1 if len(together) > 1 else _SHOWN):
        what = "one of them, what it holds and how to rank it"
        yield Way(what, "runs", replace(selection, experiment_names=[name]))


def _with_ways(held: Survey, selection: Selection) -> Survey:
    """With commands that rank these runs, tried out, and what they choose."""
    if not len(held.metrics):
        return held
    base = _with_candidates(held, selection)
    asked = {*selection.minimize, *selection.maximize, *(selection.measures or ())}
    table = held.metrics[(held.metrics["direction"] != "") & (held.metrics["runs"] == held.n_runs)]
    directed = {*table["metric"]} - {*NOT_BY_DEFAULT}
    undeclared = () if directed or asked else tuple(held.undirected[:1])
    compared = asked | directed or {*undeclared}
    by_hand = base.children or base.folds_by
    searched = not by_hand and len(compared) == 1 and compared <= {*held.trials}
    if searched:
        base = replace(base, children=f"best:{next(iter(compared))}")
    trial = _Trial(base, _either_way(undeclared))
    if undeclared and (searched or "duplicates" in trial.added):
        trial = _with_counterpart(trial, undeclared[0], held, searched) or trial
    others = [c.rule for c in held.candidates if c.role == "method" and not c.chosen]
    notes = trial.notes
    if trial.reason and others and selection.method_by:
        notes = [Message("As it was asked for: ", trial.reason)]
        trial = _Trial(replace(trial.base, method_by=others[:1]), trial.variants)
        notes += trial.notes
    ways = tuple(trial.ways()) if not trial.reason else held.ways
    return replace(held, ways=ways, problem=trial.reason, notes=(*held.notes, *notes))


class _Trial:
    """A selection and its variants, tried out: what has to be added for a ranking, what that does
    in words, and why it is to no avail.
    """

    def __init__(self, base: Selection, variants: list[tuple[str, dict[str, Any]]]) -> None:
        self.base, self.variants = base, variants
        self.added, self.notes, self.reason = _completed(replace(base, **variants[0][1]))

    def ways(self) -> Iterator[Way]:
        for what, more in self.variants:
            yield Way(what, "rank", replace(self.base, **{**more, **self.added}))


def _with_counterpart(trial: _Trial, metric: str, held: Survey, searched: bool) -> _Trial | None:
    """The same, where the metric is compared and its counterpart on other data chooses; None where
    it has none.
    """
    other = _counterpart(metric, held)
    if not other:
        return None
    base = trial.base
    if searched:
        base = replace(base, children=f"best:{other}")
    return _Trial(base, _either_way((metric, other)))


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
        for m in held.undirected
        if m != metric and _PART.search(m) and _PART.sub(r"\1*\3", m) == stem
    ]
    return next((m for m in alike if not held.trials or m in held.trials), "")


def _completed(selection: Selection) -> tuple[dict[str, Any], list[str], str]:
    """What to add to the selection for a ranking, what that does in words, and why it is to no
    avail.
    """
    added: dict[str, Any] = {}
    notes: list[str] = []
    for _ in range(_TRIES):
        try:
            study = query.selected_study(replace(selection, **added))
            study.complete()
        except CandidatesError as error:
            what, more = error.ways[0]
            added_arguments = joined(" and ", (Message(Argument(*item)) for item in more.items()))
            text = f"{error.text} The commands {what}; without "
            notes.append(Message(text, added_arguments, " they tell the other ways."))
            added |= more
        except MissingResultsError as error:
            if "missing" in added:
                return added, notes, str(error)
            notes.append(f"{error.text} The commands give them the worst value of the dataset.")
            added["missing"] = "worst"
        except MlevalError as error:
            return added, notes, str(error)
        else:
            alone = f"There is one method only, {study.methods[0]}, and nothing to compare it with."
            return added, notes, alone if len(study.methods) < 2 else ""
    return added, notes, "No option was found by which they can be compared."
