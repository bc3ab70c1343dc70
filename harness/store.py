"""Records: outcomes on disk with all that is needed to judge and repeat them.

``<root>/<machine>/<target>/<case>.json``, one document of schema 1 a file::

    {"schema": 1, "case": id, "machine": {...}, "target": {...},
     "cells": [{"repro": ..., "workaround": null, "digest": ..., "spec": {...},
                "attempts": [{"recorded": ISO time, "fresh": bool, "kind": ..., ...}]}]}

Files are written whole and renamed; writers of one folder exclude each other by flock on the folder
itself, so no lock file is left. Folders of several machines merge by copying.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.cell import Cell
from harness.errors import StoreError
from harness.machine import describe_machine, machine_id
from harness.outcome import Kind, Outcome
from harness.target import Target, slug

SCHEMA = 1
# Variables that attempts see and that bear on what is measured: said in the record where set.
SAID = ("CUDA_VISIBLE_DEVICES", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")
_NOT_EVIDENCE = {Kind.SETUP, Kind.SKIPPED}


@dataclass(frozen=True)
class Attempt:
    """An outcome with when it was recorded (UTC, ISO) and whether its process was fresh."""

    outcome: Outcome
    recorded: str = ""
    fresh: bool = True


@dataclass
class CellRecord:
    """All attempts at one cell under one digest."""

    repro: str
    workaround: str | None
    digest: str
    spec: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    superseded: list[Attempt] = field(default_factory=list)  # before a --rerun; kept, not judged

    @property
    def outcomes(self) -> list[Outcome]:
        return [attempt.outcome for attempt in self.attempts]


@dataclass
class Document:
    """One record file."""

    case: str
    machine_id: str
    target_id: str
    machine: dict[str, Any]
    target: dict[str, Any]
    cells: list[CellRecord]

    def find(self, repro: str, workaround: str | None, digest: str | None = None) -> CellRecord | None:
        """The newest record of a cell; with ``digest``, of exactly what runs now."""
        for cell in reversed(self.cells):
            if (cell.repro, cell.workaround) == (repro, workaround) and digest in (None, cell.digest):
                return cell
        return None


def target_facts(target: Target, facts: dict[str, Any]) -> dict[str, Any]:
    """What a record says of its target. ``facts`` are those of the environment's probe."""
    source = target.source
    build = facts.get("torch")
    torch = source.release.version if source.release else (str(build).split("+")[0] if build else None)
    keep = (
        "git_version", "python", "cuda", "numpy", "triton", "setuptools", "wheel", "wheel_sha256",
        "release_date", "resolved", "packages", "slimmed", "brought", "tf32_matmul", "gpus", "import_error",
    )  # fmt: skip
    known = {key: facts[key] for key in keep if facts.get(key) is not None}
    if source.release is not None:
        known.setdefault("release_date", source.release.date)
    channel = "wheelhouse" if source.channel.startswith("wheelhouse:") else source.channel
    environ = {name: os.environ[name] for name in SAID if name in os.environ}
    if environ:
        known["environ"] = environ
    return {"torch": torch, "build": build, "channel": channel, "device": target.device, **known}


def target_id(facts: dict[str, Any]) -> str:
    """Folder name of a target: ``torch-2.13.0-pypi-py3.11-cpu``."""
    python = ".".join(str(facts.get("python") or "none").split(".")[:2])
    channel = facts["channel"]
    if facts.get("brought"):
        channel = f"brought-{str(facts.get('git_version') or 'unknown')[:8]}"
    return slug(f"torch-{facts['torch']}-{channel}-py{python}-{facts['device']}")


