"""What a run owes: its options, the cells, which of them a record covers, and one attempt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.case import Case
from harness.cell import Cell, repro_cells
from harness.machine import describe_machine
from harness.outcome import Kind, Outcome, Phase
from harness.run import DEFAULT_TIMEOUT_S, Request, Server, default_memory
from harness.store import CellRecord

NOT_EVIDENCE = frozenset({Kind.SETUP, Kind.SKIPPED})


@dataclass(frozen=True)
class Options:
    """How to run. ``trials`` is a lower bound on attempts at a trigger."""

    jobs: int = 2
    trials: int = 1
    timeout_s: float = DEFAULT_TIMEOUT_S
    memory_bytes: int = 0
    fork: bool = True
    rerun: bool = False
    workarounds: bool = True


def wanted_trials(cell: Cell, options: Options) -> int:
    """Attempts a cell: what its repro asks for; of triggers at least what the user asks for."""
    trigger = cell.model.role == "trigger" and cell.workaround is None
    return max(cell.model.trials, options.trials if trigger else 1)


def is_covered(record: CellRecord | None, trials: int) -> bool:
    """Whether a record answers already: enough attempts that say something."""
    if record is None:
        return False
    outcomes = [o for o in record.outcomes if o.kind not in NOT_EVIDENCE]
    if any(o.kind is Kind.UNSUPPORTED for o in outcomes):
        return True  # asking again changes nothing
    return len(outcomes) >= trials


def cells_of(cases: Iterable[tuple[Case, Path]], device: str) -> list[Cell]:
    """Repro cells of all cases for ``device``: controls and triggers before claimed ones."""
    return [
        cell for case, folder in cases for cell in repro_cells(case, folder)
        if device in case.devices_of(cell.repro)
    ]  # fmt: skip


def forks(server: Server | None, cell: Cell, number: int) -> bool:
    """The first attempt may be a fork; repeated ones are fresh, so that hash seeds and address
    layout differ between them as they do between a user's runs."""
    return server is not None and server.warm and cell.forkable and number == 0


def run_attempt(server: Server | None, cell: Cell, device: str, number: int, options: Options) -> Outcome:
    """One attempt at ``cell`` on ``device``."""
    assert server is not None
    if device == "cuda" and not describe_machine()["gpus"]:
        return Outcome(kind=Kind.SKIPPED, phase=Phase.BUILD, reason="this host has no CUDA device")
    request = Request(
        {**cell.spec, "device": device},
        fresh=not forks(server, cell, number),
        timeout_s=cell.model.timeout or options.timeout_s,
        memory_bytes=options.memory_bytes or default_memory(options.jobs),
        command=tuple(part.replace("{python}", str(server.python)) for part in cell.command),
    )
    return server.attempt(request)
