"""Runs of the tracking store into a Study: one paged search, nothing per run, and everything left
out is listed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from mlflow_mleval.errors import IncomparableRunsError, MeasureError, NoRunsError
from mlflow_mleval.measures import metric_names
from mlflow_mleval.measures.metric_names import (
    HELD_OUT,
    TRAINING_DOUBT,
    VALIDATION,
    direction_of,
    is_bookkeeping,
    of_training,
    proposed_direction,
    term,
)
from mlflow_mleval.measures.registry import (
    BY_DEFAULT,
    MEASURES,
    NOT_BY_DEFAULT,
    SETS,
    Direction,
    default_set,
    expand,
    meant,
)
from mlflow_mleval.selection import DIGEST, Directions, Missing, Selection, best_metric
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.importing import TableRuns, runs_of_table
from mlflow_mleval.store.reader import (
    CHILD,
    COLUMNS,
    NEWER,
    Result,
    RunProfiles,
    is_ours,
    read_run,
    rules_of,
    select,
    with_models,
    with_profile_measures,
)
from mlflow_mleval.store.repeats import (
    RepeatRule,
    Repeats,
    check_comparable,
    check_propensities,
    choice_notes,
    gather,
    repeats_table,
)
from mlflow_mleval.store.searches import (
    BestSteps,
    BestTrials,
    FoldRule,
    best_steps,
    best_trials,
    held_out_first,
    step_notes,
    study_folds,
    table_of,
    trials_among,
)
from mlflow_mleval.study import Excluded, Study
from mlflow_mleval.validation import known_keywords
from mlflow_mleval.words import (
    DECLARE,
    PROPOSED,
    Argument,
    Message,
    agree,
    count,
    did_you_mean,
    joined,
    look_alikes,
    some,
)

#: Measures whose names mean something else to most, and what.
_OTHERWISE = {
    "accuracy": (
        "the share of instances that are right in all labels, where here it is the Jaccard index"
    )
}
#: MLflow's status of a run that failed.
_FAILED = "FAILED"
#: The variable where MLflow does not know it.
_UNKNOWN_DATA = "unknown_dataset"
#: A value may miss the range of its measure by this much: sums of floats do.
_SLACK = 1e-9
#: Reasons why measures cannot be used that an error names.
_SHOWN = 12
#: What chooses measures.
MEASURE = Argument("measures")


@known_keywords
def load_study(
    results: str | Path | pd.DataFrame | None = None,
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
    step: str | None = None,
    missing: Missing = "error",
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    directions: Directions = "declared",
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
    results : path or data frame (pandas, polars, pyarrow), optional
        What to read in the place of a store, which is then neither read nor made. CSV, parquet
        or a data frame: long (measure, dataset, method, value, maybe fold and seed), wide (dataset,
        method and a column a measure), a leaderboard (rows methods, columns datasets; its one
        measure is called ``value``), or runs as `mlflow.search_runs`, MLflow's UI, Weights & Biases
        and Neptune export them, which `method_by`, `dataset_by` and `repeats_by` read as if they
        were tracked here: their settings are params.
    experiment_ids, experiment_names : sequence of str, optional
        Experiments to read. Default: MLFLOW_EXPERIMENT_ID or MLFLOW_EXPERIMENT_NAME; with
        `run_ids`, all.
    run_ids : sequence of str, optional
        Only these runs; ``models:/NAME/VERSION``, ``models:/NAME@ALIAS`` and ``models:/ID`` stand
        for the run that made the model.
    filter_string : str
        MLflow's search syntax, for example ``"params.lr = '0.1' and tags.model = 'rf'"``.
    method_by, dataset_by : str, optional
        What names the method and the dataset of a run: ``tag:NAME``, ``param:NAME``, ``run_name``,
        ``experiment``, for the method ``model`` (the registered version of the run's model,
        "tagger/2", else its name and id) and for the dataset ``input`` (the dataset input). Several
        rules for the method make one name, "xgb, lr=0.1". By default the tags ``mleval.method`` and
        ``mleval.dataset``; for runs without them the param or tag ``estimator_name``, else the
        run's name, and the dataset input, else the experiment.
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
    step : str, optional
        ``best:METRIC`` takes the metrics that others logged by epoch or step at the step where this
        one is best, which takes a request per run and metric. By default the last values count.
    missing : {"error", "worst", "drop-datasets", "drop-methods"}
        What the study does about methods without a result.
    minimize, maximize : iterable of str
        Metrics of which the smaller or the larger value is better; needed for those that neither
        the registry knows nor the documentation of a library that MLflow logs.
    directions : {"declared", "proposed"}
        What is done about other metrics: nothing, or their names say which way is better (val_acc,
        latency_s).
    measures : iterable of str, optional
        Measures or sets of measures to use. Default: what all finished runs have of the set for
        such predictions, "sixteen" for label sets, "one-label" or "class-sets" (runs with a
        hierarchy), and every declared measure; of runs that others logged, where nothing is
        declared, also the metrics of known libraries on held-out data, else on validation data.
        Metrics of training data count only where they are named, and never beside others.
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
        Called as ``progress(done, total)``, in runs: while the store tells them, when the total is
        not yet known (0), then while they are read.

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
    ImportFileError
        The table is malformed; the text names the row and the column.
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
    arguments: dict[str, Any] = {
        "results": results,
        "experiment_ids": experiment_ids,
        "experiment_names": experiment_names,
        "run_ids": run_ids,
        "filter_string": filter_string,
        "method_by": method_by,
        "dataset_by": dataset_by,
        "folds_by": folds_by,
        "repeats_by": repeats_by,
        "children": children,
        "step": step,
        "missing": missing,
        "minimize": minimize,
        "maximize": maximize,
        "directions": directions,
        "measures": measures,
        "exclude_measures": exclude_measures,
        "methods": methods,
        "exclude_methods": exclude_methods,
        "datasets": datasets,
        "exclude_datasets": exclude_datasets,
        "duplicates": duplicates,
    }
    return selected_study(Selection(**arguments), progress)


def selected_study(
    selection: Selection, progress: Callable[[int, int], object] = lambda done, total: None
) -> Study:
    """The Study that a selection of runs yields, as `load_study` says."""
    loading = _Loading(selection, progress)
    selected = loading.select()
    results = loading.read(selected)
    cells = gather(results, selection)
    loading.excluded += cells.excluded
    used, results, optimistic = loading.choose(cells, selected)
    return loading.study(selected, results, used, (*optimistic, *cells.notes))


@dataclass(frozen=True)
class _Selected:
    """The runs of a selection, the names of their experiments, and what stands in other runs than
    the results: values by fold, by the id of the run, the best trials of searches, and steps.
    """

    runs: list[Run]
    experiments: dict[str, str]
    by_fold: dict[str, schema.FoldValues]
    trials: BestTrials
    steps: BestSteps = field(default_factory=BestSteps)

    @property
    def to_read(self) -> list[Run]:
        """The runs with the best trials in the place of their searches."""
        searches = self.trials.searches
        if not searches:
            return self.runs
        others = [
            r
            for r in self.runs
            if searches.isdisjoint((r.info.run_id, r.data.tags.get(MLFLOW_PARENT_RUN_ID)))
        ]
        return [*others, *self.trials.runs]


class _Loading:
    """A selection on its way to a Study; what is left out on each step is listed."""

    def __init__(self, selection: Selection, progress: Callable[[int, int], object]) -> None:
        self.progress = progress
        self.tabled = None if selection.results is None else runs_of_table(selection)
        if self.tabled is None:
            selection = store.with_runs_of_models(self.client, selection)
        self.selection = selection
        self.method, self.dataset = rules_of(selection)
        self.repeat = RepeatRule(tuple(selection.repeats_by))
        self.choice = _Choice(selection)
        self.named = {*selection.run_ids}
        self.excluded: list[Excluded] = []
        self.failed: set[tuple[str, str]] = set()
        self.experiments: Mapping[str, str] = {}
        self.doubts: list[str] = []

    @cached_property
    def client(self) -> MlflowClient:
        """Made on first use, for a table needs no store."""
        return store.connect()

    def leave_out(self, kind: str, name: str, reason: str) -> None:
        self.excluded.append(Excluded(kind, name, reason))

    def select(self) -> _Selected:
        """Search the store, also for folds and trials among the children of runs; or take what a
        table holds.
        """
        if self.tabled is not None:
            self.doubts += self.tabled.notes
            return self._of_table(self.tabled)
        runs, experiments = select(self.client, self.selection, self.doubts, self.progress)
        self.method = with_models(self.client, list(experiments), self.method)
        by_fold: dict[str, schema.FoldValues] = {}
        if self.selection.folds_by is not None:
            tops = [r for r in runs if MLFLOW_PARENT_RUN_ID not in r.data.tags]
            rule = FoldRule(self.selection.folds_by)
            by_fold = rule.values(self.client, tops, self.choice.wanted, self.excluded)
        if self.selection.folds_by == "children":
            # those that did not finish are no folds, and are listed
            runs = [
                r
                for r in runs
                if r.data.tags.get(MLFLOW_PARENT_RUN_ID) not in by_fold
                or r.info.status != "FINISHED"
            ]
        searched = self.selection.children is not None
        trials = best_trials(self.client, runs, self.selection) if searched else BestTrials()
        selected = _Selected(runs, experiments, by_fold, trials)
        if self.selection.step is None:
            return selected
        return replace(selected, steps=self._best_steps(selected.to_read))

    def _best_steps(self, runs: Sequence[Run]) -> BestSteps:
        """The steps that were asked for, of the metrics that may count or by which to choose."""
        chooser = best_metric(self.selection.duplicates)

        def wanted(metric: str) -> bool:
            return metric == chooser or self.choice.may_count(metric)

        return best_steps(self.client, runs, self.selection, wanted, self.progress)

    def _of_table(self, table: TableRuns) -> _Selected:
        by_fold = table.by_fold
        if self.selection.folds_by is not None:
            if not self.selection.folds_by.startswith("key:"):
                raise ValueError(
                    "`folds_by` must be key:PATTERN for a table, got "
                    f"{self.selection.folds_by!r}. A column fold needs no rule."
                )
            rule, no_client = FoldRule(self.selection.folds_by), cast(MlflowClient, None)
            by_fold = rule.values(no_client, table.runs, self.choice.wanted, self.excluded)
        return _Selected(table.runs, table.experiments, by_fold, BestTrials())

    def read(self, selected: _Selected) -> list[Result]:
        """The results that are asked for, if they can stand in one table."""
        results = self._results(selected)
        if not results:
            raise NoRunsError(self._why_none(selected))
        chosen = self.selection
        results = _wanted(results, "method", chosen.methods, chosen.exclude_methods)
        results = _wanted(results, "dataset", chosen.datasets, chosen.exclude_datasets)
        results = held_out_first(results, self.named, self.excluded)
        self.repeat.check(results)
        check_comparable(results)
        if chosen.measures is not None:
            results = [with_profile_measures(r, self.choice.wanted) for r in results]
        return results

    def _results(self, selected: _Selected) -> list[Result]:
        """The results among the runs, in the order in which they started."""
        runs = [
            r for r in selected.to_read if r.data.tags.get(schema.TAG_KIND) not in schema.RECORDS
        ]
        ruled = self.selection.method_by or self.selection.dataset_by
        ours_only = not ruled and any(map(is_ours, runs))
        self.experiments = names = selected.experiments
        trials = trials_among(
            runs, lambda run: self.method.name_of(run, names[run.info.experiment_id])
        )
        results = []
        runs.sort(key=lambda run: (run.info.start_time or 0, run.info.run_id))
        for i, run in enumerate(runs, start=1):
            self.progress(i, len(runs))
            result = self._result(run, selected)
            if isinstance(result, Result) and ours_only and not is_ours(run):
                rules = Argument("method_by"), " and ", Argument("dataset_by")
                lacking = f"no tag {schema.TAG_METHOD}; "
                result = Message(lacking, *rules, " say how to read such a run")
            if isinstance(result, Result):
                results.append(result)
            else:
                self._leave_out_run(run, result, trials)
        return results

    def _result(self, run: Run, selected: _Selected) -> Result | str:
        """What the run holds, or why it cannot be used."""
        experiment = selected.experiments[run.info.experiment_id]
        folds = selected.by_fold.get(run.info.run_id)
        rules = self.method, self.dataset
        may_count = self.choice.may_count
        reading = partial(
            read_run, selected.steps.of(run), experiment, *rules, may_count, folds, self.repeat.of
        )
        result = store.of_one_run(reading)
        searched = selected.trials.own.get(run.info.run_id, ())
        if isinstance(result, str) or not searched:
            return result
        config = {param: text for param, text in result.config.items() if param not in searched}
        return replace(result, config=config)

    def _leave_out_run(self, run: Run, reason: str, trials: Mapping[str, str]) -> None:
        if reason.startswith(NEWER) and run.info.run_id in self.named:
            raise IncomparableRunsError(f"run {run.info.run_id} cannot be read: {reason}.")
        name = f"{run.info.run_name} ({run.info.run_id})"
        if reason == f"status {_FAILED}":
            experiment = self.experiments.get(run.info.experiment_id, "")
            names = [rule.name_of(run, experiment) for rule in (self.dataset, self.method)]
            self.failed.add((names[0], names[1]))
        if reason == CHILD:
            self.leave_out("child run", name, trials.get(run.info.run_id, reason))
        else:
            self.leave_out("run", name, reason)

    def _why_none(self, selected: _Selected) -> str:
        """Why no run can be used."""
        names = selected.experiments.values()
        several = len(names) > 1 and not self.named
        where = f"experiment{'s' * several} {some(map(repr, names))}"
        reasons = Counter(e.reason for e in self.excluded).most_common(5)
        why = joined("; ", (Message(f"{count(n, 'run')}: ", reason) for reason, n in reasons))
        if not reasons:
            why = Message("it has none (reports apart)" if selected.runs else "no run fits")
        where = "the selection" if self.named else where
        if self.tabled is not None:
            return Message(f"{self.tabled.source['results']} holds no run that can be used: ", why)
        hold = f"{where} in {store.store_name()} {'hold' if several else 'holds'}"
        return Message(f"{hold} no run that can be used: ", why, ".")

    def choose(
        self, cells: Repeats, selected: _Selected
    ) -> tuple[list[str], list[Result], list[str]]:
        """The measures to use, the results that have them, and which of them are optimistic."""
        trials = _among(cells.results, selected.trials.trials)
        steps = _among(cells.results, selected.steps.among)
        metric = best_metric(self.selection.children or "")
        chosen = cells.chosen | {cell: (metric, n) for cell, n in trials.items()}
        step_by = best_metric(self.selection.step or "")
        choosers = {by for by, _ in chosen.values()} | {step_by} - {""}
        self.choice.learn(cells.results)
        self.choice.leave_to_choose(choosers, cells.results)
        used, results = self.choice.of(cells.results, self.excluded, self.named)
        check_propensities(results, used)
        optimistic = steps if step_by in used else {}
        optimistic |= {cell: n for cell, (by, n) in chosen.items() if by in used}
        most = [max(r.selected_among, optimistic.get((r.dataset, r.method), 1)) for r in results]
        results = [
            r if r.selected_among == n else replace(r, selected_among=n)
            for r, n in zip(results, most, strict=True)
        ]
        notes = [*choice_notes(chosen, used), *step_notes(step_by, steps, used)]
        return used, results, notes

    def study(
        self,
        selected: _Selected,
        results: Sequence[Result],
        used: Sequence[str],
        notes: Iterable[str],
    ) -> Study:
        """The Study of these results, with what a reader must know about them."""
        client = self.client if self.tabled is None else None
        folds, fold_notes = study_folds(client, results, used, self.excluded)
        for r in results:
            for tag, reason in r.broken.items():
                self.leave_out("tag", f"{tag} of {r.name}", reason)
        values = table_of(
            [(r.dataset, r.method) for r in results],
            {m: [r.values.get(m, math.nan) for r in results] for m in used},
        )
        given = self.selection.method_by, self.selection.dataset_by
        return Study(
            values=values,
            directions=self.choice.directions(used),
            missing=self.selection.missing,
            folds=folds,
            runs=self._rows(results),
            repeats=repeats_table(results, used),
            profiles=self._profiles(results),
            failed=frozenset(self.failed - {(r.dataset, r.method) for r in results}),
            excluded=tuple(self.excluded),
            notes=(
                *self.doubts,
                *notes,
                *_notes(results, used, given, splits=DIGEST in self.selection.repeats_by),
                *_value_notes(values, self.selection),
                *fold_notes,
            ),
            source=self._source(selected, results, used),
        )

    def _rows(self, results: Sequence[Result]) -> pd.DataFrame:
        """What `Study.runs` has: of results in a table neither runs nor experiments are known."""
        rows = pd.DataFrame([_row(m, r) for r in results for m in r.members])
        if self.tabled is None:
            return rows
        return rows.drop(columns=["run_id", "experiment", "experiment_id", "start_time"])

    def _profiles(self, results: Sequence[Result]) -> dict[tuple[str, str], RunProfiles]:
        """Those of a table may lie among artifacts of a store that nobody named."""
        if self.tabled is not None:
            return {}
        return {(r.dataset, r.method): r.profiles for r in results if r.profiles}

    def _source(
        self, selected: _Selected, results: Sequence[Result], used: Sequence[str]
    ) -> dict[str, Any]:
        """How the study came about."""
        chosen, experiments = self.selection, {r.experiment_id for r in results}
        measured = {
            "measures_by": self.choice.chosen_by(used),
            "read_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        if self.tabled is not None:
            rules = ("method_by", "dataset_by", "folds_by", "repeats_by", "duplicates")
            given = {name: rule for name, rule in chosen.arguments().items() if name in rules}
            return {**self.tabled.source, **given, **measured}
        return {
            "tracking_uri": store.store_name(),
            "experiments": [
                {"id": i, "name": name}
                for i, name in selected.experiments.items()
                if i in experiments
            ],
            "filter": store.without_passwords(chosen.filter_string),
            "method_by": ", ".join(chosen.method_by) or _rules(results, 0),
            "dataset_by": chosen.dataset_by or _rules(results, 1),
            "folds_by": chosen.folds_by or f"tag:{schema.TAG_FOLDS}",
            "repeats_by": ", ".join(chosen.repeats_by) or "seeds",
            "children": chosen.children or "",
            "step": chosen.step or "last",
            "duplicates": chosen.duplicates,
            "runs_found": len(selected.runs),
            **measured,
        }


def _among(results: Sequence[Result], counts: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """Among how many trials or steps the runs of a cell were chosen, at most; of the cells of
    which that is known.
    """
    most = {(r.dataset, r.method): max(counts.get(m.run_id, 0) for m in r.members) for r in results}
    return {cell: n for cell, n in most.items() if n}


def _row(run: Result, cell: Result) -> dict[str, Any]:
    """A row of `Study.runs`: a run of the cell, or the cell itself."""
    return {c: getattr(run, c) for c in COLUMNS} | {"selected_among": cell.selected_among}


class _Choice:
    """Which measures are asked for, which are declared, and which of them to use."""

    def __init__(self, selection: Selection) -> None:
        self.ways = {"minimize": selection.minimize, "maximize": selection.maximize}
        self.proposed = selection.directions == "proposed"
        self.asked, self.exclude = selection.measures, [*selection.exclude_measures]
        self.choosers: set[str] = set()
        self.training: set[str] = set()
        self.reasons: dict[str, str] = {}
        self.declared = list(self.directions([*selection.minimize, *selection.maximize]))
        self.set_name: str | None = None
        if self.asked is None:
            usual = (m for m in MEASURES if m not in NOT_BY_DEFAULT)
            self.wanted = list(dict.fromkeys([*usual, *self.declared]))
            return
        self.wanted = expand(self.asked)
        if unknown := [m for m in self.wanted if not (m in self.declared or self._way(m))]:
            guess = meant(unknown)
            raise MeasureError(
                Message(
                    f"no direction is known for {some(map(repr, unknown))}.{guess} "
                    f"{'If not, declare' if guess else 'Declare'} it: ",
                    DECLARE,
                    ", or take the direction that its name suggests: ",
                    PROPOSED,
                    ".",
                )
            )

    def _way(self, metric: str) -> str | None:
        return direction_of(metric, self.proposed)

    def directions(self, names: Collection[str]) -> dict[str, Direction]:
        return metric_names.directions(names, **self.ways, proposed=self.proposed)

    @property
    def open(self) -> bool:
        """Whether nobody has said by which measures to compare."""
        return self.asked is None and not self.declared

    def may_count(self, metric: str) -> bool:
        """Whether a metric that others logged may be compared, as far as one run tells."""
        return metric in self.wanted or bool(self.open and self._way(metric))

    @property
    def dropped(self) -> set[str]:
        return set(expand(self.exclude))

    @property
    def unasked(self) -> set[str]:
        """Known measures that nobody asked for and that are not used by default."""
        unasked = NOT_BY_DEFAULT if self.asked is None else frozenset()
        return {*unasked, *self._beside_the_set, *self.training, *self.reasons}

    @property
    def _beside_the_set(self) -> set[str]:
        """Known measures that the default set for such predictions does not hold."""
        if self.set_name is None:
            return set()
        return set(MEASURES).difference(SETS[self.set_name], self.declared)

    def chosen_by(self, used: Sequence[str]) -> str:
        """Which measures are used, and who chose them."""
        declared = [m for m in used if m in self.declared]
        more = f", and {count(len(declared), 'measure')} that you declared" if declared else ""
        if self.asked is not None:
            return f"those that you named ({some(self.asked)})"
        if self.set_name is None:
            return f"those known here that all runs have{more}, for no default set applies"
        kind = next(kind for kind, name in BY_DEFAULT.items() if name == self.set_name)
        held, most = len(set(used).intersection(SETS[self.set_name])), len(SETS[self.set_name])
        part = "" if held == most else f" ({held} of {most}, as far as all runs have them)"
        return f"the set {self.set_name}, the default for {kind}{part}{more}"

    def learn(self, results: Sequence[Result]) -> None:
        """Which metrics are of training data, and, where all runs are of others and nobody said
        what counts, which of their libraries' metrics do: those of the data that tell most.
        """
        finished = _finished(results)
        counts = Counter(m for r in finished for m in r.values)
        if any(has_our_tag(r) for r in finished):
            return
        self.training = of_training(counts)
        if not self.open:
            return
        of_most = [m for m in counts if 2 * counts[m] > len(finished) and self._way(m)]
        held = [m for m in of_most if m not in {*self.training, *self.dropped, *NOT_BY_DEFAULT}]
        data = {m: known.data if (known := term(m)) else HELD_OUT for m in held}
        best = HELD_OUT if HELD_OUT in data.values() else VALIDATION
        for m in held:
            if data[m] != best:
                self.reasons[m] = f"measured on {data[m]} data, and others on held-out data"
            elif twin := _twin(m, held, finished):
                self.reasons[m] = f"the same as {twin}"
        self.wanted = [m for m in dict.fromkeys([*self.wanted, *held]) if m not in self.reasons]

    def leave_to_choose(self, metrics: Collection[str], results: Sequence[Result]) -> None:
        """Do not compare the metrics by which runs were chosen, unless they are asked for, or there
        is nothing else.
        """
        there = {m for r in results for m in r.values}.intersection(self.wanted)
        if self.asked is None and there.difference(metrics, self.dropped):
            self.choosers = {*metrics} - self.dropped
            self.exclude += self.choosers

    def of(
        self, results: Sequence[Result], excluded: list[Excluded], named: Collection[str] = ()
    ) -> tuple[list[str], list[Result]]:
        """The measures to use and the results that have them; what is left out is added to the
        list, but for runs named by id.
        """
        apart = self._apart(_finished(results), named)
        excluded += [Excluded("run", r.name, reason) for r, reason in apart]
        strangers = [r for r, _ in apart]
        results = [r for r in results if not any(r is stranger for stranger in strangers)]
        finished = _finished(results)
        counts = Counter(m for r in finished for m in r.values)
        self._check_named(counts)
        used = self._without_training(self._used(counts, len(finished)))
        unused = self._unused(used, counts, len(finished))
        excluded += unused
        wanted = {*self.wanted} - self.dropped - self._beside_the_set
        for r in finished:
            bad = [f"{m} is {v}" for m, v in r.bad.items() if m in wanted]
            excluded += [Excluded("cell", r.name, f"{text}, which is no result") for text in bad]
        if not used:
            raise MeasureError(_no_measure(finished, unused))
        return used, results

    def _without_training(self, used: list[str]) -> list[str]:
        """Metrics of training data by themselves, where they were asked for; else none of them.

        Raises
        ------
        MeasureError
            They were asked for beside others.
        """
        training = [m for m in used if m in self.training]
        asked = {*self.declared, *(self.asked or ())}
        if not asked.intersection(training):
            return [m for m in used if m not in training]
        others = [m for m in used if m not in training]
        if mixed := [m for m in others if m in asked]:
            raise MeasureError(
                f"{some(training)} {agree(training, 'is')} of training data, and {some(mixed)} "
                "not: they do not rank side by side. Ask for one kind."
            )
        return training

    def _apart(
        self, finished: Sequence[Result], named: Collection[str]
    ) -> list[tuple[Result, str]]:
        """The few runs for which there would be no measure in common to all others, and why; none
        where measures were asked for.
        """
        if self.asked is not None or self.declared:
            return []
        wanted = [m for m in self.wanted if m not in {*self.dropped, *self.training}]
        counts = Counter(m for r in finished for m in wanted if m in r.values)
        if not counts:
            return []
        most = max(counts, key=counts.__getitem__)
        if counts[most] == len(finished) or 2 * counts[most] <= len(finished):
            return []
        why = "it has no measure in common with most runs"
        return [
            (r, f"{why}; {most} is {r.bad[most]}" if most in r.bad else why)
            for r in finished
            if most not in r.values and r.run_id not in named
        ]

    def _check_named(self, counts: Mapping[str, int]) -> None:
        """MeasureError where no finished run has a measure that was named."""
        named = dict.fromkeys([*self.declared, *(self.asked or ()), *self.exclude])
        if absent := [m for m in named if m not in SETS and m not in counts]:
            guess = did_you_mean(absent, counts)
            raise MeasureError(
                f"no finished run has {some(map(repr, absent))}; there are "
                f"{some(sorted(counts))}.{guess}"
            )

    def _used(self, counts: Mapping[str, int], finished: int) -> list[str]:
        """Measures that all finished runs have, or some where they were asked for."""
        wanted = [m for m in self.wanted if m not in self.dropped]
        if self.asked is None:
            in_all = [m for m in wanted if counts[m] == finished and m not in self.training]
            self.set_name = default_set(in_all)
        asked = {*self.declared, *(() if self.asked is None else wanted)}
        return [
            m
            for m in wanted
            if m not in self._beside_the_set
            and (counts[m] == finished or (counts[m] and m in asked))
        ]

    def _unused(
        self, used: Collection[str], counts: Mapping[str, int], finished: int
    ) -> list[Excluded]:
        """Measures that are not used, of which a reader would ask why."""
        others = [m for m in dict.fromkeys([*self.wanted, *counts]) if m not in used]
        passed_over = self.unasked - self.dropped
        reasons = {m: self._why_not(m, counts[m], finished) for m in others}
        return [
            Excluded("unasked" if m in passed_over or is_bookkeeping(m) else "measure", m, reason)
            for m, reason in reasons.items()
            if reason
        ]

    def _why_not(self, measure: str, having: int, finished: int) -> str:
        """Why a measure is not used; empty where nobody would miss it."""
        if measure in self.training and measure not in self.dropped:
            return "of training data, which say nothing of new data"
        if measure in self.reasons:
            return self.reasons[measure]
        if measure in self.choosers:
            return Message("runs were chosen by it; ", MEASURE, " that names it compares it, too")
        if measure in self.dropped:
            return "excluded as asked" if having else ""
        if measure in self._beside_the_set - NOT_BY_DEFAULT:
            why = f"not in the set {self.set_name}, the default; "
            return Message(why, MEASURE, " names others") if having else ""
        if measure in self.wanted:
            if having:
                return f"lacking in {finished - having} of {finished} finished runs"
            return "in no run" if self.asked is not None else ""
        if self.asked is not None:
            return ""
        if measure not in MEASURES and self._way(measure):
            if self.open:
                return f"lacking in {finished - having} of {finished} finished runs"
            return Message("others were declared; ", MEASURE, " names it, too")
        return self._why_unwanted(measure)

    def _why_unwanted(self, measure: str) -> str:
        if is_bookkeeping(measure):
            return "they say how the training went"
        if measure not in MEASURES:
            declare = Argument("minimize"), " or ", Argument("maximize")
            way = proposed_direction(measure)
            suggested = f", or take the one that its name suggests ({way}) by "
            proposed = (suggested, PROPOSED) if way and self.open else ()
            return Message("no direction is known; declare ", *declare, *proposed)
        kind = "measures of how errors fall, not of how many there are,"
        if measure in SETS["cost"]:
            kind = "costs"
        return Message(f"{kind} are used only where ", MEASURE, " names them")


def _no_measure(finished: Sequence[Result], unused: Sequence[Excluded]) -> str:
    """That no measure is left, what there is, and what may be done."""
    reasons: dict[str, list[str]] = {}
    for e in unused:
        reasons.setdefault(e.reason, []).append(e.name)
    shown = [*reasons.items()][:_SHOWN]
    left = joined("; ", (Message(f"{some(names, 4)}: ", why) for why, names in shown))
    runs = count(len(finished), "finished run")
    text = f"there is no measure in common to {runs} that can be used ("
    return Message(text, left, "). ", MEASURE, " with a name takes it as far as runs have it.")


def has_our_tag(result: Result) -> bool:
    """Whether our own tag names the method."""
    return result.named_by[0][0].startswith("tag:mleval.")


def _twin(metric: str, others: Sequence[str], results: Sequence[Result]) -> str:
    """The metric that this one is under another name, with the same values in all runs: what
    scikit-learn's `score` is, or val_loss of Keras's validation_loss; empty where there is none.
    """
    known = term(metric)
    if known is None:
        return ""
    alike = [m for m in others if m != metric]
    if known.measure != "score":  # of names that mean the same the shortest counts
        alike = [m for m in alike if term(m) == known and (len(m), m) < (len(metric), metric)]
    same = (m for m in alike if all(r.values.get(m) == r.values.get(metric) for r in results))
    return next(same, "")


def _finished(results: Sequence[Result]) -> list[Result]:
    """The results of runs that finished; NoRunsError where none did."""
    finished = [r for r in results if r.status == schema.COMPLETE]
    if not finished:
        raise NoRunsError(
            f"of {count(len(results), 'selected run')} none finished, so there is nothing to "
            "compare."
        )
    return finished


def _wanted(
    results: list[Result], what: str, keep: Iterable[str] | None, drop: Iterable[str]
) -> list[Result]:
    """Results of the methods or datasets that are asked for."""
    have = {getattr(r, what) for r in results}
    asked, dropped = have if keep is None else set(keep), set(drop)
    if unknown := sorted((asked | dropped) - have):
        guess = did_you_mean(unknown, have)
        listed = some(map(repr, sorted(have)))
        raise NoRunsError(
            f"the selection has no {what} {some(map(repr, unknown))}; it has {listed}.{guess}"
        )
    wanted = asked - dropped
    left = [r for r in results if getattr(r, what) in wanted]
    if not left:
        raise NoRunsError(
            f"no {what} is left after the exclusions; the selection has "
            f"{some(map(repr, sorted(have)))}."
        )
    return left


def _notes(
    results: Sequence[Result], used: Sequence[str], named: Sequence[object], splits: bool
) -> list[str]:
    """Doubts about what the runs say of themselves; `named` are the rules that were given for
    methods and for datasets, and `splits` tells that data which differ are splits.
    """
    runs = [m for r in results for m in r.members]
    other_data = "the data were not the same in all runs"
    return [
        *_of_training(results, used),
        *_optimistic(results),
        *_called_keys(runs, used),
        *_otherwise_defined(results, used),
        *_unstated_conventions(runs, used),
        *_name_notes(results, 0, "method", bool(named[0])),
        *_name_notes(results, 1, "dataset", bool(named[1])),
        *([] if splits else _digest_notes(runs, "dataset_digest", other_data)),
        *_digest_notes(
            runs,
            "split_digest",
            "the data were not split in the same way in all runs, so that their folds are no pairs",
        ),
    ]


def _of_training(results: Sequence[Result], used: Sequence[str]) -> list[str]:
    """What leads the doubts where metrics of training data were asked for."""
    if any(map(has_our_tag, results)):
        return []
    training = of_training({m for r in results for m in r.values}).intersection(used)
    names = some(sorted(training))
    return [f"{TRAINING_DOUBT}: says nothing of new data ({names})."] if training else []


def _called_keys(runs: Sequence[Result], used: Sequence[str]) -> list[str]:
    """Under which names MLflow logged measures, and where variables of scripts may be of different
    data.
    """
    notes = []
    for measure in used:
        keys = [(r.dataset, r.keys[measure]) for r in runs if measure in r.keys]
        if not keys:
            continue
        named = some(dict.fromkeys(key for _, key in keys), 4)
        notes.append(f"{measure} is what MLflow logged as {named}.")
        variables: dict[str, set[str]] = {}
        for dataset, key in keys:
            if known := term(key):
                variables.setdefault(dataset, set()).add(known.variable)
        differ = {*chain.from_iterable(held for held in variables.values() if len(held) > 1)}
        if differ:
            where = some(sorted(d for d, held in variables.items() if len(held) > 1))
            notes.append(
                f"{measure} was measured on several variables on {where} "
                f"({some(sorted(differ))}): are they the same data?"
            )
        if any(_UNKNOWN_DATA in held for held in variables.values()):
            notes.append(f"MLflow could not tell on which data {measure} was measured everywhere.")
    if "score" in used:
        notes.append("score is the accuracy of classifiers and R² of regressors.")
    return notes


def _optimistic(results: Sequence[Result]) -> list[str]:
    chosen = [
        f"{r.method} on {r.dataset} (among {r.selected_among})"
        for r in results
        if r.selected_among > 1 and r.status == schema.COMPLETE
    ]
    why = "Results that were chosen by these very values among several candidates are optimistic"
    return [f"{why}: {some(chosen, 6)}."] if chosen else []


def _otherwise_defined(results: Sequence[Result], used: Sequence[str]) -> list[str]:
    """Metrics of others that have the names of our measures."""
    plain = sorted({m for r in results for m in r.plain}.intersection(used))
    if not plain:
        return []
    words = ("metric", "was", "is", "measure of this name")
    if len(plain) > 1:
        words = ("metrics", "were", "are", "measures of these names")
    metrics, were, are, measures = words
    meanings = (f" To most, {m} is {_OTHERWISE[m]}." for m in _OTHERWISE if m in plain)
    return [
        f"The {metrics} {some(plain)} {were} not logged by this project and {are} taken for the "
        f"{measures}, which may be defined otherwise.{''.join(meanings)}"
    ]


def _unstated_conventions(runs: Sequence[Result], used: Sequence[str]) -> list[str]:
    """Of results of ours; metrics of others with our names are told of already."""
    ours = MEASURES.keys() & {*used} - {"hamming_loss", "subset_accuracy", "top1_accuracy"}
    finished = [r for r in runs if r.status == schema.COMPLETE]
    unknown = [r for r in finished if r.conventions == schema.UNKNOWN_CONVENTIONS]
    if not (unstated := sum(not ours <= {*r.plain} for r in unknown)):
        return []
    which = f"{unstated} of {count(len(finished), 'finished run')}"
    return [f"The conventions for empty sets and ties are unknown for {which}."]


def _name_notes(results: Sequence[Result], i: int, what: str, ruled: bool) -> list[str]:
    """What a reader must know of the names of methods (0) or datasets (1)."""
    notes = [
        f"Names of {what}s look alike and are of different characters: "
        f"{some(map(ascii, alike), 6)}."
        for alike in look_alikes(getattr(r, what) for r in results)
    ]
    if not ruled and any(not r.named_by[i][0].startswith("tag:mleval.") for r in results):
        notes.append(f"Names of the {what}s come from {_rules(results, i)}.")
    return notes


def _digest_notes(runs: Sequence[Result], column: str, doubt: str) -> list[str]:
    digests: dict[str, list[str]] = {}
    for r in runs:
        digests.setdefault(r.dataset, []).append(getattr(r, column))
    differ = {d: schema.differ(texts) for d, texts in sorted(digests.items())}
    notes = []
    if differing := [d for d, known in differ.items() if known]:
        notes.append(f"On {some(differing)} {doubt} (the tag mleval.{column} differs).")
    if unknown := [d for d, known in differ.items() if known is None]:
        notes.append(
            f"Whether the data were the same in all runs on {some(unknown)} is unknown: other "
            f"versions wrote the tag mleval.{column}, or MLflow its own digest."
        )
    return notes


def _value_notes(values: pd.DataFrame, selection: Selection) -> list[str]:
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
    if assumed := [m for m in values if direction_of(m) is None and m not in _declared(selection)]:
        sides = {
            way: [m for m in assumed if direction_of(m, True) == way] for way in ("max", "min")
        }
        texts = [
            f"{'larger' if way == 'max' else 'smaller'} values of {some(names)} are better"
            for way, names in sides.items()
            if names
        ]
        notes.append(f"Taken from their names, as confirmed: {', '.join(texts)}.")
    for way, declared in (("min", selection.minimize), ("max", selection.maximize)):
        if turned := [
            m for m in declared if m in values and m in MEASURES and MEASURES[m].direction != way
        ]:
            better = "smaller" if way == "min" else "larger"
            notes.append(
                f"As declared, {better} values of {some(turned)} count as better; by definition "
                "they are worse."
            )
    return notes


def _declared(selection: Selection) -> set[str]:
    return {*selection.minimize, *selection.maximize}


def _rules(results: Sequence[Result], i: int) -> str:
    """How names were found, with counts where there are several ways."""
    counts = Counter(", ".join(r.named_by[i]) for r in results)
    return ", ".join(
        f"{rule} ({count(n, 'run')})" if len(counts) > 1 else rule
        for rule, n in counts.most_common()
    )
