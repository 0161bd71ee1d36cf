"""What artifacts of a study's runs hold: measures by instance, counts by fold, loss profiles."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from mlflow_mleval.analysis.gate_tests import Changed
from mlflow_mleval.analysis.loss_profiles import Pair, Profiles, gather_profiles
from mlflow_mleval.analysis.pairs import one_table
from mlflow_mleval.errors import (
    IncomparableRunsError,
    MeasureError,
    MissingResultsError,
    NoRunsError,
)
from mlflow_mleval.measures.registry import expand
from mlflow_mleval.selection import Selection
from mlflow_mleval.sentences import grouped, some
from mlflow_mleval.store import artifacts, schema, store
from mlflow_mleval.store.query import load_study, selected_study
from mlflow_mleval.store.repeats import placed
from mlflow_mleval.store.runs_table import read_store, result_name
from mlflow_mleval.store.schema import CELLS, decoded, is_number, read_table
from mlflow_mleval.study import Excluded, Study, Units, left_out
from mlflow_mleval.validation import inside, one_of, refuse_keywords

if TYPE_CHECKING:
    from mlflow import MlflowClient

# --------------------------------------------------------------------------------------------------
# Measures of every instance, from the artifacts of the runs of a study, one column at a time.

#: The column that says which fold tested an instance.
_FOLD = "fold"
#: By how much the mean of a table and the metric logged with it may differ, as a share of the
#: larger, or of one.
_ROUNDING = 1e-6


def changed_means(
    side: str, values: pd.DataFrame, logged: Mapping[Any, float], weights: pd.Series | None = None
) -> list[Changed]:
    """The measures of which the mean is not what was logged with the values.
    >>> changed_means("new", pd.DataFrame({"f1": [1.0, 0.0]}), {"f1": 0.75})
    [Changed(side='new', measure='f1', mean=0.5, logged=0.75)]
    """
    found = []
    for measure, column in values.items():
        there, was = column.dropna(), float(logged.get(measure, np.nan))
        if not len(there) or not np.isfinite(was):
            continue
        of_each = None if weights is None else weights.reindex(there.index).fillna(0.0)
        mean = float(np.average(there, weights=of_each))
        if abs(mean - was) > _ROUNDING * max(1.0, abs(mean), abs(was)):
            found.append(Changed(side, str(measure), mean, was))
    return found


@contextmanager
def instances_of(
    study: Study, dataset: str, wanted: list[str] | None = None, cluster: str | None = None
) -> Iterator[Units]:
    """The values by instance of the methods on one dataset, as long as the context lasts."""
    runs = study.runs[study.runs["dataset"] == dataset].set_index("run_id")
    digests = runs.get("dataset_digest", pd.Series("", runs.index)).fillna("")
    # MLflow's own digest covers predictions, too, where they lie in the table.
    if schema.differ(digests[digests.str.len() == schema.OWN_DIGEST]):
        raise IncomparableRunsError(f"the runs on {dataset} are of other data (other digests).")
    with tempfile.TemporaryDirectory() as folder, store.store_errors("read"):
        tables, broken = _tables(runs["method"], wanted or study.measures, folder)
        by_method = tables.groupby("method", sort=False)["path"].agg(list)
        if len(by_method) < 2:
            remedy = "Log the evaluations with log_instances=True, or have mleval evaluate log "
            remedy = " ".join(broken) or f"{remedy}the rows of the file."
            raise MissingResultsError(
                f"{len(tables)} of {len(runs)} runs on {dataset} carry values by instance; a test "
                f"needs two. {remedy}"
            )
        if tables["truth"].nunique() > 1:
            raise IncomparableRunsError(
                f"the instances of {dataset} have other true labels, or another order, in other "
                "runs."
            )
        notes = [*broken, *_instance_notes(tables, runs["method"], digests, dataset)]
        column, folds = partial(_names_by_instance, tables), None
        with suppress(MeasureError):  # a table cannot be read
            # which fold tested each, where there are several and all tables say the same
            told = [held for _, held in _columns_of(tables, _FOLD)]
            alike = len(told) == len(tables) and all(own.equals(told[0]) for own in told)
            folds = told[0] if alike and told[0].nunique() > 1 else None
        yield Units(
            "instances",
            {m: partial(_mean_by_instance, dataset, m, paths) for m, paths in by_method.items()},
            _shared_measures(tables, study, dataset, wanted),
            None if cluster is None else column(cluster),
            folds,
            column,
            weighted=any(schema.INSTANCE_WEIGHT in held for held in tables["columns"]),
            notes=tuple(notes),
        )


def _tables(
    methods: pd.Series, wanted: Iterable[str], folder: str
) -> tuple[pd.DataFrame, list[str]]:
    """The tables of the runs that have one, in the folder: path, names of columns, digest of the
    truth and method by run id; and why others cannot be read."""
    client = store.connect()

    def fetch(run_id: str) -> tuple[Path, frozenset[str], bytes | None] | None:
        """The file and what it holds, once its columns that are wanted have been read through."""
        place = inside(folder, run_id)
        place.mkdir()
        path = artifacts.download(client, run_id, schema.ARTIFACT_INSTANCES, str(place))
        if path is None:
            return None
        head = decoded(lambda: pq.read_schema(path))
        if schema.INSTANCE not in head.names:
            raise ValueError(f"it has no column {schema.INSTANCE}")
        for measure in (m for m in expand(wanted) if m in head.names):
            _series(path, measure)
        return path, frozenset(head.names), (head.metadata or {}).get(schema.INSTANCE_TRUTH)

    read = artifacts.at_once(fetch, methods.index)
    found = pd.Series(read, methods.index, dtype=object).dropna()
    unread = found[[isinstance(of, str) for of in found]]
    broken = [
        f"The values by instance of {methods[i]} (run {i}) are left out: {why}."
        for i, why in unread.items()
    ]
    held = found.drop(unread.index)
    tables = pd.DataFrame([*held], held.index, ["path", "columns", "truth"], dtype=object)
    return tables.assign(method=methods[held.index]), broken


def _shared_measures(
    tables: pd.DataFrame, study: Study, dataset: str, wanted: list[str] | None
) -> list[str]:
    """The measures that are asked for, or those of the study that all tables have."""
    if not wanted:
        shared = frozenset.intersection(*tables["columns"])
        if measures := [m for m in study.measures if m in shared]:
            return measures
        raise MeasureError(f"the runs on {dataset} share no measure with values by instance.")
    for measure in (measures := expand(wanted)):
        lacking = tables.loc[[measure not in held for held in tables["columns"]], "method"]
        if len(lacking):
            of = some(lacking.unique())
            raise MeasureError(f"there are no values by instance for {measure} of {of}.")
    return measures


def _instance_notes(
    tables: pd.DataFrame, methods: pd.Series, digests: pd.Series, dataset: str
) -> Iterator[str]:
    """Runs without values by instance, data that may differ, and means over repeats."""
    without = methods.drop(tables.index).value_counts(sort=False)
    if len(without):
        lacking = [m if n == 1 else f"{m} ({n} runs)" for m, n in without.items()]
        yield f"No values by instance: {some(lacking)}."
    held, n_tables = digests[tables.index], tables["method"].value_counts(sort=False)
    told = tables["truth"].notna() | ((held != "") & (schema.differ(held) is False))
    if not told.all():
        unsure = tables.loc[~told, "method"].nunique()
        yield (
            f"Whether the data are the same instances of {dataset} is unknown for {unsure} "
            f"of {len(n_tables)} methods: their instances are taken as pairs because they have "
            "the same numbers. Evaluate and log them again."
        )
    if several := [f"{m} ({n})" for m, n in n_tables.items() if n > 1]:
        yield f"Values by instance are means over repeats: {some(several)}."


def _names_by_instance(tables: pd.DataFrame, column: str) -> pd.Series:
    """What a column says of each instance, as the tables that have it agree."""
    if parts := _columns_of(tables, column):
        return one_table(parts, column).sort_index()
    runs = some(tables.index)
    raise MeasureError(f"the instances of runs {runs} have no column {column!r}. Name another.")


def _columns_of(tables: pd.DataFrame, column: str) -> list[tuple[str, pd.Series]]:
    """A column of names or numbers in each table that has it, by instance, with the method."""
    found = []
    for table in tables[[column in held for held in tables["columns"]]].itertuples():
        try:
            found.append((table.method, _series(table.path, column)))
        except ValueError as error:
            what = f"the column {column!r} of run {table.Index} cannot be read: {error}."
            raise MeasureError(what) from error
    return found


def _series(path: Path, column: str) -> pd.Series:
    """A column by instance, of numbers or of names, in the order of the instances' names."""
    head = pq.read_schema(path)
    names = [name for name in (schema.INSTANCE, column) if not is_number(head.field(name).type)]
    columns = [name for name in (schema.INSTANCE, column) if name not in names]
    return read_table(path, columns, names).set_index(schema.INSTANCE)[column].sort_index()


