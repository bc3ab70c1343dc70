"""Heat maps of release × repro and release × workaround, as SVG and PNG.

Releases run from left (oldest) to right, so that a bug is a band. Each cell has colour and letter.
The bytes depend on the records alone: no date, fixed ids.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.case import Case
from harness.judge import Row
from harness.report.grid import Grid
from harness.report.hostile import shorten
from harness.report.legend import MIXED, NOT_RUN, REPRO, STALE, WORKAROUND, Word
from harness.report.lettering import Lettering, width
from harness.report.status import bug_groups

CELL_IN = 0.31
LEGEND_IN = 0.24
SMALL, LARGE = 9, 11  # points
PNG_DPI = 110
DRAWING = 3  # counts the ways in which this module has drawn


@dataclass(frozen=True)
class Chart:
    """A drawn heat map; ``rows`` are the names down its side."""

    name: str
    title: str
    svg: bytes
    png: bytes
    case: str


@dataclass(frozen=True)
class Sheet:
    """What is drawn: ``verdicts[row][release]``."""

    name: str
    case: str
    title: str
    down: str
    rows: tuple[str, ...]
    releases: tuple[str, ...]
    verdicts: tuple[tuple[str, ...], ...]
    words: dict[str, Word]

    @property
    def digest(self) -> str:
        """What the drawing depends on; both files carry it, so that the same need not be drawn twice."""
        from matplotlib import __version__

        text = repr((DRAWING, __version__, self))
        return f"drawn from {hashlib.sha256(text.encode()).hexdigest()[:20]}"


def sheets(case: Case, rows: Iterable[Row]) -> list[Sheet]:
    """Two sheets for each device and machine that the case has records of."""
    rows = [row for row in rows if row.case == case.id]
    found = []
    for device, machine in sorted({(row.device, row.machine) for row in rows}):
        grid = Grid((row for row in rows if row.device == device), machine)
        repros = [name for name in case.repros if device in case.devices_of(name)]
        stem = f"{case.id}-{device}-{machine}"
        where = f"{device}, {machine}"
        found.append(_sheet(f"{stem}-repros", case, f"repros on {where}", "repro", repros, grid, REPRO,
                            [([name], None) for name in repros]))  # fmt: skip
        bug = bug_groups(case)[0][1]
        works = [work for work in case.workarounds if set(bug) & set(case.targets_of(work))]
        if works:
            columns = [([n for n in bug if n in case.targets_of(work)], work) for work in works]
            title = f"workarounds of the bug on {where}"
            found.append(
                _sheet(f"{stem}-workarounds", case, title, "workaround", works, grid, WORKAROUND, columns)
            )
    return found


def _sheet(
    name: str, case: Case, title: str, down: str, names: Sequence[str], grid: Grid, words: dict[str, Word],
    lines: Iterable[tuple[list[str], str | None]],
) -> Sheet:  # fmt: skip
    verdicts = tuple(
        tuple(grid.together(repros, work, torch).verdict for torch in grid.releases) for repros, work in lines
    )
    title = f"{case.id}: {title}"
    return Sheet(name, case.id, title, down, tuple(names), tuple(grid.releases), verdicts, words)


def draw(todo: Iterable[Sheet], kept: Callable[[Sheet], Chart | None] = lambda sheet: None) -> list[Chart]:
    """Draw sheets with matplotlib's Agg and SVG back ends, whatever the user's settings are.

    ``kept`` may give the chart of a sheet that was drawn before: see :meth:`Sheet.digest`.
    """
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({"svg.hashsalt": "harness", "path.simplify": False})
        return [kept(sheet) or _draw(sheet) for sheet in todo]


def _draw(sheet: Sheet) -> Chart:
    """The figure's only axes count in inches, so that cells and letters need no layout."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, lines = max(1, len(sheet.releases)), max(1, len(sheet.rows))
    names = [shorten(name, 40) for name in sheet.rows]
    used = [w for w in sheet.words.values() if any(w.name in row for row in sheet.verdicts)]
    left = 0.62 + max((width(name, SMALL) for name in names), default=0)
    ticks = 0.14 + max((width(release, SMALL) for release in sheet.releases), default=0)
    wide = max(left + columns * CELL_IN + 0.2, 0.4 + width(sheet.title, LARGE, True), left + 4.5)
    legend = _rows(used, wide - 0.4)
    bottom = 0.15 + LEGEND_IN * len(legend) + 0.3 + ticks
    high = bottom + lines * CELL_IN + 0.45
    figure = Figure(figsize=(wide, high), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, wide), ylim=(0, high))
    axes.set_axis_off()
    pen = Lettering()
    top = bottom + lines * CELL_IN
    _cells(axes, pen, sheet, left, top)
    pen.write(sheet.title, 0.2, high - 0.22, LARGE, bold=True)
    for x, release in enumerate(sheet.releases):
        pen.write(release, left + (x + 0.5) * CELL_IN, bottom - 0.07, SMALL, align=1, upright=True)
    for y, name in enumerate(names):
        pen.write(name, left - 0.08, top - (y + 0.5) * CELL_IN, SMALL, align=1)
    pen.write("PyTorch release, oldest to newest", left, bottom - ticks - 0.12, SMALL)
    pen.write(sheet.down, 0.24, (top + bottom) / 2, SMALL, align=0.5, upright=True)
    for row, entries in enumerate(legend):
        _legend(axes, pen, entries, bottom - ticks - 0.3 - LEGEND_IN * (row + 0.5))
    pen.draw(axes)
    svg, png = (_bytes(figure, form, sheet.digest) for form in ("svg", "png"))
    return Chart(sheet.name, sheet.title, svg, png, sheet.case)


