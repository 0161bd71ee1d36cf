"""Writes runs, as no other module does, so that doing it twice changes nothing; and takes out of
runs what the package put into them."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT, MLFLOW_RUN_NOTE
from mlflow.utils.rest_utils import http_request

from mlflow_mleval.errors import StoreError
from mlflow_mleval.secrets import raise_alone
from mlflow_mleval.selection import Selection
from mlflow_mleval.sentences import MAX_TAG, count, some, text_problem
from mlflow_mleval.store import artifacts, budget, schema, store
from mlflow_mleval.store.runs_table import read_store, runs_of
from mlflow_mleval.store.schema import packed
from mlflow_mleval.store.store import alone
from mlflow_mleval.validation import check_paths, inside, present

if TYPE_CHECKING:
    from mlflow_mleval.analysis.comparison import Comparison

T = TypeVar("T")
#: What a file is to hold, or what makes it.
Content: TypeAlias = str | bytes | Callable[[], str | bytes]
#: MLflow takes at most 1,000 metrics, tags and parameters a request.
BATCH = 900
#: Files that are sent at once: on a server with several workers a request mostly waits.
THREADS = 8
#: The tag of a run whose parameters MLflow's own autologging has logged.
_ESTIMATOR = "estimator_class"
#: The page's address under the server's.
PAGE = "mleval/"
#: How long a server is asked whether it has the page.
_PAGE_SECONDS = 5
#: The longest parameter that MLflow stores.
MAX_PARAM = 6_000
_MAX_INPUT_NAME, _MAX_INPUT_DIGEST = 500, 36
#: Without MLflow's links to runs and its progress bars on the user's terminal.
quiet = partial(
    budget.environment,
    MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT="true",
    MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR="false",
)


class RunRefusedError(StoreError):
    """The store is well, but this run cannot take the result."""


@dataclass(frozen=True)
class Payload:
    """All that a run is to hold."""

    method: str
    dataset: str
    means: Mapping[str, float]  # by measure; what is not finite is not logged
    folds: Sequence[int] = ()
    by_fold: Mapping[str, Sequence[float]] = field(default_factory=dict)  # NaN for no value
    curves: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # by key, then step
    tags: Mapping[str, str] = field(default_factory=dict)  # beside those of `identity`
    # By artifact path; what makes content is called one after the other, while others are sent.
    files: Mapping[str, Content] = field(default_factory=dict)
    history: Sequence[Metric] = ()  # of the training: no part of the result
    # What the method was set to. A run keeps those that it has; one that MLflow's own autologging
    # made has them all.
    params: Mapping[str, str] = field(default_factory=dict)
    note: str = ""  # the description of the run's page, where it has none
    model_id: str | None = None  # of the LoggedModel; by default that which the run made or took
    status: str = schema.COMPLETE  # or dnf, where the method did not finish
    kind: str = schema.KIND_EVALUATION
    # What tells this result from an equal one, however often it is sent.
    claim: str = field(default_factory=lambda: uuid4().hex, compare=False)

    @property
    def run_status(self) -> str:
        """What the run's end says in MLflow."""
        return "FINISHED" if self.status == schema.COMPLETE else "KILLED"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the results; files follow from them and count by their names."""
        told = self.method, self.dataset, self.means, list(self.folds)
        parts = [*told, self.by_fold, self.curves, self.tags, sorted(self.files)]
        text = json.dumps(parts, sort_keys=True, default=list)
        return schema.sha256_of(text)

    def metrics(self, timestamp: int, model_id: str | None = None, **data: Any) -> list[Metric]:
        """The history, and every finite value of the result as a metric of the data."""
        measures = {schema.METRIC_PREFIX + m: {0: v} for m, v in self.means.items()}
        by_fold = {
            schema.FOLD_PREFIX + m: dict(zip(self.folds, values, strict=True))
            for m, values in self.by_fold.items()
        }
        entries = list(self.history)
        for key, values in {**measures, **by_fold, **self.curves}.items():
            # the page of a model has no use for hundreds of points of curves
            model = model_id if key in measures else None
            entries += [
                Metric(key, float(value), timestamp, int(step), model, **data)
                for step, value in values.items()
                if math.isfinite(value)
            ]
        return entries

    def identity(self) -> dict[str, str]:
        """The tags of a run that is about to hold the result."""
        imported = self.kind == schema.KIND_IMPORT  # and may change
        return {
            schema.TAG_STATUS: schema.INCOMPLETE,
            schema.TAG_KIND: self.kind,
            schema.TAG_SCHEMA: str(schema.SCHEMA_VERSION),
            schema.TAG_METHOD: self.method,
            schema.TAG_DATASET: self.dataset,
            schema.TAG_CLAIM: self.claim,
        } | ({} if imported else {schema.TAG_DIGEST: self.digest})


def write(
    payload: Payload,
    *,
    run_id: str | None = None,
    experiment_name: str | None = None,
    run: Run | None = None,
) -> str:
    """Write to the given run, else to the active one or that of MLFLOW_RUN_ID, else to a new one,
    which ends with it. Writing the same again completes what an interrupted attempt wrote."""
    from mlflow.tracking.fluent import _get_experiment_id

    check_paths(payload.files)
    client = store.connect(create=True)
    if experiment_name is None:
        run_id = target(run_id)
    with quiet():
        if run_id is None:
            if experiment_name is not None:
                experiment_id = store.ensure_experiment(client, experiment_name)
            else:
                with budget.environment(**store.QUICK), store.store_errors("read"):
                    experiment_id = present(_get_experiment_id())
            now = str(int(time.time() * 1000))
            own = payload.identity() | {schema.TAG_OWN_RUN: "true", schema.TAG_UPDATED: now}
            name = schema.run_name(payload.method, payload.dataset)
            run = create(client, experiment_id, name, store.context_tags() | own)
            ends = True
        else:
            run = run or existing(run_id)
            ends = run.data.tags.get(schema.TAG_OWN_RUN) == "true"
            if not _mark(client, run, payload):
                if ends and run.info.status != payload.run_status:
                    end(client, run_id, payload.run_status)
                return run_id
        run_id = run.info.run_id
        try:  # it is marked as incomplete, and readers skip it until all is written
            with store.store_errors("write to"):
                put(client, run, payload, int(run.data.tags[schema.TAG_UPDATED]), ends)
        except BaseException as error:
            with suppress(Exception):
                if isinstance(error, StoreError) and holds_result(held(run_id)):
                    return run_id  # only the store's last answer was lost
            if ends:
                with suppress(Exception):
                    end(client, run_id, "FAILED")
            if not isinstance(error, StoreError):
                raise
            raise StoreError(
                f"{error} Run {run_id} holds the result in part and is skipped; log again with "
                f"run_id={run_id!r} to complete it."
            ) from error
    return run_id


def check(*, run_id: str | None = None, experiment_name: str | None = None, **names: Any) -> None:
    """Raise TypeError or ValueError for names that cannot be stored, or a run and an experiment."""
    for name, text in names.items():
        if not isinstance(text, str):
            raise TypeError(
                f"`{name}` must be text, got {type(text).__name__}. Pass the {name}'s name."
            )
        if problem := text_problem(text):
            raise ValueError(
                f"`{name}` must be a name that MLflow can store, got one that {problem}. Choose "
                "another."
            )
    if run_id is not None and experiment_name is not None:
        raise ValueError(
            "`run_id` and `experiment_name` must not both be given, got both. A run has its "
            "experiment already."
        )


def target(run_id: str | None = None) -> str | None:
    """The run to write to: the given one or that of a model, the active one, or MLFLOW_RUN_ID's."""
    if run_id:
        return store.run_of(store.connect(), run_id) if "/" in run_id else run_id
    active = mlflow.active_run()
    return (active.info.run_id if active else None) or os.environ.get("MLFLOW_RUN_ID")


