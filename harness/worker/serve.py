"""One server per environment starts attempts, limits them, and leaves nothing behind.

Three kinds of process::

    server      imports torch once (``warm``), forks a supervisor per attempt, reports to the harness
    supervisor  owns one attempt: deadline, memory, output tails, and every process that comes of it
    attempt     a pristine fork of the server, or a fresh interpreter where the job asks for one

Server and supervisor are child subreapers: a daemon that leaves its process group and session still
ends up as a child of its supervisor, and is killed there. Parent-death signals take the tree down
when the harness is killed. Linux only (prctl(2), /proc).

Protocol: one JSON object a line. Requests on stdin name an ``id`` and the path of a job file; the
replies are ``{"event": "ready", ...}`` once, then ``{"event": "done", "id": ..., "status": ...}``.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import selectors
import signal
import sys
import time
from typing import Any, Dict

from .processes import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    catches,
    children,
    descendants,
    end_all,
    prctl,
    quiet_kill,
    resident_bytes,
    signal_name,
)

TAIL = 64 * 1024
POLL_S = 0.2

Json = Dict[str, Any]


class Tail:
    """The last ``TAIL`` bytes of a stream and how many there were."""

    def __init__(self) -> None:
        self.kept = b""
        self.seen = 0

    def add(self, data: bytes) -> None:
        self.seen += len(data)
        self.kept = (self.kept + data)[-TAIL:]

    def text(self) -> str:
        text = self.kept.decode("utf-8", "replace")
        if self.seen > len(self.kept):
            text = "[... %d bytes left out]\n%s" % (self.seen - len(self.kept), text)
        return text


def write_json(path: str, value: Json) -> None:
    """Whole file, renamed into place; the repro may have removed the folder."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = "%s.%d" % (path, os.getpid())
    with open(temporary, "w") as stream:
        json.dump(value, stream)
    os.replace(temporary, path)


def start_attempt(job: Json, job_path: str, warm: bool, out: int, err: int) -> None:
    """In the child: become the attempt. Never returns."""
    code = 70
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        signal.set_wakeup_fd(-1)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            with open("/proc/self/oom_score_adj", "w") as stream:
                stream.write("1000")
        except OSError:
            pass
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                _close(int(name))
        os.chdir(job.get("cwd") or job["folder"])
        os.environ.clear()
        os.environ.update(job["environ"])
        if job.get("command"):
            os.execvpe(job["command"][0], job["command"], dict(os.environ))
        elif warm and not job["fresh"]:
            import tempfile

            tempfile.tempdir = None
            from . import attempt

            attempt.main(job_path)
            code = 0
        else:
            here = os.path.dirname(os.path.abspath(__file__))
            os.execve(sys.executable, [sys.executable, here, "attempt", job_path], os.environ)
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else (0 if exc.code is None else 1)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            pass
        os._exit(code)


def supervise(job: Json, job_path: str, warm: bool) -> None:
    """In the supervisor: run one attempt to its end and write its status. Never returns."""
    status: Json = {"exit_code": None, "signal": None, "timed_out": False, "out_of_memory": False}
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.setsid()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    stop: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stop.append(received))
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        start_attempt(job, job_path, warm, out_write, err_write)
    os.close(out_write)
    os.close(err_write)
    tails = {out_read: Tail(), err_read: Tail()}
    selector = selectors.DefaultSelector()
    for descriptor in tails:
        os.set_blocking(descriptor, False)
        selector.register(descriptor, selectors.EVENT_READ)
    selector.register(wake_read, selectors.EVENT_READ)

    deadline = started + job["timeout_s"]
    warned = False
    most = 0
    me = os.getpid()
    code: int | None = None
    while code is None:
        now = time.monotonic()
        pause = max(0.0, min(POLL_S, deadline - now))
        for key, _ in selector.select(pause):
            descriptor = key.fd
            data = _read(descriptor)
            if descriptor in tails and data is not None:
                if data:
                    tails[descriptor].add(data)
                else:
                    selector.unregister(descriptor)
        done, raw = os.waitpid(pid, os.WNOHANG)
        if done:
            code = raw
            break
        now = time.monotonic()
        below = descendants(me)
        most = max(most, resident_bytes(below))
        if most > job["memory_bytes"]:
            status["out_of_memory"] = True
        elif now >= deadline:
            status["timed_out"] = True
        elif now >= deadline - 1.0 and not warned:
            warned = True
            if catches(pid, signal.SIGUSR2):
                quiet_kill(pid, signal.SIGUSR2)  # faulthandler writes where it hangs
        if status["out_of_memory"] or status["timed_out"] or stop:
            quiet_kill(pid, signal.SIGKILL)
            _, code = os.waitpid(pid, 0)
    status["duration_s"] = time.monotonic() - started
    status["left_behind"] = end_all(me)
    if stop:  # by the server, or by the repro: nobody is told anything
        os._exit(0)
    for descriptor, tail in tails.items():
        for _ in range(1024):
            data = _read(descriptor)
            if not data:
                break
            tail.add(data)
    if os.WIFSIGNALED(code):
        status["signal"] = signal_name(os.WTERMSIG(code))
    else:
        status["exit_code"] = os.WEXITSTATUS(code)
    status["max_resident_bytes"] = most
    status["stdout_tail"] = tails[out_read].text()
    status["stderr_tail"] = tails[err_read].text()
    try:
        write_json(job["status"], status)
    finally:
        os._exit(0)


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass


