"""One attempt: ask an environment's server for it, wait, read what came of it.

The server (``harness/worker/serve.py``) owns the processes. Here is the harness's side: starting and
ending servers, the attempt's folder, its environment variables, and the reading of its outcome.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from harness.disk import Claim, forget
from harness.errors import SetupError
from harness.outcome import Kind, Outcome
from harness.reading import LOST, WORKER, read_outcome
from harness.reading import shorten as shorten

DEFAULT_TIMEOUT_S = 300.0  # a first compile in a cold environment took 60 s and more on a busy host
GRACE_S = 30.0
# Imported before forking. Where an import starts threads or processes (compile pools of some
# releases), the next shorter list is tried; see worker/serve.py.
WARM = (("torch", "torch._dynamo", "torch._inductor.compile_fx"), ("torch", "torch._dynamo"), ("torch",))

# What an attempt may see of the caller's variables: no token, no proxy, no private path.
ALLOWED = re.compile(
    r"LANG|LC_[A-Z]+|TZ|CC|CXX|CUDA_HOME|CUDA_PATH|CUDA_VISIBLE_DEVICES|NVIDIA_[A-Z_]+|LD_LIBRARY_PATH|"
    r"OMP_NUM_THREADS|MKL_NUM_THREADS|TORCHINDUCTOR_COMPILE_THREADS|ROCM_[A-Z_]+|HIP_[A-Z_]+|FAKE_STATE"
)


class Interrupted(Exception):
    """The run is being stopped; this attempt has no outcome."""


@dataclass(frozen=True)
class Request:
    """What to run: a resolved spec, or a command of one's own."""

    spec: dict[str, Any]
    fresh: bool = True
    timeout_s: float = DEFAULT_TIMEOUT_S
    memory_bytes: int = 0
    command: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)