def held(run_id: str | None, experiment_name: str | None = None) -> dict[str, str]:
    """The tags of the run that `write` would write to; none where that is a new run."""
    client = store.connect(create=True)
    if experiment_name is None:
        run_id = target(run_id)
    if run_id is None:
        client.search_experiments(max_results=1)
        return {}
    return dict(store.opened(client.get_run(run_id)).data.tags)


def experiment_of(run_id: str, run: Run | None = None) -> str:
    """The name of the run's experiment; of a run that has just been read, too."""
    client = store.connect()
    return client.get_experiment((run or client.get_run(run_id)).info.experiment_id).name


def holds_result(tags: Mapping[str, str]) -> bool:
    """Whether a run with these tags holds a result of ours already."""
    return tags.get(schema.TAG_STATUS) in (schema.COMPLETE, schema.DNF)


def settle(client: MlflowClient, claimants: Callable[[], Sequence[Run]], run_id: str) -> str:
    """Keep the first of several whole runs that claim the same, and delete the others; returns its
    id. A store has no lock: whoever looks last sees them all, and all agree on the first."""
    whole = sorted(claimants(), key=age)
    for run in whole[1:]:
        withdraw(client, run.info.run_id)
    return whole[0].info.run_id if whole else run_id


def age(run: Run) -> tuple[int, str]:
    """The order in which runs count that claim the same; it never changes."""
    return run.info.start_time, run.info.run_id