def _cells(axes: Any, pen: Lettering, sheet: Sheet, left: float, top: float) -> None:
    places: dict[str, list[tuple[float, float]]] = {}
    for y, row in enumerate(sheet.verdicts):
        for x, verdict in enumerate(row):
            places.setdefault(verdict, []).append((left + x * CELL_IN, top - (y + 1) * CELL_IN))
    for name, shown in sheet.words.items():
        if name not in places:
            continue
        _boxes(axes, places[name], CELL_IN, CELL_IN, shown.colour, "#ffffff" if shown.letter else "#dddddd")
        for at, low in places[name]:
            pen.write(shown.letter, at + CELL_IN / 2, low + CELL_IN / 2, SMALL, align=0.5, bold=True)


def _boxes(
    axes: Any, corners: Iterable[tuple[float, float]], wide: float, high: float, colour: str, edge: str
) -> None:
    from matplotlib.collections import PolyCollection

    boxes = [[(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)] for x, y in corners]
    axes.add_collection(PolyCollection(boxes, facecolor=colour, edgecolor=edge, linewidth=0.8), autolim=False)


def _rows(words: Iterable[Word], room: float) -> list[list[tuple[Word, str, float]]]:
    """The legend's entries, (word, text, place in inches), in as many rows as they need."""
    rows: list[list[tuple[Word, str, float]]] = [[]]
    at = 0.0
    for shown in words:
        text = f"{shown.letter}  {_SAID.get(shown.name, shown.name)}".strip()
        length = 0.3 + width(text, SMALL) + 0.3
        if rows[-1] and at + length > room:
            rows.append([])
            at = 0.0
        rows[-1].append((shown, text, at))
        at += length
    return rows


def _legend(axes: Any, pen: Lettering, entries: Sequence[tuple[Word, str, float]], y: float) -> None:
    for shown, text, at in entries:
        _boxes(axes, [(0.2 + at, y - 0.07)], 0.2, 0.14, shown.colour, "#888888")
        pen.write(text, 0.2 + at + 0.28, y, SMALL)


_SAID = {MIXED: "mixed", STALE: "outdated", NOT_RUN: "not run", "moot": "moot (no bug to avoid)"}


def _bytes(figure: Any, form: str, note: str) -> bytes:
    out = io.BytesIO()
    if form == "svg":
        metadata = {"Date": None, "Creator": None, "Description": note}
        figure.savefig(out, format="svg", metadata=metadata)
    else:
        figure.savefig(out, format="png", dpi=PNG_DPI, metadata={"Software": None, "Description": note})
    return out.getvalue()
