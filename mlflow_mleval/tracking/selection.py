"""Which runs a selection names: experiments, run ids, a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlflow import MlflowClient
from mlflow.entities import Run

from mlflow_mleval.errors import NoRunsError
from mlflow_mleval.naming import some
from mlflow_mleval.tracking import store
from mlflow_mleval.tracking.read_run import MODEL, Rule

#: Run ids in one filter.
_IDS_AT_ONCE = 500


def select(
    client: MlflowClient,
    experiment_ids: Sequence[str] | None,
    experiment_names: Sequence[str] | None,
    run_ids: Sequence[str] | None,
    filter_string: str,
    doubts: list[str] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> tuple[list[Run], dict[str, str]]:
    """The runs, the first started first, and the names of the experiments by their ids; `doubts`
    takes what a reader must know.

    Raises
    ------
    NoRunsError
        An experiment or a run is not there, or no experiment was named.
    StoreError
        The store cannot be reached or does not accept the filter.
    """
    if run_ids and not experiment_ids and not experiment_names:
        experiments = store.all_experiments(client)
    else:
        experiments = store.find_experiments(client, experiment_ids, experiment_names)
    names = {e.experiment_id: e.name for e in experiments}
    texts = filters_of(filter_string, run_ids)
    runs = [
        run for text in texts for run in store.search(client, list(names), text, doubts, progress)
    ]
    if lost := set(run_ids or ()) - {r.info.run_id for r in runs}:
        raise NoRunsError(
            f"there is no run {some(sorted(lost))} in the selection. Is it deleted, or in "
            "another experiment?"
        )
    return runs, names


def filters_of(filter_string: str, run_ids: Sequence[str] | None) -> list[str]:
    """The filters to search with; one, unless there are very many run ids."""
    if not run_ids:
        return [filter_string]
    ids = list(dict.fromkeys(run_ids))
    if wrong := [i for i in ids if not i.replace("-", "").isalnum()]:
        raise NoRunsError(f"no run id: {some(map(repr, wrong))}.")
    parts = (ids[i : i + _IDS_AT_ONCE] for i in range(0, len(ids), _IDS_AT_ONCE))
    chosen = [f"attributes.run_id IN ({', '.join(map(repr, part))})" for part in parts]
    return [f"{text} and {filter_string}" for text in chosen] if filter_string.strip() else chosen


def with_models(client: MlflowClient, experiment_ids: Sequence[str], rule: Rule) -> Rule:
    """The rule, knowing the names of LoggedModels where it needs them."""
    if MODEL not in rule.rules:
        return rule
    named, measured = logged_models(client, experiment_ids)
    return replace(rule, models={run: named[model] for run, model in measured.items()} | named)


def logged_models(
    client: MlflowClient, experiment_ids: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The names of the LoggedModels by their ids, and their ids by those of the runs that gave
    metrics of one alone.

    A run of `mlflow.genai.evaluate` is linked to its model in no other way.
    """
    named: dict[str, str] = {}
    by_run: dict[str, set[str]] = {}
    token = None
    while True:
        with store.store_errors("read"):
            page = client.search_logged_models(
                experiment_ids=list(experiment_ids), page_token=token
            )
        for model in page:
            named[model.model_id] = model.name
            for metric in model.metrics or ():
                by_run.setdefault(metric.run_id, set()).add(model.model_id)
        if not (token := page.token):
            break
    return named, {run: next(iter(models)) for run, models in by_run.items() if len(models) == 1}
