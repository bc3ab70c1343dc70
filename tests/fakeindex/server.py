"""A package index on 127.0.0.1: PEP 691 and PEP 503 pages, the files, and faults on demand."""

from __future__ import annotations

import hashlib
import html
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from packaging.utils import parse_wheel_filename

from .wheels import Wheel

JSON = "application/vnd.pypi.simple.v1+json"
HTML = "text/html; charset=utf-8"

Catalog = Mapping[str, Mapping[str, Sequence[Wheel]]]
"""Channel (the path of its pages, e.g. `simple`) to project to files."""


@dataclass
class Fault:
    """Something that goes wrong for requests whose path or last segment matches `pattern`.

    `times` counts down to 0, where the fault is over; None is forever. Several may match: the
    first that is not over counts. Fields combine (`delay` and `status`, say).
    """

    pattern: str
    times: int | None = None
    status: int | None = None
    body: bytes | None = None
    retry_after: int | None = None
    delay: float = 0.0
    bytes_per_second: int | None = None
    cut: bool = False
    drop: bool = False
    hits: int = 0


@dataclass
class Request:
    """What was asked, and how it was answered."""

    method: str
    path: str
    """Unquoted, without query."""
    status: int = 0
    """0: not answered at all."""
    complete: bool = False
    """The whole body was sent."""

    @property
    def filename(self) -> str:
        """The last segment of the path; of a page, the project."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    def matches(self, pattern: str) -> bool:
        """Whether the path or its last segment matches this glob."""
        return fnmatchcase(self.path, pattern) or fnmatchcase(self.filename, pattern)


@dataclass
class _Answer:
    status: int
    body: bytes
    content_type: str
    headers: dict[str, str] = field(default_factory=dict)


class Server:
    """Serves a catalog until closed; the catalog and the faults may be changed at any time."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self._held: socket.socket | None = None
        self._http: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.port = 0
        self._listen(_bound(0))

    @property
    def root(self) -> str:
        """The address without a path, e.g. `http://127.0.0.1:4321`."""
        return f"http://127.0.0.1:{self.port}"

    def _listen(self, listener: socket.socket) -> None:
        server = self

        class Handler(_Handler):
            index = server

        class Http(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Clients that hang up are everyday life here, and no news on stderr."""

        self._http = Http(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._http.socket.close()
        self._http.socket = listener
        self.port = listener.getsockname()[1]
        listener.listen(128)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def refuse(self) -> None:
        """From now on connections are refused, open ones cut; the port stays ours."""
        if self._http is None or self._thread is None:
            return
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http = self._thread = None
        with self._lock:
            for connection in self._connections:
                _hang_up(connection)
        # Bound, but not listening: the kernel refuses, and nobody else gets the port meanwhile.
        self._held = _bound(self.port)

    def accept(self) -> None:
        """Ends `refuse`."""
        if self._held is not None:
            listener, self._held = self._held, None
            self._listen(listener)

    def close(self) -> None:
        """Ends the server and every connection."""
        self._closing.set()
        self.refuse()
        if self._held is not None:
            self._held.close()
            self._held = None

    def _fault_for(self, request: Request) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if fault.times != 0 and request.matches(fault.pattern):
                    fault.hits += 1
                    fault.times = None if fault.times is None else fault.times - 1
                    return fault
        return None

    def _answer(self, path: str, accept: str) -> _Answer:
        parts = path.strip("/").split("/")
        if parts[0] == "files" and len(parts) > 2:
            return self._file("/".join(parts[1:-1]), parts[-1])
        as_json = JSON in accept
        channel = self.catalog.get("/".join(parts))
        if channel is not None:
            return _projects(sorted(channel), as_json=as_json and parts == ["simple"])
        files = self.catalog.get("/".join(parts[:-1]), {}).get(parts[-1])
        if files is None:
            return _Answer(404, b"404 Not Found", "text/plain")
        if not path.endswith("/"):
            return _Answer(301, b"", "text/plain", {"Location": f"{quote(path)}/"})
        home = "/".join(parts[:-1])
        if home != "simple":
            # PyTorch's own indexes: plain HTML, and no word of when a file was uploaded.
            return _html_page(parts[-1], home, files)
        return _json_page(parts[-1], home, files) if as_json else _html_page(parts[-1], home, files)

    def _file(self, home: str, filename: str) -> _Answer:
        wanted = filename.removesuffix(".metadata")
        for files in self.catalog.get(home, {}).values():
            for wheel in files:
                if wheel.filename != wanted:
                    continue
                if wanted == filename:
                    return _Answer(200, wheel.body, "application/octet-stream")
                if wheel.core_metadata:
                    return _Answer(200, wheel.metadata, "application/octet-stream")
        return _Answer(404, b"404 Not Found", "text/plain")


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    index: Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    # Headers and body are two writes; without this each small answer would wait for an ACK.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        with self.index._lock:
            self.index._connections.add(self.connection)

    def finish(self) -> None:
        with self.index._lock:
            self.index._connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `requests`; stderr stays theirs."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        index = self.index
        request = Request(self.command, unquote(urlsplit(self.path).path))
        with index._lock:
            index.requests.append(request)
        fault = index._fault_for(request) or Fault("")
        if fault.delay:
            index._closing.wait(fault.delay)
        if fault.drop:
            self.close_connection = True
            return
        answer = index._answer(request.path, self.headers.get("Accept", ""))
        if fault.status is not None:
            answer = _Answer(fault.status, b"it is the index's fault", "text/plain")
        if fault.body is not None:
            answer.body = fault.body
        if fault.retry_after is not None:
            answer.headers["Retry-After"] = str(fault.retry_after)
        self._send(request, answer, fault)

    def _send(self, request: Request, answer: _Answer, fault: Fault) -> None:
        request.status = answer.status
        # Said before the last byte leaves: the client may look at it as soon as that arrives.
        request.complete = not fault.cut
        etag = f'"{hashlib.sha256(answer.body).hexdigest()[:32]}"'
        if answer.status == 200 and self.headers.get("If-None-Match") == etag:
            answer = _Answer(304, b"", answer.content_type, answer.headers)
            request.status = 304
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("ETag", etag)
        # What the index publishes changes in the middle of a test, and must be seen at once.
        self.send_header("Cache-Control", "no-cache")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        body = b"" if self.command == "HEAD" else answer.body
        try:
            self._send_body(body[: len(body) // 2] if fault.cut else body, fault)
        except OSError:
            request.complete = False
            raise
        if fault.cut:
            self.close_connection = True

    def _send_body(self, body: bytes, fault: Fault) -> None:
        if fault.bytes_per_second is None:
            self.wfile.write(body)
            return
        chunk = max(fault.bytes_per_second // 20, 1)
        for start in range(0, len(body), chunk):
            self.wfile.write(body[start : start + chunk])
            if self.index._closing.wait(chunk / fault.bytes_per_second):
                return


def _bound(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # Already gone.
        return


def _projects(names: Sequence[str], *, as_json: bool) -> _Answer:
    if as_json:
        listing = {"meta": {"api-version": "1.1"}, "projects": [{"name": name} for name in names]}
        return _Answer(200, json.dumps(listing).encode(), JSON)
    links = "".join(f'<a href="{name}/">{name}</a><br/>\n' for name in names)
    return _Answer(200, f"<!DOCTYPE html><html><body>\n{links}</body></html>".encode(), HTML)


def _json_page(project: str, home: str, files: Sequence[Wheel]) -> _Answer:
    page = {
        "meta": {"api-version": "1.1"},
        "name": project,
        "versions": sorted({str(parse_wheel_filename(wheel.filename)[1]) for wheel in files}),
        "files": [_json_file(home, wheel) for wheel in files],
    }
    return _Answer(200, json.dumps(page).encode(), JSON)


def _json_file(home: str, wheel: Wheel) -> dict[str, object]:
    beside = _metadata_hash(wheel)
    return {
        "filename": wheel.filename,
        "url": f"/files/{home}/{quote(wheel.filename)}",
        "hashes": {"sha256": wheel.sha256},
        "requires-python": wheel.requires_python,
        "size": len(wheel.body),
        "upload-time": wheel.uploaded.isoformat().replace("+00:00", "Z"),
        "yanked": wheel.yanked,
        "core-metadata": {"sha256": beside} if beside else False,
    }


def _html_page(project: str, home: str, files: Sequence[Wheel]) -> _Answer:
    lines = []
    for wheel in files:
        said = {}
        if wheel.requires_python:
            said["data-requires-python"] = wheel.requires_python
        if wheel.yanked:
            said["data-yanked"] = wheel.yanked if isinstance(wheel.yanked, str) else ""
        if beside := _metadata_hash(wheel):
            said["data-core-metadata"] = said["data-dist-info-metadata"] = f"sha256={beside}"
        attributes = "".join(f' {key}="{html.escape(value)}"' for key, value in said.items())
        url = f"/files/{home}/{quote(wheel.filename)}#sha256={wheel.sha256}"
        lines.append(f'<a href="{url}"{attributes}>{html.escape(wheel.filename)}</a><br/>')
    links = "\n".join(lines)
    text = f"<!DOCTYPE html>\n<html><body><h1>Links for {project}</h1>\n{links}\n</body></html>\n"
    return _Answer(200, text.encode(), HTML)


def _metadata_hash(wheel: Wheel) -> str | None:
    return hashlib.sha256(wheel.metadata).hexdigest() if wheel.core_metadata else None
