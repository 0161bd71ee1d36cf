"""The way to the tracking store: connect quickly or say why not, find experiments, search runs page
by page.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import mlflow
import requests
import sqlalchemy
from mlflow import MlflowClient
from mlflow.entities import Experiment, Run
from mlflow.exceptions import MlflowException
from mlflow.store.db.db_types import DATABASE_ENGINES
from mlflow.tracking.context.registry import resolve_tags

from mlflow_mleval import redaction
from mlflow_mleval.errors import MlevalError, NoRunsError, StoreError
from mlflow_mleval.naming import did_you_mean, some
from mlflow_mleval.redaction import masked, raise_alone
from mlflow_mleval.tracking import conflicts, filters, tag_packing

T = TypeVar("T")
#: Runs that are asked for at a time: more are fewer requests, and what fits into one page is read
#: once; but they take memory.
PAGE = 2_500
#: How MLflow fails on a page with a run whose start time another program has taken away.
_TIMELESS = "start_time cannot be None"
#: What was found by which search, while that is remembered.
_known: ContextVar[dict[tuple[tuple[str, ...], str], list[Run]] | None] = ContextVar(
    "known", default=None
)
#: How often several pages are read at most, until two times in turn they are the same.
_PASSES = 5
#: What MLflow, a database or the network raises; UnicodeError where a password cannot be sent.
_FORESEEN = (
    MlflowException,
    requests.RequestException,
    sqlalchemy.exc.SQLAlchemyError,
    OSError,
    ImportError,
    UnicodeError,
)
#: For the first request only: a server that is not there should be reported in seconds. What the
#: user set goes before.
_QUICK = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


def connect(*, create: bool = False) -> MlflowClient:
    """A client for the store that MLflow is set to.

    Parameters
    ----------
    create : bool
        Whether a database file that does not exist yet is made; reading never makes one.

    Raises
    ------
    StoreError
        There is no such store, or it cannot be reached.
    """
    uri = mlflow.get_tracking_uri()
    with store_errors("open"), _quiet():
        _refuse_split(uri)
        if _is_database(uri):
            _probe_database(uri, create)
        if (file := _sqlite_file(uri)) is None:
            return MlflowClient(uri)
        # MLflow makes the tables of a new file here, and two processes that do it at once leave it
        # broken.
        with conflicts.alone(os.path.realpath(file)):
            return conflicts.patiently(lambda: MlflowClient(uri))


def find_experiments(
    client: MlflowClient, ids: Sequence[str] | None, names: Sequence[str] | None
) -> list[Experiment]:
    """The experiments asked for; without ids and names, those that MLFLOW_EXPERIMENT_ID or
    MLFLOW_EXPERIMENT_NAME name.

    Raises
    ------
    NoRunsError
        One does not exist or is deleted, or none was named; the text lists those that exist.
    """
    ids, names = asked(ids, names)
    if not ids and not names:
        raise NoRunsError(
            "no experiment is chosen. Name one: `experiment_names=[NAME]` or "
            f"`experiment_ids=[ID]`, or set MLFLOW_EXPERIMENT_NAME. {_existing(client)}"
        )
    found: dict[str, Experiment] = {}
    for label, wanted, lookup in (
        ("id ", ids, client.get_experiment),
        ("", names, client.get_experiment_by_name),
    ):
        for name in wanted:
            with quick(), store_errors("read"):
                experiment = _or_none(lookup, str(name))
            if experiment is None:
                raise NoRunsError(
                    f"there is no experiment {label}{name!r}. {_existing(client, str(name))}"
                )
            if experiment.lifecycle_stage != "active":
                raise NoRunsError(
                    f"the experiment {label}{name!r} is deleted. Restore it in MLflow, or choose "
                    "another."
                )
            found[experiment.experiment_id] = experiment
    return list(found.values())


def asked(ids: Sequence[str] | None, names: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The ids and names of experiments that were given; without any, those of the environment."""
    ids, names = list(ids or []), list(names or [])
    if not ids and not names:
        ids = [i for i in [os.environ.get("MLFLOW_EXPERIMENT_ID")] if i]
        names = [n for n in [os.environ.get("MLFLOW_EXPERIMENT_NAME")] if n and not ids]
    return ids, names