def default_memory(jobs: int = 1) -> int:
    """Bytes that one attempt may hold: its share of four fifths of the host's memory."""
    return max(2 * 10**9, int(psutil.virtual_memory().total * 0.8) // max(1, jobs))


def base_environ(python: Path, folder: Path) -> dict[str, str]:
    """An attempt's variables: the allowed ones, and private folders for everything that is cached."""
    environ = {k: v for k, v in os.environ.items() if ALLOWED.fullmatch(k)}
    environ["PATH"] = f"{python.parent}:{os.environ.get('PATH', os.defpath)}"
    environ.setdefault("LANG", "C.UTF-8")
    environ.update(
        HOME=str(folder / "home"),
        TMPDIR=str(folder / "tmp"),
        XDG_CACHE_HOME=str(folder / "home" / ".cache"),
        TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
        TRITON_CACHE_DIR=str(folder / "triton"),
        CUDA_CACHE_PATH=str(folder / "nv"),
        TORCH_HOME=str(folder / "home"),
        TERM="dumb",
        PYTHONUNBUFFERED="1",
        PYTHONNOUSERSITE="1",
        USER="harness",
    )
    return environ


@dataclass
class _Link:
    """One server process, its scratch folder, and the attempts that wait for it."""

    process: subprocess.Popen[bytes]
    scratch: Path
    waiting: dict[str, threading.Event] = field(default_factory=dict)
    dead: threading.Event = field(default_factory=threading.Event)


class Server:
    """A worker server of one environment; thread-safe, several attempts at once."""

    def __init__(self, python: Path, home: Path, warm: bool = True) -> None:
        self.python, self.home = python, home
        self.warm = False
        self.why = ""
        self._lock = threading.Lock()
        self._closed = False
        self._link: _Link
        self._alone: set[Server] = set()
        self._folder = Claim(home / "attempts")
        try:
            for modules in (WARM if warm else ()) + ((),):
                self._start(modules)
                if self.warm or not modules:
                    break
                self._end(self._link)
        except BaseException:
            self._folder.release()
            raise

    def _start(self, modules: tuple[str, ...]) -> None:
        scratch = self._folder.path / f"server-{uuid.uuid4().hex[:12]}"
        for name in ("home", "tmp"):
            (scratch / name).mkdir(parents=True, exist_ok=True)
        environ = base_environ(self.python, scratch)
        # numpy's OpenBLAS starts its threads on import; forking wants none.
        environ["OPENBLAS_NUM_THREADS"] = "1"
        # Asking whether there is a GPU must not open it (torch 2.0 on).
        environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        try:
            with (scratch / "stderr").open("wb") as stderr:
                process = subprocess.Popen(
                    [str(self.python), str(WORKER), "serve", *modules],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=environ,
                    cwd=scratch,
                    start_new_session=True,
                )
        except OSError as exc:
            forget(scratch)
            raise SetupError(f"{self.python.name} of the environment cannot be run: {exc.strerror}") from exc
        link = self._link = _Link(process, scratch)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            text = (scratch / "stderr").read_text("utf-8", "replace")[-500:]
            self._end(link)
            link.dead.set()
            if modules:  # importing crashed outright: attempts will say how
                self.warm, self.why = False, "importing torch ended the process"
                return
            raise SetupError(f"the worker does not start: {text.strip() or 'no word from it'}")
        ready = json.loads(line)
        self.warm, self.why = bool(ready["warm"]), ready["why"]
        threading.Thread(target=self._listen, args=(link,), daemon=True).start()

    def _listen(self, link: _Link) -> None:
        assert link.process.stdout is not None
        for line in link.process.stdout:
            try:
                reply = json.loads(line)
            except ValueError:
                continue
            with self._lock:
                event = link.waiting.pop(reply.get("id"), None)
            if event is not None:
                event.set()
        with self._lock:
            link.dead.set()
            left = list(link.waiting.values())
            link.waiting.clear()
        for event in left:
            event.set()

    def attempt(self, request: Request) -> Outcome:
        """Run one attempt to its end.

        Raises:
            Interrupted: the server is being closed.
        """
        outcome, link = self._attempt(request)
        if outcome.reason == LOST and link.dead.is_set():
            # The server itself was ended, not by us. Once more under a server of its own, to tell
            # an attempt that kills it from one that only ran beside such an attempt.
            with self._lock:
                if self._closed:
                    raise Interrupted
                alone = Server(self.python, self.home, warm=False)
                self._alone.add(alone)
            try:
                outcome, _ = alone._attempt(request)
            finally:
                alone.close()
                self._alone.discard(alone)
        return outcome

    def _attempt(self, request: Request) -> tuple[Outcome, _Link]:
        name = uuid.uuid4().hex[:12]
        root = self._folder.path / name
        if self._closed:
            raise Interrupted
        try:
            job = self._lay_out(root, request)
        except OSError as exc:
            forget(root)
            raise SetupError(
                f"the folder of an attempt cannot be made: {exc.strerror or exc}",
                "make room below HARNESS_HOME; what ran before is kept",
            ) from exc
        try:
            link, answered = self._ask(name, root / "job.json", request.timeout_s)
            if self._closed:
                raise Interrupted
            outcome = read_outcome(root, job, self._shorten)
            if not answered:
                reason = (
                    f"neither it nor the process that watched over it ended within {request.timeout_s:g} s"
                )
                outcome = Outcome(kind=Kind.TIMEOUT, phase=outcome.phase, reason=reason)
            return outcome, link
        finally:
            forget(self._folder.path if self._closed else root)

    def _lay_out(self, root: Path, request: Request) -> dict[str, Any]:
        """Make the attempt's folder; returns the job that is written there."""
        folder = root / "work"
        for sub in ("home", "tmp"):
            (folder / sub).mkdir(parents=True)
        environ = {**base_environ(self.python, folder), **request.spec.get("env", {}), **request.environ}
        spec = dict(request.spec)
        if spec.get("script") and Path(spec["script"]).is_file():
            copied = folder / Path(spec["script"]).name
            shutil.copyfile(spec["script"], copied)
            spec["script"] = str(copied)
        job: dict[str, Any] = {
            "spec": spec,
            "folder": str(folder),
            "environ": environ,
            "fresh": request.fresh,
            "command": list(request.command),
            "cwd": str(Path.cwd()) if request.command else None,  # a command names files as its user does
            "timeout_s": request.timeout_s,
            "memory_bytes": request.memory_bytes or default_memory(),
            "result": str(root / "result.json"),
            "status": str(root / "status.json"),
            "progress": str(root / "progress"),
        }
        (root / "job.json").write_text(json.dumps(job))
        return job

    def _ask(self, name: str, job: Path, timeout_s: float) -> tuple[_Link, bool]:
        event = threading.Event()
        with self._lock:
            if self._closed:
                raise Interrupted
            if self._link.dead.is_set():  # a repro killed it; the next attempt gets another
                self._end(self._link)
                self._start(())
            link = self._link
            link.waiting[name] = event
            assert link.process.stdin is not None
            line = json.dumps({"id": name, "job": str(job)}) + "\n"
            with contextlib.suppress(OSError):
                link.process.stdin.write(line.encode())
                link.process.stdin.flush()
        answered = event.wait(timeout_s + GRACE_S)
        if not answered:
            with self._lock:
                link.waiting.pop(name, None)
            self._end(link)  # the supervisor itself hangs: the whole tree goes
        return link, answered

    def _shorten(self, text: str) -> str:
        """Texts without this machine's paths."""
        return shorten(text, self.python, self.home)

    def _end(self, link: _Link) -> None:
        process = link.process
        below: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(process.pid).children(recursive=True)
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in below:
            with contextlib.suppress(psutil.Error):
                child.kill()
        forget(link.scratch)

    def close(self) -> None:
        """End the server and all that runs below it."""
        with self._lock:
            self._closed = True
            servers = list(self._alone)
        for server in servers:
            server.close()
        self._end(self._link)
        self._folder.release()


def probe(python: Path, home: Path) -> dict[str, Any]:
    """Facts of the environment of ``python``: torch, git_version, cuda, python, numpy, GPUs, ...

    Raises:
        SetupError: the interpreter cannot run the worker.
    """
    server = Server(python, home, warm=False)
    try:
        outcome = server.attempt(Request({"probe": True}, timeout_s=DEFAULT_TIMEOUT_S))
    finally:
        server.close()
    facts = {k: v for k, v in outcome.detail.items() if k not in ("max_resident_bytes",)}
    if outcome.kind is not Kind.OK:
        facts["import_error"] = outcome.message or str(outcome.kind)
    return facts
