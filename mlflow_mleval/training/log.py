"""An Evaluation into an MLflow run: metrics, tags, tables and the run's own report."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mlflow_mleval.analysis.foldstats import FoldStatistics, fold_statistics
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.registry import MEASURES, expand
from mlflow_mleval.tracking import log, schema
from mlflow_mleval.validation import binary_matrix

#: Parameters of the binomial profile that are logged as steps at most; the files hold all.
_STEPS = 100
#: Whole numbers, because steps are; evenly spread on a logarithmic axis.
_ALPHAS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)


def log_evaluation(
    ev: Evaluation,
    *,
    method: str,
    dataset: str,
    run_id: str | None = None,
    experiment_name: str | None = None,
    y_true: Any = None,
    test_indices: Sequence[Any] | Mapping[Hashable, Any] | None = None,
    n_train: int | Sequence[int] | Mapping[Hashable, int] | None = None,
    measures: Iterable[str] | None = None,
    log_instances: bool = False,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Log an Evaluation: measures, folds and loss profiles as metrics, tables and a report as artifacts.

    The run given, else the active run, else a new one takes it; `load_study` reads it back. One run holds one method on one
    dataset. The run counts as complete only when everything is written: logging that was interrupted is completed by calling
    this again with the run's id, and logging the same evaluation twice into a run changes nothing.

    Parameters
    ----------
    ev : Evaluation
    method, dataset : str
        What was evaluated on what; the names under which `load_study` finds it.
    run_id : str, optional
        The run to log into.
    experiment_name : str, optional
        Log into a new run of this experiment, even while a run is active. The experiment is made if there is none.
    y_true : array, pandas.DataFrame or scipy.sparse of 0 and 1, shape (N, K), optional
        The truth in the order of the dataset. Its SHA-256 is logged, so that a comparison can tell whether two runs saw the
        same data.
    test_indices : sequence of R arrays of int, or mapping of fold to array, optional
        Which instances of the dataset each fold tests. Their SHA-256 is logged, so that a comparison by fold can tell
        whether the folds of two runs are pairs.
    n_train : int, sequence of R int, or mapping of fold to int, optional
        Instances that each fold was trained on; tests over folds need it to allow for training data that folds share.
    measures : iterable of str, optional
        Measures or sets of measures to log as metrics; by default all that the evaluation has.
    log_instances : bool
        Write a table with one row an instance too.
    tags : mapping of str to str, optional
        Further tags of the run.

    Returns
    -------
    str
        The run's id.

    Raises
    ------
    TypeError
        ``ev`` is no Evaluation, or a name is no text.
    ValueError
        A name that MLflow cannot store, both `run_id` and `experiment_name`, folds or sizes that do not fit the evaluation.
    StoreError
        The store cannot be reached, or the run holds another result already.
    """
    if not isinstance(ev, Evaluation):
        raise TypeError(f"`ev` must be an Evaluation, got {type(ev).__name__}. Make one: mleval.evaluate(y_true, y_score).")
    for name, text in (("method", method), ("dataset", dataset)):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must be text, got {type(text).__name__}. Pass the {name}'s name.")
        if problem := schema.text_problem(text):
            raise ValueError(f"`{name}` must be a name that MLflow can store, got one that {problem}. Choose another.")
    if run_id is not None and experiment_name is not None:
        raise ValueError("`run_id` and `experiment_name` must not both be given, got both. A run has its experiment already.")
    if log_instances and ev.instances is None:
        raise ValueError("`log_instances` must be False here, got True: the evaluation kept no instances. Evaluate with them.")
    content = _Content(ev, _fold_values(n_train, "n_train", ev))
    identity = dict(tags or {}) | content.tags()
    if y_true is not None:
        identity[schema.TAG_DATASET_DIGEST] = truth_digest(y_true, ev)
    if test_indices is not None:
        identity[schema.TAG_SPLIT_DIGEST] = split_digest(test_indices, ev)
    wanted = None if measures is None else set(expand(measures))
    payload = log.Payload(
        method=method,
        dataset=dataset,
        means={m: v for m, v in content.means.items() if wanted is None or m in wanted},
        folds=content.fold_numbers,
        by_fold={m: v.tolist() for m, v in ev.folds.items() if wanted is None or m in wanted} if len(ev.folds) else {},
        curves=content.curves(),
        tags=identity,
        files=content.files(log_instances),
    )
    return log.write(payload, run_id=run_id, experiment_name=experiment_name)


