"""Values by fold that travel in no tag of ours: of runs that others logged, and of our own where
they were too many.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from mlflow_mleval.study import Excluded
from mlflow_mleval.tracking import schema, store
from mlflow_mleval.tracking.artifact_routes import download
from mlflow_mleval.tracking.bounds import computable, open_parquet, read_table
from mlflow_mleval.tracking.searches import children_of, refuse_trials

#: Requests at a time.
_AT_ONCE = 8
Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class FoldRule:
    """Where runs without our tag hold their values by fold.

    ``key:PATTERN``: in metrics of their own, such as ``fold3_f1`` for ``key:fold{fold}_{measure}``;
    ``steps``: in the history of each metric, step = fold; ``children``: in child runs, one a fold,
    numbered in the order in which they started.

    Raises
    ------
    ValueError
        Another rule.
    IncomparableRunsError
        From `values`: children differ in their params, so that they are trials of a search.

    >>> FoldRule("key:cv/{fold}/{measure}").match("cv/3/f1")
    ('f1', 3)
    """

    rule: str

    def __post_init__(self) -> None:
        if self.rule in ("steps", "children"):
            return
        kind, _, pattern = self.rule.partition(":")
        if kind != "key" or any(pattern.count(part) != 1 for part in ("{fold}", "{measure}")):
            raise ValueError(
                "`folds_by` must be one of steps, children, or key:PATTERN with {fold} and "
                "{measure} once each, as in "
                f"key:fold{{fold}}_{{measure}}, got {self.rule!r}."
            )

    def match(self, key: str) -> tuple[str, int] | None:
        """The measure and the fold that a metric key names; None for another key or another kind of
        rule.
        """
        if not self.rule.startswith("key:"):
            return None
        text = re.escape(self.rule.removeprefix("key:"))
        text = text.replace(r"\{fold\}", r"(?P<fold>\d+)").replace(
            r"\{measure\}", "(?P<measure>.+)"
        )
        found = re.fullmatch(text, key)
        return (found["measure"], int(found["fold"])) if found else None

    def values(
        self,
        client: MlflowClient,
        runs: Sequence[Run],
        measures: Collection[str],
        excluded: list[Excluded],
    ) -> dict[str, schema.FoldValues]:
        """By run id, the values by fold of the runs that have any and do not carry our tag; what
        cannot be read goes to the list.

        ``steps`` takes a request per run and measure, ``children`` one paged search, a pattern
        none.
        """
        others = [r for r in runs if schema.TAG_FOLDS not in r.data.tags]
        if self.rule == "steps":
            found = at_once(lambda run: _steps(client, run, measures), others)
        elif self.rule == "children":
            found = _children(client, others)
        else:
            found = [self._keys(run) for run in others]
        read: dict[str, schema.FoldValues] = {}
        for run, folds in zip(others, found, strict=True):
            if isinstance(folds, str):
                excluded.append(
                    Excluded("folds", f"{run.info.run_name} ({run.info.run_id})", folds)
                )
            elif folds is not None:
                read[run.info.run_id] = folds
        return read

    def _keys(self, run: Run) -> schema.FoldValues | None:
        named = ((self.match(key), value) for key, value in run.data.metrics.items())
        return _folds((*at, value) for at, value in named if at is not None)


def elsewhere(
    client: MlflowClient, runs: Mapping[str, str], measures: Collection[str]
) -> dict[str, schema.FoldValues | str | None]:
    """By run id, the values by fold that a tag only points to, or the reason why they cannot be
    read; None where there are none.

    Parameters
    ----------
    client : MlflowClient
    runs : mapping of str to str
        By run id, what the tag says: the path of a table, or a prefix of metrics whose steps are
        the folds.
    measures : collection of str
    """

    def read(item: tuple[str, str]) -> schema.FoldValues | str | None:
        run_id, where = item
        if where.endswith("/"):
            return _history(client, run_id, {m: where + m for m in measures})
        table = artifact(client, run_id, where, lambda path: _fold_table(path, measures))
        if not isinstance(table, pd.DataFrame):
            return table
        return schema.FoldValues(table.index.tolist(), {m: table[m].tolist() for m in table})

    return dict(zip(runs, at_once(read, runs.items()), strict=True))


def artifact(
    client: MlflowClient, run_id: str, path: str, read: Callable[[Path], pd.DataFrame]
) -> pd.DataFrame | str | None:
    """A table among the artifacts of a run, or the reason why it cannot be read; None where there
    is none.
    """

    def table() -> pd.DataFrame | None:
        with tempfile.TemporaryDirectory() as folder:
            local = download(client, run_id, path, folder)
            return None if local is None else read(local)

    return store.of_one_run(table)


def by_fold(table: pd.DataFrame) -> pd.Series:
    """The column fold as whole numbers.

    Raises
    ------
    ValueError
        It holds others.
    """
    fold = table["fold"].to_numpy(float)
    if not ((np.abs(fold) < 2**53) & (fold % 1 == 0)).all():
        raise ValueError("its column fold holds something else than whole numbers")
    return table["fold"].astype(int)


def _fold_table(path: Path, measures: Collection[str]) -> pd.DataFrame:
    held = open_parquet(path, ["fold"]).schema_arrow.names
    table = read_table(path, ["fold", *(m for m in measures if m in held)])
    if table["fold"].duplicated().any():
        raise ValueError("it has a fold twice")
    return table.assign(fold=by_fold(table)).set_index("fold").astype(float)


def at_once(read: Callable[[Item], Found], items: Iterable[Item]) -> list[Found | str]:
    """What reading each run yields, or why it cannot be read; several at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda item: store.of_one_run(partial(read, item)), items))


def _steps(client: MlflowClient, run: Run, measures: Collection[str]) -> schema.FoldValues | None:
    return _history(client, run.info.run_id, {m: m for m in run.data.metrics if m in measures})


def _history(
    client: MlflowClient, run_id: str, keys: Mapping[str, str]
) -> schema.FoldValues | None:
    """Metrics that have several steps; of a step that was logged twice, the later value."""
    found = []
    for measure, key in keys.items():
        history = sorted(client.get_metric_history(run_id, key), key=lambda m: m.timestamp)
        latest = {metric.step: metric.value for metric in history}
        if len(latest) > 1:
            found += [(measure, step, value) for step, value in latest.items()]
    return _folds(found)


def _children(client: MlflowClient, parents: Sequence[Run]) -> list[schema.FoldValues | None]:
    """The finished children of each run."""
    by_parent = children_of(client, parents)
    found: list[schema.FoldValues | None] = []
    for parent in parents:
        children = by_parent[parent.info.run_id]
        refuse_trials(parent, children)
        values = (
            (schema.measure_of(key) or key, fold, value)
            for fold, run in enumerate(children)
            for key, value in run.data.metrics.items()
        )
        found.append(_folds(values) if len(children) > 1 else None)
    return found


def _folds(values: Iterable[tuple[str, int, float]]) -> schema.FoldValues | None:
    """(measure, fold, value) as columns, NaN where the value is no result; None if there are
    none.
    """
    cells = {
        (measure, fold): value if computable(value) else np.nan for measure, fold, value in values
    }
    folds = sorted({fold for _, fold in cells})
    measures = dict.fromkeys(measure for measure, _ in cells)
    columns = {m: [float(cells.get((m, fold), np.nan)) for fold in folds] for m in measures}
    return schema.FoldValues(folds, columns) if cells else None
