"""Prove that a slimmed wheel is its original less the GPU code of other architectures.

    python scripts/verify_slim.py ORIGINAL.whl SLIM.whl

Compares the two byte for byte. Allowed to differ: payloads that the original's own layout says are
machine code or PTX of another architecture (zeros in their place), all payloads of libraries that
the marker names under ``host_only``, files that it names under ``dropped``, the RECORD and the
marker. Exit code 0 if that is all, 1 if not, 2 if a file is no wheel.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import mmap
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from harness.wheelhouse import fatbin, slimwheel
from harness.wheelhouse.manifest import MARKER, WheelhouseError, sha256_of


def main(arguments: list[str]) -> int:
    """Print what was found; see the module's docstring for the exit code."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        faults, notes = verify(Path(arguments[0]), Path(arguments[1]))
    except (OSError, zipfile.BadZipFile, WheelhouseError) as error:
        print(f"verify_slim: {error}", file=sys.stderr)
        return 2
    print(*notes, *(f"FAULT {fault}" for fault in faults), sep="\n")
    print(f"{Path(arguments[1]).name}: {'differs elsewhere' if faults else 'verified'}")
    return 1 if faults else 0


def verify(original: Path, slim: Path) -> tuple[list[str], list[str]]:
    """Faults, and notes on what differs as it should."""
    if sha256_of(original) == sha256_of(slim):
        return [], ["the two are the same, byte for byte"]
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(slim) as new:
        record = slimwheel.record_path(old)
        marker_path = record.removesuffix("RECORD") + MARKER
        if marker_path not in new.namelist():
            return [f"{slim.name} has no {MARKER}"], []
        marker = json.loads(new.read(marker_path))
        faults = []
        if marker["original_sha256"] != sha256_of(original):
            faults.append("the marker names another original")
        expected = [n for n in old.namelist() if n not in set(marker["dropped"])] + [marker_path]
        if sorted(expected) != sorted(new.namelist()):
            odd = set(expected) ^ set(new.namelist())
            faults.append(f"files differ beyond the marker's list: {sorted(odd)[:5]}")
        faults += check_record(new, record)
        notes = [f"{len(marker['dropped'])} files dropped"]
        for name in old.namelist():
            if name in (record, *marker["dropped"]) or name not in new.namelist():
                continue
            notes += compare(old, new, name, marker, faults)
    return faults, notes


def compare(
    old: zipfile.ZipFile, new: zipfile.ZipFile, name: str, marker: dict[str, Any], faults: list[str]
) -> list[str]:
    """Compare one file; adds to ``faults``, returns a note if GPU code went."""
    before, after = old.getinfo(name), new.getinfo(name)
    if (before.file_size, before.external_attr) != (after.file_size, after.external_attr):
        faults.append(f"{name}: size or mode differs")
        return []
    if before.file_size == 0:
        return []
    with tempfile.TemporaryFile() as left, tempfile.TemporaryFile() as right:
        for archive, file in ((old, left), (new, right)):
            with archive.open(name) as reader:
                while block := reader.read(1 << 20):
                    file.write(block)
            file.flush()
        with (
            mmap.mmap(left.fileno(), 0, access=mmap.ACCESS_READ) as a,
            mmap.mmap(right.fileno(), 0, access=mmap.ACCESS_READ) as b,
        ):
            if same(a, b, 0, len(a)):
                return []
            return compare_code(a, b, name, marker, faults)


def compare_code(
    a: mmap.mmap, b: mmap.mmap, name: str, marker: dict[str, Any], faults: list[str]
) -> list[str]:
    """Compare a library whose bytes differ, payload by payload of the original's layout."""
    arch = fatbin.parse_arch(marker["gpu_arch"]) if marker["gpu_arch"] else None
    bare = name in marker["host_only"]
    if arch is None and not bare:
        faults.append(f"{name}: differs, though no GPU code was to go")
        return []
    at, gone, kept = 0, 0, 0
    for section in fatbin.fatbin_sections(a, name):
        for entries in fatbin.containers(a, section, name):
            own = any(e.kind == fatbin.KIND_CUBIN and e.arch == arch for e in entries)
            for entry in entries:
                end = entry.offset + entry.size
                if not same(a, b, at, entry.offset):
                    faults.append(f"{name}: differs before the payload at {entry.offset}")
                at = end
                if same(a, b, entry.offset, end):
                    kept += entry.size
                    continue
                gone += entry.size
                if b[entry.offset : end] != bytes(entry.size):
                    faults.append(f"{name}: the payload at {entry.offset} is changed, not zeroed")
                elif not bare and entry.arch == arch and entry.kind == fatbin.KIND_CUBIN:
                    faults.append(f"{name}: machine code of {marker['gpu_arch']} is gone")
                elif not bare and not own and entry in fatbin.needed(entries, arch or 0):
                    faults.append(f"{name}: the code at {entry.offset} may be needed and is gone")
    if not same(a, b, at, len(a)):
        faults.append(f"{name}: differs after its last payload")
    word = "all GPU code gone" if bare else f"{kept / 1e6:.1f} MB of GPU code as it was"
    return [f"{name}: {gone / 1e6:.1f} MB zeroed, {word}, the rest byte for byte"]


def same(a: mmap.mmap, b: mmap.mmap, start: int, end: int) -> bool:
    """Whether two files have the same bytes between two places."""
    block = 1 << 24
    return all(a[i : min(i + block, end)] == b[i : min(i + block, end)] for i in range(start, end, block))


def check_record(wheel: zipfile.ZipFile, record: str) -> list[str]:
    """Faults of a wheel's RECORD against its files."""
    rows = {row[0]: row[1:] for row in csv.reader(wheel.read(record).decode().splitlines()) if row}
    names = {name for name in wheel.namelist() if not name.endswith("/")}
    faults = [f"RECORD and files differ: {name}" for name in sorted(names ^ rows.keys())]
    for name in sorted(names & rows.keys() - {record}):
        digest, size = hashlib.sha256(), 0
        with wheel.open(name) as reader:
            while block := reader.read(1 << 20):
                digest.update(block)
                size += len(block)
        text = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        if rows[name] != [f"sha256={text}", str(size)]:
            faults.append(f"RECORD is wrong about {name}")
    return faults


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
