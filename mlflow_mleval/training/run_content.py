"""What a run holds of an Evaluation: metrics by step, tags, tables and the run's own report."""

from __future__ import annotations

import io
import json
import math
import platform
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from types import MappingProxyType
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from mlflow.entities import Metric
from pyarrow import parquet

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.curves import percent_curves
from mlflow_mleval.measures.inputs import instance_digest
from mlflow_mleval.measures.owa import Profile, profile_from_means
from mlflow_mleval.measures.registry import LABEL_SETS, MEASURES, SETS
from mlflow_mleval.package import __version__
from mlflow_mleval.report.content.run import RunReport, document
from mlflow_mleval.sentences import MAX_TAG
from mlflow_mleval.store import runs, schema, store
from mlflow_mleval.training.delivery import Delivery, home, warn
from mlflow_mleval.validation import Array, present

#: Parameters of the binomial profile that are logged as steps at most; the files hold more.
_STEPS = 100
#: Of more labels than these, tables hold those that occur.
_LABELS = 2_000
#: Exponents that are logged as steps: whole numbers, evenly spread on a logarithmic axis.
ALPHAS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)


@dataclass(frozen=True)
class RunContent:
    """What a run holds of an Evaluation."""

    ev: Evaluation
    method: str
    dataset: str
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
        keys: list[Any] = [key for key in self.ev.sums if key is not None]
        are_steps = all(type(key) is int and abs(key) < 2**63 for key in keys)
        return keys if are_steps else list(range(len(keys)))

    @cached_property
    def result(self) -> RunReport:
        ratio = None
        if self.n_train:
            ratio = float(np.mean([self.ev.sums[key].n / n for key, n in self.n_train.items()]))
        return RunReport.of(self.ev, self.method, self.dataset, ratio)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Of the profiles, "hard" and "soft": none without label sets, or of no weight."""
        if self.ev.kind != LABEL_SETS or not all(sums.size for sums in self.ev.sums.values()):
            return ()
        return ("hard",) if self.ev.total.errors is None else ("hard", "soft")

    def curves(self) -> dict[str, dict[int, float]]:
        """Profiles, curves of the scores and what was evaluated, as metrics."""
        counts = self.ev.statistics
        curves = {schema.DATA_PREFIX + name: {0: float(n)} for name, n in counts.items()}
        n_labels = len(self.ev.label_names)
        # Beyond 5K the loss is that of the whole set but for e^-5, and would hide the curve.
        alphas = [a for a in ALPHAS if a <= max(5 * n_labels, 10)]
        grids = {"binomial": steps(n_labels), "polynomial": alphas}
        for kind in self.kinds:
            # a loss is a sum of the mean errors, and so its mean over folds is that of their means
            errors = np.mean([part.total.mean_errors(kind) for part in self.parts], axis=0)
            for family, grid in grids.items():
                losses = profile_from_means(errors, family, grid).losses.tolist()
                key = schema.PROFILE_PREFIXES[kind] + family
                curves[key] = dict(zip(grid, losses, strict=True))
        for name, curve in percent_curves(self.ev.total).items():
            curves[schema.CURVE_PREFIX + name] = dict(curve)
        return curves

    def tags(self) -> dict[str, str]:
        """What identifies the result, with the profiles in full."""
        ev = self.ev
        tags: dict[str, str | None] = {
            schema.TAG_CONVENTIONS: ev.conventions,
            schema.TAG_DATASET_DIGEST: ev.truth_digest,
            schema.TAG_SPLIT_DIGEST: ev.split,
            schema.TAG_WEIGHTS: ev.weights_digest,
            schema.TAG_PROPENSITIES: ev.propensities["digest"] if ev.propensities else None,
        }
        if ev.hierarchy is not None:
            options = dict(ev.hierarchy)
            options.pop("measures", None)
            text = json.dumps(options, sort_keys=True, default=str)
            tags[schema.TAG_HIERARCHY_DIGEST] = schema.sha256_of(text)[:16]
        if self.has_folds:
            sizes = schema.encode_fold_sizes(ev.fold_sizes, list(self.n_train.values()))
            sums = self.counts.groupby("fold", sort=False)[[*schema.CELLS]].sum()
            counts = schema.encode_counts(sums.index.tolist(), sums.to_dict("list"))
            short = {schema.TAG_FOLD_SIZES: sizes, schema.TAG_COUNTS: counts}
            tags |= {tag: text for tag, text in short.items() if len(text) <= MAX_TAG}
        parts, steps = [part.total for part in self.parts], self.fold_numbers
        if "hard" in self.kinds:
            wrong = [part.wrong.tolist() for part in parts]
            tags[schema.TAG_PROFILE] = schema.encode_profile(wrong, steps)
        if "soft" in self.kinds:
            errors = [part.mean_errors("soft").tolist() for part in parts]
            n = [part.size for part in parts]
            tags[schema.TAG_SOFT_PROFILE] = schema.encode_soft_profile(errors, n, steps)
        return {tag: text for tag, text in tags.items() if text is not None}

    def files(self, report: RunReport, instances: bool) -> dict[str, Callable[[], str | bytes]]:
        """Artifacts by path, made when they are sent."""
        files: dict[str, Callable[[], str | bytes]] = {
            schema.ARTIFACT_REPORT: document(report).to_html,
            schema.ARTIFACT_DATA: lambda: self.data(report),
        }
        if instances:
            files[schema.ARTIFACT_INSTANCES] = self.instance_table
        return files

    def data(self, report: RunReport) -> bytes:
        """What programs read of the result, packed without the time: the same bytes each time."""
        # a row a measure, with its value over all instances and its interval, else None
        rows = [
            (m, self.result.means.get(m), MEASURES[m].direction, MEASURES[m].family, v)
            for m, v in self.ev.measures.items()
        ]
        columns = ["measure", "value", "better", "family", "over_all_instances"]
        measures = pd.DataFrame(rows, [*self.ev.measures], columns)
        measures = measures.join(report.intervals.table[["ci_low", "ci_high"]])
        if (statistics := self.result.statistics) is not None:
            ends = ["low", "high", "corrected_low", "corrected_high"]
            measures = measures.join(statistics.table[["std", *ends]])
        told = measures.astype(object).where(measures.notna(), None).to_dict("split", index=False)
        data: dict[str, str | bytes] = {"measures.json": json.dumps(told, allow_nan=False)}
        data["counts.parquet"] = _parquet(self.counts)
        if report.profiles:
            data["profile.csv"] = self.profile_table(report.profiles).to_csv(index=False)
        if self.has_folds:
            names = list(map(str, self.ev.folds.index))
            about = pd.DataFrame({"fold": self.fold_numbers, "name": names}, self.ev.folds.index)
            about["n_instances"] = self.ev.fold_sizes
            if self.n_train:
                about["n_train"] = list(map(int, self.n_train.values()))
            data["folds.parquet"] = _parquet(about.join(self.ev.folds))
        if report.curves is not None:
            data["curves.parquet"] = _parquet(self.of_labels(self.ev.curves))
            if len(report.curves.bins):
                data["reliability.parquet"] = _parquet(self.of_labels(self.ev.reliability))
        buffer = io.BytesIO()
        with ZipFile(buffer, "w") as together:
            for name, content in data.items():
                together.writestr(ZipInfo(name), content, ZIP_DEFLATED)
        return buffer.getvalue()

    def report(self, tags: Mapping[str, str]) -> RunReport:
        digests = {"truth": schema.TAG_DATASET_DIGEST, "split": schema.TAG_SPLIT_DIGEST}
        provenance = {f"SHA-256 of the {of}": tags[t] for of, t in digests.items() if t in tags}
        provenance["versions"] = (
            f"python {platform.python_version()}, mlflow-mleval {__version__}, "
            f"numpy {np.__version__}, pandas {pd.__version__}"
        )
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        remarks = []
        if chosen := tags.get(schema.TAG_SELECTED):
            text = f"The method was chosen among {chosen} candidates by these very results"
            remarks.append(f"{text}; they are optimistic.")
        return replace(self.result, provenance=provenance, time=now, remarks=tuple(remarks))

    def of_labels(self, table: Callable[[list[Hashable]], pd.DataFrame]) -> pd.DataFrame:
        """A table of the labels that occur, of many thousand of those with the most instances."""
        support = self.ev.labels["support"]
        rows = table([*support[support > 0].nlargest(_LABELS).index])
        names = [None if label is None else str(label) for label in rows["label"]]
        return rows.assign(label=names)

    def instance_table(self) -> bytes:
        """One row an instance, as parquet; values that it cannot mix as text."""
        table = present(self.ev.instances).reset_index(names=schema.INSTANCE)
        mixed = {name: table[name].map(str) for name in table if table[name].dtype == object}
        truth = instance_digest(table[schema.INSTANCE], present(self.ev.instance_truth))
        return _parquet(table.assign(**mixed), {schema.INSTANCE_TRUTH: truth})

    @cached_property
    def counts(self) -> pd.DataFrame:
        """tp, fp, fn and tn of each label in each fold; of many thousand of those that occur."""
        names = np.array(list(map(str, self.ev.label_names)), dtype=object)
        tables = []
        for part in self.parts:
            tp, predicted, true = part.total.by_label
            tn = np.maximum(part.total.size - predicted - true + tp, 0)
            cells = zip(schema.CELLS, (tp, predicted - tp, true - tp, tn), strict=True)
            table = pd.DataFrame({"label": names, **dict(cells)})
            tables.append(table if len(names) <= _LABELS else table[predicted + true > 0])
        if not self.has_folds:
            return tables[0]
        return pd.concat(tables, keys=self.fold_numbers, names=["fold"]).reset_index("fold")

    def profile_table(self, binomial: Mapping[str, Profile]) -> pd.DataFrame:
        """Loss by family, kind and parameter over all instances; "errors" are the mean errors."""
        polynomial = {kind: self.ev.profile("polynomial", kind=kind) for kind in binomial}
        tables = [
            profile_rows(profile.family, kind, profile.parameters, profile.losses)
            for profiles in (binomial, polynomial)
            for kind, profile in profiles.items()
        ]
        tables += [error_rows(kind, self.ev.total.mean_errors(kind)) for kind in binomial]
        return pd.concat(tables)


def profile_rows(family: str, kind: str, parameters: Any, losses: Any) -> pd.DataFrame:
    """Losses of a family, as they stand in the table of a run."""
    values = {"parameter": parameters, "loss": losses}
    return pd.DataFrame({"family": family, "kind": kind, **values})


def error_rows(kind: str, errors: Array) -> pd.DataFrame:
    """The mean i-th largest errors that are not 0, but for the first of none."""
    there = np.flatnonzero(errors) if errors.any() else np.array([0])
    return profile_rows(schema.ERRORS, kind, there + 1, errors[there])


def steps(n_labels: int, most: int = _STEPS) -> list[int]:
    """The parameters of the binomial profile that are logged as steps, from end to end."""
    return np.unique(np.linspace(1, n_labels, min(n_labels, most)).round().astype(int)).tolist()


def _parquet(table: pd.DataFrame, about: Mapping[bytes, str] = MappingProxyType({})) -> bytes:
    """The table, and what is said of it."""
    rows, buffer = pa.Table.from_pandas(table, preserve_index=False), io.BytesIO()
    rows = rows.replace_schema_metadata(rows.schema.metadata | about)
    parquet.write_table(rows, buffer)
    return buffer.getvalue()


# ---- epochs --------------------------------------------------------------------------------------

#: What is logged for each epoch where nobody chose, as far as the evaluation has it.
EPOCH_MEASURES = (
    *("hamming_loss", "subset_accuracy", "f1", "micro_f1", "macro_f1", "ranking_loss"),
    *("average_precision", "soft_hamming_loss", "soft_subset_loss", "soft_binomial_area"),
    *SETS["one-label"],
)
#: Parameters of the loss profile for each epoch at most; each is a chart in MLflow.
_POINTS = 10


@dataclass
class EpochMetrics:
    """Metrics that are not in the store yet: what it does not take goes with the next."""

    run_id: str
    pending: list[Metric] = field(default_factory=list)

    def add(self, ev: Evaluation, step: int, measures: Iterable[str] | None = None) -> None:
        """The measures of an epoch and its profile, as far as they are finite."""
        now = int(time.time() * 1000)
        values = {schema.EPOCH_PREFIX + m: v for m, v in chosen(ev, measures).items()}
        if ev.kind == LABEL_SETS:  # the loss profile at a few k from end to end
            n_labels = len(ev.label_names)
            ks = steps(n_labels, _POINTS)
            for kind in ("hard", "soft") if ev.total.errors is not None else ("hard",):
                losses = ev.profile(ks=ks, kind=kind).losses
                keys = [schema.epoch_profile_key(kind, k, n_labels) for k in ks]
                values |= dict(zip(keys, losses, strict=True))
        finite = {key: float(v) for key, v in values.items() if math.isfinite(v)}
        self.pending += [Metric(key, v, now, step) for key, v in finite.items()]

    def send(self) -> None:
        """Write what is pending, in bounded time; a store that fails is one warning."""

        def write() -> None:
            client = store.connect()
            while batch := self.pending[: runs.BATCH]:
                runs.log(client, self.run_id, batch)
                del self.pending[: len(batch)]

        if self.pending:
            step, delivery = self.pending[-1].step, Delivery()
            delivery.write(write)
            say(f"epoch {step} was not logged", delivery)


def say(what: str, delivery: Delivery) -> None:
    """One warning where the store has failed, and what becomes of the epochs that follow."""
    if delivery.news:
        warn(
            f"mleval: {what}. {delivery.reason} Epochs are kept in memory until it answers "
            f"again; what it has not taken when the training ends is kept in {home()}, with the "
            f"evaluation. Bring it in later: mleval import {home()}"
        )


def chosen(ev: Evaluation, measures: Iterable[str] | None = None) -> dict[str, float]:
    """The measures of an epoch that were asked for, by default the usual ones."""
    wanted = {*EPOCH_MEASURES, *SETS["hierarchical"]} if measures is None else set(measures)
    return {m: v for m, v in ev.measures.items() if m in wanted}
