"""The view of an evidence page: one record file, cell by cell, attempt by attempt. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.case import Case
from harness.judge import Row
from harness.outcome import ExceptionInfo, Kind, Outcome, matched
from harness.report import describe, links
from harness.report.grid import shown
from harness.report.hostile import middle_out, tail, visible
from harness.report.legend import Word, word
from harness.store import Attempt, CellRecord, Document

MESSAGE_CHARS = 3000
STDERR_CHARS = 2400
REPEATED_CHARS = 240


@dataclass(frozen=True)
class Fact:
    """A line of what a cell ran on."""

    name: str
    value: str
    href: str | None = None


@dataclass(frozen=True)
class Shown:
    """A long text, or the cell of this page that shows the very same one: traces repeat a lot."""

    text: str
    same_as: str | None = None
    left_out: int = 0

    def __bool__(self) -> bool:
        return bool(self.text or self.same_as)


@dataclass(frozen=True)
class Link:
    """One exception of a chain."""

    type: str
    message: Shown
    how: str


@dataclass(frozen=True)
class Try:
    """One attempt."""

    number: int
    kind: str
    phase: str
    headline: str
    duration: str
    recorded: str
    process: str
    ended: str | None
    signature: str | None
    chain: tuple[Link, ...]
    reason: Shown
    stderr: Shown
    stdout: Shown
    output: str | None
    detail: str | None

    @property
    def more(self) -> bool:
        return bool(self.chain or self.reason or self.stderr or self.stdout or self.output or self.detail)


@dataclass(frozen=True)
class CellView:
    """One cell."""

    id: str
    name: str
    role: str
    word: Word
    message: str
    hits: int
    trials: int
    stale: bool
    attempts: tuple[Try, ...]
    spec: tuple[tuple[str, str], ...]
    repeat: str
    elsewhere: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Page:
    """One record file."""

    facts: tuple[Fact, ...]
    repros: tuple[CellView, ...]
    workarounds: tuple[tuple[str, tuple[CellView, ...]], ...]
    not_run: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # why, [(cell, baseline)]


class Once:
    """Gives a long text to the first cell that shows it, and its name to the others."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def show(self, text: str, where: str, left_out: int = 0) -> Shown:
        """``text`` as the cell ``where`` shows it."""
        if len(text) < REPEATED_CHARS:
            return Shown(text, None, left_out)
        first = self._seen.setdefault(text, where)
        return Shown(text, None, left_out) if first == where else Shown("", first, left_out)


_HOW = {"cause": "caused by", "context": "while handling", "raised": "raised"}


def page(
    document: Document,
    case: Case,
    rows: Sequence[Row],
    others: dict[tuple[str, str | None], list[Row]],
) -> Page:
    """The view of ``document``. ``rows`` are its own; ``others`` those of the same release, device
    and case in other records, by (repro, workaround)."""
    repros: list[CellView] = []
    works: dict[str, list[CellView]] = {}
    left: dict[str, list[tuple[str, str]]] = {}
    once = Once()
    specs = {cell.repro: cell.spec for cell in document.cells if cell.workaround is None}
    for row in rows:
        if not row.trials:
            left.setdefault(row.message, []).append((links.cell_anchor(row.repro, row.workaround), row.repro))
            continue
        record = _record(document, row)
        base = specs.get(row.repro) if row.workaround else None
        view = _cell(record, row, case, base, others.get((row.repro, row.workaround), []), once)
        if row.workaround is None:
            repros.append(view)
        else:
            works.setdefault(row.workaround, []).append(view)
    return Page(
        tuple(facts(document)), tuple(repros), tuple((name, tuple(v)) for name, v in works.items()),
        tuple((why, tuple(cells)) for why, cells in left.items()),
    )  # fmt: skip


def _record(document: Document, row: Row) -> CellRecord:
    """The record that a row was judged from: the one with as many attempts, the newest first."""
    found = [c for c in document.cells if (c.repro, c.workaround) == (row.repro, row.workaround)]
    for cell in reversed(found):
        if len(cell.attempts) == row.trials and cell.attempts[-1].recorded == row.recorded:
            return cell
    return found[-1]


def _cell(
    record: CellRecord,
    row: Row,
    case: Case,
    base: dict[str, Any] | None,
    others: Sequence[Row],
    once: Once,
) -> CellView:
    anchor = links.cell_anchor(row.repro, row.workaround)
    spec = record.spec if base is None else describe.changed(record.spec, base)
    repeat = f"harness run {row.case}/{anchor} --torch {row.torch} --device {row.device}"
    if row.channel not in ("pypi", "interpreter", "wheelhouse", "None"):
        repeat += f" --channel {row.channel}"
    if row.python:
        repeat += f" --python {'.'.join(row.python.split('.')[:2])}"
    return CellView(
        id=anchor,
        name=anchor,
        role=row.role,
        word=word(shown(row), row.workaround is not None),
        message=visible(row.message),
        hits=row.hits,
        trials=row.trials,
        stale=row.stale,
        attempts=tuple(_try(i, a, row, case, once) for i, a in enumerate(record.attempts, 1)),
        spec=tuple((key, _value(value)) for key, value in spec.items() if base is not None or _worth(value)),
        repeat=repeat,
        elsewhere=tuple(
            (f"{shown(other)} on {other.machine}, Python {other.python or 'none'}", links.evidence(other))
            for other in others
        ),
    )


