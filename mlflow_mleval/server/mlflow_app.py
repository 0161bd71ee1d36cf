"""Where the page sits on MLflow's server; the only module that touches what MLflow keeps to itself.
`mlflow server --app-name mleval` finds `create_app`; MLEVAL_BASE_APP names an app beneath it."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points, version
from importlib.resources import files
from mimetypes import MimeTypes
from types import FunctionType
from typing import Any

from flask import Blueprint, Flask, Response, g, redirect, request

from mlflow_mleval.errors import StoreError
from mlflow_mleval.package import __version__
from mlflow_mleval.server import members
from mlflow_mleval.server import page_selection as page
from mlflow_mleval.server.desk import NOT_READY, Desk, Desks, locked, server_folder
from mlflow_mleval.server.page_selection import Made, PageSelection, SelectionError
from mlflow_mleval.store import schema

GROUP, NAME = "mlflow.app", "mleval"


def create_app() -> Any:
    """MLflow's application with the page: ASGI where uvicorn runs it, else WSGI."""
    app = _of_mlflow("mlflow.server", "app")
    prefix = _of_mlflow("mlflow.server.handlers", "STATIC_PREFIX_ENV_VAR")
    routes = Page(app, os.environ.get(prefix, "").rstrip("/"))
    if base := os.environ.get("MLEVAL_BASE_APP", ""):
        base_app = _entry(base).load()
        # The login makes its tables and its administrator: one process at a time.
        lock = None
        with suppress(OSError):  # no folder, of which the page will tell
            lock = locked(server_folder() / "base", wait=True)
        app = base_app() if isinstance(base_app, FunctionType) else base_app
        if lock is not None:
            os.close(lock)
        if "mlflow.server.auth" in sys.modules:
            # What the page shows is asked of MLflow in the member's name: whoever has logged in may
            # ask for it, also of a login that is closed by default
            # (MLFLOW_BASIC_AUTH_FAIL_CLOSED).
            store = _of_mlflow("mlflow.server.auth", "store")
            store.authenticate_user = members.verified_once(store.authenticate_user)
            validators = _of_mlflow("mlflow.server.auth", "BEFORE_REQUEST_VALIDATORS")
            rules = routes.app.url_map.iter_rules()
            for rule in (r for r in rules if r.endpoint.startswith("mleval.")):
                for method in rule.methods or ():
                    validators[rule.rule, method] = lambda: True
    runner = _of_mlflow("mlflow.environment_variables", "_MLFLOW_SGI_NAME").get()
    if not isinstance(app, Flask) or runner != "uvicorn":
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


# `mlflow server` imports this module before it starts its processes, and can still say what is
# wrong with the app beneath, and end. What failed in those, they would try again for ever.
if (_base := os.environ.get("MLEVAL_BASE_APP")) and not os.environ.get("_MLFLOW_SGI_NAME"):
    _entry(_base)
    if _base == "basic-auth":
        login = importlib.import_module("mlflow.server.auth")
        for name in ("get_flask_server_secret_key", "bootstrap_admin_user"):
            getattr(login, name, bool)()  # what a version lacks, it does later


# ---- the addresses under /mleval/: what each answers, to whom, and with which headers ------------

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
#: What files are, whatever the tables of the machine say.
_KINDS = MimeTypes()
_KINDS.add_type("text/markdown", ".md")
_KINDS.add_type("text/javascript", ".js")
#: Files of the report that the page uses, too.
_OF_REPORTS = ("report.css", "question.js", "weights.js")
#: Milliseconds for which a verdict holds: its runs may grow.
JUDGED = 60_000
#: Seconds that a request waits for a part that has to be made, before it says that it is at work;
#: a download, which nobody asks for again, waits longer.
SHORT, PATIENCE = 2.0, 240.0
#: Digits of a time in milliseconds, in the year 5138.
_DIGITS = 14
#: Says of which answer a part is: when it was made, in milliseconds.
MADE = "X-Mleval-Made"


