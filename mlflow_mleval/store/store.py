"""The way to the tracking store: connect, find experiments, search runs page by page."""

from __future__ import annotations

import gc
import os
import random
import re
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import mlflow
import requests
from mlflow import MlflowClient
from mlflow.entities import Experiment, Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.store.db.db_types import DATABASE_ENGINES
from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD
from mlflow.tracking.context.registry import resolve_tags
from mlflow.utils.logging_utils import suppress_logs
from mlflow.utils.search_utils import SearchUtils
from urllib3.exceptions import ProtocolError

from mlflow_mleval import secrets
from mlflow_mleval.errors import MlevalError, NoRunsError, StoreError
from mlflow_mleval.secrets import masked, raise_alone
from mlflow_mleval.selection import Progress, Selection, in_silence
from mlflow_mleval.sentences import Argument, Message, did_you_mean, some
from mlflow_mleval.store import budget, schema
from mlflow_mleval.validation import present

# --------------------------------------------------------------------------------------------------
# Several processes write to one store: wait for each other, and repeat what a conflict has undone.

T = TypeVar("T")
_TRIES = 12
_WRITES = ("create_", "log_", "set_", "update_", "delete_")
_SECONDS = 0.05, 2.0
#: The code of a failed request that may have been done all the same, as MLflow has it of a 503.
UNANSWERED = "TEMPORARILY_UNAVAILABLE"
#: How databases say that somebody else has been quicker; nothing of the request has been done then.
_CONFLICTS = (
    *("unique constraint", "duplicate key", "duplicate entry", "database is locked", "deadlock"),
    "could not serialize",
)


def patiently(act: Callable[[], T]) -> T:
    """What the call returns, which is tried again where another process came between.
    >>> from unittest.mock import Mock
    >>> patiently(Mock(side_effect=[ValueError("UNIQUE constraint failed: datasets.name"), 3]))
    3
    """
    least, most = _SECONDS
    for attempt in range(_TRIES - 1):
        try:
            return act()
        except Exception as error:
            if not _is_conflict(error):
                raise
        # Processes that met once must not meet again; the state of `random` is the user's.
        time.sleep(min(most, least * 2**attempt) * random.SystemRandom().uniform(0.5, 1.5))
    return act()


@contextmanager
def alone(what: str, seconds: float = 60) -> Iterator[None]:
    """One process of this user and machine at a time for what is named; one that dies frees it."""
    path = _lock_folder() / f"{schema.sha256_of(what)[:24]}.lock"
    with closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if not _is_conflict(error):
                raise
            busy = f"another process has been busy with the same for {seconds:g} seconds"
            raise StoreError(f"{busy}. Try again.") from None
        yield


def private(path: Path) -> Path:
    """Make the folder, or make sure that it is ours alone: others may write beside it."""
    with suppress(FileExistsError):
        path.mkdir(0o700)
    status = path.lstat()
    for_others = stat.S_IMODE(status.st_mode) & 0o077
    ours = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not for_others)
    if not (stat.S_ISDIR(status.st_mode) and ours and os.access(path, os.W_OK | os.X_OK)):
        raise PermissionError(
            f"{path} is not a folder of this user alone. Delete it, or set TMPDIR."
        )
    return path


