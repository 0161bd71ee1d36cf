"""What a store holds, and how it can be compared, where nobody has said what names a method."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from mlflow_mleval.errors import (
    CandidatesError,
    MissingResultsError,
    MlevalError,
    StoreError,
    UnclearError,
    Ways,
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
from mlflow_mleval.sentences import Argument, Message, count, grouped, joined, some, span
from mlflow_mleval.store import query, repeats, store
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
from mlflow_mleval.store.repeats import FoldRule, Found, are_finished
from mlflow_mleval.store.run_answers import hold_answers
from mlflow_mleval.store.runs_table import (
    MOST_MS,
    RunsTable,
    read_results_table,
    read_store,
    remembered,
)
from mlflow_mleval.study import Candidate, Study, Survey, Way
from mlflow_mleval.validation import present

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
#: Values of a param that are shown; names of methods recur: they are at most this share of runs.
_SHOWN, _MOST = 6, 0.5
#: Of fewer runs than this each name may name a method of its own.
_FEW = 20
#: Why a rule is chosen that somebody gave.
_AS_ASKED = "as asked"
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
    where no experiment is named and several hold runs, what each holds."""
    groups: list[list[str]] = []
    if selection.results is not None:
        table = read_results_table(selection)
        source = dict(table.source)
    else:
        client = store.connect()
        selection = store.with_runs_of_models(client, selection)
        named = repeats.is_placed(selection)
        where = selection if named else repeats.everywhere(client, selection)
        table = read_store(client, where, progress)
        groups = [] if named else repeats.usable_groups(table, selection)
        source = {
            "tracking_uri": store.store_name(),
            "filter": store.without_passwords(selection.filter_string),
        }
    nothing, experiments = _nothing(table, selection), _experiments_table(table)
    if len(groups) > 1:
        ways = tuple(_ways_to_choose(groups, table, selection))
        held = replace(survey(table, selection), ways=ways, problem=nothing, source=source)
        return None, held
    if groups:
        selection = replace(selection, experiment_names=groups[0])
        table = repeats.in_experiments(table, groups[0])
    with remembered():
        held, study = _with_ways(survey(table, selection), table, selection)
        why = ""
        if study is None or selection.is_ruled:  # as it was asked for
            try:
                study = query.selected_study(selection, table=table)
            except StoreError:
                raise
            except MlevalError as error:
                study, why = None, str(getattr(error, "text", error))
    if not (len(held.metrics) or held.ways):
        held = replace(held, problem=nothing or why)
    if selection.results is None and hold_answers(table).sum() > 1:
        held = replace(held, ways=(*held.ways, _by_answer(selection, held.ways)))
    return study, replace(held, experiments=experiments, source=source)


def _by_answer(selection: Selection, ways: Iterable[Way]) -> Way:
    """The comparison of the answers of these runs."""
    which: dict[str, Any] = {name: getattr(selection, name) for name in _WHICH_RUNS}
    if any(way.selection.directions == "proposed" for way in ways):
        which["directions"] = "proposed"
    text = "who answers better, answer by answer"
    return Way(text, "compare", Selection(**which), "instances")


