"""Cells: a repro, or a workaround on it, resolved to what the worker runs, with its digest.

The digest covers what runs and nothing else, so that a new claim or a reworded note invalidates no
record, and an edited repro invalidates its own alone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.case import Case, CompileArgs, Repro, Workaround
from harness.errors import UsageError

Spec = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A repro (+ workaround) of a case; ``spec`` is what the worker gets, less the device."""

    case: Case
    repro: str
    workaround: str | None
    spec: Spec
    folder: Path
    command: tuple[str, ...] = ()  # a command line in place of a repro

    @property
    def name(self) -> str:
        """``repro`` or ``repro+workaround``."""
        return self.repro if self.workaround is None else f"{self.repro}+{self.workaround}"

    @property
    def label(self) -> str:
        """``case/repro+workaround``."""
        return f"{self.case.id}/{self.name}"

    @property
    def model(self) -> Repro:
        return self.case.repros[self.repro]

    @property
    def digest(self) -> str:
        """SHA-256, first 16 hex digits, of what runs."""
        spec = dict(self.spec)
        if self.command:
            spec["command"] = list(self.command)
        elif self.model.script:
            spec["script"] = (self.folder / self.model.script).read_text("utf-8", "replace")
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def forkable(self) -> bool:
        """Whether a fork of a warm process does: scripts and settings read at import need more."""
        return not self.spec["env"] and not self.model.script


def make_cell(case: Case, folder: Path, repro: str, workaround: str | None = None) -> Cell:
    """Resolve ``repro`` with ``workaround`` on it."""
    base = case.repros[repro]
    change = case.workarounds[workaround] if workaround is not None else None
    model = base.model
    inputs = {name: _plain(value) for name, value in base.inputs.items()}
    arguments = base.compile.model_dump(exclude_none=True)
    config, env, entry = dict(base.config), dict(base.env), base.entry
    if change is not None:
        model = _model(change, repro) or model
        inputs.update({name: _plain(value) for name, value in change.inputs.items()})
        arguments = _merge(arguments, change.compile)
        config.update(change.config)
        env.update(change.env)
        entry = change.entry or entry
    spec: Spec = {
        "model": model,
        "script": str(folder / base.script) if base.script else None,
        "inputs": inputs,
        "by_keyword": False,
        "entry": entry,
        "compile": arguments,
        "config": config,
        "env": env,
        "compare": sorted(base.compare),
        "tolerance": base.tolerance.model_dump(),
        "seed": base.seed,
    }
    return Cell(case, repro, workaround, spec, folder)


def repro_cells(case: Case, folder: Path) -> list[Cell]:
    """A cell for each repro, triggers and controls first."""
    order = {"control": 0, "trigger": 1, "claimed": 2}
    names = sorted(case.repros, key=lambda name: order[case.repros[name].role])
    return [make_cell(case, folder, name) for name in names]


def workaround_cells(case: Case, folder: Path, repro: str) -> list[Cell]:
    """A cell for each workaround that is tried on ``repro``."""
    return [
        make_cell(case, folder, repro, name) for name in case.workarounds if repro in case.targets_of(name)
    ]


def parse_cell(text: str, cases: list[tuple[Case, Path]]) -> tuple[Case, Path, str | None, str | None]:
    """``CASE[/REPRO[+WORKAROUND]]`` as typed.

    Raises:
        UsageError: a name that the corpus does not have; the hint lists those it has.
    """
    case_id, _, rest = text.partition("/")
    repro, _, workaround = rest.partition("+")
    known = {case.id: (case, folder) for case, folder in cases}
    if case_id not in known:
        raise UsageError(f"no case is named {case_id!r}", "known: " + ", ".join(known))
    case, folder = known[case_id]
    if repro and repro not in case.repros:
        raise UsageError(f"{case_id} has no repro {repro!r}", "known: " + ", ".join(case.repros))
    if workaround and workaround not in case.workarounds:
        raise UsageError(
            f"{case_id} has no workaround {workaround!r}", "known: " + ", ".join(case.workarounds)
        )
    if workaround and repro and repro not in case.targets_of(workaround):
        raise UsageError(
            f"workaround {workaround!r} is not for repro {repro!r}",
            "it is for " + ", ".join(case.targets_of(workaround)),
        )
    return case, folder, repro or None, workaround or None


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else value


def _model(change: Workaround, repro: str) -> str | None:
    if isinstance(change.model, dict):
        return change.model.get(repro)
    return change.model


def _merge(arguments: dict[str, Any], change: CompileArgs | None) -> dict[str, Any]:
    """What the workaround gives replaces; what it gives as null is taken away."""
    if change is None:
        return arguments
    given = change.model_dump(exclude_unset=True)
    merged = {**arguments, **given}
    return {key: value for key, value in merged.items() if value is not None}
