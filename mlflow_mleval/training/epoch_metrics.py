"""What a run tells of its epochs: measures and a loss profile by step, on their way to the
store.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

import numpy as np
from mlflow.entities import Metric

from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.registry import LABEL_SETS, SETS
from mlflow_mleval.tracking import runs, schema, store
from mlflow_mleval.training.delivery import Delivery
from mlflow_mleval.training.harmless import warn
from mlflow_mleval.training.unsent import home

#: What is logged for each epoch where nobody chose: the usual measures of label sets, the ends of
#: the loss profile and its area, the usual measures of one label, and the hierarchical ones, as far
#: as the evaluation has them.
EPOCH_MEASURES = (
    "hamming_loss",
    "subset_accuracy",
    "f1",
    "micro_f1",
    "macro_f1",
    "ranking_loss",
    "average_precision",
    "soft_hamming_loss",
    "soft_subset_loss",
    "soft_binomial_area",
    *SETS["one-label"],
)
#: Parameters of the loss profile for each epoch at most; each is a chart in MLflow.
_POINTS = 10


class EpochMetrics:
    """Metrics of a run that are not in the store yet: what it does not take now goes with the next.

    Attributes
    ----------
    run_id : str
    pending : list of Metric
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.pending: list[Metric] = []

    def add(self, ev: Evaluation, step: int, measures: Iterable[str] | None = None) -> None:
        """The measures of an epoch, by default the usual ones, and its profile; what is not finite
        is left out.
        """
        now = int(time.time() * 1000)
        values = {schema.EPOCH_PREFIX + m: v for m, v in chosen(ev, measures).items()}
        values.update(_profile_metrics(ev))
        self.pending += [
            Metric(key, float(v), now, step) for key, v in values.items() if math.isfinite(v)
        ]

    def send(self, delivery: Delivery) -> None:
        """Write what is pending, in bounded time; a store that fails is one warning."""

        def write() -> None:
            client = store.connect()
            with store.store_errors("write to"):
                while batch := self.pending[: runs.BATCH]:
                    runs.log(client, self.run_id, batch)
                    del self.pending[: len(batch)]

        if self.pending:
            step = self.pending[-1].step
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
    """The measures of an epoch by name: those asked for that the evaluation has, by default the
    usual ones.
    """
    wanted = {*EPOCH_MEASURES, *SETS["hierarchical"]} if measures is None else set(measures)
    return {m: v for m, v in ev.measures.items() if m in wanted}


def _profile_metrics(ev: Evaluation) -> Mapping[str, float]:
    """The binomial losses of the label sets and, where these lie in [0, 1], of the scores, at a few
    k from end to end.
    """
    if ev.kind != LABEL_SETS:
        return {}
    n_labels = len(ev.label_names)
    ks = np.unique(np.linspace(1, n_labels, min(n_labels, _POINTS)).round().astype(int))
    profiles = {
        kind: ev.profile(ks=ks, kind=kind)
        for kind in ("hard", "soft")
        if kind == "hard" or ev.total.errors is not None
    }
    return {
        schema.epoch_profile_key(kind, int(k), n_labels): v
        for kind, profile in profiles.items()
        for k, v in zip(ks, profile.losses, strict=True)
    }