def withdraw(client: MlflowClient, run_id: str) -> None:
    """Delete a run, unless somebody else has done it."""
    try:
        client.delete_run(run_id)
    except StoreError:
        if not is_deleted(client, run_id):
            raise


def is_deleted(client: MlflowClient, run_id: str) -> bool:
    """Whether somebody has deleted the run."""
    return client.get_run(run_id).info.lifecycle_stage != "active"


def create(
    client: MlflowClient,
    experiment_id: str,
    name: str,
    tags: Mapping[str, str],
    start: int | None = None,
) -> Run:
    """A new run, which starts at this time, in milliseconds; by default now."""
    claim = tags.get(schema.TAG_CLAIM)
    name = name[: schema.MAX_RUN_NAME]
    make = partial(client.create_run, experiment_id, start, packed(tags), name)
    # MLflow repeats no request that creates where the server answers 503 or cuts the line, for the
    # run may be there all the same. One that claims a result is looked for, then asked for again.
    try:
        run = make()
    except StoreError as error:
        if claim is None or error.code != store.UNANSWERED:
            raise
        there = store.having(client, [experiment_id], schema.TAG_CLAIM, claim)
        run = there[0] if there else make()
    return store.opened(run)


def log(
    client: MlflowClient,
    run_id: str,
    metrics: Sequence[Metric] = (),
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
) -> None:
    """Write to a run in few requests; tags, made by `packed`, and parameters go with the last."""
    *first, last = [metrics[i : i + BATCH] for i in range(0, len(metrics), BATCH)] or [()]
    for batch in first:
        client.log_batch(run_id, batch)
    own_tags = [RunTag(k, v) for k, v in (tags or {}).items()]
    own_params = [Param(k, v[:MAX_PARAM]) for k, v in (params or {}).items()]
    if last or own_tags or own_params:
        client.log_batch(run_id, last, own_params, own_tags)


def end(client: MlflowClient, run_id: str, status: str) -> None:
    """End a run with a status of MLflow."""
    with quiet():
        client.set_terminated(run_id, status)


def made(content: Content) -> bytes:
    """The content of a file."""
    content = content() if callable(content) else content
    return content.encode() if isinstance(content, str) else content


def send(run: Run, files: Mapping[str, Content], jobs: Sequence[Callable[[], None]] = ()) -> None:
    """Artifacts of a run in threads, while the next are made, beside other jobs; the first failure
    ends it. All paths are checked before anything is written."""
    if not files:
        for job in jobs:
            job()
        return
    repository = artifacts.repository(run.info.run_id, run.info.artifact_uri)
    artifacts.check_targets(repository, files)

    def upload(local: Path, parent: str) -> None:
        folder = None if parent == "." else parent
        budget.within("log_artifact", lambda: repository.log_artifact(str(local), folder))
        budget.mark()

    def uploads(folder: str) -> Iterator[Callable[[], None]]:
        for path, content in files.items():
            local = inside(folder, path)
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(made(content))
            yield partial(upload, local, str(PurePosixPath(path).parent))

    with tempfile.TemporaryDirectory() as folder:
        together(chain(jobs, uploads(folder)))


