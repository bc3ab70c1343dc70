"""The flat table and the pivots as rich tables, JSON, CSV and markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rich.table import Table as RichTable
from rich.text import Text

from harness.case import Case
from harness.judge import COLUMNS, Row
from harness.report.claims import ClaimResult
from harness.report.grid import Grid
from harness.report.hostile import one_line
from harness.report.legend import NOT_RUN, word
from harness.report.status import Status

Scalar = str | int | float | bool | None

_MARKUP = str.maketrans({c: f"\\{c}" for c in "\\|`*_[]~#!"} | {"&": "&amp;", "<": "&lt;", "@": "&#64;"})

# What fits a terminal; the others are one --format away.
_TERMINAL = ("case", "repro", "workaround", "torch", "device", "verdict", "hits", "message")
_TONES = {"bad": "red", "good": "cyan", "warn": "yellow", "no": "magenta", "half": "yellow"}


@dataclass(frozen=True)
class Table:
    """A named table of plain values."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    case: str | None = None


def flat(rows: Iterable[Row], name: str = "results") -> Table:
    """The flat table, a row a cell; the design's columns first, then the extras."""
    pick = attrgetter(*COLUMNS)
    values = tuple(pick(row) for row in rows)
    return Table(name, "Every cell that was planned or run, judged", tuple(COLUMNS), values)


def pivot_repros(case: Case, device: str, grid: Grid) -> Table:
    """Release × repro: a row a release, newest first."""
    names = [name for name in case.repros if device in case.devices_of(name)]
    rows = tuple(
        (torch, *(_told(grid, name, None, torch) for name in names)) for torch in reversed(grid.releases)
    )
    title = f"{case.id} on {device}: release × repro"
    return Table(f"{case.id}-{device}-repros", title, ("torch", *names), rows, case.id)


def pivot_workarounds(case: Case, device: str, grid: Grid) -> Table:
    """Release × workaround: a row a release, newest first; a column a workaround on a repro."""
    pairs = [
        (work, repro)
        for work in case.workarounds
        for repro in case.targets_of(work)
        if device in case.devices_of(repro)
    ]
    rows = tuple(
        (torch, *(_told(grid, repro, work, torch) for work, repro in pairs))
        for torch in reversed(grid.releases)
    )
    columns = ("torch", *(f"{work} on {repro}" for work, repro in pairs))
    title = f"{case.id} on {device}: release × workaround"
    return Table(f"{case.id}-{device}-workarounds", title, columns, rows, case.id)


def _told(grid: Grid, repro: str, workaround: str | None, torch: str) -> str:
    merged = grid.cell(repro, workaround, torch)
    if merged.verdict == "bug" and 0 < merged.hits < merged.trials:
        return f"bug {merged.hits}/{merged.trials}"
    return merged.verdict


def claims_table(results: Iterable[ClaimResult]) -> Table:
    """The ledger, a row a claim."""
    columns = (
        "case", "number", "source", "section", "says", "predicted", "verdict", "measured", "devices",
        "devices_not_run", "machines", "counter_examples", "predictions_without_evidence",
    )  # fmt: skip
    rows = tuple(
        (
            r.case, r.number, r.source, r.section, r.says, "; ".join(r.predicted), r.verdict, r.measured,
            ", ".join(r.devices), ", ".join(r.devices_missing), ", ".join(r.machines),
            "; ".join(c.text for c in r.counters), "; ".join(r.without_evidence),
        )
        for r in results
    )  # fmt: skip
    return Table("claims", "What sources say, and what was measured", columns, rows)


def status_table(statuses: Iterable[Status]) -> Table:
    """Status, a row an issue (or neighbour) and device."""
    columns = (
        "case", "device", "variant", "status", "affected", "first", "last", "last_without", "fixed_in",
        "newest_measured", "releases_measured", "holds", "holds_on_some", "does_not_hold", "not_run",
        "disagreements", "date", "machines",
    )  # fmt: skip

    def names(status: Status, verdict: str) -> str:
        return ", ".join(advice.workaround for advice in status.advised(verdict))

    rows = tuple(
        (
            s.case, s.device, s.variant, s.summary, s.affected_text, s.first, s.last, s.before, s.fixed_in,
            s.newest, len(s.measured), names(s, "holds"), names(s, "holds on some"),
            names(s, "does not hold"), names(s, NOT_RUN), len(s.disagreements), s.date,
            ", ".join(s.machines),
        )
        for s in statuses
    )  # fmt: skip
    return Table("status", "Which releases are affected, and what holds", columns, rows)


def to_json(table: Table) -> str:
    """A list of objects, one a line. ASCII, so that any text that was recorded can be written."""
    lines = (json.dumps(dict(zip(table.columns, row, strict=True))) for row in table.rows)
    return "[\n" + ",\n".join(lines) + "\n]\n" if table.rows else "[]\n"


def to_csv(table: Table) -> str:
    """RFC 4180 with ``\\n`` line ends; null is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return out.getvalue().encode("utf-8", "backslashreplace").decode()


def to_markdown(table: Table) -> str:
    """A GitHub table; long texts are shortened, and nothing in them acts as markup."""
    lines = [
        "| " + " | ".join(map(_markdown, table.columns)) + " |",
        "|" + "---|" * len(table.columns),
    ]
    lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def files(table: Table) -> dict[str, str]:
    """The table in each of :data:`FORMATS`."""
    return {form: convert(table) for form, convert in FORMATS.items()}


def _markdown(value: Scalar) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    return one_line(value, 160).translate(_MARKUP)


def to_rich(rows: Sequence[Row]) -> RichTable:
    """The flat table for a terminal: the columns that fit, coloured by verdict."""
    table = RichTable(header_style="bold", pad_edge=False, box=None)
    for name in _TERMINAL:
        table.add_column(name, overflow="fold", no_wrap=name in ("torch", "verdict", "device"))
    for row in rows:
        shown = word(row.verdict, row.workaround is not None)
        tone = _TONES.get(shown.tone, "dim")
        table.add_row(
            *(Text(v) for v in (row.case, row.repro, row.workaround or "", row.torch, row.device)),
            Text(f"{shown.symbol} {row.verdict}", style=tone),
            Text(f"{row.hits}/{row.trials}" if row.trials else "", style="dim"),
            Text(one_line(row.message, 120), style="dim"),
        )
    return table


FORMATS = {"json": to_json, "csv": to_csv, "md": to_markdown}


def render(rows: Sequence[Row], form: str) -> str:
    """The flat table as ``json``, ``csv`` or ``md``."""
    return FORMATS[form](flat(rows))
