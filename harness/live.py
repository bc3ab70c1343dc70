"""What a run shows while it goes on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.cell import Cell
from harness.env import Environment
from harness.outcome import Outcome
from harness.target import Source, Target

STYLE = {
    "bug": "bold red",
    "clean": "green",
    "other": "yellow",
    "unknown": "dim",
    "holds": "green",
    "fails": "red",
    "breaks": "magenta",
    "rejected": "yellow",
    "moot": "dim",
}
SHOWN_ROWS = 14


def printable(text: str, width: int = 100) -> str:
    """``text`` on one line, control characters made visible: it may come from a hostile repro."""
    safe = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: width * 4])
    return safe if len(safe) <= width else safe[: width - 1] + "…"


def clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, secs = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


class PlainWatcher:
    """A line for each thing that happened."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._lock = threading.Lock()
        self._done = 0
        self._planned = 0

    def _say(self, text: str) -> None:
        with self._lock:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def preparing(self, source: Source) -> None:
        self._say(f"making  torch {source.label}")

    def prepared(self, source: Source, env: Environment | None, why: str | None) -> None:
        if env is None:
            self._say(f"setup   torch {source.label}: {printable(why or '', 300)}")
        else:
            self._say(
                f"ready   torch {source.label} ({env.facts.get('torch')}, Python {env.facts.get('python')})"
            )

    def planned(self, cells: int) -> None:
        self._planned += cells

    def covered(self, cells: int) -> None:
        self._done += cells
        self._planned = max(self._planned, self._done)

    def started(self, target: Target, cell: Cell) -> None:
        pass

    def finished(self, target: Target, cell: Cell, outcome: Outcome, verdict: str) -> None:
        self._done += 1
        detail = (
            "" if str(outcome.kind) == "ok" else f"  {outcome.exception or outcome.kind}: {outcome.message}"
        )
        self._say(
            f"[{self._done}/{self._planned}] {target.label:<12} {verdict:<8} {cell.label}"
            f" {outcome.duration_s:.1f}s{printable(detail, 120)}"
        )


@dataclass
class _Line:
    """One target in the live table."""

    label: str
    state: str = "making the environment"
    planned: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    running: dict[str, float] = field(default_factory=dict)


class LiveWatcher:
    """A table that is redrawn; newest target first."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._lock = threading.Lock()
        self._lines: dict[str, _Line] = {}
        self._began = time.monotonic()
        self._planned = self._done = self._covered = 0
        self._busy_s = 0.0
        self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveWatcher:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        self.console.print(self._table(every=True))

    def preparing(self, source: Source) -> None:
        with self._lock:
            self._lines.setdefault(source.label, _Line(source.label))

    def prepared(self, source: Source, env: Environment | None, why: str | None) -> None:
        with self._lock:
            line = self._lines.setdefault(source.label, _Line(source.label))
            line.state = "" if env is not None else f"setup: {why}"

    def planned(self, cells: int) -> None:
        with self._lock:
            self._planned += cells

    def covered(self, cells: int) -> None:
        with self._lock:
            self._covered += cells

    def started(self, target: Target, cell: Cell) -> None:
        with self._lock:
            self._line(target).running[f"{cell.label} ({target.device})"] = time.monotonic()

    def finished(self, target: Target, cell: Cell, outcome: Outcome, verdict: str) -> None:
        with self._lock:
            line = self._line(target)
            line.running.pop(f"{cell.label} ({target.device})", None)
            line.verdicts[verdict] += 1
            self._done += 1

    def _line(self, target: Target) -> _Line:
        return self._lines.setdefault(target.source.label, _Line(target.source.label, ""))

    def _table(self, every: bool = False) -> Table:
        table = Table(box=None, pad_edge=False, expand=False)
        for name in ("torch", "verdicts", "now"):
            table.add_column(name, header_style="dim", overflow="fold")
        lines = list(self._lines.values())
        shown = lines if every else lines[-SHOWN_ROWS:]
        for line in shown:
            counts = Text("  ").join(
                Text(f"{count} {verdict}", STYLE.get(verdict, ""))
                for verdict, count in sorted(line.verdicts.items())
            )
            now = ", ".join(
                f"{name} {clock(time.monotonic() - since)}" for name, since in list(line.running.items())
            )
            table.add_row(line.label, counts, Text(printable(now or line.state, 120), "dim"))
        return table

    def _draw(self) -> RenderableType:
        with self._lock:
            gone = time.monotonic() - self._began
            left = max(0, self._planned - self._done - self._covered)
            rate = self._done / gone if self._done else 0.0
            ahead = f", about {clock(left / rate)} for what is planned so far" if rate and left else ""
            foot = (
                f"{self._done} run, {self._covered} on record, {left} left{ahead}; "
                f"{clock(gone)} gone. Ctrl-C keeps all that ran."
            )
            return Group(self._table(), Text(escape(foot), "bold"))
