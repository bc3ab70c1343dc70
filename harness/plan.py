"""What a run would do, without doing it: cells on record and missing, by release; shards for a CI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.case import Case
from harness.cell import workaround_cells
from harness.due import Options, cells_of, is_covered, wanted_trials
from harness.env import Environments
from harness.errors import SetupError
from harness.judge import verdict_of
from harness.outcome import Verdict
from harness.store import Store, target_facts
from harness.target import Source, Target


@dataclass(frozen=True)
class Planned:
    """One target. ``missing`` counts repros and the workarounds known to be due; those of repros
    that have not run yet come on top."""

    torch: str
    device: str
    recorded: int
    missing: int


def plan(
    cases: list[tuple[Case, Path]],
    sources: list[Source],
    devices: list[str],
    store: Store,
    environments: Environments,
    options: Options,
) -> list[Planned]:
    """Cells on record and missing for each source and device, in the order given."""
    found = []
    for source in sources:
        try:
            _, python = environments.identify(source)
            facts = {"python": environments.uv.python_version(python)}
        except SetupError:
            facts = {}
        for device in devices:
            target = target_facts(Target(source, device), facts)
            recorded = missing = 0
            for case, folder in cases:
                document = store.load(target, case.id)
                for cell in cells_of([(case, folder)], device):
                    due = [cell]
                    shows = document is not None and verdict_of(document, case, cell.repro) is Verdict.BUG
                    if options.workarounds and cell.model.role != "control" and shows:
                        due += workaround_cells(case, folder, cell.repro)
                    for each in due:
                        record = document.find(each.repro, each.workaround, each.digest) if document else None
                        covered = is_covered(record, wanted_trials(each, options))
                        recorded, missing = recorded + covered, missing + (not covered)
            found.append(Planned(source.label, device, recorded, missing))
    return found


def shards(planned: list[Planned], count: int) -> dict[str, Any]:
    """A GitHub Actions job matrix: releases dealt over ``count`` jobs, whole releases together, so
    that each environment is made once. Jobs with nothing to do are left out."""
    torches = list(dict.fromkeys(p.torch for p in planned if p.missing))
    devices = ",".join(dict.fromkeys(p.device for p in planned))
    dealt = [torches[i::count] for i in range(min(count, len(torches)))]
    return {
        "include": [
            {"shard": number, "torch": ",".join(group), "device": devices}
            for number, group in enumerate(dealt, 1)
        ]
    }