def _mean_by_instance(dataset: str, method: str, paths: Sequence[Path], measure: str) -> pd.Series:
    """A measure as the mean over repeats, which have to be of the same instances."""
    total = _series(paths[0], measure)
    for path in paths[1:]:  # one at a time: all of them may be too much memory
        more = _series(path, measure)
        if not more.index.equals(total.index):
            raise IncomparableRunsError(
                f"the repeats of {method} on {dataset} were evaluated on other instances of it."
            )
        total = total + more
    return total / len(paths)


# --------------------------------------------------------------------------------------------------
# Counts of right and wrong label cells by fold, from the artifacts of the runs of a study.


def with_counts(study: Study) -> Study:
    """The study with tp, fp, fn and tn of every fold beside its measures, summed over labels.

    Tests over folds can then be made on them and on the rates that follow (tpr, fpr ..).

    Parameters
    ----------
    study : Study
        As `load_study` returns it, with values by fold.

    Raises
    ------
    MissingResultsError
        No run of the study carries counts.
    StoreError
        The store cannot be reached.
    """
    runs = study.runs[["dataset", "method", "run_id"]].drop_duplicates("run_id")
    names = pd.Series([*map(result_name, runs["dataset"], runs["method"])], runs["run_id"])
    read = artifacts.at_once(partial(_sums_by_fold, store.connect()), names.index)
    found = dict(zip(names.index, read, strict=True))
    broken = tuple(
        Excluded("artifact", f"{schema.ARTIFACT_COUNTS} of {names[i]} (run {i})", why)
        for i, why in found.items()
        if isinstance(why, str)
    )
    sums = {i: table for i, table in found.items() if isinstance(table, pd.DataFrame)}
    if study.folds is None or not sums:
        why = f" {' '.join(left_out(broken))}" if broken else ""
        raise MissingResultsError(
            f"no run of the study carries counts by fold. Log the evaluations with folds.{why}"
        )
    counts = runs.set_index("run_id").join(pd.concat(sums, names=["run_id"]), how="inner")
    over_repeats = counts.groupby(["dataset", "method", "fold"]).mean()
    folds = study.folds.drop(columns=[c for c in CELLS if c in study.folds]).join(over_repeats)
    without = names.drop([*sums])
    lacking = f"{len(without)} of {len(runs)} runs carry no counts ({some(without)})."
    notes = (*study.notes, lacking) if len(without) else study.notes
    return replace(study, folds=folds, notes=notes, excluded=(*study.excluded, *broken))


