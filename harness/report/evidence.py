"""What rows say of a predicted verdict. Pure; the rules of the ledger and of ``harness check``.

An expectation names repros, or a workaround, and the verdicts that it predicts, on releases and a
device or on all of them. It is compared with every row that it speaks of:

- The row's verdict is one of those predicted: **for** it.
- ``unknown``, not run, or recorded with an earlier wording of the repro: no evidence.
- ``moot`` (the release does not show the bug), where ``moot`` was not predicted: nothing to test
  there, which is neither for nor against. What cannot be needed cannot be shown to help.
- Everything else is **against** it. ``rejected`` is: who is told to pass an option that torch
  refuses has not been helped. ``other`` is, where ``bug`` or ``clean`` was predicted: the failure
  that was seen is not the one that was foretold.

A workaround's expectation that names no repro speaks of the repros that are judged by the case's own
failure signature: a repro with a signature of its own is about something else. Where every repro
has one, it speaks of all that the workaround is for. A release range picks among the releases that
the rows have: ``latest`` is the newest one measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from harness.case import Case, Expectation
from harness.judge import Row, version_key
from harness.ranges import ReleaseRange
from harness.report.grid import shown
from harness.report.legend import NOT_RUN, STALE


@dataclass(frozen=True)
class Evidence:
    """Rows that an expectation speaks of, by what they say."""

    expected: tuple[str, ...]
    agree: tuple[Row, ...] = ()
    against: tuple[Row, ...] = ()
    moot: tuple[Row, ...] = ()
    silent: tuple[Row, ...] = ()  # unknown, not run or stale

    @property
    def told(self) -> tuple[Row, ...]:
        """Rows that are for or against."""
        return self.agree + self.against


def repros_of(case: Case, expectation: Expectation) -> list[str]:
    """Repros that ``expectation`` speaks of."""
    if expectation.repro is not None:
        return list(expectation.repro)
    assert expectation.workaround is not None
    targets = case.targets_of(expectation.workaround)
    return [name for name in targets if case.repros[name].failure is None] or targets


def gather(case: Case, expectation: Expectation, rows: Sequence[Row]) -> Evidence:
    """Compare ``expectation`` with the rows of its case."""
    repros = set(repros_of(case, expectation))
    wanted = tuple(str(verdict) for verdict in expectation.verdict)
    versions = _picked(expectation.torch, rows)
    agree, against, moot, silent = [], [], [], []
    for row in rows:
        if row.case != case.id or row.workaround != expectation.workaround or row.repro not in repros:
            continue
        if expectation.device not in (None, row.device):
            continue
        if versions is not None and row.torch not in versions:
            continue
        said = shown(row)
        if said in (STALE, NOT_RUN):
            silent.append(row)
        elif said in wanted:
            agree.append(row)
        elif said == "unknown":
            silent.append(row)
        elif said == "moot":
            moot.append(row)
        else:
            against.append(row)
    return Evidence(wanted, tuple(agree), tuple(against), tuple(moot), tuple(silent))


def _picked(text: str | None, rows: Iterable[Row]) -> set[str] | None:
    if text is None:
        return None
    versions: dict[Version, list[str]] = {}
    for torch in {row.torch for row in rows}:
        try:
            versions.setdefault(Version(torch), []).append(torch)
        except InvalidVersion:
            continue
    chosen = ReleaseRange.parse(text).pick(list(versions))
    return {torch for version in chosen for torch in versions[version]}


def spread(rows: Iterable[Row]) -> str:
    """Releases of ``rows`` in short: ``2.9.0``, ``2.9.0 and 2.9.1``, ``2.2.0 to 2.15.0, 31 releases``."""
    names = sorted({row.torch for row in rows}, key=version_key)
    if len(names) <= 2:
        return " and ".join(names)
    return f"{names[0]} to {names[-1]}, {len(names)} releases"
