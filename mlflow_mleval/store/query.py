"""Runs of the tracking store into a Study; everything left out is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

import pandas as pd

from mlflow_mleval.errors import (
    CandidatesError,
    IncomparableRunsError,
    MeasureError,
    NoRunsError,
    UndirectedError,
)
from mlflow_mleval.measures import metric_names
from mlflow_mleval.measures.metric_names import (
    HELD_OUT,
    TRAINING_DOUBT,
    VALIDATION,
    direction_of,
    is_bookkeeping,
    is_cost,
    is_share,
    of_training,
    proposed_direction,
    suggestions,
    term,
)
from mlflow_mleval.measures.registry import (
    BY_DEFAULT,
    MEASURES,
    NOT_BY_DEFAULT,
    SETS,
    default_set,
    expand,
)
from mlflow_mleval.selection import (
    DIGEST,
    Directions,
    Missing,
    Progress,
    Selection,
    best_metric,
    in_silence,
)
from mlflow_mleval.sentences import (
    PROPOSED,
    Argument,
    Message,
    agree,
    count,
    did_you_mean,
    grouped,
    joined,
    some,
)
from mlflow_mleval.store import reader, repeats, runs_table, schema, store
from mlflow_mleval.store.reader import CHILD, Results
from mlflow_mleval.store.repeats import Cells
from mlflow_mleval.store.runs_table import RunsTable
from mlflow_mleval.study import NEWER, NO_DIRECTION, Cell, Excluded, Study
from mlflow_mleval.validation import known_keywords, present

#: A value may miss the range of its measure by this much: sums of floats do.
_SLACK = 1e-9
#: A share is at most 1, and what is larger than this no rounding of it.
_MOST_SHARE = 1.5
#: Reasons why measures cannot be used that an error names.
_SHOWN = 12
_LATER = "a later version of mlflow-mleval wrote them. Upgrade it"
#: What chooses measures.
MEASURE = Argument("measures")
#: Why a measure is not used that nobody misses.
_UNASKED = Message("not asked for, and not compared by default; ", MEASURE, " names it")


@known_keywords
def load_study(
    results: str | Path | pd.DataFrame | None = None,
    *,
    experiment_ids: Sequence[str] | None = None,
    experiment_names: Sequence[str] | None = None,
    run_ids: Sequence[str] | None = None,
    exclude_runs: Iterable[str] = (),
    since: str | None = None,
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
    percent: Iterable[str] = (),
    name_as: str | None = None,
    duplicates: str = "error",
    progress: Progress = in_silence,
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
        method or model, a column a measure), a leaderboard (rows methods, columns datasets; its one
        measure is called ``value``), or runs as `mlflow.search_runs`, MLflow's UI, Weights & Biases
        and Neptune export them, which `method_by`, `dataset_by` and `repeats_by` read as if they
        were tracked here: their settings are params.
    experiment_ids, experiment_names : sequence of str, optional
        Experiments to read. Default: MLFLOW_EXPERIMENT_ID or MLFLOW_EXPERIMENT_NAME; with
        `run_ids`, all; else the one, or those that belong together, that alone can be compared.
    run_ids : sequence of str, optional
        Only these runs; ``models:/NAME/VERSION``, ``models:/NAME@ALIAS`` and ``models:/ID`` stand
        for the run that made the model.
    exclude_runs : iterable of str
        Ids of runs to leave out.
    since : str, optional
        Only runs that started since: ``"7d"``, ``"12h"``, ``"2026-11-16"``.
    filter_string : str
        MLflow's search syntax, for example ``"params.lr = '0.1' and tags.model = 'rf'"``.
    method_by, dataset_by : str, optional
        What names the method and the dataset of a run: ``tag:NAME``, ``param:NAME``, ``run_name``,
        ``experiment``, for the method ``model`` (the registered version of the run's model,
        "tagger/2", else its name and id) or ``since:2026-11-16`` (two periods, "before 2026-11-16"
        and "since 2026-11-16") and for the dataset ``input`` (the dataset input). Several rules
        for the method make one name, "xgb, lr=0.1". By default the tags ``mleval.method`` and
        ``mleval.dataset``; for runs without them the param or tag ``estimator_name``, else the
        run's name, and the dataset input, else the shape of the data where an experiment holds
        several, else the experiment.
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
    percent : iterable of str
        Metrics of which some runs hold percentages and others shares: values above 1.5 are divided
        by 100.
    name_as : str, optional
        What the names of runs say, as ``{method}_{dataset}_s{seed}``; runs with other names are
        left out. Not with `method_by`.
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
    given = dict(locals())
    given.pop("progress")
    return selected_study(Selection(**given), progress)


def selected_study(
    selection: Selection, progress: Progress = in_silence, table: RunsTable | None = None
) -> Study:
    """The Study of a selection of runs, as `load_study` says; of a table that was read, if any."""
    loading = _Loading(selection, progress, table)
    chosen = loading.selection
    table = loading.with_folds(loading.table)
    trials = repeats.BestTrials(table)
    if chosen.children is not None:
        trials = repeats.best_trials(loading.client, table, chosen)
    table, steps = trials.table, dict[str, int]()
    if chosen.step is not None:
        metric, chooser = best_metric(chosen.step), best_metric(chosen.duplicates)
        sign = partial(repeats.sign_of, metric, chosen)
        client, may_count = present(loading.client), loading.choice.may_count
        wanted = {m for m in table.names["metrics"] if m == chooser or may_count(m)}
        table, steps = runs_table.best_steps(client, table, metric, sign, wanted, loading.progress)
    results, failed = loading.read(table.where(~table.is_record))
    cells = repeats.gather(results, chosen, trials.own)
    loading.excluded += cells.excluded
    used, cells, notes = loading.choose(cells, trials.among, steps)
    folds, fold_notes = repeats.study_folds(loading.client, cells, used, loading.excluded)
    members = cells.members
    loading.excluded += members.unreadable()
    values = cells.values.reindex(columns=used)
    newer = [each.name for each in loading.excluded if each.reason.startswith(NEWER)]
    return Study(
        values=values,
        directions=loading.choice.directions(used),
        missing=chosen.missing,
        folds=folds,
        runs=loading.run_rows(cells),
        repeats=repeats.repeats_table(cells, used),
        profiles=loading.profiles(members),
        failed=frozenset(failed - {*cells.rows.index}),
        factors=reader.factors_of(members.rows, members.table, chosen),
        excluded=tuple(loading.excluded),
        notes=(
            *([f"Left out, for {_LATER}: {some(newer, 3)}."] if newer else []),
            *loading.table.doubts,
            *notes,
            *cells.notes,
            *_study_notes(cells, used, chosen),
            *_direction_notes(values, chosen),
            *fold_notes,
        ),
        source=loading.source(cells, used),
        costs=cells.values[[m for m in cells.values if is_cost(m) and m not in used]],
    )


class _Loading:
    """A selection on its way to a Study; what is left out on each step is listed."""

    def __init__(
        self, selection: Selection, progress: Progress, table: RunsTable | None = None
    ) -> None:
        self.progress = progress
        self.excluded: list[Excluded] = []
        self.client = store.connect() if selection.results is None else None
        if self.client is not None:
            selection = store.with_runs_of_models(self.client, selection)
            if table is None:
                selection, table = repeats.placed(selection, progress)
            if table is None:
                table = runs_table.read_store(self.client, selection, progress)
        elif table is None:
            table = runs_table.read_results_table(selection)
        self.selection, self.choice = selection, _Choice(selection)
        if selection.name_as:
            table = reader.with_name_parts(table, selection.name_as)
        self.table = table
        self.rules = reader.rules_of(selection, self.client, table)
        self.named = {*selection.run_ids}

    def with_folds(self, table: RunsTable) -> RunsTable:
        """The runs with the values by fold that a rule finds, but for children that are folds."""
        rule = self.selection.folds_by
        if rule is None:
            return table
        if self.client is None and not rule.startswith("key:"):
            raise ValueError(
                f"`folds_by` must be key:PATTERN for a table, got {rule!r}. A column fold needs no "
                "rule."
            )
        tops, folds_by = table.where(~table.is_child), repeats.FoldRule(rule)
        client, wanted = partial(present, self.client), self.choice.wanted
        by_fold = folds_by.values(client, tops, wanted, self.excluded)
        self.choice.of_folds = {key for key in table.names["metrics"] if folds_by.match(key)}
        if rule == "children":
            # those that did not finish are no folds, and are listed
            folds = table.parent.isin(by_fold) & (table.frame["status"] == "FINISHED")
            table = table.where(~folds)
        return replace(table, by_fold=by_fold)

    def read(self, table: RunsTable) -> tuple[Results, set[Cell]]:
        """The results that are asked for, if they compare, and the cells of which a run failed."""
        table, chosen = table.sorted(), self.selection
        results, reasons = reader.results_of_runs(table, self.rules, chosen, self.choice.may_count)
        self.progress(len(table), len(table))
        gone = reasons[reasons != ""]
        titles, ids = table.at(gone.index).titles, table.frame["run_id"]
        trials: dict[str, str] = {}
        if (gone == CHILD).any():
            trials = repeats.Searches.among(table.where(table.is_child)).why()
        for at, why in gone.items():
            if why.startswith(NEWER) and ids[at] in self.named:
                raise IncomparableRunsError(f"run {ids[at]} cannot be read: {why}.")
            kind, why = ("child run", trials.get(ids[at], why)) if why == CHILD else ("run", why)
            self.excluded.append(Excluded(kind, titles[at], why))
        if not len(results.rows):
            asked = any(why.startswith(reader.UNDIRECTED) for why in gone)
            ways = self.choice.ways_on(table.names["metrics"]) if asked else []
            raise UndirectedError(self.why_none(), ways) if ways else NoRunsError(self.why_none())
        results = _with_names(results, "method", chosen.methods, chosen.exclude_methods)
        results = _with_names(results, "dataset", chosen.datasets, chosen.exclude_datasets)
        rows = results.rows
        if rows["searched"].any():
            # what a search says of its winner does not count where that was evaluated, too
            evaluated = {*results.cells[~rows["searched"] & results.finished]}
            winners = rows["searched"] & results.cells.isin(evaluated)
            winners &= ~rows["run_id"].isin(self.named)
            by = "a search chose it by these very values"
            why = f"{by}, and the method was evaluated without them"
            self.excluded += [Excluded("run", name, why) for name in results.titles[winners]]
            results = results.where(~winners)
        repeats.check_comparable(results, chosen.repeats_by)
        results = _on_one_scale(results, chosen, self.choice)
        failed = table.where(reasons == reader.FAILED)
        method, dataset = (rule.names(failed) for rule in self.rules)
        return results, {*zip(dataset, method, strict=True)}

    def why_none(self) -> str:
        """Why no run can be used."""
        reasons = Counter(e.reason for e in self.excluded).most_common(5)
        why = joined("; ", (Message(f"{count(n, 'run')}: ", reason) for reason, n in reasons))
        if not reasons:
            why = Message("it has none (reports apart)" if len(self.table) else "no run fits")
        if self.client is None:
            return Message(f"{self.table.source['results']} holds no run that can be used: ", why)
        names = [] if self.named else [*map(repr, self.table.experiments.values())]
        experiments = f"experiment{'s' if len(names) > 1 else ''} {some(names)}"
        where = f"{experiments if names else 'the selection'} in {store.store_name()}"
        hold = agree(len(names) or 1, "holds")
        return Message(f"{where} {hold} no run that can be used: ", why, ".")

    def choose(
        self, cells: Cells, trials: Mapping[str, int], steps: Mapping[str, int]
    ) -> tuple[list[str], Cells, list[str]]:
        """The measures to use, the cells that have them, and which of them are optimistic."""
        metric = best_metric(self.selection.children or "")
        among = _among(cells, trials).items()
        chosen = cells.chosen | {cell: (metric, n) for cell, n in among}
        step_by, among_steps = best_metric(self.selection.step or ""), _among(cells, steps)
        choosers = {by for by, _ in chosen.values()} | {step_by} - {""}
        used, cells, gone = self.choice.of(cells, choosers, self.named, self.table.doubts)
        self.excluded += gone
        repeats.check_propensities(cells, used)
        optimistic = among_steps if step_by in used else {}
        optimistic |= {cell: n for cell, (by, n) in chosen.items() if by in used}
        rows = cells.rows.copy(deep=False)
        if optimistic:
            most = pd.Series([optimistic.get(cell, 1) for cell in rows.index], rows.index)
            rows["selected_among"] = rows["selected_among"].clip(lower=most)
        told = ((by, f"{a} on {d} (of {n})") for (d, a), (by, n) in chosen.items())
        notes = []
        for metric, names in sorted(grouped(told).items()):
            note = f"The best of several candidates by {metric} was taken: {some(names, 6)}."
            if metric not in used:
                note += (
                    f" {metric} itself is not compared; if it was measured on the same data as "
                    "what is, these results are optimistic."
                )
            notes.append(note)
        notes += runs_table.step_notes(step_by, among_steps, used)
        return used, replace(cells, rows=rows), notes

    def run_rows(self, cells: Cells) -> pd.DataFrame:
        """What `Study.runs` has: of results in a table neither runs nor experiments are known."""
        rows = cells.members.rows[[*reader.COLUMNS]].reset_index(drop=True)
        keys = pd.MultiIndex.from_frame(rows[["dataset", "method"]])
        rows["selected_among"] = cells.rows["selected_among"].loc[keys].to_numpy()
        if self.client is not None:
            return rows
        return rows.drop(columns=["run_id", "experiment", "experiment_id", "start_time"])

    def profiles(self, members: Results) -> dict[Cell, Mapping[str, schema.ProfileTag]]:
        """The loss profiles of each cell, of the last of its runs that finished and has any; those
        of a table may lie among artifacts of a store that nobody named."""
        if self.client is None:
            return {}
        cell, rows = ["dataset", "method"], members.rows
        tags = {tag: members.table.tag(tag) for tag in schema.TAG_PROFILES.values()}
        having = reduce(or_, (members.table.has(f"tags.{tag}") for tag in tags))
        single = ~rows.duplicated(cell, keep=False)
        held = rows[having & (members.finished | single)]
        held = held.drop_duplicates(cell, keep="last")[cell]
        found: dict[Cell, Mapping[str, schema.ProfileTag]] = {}
        for at, dataset, method in held.itertuples(name=None):
            texts = ((kind, tags[tag].at[at]) for kind, tag in schema.TAG_PROFILES.items())
            if profiles := reader.RunProfiles({kind: text for kind, text in texts if text}):
                found[dataset, method] = profiles
        return found

    def source(self, cells: Cells, used: Sequence[str]) -> dict[str, Any]:
        """How the study came about."""
        chosen = self.selection
        measured = {
            "measures_by": self.choice.chosen_by(used),
            "read_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        by_rules = reader.told_by(cells.rows["method_by"], {})
        if self.client is None:
            rules = ("method_by", "dataset_by", "folds_by", "repeats_by", "duplicates")
            given = {name: rule for name, rule in chosen.arguments().items() if name in rules}
            told = {} if _ours(cells).all() else {"method_by": by_rules}
            return {**self.table.source, **told, **given, **measured}
        experiments = {*cells.rows["experiment_id"]}
        named = ((i, name) for i, name in self.table.experiments.items() if i in experiments)
        return {
            "tracking_uri": store.store_name(),
            "experiments": [{"id": i, "name": name} for i, name in named],
            "filter": store.without_passwords(chosen.filter_string),
            "method_by": ", ".join(chosen.method_by) or by_rules,
            "dataset_by": chosen.dataset_by or reader.told_by(cells.rows["dataset_by"], {}),
            "folds_by": chosen.folds_by or f"tag:{schema.TAG_FOLDS}",
            "repeats_by": ", ".join(chosen.repeats_by) or "seeds",
            "children": chosen.children or "",
            "step": chosen.step or "last",
            "duplicates": chosen.duplicates,
            "runs_found": len(self.table),
            **measured,
        }


def _among(cells: Cells, counts: Mapping[str, int]) -> dict[Cell, int]:
    """Among how many trials or steps the runs of a cell were chosen, at most, where known."""
    if not counts:
        return {}
    rows = cells.members.rows
    held = rows["run_id"].map(dict(counts)).dropna().astype(int)
    most = held.groupby([rows["dataset"], rows["method"]]).max().to_dict()
    return {cell: most[cell] for cell in cells.rows.index if cell in most}


class _Choice:
    """Which measures are asked for or declared; once the cells are known, which count."""

    def __init__(self, selection: Selection) -> None:
        self.proposed = selection.directions == "proposed"
        self._way = partial(direction_of, proposed=self.proposed)
        self.directions = partial(
            metric_names.directions,
            minimize=selection.minimize,
            maximize=selection.maximize,
            proposed=self.proposed,
        )
        self.asked, self.excluded = selection.measures, selection.exclude_measures
        self.declared = list(self.directions([*selection.minimize, *selection.maximize]))
        self.named = dict.fromkeys([*self.declared, *(self.asked or ())])
        #: Whether nobody has said by which measures to compare.
        self.open = self.asked is None and not self.declared
        self.usual = [m for m in MEASURES if m not in NOT_BY_DEFAULT]
        asked = [*self.usual, *self.declared] if self.asked is None else expand(self.asked)
        self.wanted = list(dict.fromkeys(asked))  # what may count, in the order of columns
        #: Metrics of training data, and those that are another's values by fold.
        self.training, self.of_folds = set[str](), set[str]()
        self.set_name: str | None = None
        #: By metric, whether a reader would ask for it ("measure") or not ("unasked"), and why not.
        self.why_not: dict[str, tuple[str, str]] = {}
        self.leave_out(expand(self.excluded), "measure", "excluded as asked")

    def leave_out(self, metrics: Iterable[str], kind: str, reason: str) -> None:
        for metric in metrics:
            self.why_not.setdefault(metric, (kind, reason))

    @property
    def left(self) -> list[str]:
        """What may count as far as is known."""
        return [m for m in self.wanted if m not in self.why_not]

    def may_count(self, metric: str) -> bool:
        """Whether a metric that others logged may be compared, as far as one run tells."""
        return metric in self.wanted or bool(self.open and self._way(metric))

    def chosen_by(self, used: Sequence[str]) -> str:
        """Which measures are used, and who chose them."""
        if self.asked is not None:
            return f"those that you named ({some(self.asked)})"
        n = len(self.declared)
        more = f", and {count(n, 'measure')} that you declared" if n else ""
        if self.set_name is None:
            return f"those known here that all runs have{more}, for no default set applies"
        kind = next(kind for kind, name in BY_DEFAULT.items() if name == self.set_name)
        held, most = len({*used} & {*SETS[self.set_name]}), len(SETS[self.set_name])
        part = "" if held == most else f" ({held} of {most}, as far as all runs have them)"
        return f"the set {self.set_name}, the default for {kind}{part}{more}"

    def of(
        self, cells: Cells, choosers: Collection[str], named: Collection[str], doubts: Sequence[str]
    ) -> tuple[list[str], Cells, list[Excluded]]:
        """The measures to use, the cells that have them, and what is left out, never runs `named`
        by id. Metrics by which runs were chosen do not count, unless asked for or alone."""
        values, counts = _finished_values(cells)
        choosers = choosers if self.asked is None else ()
        own = bool(_ours(cells)[cells.finished].any())
        self.training = of_training(counts) - ({*MEASURES} if own else set())
        self._check_named(counts, choosers)
        self._learn(values, counts, own)
        if any(counts[m] for m in self.left if m not in choosers):
            chosen = Message("runs were chosen by it; ", MEASURE, " that names it compares it, too")
            self.leave_out(choosers, "measure", chosen)
        everything, bad = cells, cells.members.unusable()
        run_ids = cells.rows["run_id"]
        apart = [cell for cell in self._apart(values) if run_ids[cell] not in named]
        cells = cells.where(~cells.rows.index.isin(apart))
        left, counts = _finished_values(cells)
        used, unused = self._divided(counts, len(left))
        why = "it has no measure in common with most runs"
        excluded = [Excluded("run", everything.name(cell), why) for cell in apart] + unused
        for cell in values.index.intersection([*bad]):
            held = [(m, value) for m, value in bad[cell].items() if m in self.left]
            texts = (f"{m} is {value}, which is no result" for m, value in held)
            excluded += [Excluded("cell", everything.name(cell), text) for text in texts]
        if not used:
            raise self._nothing_in_common(counts, len(left), unused, doubts)
        return used, cells, excluded

    def _check_named(self, counts: Mapping[str, int], choosers: Collection[str]) -> None:
        """MeasureError where no finished run has a measure that was named, nobody knows which way
        it is better, or some are of training data and others not."""
        named = [m for m in dict.fromkeys([*self.named, *self.excluded]) if m not in SETS]
        if absent := [m for m in named if m not in counts]:
            raise MeasureError(
                f"no finished run has {some(map(repr, absent))}; there are "
                f"{some(sorted(counts))}.{did_you_mean(absent, counts)}"
            )
        if unknown := [m for m in self.wanted if not (m in self.declared or self._way(m))]:
            text = f"no direction is known for {some(map(repr, unknown))}."
            ways = UndirectedError.ways_for(unknown, suggestions(unknown), every=True)
            raise UndirectedError(text, ways)
        compared = [m for m in self.left if m in self.named and m not in choosers]
        sides = grouped((m in self.training, m) for m in compared)
        if len(sides) > 1:
            raise MeasureError(
                f"{some(sides[True])} {agree(sides[True], 'is')} of training data, and "
                f"{some(sides[False])} not: they do not rank side by side. Ask for one kind."
            )

    def _learn(self, values: pd.DataFrame, counts: Mapping[str, int], own: bool) -> None:
        """Leave out measures of training data beside others. Where all runs are of others or names
        tell directions, and nobody said what counts, metrics of the data that tell most do."""
        if alone := {*self.named} & {*self.left} & self.training:
            why = "measures of training data were asked for, which stand by themselves"
            self.leave_out({*self.wanted} - alone, "measure", why)
        why = "of training data, which say nothing of new data"
        self.leave_out(self.training - alone, "unasked", why)
        if not self.open or (own and not self.proposed):
            return
        of_most = {m for m, n in counts.items() if 2 * n > len(values) and self._way(m)}
        held = sorted(of_most.difference(self.why_not, NOT_BY_DEFAULT))
        data = {m: known.data if (known := term(m)) else HELD_OUT for m in held}
        best = HELD_OUT if HELD_OUT in data.values() else VALIDATION
        for m in held:
            if data[m] != best:
                why = f"measured on {data[m]} data, and others on held-out data"
                self.leave_out([m], "unasked", why)
            elif twin := _twin(m, held, values):
                self.leave_out([m], "unasked", f"the same as {twin}")
        self.wanted = list(dict.fromkeys([*self.wanted, *held]))

    def _apart(self, values: pd.DataFrame) -> list[Cell]:
        """The few cells that share no measure with all others, unless measures were asked for."""
        there = values[[m for m in self.left if m in values]].notna()
        n = there.sum()
        if self.open and len(values) / 2 < n.max() < len(values):
            return [*values.index[~there[n.idxmax()]]]
        return []

    def _divided(
        self, counts: Mapping[str, int], finished: int
    ) -> tuple[list[str], list[Excluded]]:
        """The measures to use: those that all finished runs have, or some where they were asked
        for, and others of which a reader may ask why."""
        if self.asked is None:
            self.set_name = default_set(m for m in self.left if counts[m] == finished)
            default = SETS.get(self.set_name or "", self.usual)
            beside = {*MEASURES}.difference(default, self.declared)
            self.leave_out(beside, "unasked", _UNASKED)
        asked = self.declared if self.asked is None else self.wanted
        used = [m for m in self.left if counts[m] >= (1 if m in asked else finished)]
        listed = {*counts} if self.asked is None else {*self.wanted, *self.why_not}
        listed -= {*used, *self.of_folds.difference(self.wanted)}
        unused = []
        for m in dict.fromkeys([*self.wanted, *sorted(counts)]):
            if m in listed:
                kind, why = self.why_not.get(m) or ("measure", self._lack(m, counts[m], finished))
                kind = "unasked" if is_bookkeeping(m) or is_cost(m) else kind
                unused.append(Excluded(kind, m, why))
        return used, unused

    def _lack(self, measure: str, having: int, finished: int) -> str:
        """What a measure lacks that is not used, though nothing speaks against it."""
        lacking = f"lacking in {finished - having} of {finished} finished runs"
        if measure in self.wanted:
            return lacking if having else "in no run"
        if is_bookkeeping(measure) or measure in NOT_BY_DEFAULT:
            return _UNASKED
        if self._way(measure):
            return lacking if self.open and having < finished else _UNASKED
        way = proposed_direction(measure)
        suggested = f", or take the one that its name suggests ({way}) by "
        proposed = (suggested, PROPOSED) if way and self.open else ()
        declare = Argument("minimize"), " or ", Argument("maximize")
        return Message(f"{NO_DIRECTION}; declare ", *declare, *proposed)

    def _nothing_in_common(
        self,
        counts: Mapping[str, int],
        finished: int,
        unused: Sequence[Excluded],
        doubts: Sequence[str],
    ) -> MeasureError:
        shown = [*grouped((e.reason, e.name) for e in unused).items()][:_SHOWN]
        left = joined("; ", (Message(f"{some(names, 4)}: ", why) for why, names in shown))
        why: str = Message(
            f"there is no measure in common to {count(finished, 'finished run')} that can be used",
            *((" (", left, ")") if shown else ()),
            ". ",
            MEASURE,
            " with a name takes it as far as runs have it.",
        )
        if len(unused) == 1 and unused[0].undirected:
            why = f"{unused[0].name} is all there is. Say which way it is better."
        text = joined(" ", [*doubts, why])
        ways = self.ways_on(m for m in counts if counts[m] == finished)
        return UndirectedError(text, ways) if ways else MeasureError(text)

    def ways_on(self, metrics: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
        """What gives some metric a direction; empty where somebody has said what counts, or none
        lacks it."""
        lacking = [m for m in metrics if not (self._way(m) or is_bookkeeping(m))]
        lacking = [m for m in lacking if m not in self.why_not][:_SHOWN]
        if not (self.open and lacking):
            return []
        return UndirectedError.ways_for(lacking, suggestions(lacking), every=False)


def _ours(cells: Cells) -> pd.Series:
    """Of which cells our own tag names the method."""
    return cells.rows["method_by"].str.startswith("tag:mleval.")


def _finished_values(cells: Cells) -> tuple[pd.DataFrame, Counter[str]]:
    """The values of cells that finished, and how many have each measure; NoRunsError for none."""
    values = cells.values if cells.finished.all() else cells.values[cells.finished]
    if not len(values):
        raise NoRunsError(
            f"of {count(len(cells.rows), 'selected run')} none finished, so there is nothing to "
            "compare."
        )
    return values, Counter({str(m): int(n) for m, n in values.notna().sum().items() if n})


def _twin(metric: str, others: Sequence[str], values: pd.DataFrame) -> str:
    """The metric that this one is under another name, with the same values in all runs: what
    scikit-learn's `score` is, or val_loss of Keras's validation_loss; empty where there is none."""
    known = term(metric)
    if known is None:
        return ""
    alike = [m for m in others if m != metric]
    if known.measure != "score":  # of names that mean the same the shortest counts
        alike = [m for m in alike if term(m) == known and (len(m), m) < (len(metric), metric)]
    return next((m for m in alike if values[m].equals(values[metric])), "")


def _with_names(
    results: Results, what: str, keep: Iterable[str] | None, drop: Iterable[str]
) -> Results:
    """Results of the methods or datasets that are asked for."""
    names = results.rows[what]
    have, dropped = sorted({*names}), [*drop]
    asked = have if keep is None else [*keep]
    if unknown := sorted({*asked, *dropped}.difference(have)):
        raise NoRunsError(
            f"the selection has no {what} {some(map(repr, unknown))}; it has "
            f"{some(map(repr, have))}.{did_you_mean(unknown, have)}"
        )
    left = results.where(names.isin(asked) & ~names.isin(dropped))
    if not len(left.rows):
        raise NoRunsError(
            f"no {what} is left after the exclusions; the selection has {some(map(repr, have))}."
        )
    return left


def _on_one_scale(results: Results, chosen: Selection, choice: _Choice) -> Results:
    """The results with shares in the place of the percentages that were named; CandidatesError
    where some runs hold shares and others percentages of a measure that may count."""
    values = results.values.copy(deep=False)
    if lacking := [m for m in chosen.percent if m not in values]:
        guess = did_you_mean(lacking, values)
        raise MeasureError(f"no run has {some(map(repr, lacking))} as a percentage.{guess}")
    for m in chosen.percent:
        values[m] = values[m].where(~(values[m] > _MOST_SHARE), values[m] / 100)
    of_others = (m for m in values if m not in chosen.percent and choice.may_count(m))
    for m in filter(is_share, of_others):
        held = values.loc[values[m] != 0, m].dropna()  # 0 is the same on both scales
        is_one, is_other = held.between(0, 1), held.between(_MOST_SHARE, 100, inclusive="right")
        shares, percent = held[is_one], held[is_other]
        if (is_one | is_other).all() and percent.median() > 20 * shares.median():
            fewer = min((percent, shares), key=len)
            text = (
                f"{m} is a percentage in some runs and a share in others: "
                f"{some(results.titles[fewer.index], 4)} "
                f"({count(len(shares), 'run')} up to {shares.max():.4g}, "
                f"{count(len(percent), 'run')} from {percent.min():.4g})."
            )
            way = "divide the percentages by 100", {"percent": [*chosen.percent, m]}
            raise CandidatesError(text, [way], sure=False)
    return replace(results, values=values)


def _study_notes(cells: Cells, used: Sequence[str], chosen: Selection) -> Iterator[str]:
    """Doubts about what the runs say of themselves, and about their values."""
    rows, runs = cells.rows, cells.members
    training = of_training(cells.values.columns).intersection(used)
    if training and not _ours(cells).any():
        yield f"{TRAINING_DOUBT}: says nothing of new data ({some(sorted(training))})."
    best = rows[(rows["selected_among"] > 1) & cells.finished]
    if len(best):
        among = best["selected_among"].astype(str)
        names = best["method"] + " on " + best["dataset"] + " (among " + among + ")"
        why = "Results that were chosen by these very values among several candidates are"
        yield f"{why} optimistic: {some(names, 6)}."
    yield from _called_keys(runs, used)
    yield from _definition_notes(runs, used)
    yield from reader.period_doubts(chosen.method_by, runs.table)
    if DIGEST not in chosen.repeats_by:
        # digests of data of one shape are splits, as is told
        shapes = runs.table.frame["shape"].groupby(runs.rows["dataset"]).agg(["nunique", "min"])
        splits = shapes.index[(shapes["nunique"] == 1) & (shapes["min"] != "")]
        others = runs.rows[~runs.rows["dataset"].isin(splits)]
        yield from _digest_notes(others, "dataset_digest", "the data were not the same in all runs")
    split = "the data were not split in the same way in all runs, so that their folds are no pairs"
    yield from _digest_notes(runs.rows, "split_digest", split)
    # what the definition of a measure cannot give
    for m in (m for m in used if m in MEASURES):
        low, high = MEASURES[m].range
        held = cells.values[m]
        outside = held.index[(held < low - _SLACK) | (held > high + _SLACK)]
        if len(outside):
            yield (
                f"{m} goes from {low:g} to {high:g}, but not on "
                f"{some(f'{d} for {a}' for d, a in outside)} "
                f"({held.min():.4g} to {held.max():.4g} over all). Is it a percentage, or another "
                "measure?"
            )


def _definition_notes(runs: Results, used: Sequence[str]) -> Iterator[str]:
    """Doubts about what the measures are, and under which conventions they were computed."""
    plain = sorted(m for m in used if m in runs.plain and runs.plain[m].any())
    if plain:
        text = (
            f"Taken for measures of these names, though not logged by this project: {some(plain)}."
        )
        if "accuracy" in plain:
            text += " To most, accuracy is the share of whole sets; here it is the Jaccard index."
        yield text
    # of metrics of others with our names it is told already
    ours = [m for m in used if m in MEASURES]
    stated = [m for m in ours if m not in ("hamming_loss", "subset_accuracy", "top1_accuracy")]
    own = ~runs.plain.reindex(columns=stated, fill_value=False).all(axis=1)
    untold = runs.rows["conventions"] == schema.UNKNOWN_CONVENTIONS
    unknown = runs.finished & untold & own
    if stated and unknown.any() and (runs.finished & ~untold).any():  # all alike tell none apart
        which = f"{unknown.sum():,} of {count(int(runs.finished.sum()), 'finished run')}"
        yield f"The conventions for empty sets and ties are unknown for {which}."


def _called_keys(runs: Results, used: Sequence[str]) -> Iterator[str]:
    """Under which names MLflow logged measures, and which may be of different data."""
    for measure in (m for m in used if m in runs.keys):
        keys = runs.keys.loc[runs.keys[measure] != "", measure]
        if not len(keys):
            continue
        yield f"{measure} is what MLflow logged as {some(keys.unique(), 4)}."
        variables = keys.map(lambda key: known.variable if (known := term(key)) else "")
        datasets = runs.rows.loc[keys.index, "dataset"]
        several = variables.groupby(datasets).transform("nunique") > 1
        if several.any():
            yield (
                f"{measure} was measured on several variables on "
                f"{some(sorted({*datasets[several]}))} ({some(sorted({*variables[several]}))}): "
                "are they the same data?"
            )


def _digest_notes(rows: pd.DataFrame, column: str, doubt: str) -> Iterator[str]:
    digests = rows.groupby("dataset")[column].unique()
    differ = {d: schema.differ(texts) for d, texts in digests.items()}
    short = [d for d, texts in digests.items() if max(map(len, texts)) < schema.OWN_DIGEST]
    if differing := [d for d, known in differ.items() if known and d not in short]:
        yield f"On {some(differing)} {doubt} (the tag mleval.{column} differs)."
    if differing := [d for d in short if differ[d]]:
        yield (
            f"MLflow's digests of the data on {some(differing)} differ: these are other data, or "
            "the same with other predictions in the table."
        )
    if unknown := [d for d, known in differ.items() if known is None]:
        yield (
            f"Whether the data were the same in all runs on {some(unknown)} is unknown: some "
            f"have the tag mleval.{column}, others MLflow's own digest."
        )


def _direction_notes(values: pd.DataFrame, selection: Selection) -> Iterator[str]:
    """Doubts about directions that were taken from names, or turned round."""
    ways = ("max", "larger", selection.maximize), ("min", "smaller", selection.minimize)
    told = {*selection.maximize, *selection.minimize}
    untold = [m for m in values if direction_of(m) is None and m not in told]
    sides = grouped((direction_of(m, True), m) for m in untold)
    texts = [f"{size} values of {some(sides[w])} are better" for w, size, _ in ways if w in sides]
    if texts:
        yield f"Taken from their names: {', '.join(texts)}."
    for way, size, names in reversed(ways):
        known = [m for m in names if m in values and m in MEASURES]
        if turned := [m for m in known if MEASURES[m].direction != way]:
            yield (
                f"As declared, {size} values of {some(turned)} count as better; by definition "
                "they are worse."
            )
