"""Records of timings: ``<root>/<machine>/<target>/<case>.json``, one document of schema 1 a file.

::

    {"schema": 1, "case": id, "machine": {...}, "target": {...},
     "cells": [{"timing": ..., "size": ..., "dims": {...}, "dtype": ..., "digest": ..., "spec": {...},
                "flops": ..., "bytes": ..., "bounds": {...}, "recorded": ISO time,
                "kind": ..., "phase": ..., "message": ..., "conditions": {...}, "limits": [...],
                "reference": name, "again": {...},
                "variants": [{"name": ..., "kind": ..., "first_call_s": ..., "rel_error": ...,
                              "call": {"median": s, "q1": s, "q3": s, "n": rounds, "rounds": [s, ...]},
                              "device": {...}, "host": {...}, ...}]}]}

Times are in seconds a call (the clocks are told in ``harness/worker/steady.py``), rates in FLOP/s and
bytes/s. ``rounds`` holds one number a round, in the same order for every variant of a cell, so that
round by round ratios can be formed. Files are written whole and renamed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.store import Store

SCHEMA = 1
Json = dict[str, Any]


@dataclass(frozen=True)
class TimingDocument:
    """One record file: cells of one case on one target of one machine."""

    case: str
    machine_id: str
    target_id: str
    machine: Json
    target: Json
    cells: list[Json]

    def find(self, timing: str, size: str, dtype: str, digest: str) -> Json | None:
        """The record of just what would run now."""
        key = (timing, size, dtype, digest)
        return next((c for c in self.cells if _key(c) == key), None)


class TimingStore:
    """The timings below a folder; ``problems`` names files that are no records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._places = Store(root)
        self.problems: list[str] = []

    def file(self, target: Json, case: str) -> Path:
        """Where the timings of ``case`` on ``target`` on this machine lie."""
        return self._places.file(target, case)

    def load(self, target: Json, case: str) -> TimingDocument | None:
        """This machine's timings of ``case`` on ``target``, or None."""
        file = self.file(target, case)
        return self._read(file) if file.exists() else None

    def put(self, target: Json, case: str, cell: Json) -> None:
        """Write ``cell`` in place of an older one of the same timing, size and dtype.

        Raises:
            StoreError: it cannot be written; nothing that was there is changed.
        """
        file = self.file(target, case)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(file.parent, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                self._replace(file, target, case, cell)
            finally:
                os.close(folder)
        except OSError as exc:
            raise StoreError(
                f"the timings {file} cannot be written: {exc.strerror or exc}",
                "what was timed before is kept; make room or mend the permissions and run again",
            ) from exc

    def documents(self) -> Iterator[TimingDocument]:
        """Every readable record of every machine."""
        for file in sorted(self.root.glob("*/*/*.json")):
            document = self._read(file)
            if document is not None:
                yield document

    def _replace(self, file: Path, target: Json, case: str, cell: Json) -> None:
        cells: list[Json] = []
        if file.exists():
            document = self._read(file)
            if document is None:
                file.replace(file.with_name(f"{file.name}.corrupt"))
            else:
                cells = [c for c in document.cells if _key(c)[:3] != _key(cell)[:3]]
        value = {
            "schema": SCHEMA,
            "case": case,
            "machine": self._places.machine,
            "target": target,
            "cells": [*cells, cell],
        }
        part = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            with part.open("w") as stream:
                stream.write(_dump(value))
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)

    def _read(self, file: Path) -> TimingDocument | None:
        try:
            value = json.loads(file.read_bytes())
            schema = value["schema"]
            if not isinstance(schema, int):
                raise TypeError("schema")
            if schema <= SCHEMA:
                for cell in value["cells"]:
                    _key(cell)
                    for name in ("kind", "variants", "conditions", "limits"):
                        cell[name]
                return TimingDocument(
                    str(value["case"]), file.parent.parent.name, file.parent.name, dict(value["machine"]),
                    dict(value["target"]), list(value["cells"]),
                )  # fmt: skip
        except OSError as exc:
            raise StoreError(f"the timings {file} cannot be read: {exc.strerror or exc}") from exc
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            problem = f"{file} is no readable record of timings ({type(exc).__name__})"
            if problem not in self.problems:
                self.problems.append(problem)
            return None
        raise StoreError(
            f"{file} was written by a newer harness (schema {schema}; this one knows {SCHEMA})",
            "update the harness, or point --results at another folder",
        )


def _key(cell: Json) -> tuple[str, str, str, str]:
    return cell["timing"], cell["size"], cell["dtype"], cell["digest"]


def _dump(value: Json) -> str:
    """JSON, indented as far as a cell's variants and a line for each of their values."""
    import re

    text = json.dumps(value, indent=1)
    # Numbers of the rounds on one line: a diff is then a line a variant.
    flat = re.sub(r"\[\s+([-\d.e+,\s]+?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    return flat + "\n"
