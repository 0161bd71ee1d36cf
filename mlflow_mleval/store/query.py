"""Runs of the tracking store into a Study: one paged search, nothing per run, and everything left
out is listed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import IncomparableRunsError, MeasureError, NoRunsError
from mlflow_mleval.measures.registry import (
    BY_DEFAULT,
    MEASURES,
    NOT_BY_DEFAULT,
    SETS,
    default_set,
    directions,
    expand,
    meant,
)
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.reader import (
    CHILD,
    COLUMNS,
    NEWER,
    Result,
    Rule,
    is_ours,
    read_run,
    select,
    with_models,
    with_profile_measures,
)
from mlflow_mleval.store.repeats import RepeatRule, best_metric, check_policy, gather, mean_folds
from mlflow_mleval.store.searches import (
    BestTrials,
    FoldRule,
    best_trials,
    check_rule,
    elsewhere,
    trials_among,
)
from mlflow_mleval.study import MISSING, Excluded, Missing, Study
from mlflow_mleval.validation import one_of
from mlflow_mleval.words import count, did_you_mean, look_alikes, some

#: Measures whose names mean something else to most, and what.
_OTHERWISE = {
    "accuracy": (
        "the share of instances that are right in all labels, where here it is the Jaccard index"
    )
}
#: A value may miss the range of its measure by this much: sums of floats do.
_SLACK = 1e-9


def load_study(
    *,
    experiment_ids: Sequence[str] | None = None,
    experiment_names: Sequence[str] | None = None,
    run_ids: Sequence[str] | None = None,
    filter_string: str = "",
    method_by: str | Sequence[str] | None = None,
    dataset_by: str | None = None,
    folds_by: str | None = None,
    repeats_by: str | Sequence[str] | None = None,
    children: str | None = None,
    missing: Missing = "error",
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    measures: Iterable[str] | None = None,
    exclude_measures: Iterable[str] = (),
    methods: Iterable[str] | None = None,
    exclude_methods: Iterable[str] = (),
    datasets: Iterable[str] | None = None,
    exclude_datasets: Iterable[str] = (),
    duplicates: str = "error",
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Study:
    """The Study that a selection of tracked runs yields.

    Reads the store that MLflow is set to (MLFLOW_TRACKING_URI) with one paged search over all
    experiments; deleted runs are not seen. Child runs, runs of a newer version, runs that failed,
    still run or were written in part, and runs that this project did not log among runs that it did
    are left out and listed (unless `method_by` or `dataset_by` says how to read them). Where no
    measure is common to all, the few runs without the one that most have are left out, too.

    Parameters
    ----------
    experiment_ids, experiment_names : sequence of str, optional
        Experiments to read. Default: MLFLOW_EXPERIMENT_ID or MLFLOW_EXPERIMENT_NAME; with
        `run_ids`, all.
    run_ids : sequence of str, optional
        Only these runs.
    filter_string : str
        MLflow's search syntax, for example ``"params.lr = '0.1' and tags.model = 'rf'"``.
    method_by, dataset_by : str, optional
        What names the method and the dataset of a run: ``tag:NAME``, ``param:NAME``, ``run_name``,
        ``experiment``, for the method ``model`` (the name of the run's LoggedModel) and for the
        dataset ``input`` (the dataset input). Several rules for the method make one name, "xgb,
        lr=0.1". By default the tags ``mleval.method`` and ``mleval.dataset``; for runs without them
        the param or tag ``estimator_name``, else the run's name, and the dataset input, else the
        experiment.
    folds_by : str, optional
        Where runs that this project did not log hold values by fold: ``children`` (child runs, in
        the order in which they started), ``steps`` (the steps of each metric; takes a request per
        run and measure) or a pattern of metric keys, ``key:fold{fold}_{measure}``. Their mean is
        then the value of the run.
    repeats_by : str or sequence of str, optional
        Params or tags (``param:NAME``, ``tag:NAME``) in which repeats of a run may differ, beside
        those that are plainly seeds: seed, random_state, random_seed and rng, also as the last part
        of a name (``model__random_state``).
    children : str, optional
        ``best:METRIC`` takes the best trial of each search, whose trials are its child runs; it is
        named, and repeats, as the parent does. By default children are no results.
    missing : {"error", "worst", "drop-datasets", "drop-methods"}
        What the study does about methods without a result.
    minimize, maximize : iterable of str
        Metrics of which the smaller or the larger value is better; needed for those that the
        registry does not know.
    measures : iterable of str, optional
        Measures or sets of measures to use. Default: what all finished runs have of the set for
        such predictions, "sixteen" for label sets, "one-label" or "class-sets" (runs with a
        hierarchy), and every declared measure.
    exclude_measures : iterable of str
        Measures or sets to leave out.
    methods, exclude_methods, datasets, exclude_datasets : iterable of str
        Names to keep or to leave out.
    duplicates : {"error", "mean", "latest"} or "best:METRIC"
        Runs of a method on a dataset that differ in their seed only, or in nothing, are repeats:
        the cell is their mean. This says what is done about runs that differ in other params: stop;
        take the mean of all; take the run that started last, also of repeats; or take the candidate
        with the best mean of a metric over its repeats. A metric by which candidates or trials are
        chosen is not compared unless `measures` names it, or there is no other.
    progress : callable, optional
        Called as ``progress(done, total)``, in runs: while the store tells them, in two rounds or
        more of which the first knows no total (0), then while they are read.

    Returns
    -------
    Study
        `runs` has one row a run: run_id, experiment_id, experiment, dataset, method, status
        (complete or dnf), conventions, split_digest, dataset_digest, n_train and n_test (instances
        of each fold, empty where unknown), selected_among (1 where no search chose the method by
        these values), repeat (its seed, empty where unknown), start_time. `repeats` has the values
        of each of them.

    Raises
    ------
    NoRunsError
        No experiment was named or it does not exist, no run is left, or a name of a method, dataset
        or run does not occur.
    MeasureError
        A measure has no direction or no run has it, or no measure is left.
    CandidatesError
        Runs of a method on a dataset differ in other params than seeds, and `duplicates` is
        "error"; `ways` says what helps.
    IncomparableRunsError
        Conventions or hierarchies differ, a newer version wrote one of `run_ids`, or child runs are
        not what was said.
    StoreError
        The store cannot be reached or does not accept the filter.
    ValueError
        A rule or a policy is not one of those above, or a measure is declared both ways.
    """
    one_of(missing, "missing", MISSING)
    check_policy(duplicates)
    check_rule(children)
    if children and folds_by == "children":
        raise ValueError(
            "`children` must not be given with folds_by='children': children are trials of a "
            "search, or folds."
        )
    method_rule, dataset_rule = Rule("method", method_by), Rule("dataset", dataset_by)
    repeat_rule = RepeatRule(repeats_by)
    fold_rule = None if folds_by is None else FoldRule(folds_by)
    choice = _Choice(measures, exclude_measures, minimize, maximize)
    client = store.connect()
    doubts: list[str] = []
    runs, names = select(
        client, experiment_ids, experiment_names, run_ids, filter_string, doubts, progress
    )

    method_rule = with_models(client, list(names), method_rule)
    excluded: list[Excluded] = []
    strict = method_by is None and dataset_by is None
    by_fold: dict[str, schema.FoldValues] = {}
    if fold_rule is not None:
        tops = [r for r in runs if MLFLOW_PARENT_RUN_ID not in r.data.tags]
        by_fold = fold_rule.values(client, tops, choice.wanted, excluded)
        if folds_by == "children":  # those that did not finish are no folds, and are listed
            runs = [
                r
                for r in runs
                if r.data.tags.get(MLFLOW_PARENT_RUN_ID) not in by_fold
                or r.info.status != "FINISHED"
            ]
    trials, read = BestTrials(), runs
    if children is not None:
        trials = best_trials(client, runs, children, choice.minimize, choice.maximize)
        gone = trials.searches
        kept = [
            r
            for r in runs
            if r.info.run_id not in gone and r.data.tags.get(MLFLOW_PARENT_RUN_ID) not in gone
        ]
        read = [*kept, *trials.runs]
    rules = method_rule, dataset_rule, repeat_rule
    results = _read(
        read, names, *rules, choice, strict, by_fold, excluded, set(run_ids or ()), progress
    )
    results = [
        replace(
            r, config={k: v for k, v in r.config.items() if k not in trials.own.get(r.run_id, ())}
        )
        for r in results
    ]
    if not results:
        experiments = (
            f"{'experiment' if len(names) == 1 else 'experiments'} "
            f"{some(map(repr, names.values()))}"
        )
        where, hold = (
            ("the selection", "holds")
            if run_ids
            else (experiments, "holds" if len(names) == 1 else "hold")
        )
        raise NoRunsError(
            f"{where} in {store.store_name()} {hold} no run that can be used: "
            f"{_why_none(runs, excluded)}."
        )
    results = _keep(results, "method", methods, exclude_methods)
    results = _keep(results, "dataset", datasets, exclude_datasets)
    results = _held_out_before_searches(results, set(run_ids or ()), excluded)
    repeat_rule.check(results)
    _check_comparable(results)
    if choice.asked is not None:
        results = [with_profile_measures(r, choice.wanted) for r in results]
    seeds = repeats_by is None
    cells = gather(
        results,
        duplicates,
        choice.minimize,
        choice.maximize,
        choice.asked,
        missing == "error",
        seeds,
    )
    results, excluded = cells.results, [*excluded, *cells.excluded]
    chosen = cells.chosen | {
        (r.dataset, r.method): (best_metric(children or ""), n)
        for r in results
        if (n := max(trials.trials.get(m.run_id, 0) for m in r.members))
    }
    choice.leave_to_choose({metric for metric, _ in chosen.values()}, results)
    used, results = choice.of(results, excluded, set(run_ids or ()))
    _check_propensities(results, used)
    optimistic = {cell: n for cell, (metric, n) in chosen.items() if metric in used}
    results = [
        replace(r, selected_among=max(r.selected_among, optimistic.get((r.dataset, r.method), 1)))
        for r in results
    ]
    folds, fold_notes = _folds(client, results, used, excluded)
    excluded += [
        Excluded("tag", f"{tag} of {r.name}", reason)
        for r in results
        for tag, reason in r.broken.items()
    ]
    index = pd.MultiIndex.from_tuples(
        [(r.dataset, r.method) for r in results], names=["dataset", "method"]
    )
    values = pd.DataFrame(
        {m: [r.values.get(m, math.nan) for r in results] for m in used}, index=index, dtype=float
    )
    experiments = {r.experiment_id for r in results}
    return Study(
        values=values,
        directions=directions(used, choice.minimize, choice.maximize),
        missing=missing,
        folds=folds,
        runs=pd.DataFrame(
            [
                {c: getattr(m, c) for c in COLUMNS} | {"selected_among": r.selected_among}
                for r in results
                for m in r.members
            ]
        ),
        repeats=_repeats(results, used),
        profiles={(r.dataset, r.method): r.profiles for r in results if r.profiles},
        excluded=tuple(excluded),
        notes=(
            *doubts,
            *_choice_notes(chosen, used),
            *cells.notes,
            *_notes(results, used, (method_by, dataset_by)),
            *_value_notes(values, choice),
            *fold_notes,
        ),
        source={
            "tracking_uri": store.store_name(),
            "experiments": [
                {"id": i, "name": name} for i, name in names.items() if i in experiments
            ],
            "filter": store.without_passwords(filter_string),
            "method_by": ", ".join(method_rule.rules) or _rules(results, 0),
            "dataset_by": dataset_by or _rules(results, 1),
            "folds_by": folds_by or f"tag:{schema.TAG_FOLDS}",
            "repeats_by": ", ".join(repeat_rule.rules) or "seeds",
            "children": children or "",
            "duplicates": duplicates,
            "runs_found": len(runs),
            "measures_by": choice.told(used),
            "read_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        },
    )


class _Choice:
    """Which measures are asked for, which are declared, and which of them to use."""

    def __init__(
        self,
        measures: Iterable[str] | None,
        exclude: Iterable[str],
        minimize: Iterable[str],
        maximize: Iterable[str],
    ) -> None:
        self.asked = None if measures is None else list(measures)
        self.exclude, self.minimize, self.maximize = list(exclude), list(minimize), list(maximize)
        self.choosers: set[str] = set()
        self.declared = list(
            directions([*self.minimize, *self.maximize], self.minimize, self.maximize)
        )
        self.set_name: str | None = None
        if self.asked is None:
            self.wanted = list(
                dict.fromkeys([*(m for m in MEASURES if m not in NOT_BY_DEFAULT), *self.declared])
            )
            return
        self.wanted = expand(self.asked)
        if unknown := [m for m in self.wanted if m not in MEASURES and m not in self.declared]:
            guess = meant(unknown)
            raise MeasureError(
                f"no direction is known for {some(map(repr, unknown))}.{guess} "
                f"{'If not, declare' if guess else 'Declare'} it: `minimize=[NAME]` where "
                "smaller is better, `maximize=[NAME]` where larger is."
            )

    def told(self, used: Sequence[str]) -> str:
        """Which measures are used, and who chose them."""
        declared = [m for m in used if m in self.declared]
        more = f", and {count(len(declared), 'measure')} that you declared" if declared else ""
        if self.asked is not None:
            return f"those that you named ({some(self.asked)})"
        if self.set_name is None:
            return f"those known here that all runs have{more}, for no default set applies"
        kind = next(kind for kind, name in BY_DEFAULT.items() if name == self.set_name)
        kept = len(set(used).intersection(SETS[self.set_name]))
        part = (
            ""
            if kept == (most := len(SETS[self.set_name]))
            else f" ({kept} of {most}, as far as all runs have them)"
        )
        return f"the set {self.set_name}, the default for {kind}{part}{more}"

    def leave_to_choose(self, metrics: Collection[str], results: Sequence[Result]) -> None:
        """Do not compare the metrics by which runs were chosen, unless they are asked for, or there
        is nothing else.
        """
        others = {m for r in results for m in r.values}.intersection(self.wanted).difference(
            metrics, expand(self.exclude)
        )
        if self.asked is None and others:
            self.choosers = {*metrics} - {*expand(self.exclude)}
            self.exclude += self.choosers

    def of(
        self, results: list[Result], excluded: list[Excluded], named: Collection[str] = ()
    ) -> tuple[list[str], list[Result]]:
        """The measures to use and the results that have them; what is left out is added to the
        list, but for runs named by id.
        """
        finished = [r for r in results if r.status == schema.COMPLETE]
        if not finished:
            raise NoRunsError(
                f"of {count(len(results), 'selected run')} none finished, so there is nothing to "
                "compare."
            )
        if self.asked is None and not self.declared:
            for r, reason in self._apart(finished):
                if r.run_id not in named:
                    excluded.append(Excluded("run", r.name, reason))
                    results, finished = (
                        [x for x in results if x is not r],
                        [x for x in finished if x is not r],
                    )
        counts = Counter(m for r in finished for m in r.values)
        named = [m for m in (*self.declared, *(self.asked or ()), *self.exclude) if m not in SETS]
        if absent := [m for m in dict.fromkeys(named) if not counts[m]]:
            guess = did_you_mean(absent, counts)
            raise MeasureError(
                f"no finished run has {some(map(repr, absent))}; there are "
                f"{some(sorted(counts))}.{guess}"
            )
        dropped = set(expand(self.exclude))
        common = [m for m in self.wanted if counts[m] == len(finished) and m not in dropped]
        self.set_name = default_set(common) if self.asked is None else None
        unasked = (
            set()
            if self.set_name is None
            else set(MEASURES).difference(SETS[self.set_name], self.declared)
        )
        wanted = [m for m in self.wanted if m not in dropped and m not in unasked]
        used = [
            m
            for m in wanted
            if counts[m] == len(finished)
            or (counts[m] and (self.asked is not None or m in self.declared))
        ]
        unasked |= NOT_BY_DEFAULT if self.asked is None else set()
        for m in [*self.wanted, *(m for m in counts if m not in self.wanted)]:
            if m not in used and (
                reason := self._why_not(m, counts[m], len(finished), m in dropped)
            ):
                excluded.append(
                    Excluded(
                        "unasked" if m in unasked and m not in dropped else "measure", m, reason
                    )
                )
        for r in finished:
            bad = [f"{m} is {v}" for m, v in r.bad.items() if m in wanted]
            excluded += [Excluded("cell", r.name, f"{text}, which is no result") for text in bad]
        if not used:
            left = "; ".join(
                f"{e.name}: {e.reason}" for e in excluded if e.kind in ("measure", "unasked")
            )
            raise MeasureError(
                f"there is no measure in common to {count(len(finished), 'finished run')} that "
                f"can be used ({left[:1000]})."
            )
        return used, results

    def _apart(self, finished: Sequence[Result]) -> list[tuple[Result, str]]:
        """The few runs for which there would be no measure in common to all others, and why."""
        dropped = set(expand(self.exclude))
        have = [{m for m in self.wanted if m in r.values and m not in dropped} for r in finished]
        counts = Counter(m for measures in have for m in measures)
        if not counts or max(counts.values()) == len(finished):
            return []
        most = max(counts, key=counts.__getitem__)
        if 2 * counts[most] <= len(finished):
            return []
        found = []
        for r, measures in zip(finished, have, strict=True):
            if most not in measures:
                bad = f"; {most} is {r.bad[most]}" if most in r.bad else ""
                found.append((r, f"it has no measure in common with most runs{bad}"))
        return found

    def _why_not(self, measure: str, having: int, finished: int, dropped: bool) -> str:
        """Why a measure is not used; empty where nobody would miss it."""
        if measure in self.choosers:
            return "runs were chosen by it; `measures=` that names it compares it, too"
        if dropped:
            return "excluded as asked" if having else ""
        if (
            self.set_name is not None
            and measure in MEASURES
            and measure not in (*SETS[self.set_name], *NOT_BY_DEFAULT)
        ):
            return (
                f"not in the set {self.set_name}, the default; `measures=` names others"
                if having
                else ""
            )
        if measure in self.wanted:
            if having:
                return f"lacking in {finished - having} of {finished} finished runs"
            return "in no run" if self.asked is not None else ""
        if self.asked is not None:
            return ""
        if measure in MEASURES:
            what = (
                "costs"
                if measure in SETS["cost"]
                else "measures of how errors fall, not of how many there are,"
            )
            return f"{what} are used only where `measures=` names them"
        return "no direction is known; declare `minimize=` or `maximize=`"


def _read(
    runs: Sequence[Run],
    experiments: Mapping[str, str],
    method: Rule,
    dataset: Rule,
    repeat: RepeatRule,
    choice: _Choice,
    strict: bool,
    by_fold: Mapping[str, schema.FoldValues],
    excluded: list[Excluded],
    named: Collection[str],
    progress: Callable[[int, int], object],
) -> list[Result]:
    """The results among the runs, in the order in which they started; the others go to the list,
    but for runs named by id.
    """
    runs = [r for r in runs if r.data.tags.get(schema.TAG_KIND) != schema.KIND_REPORT]
    strict = strict and any(map(is_ours, runs))
    trials = trials_among(
        runs, lambda run: (method.find(run, experiments[run.info.experiment_id]) or ("",))[0]
    )
    wanted = frozenset(choice.wanted)
    results = []
    for i, run in enumerate(
        sorted(runs, key=lambda r: (r.info.start_time or 0, r.info.run_id)), start=1
    ):
        progress(i, len(runs))
        experiment, folds = experiments[run.info.experiment_id], by_fold.get(run.info.run_id)
        reading = partial(read_run, run, experiment, method, dataset, wanted, folds, repeat.of)
        found = store.of_one_run(reading)
        if not isinstance(found, str) and strict and not is_ours(run):
            found = (
                f"no tag {schema.TAG_METHOD}; `method_by=` and `dataset_by=` say how to read "
                "such a run"
            )
        if isinstance(found, str):
            if found.startswith(NEWER) and run.info.run_id in named:
                raise IncomparableRunsError(f"run {run.info.run_id} cannot be read: {found}.")
            kind = "child run" if found == CHILD else "run"
            found = trials.get(run.info.run_id, found) if found == CHILD else found
            excluded.append(Excluded(kind, f"{run.info.run_name} ({run.info.run_id})", found))
        else:
            results.append(found)
    return results


def _why_none(runs: Sequence[Run], excluded: Sequence[Excluded]) -> str:
    if not excluded:
        return "it has none (reports apart)" if runs else "no run fits"
    reasons = Counter(e.reason for e in excluded)
    return "; ".join(f"{count(n, 'run')}: {reason}" for reason, n in reasons.most_common(5))


def _keep(
    results: list[Result], what: str, keep: Iterable[str] | None, drop: Iterable[str]
) -> list[Result]:
    """Results of the methods or datasets that are asked for."""
    have = {getattr(r, what) for r in results}
    keep, drop = have if keep is None else set(keep), set(drop)
    if unknown := sorted((keep | drop) - have):
        guess = did_you_mean(unknown, have)
        listed = some(map(repr, sorted(have)))
        raise NoRunsError(
            f"the selection has no {what} {some(map(repr, unknown))}; it has {listed}.{guess}"
        )
    kept = [r for r in results if getattr(r, what) in keep - drop]
    if not kept:
        raise NoRunsError(
            f"no {what} is left after the exclusions; the selection has "
            f"{some(map(repr, sorted(have)))}."
        )
    return kept


def _held_out_before_searches(
    results: Sequence[Result], named: Collection[str], excluded: list[Excluded]
) -> list[Result]:
    """Without what a search says of its winner where the same method was evaluated otherwise, but
    for runs named by id.
    """
    evaluated = {
        (r.dataset, r.method)
        for r in results
        if r.selected_among == 1 and r.status == schema.COMPLETE
    }
    gone = [
        r
        for r in results
        if r.selected_among > 1 and (r.dataset, r.method) in evaluated and r.run_id not in named
    ]
    why = "a search chose it by these very values, and the method was evaluated without them"
    excluded += [Excluded("run", r.name, why) for r in gone]
    return [r for r in results if r.run_id not in {g.run_id for g in gone}]


def _check_comparable(results: Sequence[Result]) -> None:
    """Refuse results that were computed under different conventions or, on one dataset, over
    different hierarchies.
    """
    stated = [r for r in results if r.conventions != schema.UNKNOWN_CONVENTIONS]
    groups = {
        c: [f"{r.method} on {r.dataset}" for r in stated if r.conventions == c]
        for c in {r.conventions for r in stated}
    }
    if len(groups) > 1:
        which = "; ".join(
            f"{c}: {count(len(names), 'run')} ({some(names, 3)})"
            for c, names in sorted(groups.items())
        )
        raise IncomparableRunsError(
            "the runs were computed under different conventions for empty sets and ties: "
            f"{which}. Their values do not compare; choose those of one kind by "
            f'`filter_string=`, for example "tags.`{schema.TAG_CONVENTIONS}` = '
            f"'{min(groups)}'\"."
        )
    digests = {(r.dataset, r.hierarchy): r for r in results if r.hierarchy}
    if mixed := [d for d, n in Counter(d for d, _ in digests).items() if n > 1]:
        raise IncomparableRunsError(
            f"runs on {some(mixed)} used different hierarchies. Choose those of one by "
            "`filter_string=`."
        )
    _check_weights(stated)


def _check_weights(results: Sequence[Result]) -> None:
    """Refuse results on one dataset that give its instances different weights, or weights and
    none.
    """
    weighted = {(r.dataset, r.dataset_digest, r.weights) for r in results if r.weights}
    plain = {r.dataset for r in results if not r.weights}
    same_data = Counter((dataset, data) for dataset, data, _ in weighted)
    mixed = {dataset for (dataset, _), n in same_data.items() if n > 1}
    mixed |= plain.intersection(dataset for dataset, _, _ in weighted)
    if mixed:
        digest = min(weights for dataset, _, weights in weighted if dataset in mixed)
        raise IncomparableRunsError(
            f"runs on {some(sorted(mixed))} weigh the instances in different ways "
            "(`sample_weight`), or some do and others do not. Their values do not compare; "
            "choose those of one kind by `filter_string=`, for example "
            f"\"tags.`{schema.TAG_WEIGHTS}` = '{digest}'\"."
        )


def _check_propensities(results: Sequence[Result], used: Sequence[str]) -> None:
    """Refuse measures of one dataset that weigh labels by different training labels."""
    digests = {(r.dataset, r.propensities): r for r in results if r.propensities}
    mixed = [d for d, n in Counter(d for d, _ in digests).items() if n > 1]
    if mixed and (scored := [m for m in used if m in MEASURES and m.startswith(("ps", "s_min"))]):
        raise IncomparableRunsError(
            f"runs on {some(mixed)} took the propensities or information of labels from "
            "different training labels. Choose those of one by `filter_string=` (tag "
            f"{schema.TAG_PROPENSITIES}), or leave out {some(scored, 4)}."
        )


def _folds(
    client: MlflowClient, results: Sequence[Result], used: Sequence[str], excluded: list[Excluded]
) -> tuple[pd.DataFrame | None, list[str]]:
    """Values by fold of the runs that carry them, and what a reader must know about them; what is
    broken goes to the list.
    """
    read: list[tuple[Result, schema.FoldValues]] = []
    pointers: dict[str, str] = {}
    rounded = []
    for r in (m for result in results for m in result.members):
        found = r.by_fold
        if found is None:
            if not r.folds or r.status != schema.COMPLETE:
                continue
            found = store.of_one_run(partial(schema.decode_folds, r.folds))
            if isinstance(found, str):
                excluded.append(Excluded("tag", f"{schema.TAG_FOLDS} of {r.name}", found))
                continue
        if found.omitted:
            pointers[r.run_id] = found.omitted
        elif found.digits:
            rounded.append(r.name)
        read.append((r, found))
    absent = []
    if pointers:
        there = elsewhere(client, pointers, used)
        absent = [r.name for r, _ in read if r.run_id in there and there[r.run_id] is None]
        found = [(r, there.get(r.run_id, found)) for r, found in read]
        excluded += [
            Excluded("artifact", f"{pointers[r.run_id]} of {r.name}", why)
            for r, why in found
            if isinstance(why, str)
        ]
        read = [(r, values) for r, values in found if isinstance(values, schema.FoldValues)]
    by_cell: dict[tuple[str, str], list[tuple[Result, schema.FoldValues]]] = {}
    for r, found in read:
        by_cell.setdefault((r.dataset, r.method), []).append((r, found))
    means = {cell: mean_folds(runs) for cell, runs in by_cell.items()}
    excluded += [
        Excluded("folds", f"{m} on {d}", why)
        for (d, m), why in means.items()
        if isinstance(why, str)
    ]
    read = [
        (runs[0][0], means[cell])
        for cell, runs in by_cell.items()
        if not isinstance(means[cell], str)
    ]
    kept = [m for m in used if any(m in found.values for _, found in read)]
    index = [(r.dataset, r.method, fold) for r, found in read for fold in found.folds]
    columns = {
        m: [v for _, f in read for v in f.values.get(m, [math.nan] * len(f.folds))] for m in kept
    }
    notes = [
        f"Values by fold of {count(len(names), 'run')} {what} ({some(names, 3)})."
        for names, what in (
            (absent, "are too many for one tag, and not where it says"),
            (rounded, "are rounded to few digits, because there are many"),
        )
        if names
    ]
    ways = {(r.dataset, tuple(sorted(found.folds))) for r, found in read}
    if differing := [d for d, n in Counter(d for d, _ in sorted(ways)).items() if n > 1]:
        notes.append(f"Not all runs have the same folds on {some(differing)}.")
    if not kept:
        return None, notes
    return pd.DataFrame(
        columns,
        index=pd.MultiIndex.from_tuples(index, names=["dataset", "method", "fold"]),
        dtype=float,
    ), notes


def _repeats(results: Sequence[Result], used: Sequence[str]) -> pd.DataFrame | None:
    """The values of every run that finished; None where no method has several on a dataset."""
    finished = [(r, [m for m in r.members if m.status == schema.COMPLETE]) for r in results]
    if all(len(runs) < 2 for _, runs in finished):
        return None
    index, rows = [], []
    for r, runs in finished:
        labels = [m.repeat for m in runs]
        unique = all(labels) and len({*labels}) == len(labels)
        index += [
            (r.dataset, r.method, label if unique else f"run {i}")
            for i, label in enumerate(labels, 1)
        ]
        rows += [[m.values.get(measure, math.nan) for measure in used] for m in runs]
    return pd.DataFrame(
        rows,
        pd.MultiIndex.from_tuples(index, names=["dataset", "method", "repeat"]),
        list(used),
        dtype=float,
    )


def _choice_notes(
    chosen: Mapping[tuple[str, str], tuple[str, int]], used: Sequence[str]
) -> list[str]:
    """By what candidates and trials were chosen, and among how many."""
    notes = []
    for metric in sorted({metric for metric, _ in chosen.values()}):
        cells = some(
            (f"{m} on {d} (of {n})" for (d, m), (by, n) in chosen.items() if by == metric), 6
        )
        also = (
            ""
            if metric in used
            else (
                f" {metric} itself is not compared; if it was measured on the same data as what "
                "is, these results are optimistic."
            )
        )
        notes.append(f"The best of several candidates by {metric} was taken: {cells}.{also}")
    return notes


def _notes(results: Sequence[Result], used: Sequence[str], named: Sequence[object]) -> list[str]:
    """Doubts about what the runs say of themselves; `named` are the rules that were given for
    methods and for datasets.
    """
    notes = []
    finished = [r for r in results if r.status == schema.COMPLETE]
    if chosen := [
        f"{r.method} on {r.dataset} (among {r.selected_among})"
        for r in finished
        if r.selected_among > 1
    ]:
        notes.append(
            "Results that were chosen by these very values among several candidates are "
            f"optimistic: {some(chosen, 6)}."
        )
    members = [m for r in results for m in r.members]
    finished = [m for m in members if m.status == schema.COMPLETE]
    if plain := sorted({m for r in results for m in r.plain}.intersection(used)):
        one = len(plain) == 1
        notes.append(
            f"The metric{'' if one else 's'} {some(plain)} {'was' if one else 'were'} not logged "
            f"by this project and {'is' if one else 'are'} taken for the "
            f"measure{'' if one else 's'} of "
            f"{'this name' if one else 'these names'}, "
            "which may be defined otherwise."
            + "".join(
                f" To most, {m} is {meaning}." for m, meaning in _OTHERWISE.items() if m in plain
            )
        )
    unstated = sum(r.conventions == schema.UNKNOWN_CONVENTIONS for r in finished)
    if unstated and not MEASURES.keys().isdisjoint(used):  # others have none
        runs = (
            "the only finished run"
            if len(finished) == 1
            else f"{unstated} of {len(finished)} finished runs"
        )
        notes.append(f"The conventions for empty sets and ties are unknown for {runs}.")
    for i, what in enumerate(("method", "dataset")):
        for alike in look_alikes(getattr(r, what) for r in results):
            notes.append(
                f"Names of {what}s look alike and are of different characters: "
                f"{some(map(ascii, alike), 6)}."
            )
        if not named[i] and any(not r.named_by[i][0].startswith("tag:mleval.") for r in results):
            notes.append(f"Names of the {what}s come from {_rules(results, i)}.")
    for column, doubt in (
        ("dataset_digest", "the data were not the same in all runs"),
        (
            "split_digest",
            "the data were not split in the same way in all runs, so that their folds are no pairs",
        ),
    ):
        found: dict[str, list[str]] = {}
        for r in members:
            found.setdefault(r.dataset, []).append(getattr(r, column))
        differ = {d: schema.differ(digests) for d, digests in sorted(found.items())}
        if differing := [d for d, known in differ.items() if known]:
            notes.append(f"On {some(differing)} {doubt} (the tag mleval.{column} differs).")
        if unknown := [d for d, known in differ.items() if known is None]:
            notes.append(
                f"Whether the data were the same in all runs on {some(unknown)} is unknown: "
                "other versions wrote the tag "
                f"mleval.{column}, or MLflow its own digest."
            )
    return notes


def _value_notes(values: pd.DataFrame, choice: _Choice) -> list[str]:
    """Doubts about known measures: values that their definition cannot give, and a direction turned
    round.
    """
    notes = []
    for m in (m for m in values if m in MEASURES):
        low, high = MEASURES[m].range
        outside = values.index[(values[m] < low - _SLACK) | (values[m] > high + _SLACK)]
        if len(outside):
            notes.append(
                f"{m} goes from {low:g} to {high:g}, but not on "
                f"{some(f'{d} for {a}' for d, a in outside)} "
                f"({values[m].min():.4g} to {values[m].max():.4g} over all). Is it a "
                "percentage, or another measure?"
            )
    for way, declared in (("min", choice.minimize), ("max", choice.maximize)):
        if turned := [
            m for m in declared if m in values and m in MEASURES and MEASURES[m].direction != way
        ]:
            better = "smaller" if way == "min" else "larger"
            notes.append(
                f"As declared, {better} values of {some(turned)} count as better; by definition "
                "they are worse."
            )
    return notes


def _rules(results: Sequence[Result], i: int) -> str:
    """How names were found, with counts where there are several ways."""
    counts = Counter(", ".join(r.named_by[i]) for r in results)
    return ", ".join(
        f"{rule} ({count(n, 'run')})" if len(counts) > 1 else rule
        for rule, n in counts.most_common()
    )