def _sums_by_fold(client: MlflowClient, run_id: str) -> pd.DataFrame | None:
    """tp, fp, fn and tn by fold, from the tag, or where it has no room from the artifact."""
    _, text = store.noted(client, run_id)
    if text:
        folds, sums = schema.decode_counts(text)
        return pd.DataFrame(sums, pd.Index(folds, name="fold"), dtype=float)
    counts = artifacts.artifact(client, run_id, schema.ARTIFACT_COUNTS, _label_cells)
    if isinstance(counts, str):
        raise ValueError(counts)
    return None if counts is None else counts.groupby(level="fold").sum().astype(float)


def label_counts(study: Study, dataset: str, method: str) -> pd.DataFrame | None:
    """tp, fp, fn and tn by label and fold, summed over the runs of a method; None without any."""
    of_method = (study.runs["dataset"] == dataset) & (study.runs["method"] == method)
    client, tables = store.connect(), []
    for run_id in study.runs.loc[of_method, "run_id"]:
        table = artifacts.artifact(client, run_id, schema.ARTIFACT_COUNTS, _label_cells)
        if isinstance(table, str):
            raise MissingResultsError(f"{schema.ARTIFACT_COUNTS} of run {run_id}: {table}.")
        if table is not None:
            tables.append(table)
    return pd.concat(tables).groupby(level=[0, 1]).sum() if tables else None


def _label_cells(path: Path) -> pd.DataFrame:
    """A run's table of counts by label and fold."""
    table = read_table(path, ["fold", *CELLS], ["label"])
    if (table[[*CELLS]].to_numpy(float) < 0).any():
        raise ValueError("a count is negative")
    return table.assign(fold=artifacts.by_fold(table)).set_index(["label", "fold"])[[*CELLS]]