def truth_digest(y_true: Any, ev: Evaluation) -> str:
    """SHA-256 of the truth: names of the labels, number of instances, and which labels each of them has."""
    truth = binary_matrix(y_true, "y_true")
    if truth.shape[1] != len(ev.label_names):
        raise ValueError(f"`y_true` must have the {len(ev.label_names)} labels of `ev`, got {truth.shape[1]} columns.")
    found = sparse.csr_array(truth)
    found.sort_indices()
    digest = hashlib.sha256(repr((tuple(map(str, ev.label_names)), truth.shape)).encode("utf-8", "surrogatepass"))
    digest.update(found.indptr.astype("<i8").tobytes())
    digest.update(found.indices.astype("<i8").tobytes())
    return digest.hexdigest()


def split_digest(test_indices: Sequence[Any] | Mapping[Hashable, Any], ev: Evaluation) -> str:
    """SHA-256 of which instances each fold tests, whatever their order within the fold."""
    digest = hashlib.sha256()
    for key, indices in _fold_values(test_indices, "test_indices", ev).items():
        found = np.sort(np.asarray(indices))
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ValueError(f"`test_indices` must hold an array of row numbers for each fold, got {indices!r} for fold {key!r}.")
        if len(found) != ev.sums[key].n:
            raise ValueError(f"`test_indices` must hold the {ev.sums[key].n} instances of fold {key!r}, got {len(found)}.")
        digest.update(len(found).to_bytes(8, "little") + found.astype("<i8").tobytes())
    return digest.hexdigest()


def _fold_values(values: Any, name: str, ev: Evaluation) -> dict[Hashable, Any]:
    """One value a fold in the order of the evaluation's folds; nothing where none were given."""
    if values is None:
        return {}
    keys = list(ev.sums)
    if isinstance(values, Mapping):
        if values.keys() != set(keys):
            raise ValueError(f"`{name}` must have the folds of `ev`, {keys!r}, as keys, got {list(values)!r}.")
        return {key: values[key] for key in keys}
    if np.ndim(values) == 0:
        return dict.fromkeys(keys, values)
    if len(values) != len(keys):
        raise ValueError(f"`{name}` must hold one value for each of the {len(keys)} folds of `ev`, got {len(values)}.")
    return dict(zip(keys, values, strict=True))