def taken_unasked(selection: Selection, with_gaps: bool = False) -> tuple[Selection, str]:
    """What a comparison takes where nobody said which runs, or how to read them: the one way that
    `take_stock` finds, and its command; `with_gaps` where nothing need be done about gaps."""
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
    others, the one that `mleval runs` finds, and what that is as a command."""
    if selection.is_ruled or selection.results is not None:
        return selection, ""
    named = repeats.is_placed(selection)
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
    stock, searches = _Stock(found, selection), found.searches
    methods = _asked_first("method", selection.method_by, stock.methods())
    by_experiment = any(c.chosen and c.rule == "experiment" for c in methods)
    # metrics that all trials of searches have whose parents have none
    empty = {*found.tops.frame.loc[are_finished(found.tops) & ~found.with_metrics, "run_id"]}
    at = [i for p in searches.searches if p in empty for i in searches.families[p]]
    of_trials, _, _ = measured(searches.children)
    shared = of_trials.iloc[at].dropna(axis=1) if at else of_trials.iloc[:, :0]
    notes = [*table.doubts] if table.source else []
    if n := sum(len(searches.families[parent]) for parent in searches.searches):
        params = dict.fromkeys(p for s in searches.searches for p in searches.trial_params(s))
        text = f"{n} child runs are trials of searches over {some(params, 6)}: "
        notes.append(Message(text, repeats.BEST_TRIAL, " takes the best trial of each."))
    return Survey(
        experiments=_experiments_table(table),
        metrics=stock.metrics(),
        variables=stock.variables,
        n_runs=len(found.used),
        trials=tuple(sorted(shared)),
        candidates=(
            *methods,
            *_asked_first("dataset", [selection.dataset_by], stock.datasets(by_experiment)),
            *_asked_first("repeats", selection.repeats_by),
            *stock.repeats(),
            *stock.folds(),
            *stock.steps(),
        ),
        notes=tuple(notes),
        foreign=bool((~found.used.ours).any()) and not selection.method_by,
    )


def _experiments_table(table: RunsTable) -> pd.DataFrame:
    """One row an experiment, the last used first."""
    results = table.where(~table.is_record)
    finished, ids = are_finished(results), results.frame["experiment_id"]
    running = results.frame["status"].isin(["RUNNING", "SCHEDULED"])
    is_a = {"finished": finished, "failed": ~(finished | running), "running": running}
    runs = pd.DataFrame({"runs": 1, **is_a, "children": results.is_child}, ids.index)
    held = runs.groupby(ids).sum().reindex([*table.experiments], fill_value=0)
    started = results.frame["started"]
    started = started[started.abs() < MOST_MS]
    if table.source:  # whose rows are numbered
        started = started[started >= len(table)]
    last = started.groupby(ids).max().reindex(held.index)
    has = repeats.values_of(results.where(finished)).notna().groupby(ids).any()
    metrics = {i: tuple(sorted(has.columns[row])) for i, row in has.astype(bool).iterrows()}
    held = held.assign(
        experiment=[*table.experiments.values()],
        experiment_id=held.index,
        last_start=pd.to_datetime(last, unit="ms", utc=True),
        metrics=[metrics.get(i, ()) for i in held.index],
    )
    columns = ["experiment", "experiment_id", *runs, "last_start", "metrics"]
    held = held.sort_values("last_start", ascending=False, kind="stable")
    return held[columns].reset_index(drop=True)


def _asked_first(
    role: str, rules: Iterable[str | None], found: Sequence[Candidate] = ()
) -> list[Candidate]:
    """The rules that were asked for, all chosen, and those that were found, of which the first is
    chosen if nothing was asked for."""
    asked = [Candidate(role, rule, _AS_ASKED, True) for rule in rules if rule]
    told = {c.rule for c in asked}
    others = [replace(c, chosen=not told and c is found[0]) for c in found if c.rule not in told]
    return [*asked, *others]


class _Stock:
    """What the runs that count hold, and what may name their methods, datasets, repeats and folds,
    the best of each first."""

    def __init__(self, found: Found, selection: Selection) -> None:
        self.found, self.selection, self.used = found, selection, found.used
        self.runs = count(len(self.used), "run")
        rows = []  # a param or tag that has several values, those of most runs first
        for kind in ("param", "tag"):
            for name in self.used.names[f"{kind}s"]:
                if kind == "tag" and name.startswith(("mleval.", "mlflow.")):
                    continue
                counts = self.used.frame[f"{kind}s.{name}"].value_counts(sort=False)
                counts = counts[counts > 0].sort_values(ascending=False, kind="stable")
                n, examples = int(counts.sum()), tuple(counts.index[:_SHOWN])
                if len(counts) > 1 or 0 < n < len(self.used):
                    rows.append((kind, name, n, len(counts), examples))
        rows.sort(key=lambda row: (-row[2], *row[:2]))
        columns = ["kind", "name", "runs", "values", "examples"]
        self.variables = pd.DataFrame(rows, columns=columns)
        self.several = [v for v in self.variables.itertuples(index=False) if v.values > 1]
        self.fold_rule = selection.folds_by or _fold_pattern(found.values)
        last = self.used.frame["last_step"][~self.used.ours & (self.used.frame["last_step"] > 0)]
        upto = span(last.min(), last.max())
        text = f"{count(len(last), 'run')} logged metrics by step, the last is {upto}"
        #: How many runs others logged by step, and up to which; empty where there is none.
        self.stepped = text if len(last) else ""

    def metrics(self) -> pd.DataFrame:
        """One row a metric, those of most runs first; those of training data, and last what
        measures no prediction, stand behind others."""
        values, folds, selection = self.found.values, FoldRule(self.fold_rule or ""), self.selection
        keys = grouped((at[0] if (at := folds.match(key)) else key, key) for key in values)
        declared = dict.fromkeys(selection.minimize, "min")
        declared |= dict.fromkeys(selection.maximize, "max")
        training = set() if self.used.ours.all() else of_training(keys)
        columns = ["metric", "runs", "low", "high", "direction", "data", "proposed"]
        rows = []
        for m, of_folds in keys.items():
            held, known = values[of_folds], term(m)
            way = declared.get(m) or direction_of(m, selection.directions == "proposed") or ""
            proposed = "" if way or m in training or is_bookkeeping(m) else proposed_direction(m)
            data = TRAINING if m in training else known.data if known else ""
            n, low, high = held.notna().any(axis=1).sum(), held.min().min(), held.max().max()
            rows.append((m, int(n), low, high, way, data, proposed or ""))
        rank = [HELD_OUT, "", VALIDATION, TRAINING].index
        rows.sort(
            key=lambda row: (is_bookkeeping(row[0]), row[5] == TRAINING, -row[1], rank(row[5]), row)
        )
        return pd.DataFrame(rows, columns=columns)

    def called(self, role: str, names: Sequence[str]) -> list[Candidate]:
        """The variables whose last part is one of these names, in their order."""
        told = [v for v in self.several if last_part(v.name) in names]
        told.sort(key=lambda v: names.index(last_part(v.name)))
        return self.named(role, told, "is called like one")

    def named(self, role: str, variables: Iterable[Any], why: str) -> list[Candidate]:
        """These variables as what may name a role."""
        candidates = []
        for v in variables:
            runs = v.runs if v.runs < len(self.used) else "all"
            reason = f"{why}; {v.values} values in {runs} of {self.runs}"
            candidates.append(Candidate(role, f"{v.kind}:{v.name}", reason))
        return candidates

    def methods(self) -> list[Candidate]:
        """What is called like a method; the estimator; the experiment, where each is a study of
        trials; the run's name, where names recur or runs are few; else a param that was swept."""
        if self.used.ours.all():
            return []
        n, frame, found = len(self.used), self.used.frame, self.called("method", METHOD)
        classes = estimators(self.used)
        if (classes != "").all() and classes.nunique() > 1:
            reason = f"scikit-learn's estimator; {classes.nunique()} in all of {self.runs}"
            names = METHOD[: METHOD.index("estimator_name")]
            at = sum(last_part(c.rule) in names for c in found)
            others = [c for c in found[at:] if last_part(c.rule) != "estimator_name"]
            found = [*found[:at], Candidate("method", "estimator", reason), *others]
        del classes  # names of many runs, which take much memory, too, come next
        names, studies = frame["run_name"].unique(), frame["experiment_id"].nunique()
        if studies > 1 and all(map(_NUMBER.fullmatch, names)):
            reason = f"each of the {studies} is a study, whose trials are numbered"
            found.append(Candidate("method", "experiment", reason))
        parts = name_parts(pattern_of(self.used)) if len(names) == n else ()
        told = not ({"dataset", "seed"} <= {*parts} or any(map(MADE_UP.fullmatch, names)))
        if told and len(names) > 1 and (len(names) <= _MOST * n or n < _FEW):
            found.append(Candidate("method", "run_name", f"{len(names)} names in {self.runs}"))
        return found or self.swept()

    def swept(self) -> list[Candidate]:
        """The one param over which a sweep went, else the names of the runs."""
        params = [v for v in self.several if v.kind == "param" and v.runs == len(self.used)]
        params = [v for v in params if not (is_seed(v.name) or _REPEAT.fullmatch(v.name))]
        swept = [v for v in params if last_part(v.name) not in DATASET]
        if len(swept) != 1:
            return [Candidate("method", "run_name", _ALONE)]
        return self.named("method", swept, "is all that differs")

    def datasets(self, are_methods: bool) -> list[Candidate]:
        """What may name the datasets; experiments may not, where they are methods."""
        if self.used.ours.all():
            return []
        candidates = self.called("dataset", DATASET)
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
        candidates = []
        for v in self.variables.itertuples(index=False):
            values, at = count(v.values, "value"), _REPEAT.fullmatch(v.name)
            # whole numbers may count splits and folds; a share or a kind of split is a setting
            counts = at and (not at["split"] or all(map(str.isdecimal, v.examples)))
            if v.kind == "param" and is_seed(v.name):
                same = "runs that differ in nothing else are repeats without any option"
                reason = f"a seed, with {values}: {same}"
            elif counts and not self.selection.repeats_by:
                reason = f"is called like one; {values}"
            else:
                continue
            candidates.append(Candidate("repeats", f"{v.kind}:{v.name}", reason, True))
        return candidates

    def folds(self) -> list[Candidate]:
        """Numbered metrics, children that are alike, and steps."""
        if self.selection.folds_by:
            return _asked_first("folds", [self.selection.folds_by])
        rule, searches, found = self.fold_rule, self.found.searches, list[Candidate]()
        if rule:
            found.append(Candidate("folds", rule, "metrics are numbered like this", True))
        alike = [p for p, at in searches.families.items() if len(at) > 1]
        if n := len([parent for parent in alike if not searches.trial_params(parent)]):
            reason = f"{count(n, 'run')} have children that do not differ in params"
            found.append(Candidate("folds", "children", reason, not rule))
        if self.stepped:
            reason = f"{self.stepped}: right if steps are folds, not epochs"
            found.append(Candidate("folds", "steps", reason))
        return found

    def steps(self) -> list[Candidate]:
        """Which of the values that were logged by step count, and what else might."""
        if self.selection.step or not self.stepped or self.selection.folds_by:
            return _asked_first("step", [self.selection.step])
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


