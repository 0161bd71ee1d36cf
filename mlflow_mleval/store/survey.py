"""What a store holds, and how it can be compared: for whoever has not said yet what names a method
or a dataset.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import CandidatesError, MissingResultsError, MlevalError, StoreError
from mlflow_mleval.measures.registry import MEASURES, NOT_BY_DEFAULT
from mlflow_mleval.store import query, schema, store
from mlflow_mleval.store.bounds import computable
from mlflow_mleval.store.read_answers import holds_answers
from mlflow_mleval.store.reader import Rule, filters_of, is_ours, started
from mlflow_mleval.store.repeats import is_seed
from mlflow_mleval.store.searches import FoldRule, searched, trial_params
from mlflow_mleval.study import Candidate, Study, Survey, Way
from mlflow_mleval.words import count, some

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
    *, progress: Callable[[int, int], object] = lambda done, total: None, **options: Any
) -> tuple[Study | None, Survey]:
    """The Study that a selection yields, None where it yields none yet, and what the store holds.

    Takes what `load_study` takes, and tells progress as it does. Where no experiment is named and
    several hold runs, it tells what each holds.

    Raises
    ------
    NoRunsError
        An experiment or a run that was named does not exist.
    StoreError, ValueError
        As `load_study`.
    """
    options = {key: value for key, value in options.items() if value not in (None, (), [], "")}
    with store.remembered():
        study, error = _tried(options, progress=progress)
        client, ids = store.connect(), options.get("run_ids", ())
        chosen = store.asked(options.get("experiment_ids"), options.get("experiment_names"))
        found = (
            store.find_experiments(client, *chosen)
            if any(chosen)
            else store.all_experiments(client)
        )
        names = {e.experiment_id: e.name for e in found}
        filters = filters_of(options.get("filter_string", ""), ids)
        runs = [
            run
            for text in filters
            for run in store.search(client, [*names], text, progress=progress)
        ]
        if error is not None and set(ids) - {run.info.run_id for run in runs}:
            raise error
        source = {
            "tracking_uri": store.store_name(),
            "filter": store.without_passwords(options.get("filter_string", "")),
        }
        held = [
            names[i]
            for i in dict.fromkeys(run.info.experiment_id for run in runs if not _is_report(run))
        ]
        if not ids and not any(chosen):
            if len(held) != 1:
                taken = replace(survey(runs, names, options), source=source)
                return None, replace(
                    taken,
                    ways=tuple(_ways_to_choose(taken, options)),
                    problem=_nothing(runs, options),
                )
            options |= {"experiment_names": (held[0],)}
            study, error = _tried(options)
        taken = replace(survey(runs, names, options), source=source)
        problem = (
            ""
            if error is None
            else error.text
            if isinstance(error, CandidatesError)
            else str(error)
        )
        taken = _with_ways(replace(taken, problem=_nothing(runs, options) or problem), options)
        if sum(map(holds_answers, runs)) > 1:
            where = {key: options[key] for key in _WHERE if key in options}
            taken = replace(
                taken,
                ways=(
                    Way("who answers better, answer by answer", "compare", where | _BY_ANSWER),
                    *taken.ways,
                ),
            )
        return study, taken


#: Options of a selection that `load_answers` takes, and how its answers are compared.
_WHERE, _BY_ANSWER = (
    ("experiment_ids", "experiment_names", "run_ids", "filter_string"),
    {"over": "instances"},
)


def survey(
    runs: Sequence[Run], experiments: Mapping[str, str], options: Mapping[str, Any] | None = None
) -> Survey:
    """What these runs hold, and what may name their methods, datasets, repeats and folds.

    Parameters
    ----------
    runs : sequence of mlflow.entities.Run
        As a search gives them, with failed runs and children.
    experiments : mapping of str to str
        Their experiments, id to name.
    options : mapping, optional
        What was chosen already, as arguments of `load_study`: declared directions count as known,
        rules as chosen.
    """
    options = options or {}
    results = [run for run in runs if not _is_report(run)]
    children = [
        run for run in results if MLFLOW_PARENT_RUN_ID in run.data.tags and not is_ours(run)
    ]
    tops = [run for run in results if MLFLOW_PARENT_RUN_ID not in run.data.tags or is_ours(run)]
    used = [run for run in tops if _finished(run) and _keys(run)]
    searches = _families(children)
    if not used:  # what there is lies in children
        used = [run for run in children if _finished(run) and _keys(run)]
    rule = options.get("folds_by") or _fold_pattern(used)
    folds = FoldRule(rule) if rule else None
    variables = _variables(used)
    lost = {run.info.run_id for run in tops if _finished(run) and not _keys(run)}
    trials = [
        {*_keys(run)}
        for parent, runs in searches.items()
        if parent in lost and trial_params(runs)
        for run in runs
    ]
    candidates = [
        *_method(variables, used, options),
        *_dataset(variables, used, experiments, options),
        *_repeats(variables, options),
        *_folds(rule, searches, used, options),
    ]
    by_rule = Rule(
        "method", next((c.rule for c in candidates if c.role == "method" and c.chosen), None)
    )

    def named(run: Run) -> str | None:
        return (by_rule.find(run, experiments.get(run.info.experiment_id, "")) or (None,))[0]

    return Survey(
        experiments=_experiments(runs, experiments),
        metrics=_metrics(used, folds, options),
        variables=variables,
        n_runs=len(used),
        trials=tuple(sorted(set.intersection(*trials))) if trials else (),
        candidates=tuple(candidates),
        notes=tuple(_notes(tops, used, searches, named)),
        foreign=any(not is_ours(run) for run in used) and "method_by" not in options,
    )


def _is_report(run: Run) -> bool:
    return run.data.tags.get(schema.TAG_KIND) == schema.KIND_REPORT


def _finished(run: Run) -> bool:
    return (
        run.data.tags.get(schema.TAG_STATUS, "") in (schema.COMPLETE, schema.DNF)
        or run.info.status == "FINISHED"
    )


def _keys(run: Run) -> dict[str, float]:
    """Finite values by measure or metric, without those by fold and step that mleval logs, and
    those of the machine.
    """
    found = {schema.measure_of(key) or key: value for key, value in run.data.metrics.items()}
    return {
        m: v for m, v in found.items() if not m.startswith(("mleval.", "system/")) and computable(v)
    }


def _families(children: Sequence[Run]) -> dict[str, list[Run]]:
    """Finished children by the id of their parent."""
    found: dict[str, list[Run]] = defaultdict(list)
    for run in children:
        if _finished(run):
            found[run.data.tags[MLFLOW_PARENT_RUN_ID]].append(run)
    return found


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
                    sorted({key for run in results if _finished(run) for key in _keys(run)})
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


def _metrics(
    runs: Sequence[Run], folds: FoldRule | None, options: Mapping[str, Any]
) -> pd.DataFrame:
    """One row a metric, those of most runs first."""
    values: dict[str, list[float]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for run in runs:
        here: set[str] = set()
        for key, value in _keys(run).items():
            at = folds.match(key) if folds else None
            values[at[0] if at else key].append(value)
            here.add(at[0] if at else key)
        counts.update(here)
    known = {m.name: m.direction for m in MEASURES.values()}
    known |= dict.fromkeys(options.get("minimize", ()), "min") | dict.fromkeys(
        options.get("maximize", ()), "max"
    )
    rows: list[dict[str, Any]] = [
        {
            "metric": m,
            "runs": n,
            "low": min(values[m]),
            "high": max(values[m]),
            "direction": known.get(m, ""),
        }
        for m, n in counts.items()
    ]
    rows.sort(key=lambda row: (-row["runs"], _TEST.search(row["metric"]) is None, row["metric"]))
    return pd.DataFrame(rows, columns=["metric", "runs", "low", "high", "direction"])


def _variables(runs: Sequence[Run]) -> pd.DataFrame:
    """One row a param or tag that has several values, those of most runs first."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for run in runs:
        for key, text in run.data.params.items():
            found["param", key][text] += 1
        for key, text in run.data.tags.items():
            if not key.startswith(("mleval.", "mlflow.")):
                found["tag", key][text] += 1
    rows = [
        {
            "kind": kind,
            "name": name,
            "runs": texts.total(),
            "values": len(texts),
            "examples": tuple(text for text, _ in texts.most_common(_SHOWN)),
        }
        for (kind, name), texts in found.items()
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


def _numbered(v: Any, of: int) -> str:
    return f"{v.values} values in {v.runs if v.runs < of else 'all'} of {count(of, 'run')}"


def _chosen_first(found: Sequence[Candidate]) -> list[Candidate]:
    return [replace(candidate, chosen=i == 0) for i, candidate in enumerate(found)]


def _method(
    variables: pd.DataFrame, runs: Sequence[Run], options: Mapping[str, Any]
) -> list[Candidate]:
    if rules := options.get("method_by"):
        asked = [
            Candidate("method", rule, "as asked", True)
            for rule in ((rules,) if isinstance(rules, str) else rules)
        ]
        others = _method(variables, runs, {})
        return [*asked, *(replace(c, chosen=False) for c in others if c.rule not in rules)]
    if not runs or all(map(is_ours, runs)):
        return []
    n, named = len(runs), _called(variables, METHOD)
    found = [
        Candidate("method", f"{v.kind}:{v.name}", f"is called like one; {_numbered(v, n)}")
        for v in named
    ]
    names = Counter(run.info.run_name for run in runs)
    if 1 < len(names) <= _MOST * n:
        found.append(
            Candidate("method", "run_name", f"{len(names)} names recur in {count(n, 'run')}")
        )
    words = [
        v
        for v in variables.itertuples(index=False)
        if 1 < v.values <= _MOST * n
        and v.runs > _MOST * n
        and v not in named
        and not _REPEAT.fullmatch(v.name)
        and v not in _called(variables, DATASET)
        and not any(map(_is_number, v.examples))
    ]
    found += [
        Candidate("method", f"{v.kind}:{v.name}", f"holds words; {_numbered(v, n)}")
        for v in words[:3]
    ]
    return _chosen_first(
        found
        or [Candidate("method", "run_name", "nothing else tells: every run counts as a method")]
    )


def _dataset(
    variables: pd.DataFrame,
    runs: Sequence[Run],
    experiments: Mapping[str, str],
    options: Mapping[str, Any],
) -> list[Candidate]:
    if rule := options.get("dataset_by"):
        others = _dataset(variables, runs, experiments, {})
        return [
            Candidate("dataset", rule, "as asked", True),
            *(replace(c, chosen=False) for c in others if c.rule != rule),
        ]
    if not runs or all(map(is_ours, runs)):
        return []
    n, by_input = len(runs), Rule("dataset", "input")
    found = [
        Candidate("dataset", f"{v.kind}:{v.name}", f"is called like one; {_numbered(v, n)}")
        for v in _called(variables, DATASET)
    ]
    inputs = Counter(
        name[0]
        for run in runs
        if (name := by_input.find(run, "")) is not None and name[0] != "dataset"
    )
    if inputs:
        text = f"{count(len(inputs), 'dataset input')} in {inputs.total()} of {count(n, 'run')}"
        found.append(Candidate("dataset", "input", text))
    held = len({run.info.experiment_id for run in runs})
    found.append(
        Candidate(
            "dataset",
            "experiment",
            f"each of the {held} is one" if held > 1 else "all runs are of one",
        )
    )
    return _chosen_first(found)


def _repeats(variables: pd.DataFrame, options: Mapping[str, Any]) -> list[Candidate]:
    given = options.get("repeats_by", ())
    found = [
        Candidate("repeats", rule, "as asked", True)
        for rule in ((given,) if isinstance(given, str) else given)
    ]
    for v in variables.itertuples(index=False):
        if v.kind == "param" and is_seed(v.name):
            found.append(
                Candidate(
                    "repeats",
                    f"param:{v.name}",
                    f"a seed, with {count(v.values, 'value')}: runs that differ in "
                    "nothing else are repeats without any option",
                    True,
                )
            )
        elif _REPEAT.fullmatch(v.name) and not given:
            found.append(
                Candidate(
                    "repeats",
                    f"{v.kind}:{v.name}",
                    f"is called like one; {count(v.values, 'value')}",
                    True,
                )
            )
    return found


def _folds(
    rule: str | None,
    families: Mapping[str, Sequence[Run]],
    runs: Sequence[Run],
    options: Mapping[str, Any],
) -> list[Candidate]:
    if options.get("folds_by"):
        return [Candidate("folds", options["folds_by"], "as asked", True)]
    found = [Candidate("folds", rule, "metrics are numbered like this", True)] if rule else []
    alike = [
        children
        for children in families.values()
        if len(children) > 1 and not trial_params(children)
    ]
    if alike:
        reason = f"{count(len(alike), 'run')} have children that do not differ in params"
        found.append(Candidate("folds", "children", reason, not rule))
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
        found.append(Candidate("folds", "steps", reason))
    return found


def _fold_pattern(runs: Sequence[Run]) -> str | None:
    """The rule that most metrics of single folds follow; None where there are none, or one fold
    only.
    """
    rules: Counter[str] = Counter()
    keys = dict.fromkeys(key for run in runs for key in _keys(run))
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
    used: Sequence[Run],
    families: Mapping[str, Sequence[Run]],
    named: Callable[[Run], str | None],
) -> Iterator[str]:
    """Which runs the tables do not count, and why."""
    without = [
        run for run in tops if _finished(run) and not _keys(run) and run.info.run_id not in families
    ]
    searches = [children for children in families.values() if trial_params(children)]
    if searches:
        params = dict.fromkeys(p for children in searches for p in trial_params(children))
        of, n = (
            "a search" if len(searches) == 1 else f"{len(searches)} searches",
            sum(map(len, searches)),
        )
        of += f" ({some(names, 6)})" if (names := searched(tops, searches, named)) else ""
        yield (
            f"{n} child runs are trials of {of} over {some(params, 6)}: `children='best:METRIC'` "
            "takes the best trial of each."
        )
    if without:
        their = "its" if len(without) == 1 else "their"
        yield f"{count(len(without), 'finished run')} without a metric of {their} own."