# Modules that the first compilation imports, and functions without arguments whose answers are facts
# of the installation, kept by torch for the life of a process: which vector instructions CPU and
# compiler have (some five seconds of test programs; in codecache up to 2.4), and hashes over the
# files of torch and triton (two seconds). None of them touches CUDA.
LAZY_MODULES = (
    "torch._inductor.graph",
    "torch._inductor.lowering",
    "torch._inductor.codegen.cpp",
    "torch._inductor.fx_passes.joint_graph",
    "torch._inductor.fx_passes.post_grad",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._dynamo.backends.inductor",
)
FACTS = (
    ("torch._inductor.cpu_vec_isa", "valid_vec_isa_list"),
    ("torch._inductor.codecache", "valid_vec_isa_list"),
    ("torch._inductor.codecache", "torch_key"),
    ("triton.runtime.cache", "triton_key"),
    ("triton.compiler.compiler", "triton_key"),
)


def know_facts() -> None:
    """Find out once what every fork would find out again."""
    if "torch._inductor.compile_fx" not in sys.modules:
        return
    for name in LAZY_MODULES:
        try:
            importlib.import_module(name)
        except Exception:
            pass
    for name, function in FACTS:
        try:
            getattr(importlib.import_module(name), function)()
        except Exception:
            pass


def preimport(modules: list[str]) -> Json:
    """Import what every attempt needs; say whether forking from here is sound.

    A fork takes the calling thread alone along. Threads or children that an import has started
    (compile pools of some releases) would be missing in it, so then nothing is forked.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except BaseException as exc:
            return {
                "warm": False,
                "why": "importing %s: %s: %s" % (module, type(exc).__name__, exc),
            }
    know_facts()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return {"warm": False, "why": "importing %s started %d threads" % (module, threads - 1)}
    if children(os.getpid()):
        return {"warm": False, "why": "importing %s started processes" % module}
    if holds_gpu():
        return {"warm": False, "why": "importing %s opened the GPU, which a fork cannot use" % module}
    return {"warm": bool(modules), "why": ""}


def holds_gpu() -> bool:
    """Whether this process has a GPU open. CUDA that is initialised does not survive a fork."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith("/dev/nvidia"):
                return True
        except OSError:
            continue
    return False


def serve(modules: list[str]) -> None:
    """Answer requests until stdin ends, then end everything that was started."""
    # No parent-death signal here: it would fire when the harness's thread that started us ends.
    # The end of stdin tells of the harness's death.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    replies = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    stopping: list[int] = []
    state = preimport(modules)
    warm = bool(state["warm"])

    wake_read, wake_write = os.pipe()
    for descriptor in (wake_read, wake_write):
        os.set_blocking(descriptor, False)
    os.set_blocking(0, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stopping.append(received))
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def reply(value: Json) -> None:
        replies.write(json.dumps(value) + "\n")
        replies.flush()

    running: dict[int, tuple[str, str]] = {}
    buffer = b""
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(wake_read, selectors.EVENT_READ)
    try:
        reply(dict(state, event="ready", pid=os.getpid()))
        while not stopping:
            for key, _ in selector.select():
                data = _read(key.fd)
                if key.fd == 0 and data == b"":
                    stopping.append(0)
                elif key.fd == 0 and data:
                    buffer += data
            while b"\n" in buffer:
                line, buffer = buffer.split(b"\n", 1)
                request = json.loads(line.decode())
                with open(request["job"]) as stream:
                    job = json.load(stream)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    os.close(replies.fileno())
                    supervise(job, request["job"], warm)
                running[pid] = (request["id"], job["status"])
            for pid in list(running):
                done, _ = os.waitpid(pid, os.WNOHANG)
                if done:
                    name, status = running.pop(pid)
                    # Orphans of a supervisor that was killed come here: subreapers nest.
                    end_all(os.getpid(), keep=set(running))
                    reply({"event": "done", "id": name, "status": os.path.exists(status)})
    except BrokenPipeError:
        pass
    finally:
        end_all(os.getpid())
        os._exit(0)