def _fold_pattern(keys: Collection[str]) -> str | None:
    """The rule that most metrics of single folds follow; None without several folds."""
    rules: Counter[str] = Counter()
    for key in keys:
        if at := _FOLD.fullmatch(key):
            if at["after"]:
                rules[f"key:{at['before']}{{fold}}{at['gap']}{{measure}}"] += 1
            elif at["measure"]:
                rules[f"key:{{measure}}{at['before'][len(at['measure']) :]}{{fold}}"] += 1
    for rule in (rule for rule, _ in rules.most_common() if rule.count("{measure}") == 1):
        if len({m[1] for key in keys if (m := FoldRule(rule).match(key))}) > 1:
            return rule
    return None


def _nothing(table: RunsTable, selection: Selection) -> str:
    """Why nothing can be compared, where that is for want of runs."""
    results = table.where(~table.is_record)
    if are_finished(results).any():
        return ""
    if not len(results):
        if selection.filter_string:
            return f"No run fits the filter in {store.store_name()}."
        if selection.since:
            return f"No run started since {selection.since} in {store.store_name()}."
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
        there = repeats.in_experiments(table, group)
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
    ranks, if it changes no direction; with several commands where it takes someone who knows."""
    if not len(held.metrics):
        return held, None
    base, undeclared = _to_try(held, selection)
    tried = _Attempt.of(base, table)
    alone = any(c.chosen and c.reason == _ALONE for c in held.candidates)
    problem = tried.problem or (_VAGUE if alone else "")
    settling = () if undeclared else tuple(_settling(tried, table))
    measures = () if undeclared or tried.problem else _measures(tried)
    held = replace(
        held,
        ways=settling if settling and problem else (*_rankings(tried, undeclared), *settling),
        problem=problem,
        notes=(*held.notes, *tried.notes),
        candidates=(*held.candidates, *measures),
        factors=() if tried.study is None else tried.study.factors,
    )
    clear = len(held.rankings) == 1 and base.directions == selection.directions
    return held, tried.read if clear and not problem else None


def _to_try(held: Survey, selection: Selection) -> tuple[Selection, str]:
    """The selection with what the survey chooses, and the metric of which nobody knows which way it
    is better, where that holds for all: its name's way is tried, else the larger."""
    base, undeclared = _with_candidates(held, selection), ""
    open_ = selection.measures is None and not (selection.minimize or selection.maximize)
    compared = _metrics_to_compare(held, selection)
    if open_ and not compared:
        in_all = held.metrics[held.metrics["runs"] == held.n_runs]
        compared = in_all.loc[in_all["proposed"] != "", "metric"].tolist()
        if compared:
            base = replace(base, directions="proposed")
        elif compared := sorted(held.undirected, key=is_cost)[:1]:
            (undeclared,) = compared
            smaller = proposed_direction(undeclared) == "min"
            minimize, maximize = (compared, ()) if smaller else ((), compared)
            base = replace(base, minimize=minimize, maximize=maximize)
    compared = sorted(compared, key=is_cost)
    alone = open_ or len(compared) - sum(map(is_cost, compared)) == 1
    if alone and {*compared[:1]} & {*held.trials} and not (base.children or base.folds_by):
        base = replace(base, children=f"best:{_counterpart(compared[0], held)}")
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


