"""What other parts of the harness leave for the page: exports, bisect reports, timings.

Each is looked for and left out where it is not there, so that a page is made from whatever has been
recorded by then.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cell import Cell
from harness.errors import HarnessError

Export = Callable[[Cell, str], str]


def exporter() -> Export | None:
    """``harness.export.export_cell``, where this build has it."""
    try:
        module = importlib.import_module("harness.export")
    except ImportError:
        return None
    found = getattr(module, "export_cell", None)
    return found if callable(found) else None


def export(cell: Cell, device: str, make: Export | None) -> str | None:
    """The self-contained script of a cell, or None where it cannot be exported."""
    if make is None:
        return None
    try:
        return make(cell, device)
    except (HarnessError, NotImplementedError, OSError):
        return None


@dataclass(frozen=True)
class Bisection:
    """A bisect report as a page shows it; what a report does not say is None."""

    file: str
    repro: str | None
    device: str | None
    find: str | None
    answer: str
    before: str | None
    after: str | None
    before_commit: str | None
    after_commit: str | None
    compare: str | None
    confidence: float | None
    notes: tuple[str, ...]
    repeat: str | None


def bisections(folder: Path) -> tuple[dict[str, list[Bisection]], list[str]]:
    """Reports by case id, and what could not be read."""
    found: dict[str, list[Bisection]] = {}
    problems = []
    for file in sorted(folder.glob("*.json")):
        try:
            value = json.loads(file.read_bytes())
            case, report = _bisection(value, file.name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            problems.append(f"{file.name} is no readable bisect report ({type(exc).__name__})")
            continue
        found.setdefault(case, []).append(report)
    return found, problems


def _bisection(value: dict[str, Any], name: str) -> tuple[str, Bisection]:
    before, before_commit = _end(value.get("before"))
    after, after_commit = _end(value.get("after"))
    confidence = value.get("confidence")
    return str(value["case"]), Bisection(
        file=name,
        repro=_text(value.get("repro")),
        device=_text(value.get("device")),
        find=_text(value.get("find")),
        answer=str(value.get("answer") or value.get("kind") or ""),
        before=before,
        after=after,
        before_commit=before_commit or _text(value.get("before_commit")),
        after_commit=after_commit or _text(value.get("after_commit")),
        compare=_text(value.get("compare")),
        confidence=float(confidence) if isinstance(confidence, int | float) else None,
        notes=tuple(str(note) for note in value.get("notes") or ()),
        repeat=_text(value.get("repeat")),
    )


def _end(value: Any) -> tuple[str | None, str | None]:
    """An end of a range: a version, or an object with ``torch`` and ``git_version``."""
    if isinstance(value, dict):
        return _text(value.get("torch") or value.get("version")), _text(value.get("git_version"))
    return _text(value), None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True)
class TimingFile:
    """A chart or table of timings that lies in the results."""

    name: str
    path: Path


def timings(results: Path, case: str) -> list[TimingFile]:
    """Charts and tables of a case's timings: ``charts/timing-<kind>-<case>-*.svg``,
    ``tables/timing-<case>.csv``."""
    name = re.compile(rf"timing(-[a-z_-]+)?-{re.escape(case)}[-.].*")
    files = [*sorted((results / "charts").glob("timing*.svg")), *sorted((results / "tables").glob("timing*"))]
    return [TimingFile(file.name, file) for file in files if name.fullmatch(file.name)]