class Failure(Exception):
    """What goes wrong with a request, as the page is told."""

    def __init__(self, status: int = 202, error: str = "", **more: Any) -> None:
        told = {"error": error} if error else {}
        self.status, self.content = status, {"state": "failed", **told, **more}
        super().__init__(error)


class Page:
    """The routes of the page on one application."""

    def __init__(self, app: Flask, prefix: str) -> None:
        self.app, self.prefix, self.inside = app, prefix, members.Inside(app, prefix)
        self.desks = Desks(app, self.inside)
        self.secret = os.urandom(32)
        pages = Blueprint("mleval", __name__, url_prefix=self.prefix + ROOT)
        pages.get("", endpoint="root")(lambda: redirect(f"{self.prefix}{ROOT}/", 308))
        pages.get("/")(self.page)
        pages.post("/store")(self.store)
        views = [self.static, self.experiments, self.survey, self.answer]
        views += [self.section, self.files, self.download, self.detail]
        views += [self.news, self.gate_form, self.gate]
        for view in views:
            pages.get(f"/{view.__name__.replace('_', '-')}")(view)
        for kind in (Failure, SelectionError, StoreError, OSError):
            pages.register_error_handler(kind, _failed)
        self.app.register_blueprint(pages)
        self.app.after_request(self._finished)
        answer = self.app.wsgi_app

        def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            if not self._own(path):
                return answer(environ, start_response)
            environ["mleval.came"] = time.monotonic()
            if not path.endswith("/static"):
                try:
                    told = self.desks.elsewhere(environ)
                except OSError:  # the views tell of it
                    told = None
                if told is not None:
                    return told(environ, start_response)
            with members.one_request():
                return answer(environ, start_response)

        # A request of ours is answered where the desk is, and verifies the member's login once.
        self.app.wsgi_app = call  # type: ignore[method-assign]

    def _own(self, path: str) -> bool:
        """Whether an address is one of the page's."""
        own = self.prefix + ROOT
        return path == own or path.startswith(own + "/")

    def _finished(self, response: Response) -> Response:
        """Every answer under our address, also one of MLflow's login, with our headers; MLflow's
        own page with the script that puts a link to ours into it."""
        linked = os.environ.get("MLEVAL_LINK", "1") != "0" and response.mimetype == "text/html"
        if self._own(request.path):
            response.headers.update(HEADERS)
            response.headers.setdefault("Cache-Control", "private, no-store")
        elif linked and request.path == f"{self.prefix}/":
            response.direct_passthrough = False
            script = f'<script src="{self.prefix}{ROOT}/static?file=link.js" defer></script></head>'
            response.set_data(response.get_data().replace(b"</head>", script.encode(), 1))
            response.headers.pop("Last-Modified", None)  # of the file, which knows no link
            response.set_etag(sha256(response.get_data()).hexdigest()[:16])
        return response

    # what the routes answer

    def page(self) -> Response:
        return _html(
            page.rendered("page.html.j2", token=members.token_of(self.secret, self._caller))
        )

    def static(self) -> Response:
        name = request.args.get("file", "")
        folder = files("mlflow_mleval.server") / "static"
        if name in _OF_REPORTS:
            folder = files("mlflow_mleval.report") / "templates"
        held = {path.name: path for path in folder.iterdir()}
        if name not in held or not held[name].is_file():
            raise Failure(404, "There is no such file.")
        content = held[name].read_bytes()
        response = _sent(content, name)
        # asked each time, sent when it has changed
        response.headers["Cache-Control"] = "private, no-cache"
        response.set_etag(sha256(content).hexdigest()[:16])
        response.make_conditional(request)
        return response

    def experiments(self) -> Response:
        wanted = request.args.get("search", "").strip()[:200]
        asked = {"max_results": members.SHOWN, "order_by": ["last_update_time DESC"]}
        if wanted:
            asked["filter"] = "name ILIKE '%{}%'".format(wanted.replace("\\", "").replace("'", ""))
        token = request.args.get("page-token", "")[:1000]
        path, paged = "experiments/search", asked | ({"page_token": token} if token else {})
        answer = self.inside.post(self._caller, path, paged)
        if not answer.ok and token and self.inside.post(self._caller, path, asked).ok:
            raise Failure(400, "This list has no such page. Load it again.", field="page-token")
        if not answer.ok:
            raise _refusal(answer, "the list of experiments")
        found = answer.content()
        rows = members.listed(found.get("experiments", []))
        shown = {"experiments": rows, "next_token": found.get("next_page_token", "")}
        shown |= {"search": wanted, "first": "page-token" not in request.args}
        return _html(page.rendered("experiments.html.j2", **shown))

    def survey(self) -> Response:
        selection, newer = self._readable(), _number("newer-than", "0", "a time in milliseconds")
        return _html(self._made(self._job("survey", selection), "survey", newer)["text"])

    def answer(self) -> Response:
        selection = self._readable()
        made = self._compared(selection, _number("newer-than", "0", "a time in milliseconds"))
        own = ("texts", "text", "held", "reads")
        about = {key: value for key, value in made.items() if key not in own}
        told = {"command": selection.command, "selection": selection.query}
        # nothing is written; MLflow says whether the member might
        tried = self.inside.post(self._caller, "runs/log-batch", {"run_id": made["run_id"]})
        told["unwritable"] = page.READ_ONLY if tried.status_code == 403 else ""
        key = _job_name(self._job("answer", selection))
        return _json({"state": "ready", "key": key, **told, **about})

    def section(self) -> Response:
        selection, each = self._readable(), _number("each", "0", "a number of runs")
        made, part = self._compared(selection), request.args.get("part", "")
        if f"section/{part}" in made["texts"]:
            return _html(made["texts"][f"section/{part}"], made["made"])
        at = f"/{each}" if each and part == "over_time" else ""
        return _html(self._part(selection, f"section/{part}{at}"), made["made"])

    def files(self) -> Response:
        return _json(json.loads(self._part(self._readable(), "files")))

    def download(self) -> Response:
        selection, name = self._readable(), request.args.get("file", "")
        response = _sent(self._part(selection, f"file/{name}", PATIENCE).encode(), name)
        response.headers["Content-Disposition"] = f'attachment; filename="mleval-{name}"'
        return response

    def detail(self) -> Response:
        selection = self._readable()
        names = {"of": "of", "the-method": "method", "the-dataset": "dataset", "against": "against"}
        question = {argument: request.args.get(name, "") for name, argument in names.items()}
        if question["of"] not in ("method", "dataset", "cell", "pair"):
            raise Failure(400, "Details are of a method, a dataset, a cell or a pair.", field="of")
        return _html(self._part(selection, "detail", question=question))

    def news(self) -> Response:
        selection = self._readable()
        asked = {
            "experiment_ids": list(selection.experiment_ids),
            "filter": selection.runs_after(_number("since", "", "a time in milliseconds")),
            "max_results": page.NEW,
        }
        answer = self.inside.post(self._caller, "runs/search", asked)
        if not answer.ok:
            raise _refusal(answer, "new runs")
        runs = [run["data"].get("tags", ()) for run in answer.content().get("runs", ())]
        tags = [{tag["key"]: tag["value"] for tag in of_run} for of_run in runs]
        return _json({"new": sum(of.get(schema.TAG_KIND) not in schema.RECORDS for of in tags)})

    def gate_form(self) -> Response:
        _refuse_other_sites()
        ids = self._readable().experiment_ids if request.args.get("experiment-id") else ()
        shown = {
            "selection": request.args.to_dict(flat=False),
            "sides": members.sides_offered(self.inside, self._caller, ids),
            "controls": [page.control(name, o) for name, o in page.gate_options().items()],
        }
        return _html(page.rendered("gate.html.j2", **shown))

    def gate(self) -> Response:
        """The verdict on two sides that the member may read, now."""
        _refuse_other_sites()
        how = page.parsed(request.args.to_dict(flat=False), page.gate_options())
        named = {side: request.args.get(side, "").strip()[:500] for side in page.SIDES}
        for side, text in named.items():
            if not text:
                raise Failure(400, "Choose a run, a version or a method.", field=side)
        caller = self._caller
        runs = [members.run_behind(self.inside, caller, text) for text in named.values()]
        found = [run for run in runs if run is not None]
        if len(found) == len(page.SIDES):
            # MLflow has just shown the member these runs
            selection, sides = None, [run_id for run_id, _ in found]
            names = [
                text.removeprefix("models:/") if "/" in text else f"{name} ({run_id[:8]})"
                for text, (run_id, name) in zip(named.values(), found, strict=True)
            ]
        else:
            models = any("models:/" in text for text in named.values())
            if found or models or not request.args.get("experiment-id"):
                side = page.SIDES[runs.index(None)]
                text = f"There is no run or version {named[side]!r} that you may read. "
                text += "To judge methods, name two, and choose their experiment."
                raise Failure(403, text, field=side)
            selection, sides, names = self._readable(), [*named.values()], [*named.values()]
        job = self._job("gate", selection, how=dict(how.given), sides=sides, names=names)
        return _html(self._made(job, "survey", int(time.time() * 1000) - JUDGED)["text"])

    def store(self) -> Response:
        if reason := members.forged(request, self.secret, self._caller):
            raise Failure(403, reason, reload=True)
        selection = self._readable()
        about, caller = self._compared(selection), self._caller
        member = {"user": caller.user, "identity": caller.identity}
        job = self._job("store", selection, of=about["made"], held=about["held"], **member)
        done = self._made(job, "part")
        path = {"run_id": done["run_id"]}
        info = self.inside.told(caller, "runs/get", **path).get("run", {}).get("info", {})
        if info.get("lifecycle_stage") != "active":  # deleted since then
            self.desk.forget(_job_name(job))
            done = self._made(job, "part")
        link = "../#" + schema.PLACE_OF_REPORT.format(done["experiment_id"], done["run_id"])
        return _json({"run_id": done["run_id"], "address": link, "left_out": done["left_out"]})

    # what they share

    @property
    def desk(self) -> Desk:
        desk = self.desks.here()
        if desk is None:
            raise Failure(503, NOT_READY)
        return desk

    def _compared(self, selection: PageSelection, newer: int = 0) -> Made:
        """The answer to a selection; while there is none that is new enough, 202."""
        reads = _job_name(self._job("answer", selection.without(*page.COMPARING)))
        before = {"reads": reads, "held": self.desk.held(reads, newer)}
        return self._made(self._job("answer", selection, **before), "answer", newer)

    def _part(
        self, selection: PageSelection, part: str, seconds: float = SHORT, **more: Any
    ) -> str:
        """A part of the answer, made now unless somebody asked for it before."""
        about = self._compared(selection)
        of = {"part": part, "of": about["made"], "held": about["held"], **more}
        return self._made(self._job("part", selection, **of), "part", wait=seconds)["text"]

    def _job(self, what: str, selection: PageSelection | None, **more: Any) -> Made:
        """What is to be done, where, and of which runs."""
        address = request.url_root.rstrip("/") + self.prefix
        workspace = self._caller.environ.get(members.WORKSPACE, "")
        where = {"address": address, "workspace": workspace}
        given = {} if selection is None else dict(selection.given)
        if selection is not None and not g.mleval_runs:
            # who may see no run, as a role of MLflow can say, has no share in answers of others
            where["member"] = self._caller.identity
        return {"what": what, "given": given, **where, **more}

    def _made(self, job: Made, lane: str, newer: int = 0, wait: float = 0.0) -> Made:
        """What the desk has made of a job, which says what it is about; 202 while it is at work."""
        took = time.monotonic() - request.environ.get("mleval.came", time.monotonic())
        how = {"lane": lane, "newer": newer, "patience": took, "wait": wait}
        told = self.desk.ask(_job_name(job), self._caller, job, **how)
        if "state" in told:
            raise Failure(**told)
        texts = {name: zlib.decompress(text).decode() for name, text in told["texts"].items()}
        return {**told, "texts": texts, "text": texts.get("text", "")}

    @property
    def _caller(self) -> members.Caller:
        """Who asks, in the workspace that the address names, if MLflow knows it."""
        named = request.args.get("workspace", "")[:200]
        caller = members.Caller.of(request.environ, named)
        if named and "mleval_workspace" not in g:
            g.mleval_workspace = self.inside.post(caller, "experiments/search", {"max_results": 1})
        if named and g.mleval_workspace.status_code not in (200, 401, 403):
            text = f"There is no workspace {named!r} that you may use. Leave it out."
            raise Failure(400, text, field="workspace")
        return caller

    def _readable(self) -> PageSelection:
        """The selection, if MLflow says now that the member may read all that it names: see the
        experiments, and search their runs."""
        _refuse_other_sites()
        selection, field = page.parsed(request.args.to_dict(flat=False)), "experiment-id"
        if not selection.experiment_ids:
            raise Failure(400, "No experiment is chosen. Choose one from the list.", field=field)
        caller, ids, hidden = self._caller, [*selection.experiment_ids], None
        for one in ids:
            told = self.inside.told(caller, "experiments/get", experiment_id=one)
            if told.get("experiment", {}).get("lifecycle_stage") != "active":
                hidden = one
                break
        if hidden is None:
            searched = {"experiment_ids": ids, "max_results": 1}
            found = self.inside.post(caller, "runs/search", searched)
            g.mleval_runs = bool(found.content().get("runs"))
            hidden = None if found.ok else ids[0]
        if hidden is not None:
            text = f"There is no experiment {hidden} that you may read. Choose another, or ask its "
            raise Failure(403, text + "owner.", field=field)
        return selection


