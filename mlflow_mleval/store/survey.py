"""What a store holds, and how it can be compared: for whoever has not said yet what names a method
or a dataset. A description of the runs table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

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
    is_cost,
    of_training,
    proposed_direction,
    term,
)
from mlflow_mleval.measures.registry import NOT_BY_DEFAULT
from mlflow_mleval.selection import Progress, Selection, in_silence, key_of, name_parts
from mlflow_mleval.sentences import Argument, Message, count, grouped, joined, some
from mlflow_mleval.store import query, store
from mlflow_mleval.store.reader import (
    DATASET,
    MADE_UP,
    METHOD,
    Rule,
    estimators,
    is_seed,
    last_part,
    measured,
    pattern_of,
)
from mlflow_mleval.store.repeats import (
    BEST_TRIAL,
    FoldRule,
    Found,
    are_finished,
    everywhere,
    in_experiments,
    is_placed,
    usable_groups,
    values_of,
)
from mlflow_mleval.store.run_answers import hold_answers
from mlflow_mleval.store.runs_table import (
    MOST_MS,
    RunsTable,
    read_results_table,
    read_store,
    remembered,
)
from mlflow_mleval.study import Candidate, Study, Survey, Way

_REPEAT = re.compile(
    r"((.*[_./:-])?(repeat|repetition|replicate|replication|rep)"
    r"|((data|cv|outer)[_.-]?)?(?P<split>split|fold))"
    r"([_.-]?(id|no|number|index|idx))?",
    re.IGNORECASE,
)
#: A metric of one fold: what is before the number, and what is after.
_FOLD = re.compile(
    r"(?P<before>(?P<measure>.*?)[_/. -]?(?:fold|split|cv)[_/. -]?)\d+(?:(?P<gap>[_/. "
    r"-]+)(?P<after>.+))?",
    re.IGNORECASE,
)
#: A name that a search gives to a trial.
_NUMBER = re.compile(r"(trial[_ -]?)?\d+", re.IGNORECASE)
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
#: What stops there, where MLflow made up these names.
_VAGUE = (
    "Nothing names the methods: no param or tag is called like a method's, and the names of the "
    "runs are made up, or say more than a method."
)
#: What stops where all that lacks is a direction.
_CONFIRM = "Which way the metrics are better is proposed by their names alone. Confirm it."
#: Options that say which runs are read, and not how.
_WHICH_RUNS = (
    *("experiment_ids", "experiment_names", "run_ids", "exclude_runs", "since", "filter_string"),
)
#: How often what a command lacks is added, before it is given up.
_TRIES = 4


def take_stock(
    selection: Selection, *, progress: Progress = in_silence
) -> tuple[Study | None, Survey]:
    """The Study that a selection yields, None where it yields none yet, and what the store holds;
    where no experiment is named and several hold runs, what each holds.
    """
    if selection.results is not None:
        table, groups, named = read_results_table(selection), [], True
        source = dict(table.source)
    else:
        client = store.connect()
        selection = store.with_runs_of_models(client, selection)
        named = is_placed(selection)
        where = selection if named else everywhere(client, selection)
        table = read_store(client, where, progress)
        groups = [] if named else usable_groups(table, selection)
        source = {
            "tracking_uri": store.store_name(),
            "filter": store.without_passwords(selection.filter_string),
        }
    about = {"problem": _nothing(table, selection), "experiments": _experiments_table(table)}
    if len(groups) == 1:
        selection = replace(selection, experiment_names=groups[0])
        table = in_experiments(table, groups[0])
    with remembered() if selection.results is None else nullcontext():
        study, held = _taken(selection, table, groups, named, about)
    chosen = selection.results is None and len(groups) < 2
    if chosen and hold_answers(table).sum() > 1:
        proposed = any(way.selection.directions == "proposed" for way in held.ways)
        answers = replace(
            Selection(directions="proposed" if proposed else "declared"),
            **{name: getattr(selection, name) for name in _WHICH_RUNS},
        )
        by_answer = Way("who answers better, answer by answer", "compare", answers, "instances")
        held = replace(held, ways=(*held.ways, by_answer))
    return study, replace(held, source=source)


def _taken(
    selection: Selection,
    table: RunsTable,
    groups: Sequence[Sequence[str]],
    named: bool,
    about: Mapping[str, Any],
) -> tuple[Study | None, Survey]:
    """The study and the survey of the runs that are named, or of the one group that there is; of
    several groups the ways to choose one. `about` is what all runs that were read say.
    """
    if len(groups) > 1:
        ways = tuple(_ways_to_choose(groups, table, selection))
        return None, replace(survey(table, selection), ways=ways, problem=about["problem"])
    held = replace(survey(table, selection), **about)
    held, study = _with_ways(held, table, selection)
    if (study is None or selection.is_ruled) and (named or groups):
        try:  # as it was asked for
            return query.selected_study(selection, table=table), held
        except StoreError:
            raise
        except MlevalError as error:
            why = error.text if isinstance(error, CandidatesError) else str(error)
        if not (len(held.metrics) or held.ways):
            held = replace(held, problem=about["problem"] or why)
        return None, held
    return study, held


def taken_unasked(selection: Selection, with_gaps: bool = False) -> tuple[Selection, str]:
    """What a comparison takes where nobody said which runs, or how to read them: the one way that
    `take_stock` finds, and what that is as a command; `with_gaps` where nothing need be done about
    what is missing.
    """
    _, held = take_stock(selection)
    ways, undirected = held.rankings, False
    text = held.problem or "It is not clear what to compare with what."
    if not held.problem and len(ways) == 2:
        one, other = (way.selection for way in ways)
        if replace(one, minimize=one.maximize, maximize=one.minimize) == other:
            unsaid = "Nobody has said whether smaller or larger values are better."
            text = joined(" ", [*held.notes, unsaid])
    if len(ways) == 1 and not held.problem:
        way = ways[0].selection
        if with_gaps:
            way = replace(way, missing=selection.missing, directions=selection.directions)
        if (way.missing, way.directions) == (selection.missing, selection.directions):
            return way, ways[0].line
        # what is missing, and which way is better, takes someone who says so
        undirected = way.missing == selection.missing
        text = joined(" ", held.notes) if held.notes else _CONFIRM
    raise UnclearError(text, held.ways, undirected)


def taken_for_units(selection: Selection) -> tuple[Selection, str]:
    """The selection of tests within datasets; where nobody said which runs, or how to read those of
    others, the one that `mleval runs` finds, and what that is as a command.
    """
    if selection.is_ruled or selection.results is not None:
        return selection, ""
    named = is_placed(selection)
    if named and read_store(store.connect(), selection).ours.all():
        return selection, ""
    try:
        return taken_unasked(selection, with_gaps=True)
    except UnclearError:
        if named:  # the tests say what is the matter
            return selection, ""
        raise


def survey(table: RunsTable, selection: Selection) -> Survey:
    """What these runs hold, and what may name their methods, datasets, repeats and folds."""
    found = Found.among(table)
    stock = _Stock(found, selection)
    methods = _first_of("method", selection.method_by, stock.methods())
    by_experiment = any(c.chosen and c.rule == "experiment" for c in methods)
    datasets = stock.datasets(by_experiment)
    # metrics that all trials of searches have whose parents have none
    empty = {*found.tops.frame.loc[are_finished(found.tops) & ~found.with_metrics, "run_id"]}
    at = [i for p in found.searches.searches if p in empty for i in found.searches.families[p]]
    of_trials, _, _ = measured(found.searches.children)
    shared = of_trials.iloc[at].dropna(axis=1) if at else of_trials.iloc[:, :0]
    return Survey(
        experiments=_experiments_table(table),
        metrics=stock.metrics(),
        variables=stock.variables,
        n_runs=len(found.used),
        trials=tuple(sorted(shared)),
        candidates=(
            *methods,
            *_first_of("dataset", filter(None, [selection.dataset_by]), datasets),
            *stock.repeats(),
            *stock.folds(),
            *stock.steps(),
        ),
        notes=(*(table.doubts if table.source else ()), *stock.notes()),
        foreign=bool((~found.used.ours).any()) and not selection.method_by,
    )


def _experiments_table(table: RunsTable) -> pd.DataFrame:
    """One row an experiment, the last used first."""
    results = table.where(~table.is_record)
    frame = results.frame[["experiment_id", "status", "started"]].assign(
        finished=are_finished(results), children=results.is_child
    )
    frame["running"] = frame["status"].isin(["RUNNING", "SCHEDULED"])
    done = results.where(frame["finished"])
    metrics = values_of(done).notna().groupby(done.frame["experiment_id"]).any()
    groups = {str(i): held for i, held in frame.groupby("experiment_id")}
    rows = []
    for experiment_id, name in table.experiments.items():
        here = groups.get(experiment_id, frame.iloc[:0])
        started = here["started"][here["started"].abs() < MOST_MS]
        has = metrics.loc[metrics.index == experiment_id].any()
        finished, running = int(here["finished"].sum()), int(here["running"].sum())
        rows.append(
            {
                "experiment": name,
                "experiment_id": experiment_id,
                "runs": len(here),
                "finished": finished,
                "failed": max(len(here) - finished - running, 0),
                "running": running,
                "children": int(here["children"].sum()),
                "last_start": pd.NaT  # rows of a table are numbered
                if table.source and started.lt(len(table)).all()
                else pd.Timestamp(started.max(), unit="ms", tz="UTC"),
                "metrics": tuple(sorted(has.index[has.to_numpy(bool)])),
            }
        )
    rows.sort(key=lambda row: (row["last_start"] is pd.NaT, -row["last_start"].value))
    columns = ["experiment", "experiment_id", "runs", "finished", "failed", "running", "children"]
    return pd.DataFrame(rows, columns=[*columns, "last_start", "metrics"])


def _first_of(role: str, rules: Iterable[str], found: Sequence[Candidate] = ()) -> list[Candidate]:
    """The rules that were asked for, all chosen, and what was found: the first is chosen if nothing
    was asked for.
    """
    asked = [Candidate(role, rule, "as asked", True) for rule in rules]
    told = {c.rule for c in asked}
    others = [replace(c, chosen=not told and c is found[0]) for c in found if c.rule not in told]
    return [*asked, *others]


class _Stock:
    """What the runs that count hold: tables of their metrics and variables, and what may name their
    methods, datasets, repeats and folds, the best of each first.

    variables: One row a param or tag that has several values, those of most runs first.
    """

    def __init__(self, found: Found, selection: Selection) -> None:
        self.found, self.selection, self.used = found, selection, found.used
        self.runs = count(len(self.used), "run")
        rows: list[dict[str, Any]] = []
        for kind in ("param", "tag"):
            for name in self.used.names[f"{kind}s"]:
                if kind == "tag" and name.startswith(("mleval.", "mlflow.")):
                    continue
                column = self.used.frame[f"{kind}s.{name}"].cat
                codes = column.codes.to_numpy()
                counts = np.bincount(codes[codes >= 0], minlength=len(column.categories))
                n, values = int(counts.sum()), int((counts > 0).sum())
                if values > 1 or 0 < n < len(self.used):
                    most = np.argsort(-counts, kind="stable")[: min(values, _SHOWN)]
                    row = {"kind": kind, "name": name, "runs": n, "values": values}
                    rows.append(row | {"examples": tuple(column.categories[most])})
        rows.sort(key=lambda row: (-row["runs"], row["kind"], row["name"]))
        columns = ["kind", "name", "runs", "values", "examples"]
        self.variables = pd.DataFrame(rows, columns=columns)
        self.several = self.variables[self.variables["values"] > 1]
        self.fold_rule = selection.folds_by or _fold_pattern(found.values)
        last = self.used.frame["last_step"][~self.used.ours & (self.used.frame["last_step"] > 0)]
        upto = f"{last.min()}" if last.nunique() < 2 else f"{last.min()} to {last.max()}"
        text = f"{count(len(last), 'run')} logged metrics by step, the last is {upto}"
        #: How many runs others logged by step, and up to which; empty where there is none.
        self.stepped = text if len(last) else ""

    def metrics(self) -> pd.DataFrame:
        """One row a metric, those of most runs first."""
        values, folds = self.found.values, FoldRule(self.fold_rule or "")
        keys = grouped((at[0] if (at := folds.match(key)) else key, key) for key in values)
        declared: dict[str, str] = dict.fromkeys(self.selection.minimize, "min")
        declared |= dict.fromkeys(self.selection.maximize, "max")
        confirmed = self.selection.directions == "proposed"
        training = set() if self.used.ours.all() else of_training(keys)
        rows: list[dict[str, Any]] = []
        for m, of_folds in keys.items():
            held, known = values[of_folds], term(m)
            told = declared.get(m) or direction_of(m, confirmed) or ""
            proposed = "" if told or m in training or is_bookkeeping(m) else proposed_direction(m)
            data = TRAINING if m in training else known.data if known else ""
            n, low, high = held.notna().any(axis=1).sum(), held.min().min(), held.max().max()
            row = {"metric": m, "runs": int(n), "low": low, "high": high, "direction": told}
            rows.append(row | {"data": data, "proposed": proposed or ""})
        order = [HELD_OUT, "", VALIDATION, TRAINING]

        def place(row: dict[str, Any]) -> tuple[bool, bool, int, int, str]:
            """Those of training data, and last what measures no prediction, stand behind others."""
            metric, data = row["metric"], row["data"]
            last = is_bookkeeping(metric), data == TRAINING
            return *last, -row["runs"], order.index(data), metric

        rows.sort(key=place)
        columns = ["metric", "runs", "low", "high", "direction", "data", "proposed"]
        return pd.DataFrame(rows, columns=columns)

    def called(self, names: Sequence[str]) -> pd.DataFrame:
        """The variables whose last part is one of these names, in their order."""
        last = self.several["name"].map(last_part)
        order = last[last.isin(names)].map(names.index).sort_values(kind="stable")
        return self.several.loc[order.index]

    def named(self, role: str, variables: pd.DataFrame, why: str) -> list[Candidate]:
        """These variables as what may name a role."""
        runs = variables["runs"].astype(str).where(variables["runs"] < len(self.used), "all")
        held = variables["values"].astype(str) + " values in " + runs
        rules = variables["kind"] + ":" + variables["name"]
        texts = zip(rules, held, strict=True)
        return [Candidate(role, rule, f"{why}; {text} of {self.runs}") for rule, text in texts]

    def methods(self) -> list[Candidate]:
        """What is called like a method; the estimator; the experiment, where each is a study of
        numbered trials; and the name of the run, where names recur or runs are few. Where there is
        none of these, a param that was swept.
        """
        if self.used.ours.all():
            return []
        n, frame, named = len(self.used), self.used.frame, self.called(METHOD)
        candidates = self.named("method", named, "is called like one")
        classes = estimators(self.used)
        if (classes != "").all() and classes.nunique() > 1:
            reason = f"scikit-learn's estimator; {classes.nunique()} in all of {self.runs}"
            places = named["name"].map(last_part).map(METHOD.index)
            candidates = [c for c in candidates if not c.rule.endswith(":estimator_name")]
            at = int((places < METHOD.index("estimator_name")).sum())
            candidates.insert(at, Candidate("method", "estimator", reason))
        del classes  # names of many runs, which take much memory, too, come next
        names, studies = frame["run_name"].unique(), frame["experiment_id"].nunique()
        if studies > 1 and all(map(_NUMBER.fullmatch, names)):
            reason = f"each of the {studies} is a study, whose trials are numbered"
            candidates.append(Candidate("method", "experiment", reason))
        parts = name_parts(pattern_of(self.used)) if len(names) == n else ()
        told = not ({"dataset", "seed"} <= {*parts} or any(map(MADE_UP.fullmatch, names)))
        if told and len(names) > 1 and (len(names) <= _MOST * n or n < _FEW):
            recur = "recur in" if len(names) < n else "name"
            reason = f"{len(names)} names {recur} {self.runs}"
            candidates.append(Candidate("method", "run_name", reason))
        return candidates or self.swept()

    def swept(self) -> list[Candidate]:
        """The one param over which a sweep went, else the names of the runs."""
        rows, others = self.several, self.called(DATASET)["name"]
        rows = rows[~(rows["name"].isin(others) | rows["name"].map(_REPEAT.fullmatch).notna())]
        everywhere = (rows["kind"] == "param") & (rows["runs"] == len(self.used))
        swept = rows[everywhere & ~rows["name"].map(is_seed)]
        if len(swept) != 1:
            return [Candidate("method", "run_name", _ALONE)]
        return self.named("method", swept, "is all that differs")

    def datasets(self, are_methods: bool) -> list[Candidate]:
        """What may name the datasets; experiments may not, where they are methods."""
        if self.used.ours.all():
            return []
        candidates = self.named("dataset", self.called(DATASET), "is called like one")
        if are_methods:
            return candidates
        texts, by = Rule("dataset").named(self.used)
        for rule, held in texts[by != "experiment"].groupby(by, sort=False):
            reason = f"{held.nunique()} in {len(held)} of {self.runs}"
            candidates.append(Candidate("dataset", str(rule), reason))
        n = self.used.frame["experiment_id"].nunique()
        reason = f"each of the {n} is one" if n > 1 else "all runs are of one"
        return [*candidates, Candidate("dataset", "experiment", reason)]

    def repeats(self) -> list[Candidate]:
        """Seeds, and what is called like a repeat."""
        candidates = _first_of("repeats", self.selection.repeats_by)
        for v in self.variables.itertuples(index=False):
            values, at = count(v.values, "value"), _REPEAT.fullmatch(v.name)
            if v.kind == "param" and is_seed(v.name):
                reason = (
                    f"a seed, with {values}: runs that differ in nothing else are repeats without "
                    "any option"
                )
            # of splits and folds a variable counts them only where it holds whole numbers, for a
            # share or a kind of split is a setting
            elif (
                at
                and not self.selection.repeats_by
                and (not at["split"] or all(map(str.isdecimal, v.examples)))
            ):
                reason = f"is called like one; {values}"
            else:
                continue
            candidates.append(Candidate("repeats", f"{v.kind}:{v.name}", reason, True))
        return candidates

    def folds(self) -> list[Candidate]:
        """Numbered metrics, children that are alike, and steps."""
        if self.selection.folds_by:
            return _first_of("folds", [self.selection.folds_by])
        rule, searches, found = self.fold_rule, self.found.searches, list[Candidate]()
        if rule:
            found.append(Candidate("folds", rule, "metrics are numbered like this", True))
        alike = [p for p, at in searches.families.items() if len(at) > 1]
        alike = [parent for parent in alike if not searches.trial_params(parent)]
        if alike:
            reason = f"{count(len(alike), 'run')} have children that do not differ in params"
            found.append(Candidate("folds", "children", reason, not rule))
        if self.stepped:
            reason = f"{self.stepped}: right if steps are folds, not epochs"
            found.append(Candidate("folds", "steps", reason))
        return found

    def steps(self) -> list[Candidate]:
        """Which of the values that were logged by step count, and what else might."""
        if self.selection.step:
            return _first_of("step", [self.selection.step])
        if not self.stepped or self.selection.folds_by:
            return []
        candidates = [Candidate("step", "last", self.stepped, True)]
        others = self.used.where(~self.used.ours)
        counts = {m: int(others.has(f"metrics.{m}").sum()) for m in others.names["metrics"]}
        known = {m: term(m) for m, n in counts.items() if n}
        by_validation = [m for m, of in known.items() if of and of.data == VALIDATION]
        if by_validation:
            best = max(by_validation, key=lambda m: (counts[m], m.endswith("loss")))
            reason = f"the epoch in which {best} is best, which is chosen on the validation data"
            candidates.append(Candidate("step", f"best:{best}", reason))
        return candidates

    def notes(self) -> Iterator[str]:
        """Which searches the tables do not count."""
        searches = self.found.searches
        if searches.searches:
            params = dict.fromkeys(p for s in searches.searches for p in searches.trial_params(s))
            n = sum(len(searches.families[parent]) for parent in searches.searches)
            yield Message(
                f"{n} child runs are trials of searches over {some(params, 6)}: ",
                BEST_TRIAL,
                " takes the best trial of each.",
            )


def _fold_pattern(keys: Collection[str]) -> str | None:
    """The rule that most metrics of single folds follow; None without several folds."""
    rules: Counter[str] = Counter()
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


def _nothing(table: RunsTable, selection: Selection) -> str:
    """Why nothing can be compared, where that is for want of runs."""
    results = table.where(~table.is_record)
    if are_finished(results).any():
        return ""
    if not len(results):
        if selection.filter_string or selection.since:
            late = f"started since {selection.since}"
            what = "fits the filter" if selection.filter_string else late
            return f"No run {what} in {store.store_name()}."
        return f"The store {store.store_name()} holds no runs."
    status = Counter(results.frame["status"])
    each = ", ".join(f"{n} {what}" for what, n in status.most_common())
    return f"No run has finished: {each}. Their values are no results."


def _ways_to_choose(
    groups: Sequence[Sequence[str]], table: RunsTable, selection: Selection
) -> Iterator[Way]:
    """How to rank what belongs together, or, where that is not clear, to look at it."""
    for group in groups[:_SHOWN]:
        here = replace(selection, experiment_names=group)
        there = in_experiments(table, group)
        if not are_finished(there.where(~there.is_record)).any():
            continue
        held, _ = _with_ways(survey(there, here), there, here)
        what = f"{some(group, 4)}: the same measures and methods on other data"
        if len(group) == 1:
            what = f"{group[0]} alone"
        if len(held.rankings) == 1 and not held.problem:
            yield replace(held.rankings[0], what=what)
        else:
            yield Way(f"what {some(group, 4)} holds, and how to rank it", "runs", here)


def _with_ways(held: Survey, table: RunsTable, selection: Selection) -> tuple[Survey, Study | None]:
    """With the command that ranks these runs, tried out, and what it chooses, and the study that it
    ranks, if it changes no direction; with several commands where it takes someone who knows.
    """
    if not len(held.metrics):
        return held, None
    base, undeclared = _to_try(held, selection)
    trial = _Trial(table, base, undeclared)
    alone = any(c.chosen and c.reason == _ALONE for c in held.candidates)
    problem = trial.reason or (_VAGUE if alone else "")
    settling = tuple(trial.settling())
    held = replace(
        held,
        ways=settling if settling and problem else (*trial.ways(held), *settling),
        problem=problem,
        notes=(*held.notes, *trial.notes),
        candidates=(*held.candidates, *trial.measures()),
        factors=getattr(trial.study, "factors", ()),
    )
    clear = len(held.rankings) == 1 and base.directions == selection.directions
    return held, trial.whole if clear and not problem else None


def _to_try(held: Survey, selection: Selection) -> tuple[Selection, tuple[str, ...]]:
    """The selection with what the survey chooses, and the metric that is tried either way, where
    nobody knows which way any is better.
    """
    base = _with_candidates(held, selection)
    open_ = selection.measures is None and not (selection.minimize or selection.maximize)
    compared = _metrics_to_compare(held, selection)
    undeclared: tuple[str, ...] = ()
    if open_ and not compared:
        proposed = held.metrics["proposed"] != ""
        in_all = held.metrics["runs"] == held.n_runs
        if (proposed & in_all).any():
            base = replace(base, directions="proposed")
            compared = held.metrics.loc[proposed & in_all, "metric"].tolist()
        else:
            undeclared = tuple(sorted(held.undirected, key=is_cost)[:1])
            compared = [*undeclared]
    by_hand = base.children or base.folds_by
    compared = [m for m in compared if not is_cost(m)] or [*compared]
    if not by_hand and {*compared[: 1 if open_ or len(compared) == 1 else 0]} & {*held.trials}:
        chooser = _counterpart(compared[0], held) or compared[0]
        base = replace(base, children=f"best:{chooser}")
    return base, undeclared


def _metrics_to_compare(held: Survey, selection: Selection) -> list[str]:
    """The metrics that were asked for, else those whose direction is known, of test data first."""
    asked = [*(selection.measures or ()), *selection.minimize, *selection.maximize]
    table = held.metrics
    common = (table["direction"] != "") & (2 * table["runs"] > held.n_runs)
    known = table[common & (table["data"] != TRAINING)]
    tested = known[known["data"] != VALIDATION]
    usable = [m for m in (tested if len(tested) else known)["metric"] if m not in NOT_BY_DEFAULT]
    return asked or usable


class _Trial:
    """A selection, tried out; where nobody knows which way a metric is better, either way. What has
    to be added for a ranking, what that does in words, and why it is to no avail; `choices` are
    ways among which somebody has to choose.
    """

    def __init__(self, table: RunsTable, base: Selection, undeclared: tuple[str, ...]) -> None:
        self.table, self.base = table, base
        self.variants: list[tuple[str, dict[str, Any]]] = [("a ranking of them", {})]
        if undeclared:
            ways = [("larger", "maximize"), ("smaller", "minimize")]
            if [proposed_direction(m) for m in undeclared] == ["min"]:
                ways.reverse()
            named = " and ".join(undeclared)
            self.variants = [
                (f"if {what} values of {named} are better", {way: undeclared}) for what, way in ways
            ]
        self.reason = self._completed()

    def ways(self, held: Survey) -> Iterator[Way]:
        """The rankings that there are, or those among which to choose; else those of before."""
        if self.choices or self.reason:
            for what, more in self.choices:
                yield Way(what, "rank", replace(self.base, **{**self.added, **more}))
            yield from () if self.choices else held.ways
            return
        study = self.study if len(self.variants) == 1 else None
        for what, more in self.variants:
            yield Way(what, "rank", replace(self.base, **{**more, **self.added}), study=study)

    def settling(self) -> Iterator[Way]:
        """What to say where the runs do not tell what the datasets are, if it is right."""
        table, study = self.table, self.study
        known = study is not None and not study.unsure("dataset")
        if self.base.name_as or known or table.ours.all():
            return
        if pattern := pattern_of(table.where(~table.is_record)):
            named = replace(self.base, method_by=(), name_as=pattern, **self.added)
            with suppress(MlevalError):  # where names are not what is the matter
                query.selected_study(named, table=table)
                yield Way("if this is what the names of the runs say", "rank", named, settles=True)
        if study is not None and len(study.datasets) > 1:
            each = replace(self.base, dataset_by="experiment", **self.added)
            yield Way("if each experiment is of its own data", "rank", each, settles=True)

    def measures(self) -> Iterator[Candidate]:
        """Which measures the command takes, and why."""
        study = self.study
        if study is None or self.reason or len(self.variants) > 1:
            return
        why = {HELD_OUT: "of held-out data"}
        why[VALIDATION] = "of validation data; there are none of a test"
        if self.base.directions == "proposed":
            why[HELD_OUT] = "its name suggests the direction"
        for measure in study.measures:
            known = term(measure)
            data = known.data if known else HELD_OUT
            better = "larger" if study.directions[measure] == "max" else "smaller"
            reason = f"{why.get(data, 'of training data, as asked')}; {better} is better"
            yield Candidate("measure", measure, reason, True)

    def _completed(self) -> str:
        """Add what a ranking takes; why it is to no avail, empty where there is one."""
        self.added: dict[str, Any] = {}
        self.notes: list[str] = []
        self.choices: Sequence[tuple[str, Mapping[str, Any]]] = ()
        self.whole: Study | None = None
        self.study: Study | None = None
        selection = replace(self.base, **self.variants[0][1])
        for _ in range(_TRIES):
            try:
                study = query.selected_study(replace(selection, **self.added), table=self.table)
                self.whole, self.study = study, study.complete()
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
        unasked = {
            "dataset": c.rule in ("experiment", "input", "shape"),
            "repeats": is_seed(key_of(c.rule)[1]),
        }
        takes = c.role in ("method", "folds") or not unasked.get(c.role, True)
        if c.chosen and c.reason != "as asked" and takes:
            rules[f"{c.role}_by"] = c.rule
    return replace(selection, **rules)


def _counterpart(metric: str, held: Survey) -> str:
    """The metric that is the same on other data, val_auc of test_auc, to choose candidates by;
    empty where there is none.
    """
    stem = _PART.sub(r"\1*\3", metric)
    names = dict.fromkeys([*held.metrics["metric"], *held.trials])
    among = [m for m in names if m != metric and m in (held.trials or names)]
    alike = (m for m in among if _PART.search(m) and _PART.sub(r"\1*\3", m) == stem)
    return next(alike, "")