def ensure_experiment(client: MlflowClient, name: str) -> str:
    """Id of the experiment of that name, made if there is none.

    Raises
    ------
    StoreError
        It is deleted, or the store cannot be reached.
    """
    with quick(), store_errors("read"):
        experiment = client.get_experiment_by_name(name)
    if experiment is None:
        with store_errors("write to"):
            return conflicts.patiently(lambda: _or_existing(client, name))
    if experiment.lifecycle_stage != "active":
        raise StoreError(
            f"the experiment {name!r} is deleted. Restore it in MLflow, or choose another name."
        )
    return experiment.experiment_id


def _or_existing(client: MlflowClient, name: str) -> str:
    """Make the experiment, unless another process has been quicker."""
    try:
        return client.create_experiment(name)
    except MlflowException as error:
        if (
            error.error_code != "RESOURCE_ALREADY_EXISTS"
            or (found := client.get_experiment_by_name(name)) is None
        ):
            raise
        return found.experiment_id


def all_experiments(client: MlflowClient) -> list[Experiment]:
    """Every active experiment of the store."""
    experiments: list[Experiment] = []
    token = None
    while True:
        with quick(), store_errors("read"):
            page = client.search_experiments(max_results=PAGE, page_token=token)
        experiments += page
        token = page.token
        if not token:
            return experiments