def _try(number: int, attempt: Attempt, row: Row, case: Case, once: Once) -> Try:
    outcome = attempt.outcome
    match = matched(outcome, case.signatures(row.repro))
    stderr, left_out = tail(visible(outcome.stderr_tail), STDERR_CHARS)
    stdout = tail(visible(outcome.stdout_tail), STDERR_CHARS)[0]
    if outcome.kind is Kind.OK:
        stderr, stdout, left_out = "", "", 0  # warnings of what went well; the record has them
    anchor = links.cell_anchor(row.repro, row.workaround)
    reason, reason_left_out = middle_out(visible(outcome.reason or ""), MESSAGE_CHARS)
    return Try(
        number=number,
        kind=str(outcome.kind),
        phase=str(outcome.phase),
        headline=visible(": ".join(p for p in (outcome.exception, outcome.message) if p)),
        duration=f"{outcome.duration_s:.1f} s" if outcome.duration_s else "",
        recorded=attempt.recorded.replace("T", " ").replace("+00:00", " UTC"),
        process="a process of its own, started afresh" if attempt.fresh else "a fork of a warm process",
        ended=_ended(outcome),
        signature=None if match is None else f"matches failure signature {match + 1} of the case",
        chain=tuple(_link(info, anchor, once) for info in outcome.exceptions),
        reason=once.show(reason, anchor, reason_left_out),
        stderr=once.show(stderr.strip("\n"), anchor, left_out),
        stdout=once.show(stdout.strip("\n"), anchor),
        output=_value(outcome.output) if outcome.output is not None else None,
        detail=_value(outcome.detail) if outcome.detail else None,
    )


def _ended(outcome: Outcome) -> str | None:
    if outcome.signal:
        return f"killed by {outcome.signal}"
    return f"exit code {outcome.exit_code}" if outcome.exit_code else None


def _link(info: ExceptionInfo, anchor: str, once: Once) -> Link:
    message, left_out = middle_out(visible(info.message), MESSAGE_CHARS)
    return Link(visible(info.type), once.show(message, anchor, left_out), _HOW.get(info.link, info.link))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return visible(value).rstrip()
    return middle_out(visible(json.dumps(value, ensure_ascii=False, default=str)), MESSAGE_CHARS)[0]


def _worth(value: Any) -> bool:
    return value not in (None, {}, [], "", False)


_TARGET = (
    ("wheel", "wheel"), ("wheel_sha256", "its SHA-256"), ("release_date", "released"), ("python", "Python"),
    ("cuda", "CUDA of the build"), ("numpy", "numpy"), ("triton", "triton"), ("setuptools", "setuptools"),
    ("resolved", "dependencies"), ("brought", "interpreter"), ("slimmed", "slimmed wheel"),
    ("tf32_matmul", "TF32 in matmul"), ("import_error", "import error"),
)  # fmt: skip
_MACHINE = (
    ("system", "system"), ("kernel", "kernel"), ("libc", "libc"), ("cpu", "CPU"), ("cores", "cores"),
    ("memory_bytes", "memory"), ("gpus", "GPU"), ("driver", "GPU driver"), ("compiler", "C++ compiler"),
)  # fmt: skip


def facts(document: Document) -> list[Fact]:
    """What the cells of a record ran on: target, then machine."""
    target, machine = document.target, document.machine
    found = [Fact("torch", f"{target.get('torch')} (build {target.get('build') or 'not installed'})")]
    commit = target.get("git_version")
    if commit:
        found.append(Fact("commit", visible(str(commit)), links.commit(str(commit))))
    found.append(Fact("channel", visible(str(target.get("channel")))))
    for key, name in _TARGET:
        if target.get(key) not in (None, "", {}, []):
            found.append(Fact(name, _value(target[key])))
    found.append(Fact("device", visible(str(target.get("device")))))
    for key, name in _MACHINE:
        value = machine.get(key)
        if value in (None, "", [], {}):
            continue
        if key == "memory_bytes":
            found.append(Fact(name, f"{value / 2**30:.0f} GiB"))
        elif key == "gpus":
            found += [Fact(name, _gpu(gpu)) for gpu in value]
        else:
            found.append(Fact(name, _value(value)))
    found.append(Fact("record", f"records/{document.machine_id}/{document.target_id}/{document.case}.json"))
    return found


def _gpu(gpu: Any) -> str:
    if not isinstance(gpu, dict):
        return _value(gpu)
    memory = gpu.get("memory_bytes")
    size = f", {memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else ""
    capability = gpu.get("capability")
    return visible(f"{gpu.get('name')}{size}") + (f", compute capability {capability}" if capability else "")