@dataclass
class _Attempt:
    """A selection, tried out until it gives a table without gaps."""

    selection: Selection  # with what had to be added, which the notes tell
    notes: list[str] = field(default_factory=list)
    choices: Ways = ()  # among which somebody has to choose
    problem: str = "No option was found by which they can be compared."
    read: Study | None = None  # before what is missing was dealt with
    study: Study | None = None  # that it ranks

    @classmethod
    def of(cls, selection: Selection, table: RunsTable) -> _Attempt:
        """With the first of the ways that an error names, and those of the next."""
        made = cls(selection)
        for _ in range(_TRIES):
            try:
                made.read = study = query.selected_study(made.selection, table=table)
                made.study = study.complete()
            except (CandidatesError, MissingResultsError) as error:
                sure = not isinstance(error, CandidatesError) or error.sure
                if not error.ways or not sure:
                    made.choices, made.problem = error.ways, error.text
                    break
                what, more = error.ways[0]
                options = joined(" and ", (Message(Argument(*item)) for item in more.items()))
                text = f"{error.text} The proposal is to {what}; leave out "
                made.notes.append(Message(text, options, " to be told the other ways."))
                made.selection = replace(made.selection, **more)
            except MlevalError as error:
                made.problem = str(error)
                break
            else:
                alone = f"There is one method only, {study.methods[0]}, and nothing to compare"
                made.problem = f"{alone} it with." if len(study.methods) < 2 else ""
                break
        return made


