"""Outcome kinds, failure signatures, verdicts. Pure: no I/O, no clock.

An outcome is what an attempt did, recorded once. A verdict is what outcomes mean for a question and
is computed from them whenever asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class Kind(StrEnum):
    """What an attempt did."""

    OK = "ok"
    ERROR = "error"
    MISMATCH = "mismatch"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    OOM = "oom"
    UNSUPPORTED = "unsupported"
    SETUP = "setup"
    SKIPPED = "skipped"


class Phase(StrEnum):
    """Where in an attempt it happened, in the order in which an attempt goes through them."""

    INSTALL = "install"
    IMPORT = "import"
    BUILD = "build"
    EAGER = "eager"
    COMPILE = "compile"
    RUN = "run"
    COMPARE = "compare"


class Verdict(StrEnum):
    """What the outcomes of a repro on a target mean."""

    BUG = "bug"
    CLEAN = "clean"
    OTHER = "other"
    UNKNOWN = "unknown"


class WorkaroundVerdict(StrEnum):
    """What the outcomes of a workaround on a target mean, given its baseline's."""

    HOLDS = "holds"
    FAILS = "fails"
    BREAKS = "breaks"
    REJECTED = "rejected"
    MOOT = "moot"
    UNKNOWN = "unknown"


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _enum(kind: type[StrEnum]) -> Any:
    def convert(value: Any) -> Any:
        if isinstance(value, str) and value in set(kind):
            return kind(value)
        if isinstance(value, str):
            raise ValueError(f"must be one of {', '.join(kind)}, not {value!r}")
        return value

    return BeforeValidator(convert)


def _cut(text: str, limit: int = 300) -> str:
    """torch lists every option it knows in one line; a table wants the beginning."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _regex(value: str) -> str:
    if len(value) > 2000:
        raise ValueError("is longer than 2000 characters")
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as exc:
        raise ValueError(f"is no regular expression: {exc}") from exc
    return value


Regex = Annotated[str, AfterValidator(_regex)]


class ExceptionInfo(BaseModel):
    """One link of an exception chain: qualified type and message."""

    model_config = ConfigDict(frozen=True)

    type: str
    message: str = ""
    link: str = "raised"  # "cause": explicit; "context": what was being handled, perhaps unrelated


class Outcome(BaseModel):
    """What one attempt did. ``duration_s`` is wall seconds from start to end of its process."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    phase: Phase
    reason: str | None = None
    exceptions: tuple[ExceptionInfo, ...] = ()  # outermost first, causes after it
    exit_code: int | None = None
    signal: str | None = None
    duration_s: float = 0.0
    stderr_tail: str = ""
    stdout_tail: str = ""
    output: Any = None  # shape, stride, dtype of the compiled output, as the worker describes it
    detail: dict[str, Any] = {}

    @property
    def exception(self) -> str | None:
        """Name of the innermost explicit exception, which is the one that says what went wrong."""
        return self._telling[-1].type.rsplit(".", 1)[-1] if self.exceptions else None

    @property
    def _telling(self) -> tuple[ExceptionInfo, ...]:
        return tuple(e for e in self.exceptions if e.link != "context") or self.exceptions

    @property
    def message(self) -> str:
        """First line worth showing: the innermost message, else the reason."""
        for info in reversed(self._telling):
            for line in info.message.splitlines():
                if line.strip():
                    return _cut(line.strip())
        return _cut(self.reason or "")

    def text(self) -> str:
        """All that a message pattern is searched in."""
        chain = "\n".join(f"{info.type}: {info.message}" for info in self.exceptions)
        return "\n".join(p for p in (chain, self.reason or "", self.stderr_tail) if p)