def together(jobs: Iterable[Callable[[], None]], threads: int = THREADS) -> None:
    """Do the jobs, so many at a time, begun in their order; the first failure ends it."""
    waiting, turn = iter(jobs), threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not failures:
                with turn:
                    job = next(waiting, None)
                if job is None:
                    return
                job()
        except BaseException as error:
            failures.append(error)

    # Those of an executor would hold up the interpreter's end as long as a store does not answer.
    workers = [
        threading.Thread(target=copy_context().run, args=(work,), daemon=True)
        for _ in range(threads)
    ]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except BaseException as error:  # somebody presses Ctrl-C
        failures.append(error)
        raise
    if failures:
        raise failures[0]


def existing(run_id: str) -> Run:
    """A run that `write` may write to, with what it holds."""
    client = store.connect(create=True)
    try:
        run = store.opened(client.get_run(run_id))
    except StoreError as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
        text = f"cannot read the store {store.store_name()}: it has no run {run_id}."
        raise_alone(RunRefusedError(text))
    store.check_active(run.info, f"run {run_id}", RunRefusedError)
    if newer := schema.newer_schema(run.data.tags):
        raise RunRefusedError(f"run {run_id} has {newer}")
    return run


def _mark(client: MlflowClient, run: Run, payload: Payload) -> bool:
    """Mark the run as incomplete; False where it holds just this already."""
    tags, run_id = run.data.tags, run.info.run_id
    same = tags.get(schema.TAG_DIGEST) == payload.digest
    whole = tags.get(schema.TAG_STATUS) not in (None, schema.INCOMPLETE)
    kind = tags.get(schema.TAG_KIND, schema.KIND_EVALUATION)
    if same and whole:
        return False
    if whole or kind != schema.KIND_EVALUATION:
        about = some([f"{tags.get(schema.TAG_METHOD)} on {tags.get(schema.TAG_DATASET)}"])
        what = "a report" if kind == schema.KIND_REPORT else f"the {kind} of {about}"
        raise RunRefusedError(
            f"run {run_id} holds {what} already, and a run is one method on one dataset. Log "
            "into another run."
        )
    # Trying again uses the time of the first try: what that wrote is then no second entry.
    updated = tags.get(schema.TAG_UPDATED, "")
    timestamp = int(updated) if same and updated.isdecimal() else int(time.time() * 1000)
    identity = payload.identity() | {schema.TAG_UPDATED: str(timestamp)}
    if same and schema.TAG_CLAIM in tags:  # of another attempt, which may be brought in later
        del identity[schema.TAG_CLAIM]
    log(client, run_id, tags=(written := packed(identity, tags)))
    tags |= identity | written
    return True


def put(client: MlflowClient, run: Run, payload: Payload, timestamp: int, ends: bool) -> None:
    """Write what a payload holds to its run, and end that if need be: files and frame in threads,
    while the next files are made; then the records."""
    run_id, digest = run.info.run_id, payload.tags.get(schema.TAG_DATASET_DIGEST, "")
    # MLflow's own page of inputs has room for the start of our digests.
    name, start = payload.dataset[:_MAX_INPUT_NAME], digest[:_MAX_INPUT_DIGEST]

    def frame() -> None:
        """What was evaluated, and the run's end."""
        if digest:
            data = Dataset(name, start, "code", json.dumps({"sha256": digest}))
            client.log_inputs(
                run_id, [DatasetInput(data, [InputTag(MLFLOW_DATASET_CONTEXT, "eval")])]
            )
        if ends:
            end(client, run_id, payload.run_status)

    send(run, payload.files, [frame])
    # MLflow writes tags last, and the last of them makes all of it count.
    linked = {"model_id": payload.model_id or store.model_of(run)}
    linked |= {"dataset_name": name, "dataset_digest": start} if digest else {}
    metrics = payload.metrics(timestamp, **linked)
    tags = {key: value for key, value in payload.tags.items() if key not in payload.identity()}
    if len(payload.folds) and schema.TAG_FOLDS not in tags:
        tags[schema.TAG_FOLDS] = schema.encode_folds(
            payload.folds, payload.by_fold, schema.ARTIFACT_FOLDS
        )
    if payload.note and MLFLOW_RUN_NOTE not in run.data.tags:
        tags[MLFLOW_RUN_NOTE] = with_link(payload.note, run.info.experiment_id)
    logged = payload.params if _ESTIMATOR in run.data.tags else run.data.params
    params = {key: value for key, value in payload.params.items() if key not in logged}
    if len(metrics) > BATCH and holds_result(run.data.tags):
        # more than one request: the status, which makes it count, goes with the last
        log(client, run_id, tags={schema.TAG_STATUS: schema.INCOMPLETE})
    status = {schema.TAG_STATUS: payload.status}
    log(client, run_id, metrics, packed(tags, run.data.tags) | status, params)


