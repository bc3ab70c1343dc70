"""What the files of a finished attempt say: its outcome, in texts that name no path of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.outcome import ExceptionInfo, Kind, Outcome, Phase
from harness.tracebacks import parse_tracebacks

WORKER = Path(__file__).parent / "worker"
RESULT_BYTES = 8_000_000
STDERR_CHARS = 6000
MESSAGE_CHARS = 8000
DEPTH = 12  # levels of nesting that a result may have
LOST = "the attempt ended the process that watched over it"
TOLD = {Kind.OK, Kind.ERROR, Kind.MISMATCH, Kind.OOM, Kind.UNSUPPORTED}  # what a worker may write


def shorten(text: str, python: Path, home: Path) -> str:
    """``text`` with the paths of this machine replaced: records are for others to read."""
    text = re.sub(re.escape(str(home / "attempts")) + r"/[0-9a-z-]+/[0-9a-z-]+/work", "<attempt>", text)
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


def read_outcome(root: Path, job: dict[str, Any], shorten: Callable[[str], str]) -> Outcome:
    """What the files of a finished attempt say.

    The result is written by the attempt, which may run anything: nothing in it is taken on trust but
    the supervisor's status, and nothing in it can be more than an outcome of the worker's kinds.
    """
    status = _load(root / "status.json")
    phase = _phase(root / "progress")
    if status is None:
        return Outcome(kind=Kind.ERROR, phase=phase, reason=LOST)
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
    common["detail"] = detail
    if status["out_of_memory"]:
        limit = job["memory_bytes"] / 1e9
        return Outcome(kind=Kind.OOM, phase=phase, reason=f"held more than {limit:.1f} GB", **common)
    if status["timed_out"]:
        reason = f"did not end within {job['timeout_s']:g} s"
        return Outcome(kind=Kind.TIMEOUT, phase=_crash_phase(phase, stderr), reason=reason, **common)
    if status["signal"]:
        reason = f"killed by {status['signal']}"
        return Outcome(kind=Kind.SIGNAL, phase=_crash_phase(phase, stderr), reason=reason, **common)
    result = _load(root / "result.json")
    if result is not None:
        # LookupError, ... : whatever a forged result lacks or has of another type.
        with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
            return _told(result, shorten, common)
    return _untold(job, phase, shorten(status["stderr_tail"]), common)


def _told(result: dict[str, Any], shorten: Callable[[str], str], common: dict[str, Any]) -> Outcome:
    """The outcome that the worker wrote."""
    kind = Kind(result["kind"])
    if kind not in TOLD:
        raise ValueError(kind)
    detail, output = result.get("detail") or {}, result.get("output")
    if _depth(detail) > DEPTH or _depth(output) > DEPTH:
        raise ValueError("nested too deeply")
    exceptions = tuple(
        ExceptionInfo(
            type=_text(e["type"])[:500],
            message=shorten(_text(e["message"]))[:MESSAGE_CHARS],
            link=_text(e["link"]),
        )
        for e in result.get("exceptions", [])[:16]
    )
    reason = shorten(_text(result["reason"]))[:MESSAGE_CHARS] if result.get("reason") else None
    more = {**common, "detail": {**_cleaned(detail), **common["detail"]}}
    return Outcome(
        kind=kind, phase=Phase(result["phase"]), reason=reason, exceptions=exceptions,
        output=_cleaned(output), **more,
    )  # fmt: skip


def _untold(job: dict[str, Any], phase: Phase, stderr: str, common: dict[str, Any]) -> Outcome:
    """The outcome of a process that wrote none: a command, or one that ended itself."""
    code = common["exit_code"]
    if job["command"] or job["spec"].get("script"):
        phase = Phase.RUN
        if code == 0:
            return Outcome(kind=Kind.OK, phase=phase, **common)
        reason = f"exit code {code}"
    else:
        reason = f"ended with exit code {code} and no readable result"
    return Outcome(kind=Kind.ERROR, phase=phase, reason=reason, exceptions=parse_tracebacks(stderr), **common)


def _text(value: Any) -> str:
    """A string that can be written as UTF-8: messages may hold lone surrogates."""
    return str(value).encode("utf-8", "replace").decode()


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_text(key): _cleaned(item) for key, item in value.items()}
    return value


def _depth(value: Any) -> int:
    """Levels of nesting."""
    level, here = 0, [value]
    while here and level <= DEPTH:
        level += 1
        here = [
            inner
            for item in here
            if isinstance(item, list | dict)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return level


def _load(file: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(_read(file, RESULT_BYTES) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _phase(file: Path) -> Phase:
    try:
        return Phase((_read(file, 64) or b"").decode("ascii", "replace").strip())
    except ValueError:
        return Phase.IMPORT


def _read(file: Path, limit: int) -> bytes | None:
    """The start of a regular file. A repro can put anything in its place: a pipe would block."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return stream.read(limit)


def _crash_phase(phase: Phase, stderr: str) -> Phase:
    """Compile or run, by the stack that faulthandler wrote; compile where it wrote none."""
    if phase is Phase.COMPILE and "most recent call first" in stderr:
        stack = stderr[stderr.index("most recent call first") :]
        if not re.search(
            r"torch/(_dynamo/convert_frame|_inductor/compile_fx|_dynamo/output_graph)\.py", stack
        ):
            return Phase.RUN
    return phase
