"""Where the page sits on MLflow's server; the only module that touches what MLflow keeps to itself.

`mlflow server --app-name mleval` finds `create_app` by its entry point. Another app of the group
`mlflow.app`, such as MLflow's login basic-auth, goes beneath it by MLEVAL_BASE_APP.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points, version
from importlib.resources import files
from types import FunctionType
from typing import Any, NoReturn

from flask import Flask, Response, g, redirect, request
from werkzeug.wrappers import Response as BaseResponse

from mlflow_mleval.errors import StoreError
from mlflow_mleval.server.members import (
    SHOWN,
    Caller,
    ExperimentList,
    Inside,
    PageJobs,
    forged,
    is_active,
    one_request,
    run_behind,
    sides_offered,
    token_of,
    unreadable,
    verified_once,
)
from mlflow_mleval.server.page_content import (
    SIDES,
    PageSelection,
    SelectionError,
    gate_form,
    parsed,
    parsed_gate,
    part_key,
    rendered,
)
from mlflow_mleval.store import schema
from mlflow_mleval.words import __version__

GROUP, NAME = "mlflow.app", "mleval"


def create_app() -> Any:
    """MLflow's application with the page, for the server that runs it: ASGI for uvicorn, WSGI for
    others.
    """

    app, prefix = (
        _of_mlflow("mlflow.server", "app"),
        _of_mlflow("mlflow.server.handlers", "STATIC_PREFIX_ENV_VAR"),
    )
    page = Page(app, os.environ.get(prefix, "").rstrip("/"))
    page.install()
    base = os.environ.get("MLEVAL_BASE_APP", "")
    if not base:
        return _for_the_server(app)
    base_app = _entry(base).load()
    # The login makes its tables and its administrator: one process at a time.
    with _one_at_a_time():
        made = base_app() if isinstance(base_app, FunctionType) else base_app
    _let_members_in(page)
    return _for_the_server(made)


def _one_at_a_time() -> AbstractContextManager[None]:
    """A lock between the processes of the server; none where they have no folder, of which the page
    will tell.
    """
    from mlflow_mleval.server.answer_cache import CacheFolder

    try:
        return CacheFolder.of_this_server().locked("base")
    except OSError:
        return nullcontext()


def _for_the_server(app: Any) -> Any:
    from flask import Flask

    if (
        not isinstance(app, Flask)
        or _of_mlflow("mlflow.environment_variables", "_MLFLOW_SGI_NAME").get() != "uvicorn"
    ):
        return app
    return _of_mlflow("mlflow.server.fastapi_app", "create_fastapi_app")(app)


def _entry(base: str) -> EntryPoint:
    """Where the app is that goes beneath."""
    apps = {entry.name: entry for entry in entry_points(group=GROUP) if entry.name != NAME}
    if base not in apps:
        names = ", ".join(sorted(apps)) or "none"
        raise SystemExit(
            f"MLEVAL_BASE_APP must be one of {names}, got {base!r}. Install what brings it."
        )
    return apps[base]


def _let_members_in(page: Any) -> None:
    """Tell MLflow's login, where it is the app beneath, that whoever has logged in may ask for the
    page.

    What the page shows is asked of MLflow in the member's name. Without this, a login that is
    closed by default (MLFLOW_BASIC_AUTH_FAIL_CLOSED) lets only administrators in.
    """
    if "mlflow.server.auth" not in sys.modules:
        return
    store = _of_mlflow("mlflow.server.auth", "store")
    store.authenticate_user = verified_once(store.authenticate_user)
    validators = _of_mlflow("mlflow.server.auth", "BEFORE_REQUEST_VALIDATORS")
    for path, method in page.routes():
        for verb in (method, "HEAD") if method == "GET" else (method,):
            validators[page.prefix + path, verb] = _anybody


def _anybody() -> bool:
    return True


def _of_mlflow(module: str, name: str) -> Any:
    """Something that MLflow promises nobody; a clear message where this version has it no more."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SystemExit(
            f"The page of mleval does not fit MLflow {version('mlflow')}: {module} has no {name} "
            f"({error}). Start the server without --app-name mleval (with the app that "
            "MLEVAL_BASE_APP names, if any), and install a newer mlflow-mleval or another "
            "MLflow."
        ) from error