def _tried(options: Mapping[str, Any], **more: Any) -> tuple[Study | None, MlevalError | None]:
    """The Study, or why there is none."""
    try:
        study = query.load_study(**options, **more)
    except StoreError:
        raise
    except MlevalError as error:
        return None, error
    return study, None


def _nothing(runs: Sequence[Run], options: Mapping[str, Any]) -> str:
    """Why nothing can be compared, where that is for want of runs."""
    results = [run for run in runs if not _is_report(run)]
    if any(map(_finished, results)):
        return ""
    if not results:
        fits = " fits the filter" if options.get("filter_string") else ""
        return (
            f"No run{fits} in {store.store_name()}."
            if fits
            else f"The store {store.store_name()} holds no runs."
        )
    status = Counter(run.info.status for run in results)
    return (
        f"No run has finished: {', '.join(f'{n} {what}' for what, n in status.most_common())}. "
        "Their values are no results."
    )


def _ways_to_choose(found: Survey, options: Mapping[str, Any]) -> Iterator[Way]:
    """Which experiments to look at next: each by itself, and together those that have metrics in
    common.
    """
    held = found.experiments[found.experiments["finished"] > 0]
    together = (
        [e.experiment for e in held.itertuples() if {*e.metrics} & {*held["metrics"].iloc[0]}]
        if len(held)
        else []
    )
    if len(together) > 1:
        yield Way(
            "those with metrics in common, to compare them",
            "runs",
            {**options, "experiment_names": tuple(together)},
        )
    for name in held["experiment"].head(1 if len(together) > 1 else _SHOWN):
        yield Way(
            "one of them, what it holds and how to rank it",
            "runs",
            {**options, "experiment_names": (name,)},
        )


