"""Records to verdicts: the flat table, a row a cell. Pure but for reading the store."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from harness.case import Case
from harness.outcome import (
    Kind,
    Outcome,
    Verdict,
    WorkaroundVerdict,
    hits,
    matched,
    repro_verdict,
    workaround_verdict,
)
from harness.store import CellRecord, Document, Store

if TYPE_CHECKING:
    import pandas as pd

Digests = dict[tuple[str, str, str | None], str]


@dataclass(frozen=True)
class Row:
    """One cell on one target, judged. ``build``, ``git_version`` and ``python`` are null where the
    environment could not be made; ``trials`` is 0 where nothing was run."""

    case: str
    repro: str
    workaround: str | None
    torch: str
    build: str | None
    git_version: str | None
    python: str | None
    device: str
    machine: str
    kind: str
    phase: str | None
    exception: str | None
    message: str
    verdict: str
    trials: int
    hits: int
    duration_s: float | None
    role: str
    channel: str
    release_date: str | None
    target: str
    recorded: str | None
    stale: bool


COLUMNS = [field.name for field in fields(Row)]


def version_key(text: str) -> tuple[int, Any]:
    """Sorts versions; what is none comes first."""
    try:
        return (1, Version(text))
    except InvalidVersion:
        return (0, text)


def telling(outcomes: Sequence[Outcome], case: Case, repro: str) -> Outcome:
    """The attempt that stands for a cell: one that shows the bug, else one that failed, else any."""
    failure = case.signatures(repro)
    for outcome in outcomes:
        if matched(outcome, failure) is not None:
            return outcome
    for outcome in outcomes:
        if outcome.kind is not Kind.OK:
            return outcome
    return outcomes[-1]


def verdict_of(document: Document, case: Case, repro: str, digests: Digests | None = None) -> Verdict:
    """Verdict of a repro on the document's target, its controls considered."""
    record = _find(document, case, repro, None, digests)
    if record is None or not record.attempts:
        return Verdict.UNKNOWN
    controls = [] if case.repros[repro].role == "control" else _controls(document, case, digests)
    return repro_verdict(record.outcomes, case.signatures(repro), case.unsupported, controls)


def _controls(document: Document, case: Case, digests: Digests | None) -> list[Verdict]:
    device = document.target.get("device")
    found = []
    for name, repro in case.repros.items():
        if repro.role == "control" and device in case.devices_of(name):
            record = _find(document, case, name, None, digests)
            if record is not None and record.attempts:
                found.append(repro_verdict(record.outcomes, case.signatures(name), case.unsupported))
    return found


def _find(
    document: Document, case: Case, repro: str, workaround: str | None, digests: Digests | None
) -> CellRecord | None:
    """The record under the corpus's present digest, else the newest one."""
    if digests is not None:
        current = digests.get((case.id, repro, workaround))
        if current is not None:
            found = document.find(repro, workaround, current)
            if found is not None:
                return found
    return document.find(repro, workaround)


def judge(document: Document, case: Case | None, digests: Digests | None = None) -> list[Row]:
    """Rows of one record file.

    A workaround without a record has a row too where its baseline was judged: ``moot`` where the
    baseline does not show the bug (it is not run there), ``unknown`` otherwise.
    """
    if case is None:
        return [_row(document, cell, "", Verdict.UNKNOWN, None, digests) for cell in document.cells]
    rows = []
    baselines: dict[str, Verdict] = {}
    for name, repro in case.repros.items():
        record = _find(document, case, name, None, digests)
        if record is None or not record.attempts:
            continue
        baselines[name] = verdict_of(document, case, name, digests)
        rows.append(_row(document, record, repro.role, baselines[name], case, digests))
    for work in case.workarounds:
        for name in case.targets_of(work):
            if name not in baselines:
                continue
            role = case.repros[name].role
            record = _find(document, case, name, work, digests)
            outcomes = record.outcomes if record is not None else []
            verdict = workaround_verdict(baselines[name], outcomes, case.signatures(name))
            if record is None or not outcomes:
                record = CellRecord(name, work, "")
                # Nothing is claimed of a claimed repro that shows nothing: no row for it.
                if verdict is not WorkaroundVerdict.MOOT or role == "trigger":
                    rows.append(_row(document, record, role, verdict, case, digests))
                continue
            rows.append(_row(document, record, role, verdict, case, digests))
    return rows


def _row(
    document: Document,
    record: CellRecord,
    role: str,
    verdict: Verdict | WorkaroundVerdict,
    case: Case | None,
    digests: Digests | None,
) -> Row:
    target = document.target
    outcomes = record.outcomes
    chosen: Outcome | None = None
    if outcomes:
        chosen = telling(outcomes, case, record.repro) if case is not None else outcomes[-1]
    durations = [o.duration_s for o in outcomes if o.duration_s]
    current = (digests or {}).get((document.case, record.repro, record.workaround))
    return Row(
        case=document.case,
        repro=record.repro,
        workaround=record.workaround,
        torch=str(target.get("torch")),
        build=target.get("build"),
        git_version=target.get("git_version"),
        python=target.get("python"),
        device=str(target.get("device")),
        machine=document.machine_id,
        kind=str(chosen.kind) if chosen else str(Kind.SKIPPED),
        phase=str(chosen.phase) if chosen else None,
        exception=chosen.exception if chosen else None,
        message=chosen.message
        if chosen
        else "not run: the repro does not show the bug here"
        if verdict is WorkaroundVerdict.MOOT
        else "not run",
        verdict=str(verdict),
        trials=len(outcomes),
        hits=hits(outcomes, case.signatures(record.repro)) if case is not None else 0,
        duration_s=round(statistics.median(durations), 3) if durations else None,
        role=role,
        channel=str(target.get("channel")),
        release_date=target.get("release_date"),
        target=document.target_id,
        recorded=record.attempts[-1].recorded if record.attempts else None,
        stale=current is not None and bool(record.digest) and record.digest != current,
    )


def judge_all(store: Store, cases: Iterable[Case], digests: Digests | None = None) -> list[Row]:
    """Rows of every record, cases in order, newest release first."""
    by_id = {case.id: case for case in cases}
    rows = [
        row for document in store.documents() for row in judge(document, by_id.get(document.case), digests)
    ]
    order = {name: index for index, name in enumerate(by_id)}
    rows.sort(key=lambda r: version_key(r.torch), reverse=True)
    rows.sort(key=lambda r: (order.get(r.case, len(order)), r.machine, r.device))
    return rows


def frame(rows: Iterable[Row]) -> pd.DataFrame:
    """The flat table as a DataFrame with :data:`COLUMNS`."""
    import pandas as pd  # takes a second, and most commands need none

    return pd.DataFrame([asdict(row) for row in rows], columns=COLUMNS)
