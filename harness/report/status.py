"""Am I affected? What the rows say of one issue on one device. Pure.

The bug is what the triggers judged by the case's own signature show. A trigger that brings a
signature of its own is a neighbour of the bug and has a status of its own; where every trigger
brings one, all of them are the bug.

State of a release: ``bug`` where any trigger shows it in any record (a bug that shows on one machine
or in one attempt is there); otherwise ``other`` where one fails in another way; ``clean`` where one
was clean and none was anything worse; ``unknown`` where there are records that tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.case import Case
from harness.judge import Row
from harness.report.grid import DECISIVE, Grid, shown
from harness.report.legend import NOT_RUN, STALE

_EVIDENCE = ("bug", "other", "clean")


@dataclass(frozen=True)
class Span:
    """Consecutive measured releases that show the bug. ``gaps`` lie inside and were not measured."""

    first: str
    last: str
    gaps: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.first if self.first == self.last else f"{self.first} – {self.last}"


@dataclass(frozen=True)
class Against:
    """A place where a workaround was tried and does not hold."""

    torch: str
    repro: str
    verdict: str
    row: Row


@dataclass(frozen=True)
class Advice:
    """A workaround over all records in which its repro shows the bug.

    ``verdict``: ``holds`` (wherever measured), ``holds on some``, ``does not hold``, ``not run``.
    ``releases`` are those where it was measured, ``holds_on`` those where it held on every repro;
    ``cells`` counts what was measured on these, ``held`` those in which it held.
    """

    workaround: str
    verdict: str
    releases: tuple[str, ...] = ()
    holds_on: tuple[str, ...] = ()
    against: tuple[Against, ...] = ()
    cells: int = 0
    held: int = 0
    newest: str | None = None  # its verdict on the newest affected release


@dataclass(frozen=True)
class Disagreement:
    """Records of one cell that differ: verdict, with the rows that say so."""

    torch: str
    repro: str
    workaround: str | None
    said: tuple[tuple[str, tuple[Row, ...]], ...]


@dataclass(frozen=True)
class Status:
    """One issue (or a neighbour of it) on one device.

    ``states`` has a state for each release of the device's records, oldest first. ``before`` is the
    last clean release before the first with the bug; ``fixed_in`` the first clean one after the
    last with it, ``skipped`` those between the two that tell nothing. ``newest`` is the newest
    release that tells anything.
    """

    case: str
    device: str
    variant: str | None
    repros: tuple[str, ...]
    states: dict[str, str]
    spans: tuple[Span, ...]
    before: str | None
    fixed_in: str | None
    skipped: tuple[str, ...]
    newest: str | None
    advice: tuple[Advice, ...]
    disagreements: tuple[Disagreement, ...]
    date: str | None
    machines: tuple[str, ...]

    @property
    def first(self) -> str | None:
        """First release measured with the bug."""
        return self.spans[0].first if self.spans else None

    @property
    def last(self) -> str | None:
        """Last release measured with the bug."""
        return self.spans[-1].last if self.spans else None

    @property
    def measured(self) -> list[str]:
        """Releases that tell something."""
        return [torch for torch, state in self.states.items() if state in _EVIDENCE]

    @property
    def summary(self) -> str:
        """``affected``, ``fixed``, ``unclear``, ``not seen`` or ``not run``."""
        if not self.measured:
            return NOT_RUN
        if not self.spans:
            return "not seen" if "other" not in self.states.values() else "unclear"
        if self.fixed_in:
            return "fixed"
        return "affected" if self.states[self.newest or ""] == "bug" else "unclear"

    @property
    def affected_text(self) -> str:
        """``2.9.0 – 2.15.0``, or why there is none."""
        if self.spans:
            return ", ".join(span.text for span in self.spans)
        return "none of those measured" if self.measured else NOT_RUN

    @property
    def fixed_text(self) -> str:
        """``2.12.0``, ``not as of 2.15.0``, or ``–``."""
        if self.fixed_in:
            return self.fixed_in
        if not self.spans:
            return "–"
        if self.summary == "affected":
            return f"not as of {self.newest}"
        return f"unclear: {self.newest} fails in another way"

    def advised(self, verdict: str) -> list[Advice]:
        """Workarounds with that verdict."""
        return [advice for advice in self.advice if advice.verdict == verdict]


def bug_groups(case: Case) -> list[tuple[str | None, tuple[str, ...]]]:
    """The bug's triggers first, as (None, names), then each neighbour as (name, (name,))."""
    triggers = [name for name, repro in case.repros.items() if repro.role == "trigger"]
    own = [name for name in triggers if case.repros[name].failure is not None]
    main = [name for name in triggers if name not in own]
    if not main:
        main, own = own, []
    return [(None, tuple(main)), *((name, (name,)) for name in own)]