def _with_ways(found: Survey, options: Mapping[str, Any]) -> Survey:
    """With commands that rank these runs, tried out, and what they choose."""
    base, chosen = (
        dict(options),
        [c for c in found.candidates if c.chosen and c.reason != "as asked"],
    )
    for c in chosen:
        if c.role == "method" or (c.role == "repeats" and not is_seed(c.rule.partition(":")[2])):
            base[f"{c.role}_by"] = (c.rule,)
        elif c.role == "folds" or (c.role == "dataset" and c.rule not in ("experiment", "input")):
            base[f"{c.role}_by"] = c.rule
    table, asked = (
        found.metrics,
        {*options.get("minimize", ()), *options.get("maximize", ()), *options.get("measures", ())},
    )
    known = {m.metric for m in table.itertuples() if m.direction and m.runs == found.n_runs} - {
        *NOT_BY_DEFAULT
    }
    if not len(table):
        return found
    variants: list[tuple[str, dict[str, Any]]] = [("a ranking of them", {})]
    undeclared = () if known or asked else tuple(found.undirected[:1])
    compared = asked | known or {*undeclared}
    searched = (
        "children" not in base
        and "folds_by" not in base
        and len(compared) == 1
        and compared <= {*found.trials}
    )
    if undeclared:
        variants = _either_way(undeclared)
    if searched:
        base["children"] = f"best:{next(iter(compared))}"
    added, said, reason = _completed(base | variants[0][1])
    if (
        undeclared
        and (searched or "duplicates" in added)
        and (other := _counterpart(undeclared[0], found))
    ):
        variants = _either_way((*undeclared, other))
        base |= {"children": f"best:{other}"} if searched else {}
        added, said, reason = _completed(base | variants[0][1])
    others = [c.rule for c in found.candidates if c.role == "method" and not c.chosen]
    if reason and others and "method_by" in options:
        said = [f"As it was asked for: {reason}"]
        base["method_by"] = (others[0],)
        added, more, reason = _completed(base | variants[0][1])
        said += more
    if reason:
        return replace(found, problem=reason, notes=(*found.notes, *said))
    ways = [Way(what, "rank", base | more | added) for what, more in variants]
    return replace(found, ways=tuple(ways), problem="", notes=(*found.notes, *said))