def _lock_folder() -> Path:
    """A folder of this user alone, in the cache of their home or among temporary files."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    name = f"mleval-locks-{getattr(os, 'geteuid', lambda: 0)()}"
    with suppress(OSError):
        if cache.is_absolute():  # a user without a home has it below "~"
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            return private(cache / name)
    return private(Path(tempfile.gettempdir(), name))


def _is_conflict(error: BaseException) -> bool:
    text = str(error).lower()
    return any(words in text for words in _CONFLICTS)


#: Runs that are asked for at a time: more are fewer requests; but of a database, MLflow makes an
#: object of each metric in this process.
PAGE, _DATABASE_PAGE = 1_000, 200
#: MLflow's code of a filter that it does not accept, and of other arguments.
_INVALID = "INVALID_PARAMETER_VALUE"
#: How MLflow fails where a program has taken a run's start time away; what leaves such runs out.
_TIMELESS = "start_time cannot be None"
_TIMED = "attributes.start_time != -1"
#: Of what is listed in pages, more than any store is known to hold.
MOST = 5_000_000
#: How often several pages are read at most, until no run is deleted meanwhile.
_PASSES = 5
#: What MLflow, a database or the network raises; UnicodeError where a password cannot be sent.
_FORESEEN = MlflowException, sqlite3.Error, OSError, ImportError, UnicodeError
#: Few retries, for a server that is not there should be reported in seconds: MLflow's own default
#: keeps trying for minutes. What the user set goes before.
QUICK = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
#: What MLflow and its library tell when they make the tables of a new database.
_OF_TABLES = re.compile("database tables|^(Context|Will|Running) ")


def connect(*, create: bool = False) -> MlflowClient:
    """A client for the store that MLflow is set to."""
    uri = mlflow.get_tracking_uri()
    with (
        store_errors("open"),
        suppress_logs("mlflow.store.db.utils", _OF_TABLES),
        suppress_logs("alembic.runtime.migration", _OF_TABLES),
    ):
        _refuse_split(uri)
        place = place_of(uri)

        def opened() -> MlflowClient:
            if place.file is not None:
                if not create and not place.file.exists():  # reading makes none
                    raise StoreError(
                        f"there is no store at {place.file}. Set MLFLOW_TRACKING_URI to yours, or "
                        "make one: mleval import FILE."
                    )
                place.file.parent.mkdir(parents=True, exist_ok=True)
            if place.url is not None:
                import sqlalchemy

                # fails at once where MLflow would retry for minutes
                timeout = budget.connecting(place.url.get_dialect().driver)
                engine = sqlalchemy.create_engine(place.url, connect_args=timeout)
                try:
                    sqlalchemy.inspect(engine).get_table_names()
                finally:
                    engine.dispose()
            if place.file is None:
                return _Client(uri)
            # MLflow makes the tables of a new file: two processes at once would leave it broken
            with alone(os.path.realpath(place.file)):
                return patiently(lambda: _Client(uri))

        return budget.within("connect", opened) if place.elsewhere else opened()


def server_address() -> str | None:
    """The address of the MLflow server, without a login; None where the store is none."""
    uri = urlsplit(mlflow.get_tracking_uri())
    if uri.scheme not in ("http", "https"):
        return None
    return f"{uri.scheme}://{uri.netloc.rpartition('@')[2]}{uri.path.rstrip('/')}"


class _Client(MlflowClient):
    """A client that asks as long as somebody waits, and writes again what a conflict has undone;
    what fails is a StoreError. A store is asked quickly until it answers, and after a failure."""

    _answers = False

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        if name.startswith("_") or not callable(method):
            return method

        def ask(*args: Any, **parts: Any) -> Any:
            budget.go_on()
            act = partial(method, *args, **parts)
            if place_of(self.tracking_uri).elsewhere:
                act = partial(budget.within, name, act)
            writes = name.startswith(_WRITES)
            try:
                with (
                    store_errors("write to" if writes else "read"),
                    nullcontext() if self._answers else budget.environment(**QUICK),
                ):
                    answer = patiently(act) if writes else act()
            except StoreError:
                self._answers = False
                raise
            self._answers = True
            budget.mark()
            return answer

        return ask


class _Place(NamedTuple):
    """Of a store the URL of a database, the file of SQLite, and whether it is no file of this
    machine, but something that may not answer."""

    url: Any
    file: Path | None
    elsewhere: bool


@lru_cache(maxsize=32)
def place_of(uri: str) -> _Place:
    """Where a store is."""
    if uri.partition(":")[0].partition("+")[0] not in DATABASE_ENGINES:
        return _Place(None, None, "://" in uri and not uri.startswith("file:"))
    from sqlalchemy.engine import make_url  # a third of what autologging would import

    url = make_url(uri)
    is_lite, name = url.get_backend_name() == "sqlite", url.database or ":memory:"
    return _Place(url, Path(name) if is_lite and name != ":memory:" else None, not is_lite)


def prepare() -> None:
    """What a busy machine makes slow: MLflow's imports, the tables of a new SQLite store."""
    uri = mlflow.get_tracking_uri()
    with store_errors("open"):
        _refuse_split(uri)
        place = place_of(uri)
        if place.url is not None:
            from mlflow.store.tracking import sqlalchemy_store  # noqa: F401
        if place.file is None:
            return
        address = f"{place.file.absolute().as_uri()}?mode=ro"
        with alone(os.path.realpath(place.file)):
            try:  # whether MLflow's last step in making the tables is done, or others are at work
                with closing(sqlite3.connect(address, uri=True, timeout=0)) as database:
                    made = bool(database.execute("SELECT 1 FROM alembic_version").fetchall())
            except sqlite3.Error as error:
                made = _is_conflict(error)
    if not made:
        connect(create=True)


