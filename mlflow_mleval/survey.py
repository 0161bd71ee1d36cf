"""A Survey: what selected runs hold, before anybody has said what names a method, and which way a
metric is better.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from mlflow_mleval.redaction import without_passwords
from mlflow_mleval.reported import Reported

#: Options of the command line whose names are not those of the arguments.
_FLAGS = {
    "experiment_ids": "-x",
    "experiment_names": "-n",
    "run_ids": "--run-id",
    "filter_string": "--filter",
    "measures": "-m",
    "exclude_measures": "--exclude-measure",
    "minimize": "--min",
    "maximize": "--max",
    "methods": "--method",
    "datasets": "--dataset",
    "exclude_methods": "--exclude-method",
    "exclude_datasets": "--exclude-dataset",
}


@dataclass(frozen=True)
class Candidate:
    """What might name the method, the dataset, the repeats or the folds of a run.

    Attributes
    ----------
    role : {"method", "dataset", "repeats", "folds"}
    rule : str
        As the options take it: param:model.
    reason : str
    chosen : bool
        Whether the commands use it.
    """

    role: str
    rule: str
    reason: str
    chosen: bool = False


@dataclass(frozen=True)
class Way:
    """Something to do next.

    Attributes
    ----------
    what : str
        What it does, or on what condition it is right.
    command : {"rank", "runs", "compare"}
        The command of mleval.
    options : mapping of str to Any
        Its arguments by their names in Python, as `load_study` takes them.
    """

    what: str
    command: str
    options: Mapping[str, Any]

    @property
    def line(self) -> str:
        """As it is typed, with every part quoted that needs it.

        >>> Way("", "rank", {"experiment_names": ("my study",), "maximize": ["auc"], "missing": "worst"}).line
        "mleval rank -n 'my study' --max auc --missing worst"
        """  # noqa: E501
        parts = ["mleval", self.command]
        for key, values in self.options.items():
            for value in [values] if isinstance(values, str) else values:
                flag = _FLAGS.get(key, f"--{key.replace('_', '-')}")
                parts += [f"{flag}={value}"] if str(value).startswith("-") else [flag, str(value)]
        return without_passwords(shlex.join(parts))


@dataclass(frozen=True)
class Survey(Reported):
    """What selected runs hold.

    Attributes
    ----------
    experiments : pandas.DataFrame
        One row an experiment: experiment, experiment_id, runs, finished, failed, running, children,
        reports, last_start, metrics (a tuple of names).
    metrics : pandas.DataFrame
        One row a metric of the finished runs that are no children: metric, runs, low, high,
        direction ("max", "min", or empty where nobody knows it).
    variables : pandas.DataFrame
        One row a param or tag with several values: kind, name, runs, values (their number),
        examples (a tuple).
    n_runs : int
        Finished runs with metrics; those that the tables count.
    candidates : tuple of Candidate
    ways : tuple of Way
        What to do next, the best first.
    foreign : bool
        Whether runs that others logged are read by rules that nobody chose.
    trials : tuple of str
        Metrics that all trials of searches have whose parents have none; empty where there are
        none.
    problem : str
        Why the runs cannot be compared as they were selected; empty where they can.
    notes : tuple of str
        What a reader must know: searches, runs without metrics, what the commands choose.
    source : mapping
        The store and the selection.
    """

    experiments: pd.DataFrame
    metrics: pd.DataFrame
    variables: pd.DataFrame
    n_runs: int
    candidates: tuple[Candidate, ...] = ()
    ways: tuple[Way, ...] = ()
    foreign: bool = False
    trials: tuple[str, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def undirected(self) -> list[str]:
        """Metrics of which nobody knows whether larger or smaller values are better."""
        return self.metrics.loc[self.metrics["direction"] == "", "metric"].tolist()
