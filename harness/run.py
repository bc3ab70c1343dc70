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

from harness.errors import SetupError
from harness.outcome import ExceptionInfo, Kind, Outcome, Phase
from harness.tracebacks import parse_tracebacks

WORKER = Path(__file__).parent / "worker"
DEFAULT_TIMEOUT_S = 300.0  # a first compile in a cold environment took 60 s and more on a busy host
GRACE_S = 30.0
RESULT_BYTES = 8_000_000
STDERR_CHARS = 6000
LOST = "the attempt ended the process that watched over it"
# Imported before forking. Where an import starts threads or processes (compile pools of some
# releases), the next shorter list is tried; see worker/serve.py.
WARM = (("torch", "torch._dynamo", "torch._inductor.compile_fx"), ("torch", "torch._dynamo"), ("torch",))

# What an attempt may see of the caller's variables: no token, no proxy, no private path.
ALLOWED = re.compile(
    r"LANG|LC_[A-Z]+|TZ|CC|CXX|CUDA_HOME|CUDA_PATH|CUDA_VISIBLE_DEVICES|NVIDIA_[A-Z_]+|LD_LIBRARY_PATH|"
    r"OMP_NUM_THREADS|MKL_NUM_THREADS|ROCM_[A-Z_]+|HIP_[A-Z_]+|FAKE_STATE"
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


class Server:
    """A worker server of one environment; thread-safe, several attempts at once."""

    def __init__(self, python: Path, home: Path, warm: bool = True) -> None:
        self.python, self.home = python, home
        self.warm = False
        self.why = ""
        self._waiting: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._closed = False
        for modules in (WARM if warm else ()) + ((),):
            self._start(modules)
            if self.warm or not modules:
                break
            self._end()

    def _start(self, modules: tuple[str, ...]) -> None:
        scratch = self.home / "attempts" / f"server-{uuid.uuid4().hex[:12]}"
        for name in ("home", "tmp"):
            (scratch / name).mkdir(parents=True, exist_ok=True)
        self._scratch = scratch
        environ = base_environ(self.python, scratch)
        # numpy's OpenBLAS starts its threads on import; forking wants none.
        environ["OPENBLAS_NUM_THREADS"] = "1"
        try:
            self._process = subprocess.Popen(
                [str(self.python), str(WORKER), "serve", *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(scratch / "stderr").open("wb"),
                env=environ,
                cwd=scratch,
                start_new_session=True,
            )
        except OSError as exc:
            raise SetupError(f"{self.python.name} of the environment cannot be run: {exc.strerror}") from exc
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            text = (scratch / "stderr").read_text("utf-8", "replace")[-500:]
            self._end()
            if modules:  # importing crashed outright: attempts will say how
                self.warm, self.why = False, "importing torch ended the process"
                return
            raise SetupError(f"the worker does not start: {text.strip() or 'no word from it'}")
        ready = json.loads(line)
        self.warm, self.why = bool(ready["warm"]), ready["why"]
        self._dead = threading.Event()
        threading.Thread(target=self._listen, args=(self._process, self._dead), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes], dead: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                reply = json.loads(line)
            except ValueError:
                continue
            with self._lock:
                event = self._waiting.pop(reply.get("id"), None)
            if event is not None:
                event.set()
        dead.set()
        with self._lock:
            left = list(self._waiting.values())
            self._waiting.clear()
        for event in left:
            event.set()

    def attempt(self, request: Request) -> Outcome:
        """Run one attempt to its end.

        Raises:
            Interrupted: the server is being closed.
        """
        outcome = self._attempt(request)
        if self._dead.is_set() and outcome.reason == LOST:
            # The server itself was ended, not by us. Once more, to tell an attempt that kills it
            # from one that only ran beside such an attempt.
            outcome = self._attempt(request)
        return outcome

    def _attempt(self, request: Request) -> Outcome:
        name = uuid.uuid4().hex[:12]
        root = self.home / "attempts" / name
        folder = root / "work"
        for sub in ("home", "tmp"):
            (folder / sub).mkdir(parents=True)
        environ = {**base_environ(self.python, folder), **request.spec.get("env", {}), **request.environ}
        spec = dict(request.spec)
        if spec.get("script") and Path(spec["script"]).is_file():
            copied = folder / Path(spec["script"]).name
            shutil.copyfile(spec["script"], copied)
            spec["script"] = str(copied)
        job = {
            "spec": spec,
            "folder": str(folder),
            "environ": environ,
            "fresh": request.fresh,
            "command": list(request.command),
            "timeout_s": request.timeout_s,
            "memory_bytes": request.memory_bytes or default_memory(),
            "result": str(root / "result.json"),
            "status": str(root / "status.json"),
            "progress": str(root / "progress"),
        }
        (root / "job.json").write_text(json.dumps(job))
        try:
            self._ask(name, root / "job.json", request.timeout_s)
            if self._closed:
                raise Interrupted
            return read_outcome(root, job, self._shorten)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _ask(self, name: str, job: Path, timeout_s: float) -> None:
        event = threading.Event()
        with self._lock:
            if self._closed:
                raise Interrupted
            if self._dead.is_set():  # a repro killed it; the next attempt gets another
                self._end()
                self._start(())
            self._waiting[name] = event
            assert self._process.stdin is not None
            line = json.dumps({"id": name, "job": str(job)}) + "\n"
            with contextlib.suppress(OSError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
        if not event.wait(timeout_s + GRACE_S):
            with self._lock:
                self._waiting.pop(name, None)
            self._end()  # the supervisor itself hangs: the whole tree goes

    def _shorten(self, text: str) -> str:
        """Texts without this machine's paths."""
        return shorten(text, self.python, self.home)

    def _end(self) -> None:
        process = self._process
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
        shutil.rmtree(self._scratch, ignore_errors=True)

    def close(self) -> None:
        """End the server and all that runs below it."""
        with self._lock:
            self._closed = True
        self._end()


def shorten(text: str, python: Path, home: Path) -> str:
    """``text`` with the paths of this machine replaced: records are for others to read."""
    text = re.sub(re.escape(str(home / "attempts")) + r"/[0-9a-z-]+/work", "<attempt>", text)
    pairs = [(str(python.parent.parent), "<env>"), (str(home), "<home>"), (str(WORKER.parent), "<harness>")]
    with contextlib.suppress(OSError):
        base = python.resolve().parent.parent
        pairs.append((str(base), "<python>"))
    user = os.path.expanduser("~")  # noqa: PTH111
    pairs.append((user, "~") if len(user) > 1 else (str(home), "<home>"))
    for path, short in sorted(pairs, key=lambda pair: -len(pair[0])):
        if len(path) > 4:
            text = text.replace(path, short)
    return text


def read_outcome(root: Path, job: dict[str, Any], shorten: Any) -> Outcome:
    """What the files of a finished attempt say."""
    status = _load(root / "status.json")
    result = _load(root / "result.json")
    phase = _phase(root / "progress")
    if status is None:
        return Outcome(kind=Kind.ERROR, phase=phase, reason=LOST)
    if status["stopped"]:
        raise Interrupted
    stderr, stdout = shorten(status["stderr_tail"]), shorten(status["stdout_tail"])
    common: dict[str, Any] = {
        "duration_s": round(status["duration_s"], 3),
        "exit_code": status["exit_code"],
        "signal": status["signal"],
        "stderr_tail": stderr[-STDERR_CHARS:],
        "stdout_tail": stdout[-2000:],
    }
    detail: dict[str, Any] = {"max_resident_bytes": status["max_resident_bytes"]}
    if status["left_behind"]:
        detail["processes_left_behind"] = status["left_behind"]
    if status["out_of_memory"]:
        limit = job["memory_bytes"] / 1e9
        return Outcome(
            kind=Kind.OOM, phase=phase, reason=f"held more than {limit:.1f} GB", detail=detail, **common
        )
    if status["timed_out"]:
        reason = f"did not end within {job['timeout_s']:g} s"
        return Outcome(
            kind=Kind.TIMEOUT, phase=_crash_phase(phase, stderr), reason=reason, detail=detail, **common
        )
    if status["signal"]:
        reason = f"killed by {status['signal']}"
        return Outcome(
            kind=Kind.SIGNAL, phase=_crash_phase(phase, stderr), reason=reason, detail=detail, **common
        )
    if result is not None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            detail.update(result.get("detail") or {})
            return Outcome(
                kind=Kind(result["kind"]),
                phase=Phase(result["phase"]),
                reason=shorten(str(result["reason"])) if result.get("reason") else None,
                exceptions=tuple(
                    ExceptionInfo(
                        type=str(e["type"]), message=shorten(str(e["message"])), link=str(e["link"])
                    )
                    for e in result.get("exceptions", [])
                ),
                output=result.get("output"),
                detail=detail,
                **common,
            )
    code = status["exit_code"]
    if code == 0 and job["command"]:
        return Outcome(kind=Kind.OK, phase=Phase.RUN, detail=detail, **common)
    chain = parse_tracebacks(shorten(status["stderr_tail"]))
    if job["command"]:
        reason, phase = f"exit code {code}", Phase.RUN
    else:
        reason = f"ended with exit code {code} and no readable result"
    return Outcome(kind=Kind.ERROR, phase=phase, reason=reason, exceptions=chain, detail=detail, **common)


def _load(file: Path) -> dict[str, Any] | None:
    try:
        with file.open("rb") as stream:
            value = json.loads(stream.read(RESULT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _phase(file: Path) -> Phase:
    try:
        return Phase(file.read_text().strip())
    except (OSError, ValueError):
        return Phase.IMPORT


def _crash_phase(phase: Phase, stderr: str) -> Phase:
    """Compile or run, by the stack that faulthandler wrote; compile where it wrote none."""
    if phase is Phase.COMPILE and "most recent call first" in stderr:
        stack = stderr[stderr.index("most recent call first") :]
        if not re.search(
            r"torch/(_dynamo/convert_frame|_inductor/compile_fx|_dynamo/output_graph)\.py", stack
        ):
            return Phase.RUN
    return phase


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