def _job_name(job: Made) -> str:
    """A name for what a job yields, among those of strangers."""
    told = {key: value for key, value in job.items() if key not in ("reads", "held")}
    return schema.sha256_of(json.dumps([__version__, told]))


def _refuse_other_sites() -> None:
    """Another site could not read the answer, but have it computed."""
    cross = request.headers.get("Sec-Fetch-Site") == "cross-site"
    if cross and request.headers.get("Sec-Fetch-Mode") != "navigate":
        raise Failure(403, members.OTHER_SITE)


def _number(field: str, default: str, what: str) -> int:
    """A whole number in the address, and what it means."""
    text = request.args.get(field, "") or default
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise Failure(400, f"`{field}` is {what}.", field=field)
    return int(text)


def _failed(error: Exception) -> Response:
    """What goes wrong, told in JSON."""
    if isinstance(error, Failure):
        return _json(error.content, error.status)
    if isinstance(error, SelectionError):
        return _json({"state": "failed", "error": str(error), "field": error.field}, 400)
    text = str(error)
    if isinstance(error, OSError):  # no folder for answers, a full disk
        print(f"mleval page: {error!r}", file=sys.stderr)
        text = "The server has no place for answers. Its log says why; the administrator may set "
        text += "TMPDIR."
    return _json({"state": "failed", "error": text}, 503)


def _refusal(answer: Any, what: str) -> Failure:
    code = answer.status_code
    if code in (401, 403):
        return Failure(code, f"MLflow does not let you read {what}.")
    said = str(answer.content().get("message", ""))[:300] or code
    status = 400 if 400 <= code < 500 else 503
    return Failure(status, f"MLflow could not tell {what}: {said}")


def _html(text: str, made: int | None = None) -> Response:
    return Response(text, mimetype="text/html", headers=None if made is None else {MADE: str(made)})


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content), status, mimetype="application/json")


def _sent(content: bytes, name: str) -> Response:
    kind = _KINDS.guess_type(name)[0] or "text/plain"
    return Response(content, content_type=f"{kind}; charset=utf-8")
