"""The claims ledger: every claim of every source against the records. Pure.

Rules, on top of those of :mod:`harness.report.evidence`:

- ``holds``: there is evidence for it and none against it.
- ``holds on some``: there is evidence for and against.
- ``refuted``: there is evidence against it and none for it.
- ``nothing to test``: it was tried, and everywhere the baseline does not show the bug.
- ``not run``: no record says anything about it.

A claim with several predictions is all of them together; those without evidence are named, and
leave the verdict to the others. A claim without a device or a release range speaks of all of them,
so one contrary release makes ``holds`` into ``holds on some``. Devices of the case on which nothing
was measured are named too: a verdict never speaks of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.case import Case, Claim, Expectation
from harness.judge import Row, version_key
from harness.report.evidence import Evidence, gather, repros_of, spread
from harness.report.grid import shown
from harness.report.legend import NOT_RUN


@dataclass(frozen=True)
class Counter:
    """A counter-example: what was measured where, newest release first; ``row`` is the newest."""

    repro: str
    workaround: str | None
    device: str
    verdict: str
    releases: tuple[str, ...]
    row: Row

    @property
    def text(self) -> str:
        """``zero-rows+aot-eager: fails on cpu, 2.9.0 to 2.15.0, 12 releases``."""
        cell = self.repro if self.workaround is None else f"{self.repro}+{self.workaround}"
        span = (
            " and ".join(reversed(self.releases))
            if len(self.releases) <= 2
            else f"{self.releases[-1]} to {self.releases[0]}, {len(self.releases)} releases"
        )
        return f"{cell}: {self.verdict} on {self.device}, {span}"


@dataclass(frozen=True)
class ClaimResult:
    """A claim and what became of it."""

    case: str
    number: int
    source: str
    section: str
    says: str
    predicted: tuple[str, ...]
    verdict: str
    agree: tuple[Row, ...]
    against: tuple[Row, ...]
    moot: tuple[Row, ...]
    counters: tuple[Counter, ...]
    devices: tuple[str, ...]
    devices_missing: tuple[str, ...]
    machines: tuple[str, ...]
    without_evidence: tuple[str, ...]

    @property
    def anchor(self) -> str:
        return f"claim-{self.number}"

    @property
    def measured(self) -> str:
        """What was measured where, in a few words."""
        told = self.agree + self.against
        if not told:
            rows = self.moot
            return f"no bug to avoid on torch {spread(rows)}" if rows else ""
        return f"on {' and '.join(self.devices)}, torch {spread(told)}"


def ledger(cases: Iterable[Case], rows: Sequence[Row]) -> list[ClaimResult]:
    """All claims of all cases, in the order of the files."""
    by_case: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_case[row.case].append(row)
    return [
        judge_claim(case, number, claim, by_case[case.id])
        for case in cases
        for number, claim in enumerate(case.claims, 1)
    ]


def judge_claim(case: Case, number: int, claim: Claim, rows: Sequence[Row]) -> ClaimResult:
    """One claim against the rows of its case."""
    found = [gather(case, expectation, rows) for expectation in claim.expect]
    agree = tuple(row for evidence in found for row in evidence.agree)
    against = tuple(row for evidence in found for row in evidence.against)
    moot = tuple(row for evidence in found for row in evidence.moot)
    devices = tuple(sorted({row.device for row in agree + against}))
    return ClaimResult(
        case=case.id,
        number=number,
        source=claim.source,
        section=claim.section,
        says=claim.says,
        predicted=tuple(predicted(expectation) for expectation in claim.expect),
        verdict=decide(found),
        agree=agree,
        against=against,
        moot=moot,
        counters=_counters(against),
        devices=devices,
        devices_missing=tuple(d for d in _asked_devices(case, claim.expect) if d not in devices),
        machines=tuple(sorted({row.machine for row in agree + against})),
        without_evidence=tuple(
            predicted(expectation)
            for expectation, evidence in zip(claim.expect, found, strict=True)
            if not evidence.told
        ),
    )


def decide(found: Sequence[Evidence]) -> str:
    """The verdict of a claim from the evidence on each of its predictions."""
    agree = any(evidence.agree for evidence in found)
    against = any(evidence.against for evidence in found)
    if agree:
        return "holds on some" if against else "holds"
    if against:
        return "refuted"
    return "nothing to test" if any(evidence.moot for evidence in found) else NOT_RUN


def predicted(expectation: Expectation) -> str:
    """A prediction in words: ``zero-rows, one-row: bug (cpu, 2.9..)``."""
    if expectation.workaround is not None:
        what = expectation.workaround + (f" on {', '.join(expectation.repro)}" if expectation.repro else "")
    else:
        what = ", ".join(expectation.repro or [])
    verdict = " or ".join(str(item) for item in expectation.verdict)
    where = ", ".join(part for part in (expectation.device, expectation.torch) if part)
    return f"{what}: {verdict}" + (f" ({where})" if where else "")


def _asked_devices(case: Case, expectations: Iterable[Expectation]) -> list[str]:
    asked: list[str] = []
    for expectation in expectations:
        for repro in repros_of(case, expectation):
            asked += [d for d in case.devices_of(repro) if expectation.device in (None, d)]
    return list(dict.fromkeys(asked))


def _counters(rows: Iterable[Row]) -> tuple[Counter, ...]:
    groups: dict[tuple[str, str | None, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.repro, row.workaround, row.device, shown(row)].append(row)
    found = []
    for (repro, workaround, device, verdict), members in groups.items():
        members.sort(key=lambda row: version_key(row.torch), reverse=True)
        names = tuple(dict.fromkeys(row.torch for row in members))
        found.append(Counter(repro, workaround, device, verdict, names, members[0]))
    return tuple(found)