def _check_before_the_server() -> None:
    """Find what is wrong with the app beneath while `mlflow server` can still say so and end.

    It imports this module before it starts its processes. What failed in those, they would try
    again for ever.
    """
    if base := os.environ.get("MLEVAL_BASE_APP"):
        _entry(base)
        if base == "basic-auth":
            login = importlib.import_module("mlflow.server.auth")
            for name in ("get_flask_server_secret_key", "bootstrap_admin_user"):
                getattr(login, name, bool)()  # what a version lacks, it does later


if not os.environ.get("_MLFLOW_SGI_NAME"):
    _check_before_the_server()


# --------------------------------------------------------------------------------------------------
# The addresses under /mleval/: what each answers, to whom, and with which headers.

ROOT = "/mleval"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_KINDS = {
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "tex": "application/x-tex",
    "csv": "text/csv",
    "svg": "image/svg+xml",
    "css": "text/css",
    "js": "text/javascript",
}
#: Files of the report that the page uses, too.
_OF_REPORTS = ("report.css", "report.js", "weights.js")
#: Runs that are counted as new at most; seconds for which a right is believed while a computation
#: is waited for.
NEW, LATELY = 100, 3.0
#: Seconds that a request waits for a part that has to be made, before it says that it is at work;
#: a download, which nobody asks for again, waits longer.
SHORT, PATIENCE = 2.0, 240.0
#: Milliseconds for which the verdict of a gate holds: its runs may grow.
JUDGED = 60_000
#: Digits of a time in milliseconds, in the year 5138.
_DIGITS = 14
#: Says of which answer a part is: when it was made, in milliseconds.
MADE = "X-Mleval-Made"


class Failure(Exception):
    """What goes wrong with a request, as the page is told."""

    def __init__(self, status: int, error: str = "", **more: Any) -> None:
        self.status, self.content = (
            status,
            {"state": "failed", **({"error": error} if error else {}), **more},
        )
        super().__init__(error)


