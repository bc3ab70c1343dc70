"""Rows laid out as release × column: what several records of one cell say together. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.judge import Row, version_key
from harness.report.legend import MIXED, NOT_RUN, STALE

DECISIVE = frozenset({"bug", "clean", "other", "holds", "fails", "breaks", "rejected"})
# What was due and not run, or run and unclear, must not pass for "nothing to avoid".
_WEAK = (NOT_RUN, "unknown", "moot", STALE)


def shown(row: Row) -> str:
    """The verdict of a row as the report tells it: ``not run`` and ``stale`` are no verdicts of the
    records, but a reader must not take them for ``unknown``."""
    if row.stale:
        return STALE
    if row.trials == 0 and row.verdict == "unknown":
        return NOT_RUN
    return row.verdict


def settle(rows: Iterable[Row]) -> list[Row]:
    """Rows in which a workaround is stale where its baseline is: its verdict rests on that."""
    rows = list(rows)
    stale = {(r.machine, r.target, r.case, r.repro) for r in rows if r.stale and r.workaround is None}
    return [
        replace(r, stale=True) if not r.stale and (r.machine, r.target, r.case, r.repro) in stale else r
        for r in rows
    ]


@dataclass(frozen=True)
class Merged:
    """What the rows of one cell, or of one workaround on several repros, say together.

    ``disagree``: two records of the very same repro, workaround and release differ.
    """

    verdict: str
    rows: tuple[Row, ...] = ()
    disagree: bool = False

    @property
    def trials(self) -> int:
        return sum(row.trials for row in self.rows)

    @property
    def hits(self) -> int:
        return sum(row.hits for row in self.rows)


def combine(verdicts: Iterable[str]) -> str:
    """One word for several verdicts: what they agree on, ``mixed``, or why there is none."""
    seen = set(verdicts)
    decisive = seen & DECISIVE
    if len(decisive) == 1:
        return next(iter(decisive))
    if decisive:
        return MIXED
    return next((verdict for verdict in _WEAK if verdict in seen), NOT_RUN)


class Grid:
    """The rows of one case on one device (and one machine, where one is named)."""

    def __init__(self, rows: Iterable[Row], machine: str | None = None) -> None:
        self._cells: dict[tuple[str, str | None, str], list[Row]] = defaultdict(list)
        for row in rows:
            if machine is None or row.machine == machine:
                self._cells[row.repro, row.workaround, row.torch].append(row)
        self.releases = releases(row for found in self._cells.values() for row in found)

    def rows(self, repro: str, workaround: str | None, torch: str) -> list[Row]:
        """All rows of a cell on ``torch``."""
        return self._cells.get((repro, workaround, torch), [])

    def cell(self, repro: str, workaround: str | None, torch: str) -> Merged:
        """All records of one cell on a release."""
        return self.together([repro], workaround, torch)

    def together(self, repros: Sequence[str], workaround: str | None, torch: str) -> Merged:
        """All records of ``workaround`` on a release over several repros."""
        rows: list[Row] = []
        disagree = False
        for repro in repros:
            found = self._cells.get((repro, workaround, torch))
            if found:
                rows += found
                disagree |= len({shown(row) for row in found} & DECISIVE) > 1
        return Merged(combine(map(shown, rows)), tuple(rows), disagree) if rows else Merged(NOT_RUN)


def releases(rows: Iterable[Row]) -> list[str]:
    """Releases that ``rows`` speak of, oldest first."""
    return sorted({row.torch for row in rows}, key=version_key)


def minors(versions: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Versions grouped as headings: ``("2.13", ["2.13.0", "2.13.1"])``, order kept."""
    groups: list[tuple[str, list[str]]] = []
    for version in versions:
        minor = ".".join(version.split(".")[:2])
        if groups and groups[-1][0] == minor:
            groups[-1][1].append(version)
        else:
            groups.append((minor, [version]))
    return groups


def patch(version: str) -> str:
    """What stands below a minor's heading: ``.1``."""
    parts = version.split(".", 2)
    if len(parts) < 3:
        return version
    number, _, rest = parts[2].partition(".")
    return f".{number} {rest[:3]}" if rest else f".{number}"