@dataclass(frozen=True)
class _Content:
    """What a run holds of an Evaluation."""

    ev: Evaluation
    n_train: Mapping[Hashable, int]

    @cached_property
    def parts(self) -> list[Evaluation]:
        """The evaluation of each fold, without instances."""
        light = replace(self.ev, instances=None)
        return [light.fold(key) for key in self.ev.sums]

    @property
    def has_folds(self) -> bool:
        return None not in self.ev.sums

    @cached_property
    def fold_numbers(self) -> list[int]:
        """The folds as steps of metrics: themselves where they are numbers, else counted from 0."""
        keys = [key for key in self.ev.sums if key is not None]
        whole = all(isinstance(key, int) and not isinstance(key, bool) and abs(key) < 2**63 for key in keys)
        return list(keys) if whole else list(range(len(keys)))

    @cached_property
    def means(self) -> dict[str, float]:
        """Mean over folds; a measure that some fold lacks has none, for it would be a mean over other data."""
        if not self.has_folds:
            return self.ev.measures
        return {m: v for m, v in self.ev.folds.mean(skipna=False).items() if not math.isnan(v)}

    @cached_property
    def statistics(self) -> FoldStatistics | None:
        if len(self.ev.folds) < 2:
            return None
        ratio = None
        if self.n_train:
            ratio = float(np.mean([self.ev.sums[key].n / n for key, n in self.n_train.items()]))
        return fold_statistics(self.ev.folds, test_to_train=ratio)

    @cached_property
    def kind(self) -> str | None:
        """Of the profile; None where class sets were given."""
        if "pred_sets" in self.ev.inputs:
            return None
        return "hard" if self.ev.total.errors is None else "soft"

    def losses(self, family: str, kind: str, **parameters: Any) -> np.ndarray:
        """The loss profile of each fold, shape (R, P)."""
        return np.array([part.profile(family, kind=kind, **parameters).losses for part in self.parts])

    @cached_property
    def ks(self) -> list[int]:
        n_labels = len(self.ev.label_names)
        return np.unique(np.linspace(1, n_labels, min(n_labels, _STEPS)).round().astype(int)).tolist()

    def curves(self) -> dict[str, dict[int, float]]:
        """Profiles and what was evaluated, as metrics."""
        found = {schema.DATA_PREFIX + name: {0: float(value)} for name, value in self.ev.statistics.items()}
        if self.kind:
            for family, steps, name in (("binomial", self.ks, "ks"), ("polynomial", _ALPHAS, "alphas")):
                losses = self.losses(family, self.kind, **{name: steps}).mean(axis=0).tolist()
                found[schema.PROFILE_PREFIX + family] = dict(zip(steps, losses, strict=True))
        return found

    def tags(self) -> dict[str, str]:
        found = {schema.TAG_CONVENTIONS: self.ev.conventions}
        if self.ev.hierarchy is not None:
            found[schema.TAG_HIERARCHY_DIGEST] = _digest({k: v for k, v in self.ev.hierarchy.items() if k != "measures"})
        if self.has_folds:
            text = schema.encode_fold_sizes(self.ev.fold_sizes, list(self.n_train.values()))
            if len(text) <= schema.MAX_TAG:
                found[schema.TAG_FOLD_SIZES] = text
        if self.kind:
            by_fold = self.losses("binomial", self.kind, ks=self.ks)
            values = schema.ProfileValues(
                len(self.ev.label_names), self.kind, self.ks, by_fold.mean(axis=0).tolist(),
                by_fold.tolist() if self.has_folds else (),
            )  # fmt: skip
            found[schema.TAG_PROFILE] = schema.encode_profile(values)
        return found

    def files(self, instances: bool) -> dict[str, Callable[[], str | bytes]]:
        """Artifacts by path, made when they are sent."""
        found = {
            schema.ARTIFACT_MEASURES: lambda: _log_table(self.measure_table()),
            schema.ARTIFACT_EVALUATION: lambda: _json(_plain(replace(self.ev, instances=None).to_dict())),
        }
        if "pred_sets" not in self.ev.inputs:
            found[schema.ARTIFACT_LABELS] = lambda: _log_table(self.ev.labels.reset_index())
            found[schema.ARTIFACT_COUNTS] = lambda: _parquet(self.counts())
            found[schema.ARTIFACT_PROFILE] = lambda: self.profile_table().to_csv(index=False)
        if self.has_folds:
            found[schema.ARTIFACT_FOLDS] = lambda: _parquet(self.fold_table())
        if self.statistics is not None:
            found[schema.ARTIFACT_STATISTICS] = lambda: _json(self.statistics.to_dict())
        if instances:
            found[schema.ARTIFACT_INSTANCES] = lambda: _parquet(_named(self.ev.instances))
        return found

    def measure_table(self) -> pd.DataFrame:
        """One row a measure: the value that counts, which way is better, and the value over all instances."""
        rows = [(m, self.means.get(m), MEASURES[m].direction, MEASURES[m].family, v) for m, v in self.ev.measures.items()]
        table = pd.DataFrame(rows, columns=["measure", "value", "better", "family", "over_all_instances"])
        if self.statistics is None:
            return table
        columns = ["std", "low", "high", "corrected_low", "corrected_high"]
        return table.join(self.statistics.table[columns], on="measure")

    def fold_table(self) -> pd.DataFrame:
        """One row a fold: its number and name, sizes, measures."""
        table = self.ev.folds.reset_index(drop=True)
        table.insert(0, "fold", self.fold_numbers)
        table.insert(1, "name", [str(key) for key in self.ev.folds.index])
        table.insert(2, "n_instances", self.ev.fold_sizes.to_numpy())
        if self.n_train:
            table.insert(3, "n_train", [int(n) for n in self.n_train.values()])
        return table

    def counts(self) -> pd.DataFrame:
        """tp, fp, fn and tn of each label in each fold."""
        tables = [part.labels[["tp", "fp", "fn", "tn"]].reset_index() for part in self.parts]
        for number, table in zip(self.fold_numbers, tables, strict=False):
            table.insert(0, "fold", number)
        return pd.concat(tables, ignore_index=True).astype({"label": str})

    def profile_table(self) -> pd.DataFrame:
        """Loss by family, kind and parameter over all instances."""
        kinds = ["hard", *(["soft"] if self.kind == "soft" else [])]
        rows = []
        for family in ("binomial", "polynomial"):
            for kind in kinds:
                profile = self.ev.profile(family, kind=kind)
                rows += [(family, kind, p, v) for p, v in zip(profile.parameters, profile.losses, strict=True)]
        return pd.DataFrame(rows, columns=["family", "kind", "parameter", "loss"])


def _digest(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """The value with names that JSON does not know turned into text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _log_table(table: pd.DataFrame) -> str:
    """A table as MLflow's log_table writes it."""
    rows = [[None if isinstance(v, float) and math.isnan(v) else _plain(v) for v in row] for row in table.to_numpy(object)]
    return _json({"columns": [str(c) for c in table.columns], "data": rows})


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its index as the first column; values that parquet cannot mix in a column as text."""
    table = table.reset_index(names="instance")
    mixed = [name for name in table if table[name].dtype == object]
    return table.assign(**{name: table[name].map(str) for name in mixed})


def _parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()