def load_folds(measures: Iterable[str] | None = None, **selection: Any) -> Study:
    """The Study that a selection of runs yields, with counts by fold where measures or rates of
    counts are asked for.

    Parameters
    ----------
    measures : iterable of str, optional
        As for `load_study`; also tp, fp, fn, tn and the rates tpr, fpr, tnr, fnr, from metrics of
        these names where runs have them, else from their tables of counts.
    **selection
        The other arguments of `load_study`.
    """
    refuse_keywords(load_study, selection)
    names = None if measures is None else tuple(measures)
    return selected_folds(Selection(**selection, measures=names))


def selected_folds(selection: Selection) -> Study:
    """As `load_folds` says."""
    from mlflow_mleval.analysis.fold_comparison import COUNTS

    counted = [m for m in selection.measures or () if m in COUNTS]
    if not counted:
        return selected_study(selection)
    others = [m for m in selection.measures or () if m not in COUNTS]
    ways = grouped((COUNTS[m], m) for m in CELLS)
    counts = replace(
        selection,
        measures=[*others, *CELLS],
        minimize=[*selection.minimize, *ways["min"]],
        maximize=[*selection.maximize, *ways["max"]],
    )
    if selection.results is not None:
        try:
            return selected_study(counts)
        except MeasureError as error:
            need = f"for {some(counted)} a table needs {some(CELLS)} by fold"
            raise MeasureError(f"{need}: {error}") from error
    selection, table = placed(selection)
    if table is None:
        table = read_store(store.connect(), selection)
    if any("tp" in key for key in table.names["metrics"]):  # also fold3_tp, as a rule may find it
        with suppress(MeasureError):
            return selected_study(counts, table=table)
    return with_counts(selected_study(replace(selection, measures=others or None), table=table))


# --------------------------------------------------------------------------------------------------
# Loss profiles of tracked runs. They travel in tags, so that one search reads measures and
# profiles; where a tag had no room, the artifact mleval/profile.csv is read, which has no folds.

_WHAT = {"hard": "label sets", "soft": "scores"}
#: How profiles come about.
HOW = (
    "Profiles come about where mleval evaluates label sets: by mleval.log_evaluation, "
    "mleval.autolog or a callback while training, or by `mleval evaluate FILE`."
)


def load_profiles(kind: Literal["hard", "soft"] = "hard", **selection: Any) -> Profiles:
    """The loss profiles that a selection of tracked runs carries.

    Parameters
    ----------
    kind : {"hard", "soft"}
        Of the predicted label sets, as in the study of Hüllermeier et al. (2022, section 5), or of
        the scores.
    **selection
        As for `load_study`: experiment_names, methods, datasets, filter_string …

    Returns
    -------
    Profiles

    Raises
    ------
    NoRunsError
        No run of the selection has such a profile; and as `load_study` does.
    MlevalError
        As `load_study` does.
    """
    refuse_keywords(load_study, selection)
    return selected_profiles(Selection(**selection), kind)


def any_profiles() -> bool:
    """Whether any run in the store carries a loss profile."""
    client = store.connect()
    ids = [experiment.experiment_id for experiment in store.all_experiments(client)]
    tags = schema.TAG_PROFILES.values()
    return any(store.search(client, ids, f"tags.`{tag}` LIKE '%'") for tag in tags)


def selected_profiles(selection: Selection, kind: Literal["hard", "soft"] = "hard") -> Profiles:
    """As `load_profiles` says."""
    measures = selection.measures or ["hamming_loss"]
    try:  # the measure that every profile gives: runs need not have any other in common
        study = selected_study(replace(selection, measures=measures))
    except MeasureError:
        study = selected_study(selection)
    except NoRunsError as error:
        if read_store(store.connect(), placed(selection)[0]).ours.any():
            raise
        raise NoRunsError(f"no run of the selection has a loss profile. {HOW}") from error
    profiles = profiles_of(study, kind)
    return replace(
        profiles,
        notes=(*profiles.notes, *left_out(e for e in study.excluded if e.kind in ("run", "tag"))),
    )