# --------------------------------------------------------------------------------------------------
# A report stored as a run, so that others find it in MLflow's UI beside the runs that it compares.

_CUT = "\n\n… (cut; the whole is in " + schema.ARTIFACT_SUMMARY + ")"
#: Seconds to wait for other processes that write the same report.
_PATIENCE = 600


def log_comparison(
    page: str,
    summary: str,
    data: Mapping[str, str | bytes],
    comparison: Comparison,
    *,
    asked: Mapping[str, object],
    experiment_name: str | None,
) -> str:
    """Store a report, by default in the experiment of most runs that it compares."""
    others = {f"{schema.ARTIFACT_FOLDER}/{name}": content for name, content in data.items()}
    files = {schema.ARTIFACT_REPORT: page, schema.ARTIFACT_SUMMARY: summary, **others}
    about = about_report(comparison, asked)
    if experiment_name is not None:
        about["experiment_id"] = store.ensure_experiment(store.connect(), experiment_name)
    return log_report(files, summary=summary, **about)


def about_report(comparison: Comparison, asked: Mapping[str, object]) -> dict[str, Any]:
    """What the run of a report about a comparison says of itself, as `log_report` takes it."""
    study, where = comparison.study, ("experiment_ids", "experiment_names")
    ids = study.runs["experiment_id"]
    params = {name: value for name, value in comparison.options.items() if value is not None}
    others = {name: value for name, value in asked.items() if name not in where}
    text = json.dumps([sorted({*ids}), params, others], sort_keys=True, default=str)
    return {
        "experiment_id": str(ids.mode()[0]),
        "run_name": f"report: {len(study.methods)} methods, {len(study.datasets)} datasets",
        "tags": {schema.TAG_REPORT: schema.sha256_of(text)},
        "params": params,
    }


def log_report(
    files: Mapping[str, str | bytes],
    *,
    experiment_id: str,
    run_name: str,
    summary: str = "",
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, object] | None = None,
) -> str:
    """Store a report as a run of kind report, which is never read as results. One with the same tag
    ``mleval.report`` is taken again: its artifacts are replaced, all of them or none."""
    try:
        check_paths(files)
    except ValueError as error:
        raise ValueError(f"`files` must have paths below a folder, but {error}.") from None
    summary = with_link(summary, experiment_id)
    note = summary if len(summary) <= MAX_TAG else summary[: MAX_TAG - len(_CUT)] + _CUT
    all_tags = store.context_tags() | dict(tags or {})
    all_tags |= {schema.TAG_KIND: schema.KIND_REPORT, schema.TAG_SCHEMA: str(schema.SCHEMA_VERSION)}
    client, key = store.connect(), all_tags.get(schema.TAG_REPORT)
    what = f"report {mlflow.get_tracking_uri()} {experiment_id} {key}"
    with (
        alone(what, _PATIENCE) if key else nullcontext(),
        quiet(),
        store.store_errors("write to"),
        tempfile.TemporaryDirectory() as folder,
    ):
        run = next(iter(_same(client, experiment_id, key)), None)
        before = {} if run is None else artifacts.contents_of(run, Path(folder))
        if new := run is None:
            run = create(client, experiment_id, run_name, all_tags)
        run_id, status = run.info.run_id, "FINISHED"
        try:
            client.update_run(run_id, "RUNNING", run_name[: schema.MAX_RUN_NAME])
            send(run, files)
            artifacts.remove(run, before.keys() - files.keys())
            all_tags |= {schema.TAG_UPDATED: str(int(time.time() * 1000)), MLFLOW_RUN_NOTE: note}
            logged = run.data.params
            about = {key: str(v) for key, v in (params or {}).items() if key not in logged}
            log(client, run_id, tags=packed(all_tags, run.data.tags), params=about)
        except BaseException:
            status = "FAILED"
            with suppress(Exception):  # the error that counts is the first
                send(run, before)
                status = run.info.status if before else status
            raise
        finally:
            end(client, run_id, status)
        # of several that were made at once the first stays; by the routes nothing can be deleted
        if new and key and not artifacts.only_routes:
            run_id = settle(client, partial(_same, client, experiment_id, key, True), run_id)
    return run_id


