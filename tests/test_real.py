"""On real torch: a fork of a warm process does what a fresh process does, over the whole corpus."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import chosen

from harness.casefile import load_corpus
from harness.cell import Cell, repro_cells
from harness.outcome import Outcome
from harness.run import Request, Server

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 600.0


def corpus_cells() -> list[Cell]:
    cases = load_corpus(ROOT / "cases")
    return chosen(
        [
            cell
            for case in cases
            for cell in repro_cells(case, ROOT / "cases")
            if "cpu" in case.devices_of(cell.repro)
        ]
    )


def told(outcome: Outcome) -> tuple[str, str, str | None]:
    """What must not depend on how the process began: messages may hold addresses and numbers."""
    return (str(outcome.kind), str(outcome.phase), outcome.exception)


@pytest.mark.real
@pytest.mark.timeout(3600)
def test_a_fork_does_what_a_fresh_process_does_over_the_whole_corpus(
    real_python: list[tuple[str, Path]], tmp_path: Path
) -> None:
    cells = corpus_cells()
    for version, python in real_python:
        server = Server(python, tmp_path, warm=True)
        try:
            assert server.warm, server.why

            def both(cell: Cell, server: Server = server) -> tuple[Outcome, Outcome]:
                spec = {**cell.spec, "device": "cpu"}
                forked = server.attempt(Request(spec, fresh=False, timeout_s=LIMIT_S))
                return forked, server.attempt(Request(spec, fresh=True, timeout_s=LIMIT_S))

            with ThreadPoolExecutor(2) as pool:
                for cell, (forked, fresh) in zip(cells, pool.map(both, cells), strict=True):
                    assert told(forked) == told(fresh), f"{cell.label} on torch {version}"
        finally:
            server.close()