class Page:
    """The routes of the page on one application."""

    def __init__(self, app: Flask, prefix: str) -> None:
        self.app, self.prefix, self.inside = app, prefix, Inside(app, prefix)
        self.jobs, self.listing = PageJobs(self.inside), ExperimentList(self.inside)
        self._lately: dict[Any, Any] = {}

    def routes(self) -> dict[tuple[str, str], Callable[[], BaseResponse]]:
        """By path under the prefix and method, what answers."""
        got = {
            "": self._home,
            "/": self.page,
            "/static": self.static,
            "/experiments": self.experiments,
            "/survey": self.survey,
            "/answer": self.answer,
            "/section": self.section,
            "/detail": self.detail,
            "/text": self.text,
            "/files": self.files,
            "/download": self.download,
            "/news": self.news,
            "/gate-form": self.gate_form,
            "/gate": self.gate,
        }
        return {(ROOT + path, "GET"): view for path, view in got.items()} | {
            (f"{ROOT}/store", "POST"): self.store
        }

    def install(self) -> None:
        for (path, method), view in self.routes().items():
            self.app.add_url_rule(
                self.prefix + path,
                f"mleval{path.replace('/', '_')}",
                _answering(view),
                methods=[method],
                strict_slashes=True,
            )
        self.app.after_request(self._guarded)
        if os.environ.get("MLEVAL_LINK", "1") != "0":
            self.app.after_request(self._linked)
        self.app.wsgi_app = self._verifying_once(self.app.wsgi_app)  # type: ignore[method-assign]

    def _verifying_once(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        """The application, of which a request of ours verifies the member's login once."""

        def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            own = self._own(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
            with one_request() if own else nullcontext():
                return answer(environ, start_response)

        return call

    def _own(self, path: str) -> bool:
        """Whether an address is one of the page's."""
        own = self.prefix + ROOT
        return path == own or path.startswith(own + "/")

    def _guarded(self, response: Response) -> Response:
        """Every answer under our address, also one of MLflow's login, with our headers."""
        if self._own(request.path):
            for name, value in HEADERS.items():
                response.headers[name] = value
            if "Cache-Control" not in response.headers:
                response.headers["Cache-Control"] = "private, no-store"
        return response

    def _linked(self, response: Response) -> Response:
        """MLflow's own page, with the script that puts a link to ours into it."""
        if request.path == f"{self.prefix}/" and response.mimetype == "text/html":
            response.direct_passthrough = False
            script = f'<script src="{self.prefix}{ROOT}/static?file=link.js" defer></script></head>'
            response.set_data(response.get_data().replace(b"</head>", script.encode(), 1))
            response.headers.pop("Last-Modified", None)  # of the file, which knows no link
            response.set_etag(sha256(response.get_data()).hexdigest()[:16])
        return response

    # what the routes answer

    def _home(self) -> BaseResponse:
        return redirect(f"{self.prefix}{ROOT}/", 308)

    def page(self) -> Response:
        self.jobs.warm()
        return _html(
            rendered("page.html.j2", token=token_of(self.jobs.folder.secret, self._caller))
        )

    def static(self) -> Response:
        name = request.args.get("file", "")
        own = {
            path.name: path
            for path in (files("mlflow_mleval.server") / "static").iterdir()
            if path.is_file()
        }
        of_reports = files("mlflow_mleval.report") / "templates"
        own |= {n: of_reports / n for n in _OF_REPORTS if (of_reports / n).is_file()}
        if name not in own:
            raise Failure(404, "There is no such file.")
        content = own[name].read_bytes()
        response = _sent(content, name)
        response.headers["Cache-Control"] = (
            "private, no-cache"  # asked each time, sent when it has changed
        )
        response.set_etag(sha256(content).hexdigest()[:16])
        response.make_conditional(request)
        return response

    def experiments(self) -> Response:
        wanted = request.args.get("search", "").strip()[:200]
        asked: dict[str, Any] = {"max_results": SHOWN, "order_by": ["last_update_time DESC"]}
        if wanted:
            asked["filter"] = "name ILIKE '%{}%'".format(wanted.replace("\\", "").replace("'", ""))
        if token := request.args.get("page-token"):
            asked["page_token"] = token[:1000]
        answer = self.inside.post(self._caller, "/api/2.0/mlflow/experiments/search", asked)
        if answer.status == 400 and token:
            raise Failure(400, "This list has no such page. Load it again.", field="page-token")
        if not answer.ok:
            raise Failure(*_refusal(answer, "the list of experiments"))
        listed = answer.json()
        rows = self.listing.rows(self._caller, listed.get("experiments", []))
        more, first = listed.get("next_page_token", ""), "page-token" not in request.args
        return _html(
            rendered(
                "experiments.html.j2", experiments=rows, next_token=more, search=wanted, first=first
            )
        )

    def survey(self) -> Response:
        selection = self._readable()
        key = self._key(selection, "survey")
        self._made(key, selection, "survey")
        return _html(self.jobs.folder.read(key, "survey") or "")

    def answer(self) -> Response:
        selection = self._readable()
        key = self._key(selection, "answer")
        about = self._made(key, selection, "answer")
        return _json(
            {
                "state": "ready",
                "key": key,
                "command": selection.command,
                "selection": selection.query,
                **about,
            }
        )

    def section(self) -> Response:
        selection, each = self._readable(), _number("each", "0", "a number of runs")
        key = self._key(selection, "answer")
        about = self._made(key, selection, "answer")
        part = request.args.get("part", "")
        text = self.jobs.folder.read(key, f"section/{part}")
        if text is None:
            if part not in (section["key"] for section in about["sections"]):
                raise Failure(404, "The answer has no such section.")
            at = f"/{each}" if each and part == "over_time" else ""
            text = self._part(key, selection, f"section/{part}{at}")
        return _html(text, about["made"])

    def text(self) -> Response:
        selection = self._readable()
        text = self._part(self._key(selection, "answer"), selection, "text")
        return Response(text, mimetype="text/plain")

    def files(self) -> Response:
        selection = self._readable()
        names = self._part(self._key(selection, "answer"), selection, "files")
        return _json(json.loads(names))

    def download(self) -> Response:
        selection, name = self._readable(), request.args.get("file", "")
        key = self._key(selection, "answer")
        about = self._made(key, selection, "answer")
        text = self._part(key, selection, f"file/{name}", PATIENCE)
        response = _sent(text.encode(), name)
        response.headers["Content-Disposition"] = f'attachment; filename="mleval-{name}"'
        response.headers[MADE] = str(about["made"])
        return response

    def detail(self) -> Response:
        selection = self._readable()
        names = {"of": "of", "the-method": "method", "the-dataset": "dataset", "against": "against"}
        question = {argument: request.args.get(name, "") for name, argument in names.items()}
        if question["of"] not in ("method", "dataset", "cell", "pair"):
            raise Failure(400, "Details are of a method, a dataset, a cell or a pair.", field="of")
        key = self._key(selection, "answer")
        about = self._made(key, selection, "answer")
        return _html(self._held(key, selection, question)["html"], about["made"])

    def news(self) -> Response:
        selection = self._readable()
        self._check(selection)
        rule = f"attributes.end_time > {_milliseconds('since')}"
        own = selection.choices["filter_string"]
        asked = {
            "experiment_ids": list(selection.experiment_ids),
            "filter": f"{rule} and {own}" if own.strip() else rule,
            "max_results": NEW,
        }
        answer = self.inside.post(self._caller, "/api/2.0/mlflow/runs/search", asked)
        if not answer.ok:
            raise Failure(*_refusal(answer, "new runs"))
        return _json({"new": sum(not _is_record(run) for run in answer.json().get("runs", ()))})

    def gate_form(self) -> Response:
        _refuse_other_sites()
        ids = self._readable().experiment_ids if request.args.get("experiment-id") else ()
        sides = sides_offered(self.inside, self._caller, ids)
        return _html(gate_form(request.args.to_dict(flat=False), sides))

    def gate(self) -> Response:
        """The verdict on two sides that the member may read, now."""
        _refuse_other_sites()
        how = parsed_gate(request.args.to_dict(flat=False))
        sides, names, selection = self._sides()
        given = {} if selection is None else dict(selection.given)
        key = how.key("gate", *sides, *names, str(given), self._caller.workspace, self._address)
        about = self.jobs.folder.about(key)
        if about is None or time.time() * 1000 - about["made"] > JUDGED:
            job = {"what": "gate", "how": dict(how.given), "given": given}
            self._ask(key, {**job, "sides": sides, "names": names})
        return _html(self.jobs.folder.read(key, "gate") or "")

    def _sides(self) -> tuple[list[str], list[str], PageSelection | None]:
        """Candidate and champion, what they are called, and the selection of which they are
        methods; None where they are runs, which MLflow has just shown to the member.
        """
        named = [request.args.get(side, "").strip()[:500] for side in SIDES]
        for side, text in zip(SIDES, named, strict=True):
            if not text:
                raise Failure(400, "Choose a run, a version or a method.", field=side)
        runs = [run_behind(self.inside, self._caller, text) for text in named]
        if all(runs):
            g.mleval_checked = True
            called = [
                text.removeprefix("models:/") if "/" in text else f"{run[1]} ({run[0][:8]})"
                for text, run in zip(named, runs, strict=True)
                if run is not None
            ]
            return [run[0] for run in runs if run is not None], called, None
        if any(runs) or any("models:/" in text for text in named):
            wrong = next(i for i, run in enumerate(runs) if run is None)
            text = f"There is no run or version {named[wrong]!r} that you may read."
            raise Failure(403, text, field=SIDES[wrong])
        if not request.args.get("experiment-id"):
            text = f"There is no run {named[0]!r} that you may read, and no experiment is chosen."
            raise Failure(403, text, field=SIDES[0])
        return named, named, self._readable()

    def store(self) -> Response:
        if reason := forged(request, self.jobs.folder.secret, self._caller):
            raise Failure(403, reason, reload=True)
        selection = self._readable()
        answer = self._key(selection, "answer")
        about = self._made(answer, selection, "answer")
        self._part(answer, selection, "store", name="store.json")
        of = part_key(answer, about["made"], "store")
        key = selection.key("store", of, self._caller.identity)
        if (done := self.jobs.folder.about(key)) is None or not is_active(
            self.inside, self._caller, done["run_id"]
        ):
            job = {
                "what": "store",
                "of": of,
                "given": dict(selection.given),
                "user": self._caller.user,
            }
            self._ask(key, job, writes=True)
        link = "../#" + schema.PLACE_OF_REPORT.format(done["experiment_id"], done["run_id"])
        return _json({"run_id": done["run_id"], "address": link, "left_out": done["left_out"]})

    # what they share

    def _part(
        self,
        key: str,
        selection: PageSelection,
        part: str,
        seconds: float = SHORT,
        name: str = "text",
    ) -> str:
        """A part of the answer, made now unless somebody asked for it before."""
        about = self._made(key, selection, "answer")
        written = part_key(key, about["made"], part)
        text = self.jobs.folder.read(written, name)
        if text is None:
            self._held(key, selection, {"part": part}, seconds)
            text = self.jobs.folder.read(written, name)
        if text is None:
            raise Failure(503, "The server has no room for this part. Choose fewer runs.")
        return text

    def _held(
        self,
        key: str,
        selection: PageSelection,
        question: dict[str, Any],
        seconds: float = SHORT,
    ) -> dict[str, Any]:
        """What the process says that holds the comparison, 202 while it is at work; where it has
        let it go, the comparison is made anew.
        """
        shown = self.jobs.held(key, question, seconds)
        if shown is None:
            self._compute(key, selection, "answer")
        if "state" in shown or "status" in shown:
            raise Failure(shown.pop("status", 202), **shown)
        return shown

    @property
    def _caller(self) -> Caller:
        return Caller.of(request.environ, request.args.get("workspace", "")[:200])

    def _selection(self) -> PageSelection:
        return parsed(request.args.to_dict(flat=False))

    def _readable(self) -> PageSelection:
        """The selection, if the member may read all that it names.

        MLflow is asked each time that anything is told but how far a computation is: that is asked
        for again and again.
        """
        _refuse_other_sites()
        selection = self._selection()
        if not selection.experiment_ids:
            raise Failure(
                400, "No experiment is chosen. Choose one from the list.", field="experiment-id"
            )
        seen, now = (self._caller.proof, selection.experiment_ids), time.monotonic()
        g.mleval_checked = False
        if now - self._lately.get(seen, -LATELY) > LATELY:
            self._check(selection)
            self._lately = {key: at for key, at in self._lately.items() if now - at < LATELY} | {
                seen: now
            }
        return selection

    def _check(self, selection: PageSelection) -> None:
        """Ask MLflow, unless this request did already."""
        if g.mleval_checked:
            return
        hidden = unreadable(self.inside, self._caller, selection.experiment_ids)
        if hidden is not None:
            raise Failure(
                403,
                f"There is no experiment {hidden} that you may read. Choose another, or ask its "
                "owner.",
                field="experiment-id",
            )
        g.mleval_checked = True

    def _key(self, selection: PageSelection, what: str) -> str:
        return selection.key(what, self._caller.workspace, self._address, __version__)

    @property
    def _address(self) -> str:
        return request.url_root.rstrip("/") + self.prefix

    def _made(self, key: str, selection: PageSelection, what: str) -> dict[str, Any]:
        """What an answer says of itself; while there is none that is new enough, 202."""
        newer = _milliseconds("newer-than", "0")
        about = self.jobs.folder.about(key)
        if about is not None and about["made"] > newer:
            self._check(selection)
            return about
        self._compute(key, selection, what, newer)

    def _compute(self, key: str, selection: PageSelection, what: str, newer: int = 0) -> NoReturn:
        """Have the worker make an answer from runs that were read after a time."""
        reads = self._key(selection.runs_only, what)
        given = dict(selection.given)
        self._ask(key, {"what": what, "given": given, "reads": reads, "newer": newer})

    def _ask(self, key: str, job: dict[str, Any], writes: bool = False) -> NoReturn:
        """Have the worker do the job, or hear how far it is."""
        state = self.jobs.ask(key, self._caller, {**job, "address": self._address}, writes)
        if state["state"] == "failed":
            self._check(self._selection())
            raise Failure(**{name: value for name, value in state.items() if name != "state"})
        raise Failure(202, **state)


def _refuse_other_sites() -> None:
    """Another site could not read the answer, but have it computed."""
    cross = request.headers.get("Sec-Fetch-Site") == "cross-site"
    if cross and request.headers.get("Sec-Fetch-Mode") != "navigate":
        raise Failure(403, "The request comes from another site.")


def _milliseconds(field: str, default: str = "") -> int:
    """A time in the address."""
    return _number(field, default, "a time in milliseconds")


def _number(field: str, default: str, what: str) -> int:
    """A whole number in the address, and what it means."""
    text = request.args.get(field, "") or default
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise Failure(400, f"`{field}` is {what}.", field=field)
    return int(text)


def _answering(view: Callable[[], BaseResponse]) -> Callable[[], BaseResponse]:
    """The view, with what goes wrong told in JSON, and nothing told of what nobody foresaw."""

    @wraps(view)
    def answer() -> BaseResponse:
        try:
            return view()
        except SelectionError as error:
            return _json({"state": "failed", "error": str(error), "field": error.field}, 400)
        except StoreError as error:
            return _json({"state": "failed", "error": str(error)}, 503)
        except Failure as failure:
            return _json(failure.content, failure.status)
        except OSError as error:  # no folder for answers, a full disk
            print(f"mleval page: {error!r}", file=sys.stderr)
            text = (
                "The server has no place for answers. Its log says why; the administrator may "
                "set TMPDIR."
            )
            return _json({"state": "failed", "error": text}, 503)

    return answer


def _refusal(answer: Any, what: str) -> tuple[int, str]:
    if answer.status in (401, 403):
        return answer.status, f"MLflow does not let you read {what}."
    return (
        503,
        f"MLflow could not tell {what}: "
        f"{str(answer.json().get('message', ''))[:300] or answer.status}",
    )


def _is_record(run: dict[str, Any]) -> bool:
    return any(
        tag["key"] == schema.TAG_KIND and tag["value"] in schema.RECORDS
        for tag in run["data"].get("tags", ())
    )


def _html(text: str, made: int | None = None) -> Response:
    return Response(text, mimetype="text/html", headers=None if made is None else {MADE: str(made)})


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, mimetype="application/json")


def _sent(content: bytes, name: str) -> Response:
    return Response(
        content,
        content_type=(
            f"{_KINDS.get(name.rpartition('.')[2], 'application/octet-stream')}; charset=utf-8"
        ),
    )