def devices(case: Case, rows: Iterable[Row]) -> list[str]:
    """Devices that the case is for or has records of."""
    seen = {row.device for row in rows if row.case == case.id}
    return [*case.devices, *sorted(seen - set(case.devices))]


def statuses(case: Case, rows: Iterable[Row]) -> list[Status]:
    """Status of the bug and of each neighbour, device by device."""
    rows = [row for row in rows if row.case == case.id]
    found = []
    for device in devices(case, rows):
        grid = Grid(row for row in rows if row.device == device)
        found += [status(case, device, grid, name, repros) for name, repros in bug_groups(case)]
    return found


def status(case: Case, device: str, grid: Grid, variant: str | None, repros: tuple[str, ...]) -> Status:
    """Status of the bug that ``repros`` show, from the rows of one device."""
    states = {torch: state_of(grid, repros, torch) for torch in grid.releases}
    telling = [torch for torch in states if states[torch] in _EVIDENCE]
    spans = _spans(states, telling)
    before = fixed_in = None
    skipped: tuple[str, ...] = ()
    if spans:
        older = telling[: telling.index(spans[0].first)]
        newer = telling[telling.index(spans[-1].last) + 1 :]
        before = next((t for t in reversed(older) if states[t] == "clean"), None)
        if newer and states[newer[-1]] == "clean":
            fixed_in = next(t for t in newer if states[t] == "clean")
            order = list(states)
            skipped = tuple(order[order.index(spans[-1].last) + 1 : order.index(fixed_in)])
    rows = [r for t in grid.releases for name in repros for r in grid.rows(name, None, t) if r.trials]
    return Status(
        case=case.id,
        device=device,
        variant=variant,
        repros=repros,
        states=states,
        spans=spans,
        before=before,
        fixed_in=fixed_in,
        skipped=skipped,
        newest=telling[-1] if telling else None,
        advice=tuple(_advice(case, grid, repros, telling)),
        disagreements=tuple(_disagreements(case, grid, repros)),
        date=max((r.recorded[:10] for r in rows if r.recorded), default=None),
        machines=tuple(sorted({r.machine for r in rows})),
    )


def state_of(grid: Grid, repros: Sequence[str], torch: str) -> str:
    """State of a release: see the module."""
    seen = {shown(row) for name in repros for row in grid.rows(name, None, torch)}
    return next((state for state in (*_EVIDENCE, "unknown", STALE) if state in seen), NOT_RUN)


def _spans(states: dict[str, str], telling: list[str]) -> tuple[Span, ...]:
    order = list(states)
    runs: list[list[str]] = []
    previous = ""
    for torch in telling:
        if states[torch] == "bug":
            if previous == "bug":
                runs[-1].append(torch)
            else:
                runs.append([torch])
        previous = states[torch]
    spans = []
    for run in runs:
        inside = order[order.index(run[0]) : order.index(run[-1])]
        spans.append(Span(run[0], run[-1], tuple(t for t in inside if t not in run)))
    return tuple(spans)


def _advice(case: Case, grid: Grid, repros: tuple[str, ...], telling: list[str]) -> Iterable[Advice]:
    for name in case.workarounds:
        mine = [repro for repro in repros if repro in case.targets_of(name)]
        if not mine:
            continue
        good: dict[str, bool] = {}
        held = 0
        against = []
        for torch in telling:
            for repro in mine:
                for row in grid.rows(repro, name, torch):
                    verdict = shown(row)
                    if verdict not in DECISIVE:
                        continue
                    good[torch] = good.get(torch, True) and verdict == "holds"
                    if verdict == "holds":
                        held += 1
                    else:
                        against.append(Against(torch, repro, verdict, row))
        verdict = (
            NOT_RUN if not good else "does not hold" if not held else "holds on some" if against else "holds"
        )
        affected = [t for t in telling if any(shown(r) == "bug" for m in mine for r in grid.rows(m, None, t))]
        newest = grid.together(mine, name, affected[-1]).verdict if affected else None
        holds_on = tuple(torch for torch, fine in good.items() if fine)
        yield Advice(name, verdict, tuple(good), holds_on, tuple(against), held + len(against), held, newest)


def _disagreements(case: Case, grid: Grid, repros: tuple[str, ...]) -> Iterable[Disagreement]:
    for torch in grid.releases:
        for repro in repros:
            works = [work for work in case.workarounds if repro in case.targets_of(work)]
            for name in (None, *works):
                rows = grid.rows(repro, name, torch)
                said: dict[str, list[Row]] = {}
                for row in rows:
                    if shown(row) in DECISIVE:
                        said.setdefault(shown(row), []).append(row)
                if len(said) > 1:
                    told = tuple((verdict, tuple(found)) for verdict, found in said.items())
                    yield Disagreement(torch, repro, name, told)
