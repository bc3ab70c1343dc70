"""What an exception says of an attempt: kind, phase, the chain behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict

from .progress import Progress

Json = Dict[str, Any]
MESSAGE_CHARS = 3000


class Unsupported(Exception):
    """This torch or Python cannot do what the cell asks."""


class Mismatch(Exception):
    """The compiled output differs from the reference; ``seen`` goes into the result."""

    def __init__(self, reason: str, seen: Json) -> None:
        super().__init__(reason)
        self.seen = seen


def guarded(work: Callable[[], Json], progress: Progress) -> Json:
    """Run ``work``; turn what it raises into a result."""
    try:
        result = work()
        result.setdefault("kind", "ok")
        result.setdefault("phase", progress.phase)
        return result
    except Unsupported as exc:
        chain = describe_chain(exc.__cause__) if exc.__cause__ is not None else []
        return {
            "kind": "unsupported",
            "phase": progress.phase,
            "reason": str(exc),
            "exceptions": chain,
        }
    except Mismatch as exc:
        return {"kind": "mismatch", "phase": "compare", "reason": str(exc), **exc.seen}
    except SystemExit as exc:
        return failure(exc, progress)
    except BaseException as exc:
        print_traceback(exc)
        return failure(exc, progress)


def failure(exc: BaseException, progress: Progress) -> Json:
    """Result for an exception: out of memory is told apart, and compiling from running."""
    phase = progress.phase
    if phase in ("compile", "run"):
        phase = "compile" if raised_while_compiling(exc) else "run"
    kind = "oom" if _is_oom(exc) else "error"
    return {"kind": kind, "phase": phase, "exceptions": describe_chain(exc)}


def _is_oom(exc: BaseException) -> bool:
    names = {type(link).__name__ for link, _ in chain_of(exc)}
    text = said(exc)
    return bool(
        names & {"OutOfMemoryError", "MemoryError"}
        or "CUDA out of memory" in text
        or "DefaultCPUAllocator: can't allocate memory" in text
        or "DefaultCPUAllocator: not enough memory" in text
    )


def chain_of(exc: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and what it came from, outermost first.

    ``cause`` links are explicit (``raise from``, or torch's ``inner_exception``); ``context`` links
    are what was being handled, which need not be related. torch.compile wraps the real error in
    BackendCompilerFailed (2.0 on) or InductorError (2.7 on), both with ``inner_exception``.
    """
    found: list[tuple[BaseException, str]] = []
    seen = set()
    link: BaseException | None = exc
    how = "raised"
    while link is not None and id(link) not in seen and len(found) < 16:
        seen.add(id(link))
        found.append((link, how))
        inner = getattr(link, "inner_exception", None)
        if isinstance(inner, BaseException) and id(inner) not in seen:
            link, how = inner, "cause" if how != "context" else how
        elif link.__cause__ is not None:
            link, how = link.__cause__, "cause" if how != "context" else how
        elif link.__context__ is not None and not link.__suppress_context__:
            link, how = link.__context__, "context"
        else:
            link = None
    return found


def said(exc: BaseException) -> str:
    """The exception's message, which is code of the repro's own."""
    try:
        return str(exc)
    except Exception:
        return "<the message itself could not be made>"


def describe_chain(exc: BaseException | None) -> list[Json]:
    """The chain as JSON: qualified type, message (middle left out where it is long), link."""
    described = []
    for link, how in chain_of(exc) if exc is not None else []:
        kind = type(link)
        name = kind.__qualname__
        if kind.__module__ not in ("builtins", "__main__"):
            name = "%s.%s" % (kind.__module__, name)
        message = said(link)
        if len(message) > MESSAGE_CHARS:
            half = MESSAGE_CHARS // 2
            message = "%s\n[...]\n%s" % (message[:half], message[-half:])
        described.append({"type": name, "message": message, "link": how})
    return described


# Files of torch that stand in the stack only while something is being compiled.
COMPILER_FILES = (
    "torch/_dynamo/convert_frame.py",
    "torch/_dynamo/output_graph.py",
    "torch/_inductor/compile_fx.py",
    "torch/export/__init__.py",
    "torch/export/_trace.py",
)
COMPILER_CALLS = (
    "_compile",
    "compile_inner",
    "call_user_compiler",
    "_call_user_compiler",
    "compile_fx",
    "compile_fx_inner",
    "fx_codegen_and_compile",
    "export",
    "_export",
)


def raised_while_compiling(exc: BaseException) -> bool:
    """Whether any link of the chain passed through the compiler, by its traceback or its type."""
    for link, how in chain_of(exc):
        if how == "context":
            continue
        module = type(link).__module__
        if module.startswith(("torch._dynamo", "torch._inductor")):
            return True
        trace = link.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename.endswith(COMPILER_FILES) and code.co_name in COMPILER_CALLS:
                return True
            trace = trace.tb_next
    return False


def print_traceback(exc: BaseException) -> None:
    import traceback

    traceback.print_exception(type(exc), exc, exc.__traceback__)


def first_line(exc: BaseException) -> str:
    lines = [line for line in said(exc).splitlines() if line.strip()]
    return lines[0] if lines else type(exc).__name__


def explicit_types(exc: BaseException) -> set[type]:
    """Types of the exception and its explicit causes."""
    return {type(link) for link, how in chain_of(exc) if how != "context"}