class Store:
    """The records below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.machine = describe_machine()
        self.machine_id = machine_id(self.machine)
        self.problems: list[str] = []

    def file(self, target: dict[str, Any], case: str) -> Path:
        """Where the record of ``case`` on ``target`` on this machine lies."""
        return self.root / self.machine_id / target_id(target) / f"{case}.json"

    def load(self, target: dict[str, Any], case: str) -> Document | None:
        """This machine's record of ``case`` on ``target``, or None."""
        file = self.file(target, case)
        return self._read(file) if file.exists() else None

    def add(
        self, target: dict[str, Any], cell: Cell, outcome: Outcome, fresh: bool = True, again: bool = False
    ) -> None:
        """Append an attempt, on disk when this returns; ``again`` supersedes those before it.

        Raises:
            StoreError: it cannot be written; nothing that was there is changed.
        """
        file = self.file(target, cell.case.id)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with _locked(file.parent):
                document = self._read(file, set_aside=True) if file.exists() else None
                if document is None:
                    document = Document(cell.case.id, self.machine_id, file.parent.name, {}, {}, [])
                document.machine, document.target = self.machine, target
                record = document.find(cell.repro, cell.workaround, cell.digest)
                if record is None:
                    record = CellRecord(cell.repro, cell.workaround, cell.digest, portable_spec(cell))
                    document.cells.append(record)
                # What says nothing gives way to what says something, or to a newer reason.
                record.attempts = [a for a in record.attempts if a.outcome.kind not in _NOT_EVIDENCE]
                if again:
                    record.superseded += record.attempts
                    record.attempts = []
                now = datetime.now(UTC).isoformat(timespec="seconds")
                record.attempts.append(Attempt(outcome, now, fresh))
                _write(file, document)
        except OSError as exc:
            raise StoreError(
                f"the record {file} cannot be written: {exc.strerror or exc}",
                "what ran before is kept; make room or mend the permissions and run again",
            ) from exc

    def documents(self) -> Iterator[Document]:
        """Every readable record of every machine; ``problems`` names the others."""
        for file in sorted(self.root.glob("*/*/*.json")):
            document = self._read(file)
            if document is not None:
                yield document

    def _read(self, file: Path, set_aside: bool = False) -> Document | None:
        try:
            return _parse(json.loads(file.read_bytes()), file)
        except OSError as exc:
            raise StoreError(f"the record {file} cannot be read: {exc.strerror or exc}") from exc
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as exc:
            if isinstance(exc, StoreError):
                raise
            problem = f"{file} is no readable record ({type(exc).__name__})"
            if set_aside:
                aside = file.with_name(f"{file.name}.corrupt")
                number = 1
                while aside.exists():
                    number += 1
                    aside = file.with_name(f"{file.name}.corrupt{number}")
                file.rename(aside)
                problem += f"; set aside as {aside.name}"
            if problem not in self.problems:
                self.problems.append(problem)
            return None


def portable_spec(cell: Cell) -> dict[str, Any]:
    """What ran, with a script by its file name: records name no path of a machine."""
    spec = dict(cell.spec)
    if cell.model.script:
        spec["script"] = cell.model.script
    return spec


def _parse(value: dict[str, Any], file: Path) -> Document:
    schema = value["schema"]
    if not isinstance(schema, int):
        raise TypeError("schema")
    if schema > SCHEMA:
        raise StoreError(
            f"{file} was written by a newer harness (schema {schema}; this one knows {SCHEMA})",
            "update the harness, or point --results at another folder",
        )
    cells = []
    for item in value["cells"]:
        attempts, superseded = (
            [_attempt(a) for a in item.get(key, [])] for key in ("attempts", "superseded")
        )
        spec = item.get("spec") or {}
        cells.append(
            CellRecord(item["repro"], item["workaround"], item["digest"], spec, attempts, superseded)
        )
    return Document(
        str(value["case"]), file.parent.parent.name, file.parent.name, dict(value["machine"]),
        dict(value["target"]), cells,
    )  # fmt: skip


def _attempt(value: dict[str, Any]) -> Attempt:
    outcome = {k: v for k, v in value.items() if k not in ("recorded", "fresh")}
    return Attempt(Outcome.model_validate(outcome), value.get("recorded", ""), bool(value.get("fresh", True)))


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    outcome = attempt.outcome.model_dump(mode="json", exclude_defaults=True)
    return {"recorded": attempt.recorded, "fresh": attempt.fresh, **outcome}


def _write(file: Path, document: Document) -> None:
    value = {
        "schema": SCHEMA,
        "case": document.case,
        "machine": document.machine,
        "target": document.target,
        "cells": [
            {
                "repro": cell.repro,
                "workaround": cell.workaround,
                "digest": cell.digest,
                "spec": cell.spec,
                "attempts": [_attempt_json(a) for a in cell.attempts],
                **({"superseded": [_attempt_json(a) for a in cell.superseded]} if cell.superseded else {}),
            }
            for cell in document.cells
        ],
    }
    # Writers exclude each other, so any other part is of one that was killed.
    for stale in file.parent.glob(f".{file.name}.*.part"):
        stale.unlink(missing_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("w") as stream:
            json.dump(value, stream, indent=1)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