def check_unlocked(seconds: float = 0.1) -> None:
    """Raise StoreError where another process keeps a SQLite store locked for so long."""
    with store_errors("write to"):
        file = place_of(mlflow.get_tracking_uri()).file
        if file and file.exists():
            with closing(sqlite3.connect(file, timeout=seconds, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")


def find_experiments(
    client: MlflowClient, ids: Sequence[str] | None, names: Sequence[str] | None
) -> list[Experiment]:
    """The experiments asked for, else those that MLFLOW_EXPERIMENT_ID or _NAME name."""
    ids, names = asked(ids, names)
    if not ids and not names:
        there = f", or set MLFLOW_EXPERIMENT_NAME. {_existing(client)}"
        raise NoRunsError(Message("no experiment is chosen. Name one: ", EXPERIMENTS, there))
    found: dict[str, Experiment] = {}
    for label, wanted in (("id ", ids), ("", names)):
        for name in map(str, wanted):
            experiment = None if label else _or_none(client.get_experiment_by_name, name)
            if experiment is None and (label or re.fullmatch(r"\d{1,20}", name)):
                experiment = _or_none(client.get_experiment, name)
            if experiment is None:
                raise NoRunsError(
                    f"there is no experiment {label}{name!r}. {_existing(client, name)}"
                )
            if not experiment.experiment_id:
                raise StoreError(
                    f"{store_name()} gave no experiment {name!r}. Is it an MLflow server?"
                )
            check_active(experiment, f"the experiment {label}{name!r}", NoRunsError)
            found[experiment.experiment_id] = experiment
    return [*found.values()]


def check_active(held: Any, what: str, refused: type[MlevalError]) -> None:
    """Raise the error where an experiment or a run is deleted."""
    if held.lifecycle_stage != "active":
        raise refused(f"{what} is deleted. Restore it in MLflow, or choose another.")


def asked(ids: Sequence[str] | None, names: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The ids and names of experiments that were given; without any, those of the environment."""
    if ids or names:
        return [*(ids or ())], [*(names or ())]
    if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return [number], []
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
    return [], [name] if name else []


def ensure_experiment(client: MlflowClient, name: str) -> str:
    """Id of the experiment of that name, made if there is none."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return client.create_experiment(name)
        except StoreError as error:
            if error.code != "RESOURCE_ALREADY_EXISTS":
                raise
        experiment = present(client.get_experiment_by_name(name))  # another process was quicker
    check_active(experiment, f"the experiment {name!r}", StoreError)
    return experiment.experiment_id


def all_experiments(client: MlflowClient) -> list[Experiment]:
    """Every active experiment of the store."""
    ask = partial(client.search_experiments, max_results=PAGE)
    return [*listed(ask, lambda experiment: experiment.experiment_id, "experiments")]


def search(
    client: MlflowClient,
    experiment_ids: Sequence[str],
    filter_string: str = "",
    doubts: list[str] | None = None,
    progress: Progress = in_silence,
    made: Callable[[Iterable[Run]], Any] = list,
) -> Any:
    """Active runs of the experiments, the first started first, each once: a list, or what else is
    `made` of them as they come. `doubts` takes what a reader must know."""
    told = [] if doubts is None else doubts
    n, n_pages, last = 0, 0, ""

    def each(total: int) -> Iterator[Run]:
        nonlocal n, n_pages, last
        n = n_pages = 0
        for page in pages(client, experiment_ids, filter_string):
            n, n_pages = n + len(page), n_pages + 1
            last = page[-1].info.run_id if page else last
            yield from page
            progress(n, total)  # of 0 in the first pass, in which nobody knows

    found = None
    try:
        for _ in range(_PASSES):
            found = None  # that of the pass before is let go first: both are too much memory
            found = made(each(n))
            if n_pages == 1:
                return found
            place = SearchUtils.create_page_token(n - 1)
            try:  # a run without a start time, which no later page shows, is an error here
                page = _page_of_runs(client, experiment_ids, filter_string, 1, token=place)
            except StoreError as error:
                if error.code == _INVALID:  # tokens of another kind
                    return found
                raise
            if [run.info.run_id for run in page] == [last]:
                return found
    except StoreError as error:
        if _TIMELESS not in str(error) or filter_string.endswith(_TIMED):
            raise
        told.append("Runs without a start time are left out, for MLflow cannot read them.")
        timed = filter_of(filter_string, _TIMED)
        return search(client, experiment_ids, timed, told, progress, made)
    told.append("Runs came and went while they were read: some may be missing. Read again.")
    return found


def filter_of(*conditions: str) -> str:
    """The filter that takes what all of these take, as far as they say anything."""
    return " and ".join(condition for condition in conditions if condition.strip())


def having(
    client: MlflowClient, experiment_ids: Sequence[str], tag: str, value: str = ""
) -> list[Run]:
    """Active runs with the tag, one of those for programs, of this value if one is given."""
    found = search(client, experiment_ids, schema.filter_of_packed(tag, value))
    held = (run for run in found if tag in run.data.tags)
    return [run for run in held if value in ("", run.data.tags[tag])]


#: What is noted of runs that were read, by store and run, and of how many this is kept.
_noted: dict[str, dict[str, tuple[str, str]]] = {}
_MOST_NOTED = 20_000


def noted(client: MlflowClient, run_id: str) -> tuple[str, str]:
    """Where the artifacts of a run are said to lie, and the tag of its counts; both empty where it
    has none. Asks nothing of a run that a search has read."""
    notes = _noted.setdefault(mlflow.get_tracking_uri(), {})
    if run_id not in notes:
        notes[run_id] = _note(opened(client.get_run(run_id)))
    return notes[run_id]


def _note(run: Run) -> tuple[str, str]:
    tags = run.data.tags
    imported = tags.get(schema.TAG_KIND) == schema.KIND_IMPORT  # from a table, without artifacts
    return "" if imported else str(run.info.artifact_uri), tags.get(schema.TAG_COUNTS, "")


def _noted_page(runs: Iterable[Run]) -> list[Run]:
    """The runs of a page, opened and noted, which share the text of their keys. What MLflow keeps
    of each metric of ours beside its value is dropped, for it is most of the memory."""
    if sum(map(len, _noted.values())) > _MOST_NOTED:
        _noted.clear()
    notes, page = _noted.setdefault(mlflow.get_tracking_uri(), {}), [*runs]
    for run in page:
        data = run.data
        data._metrics = {sys.intern(key): value for key, value in data.metrics.items()}
        data._tags = {sys.intern(key): text for key, text in data.tags.items()}
        notes[run.info.run_id] = _note(opened(run))
        if schema.TAG_METHOD in data.tags:
            data._metric_objs = []
    return page


def opened(run: Run) -> Run:
    """The run, its tags by their names wherever it holds them."""
    run.data.tags.update(schema.unpacked(run.data.tags))
    return run


def pages(
    client: MlflowClient, experiment_ids: Sequence[str], filter_string: str
) -> Iterator[list[Run]]:
    """The pages of a search by start time and run id; the runs as `opened` gives them."""
    # Each page begins with the start time that ended the one before, not with a number: runs that
    # are deleted or added meanwhile move none of the others. Runs of the same time come again, and
    # are left out; where they fill a page, the next one is larger.
    seen: set[str] = set()
    since: int | None = None
    usual = PAGE if place_of(mlflow.get_tracking_uri()).url is None else _DATABASE_PAGE
    size = usual
    while True:
        page = _page_of_runs(client, experiment_ids, filter_string, size, since)
        new = [run for run in page if run.info.run_id not in seen]
        seen.update(run.info.run_id for run in new)
        is_last = not page.token
        if new or is_last:
            yield _noted_page(new)
        if is_last:
            return
        full = bool(page) and page[-1].info.start_time == since
        _check_end(seen, "runs", bool(new) or (full and size < SEARCH_MAX_RESULTS_THRESHOLD))
        size = min(2 * size, SEARCH_MAX_RESULTS_THRESHOLD) if full else usual
        since = page[-1].info.start_time


def _page_of_runs(
    client: MlflowClient,
    experiment_ids: Sequence[str],
    filter_string: str,
    size: int,
    since: int | None = None,
    token: str | None = None,
) -> Any:
    """A page of runs in their order, which MLflow makes complete with the run id."""
    later = "" if since is None else f"attributes.start_time >= {since}"
    enabled = gc.isenabled()
    gc.disable()  # a search for cycles goes through all imports, and takes longer than the page
    try:
        return client.search_runs(
            list(experiment_ids),
            filter_of(filter_string, later),
            max_results=size,
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
    except StoreError as error:
        if filter_string and error.code == _INVALID:
            why = error.reason.partition(" Valid keys are")[0].rstrip(".")
            text = redacted(f"MLflow does not accept the filter {filter_string!r}: {why}. ")
            error.args = (Message(text, ADVICE),)
        raise
    finally:
        if enabled:
            gc.enable()


def paged(ask: Callable[..., Any], identity: Callable[[Any], str], what: str) -> Iterator[Any]:
    """The pages of a search, each asked for with the token of the one before."""
    seen: set[str] = set()
    token = None
    while True:
        page = ask(page_token=token)
        yield page
        if not (token := page.token):
            return
        known = len(seen)
        seen.update(map(identity, page))
        _check_end(seen, what, len(seen) > known)


def listed(ask: Callable[..., Any], identity: Callable[[Any], str], what: str) -> Iterator[Any]:
    """All that a search of MLflow's gives, page after page."""
    return chain.from_iterable(paged(ask, identity, what))


def _check_end(seen: Collection[str], what: str, goes_on: bool) -> None:
    """Raise StoreError where what is listed comes to no end."""
    if not goes_on:
        raise StoreError(
            f"the store {store_name()} comes to no end: it names one more page of {what} after one "
            "that brought nothing new. Is it well?"
        )
    if len(seen) > MOST:
        raise StoreError(f"the store {store_name()} names more than {MOST:,} {what}. Choose fewer.")


# --------------------------------------------------------------------------------------------------
# Models, as MLflow names them, and the run behind each.

_MODELS = "models:/"
_FORMS = "models:/NAME/VERSION, models:/NAME@ALIAS or models:/ID"
_NAMED = re.compile("models:/([^/]*?[^/@])(?:/([^/]+)|@([^/@]+))?")


def run_of(client: MlflowClient, name: str) -> str:
    """The id of the run that made ``models:/NAME/VERSION``, ``models:/NAME@ALIAS`` or
    ``models:/ID``; what names no model is the id of a run."""
    if not is_model(name):
        return name
    version, run_id, known = version_of(client, name), None, ""
    model_id = name.removeprefix(_MODELS) if version is None else id_of_version(version)
    if version is not None:
        source, run_id = without_passwords(str(version.source)), version.run_id
        known = f": version {version.version} was registered from {source}"
    if model_id and not run_id:
        ask = partial(client.get_logged_model, model_id)
        run_id = _of_model(client, model_id, ask).source_run_id
    if not run_id:
        raise NoRunsError(f"no run is known to have made {name}{known}. Name the run itself.")
    return run_id


def _of_model(client: MlflowClient, model: str, ask: Callable[[], Any]) -> Any:
    """The answer; where the store has no such model, an error that says which there are."""
    try:
        return ask()
    except StoreError as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
    registered = [each.name for each in client.search_registered_models(max_results=1_000)]
    raise NoRunsError(
        f"there is no model {model!r}.{did_you_mean([model], registered)} Registered in "
        f"{store_name()}: {some(map(repr, registered)) or 'none'}. Name one as {_FORMS}."
    )


def is_model(name: str) -> bool:
    """Whether it names a model or a version of one, and not a run."""
    return name.startswith(_MODELS)


def pinned(*names: str) -> list[str]:
    """``models:/NAME/VERSION`` in place of aliases and "latest"; any other names as they are."""
    if not any(map(is_model, names)):
        return [*names]
    client = connect()
    versions = ((name, version_of(client, name)) for name in names)
    return [name if v is None else f"{_MODELS}{v.name}/{v.version}" for name, v in versions]


def with_runs_of_models(client: MlflowClient, selection: Selection) -> Selection:
    """The selection with runs in the place of the models that were named for them."""
    return replace(selection, run_ids=tuple(run_of(client, name) for name in selection.run_ids))


def version_of(client: MlflowClient, name: str) -> ModelVersion | None:
    """The version that is named by its number, as "latest" or by alias; None of other names."""
    if not is_model(name):
        return None
    if (parts := _NAMED.fullmatch(name)) is None:
        raise NoRunsError(f"a model must be named as {_FORMS}, got {name!r}.")
    model, version, alias = parts.groups("")
    if not (version or alias):
        return None
    aliases = _of_model(client, model, partial(client.get_registered_model, model)).aliases
    known = client.search_model_versions(f"name = {model!r}")
    versions = {str(each.version): each for each in sorted(known, key=lambda v: int(v.version))}
    number = str(aliases.get(alias, version))
    if number == "latest" and versions:
        number = [*versions][-1]
    if number not in versions:
        at = [f"@{name}" for name in aliases]
        wanted = f"@{alias}" if alias else version
        raise NoRunsError(
            f"the model {model!r} has no {wanted!r}.{did_you_mean([wanted], at)} It has "
            f"{some([*versions, *at]) or 'none'}."
        )
    return versions[number]


def id_of_version(version: ModelVersion) -> str | None:
    """The id of the LoggedModel that was registered: a database keeps it in the source alone."""
    source = str(version.source)
    of_source = source.removeprefix(_MODELS) if source.startswith(f"{_MODELS}m-") else None
    return version.model_id or of_source


def store_name() -> str:
    """The store's URI, fit to be shown."""
    return masked(mlflow.get_tracking_uri())


def redacted(text: str) -> str:
    """A message without the secrets of the store's URI and of this machine."""
    return secrets.redacted(text, mlflow.get_tracking_uri())


def without_passwords(text: str) -> str:
    """What somebody typed, such as a filter, fit to be stored."""
    return secrets.redacted(text, mlflow.get_tracking_uri(), typed=True)


def context_tags() -> dict[str, str]:
    """What MLflow knows of where a run comes from, fit to be stored."""
    # It logs what went wrong, which may be how it read the file of credentials.
    with suppress_logs(resolve_tags.__module__, re.compile("")):
        tags = resolve_tags()
    return {key: without_passwords(value) for key, value in tags.items()}


@contextmanager
def store_errors(doing: str) -> Iterator[None]:
    """Turn what MLflow, a database or the network raises into one StoreError without credentials.
    What is not foreseen passes, unless it would tell a secret."""
    try:
        yield
    except MlevalError:
        raise
    except Exception as error:
        if not _is_foreseen(error) and not secrets.tells_a_secret(error, mlflow.get_tracking_uri()):
            raise
        text = f"cannot {doing} the store {store_name()}: {_first_sentence(error)}"
        code = getattr(error, "error_code", "")
        if isinstance(error, ImportError):
            text += f" Install {error.name}, which that store takes."
        elif (lost := _connection_error(error)) is not None:
            text += " Is the server running, and is MLFLOW_TRACKING_URI right?"
            if lost.args and isinstance(lost.args[0], ProtocolError):
                code = UNANSWERED  # the line was cut: what was asked may have been done
        elif not isinstance(error, MlflowException):
            text += " Is MLFLOW_TRACKING_URI right?"
        elif code == "UNAUTHENTICATED":
            text += _LOGIN
        failed = StoreError(redacted(text))
        failed.code, failed.reason = code, reason(error)
        raise_alone(failed)


def of_one_run(read: Callable[[], T]) -> T | str:
    """What reading one run yields, or why it cannot be read: anybody may write into it."""
    try:
        return read()
    except Exception as error:
        if isinstance(error, StoreError) and not error.reason:
            raise
        if isinstance(error, StoreError) or _is_foreseen(error):
            connect().search_experiments(max_results=1)
        return reason(error)


def reason(error: Exception) -> str:
    """Why something cannot be read, for after a colon: a line without credentials and full stop."""
    if isinstance(error, StoreError) and error.reason:
        return error.reason
    text = _first_sentence(error).rstrip(".")
    if isinstance(error, ValueError | MlflowException):
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _existing(client: MlflowClient, wanted: str = "") -> str:
    """Which experiments there are; the one that may be meant first."""
    names = [e.name for e in all_experiments(client)]
    listed = some(map(repr, names))
    text = f"The store {store_name()} has {listed}. `mleval runs` says what they hold."
    return f"{did_you_mean([wanted], names)} {text}".lstrip()


def _is_foreseen(error: Exception) -> bool:
    """Whether the store has failed, as SQLAlchemy tells it, where that is in use, or others."""
    database = sys.modules.get("sqlalchemy.exc")
    return isinstance(error, _FORESEEN) or (
        database is not None and isinstance(error, database.SQLAlchemyError)
    )


def _or_none(lookup, name: str) -> Experiment | None:
    try:
        return lookup(name)
    except StoreError as error:
        if error.code in ("RESOURCE_DOES_NOT_EXIST", _INVALID):
            return None
        raise


def _refuse_split(uri: str) -> None:
    """Raise StoreError where a part of the password would be taken for host or path."""
    try:
        if (place := place_of(uri)).url is not None:
            split = "@" in (place.url.host or "")
        else:
            url = urlsplit(uri)
            web = url.scheme in ("http", "https")
            if web:
                url.port  # noqa: B018 - raises ValueError where it is no number
            split = masked(uri) != uri and (
                "://" not in uri or (web and "@" in url.path + url.query + url.fragment)
            )
    except Exception as error:
        if not _is_foreseen(error) and not isinstance(error, ValueError):
            raise
        split = True
    if split:
        raise StoreError(
            f"cannot open the store {masked(uri)}: its URI can be read in more than one way, or "
            "in none. Begin it with a scheme, and percent-encode special characters of user and "
            "password (@ as %40, / as %2F, ? as %3F, # as %23)."
        )


#: What to do where a server does not know who asks.
_LOGIN = (
    " Who you are is said by MLFLOW_TRACKING_TOKEN, or by MLFLOW_TRACKING_USERNAME and "
    "MLFLOW_TRACKING_PASSWORD."
)


def _connection_error(error: BaseException | None) -> requests.ConnectionError | None:
    """The failure to connect that led to an error of MLflow."""
    while error is not None and not isinstance(error, requests.ConnectionError):
        error = error.__cause__ or error.__context__
    return error


def _first_sentence(error: Exception) -> str:
    """The start of an error's text, on one line, without credentials of the tracking URI."""
    # A plain ValueError is this package's own, and says more than what led to it.
    lost = None if type(error) is ValueError else _connection_error(error)
    reason = getattr(lost.args[0] if lost is not None and lost.args else None, "reason", None)
    text = str(reason).rpartition(": ")[2] if reason else str(getattr(error, "orig", None) or error)
    text = " ".join(redacted(text).split())
    text = text if len(text) <= 300 else text[:300] + "…"
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def model_of(run: Run) -> str | None:
    """The id of the one LoggedModel that the run made, else took; None where it is not one."""
    made = {m.model_id for m in run.outputs.model_outputs} if run.outputs else set()
    taken = {m.model_id for m in run.inputs.model_inputs} if run.inputs else set()
    ids = made or taken
    return next(iter(ids)) if len(ids) == 1 else None


# --------------------------------------------------------------------------------------------------
# Filters that MLflow does not accept.

EXAMPLES = (
    "params.lr = '0.1'",
    "tags.mlflow.user = 'alice'",
    "metrics.f1 > 0.5",
    "attributes.status = 'FINISHED'",
    "attributes.start_time > 1700000000000 (milliseconds)",
)
#: What chooses experiments.
EXPERIMENTS = Message(Argument("experiment_names", ("NAME",)))
#: What to write in place of a filter that MLflow does not accept.
ADVICE = Message(
    f"Examples: {'; '.join(EXAMPLES)}. Join conditions with `and`; there is no `or`. "
    "Experiments are chosen by ",
    EXPERIMENTS,
    ".",
)
