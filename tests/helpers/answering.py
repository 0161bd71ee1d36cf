"""Servers of HTTP that answer in whatever way a test says."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests
from waiting import PATIENCE


class Asked(BaseHTTPRequestHandler):
    """What was asked, with its `body`."""

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.answer(self)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def say(self, content: bytes, status: int = 200, reason: str | None = None, **headers) -> None:
        self.send_response(status, reason)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def answer_of(self, url: str) -> requests.Response:
        """What the server at this URL answers to the same."""
        types = {"Content-Type": self.headers.get("Content-Type", "")}
        asked = {"data": self.body, "headers": types, "timeout": PATIENCE}
        return requests.request(self.command, url + self.path, **asked)

    def pass_on(self, url: str) -> None:
        answer = self.answer_of(url)
        kind = {"Content-Type": answer.headers.get("Content-Type", "")}
        self.say(answer.content, answer.status_code, **kind)

    def log_message(self, *args) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, *args) -> None:
        pass


@contextmanager
def answering(answer):
    """The address of a server that answers by `answer(asked)`."""
    with Server(("127.0.0.1", 0), Asked) as server:
        server.answer = answer
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