def search(
    client: MlflowClient,
    experiment_ids: Sequence[str],
    filter_string: str = "",
    doubts: list[str] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[Run]:
    """Active runs of the experiments, the first started first, each once.

    A store tells them page by page, and runs that are deleted or added meanwhile move the others:
    what takes several pages is read again until it stays the same. Where that takes too long, a
    doubt says so.

    Parameters
    ----------
    client : MlflowClient
    experiment_ids : sequence of str
    filter_string : str
    doubts : list of str, optional
        Takes what a reader must know.
    progress : callable, optional
        Called as ``progress(done, total)`` after each page, in every round; the total is 0 in the
        first.
    """
    known, key = _known.get(), (tuple(experiment_ids), filter_string)
    if known is not None and key in known:
        return known[key]
    try:
        found = _all_pages(client, experiment_ids, filter_string, doubts, progress)
    except StoreError as error:
        if _TIMELESS not in str(error):
            raise
        if doubts is not None:
            doubts.append("Runs without a start time are left out, for MLflow cannot read them.")
        started = " and ".join(filter(None, [filter_string, "attributes.start_time != -1"]))
        found = _all_pages(client, experiment_ids, started, doubts, progress)
    if known is not None:
        known[key] = found
    return found


def _all_pages(
    client: MlflowClient,
    experiment_ids: Sequence[str],
    filter_string: str,
    doubts: list[str] | None,
    progress: Callable[[int, int], object],
) -> list[Run]:
    """The runs of all pages, read again until they stay the same."""
    before: list[str] | None = None
    found: dict[str, Run] = {}
    for _ in range(_PASSES):
        found.clear()  # those of the round before are let go first: two of them are too much memory
        ids: list[str] = []
        n_pages = 0
        for page in pages(client, experiment_ids, filter_string):
            found |= {run.info.run_id: run for run in page}
            ids += [run.info.run_id for run in page]
            n_pages += 1
            progress(len(ids), len(before or ()))
        if n_pages == 1 or ids == before:
            break
        before = ids
    else:
        if doubts is not None:
            doubts.append(
                "While the runs were read, others were deleted or added all the time: some may "
                "be missing. Read again."
            )
    return list(found.values())


def having(
    client: MlflowClient, experiment_ids: Sequence[str], tag: str, value: str = ""
) -> list[Run]:
    """Active runs with the tag, apart or in the one that programs read; those that have it of this
    value if one is given.
    """
    found = {
        run.info.run_id: run
        for text in tag_packing.having(tag, value)
        for run in search(client, experiment_ids, text)
    }
    return [
        run
        for run in found.values()
        if (run.data.tags.get(tag) == value if value else tag in run.data.tags)
    ]


def opened(run: Run) -> Run:
    """The run, its tags by their names wherever it holds them."""
    run.data.tags.update(tag_packing.unpacked(run.data.tags))
    return run


@contextmanager
def remembered() -> Iterator[None]:
    """While the block runs, the same search is made once."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def pages(
    client: MlflowClient, experiment_ids: Sequence[str], filter_string: str
) -> Iterator[list[Run]]:
    """The pages of a search, in an order that does not change while runs are written; the runs as
    `opened` gives them.
    """
    token = None
    while True:
        with store_errors("search", filter_string):
            page = client.search_runs(
                list(experiment_ids),
                filter_string,
                max_results=PAGE,
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
        yield [opened(run) for run in page]
        token = page.token
        if not token:
            return


def store_name() -> str:
    """The store's URI, fit to be shown."""
    return masked(mlflow.get_tracking_uri())


def redacted(text: str) -> str:
    """A message without the secrets of the store's URI and of this machine."""
    return redaction.redacted(text, mlflow.get_tracking_uri())


def without_passwords(text: str) -> str:
    """What somebody typed, such as a filter, fit to be stored."""
    return redaction.without_passwords(text, mlflow.get_tracking_uri())


def context_tags() -> dict[str, str]:
    """What MLflow knows of where a run comes from, fit to be stored."""

    def hide(record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), ()
        return True

    # It logs what went wrong, which may be how it read the file of credentials.
    logger = logging.getLogger(resolve_tags.__module__)
    logger.addFilter(hide)
    try:
        tags = resolve_tags()
    finally:
        logger.removeFilter(hide)
    return {key: without_passwords(value) for key, value in tags.items()}


@contextmanager
def store_errors(doing: str, filter_string: str = "") -> Iterator[None]:
    """Turn whatever MLflow, a database or the network raises into one clear StoreError without
    credentials.

    The error stands alone, for what led to it often holds the URI. What is not foreseen passes,
    unless it would tell a secret.
    """
    try:
        yield
    except MlevalError:
        raise
    except Exception as error:
        if not isinstance(error, _FORESEEN) and not redaction.tells_a_secret(
            error, mlflow.get_tracking_uri()
        ):
            raise
        text = _first_sentence(error)
        if (
            filter_string
            and isinstance(error, MlflowException)
            and error.error_code == "INVALID_PARAMETER_VALUE"
        ):
            reason = text.partition(" Valid keys are")[0].rstrip(".")
            text = (
                f"MLflow does not accept the filter {filter_string!r}: {reason}. "
                f"{filters.advice(filter_string)}"
            )
        else:
            text = f"cannot {doing} the store {store_name()}: {text} {_advice(error)}".rstrip()
        raise_alone(StoreError(redacted(text)))


def of_one_run(read: Callable[[], T]) -> T | str:
    """What reading one run yields, or why it cannot be read: anybody may write anything into a run.

    Raises
    ------
    StoreError
        It is the store that fails, not what the run holds.
    """
    try:
        return read()
    except StoreError:
        raise
    except Exception as error:
        if isinstance(error, _FORESEEN):
            with store_errors("read"):
                connect().search_experiments(max_results=1)
        return reason(error)


def reason(error: Exception) -> str:
    """Why something cannot be read, to be said after a colon: one line without credentials and
    without a full stop.
    """
    text = _first_sentence(error).rstrip(".")
    return (
        text
        if isinstance(error, ValueError | MlflowException)
        else f"{type(error).__name__}: {text}".rstrip(": ")
    )


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Environment variables that hold while the block runs, unless the user has set them."""
    added = {key: value for key, value in values.items() if key not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for key in added:
            os.environ.pop(key, None)


def quick():
    """Few retries: MLflow's own default keeps trying for minutes."""
    return environment(**_QUICK)


def _existing(client: MlflowClient, wanted: str = "") -> str:
    """Which experiments there are; the one that may be meant first."""
    names = [e.name for e in all_experiments(client)]
    listed = some(map(repr, names))
    text = f"The store {store_name()} has {listed}. `mleval runs` says what they hold."
    return f"{did_you_mean([wanted], names)} {text}".lstrip()


def _is_database(uri: str) -> bool:
    return uri.partition(":")[0].partition("+")[0] in DATABASE_ENGINES


def _sqlite_file(uri: str) -> str | None:
    if not _is_database(uri):
        return None
    url = sqlalchemy.engine.make_url(uri)
    return (
        url.database if url.get_backend_name() == "sqlite" and url.database != ":memory:" else None
    )


def _or_none(lookup, name: str) -> Experiment | None:
    try:
        return lookup(name)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def _refuse_split(uri: str) -> None:
    """Raise StoreError where a part of the password would be taken for host or path, asked of a
    server and logged as such.
    """
    try:
        if _is_database(uri):
            split = "@" in (sqlalchemy.engine.make_url(uri).host or "")
        else:
            url = urlsplit(uri)
            web = url.scheme in ("http", "https")
            if web:
                url.port  # noqa: B018 - raises ValueError where it is no number
            split = masked(uri) != uri and (
                "://" not in uri or (web and "@" in url.path + url.query + url.fragment)
            )
    except (ValueError, sqlalchemy.exc.ArgumentError):
        split = True
    if split:
        raise StoreError(
            f"cannot open the store {masked(uri)}: its URI can be read in more than one way, or "
            "in none. Begin it with a scheme, and percent-encode special characters of user and "
            "password (@ as %40, / as %2F, ? as %3F, # as %23)."
        )


def _probe_database(uri: str, create: bool) -> None:
    """Fail at once where MLflow would retry for two minutes; never make a database file by
    reading.
    """
    url = sqlalchemy.engine.make_url(uri)
    if file := _sqlite_file(uri):
        path = Path(file)
        if not create and not path.exists():
            raise StoreError(
                f"there is no store at {path}. Set MLFLOW_TRACKING_URI to yours, or make one: "
                "mleval import FILE."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
    engine = sqlalchemy.create_engine(url)
    try:
        sqlalchemy.inspect(engine).get_table_names()
    finally:
        engine.dispose()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without MLflow's lines about making the tables of a new database."""
    loggers = [logging.getLogger(name) for name in ("mlflow.store.db.utils", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _advice(error: Exception) -> str:
    if isinstance(error, ImportError):
        return (
            f"Install {error.name}, the driver that SQLAlchemy {sqlalchemy.__version__} wants "
            "for that database."
        )
    if _connection_error(error) is not None:
        return "Is the server running, and is MLFLOW_TRACKING_URI right?"
    return "" if isinstance(error, MlflowException) else "Is MLFLOW_TRACKING_URI right?"


def _connection_error(error: BaseException | None) -> requests.ConnectionError | None:
    """The failure to connect that led to an error of MLflow."""
    while error is not None and not isinstance(error, requests.ConnectionError):
        error = error.__cause__ or error.__context__
    return error


def _first_sentence(error: Exception) -> str:
    """The start of an error's text, on one line, without credentials of the tracking URI."""
    lost = _connection_error(error)
    reason = getattr(lost.args[0] if lost is not None and lost.args else None, "reason", None)
    text = str(reason).rpartition(": ")[2] if reason else str(getattr(error, "orig", None) or error)
    text = " ".join(redacted(text).split())
    text = text if len(text) <= 300 else text[:300] + "…"
    return text if text.endswith((".", "!", "?", "…")) else text + "."
