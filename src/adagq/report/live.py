"""`adagq watch RUN --serve`: the report's own page of a run that goes on, for a browser.

    GET /       the page of the rounds that have closed, with a section "Now" on top
    GET /now    that section alone, which the page asks for every second

Only reads: the run directory, and nothing else on this machine. It listens on the loopback interface unless told
otherwise, and answers only requests that name the address it was started with, so that no other web page can read it.
"""

from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from adagq.core.errors import AdagqError, ConfigError
from adagq.report.page import LIVE, environment, render, source
from adagq.report.progress import progress
from adagq.report.run import load
from adagq.report.watch import COLUMNS, INCIDENTS_SHOWN, cells_of, head, incident_text, state_text
from adagq.report.write import run_summary

HOST: Final = "127.0.0.1"
PORT: Final = 8765
TARGET: Final = 0.9  # of a run whose settings name none


def page(run_dir: Path, target: float | None = None) -> str:
    """Return the page as it is now."""
    now = section(run_dir)
    if not progress(run_dir).rows:
        template = environment().get_template("waiting.html.j2")
        return template.render(now=Markup(now), style=source("page.css"), script=source(LIVE))
    run = load(run_dir)
    named = target if target is not None else run.facts.get("target")
    return render(run, run_summary(run, TARGET if named is None else named), now)


def section(run_dir: Path) -> str:
    """Return the section "Now": where the run is, what every client does, the latest incidents."""
    now = progress(run_dir)
    clients = [
        {
            "name": f"{one.client} {one.name}".strip(),
            "state": one.state or "none",
            "now": state_text(one),
            "cells": [*cells_of(one), str(one.incidents or "")],
        }
        for one in now.clients
    ]
    incidents = [incident_text(one) for one in reversed(now.incidents[-INCIDENTS_SHOWN:])]
    template = environment().get_template("now.html.j2")
    rounds = now.rows[-1]["round"] if now.rows else 0
    return template.render(rounds=rounds, head=head(now), clients=clients, columns=COLUMNS, incidents=incidents)


def server(run_dir: Path, host: str = HOST, port: int = PORT, target: float | None = None) -> ThreadingHTTPServer:
    """Return a server of this run's page that listens and has yet to serve; port 0 takes a free one."""
    progress(run_dir)  # a folder that is none is the user's mistake, now
    try:
        made = ThreadingHTTPServer((host, port), _Handler)
    except OSError as error:
        raise ConfigError(f"--port {port}: {host} cannot be listened on ({error.strerror})") from None
    names = {host, "localhost"} if host == HOST else {host}
    bound = made.server_address[1]
    made.daemon_threads = True
    vars(made)["hosts"] = None if host in ("0.0.0.0", "::") else {f"{name}:{bound}" for name in names}
    vars(made)["pages"] = {"/": lambda: page(run_dir, target), "/now": lambda: section(run_dir)}
    return made


class _Handler(BaseHTTPRequestHandler):
    """Answers GET for two paths."""

    def do_GET(self) -> None:
        hosts: set[str] | None = vars(self.server)["hosts"]
        pages: dict[str, Callable[[], str]] = vars(self.server)["pages"]
        if hosts is not None and self.headers.get("Host") not in hosts:
            self._send(403, "this page is served to its own address only")
        elif (make := pages.get(self.path)) is None:
            self._send(404, "no such page")
        else:
            try:
                self._send(200, make(), "text/html")
            except AdagqError as error:  # a file that is being written, or is gone
                self._send(503, str(error))

    def _send(self, code: int, text: str, kind: str = "text/plain") -> None:
        data = text.encode()
        self.send_response(code)
        headers: Sequence[tuple[str, str]] = (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        )
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a line a second would hide everything else."""