def _rankings(tried: _Attempt, undeclared: str) -> Iterator[Way]:
    """The rankings that there are, or those among which to choose."""
    selection = tried.selection
    for what, more in tried.choices:
        yield Way(what, "rank", replace(selection, **more))
    if tried.problem:
        return
    if not undeclared:
        yield Way("a ranking of them", "rank", selection, study=tried.study)
        return
    way, other = ("larger", "smaller") if selection.maximize else ("smaller", "larger")
    turned = replace(selection, minimize=selection.maximize, maximize=selection.minimize)
    yield Way(f"if {way} values of {undeclared} are better", "rank", selection)
    yield Way(f"if {other} values of {undeclared} are better", "rank", turned)


def _settling(tried: _Attempt, table: RunsTable) -> Iterator[Way]:
    """What to say where the runs do not tell what the datasets are, if it is right."""
    selection, study = tried.selection, tried.study
    known = study is not None and not study.unsure("dataset")
    if selection.name_as or known or table.ours.all():
        return
    if pattern := pattern_of(table.where(~table.is_record)):
        named = replace(selection, method_by=(), name_as=pattern)
        with suppress(MlevalError):  # where names are not what is the matter
            query.selected_study(named, table=table)
            yield Way("if this is what the names of the runs say", "rank", named, settles=True)
    if study is not None and len(study.datasets) > 1:
        each = replace(selection, dataset_by="experiment")
        yield Way("if each experiment is of its own data", "rank", each, settles=True)


def _measures(tried: _Attempt) -> Iterator[Candidate]:
    """Which measures the command takes, and why."""
    study = present(tried.study)
    proposed = tried.selection.directions == "proposed"
    why = {
        HELD_OUT: "its name suggests the direction" if proposed else "of held-out data",
        VALIDATION: "of validation data; there are none of a test",
        TRAINING: "of training data, as asked",
    }
    for measure in study.measures:
        known = term(measure)
        better = "larger" if study.directions[measure] == "max" else "smaller"
        reason = f"{why[known.data if known else HELD_OUT]}; {better} is better"
        yield Candidate("measure", measure, reason, True)


def _with_candidates(held: Survey, selection: Selection) -> Selection:
    """The selection with the rules that were chosen for it, but for those that hold unasked."""
    rules: dict[str, Any] = {}
    for c in held.candidates:
        of_data = c.role == "dataset" and c.rule in ("experiment", "input", "shape")
        seeds = c.role == "repeats" and is_seed(key_of(c.rule)[1])
        if c.chosen and c.reason != _AS_ASKED and not (of_data or seeds or c.role == "step"):
            rules[f"{c.role}_by"] = c.rule
    return replace(selection, **rules)


def _counterpart(metric: str, held: Survey) -> str:
    """The same metric on other data, val_auc of test_auc, to choose candidates by; else itself."""
    stem = _PART.sub(r"\1*\3", metric)
    others = (m for m in held.trials if m != metric and _PART.search(m))
    alike = (m for m in others if _PART.sub(r"\1*\3", m) == stem)
    return next(alike, metric)
