"""The front page's view: a line an issue and device, and an answer a release and device. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.case import Case
from harness.judge import version_key
from harness.report import links
from harness.report.grid import Grid
from harness.report.legend import NOT_RUN, Word, word
from harness.report.matrix import heads
from harness.report.status import Advice, Status, state_of

# How a workaround does not help, as the answer says it.
_AGAINST = {
    "mixed": "Only for some of its repros",
    "fails": "Still fails with",
    "breaks": "Fails in another way with",
    "rejected": "torch refuses",
}


@dataclass(frozen=True)
class Affected:
    """An issue that a release shows: what helps there and what does not."""

    case: Case
    name: str
    status: Status
    holds: tuple[str, ...]
    against: tuple[tuple[str, tuple[str, ...]], ...]  # (in words, workarounds)
    untried: int
    neighbours: tuple[str, ...]
    flaky: str | None


@dataclass(frozen=True)
class Answer:
    """What is known of one release on one device, issue by issue."""

    id: str
    torch: str
    device: str
    affected: tuple[Affected, ...]
    neighbours: tuple[tuple[str, str, str], ...]  # (case id, name, trigger): the bug is not there
    clean: tuple[tuple[str, str], ...]
    other: tuple[tuple[str, str], ...]
    unknown: tuple[tuple[str, str, str], ...]  # (case id, name, why)
    not_run: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Glance:
    """A line of the overview: the states of an issue on a device, release by release."""

    name: str
    href: str
    device: str
    variant: str | None
    cells: tuple[tuple[str, str, Word], ...]  # (release, address, word)


@dataclass(frozen=True)
class Book:
    """All that the pages share. ``grids`` by (case id, device); ``statuses`` likewise, the bug first."""

    cases: tuple[Case, ...]
    releases: tuple[str, ...]
    devices: tuple[str, ...]
    grids: dict[tuple[str, str], Grid]
    statuses: dict[tuple[str, str], list[Status]]


def answers(book: Book) -> list[Answer]:
    """An answer for each release (newest first) and device, be it that nothing was run there."""
    return [_answer(book, torch, device) for torch in reversed(book.releases) for device in book.devices]


def default_answer(found: Sequence[Answer]) -> str | None:
    """The one shown before a choice is made: the newest that says anything."""
    telling = [a for a in found if a.affected or a.clean or a.other]
    if not telling:
        return None
    best = max(telling, key=lambda a: (_stable(a.torch), version_key(a.torch), a.device == "cpu"))
    return best.id


def _stable(torch: str) -> bool:
    kind, version = version_key(torch)
    return bool(kind) and not version.is_prerelease


def _answer(book: Book, torch: str, device: str) -> Answer:
    affected, neighbours, clean, other, unknown, not_run = [], [], [], [], [], []
    for case in book.cases:
        known = book.statuses.get((case.id, device))
        if not known:
            continue
        grid, status = book.grids[case.id, device], known[0]
        named = (case.id, links.short_name(case))
        state = status.states.get(torch, NOT_RUN)
        near = tuple(s.variant or "" for s in known[1:] if s.states.get(torch) == "bug")
        if state == "bug":
            affected.append(_affected(case, status, grid, torch, near))
            continue
        neighbours += [(*named, variant) for variant in near]
        if state == "clean":
            clean.append(named)
        elif state == "other":
            other.append(named)
        elif state == NOT_RUN:
            not_run.append(named)
        else:
            unknown.append((*named, why_unknown(grid, status.repros, torch)))
    return Answer(
        links.answer_id(torch, device), torch, device, tuple(affected), tuple(neighbours), tuple(clean),
        tuple(other), tuple(unknown), tuple(not_run),
    )  # fmt: skip


def _affected(case: Case, status: Status, grid: Grid, torch: str, neighbours: tuple[str, ...]) -> Affected:
    holds: list[str] = []
    against: dict[str, list[str]] = {}
    untried = 0
    for advice in status.advice:
        mine = [repro for repro in status.repros if repro in case.targets_of(advice.workaround)]
        verdict = grid.together(mine, advice.workaround, torch).verdict
        if verdict == "holds":
            holds.append(advice.workaround)
        elif verdict in _AGAINST:
            against.setdefault(verdict, []).append(advice.workaround)
        else:
            untried += 1
    rows = [row for repro in status.repros for row in grid.rows(repro, None, torch) if row.verdict == "bug"]
    hits, trials = sum(row.hits for row in rows), sum(row.trials for row in rows)
    flaky = f"in {hits} of {trials} attempts" if 0 < hits < trials else None
    return Affected(
        case, links.short_name(case), status, tuple(holds),
        tuple((words, tuple(against[v])) for v, words in _AGAINST.items() if v in against),
        untried, neighbours, flaky,
    )  # fmt: skip


def why_unknown(grid: Grid, repros: Sequence[str], torch: str) -> str:
    """Why a release tells nothing: the first reason on record."""
    for repro in repros:
        for row in grid.rows(repro, None, torch):
            if row.stale:
                return "recorded with an earlier wording of the repro"
            if row.kind in ("setup", "unsupported", "skipped"):
                return f"{row.kind}: {row.message}" if row.message else row.kind
    return "a control failed, so nothing is concluded"


def glances(book: Book) -> list[Glance]:
    """The overview, in the order of the corpus."""
    lines = []
    for case in book.cases:
        for device in book.devices:
            for status in book.statuses.get((case.id, device), []):
                grid = book.grids[case.id, device]
                if not grid.releases:
                    continue
                cells = tuple(
                    (torch, f"#{links.answer_id(torch, device)}", word(state_of(grid, status.repros, torch)))
                    for torch in book.releases
                )
                lines.append(
                    Glance(links.short_name(case), links.issue_page(case.id), device, status.variant, cells)
                )
    return lines


def glance_heads(book: Book) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Headings of the overview."""
    return heads(book.releases)


def best_advice(status: Status, count: int = 4) -> tuple[list[Advice], int]:
    """Workarounds that hold everywhere, the best measured first, and how many more there are."""
    held = sorted(status.advised("holds"), key=lambda advice: -len(advice.releases))
    return held[:count], max(0, len(held) - count)
