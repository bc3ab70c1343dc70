"""What a bisection runs: a cell of the corpus, or a script or command that somebody brings.

A script becomes a case of its own, made here and kept nowhere, so that outcome, signature and
verdict mean the same for both.
"""

from __future__ import annotations

import hashlib
import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from harness.case import Case, Repro
from harness.cell import Cell, make_cell
from harness.errors import UsageError
from harness.outcome import ExceptionInfo, Kind, Outcome, Signature, matched
from harness.question import Answer

# A failure that says "this torch does not have that", in the words of Python and of torch's operator
# registry. On an old release it is neither the bug nor its absence.
MISSING = [
    r"module 'torch[\w.]*' has no attribute",
    r"'_OpNamespace' '\w+' object has no attribute",
    r"'_OpsNamespace|type object 'torch[\w.]*' has no attribute",
    r"No module named '?torch[\w.]*",
    r"cannot import name '\w+' from '?torch",
    r"No module named ",
    r"got an unexpected keyword argument",
    r"not yet supported for torch\.compile|Dynamo is not supported on Python",
    r"torch\.compile is not supported on Python",
]
_FAILING = [Kind.ERROR, Kind.MISMATCH, Kind.SIGNAL, Kind.OOM, Kind.TIMEOUT]


@dataclass(frozen=True)
class Failure:
    """What counts as the bug in a script, as typed; all empty means any failure but a missing
    feature. Several are alternatives."""

    patterns: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    signals: tuple[str, ...] = ()
    timeout: bool = False

    @property
    def stated(self) -> bool:
        return bool(self.patterns or self.exit_codes or self.signals or self.timeout)

    def signatures(self) -> list[Signature]:
        """These as signatures.

        Raises:
            UsageError: a pattern is no regular expression, or a signal has no such name.
        """
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as exc:
                raise UsageError(f"--fails-with {pattern!r} is no regular expression: {exc}") from exc
        names = [_signal(name) for name in self.signals]
        found = []
        if self.patterns:
            found.append(Signature(kind=_FAILING, message=list(self.patterns)))
        if self.exit_codes:
            found.append(Signature(kind=[Kind.ERROR], exit_code=list(self.exit_codes)))
        if names:
            found.append(Signature(kind=[Kind.SIGNAL], signal=names))
            # A shell or a launcher in between reports a signal as 128 + its number.
            codes = [128 + signal.Signals[name].value for name in names]
            found.append(Signature(kind=[Kind.ERROR], exit_code=codes))
        if self.timeout:
            found.append(Signature(kind=[Kind.TIMEOUT]))
        return found or [Signature(kind=_FAILING)]


@dataclass(frozen=True)
class Subject:
    """A cell, the cells that must be judged before it counts, and how outcomes are read."""

    cell: Cell
    controls: tuple[Cell, ...] = ()
    baseline: Cell | None = None
    failure: Failure | None = None

    @property
    def label(self) -> str:
        return self.cell.label if self.failure is None else self.cell.repro

    def answer(self, outcome: Outcome) -> Answer:
        """What one outcome says: a failure that does not match is unknown, never the bug."""
        case = self.cell.case
        if self.failure is not None and not self.failure.patterns and lacks_feature(outcome):
            return Answer.UNKNOWN
        if matched(outcome, case.signatures(self.cell.repro)) is not None:
            return Answer.BUG
        if matched(outcome, case.unsupported) is not None:
            return Answer.UNKNOWN
        return Answer.CLEAN if outcome.kind is Kind.OK else Answer.UNKNOWN


def lacks_feature(outcome: Outcome) -> bool:
    """Whether a failure says that this torch has not got what the script uses."""
    if outcome.kind is not Kind.ERROR or not outcome.exceptions:
        return False
    info: ExceptionInfo = outcome.exceptions[0]
    text = f"{info.type}: {info.message}"
    return any(re.search(pattern, text) for pattern in MISSING)


def fingerprint(outcome: Outcome) -> str:
    """A failure in words that stay the same from run to run: numbers and addresses are left out."""
    words = [str(outcome.kind)]
    if outcome.signal:
        words.append(outcome.signal)
    elif outcome.exception:
        words.append(outcome.exception)
    message = re.sub(r"0x[0-9a-fA-F]+|\d+(\.\d+)?(e[-+]?\d+)?", "#", outcome.message)
    if outcome.kind not in (Kind.SIGNAL, Kind.TIMEOUT) and message:
        words.append(message[:160])
    return ": ".join(words)


def corpus_subject(case: Case, folder: Path, repro: str, workaround: str | None, device: str) -> Subject:
    """A repro of the corpus, or a workaround on it, with the case's controls for ``device``."""
    controls = tuple(
        make_cell(case, folder, name)
        for name, model in case.repros.items()
        if model.role == "control" and name != repro and device in case.devices_of(name)
    )
    baseline = make_cell(case, folder, repro) if workaround is not None else None
    return Subject(make_cell(case, folder, repro, workaround), controls, baseline)


def script_subject(
    script: Path, argv: list[str], env: dict[str, str], failure: Failure, timeout_s: float
) -> Subject:
    """A script as it stands on disk.

    Raises:
        UsageError: there is no such file, or what counts as its failure is malformed.
    """
    if not script.is_file():
        raise UsageError(f"{script} is no file", "give a script.py, a case of the corpus, or -- COMMAND")
    name = _slug(script.stem)
    cell = _cell(name, env, failure, timeout_s, script=script)
    return Subject(
        replace(cell, spec={**cell.spec, "script": str(script.absolute()), "argv": argv}), failure=failure
    )


def command_subject(command: list[str], env: dict[str, str], failure: Failure, timeout_s: float) -> Subject:
    """A command line; ``{python}`` in it stands for the environment's interpreter.

    Raises:
        UsageError: it is empty, or names no ``{python}``.
    """
    if not command:
        raise UsageError("no command is given after --")
    if not any("{python}" in part for part in command):
        raise UsageError(
            "the command names no {python}, so every release would run the same",
            "write for instance: harness bisect -- {python} -m pytest test_it.py",
        )
    digest = hashlib.sha256("\0".join(command).encode()).hexdigest()[:8]
    cell = _cell(f"command-{digest}", env, failure, timeout_s, script=None)
    return Subject(replace(cell, command=tuple(command)), failure=failure)


def _cell(name: str, env: dict[str, str], failure: Failure, timeout_s: float, script: Path | None) -> Cell:
    repro = Repro(role="trigger", script=script.name if script else "command", env=env, timeout=timeout_s)
    case = Case(
        id=f"script-{name}"[:60],
        title=name,
        failure=failure.signatures(),
        repros={name: repro},
        devices=["cpu"],
    )
    cell = make_cell(case, script.parent if script else Path(), name)
    if failure.timeout:
        # What did not end within 10 s says nothing about 60 s.
        cell = replace(cell, spec={**cell.spec, "limit_s": timeout_s})
    return cell


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:48] or "script"


def _signal(text: str) -> str:
    name = text.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    try:
        if text.isdigit():
            return signal.Signals(int(text)).name
        return signal.Signals[name].name
    except (KeyError, ValueError) as exc:
        raise UsageError(f"{text!r} is no signal", "write for instance SIGSEGV, SIGFPE or SIGABRT") from exc