class Signature(BaseModel):
    """What counts as the bug. All that is given must hold; a list holds alternatives."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Annotated[list[Annotated[Kind, _enum(Kind)]], BeforeValidator(_as_list)] = Field(min_length=1)
    phase: Annotated[list[Annotated[Phase, _enum(Phase)]], BeforeValidator(_as_list)] | None = None
    exception: Annotated[list[str], BeforeValidator(_as_list)] | None = None
    message: Annotated[list[Regex], BeforeValidator(_as_list)] | None = None
    signal: Annotated[list[str], BeforeValidator(_as_list)] | None = None
    exit_code: Annotated[list[int], BeforeValidator(_as_list)] | None = None

    def matches(self, outcome: Outcome) -> bool:
        """Whether ``outcome`` shows this failure.

        ``exception`` is compared with the name of every link of the chain, with or without its
        module: releases wrap the same error in different shells (BackendCompilerFailed,
        InductorError, ...). ``message`` is searched in the chain and in the tail of stderr.
        """
        if outcome.kind not in self.kind:
            return False
        if self.phase is not None and outcome.phase not in self.phase:
            return False
        if self.signal is not None and outcome.signal not in self.signal:
            return False
        if self.exit_code is not None and outcome.exit_code not in self.exit_code:
            return False
        if self.exception is not None:
            names = {info.type for info in outcome.exceptions}
            names |= {name.rsplit(".", 1)[-1] for name in names}
            if not names & set(self.exception):
                return False
        if self.message is not None:
            text = outcome.text()
            if not any(re.search(pattern, text) for pattern in self.message):
                return False
        return True


def matched(outcome: Outcome, signatures: Iterable[Signature]) -> int | None:
    """Index of the first signature that ``outcome`` matches, or None."""
    for index, signature in enumerate(signatures):
        if signature.matches(outcome):
            return index
    return None


_NO_EVIDENCE = {Kind.UNSUPPORTED, Kind.SETUP, Kind.SKIPPED}


def repro_verdict(
    outcomes: Sequence[Outcome],
    failure: Sequence[Signature],
    unsupported: Sequence[Signature] = (),
    controls: Sequence[Verdict] = (),
) -> Verdict:
    """Verdict of a repro on a target from its attempts.

    One attempt that matches the signature is enough for ``bug``: a flaky bug is a bug. A control
    that is not clean means that the environment is broken, and nothing is concluded there.
    """
    if any(verdict is not Verdict.CLEAN for verdict in controls):
        return Verdict.UNKNOWN
    telling = [
        o
        for o in outcomes
        if o.kind not in _NO_EVIDENCE and (matched(o, failure) is not None or matched(o, unsupported) is None)
    ]
    if not telling:
        return Verdict.UNKNOWN
    if any(matched(o, failure) is not None for o in telling):
        return Verdict.BUG
    if all(o.kind is Kind.OK for o in telling):
        return Verdict.CLEAN
    return Verdict.OTHER


def workaround_verdict(
    baseline: Verdict,
    outcomes: Sequence[Outcome],
    failure: Sequence[Signature],
) -> WorkaroundVerdict:
    """Verdict of a workaround from its baseline's verdict and its own attempts."""
    if baseline is Verdict.UNKNOWN:
        return WorkaroundVerdict.UNKNOWN
    if baseline is not Verdict.BUG:
        return WorkaroundVerdict.MOOT
    if any(matched(o, failure) is not None for o in outcomes):
        return WorkaroundVerdict.FAILS
    if any(o.kind is Kind.UNSUPPORTED for o in outcomes):
        return WorkaroundVerdict.REJECTED
    telling = [o for o in outcomes if o.kind not in _NO_EVIDENCE]
    if not telling:
        return WorkaroundVerdict.UNKNOWN
    if all(o.kind is Kind.OK for o in telling):
        return WorkaroundVerdict.HOLDS
    return WorkaroundVerdict.BREAKS


def hits(outcomes: Sequence[Outcome], failure: Sequence[Signature]) -> int:
    """How many attempts match the signature."""
    return sum(matched(o, failure) is not None for o in outcomes)
