"""The view of an issue's page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.case import Case
from harness.judge import Row
from harness.report import describe, links
from harness.report.front import Book
from harness.report.grid import Grid, shown
from harness.report.legend import ADVICE, REPRO, WORKAROUND, Word
from harness.report.matrix import Asked, Matrix, disagreement_anchor, matrix
from harness.report.status import Advice, Status, bug_groups

ROOT = "../"
_ORDER = {"holds": 0, "holds on some": 1, "does not hold": 2, "not run": 3}


@dataclass(frozen=True)
class Boundary:
    """Where the bug came or went, as the releases have it: two neighbours and their commits."""

    device: str
    what: str  # "came" or "left"
    before: Row
    after: Row
    compare: str | None
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Remedy:
    """A workaround as it is explained: settings, changed models, and its verdict by device."""

    name: str
    note: str | None
    settings: str
    sources: tuple[describe.Source, ...]
    verdicts: tuple[tuple[str, Advice, Word], ...]

    @property
    def best(self) -> str:
        """The best verdict that it has on any device."""
        return min((a.verdict for _, a, _ in self.verdicts), key=_ORDER.__getitem__, default="not run")


@dataclass(frozen=True)
class DevicePart:
    """What the page has for a device; the matrices are None where nothing was run."""

    device: str
    statuses: tuple[Status, ...]
    repros: Matrix | None
    workarounds: Matrix | None
    apart: tuple[Matrix, ...]


@dataclass(frozen=True)
class Specimen:
    """A repro as it is shown."""

    name: str
    role: str
    note: str | None
    code: str
    inputs: tuple[str, ...]
    call: str
    compare: tuple[str, ...]
    own_signature: bool
    scripts: tuple[tuple[str, str], ...]  # (device, address)


def device_parts(case: Case, book: Book, devices: Sequence[str]) -> list[DevicePart]:
    """The parts of the page, device by device."""
    parts = []
    for device in devices:
        grid = book.grids.get((case.id, device))
        known = tuple(book.statuses.get((case.id, device), ()))
        if grid is None or not grid.releases:
            parts.append(DevicePart(device, known, None, None, ()))
            continue
        parts.append(
            DevicePart(
                device, known, _repros(case, device, grid, book.releases),
                _workarounds(case, device, grid, book.releases), _apart(case, device, grid, book.releases),
            )
        )  # fmt: skip
    return parts


def _repros(case: Case, device: str, grid: Grid, releases: Sequence[str]) -> Matrix:
    here = [name for name in case.repros if device in case.devices_of(name)]
    main, *near = (names for _, names in bug_groups(case))
    neighbours = [name for names in near for name in names]
    groups = [
        ("Triggers of the bug", [n for n in here if n in main]),
        ("Neighbours: triggers with a signature of their own", [n for n in here if n in neighbours]),
        ("Controls: must be clean, or nothing is concluded",
         [n for n in here if _role(case, n) == "control"]),
        ("What sources say, as code: see the ledger",
         [n for n in here if _role(case, n) == "claimed"]),
    ]  # fmt: skip
    asked = [(head, [Asked(n, f"#repro-{n}", (n,)) for n in names]) for head, names in groups]
    caption = f"{links.short_name(case)} on {device}: which releases show the bug"
    return matrix(f"repros-{device}", caption, "repro", grid, releases, asked, ROOT)


def _workarounds(case: Case, device: str, grid: Grid, releases: Sequence[str]) -> Matrix | None:
    bug = [name for name in bug_groups(case)[0][1] if device in case.devices_of(name)]
    asked = [
        Asked(work, f"#fix-{work}", tuple(n for n in bug if n in case.targets_of(work)), work)
        for work in case.workarounds
        if set(bug) & set(case.targets_of(work))
    ]
    if not asked:
        return None
    caption = f"{links.short_name(case)} on {device}: which workarounds hold, on all its triggers together"
    return matrix(f"fixes-{device}", caption, "workaround", grid, releases, [(None, asked)], ROOT)


def _apart(case: Case, device: str, grid: Grid, releases: Sequence[str]) -> tuple[Matrix, ...]:
    found = []
    for repro in case.repros:
        works = [w for w in case.workarounds if repro in case.targets_of(w)]
        if not works or device not in case.devices_of(repro):
            continue
        if not any(grid.rows(repro, work, torch) for work in works for torch in grid.releases):
            continue
        asked = [Asked(work, f"#fix-{work}", (repro,), work) for work in works]
        found.append(
            matrix(f"fixes-{device}-{repro}", f"{repro} on {device}", "workaround", grid, releases,
                   [(None, asked)], ROOT)
        )  # fmt: skip
    return tuple(found) if len(found) > 1 or (found and len(bug_groups(case)[0][1]) > 1) else ()


def legends(parts: Sequence[DevicePart]) -> tuple[list[Word], list[Word]]:
    """The words that the page's matrices use, of repros and of workarounds, in the legend's order."""
    repros = {w.name for part in parts if part.repros for w in part.repros.words}
    works = {w.name for part in parts for m in (part.workarounds, *part.apart) if m for w in m.words}
    return (
        [w for w in REPRO.values() if w.name in repros],
        [w for w in WORKAROUND.values() if w.name in works],
    )


def remedies(case: Case, statuses: Sequence[Status]) -> list[Remedy]:
    """Workarounds, those that hold everywhere first."""
    found = []
    for name, work in case.workarounds.items():
        verdicts = tuple(
            (status.device, advice, ADVICE[advice.verdict])
            for status in statuses
            if status.variant is None
            for advice in status.advice
            if advice.workaround == name
        )
        found.append(
            Remedy(
                name, work.note, describe.settings(work), tuple(describe.sources(work, case, name)), verdicts
            )
        )
    return sorted(found, key=lambda r: _ORDER[r.best])


def specimens(case: Case, scripts: dict[tuple[str, str, str], str]) -> list[Specimen]:
    """The repros, with the addresses of their scripts."""
    main = bug_groups(case)[0][1]
    return [
        Specimen(
            name, repro.role, repro.note, (repro.model or f"script: {repro.script}").rstrip(),
            tuple(describe.inputs(repro)), describe.compile_call(repro), tuple(sorted(repro.compare)),
            repro.failure is not None and name not in main,
            tuple((d, scripts[key]) for d in case.devices_of(name) if (key := (case.id, name, d)) in scripts),
        )
        for name, repro in case.repros.items()
    ]  # fmt: skip


def boundaries(case: Case, book: Book, devices: Sequence[str]) -> list[Boundary]:
    """Where the bug came and left by the records alone, device by device."""
    found = []
    for device in devices:
        grid = book.grids.get((case.id, device))
        for status in book.statuses.get((case.id, device), [])[:1]:
            if grid is None:
                continue
            telling = status.measured
            for before, after in pairwise(telling):
                was, now = status.states[before], status.states[after]
                if {was, now} != {"bug", "clean"}:
                    continue
                order = list(status.states)
                skipped = tuple(order[order.index(before) + 1 : order.index(after)])
                first = _telling_row(grid, status, before)
                then = _telling_row(grid, status, after)
                found.append(
                    Boundary(device, "came" if now == "bug" else "left", first, then,
                             links.compare(first.git_version, then.git_version), skipped)
                )  # fmt: skip
    return found


def _telling_row(grid: Grid, status: Status, torch: str) -> Row:
    state = status.states[torch]
    return next(r for name in status.repros for r in grid.rows(name, None, torch) if shown(r) == state)


@dataclass(frozen=True)
class Differing:
    """Records of one cell that disagree."""

    id: str
    torch: str
    cell: str
    device: str
    said: tuple[tuple[str, tuple[Row, ...]], ...]


def differences(case: Case, book: Book, devices: Sequence[str]) -> list[Differing]:
    """Every disagreement of the records of the case, over all its repros and workarounds."""
    found = []
    for device in devices:
        grid = book.grids.get((case.id, device))
        if grid is None:
            continue
        for torch in reversed(grid.releases):
            for repro in case.repros:
                for work in (None, *(w for w in case.workarounds if repro in case.targets_of(w))):
                    if not grid.cell(repro, work, torch).disagree:
                        continue
                    rows = grid.rows(repro, work, torch)
                    told: dict[str, list[Row]] = {}
                    for row in rows:
                        told.setdefault(shown(row), []).append(row)
                    found.append(
                        Differing(disagreement_anchor(rows[0]), torch, links.cell_anchor(repro, work), device,
                                  tuple((v, tuple(rs)) for v, rs in told.items()))
                    )  # fmt: skip
    return found


def _role(case: Case, name: str) -> str:
    return case.repros[name].role