def address(run_id: str) -> str | None:
    """Where a browser finds the report that a run holds; None where no server holds it."""
    server = store.server_address()
    if server is None:
        return None
    experiment_id = store.connect().get_run(run_id).info.experiment_id
    return f"{server}/#{schema.PLACE_OF_REPORT.format(experiment_id, run_id)}"


def page_of(experiment_ids: Iterable[str]) -> str:
    """The page /mleval/ of the experiments, under the server's address; empty where none is."""
    server = mlflow.get_tracking_uri()
    if not (artifacts.only_routes or _has_page(server)):
        return ""
    return f"{PAGE}?{urlencode([('experiment-id', one) for one in experiment_ids])}"


@lru_cache(maxsize=8)
def _has_page(server: str) -> bool:
    """Whether an MLflow server was started with `--app-name mleval`."""
    if store.server_address() is None:
        return False
    asked = {"params": {"file": "link.js"}, "max_retries": 0, "timeout": _PAGE_SECONDS}
    try:
        login = get_default_host_creds(server)
        return http_request(login, f"/{PAGE}static", "GET", **asked).status_code == 200
    except Exception:  # a link is worth no failure
        return False


def with_link(note: str, experiment_id: str) -> str:
    """A run's description, with a link to the page, without a host, where the server has it."""
    page = page_of([experiment_id])
    return f"[Compare the runs of this experiment live]({page})\n\n{note}" if page else note


def _same(
    client: MlflowClient, experiment_id: str, key: str | None, finished: bool = False
) -> list[Run]:
    """The runs that hold the same report, or those that have finished: one, or made at one time."""
    if not key:
        return []
    several = store.search(client, [experiment_id], f"tags.`{schema.TAG_REPORT}` = '{key}'")
    reports = [r for r in several if r.data.tags.get(schema.TAG_KIND) == schema.KIND_REPORT]
    return sorted((r for r in reports if not finished or r.info.status == "FINISHED"), key=age)


# --------------------------------------------------------------------------------------------------
# Take out of runs what the package put into them: its tags and files, and runs that are its own.
# MLflow deletes no metric, so these stay; a deleted run can be restored until ``mlflow gc``.


def forget(selection: Selection, really: bool) -> str:
    """Take out of the selected runs what the package put into them, if `really`; returns what that
    is. Tags go last, so that what fails half-way is found again."""
    client, kept, told = store.connect(), list[str](), Counter[str]()
    for run in runs_of(client, read_store(client, selection)).values():
        run_id, tags = run.info.run_id, run.data.tags
        if not any(key.startswith(schema.TAG_PREFIX) for key in tags):
            continue
        if tags.get(schema.TAG_OWN_RUN) == "true" or tags.get(schema.TAG_KIND) in schema.RECORDS:
            told["own"] += 1
            if really:
                client.delete_run(run_id)
            continue
        written = client.get_run(run_id).data.tags  # several stand in one
        keys = [key for key in written if key.startswith(schema.TAG_PREFIX)]
        files = _own_files(client, run_id)
        told.update(runs=1, tags=len(keys), files=len(files))
        if really:
            artifacts.remove(run, files)
            if _own_files(client, run_id):
                kept.append(run_id)
                continue
            for key in keys:
                client.delete_tag(run_id, key)
    if kept:
        raise StoreError(f"the store deletes no artifacts: those of {some(kept)} stay.")
    tags_and_files = f"{count(told['tags'], 'tag')}, {count(told['files'], 'artifact')}"
    return (
        f"{count(told['runs'], 'run')}: {tags_and_files}\n{count(told['own'], 'run')} that mleval "
        "made, as a whole (mlflow runs restore brings one back)\n"
        "Metrics named mleval/… stay: MLflow deletes none."
    )


def _own_files(client: MlflowClient, run_id: str) -> list[str]:
    own, there = schema.ARTIFACT_FOLDER, client.list_artifacts(run_id)
    return [entry.path for entry in there if entry.path == own or entry.path.startswith(f"{own}_")]