def profiles_of(study: Study, kind: Literal["hard", "soft"] = "hard") -> Profiles:
    """The loss profiles of the runs of a study.

    Parameters
    ----------
    study : Study
        As `load_study` returns it.
    kind : {"hard", "soft"}

    Returns
    -------
    Profiles

    Raises
    ------
    NoRunsError
        None of the runs has such a profile.
    StoreError
        The store cannot be reached for runs whose tags do not hold the profile.
    """
    one_of(kind, "kind", schema.TAG_PROFILES)
    tags: dict[Pair, schema.ProfileTag] = {}
    errors: dict[Pair, np.ndarray] = {}
    absent: dict[str, str] = {}
    ids: dict[Pair, str] = {}
    if "run_id" in study.runs:
        ids = study.runs.set_index(["dataset", "method"])["run_id"].to_dict()
    client, pairs = lru_cache(lambda: store.connect()), [*map(tuple, study.values.index)]
    each = artifacts.at_once if study.profiles else map  # results in a table need no store
    read = partial(_profile, client, study, kind, ids)
    for pair, profile in zip(pairs, each(read, pairs), strict=True):
        if isinstance(profile, str):
            absent[result_name(*pair)] = profile
        else:
            tags[pair], errors[pair] = profile
    if not errors:
        reasons = "; ".join(f"{some([name])}: {why}" for name, why in list(absent.items())[:3])
        raise NoRunsError(
            f"no run of the selection has a loss profile of {_WHAT[kind]} ({reasons}). {HOW}"
        )
    notes = [*study.notes]
    if several := [result_name(*pair) for pair in errors if study.n_repeats.get(pair, 1) > 1]:
        notes.append(f"Loss profiles are of the latest repeat only: {some(several, 3)}.")
    if pooled := [result_name(*pair) for pair, tag in tags.items() if tag.omitted or tag.pooled]:
        notes.append(
            f"{len(pooled)} profiles are of all folds together, for instances have weights or a "
            f"tag has no room for more ({some(pooled, 3)})."
        )
    n_labels = {pair: tag.n_labels for pair, tag in tags.items()}
    folds = {pair: tuple(tag.folds) for pair, tag in tags.items()}
    about = {"absent": absent, "runs": study.runs, "notes": notes, "source": study.source}
    return gather_profiles(errors, n_labels, folds, kind, **about)


def _profile(
    client: Callable[[], MlflowClient],
    study: Study,
    kind: str,
    ids: Mapping[Pair, str],
    pair: Pair,
) -> tuple[schema.ProfileTag, np.ndarray] | str:
    """The profile of a run and its mean i-th largest errors, one row a fold, from its tag or the
    artifact there named, or why not."""
    profiles, run_id = study.profiles.get(pair, {}), ids.get(pair, "")
    if kind not in profiles:
        return f"its run carries no profile of {_WHAT[kind]}"
    tag = store.of_one_run(partial(profiles.__getitem__, kind))
    if isinstance(tag, str):
        return f"{tag} (run {run_id})"
    if not tag.omitted:
        rows = np.zeros((len(tag.rows), max(map(len, tag.rows))))  # zeros at the end are left out
        for i, held in enumerate(tag.rows):
            rows[i, : len(held)] = held
        if kind == "soft":
            return tag, rows
        # 1 where at least i labels are wrong
        return tag, np.cumsum(rows[:, ::-1], axis=1)[:, -2::-1] / rows.sum(axis=1, keepdims=True)
    most = min(tag.n_labels, schema.MOST_ERRORS)

    def errors(path: Path) -> np.ndarray:
        """Those of all instances, one row."""
        table = read_table(path, ["parameter", "loss"], ["family", "kind"])
        own = table[(table["family"] == schema.ERRORS) & (table["kind"] == kind)]
        at = own["parameter"].to_numpy(float)
        if not len(own):
            raise ValueError("it holds none of this kind")
        if not ((at % 1 == 0) & (at >= 1) & (at <= most)).all() or len(set(at)) < len(at):
            raise ValueError("its parameters are none, or more than are read")
        row = np.zeros((1, int(at.max())))
        row[0, at.astype(int) - 1] = own["loss"]
        schema.check_errors(row.tolist())
        return row

    row = artifacts.artifact(client(), run_id, schema.ARTIFACT_PROFILE, errors)
    if isinstance(row, np.ndarray):
        return tag, row
    why = f"{row}; " if row else ""
    return f"its run has no {schema.ARTIFACT_PROFILE} that holds it ({why}run {run_id})"
