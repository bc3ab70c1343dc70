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
from harness.report.status import bug_groups

CELL_IN = 0.31
PNG_DPI = 110
DRAWING = 1  # counts the ways in which this module has drawn


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
    from cycler import cycler

    settings: dict[Any, Any] = {
        "svg.hashsalt": "harness", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 9,
        "axes.linewidth": 0.6, "mathtext.fontset": "dejavusans", "axes.prop_cycle": cycler(color=["#000000"]),
    }  # fmt: skip
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        return [kept(sheet) or _draw(sheet) for sheet in todo]


def _draw(sheet: Sheet) -> Chart:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, lines = max(1, len(sheet.releases)), max(1, len(sheet.rows))
    left = 0.45 + 0.073 * max((len(shorten(n, 40)) for n in sheet.rows), default=8)
    used = [w for w in sheet.words.values() if any(w.name in row for row in sheet.verdicts)]
    width = max(left + columns * CELL_IN + 0.25, left + 5.0)
    per_row = max(1, int((width - 0.4) / 1.45))
    ticks = 0.1 + 0.072 * max((len(release) for release in sheet.releases), default=5)
    below = ticks + 0.28 + 0.26 * -(-len(used) // per_row) + 0.12
    height = lines * CELL_IN + below + 0.45
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    size = (left / width, below / height, columns * CELL_IN / width, lines * CELL_IN / height)
    axes = figure.add_axes(size)
    _cells(axes, sheet, columns, lines)
    axes.set_title(sheet.title, loc="left", fontsize=11, fontweight="bold", pad=8)
    axes.set_xlabel("PyTorch release, oldest to newest", loc="left")
    axes.xaxis.set_label_coords(0, -ticks / (lines * CELL_IN))
    axes.set_ylabel(sheet.down)
    axes.yaxis.set_label_coords(-(left - 0.22) / (columns * CELL_IN), 0.5)
    _legend(figure, used, per_row, 0.06 / height)
    svg, png = (_bytes(figure, form, sheet.digest) for form in ("svg", "png"))
    return Chart(sheet.name, sheet.title, svg, png, sheet.case)


def _cells(axes: Any, sheet: Sheet, columns: int, lines: int) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    places: dict[str, list[tuple[int, int]]] = {}
    for y, row in enumerate(sheet.verdicts):
        for x, verdict in enumerate(row):
            places.setdefault(verdict, []).append((x, y))
    for name in sheet.words:
        if name not in places:
            continue
        shown = sheet.words[name]
        boxes = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in places[name]]
        axes.add_collection(
            PatchCollection(boxes, facecolor=shown.colour, edgecolor="#ffffff", linewidth=0.8)
        )
        if shown.letter:
            xs, ys = zip(*places[name], strict=True)
            axes.scatter(xs, ys, marker=_marker(shown.letter), s=34, color="#000000", linewidths=0, zorder=3)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_xticks(range(len(sheet.releases)), sheet.releases, rotation=90)
    axes.set_yticks(range(len(sheet.rows)), [shorten(name, 40) for name in sheet.rows])
    axes.tick_params(length=0, pad=4)
    for spine in axes.spines.values():
        spine.set_color("#888888")


def _legend(figure: Any, used: Sequence[Word], per_row: int, bottom: float) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=w.colour, edgecolor="#888888", linewidth=0.6,
              label=f"{w.letter}  {_SAID.get(w.name, w.name)}".strip())
        for w in used
    ]  # fmt: skip
    if handles:
        figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0.01, bottom), ncols=min(per_row, len(used)),
            frameon=False, fontsize=9, handlelength=1.3, handleheight=1.1, columnspacing=1.6,
        )  # fmt: skip


_SAID = {MIXED: "mixed", STALE: "outdated", NOT_RUN: "not run", "moot": "moot (no bug)"}


def _marker(letter: str) -> str:
    return rf"$\mathbf{{{letter}}}$"


def _bytes(figure: Any, form: str, note: str) -> bytes:
    out = io.BytesIO()
    if form == "svg":
        metadata = {"Date": None, "Creator": None, "Description": note}
        figure.savefig(out, format="svg", metadata=metadata)
    else:
        figure.savefig(out, format="png", dpi=PNG_DPI, metadata={"Software": None, "Description": note})
    return out.getvalue()