def _either_way(metrics: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The options that declare metrics, either way."""
    ways = (("larger", "maximize"), ("smaller", "minimize"))
    return [
        (f"if {what} values of {' and '.join(metrics)} are better", {way: metrics})
        for what, way in ways
    ]


def _counterpart(metric: str, found: Survey) -> str:
    """The metric that is the same on other data, val_auc of test_auc, to choose candidates by;
    empty where there is none.
    """
    stem = _PART.sub(r"\1*\3", metric)
    alike = [
        m
        for m in found.undirected
        if m != metric and _PART.search(m) and _PART.sub(r"\1*\3", m) == stem
    ]
    return next((m for m in alike if not found.trials or m in found.trials), "")


def _completed(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], str]:
    """What to add to the options for a ranking, what that does in words, and why it is to no
    avail.
    """
    added: dict[str, Any] = {}
    said: list[str] = []
    for _ in range(_TRIES):
        try:
            study = query.load_study(**{**options, **added})
            study.complete(added.get("missing", options.get("missing")))
        except CandidatesError as error:
            what, more = error.ways[0]
            said.append(
                f"{error.text} The commands {what}; without {_flags(more)} they tell the other "
                "ways."
            )
            added |= more
        except MissingResultsError as error:
            if "missing" in added:
                return added, said, str(error)
            said.append(f"{error.text} The commands give them the worst value of the dataset.")
            added["missing"] = "worst"
        except MlevalError as error:
            return added, said, str(error)
        else:
            alone = f"There is one method only, {study.methods[0]}, and nothing to compare it with."
            return added, said, alone if len(study.methods) < 2 else ""
    return added, said, "No option was found by which they can be compared."


def _flags(options: Mapping[str, Any]) -> str:
    return " and ".join(f"`{name}={value!r}`" for name, value in options.items())
