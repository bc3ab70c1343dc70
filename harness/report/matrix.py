"""A matrix as a page shows it: named lines, releases across, each cell linked to its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.judge import Row
from harness.report import links
from harness.report.grid import Grid, Merged, minors, patch, shown
from harness.report.legend import Word, word


@dataclass(frozen=True)
class Line:
    """One line: a repro or a workaround. ``href`` is where it is described."""

    name: str
    href: str | None
    cells: tuple[Markup, ...]


@dataclass(frozen=True)
class Matrix:
    """``groups`` are (heading or None, lines); ``heads`` are (minor, [(release, patch)])."""

    id: str
    caption: str
    corner: str
    heads: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    groups: tuple[tuple[str | None, tuple[Line, ...]], ...]
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Asked:
    """A line to be made: a workaround (or none) on some repros."""

    name: str
    href: str | None
    repros: tuple[str, ...]
    workaround: str | None = None


def heads(releases: Sequence[str]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Headings of the columns."""
    return tuple(
        (minor, tuple((torch, patch(torch)) for torch in members)) for minor, members in minors(releases)
    )


def matrix(
    ident: str,
    caption: str,
    corner: str,
    grid: Grid,
    releases: Sequence[str],
    groups: Iterable[tuple[str | None, Sequence[Asked]]],
    root: str,
) -> Matrix:
    """Lay ``groups`` out over ``releases``. ``root`` leads from the page to the site's root."""
    seen: dict[str, Word] = {}
    made = []
    for heading, asked in groups:
        lines = []
        for item in asked:
            cells = []
            for torch in releases:
                merged = grid.together(item.repros, item.workaround, torch)
                shown_as = word(merged.verdict, item.workaround is not None)
                seen[shown_as.name] = shown_as
                cells.append(cell(merged, shown_as, torch, _address(merged, root)))
            lines.append(Line(item.name, item.href, tuple(cells)))
        if lines:
            made.append((heading, tuple(lines)))
    return Matrix(ident, caption, corner, heads(releases), tuple(made), tuple(seen.values()))


def disagreement_anchor(row: Row) -> str:
    """Where an issue page lists the records of one cell that differ."""
    return f"differ-{row.device}-{row.torch}-{links.cell_anchor(row.repro, row.workaround)}"


def _address(merged: Merged, root: str) -> str | None:
    rows = merged.rows
    if not rows:
        return None
    if merged.disagree:
        by_cell: dict[tuple[str, str | None], set[str]] = {}
        for row in rows:
            by_cell.setdefault((row.repro, row.workaround), set()).add(shown(row))
        first = next(r for r in rows if len(by_cell[r.repro, r.workaround]) > 1)
        return f"#{disagreement_anchor(first)}"
    best = next((row for row in rows if shown(row) == merged.verdict), rows[0])
    if merged.verdict == "mixed":
        best = next((row for row in rows if shown(row) in ("fails", "breaks", "rejected")), best)
    return root + links.evidence(best)


_CELL = Markup('<td class="v {}"><a href="{}" aria-label="{}" title="{}">{}{}</a></td>')
_PLAIN = Markup('<td class="v {}"><span aria-label="{}" role="img" title="{}">{}</span></td>')


def cell(merged: Merged, shown_as: Word, torch: str, href: str | None) -> Markup:
    """One cell: colour, symbol and text."""
    if href is None or shown_as.name == "not run":
        label = f"{torch}: {shown_as.name}"
        return _PLAIN.format(shown_as.tone, shown_as.name, label, shown_as.symbol)
    said = shown_as.name
    flaky = shown_as.name in ("bug", "fails") and 0 < merged.hits < merged.trials and len(merged.rows) == 1
    small: str | Markup = ""
    if flaky:
        said += f", {merged.hits}/{merged.trials} attempts"
        small = Markup("<small>{}/{}</small>").format(merged.hits, merged.trials)
    if merged.disagree:
        said += ", records disagree"
    if shown_as.name in ("unknown", "other", "breaks", "rejected") and merged.rows:
        said += _why(merged.rows, shown_as.name)
    return _CELL.format(shown_as.tone, href, f"{torch} {said}", f"{torch}: {said}", shown_as.symbol, small)


def _why(rows: Iterable[Row], verdict: str) -> str:
    for row in rows:
        if row.verdict == verdict:
            kind = row.kind if row.kind not in ("ok", "error") else row.exception or row.kind
            return f" ({kind})" if verdict != "unknown" or kind not in ("ok",) else ""
    return ""
