"""A wheel made smaller and still a valid wheel: same name, version and files, less GPU code.

The result is stored without compression (what carries it is compressed as a whole), its RECORD is
brought up to date, and a marker in its .dist-info says what it was and what was done to it. The
same wheel and the same wishes give the same bytes, so that a shared wheel is shipped once.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import mmap
import tempfile
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from harness.wheelhouse import fatbin
from harness.wheelhouse.manifest import MARKER, WheelhouseError, sha256_of

MARKER_SCHEMA = 1


@dataclass(frozen=True)
class Wishes:
    """What to take away from a wheel.

    ``gpu_arch``: the architecture whose code stays, None for all. ``drop``: files that are left
    out; ``host_only``: libraries that keep no GPU code at all. Both are globs over the paths in
    the wheel, in which ``*`` also matches ``/``.
    """

    gpu_arch: str | None = None
    drop: tuple[str, ...] = ()
    host_only: tuple[str, ...] = ()

    def drops(self, path: str) -> bool:
        """Whether this file is left out. What makes a wheel a wheel never is."""
        return ".dist-info/" not in path and any(fnmatchcase(path, glob) for glob in self.drop)

    def keeps_no_code(self, path: str) -> bool:
        """Whether this library loses all of its GPU code."""
        return any(fnmatchcase(path, glob) for glob in self.host_only)


@dataclass(frozen=True)
class Slimmed:
    """What ``slim`` did. ``removed``: bytes zeroed, by file, then by kind and architecture."""

    dropped: tuple[str, ...]
    host_only: tuple[str, ...]
    removed: dict[str, dict[str, int]]


def would_change(wheel: Path, wishes: Wishes) -> bool:
    """Whether ``slim`` could take anything from the wheel: a file to drop, or GPU code.

    Looks at the names alone, so it may say yes of a library that turns out to have no GPU code.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if any(wishes.drops(name) for name in names):
        return True
    if wishes.gpu_arch is None and not wishes.host_only:
        return False
    return any(_maybe_library(name) for name in names)


def named(wheel: Path, wishes: Wishes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of the wheel that the wishes drop, and those that they let keep no GPU code."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    dropped = tuple(name for name in names if wishes.drops(name))
    return dropped, tuple(name for name in names if wishes.keeps_no_code(name))


def _maybe_library(path: str) -> bool:
    return path.endswith(".so") or ".so." in path.rsplit("/", 1)[-1]


def slim(source: Path, target: Path, wishes: Wishes, scratch: Path) -> Slimmed:
    """Write the slim wheel of ``source`` to ``target``.

    ``scratch``: a folder for the largest library of the wheel, unpacked, one at a time.
    Raises WheelhouseError if ``source`` is not a wheel or a library's layout is unknown.
    """
    arch = None if wishes.gpu_arch is None else fatbin.parse_arch(wishes.gpu_arch)
    try:
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
            return _Rewrite(source, old, new, wishes, arch, scratch).run()
    except (zipfile.BadZipFile, KeyError) as error:
        raise WheelhouseError(f"{source.name} is not a valid wheel: {error}") from error


class _Rewrite:
    """One pass over a wheel; holds what the pass has learnt so far."""

    def __init__(
        self,
        source: Path,
        old: zipfile.ZipFile,
        new: zipfile.ZipFile,
        wishes: Wishes,
        arch: int | None,
        scratch: Path,
    ) -> None:
        self.source, self.old, self.new = source, old, new
        self.wishes, self.arch, self.scratch = wishes, arch, scratch
        self.dropped: list[str] = []
        self.host_only: list[str] = []
        self.removed: dict[str, dict[str, int]] = {}
        self.changed: dict[str, tuple[str, int]] = {}

    def run(self) -> Slimmed:
        record = record_path(self.old)
        for info in self.old.infolist():
            if info.filename in (record, record + ".jws", record + ".p7s"):
                continue  # a signature of the old RECORD would be a lie beside the new one
            if self.wishes.drops(info.filename):
                self.dropped.append(info.filename)
            else:
                self._copy(info)
        done = Slimmed(tuple(self.dropped), tuple(self.host_only), dict(self.removed))
        marker = record.removesuffix("RECORD") + MARKER
        self._add(marker, marker_text(self.source, self.wishes, done).encode(), record)
        self._add(record, self._record(record, marker), record)
        return done

    def _copy(self, info: zipfile.ZipInfo) -> None:
        fresh = zipfile.ZipInfo(info.filename, info.date_time)
        fresh.external_attr = info.external_attr
        fresh.create_system = info.create_system
        fresh.file_size = info.file_size
        host_only = self.wishes.keeps_no_code(info.filename)
        slims = (self.arch is not None or host_only) and _maybe_library(info.filename)
        if not slims or info.file_size == 0:
            with self.old.open(info) as reader, self.new.open(fresh, "w") as writer:
                while block := reader.read(1 << 20):
                    writer.write(block)
            return
        with tempfile.TemporaryFile(dir=self.scratch) as file:
            with self.old.open(info) as reader:
                while block := reader.read(1 << 20):
                    file.write(block)
            file.flush()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                where = f"{self.source.name}: {info.filename}"
                keep = None if host_only else self.arch
                ranges, removed = fatbin.zero_ranges(data, keep, where)
                digest = hashlib.sha256()
                with self.new.open(fresh, "w") as writer:
                    for piece in fatbin.zeroed(data, ranges):
                        digest.update(piece)
                        writer.write(piece)
        if ranges:
            self.removed[info.filename] = removed
            self.changed[info.filename] = (_record_hash(digest.digest()), info.file_size)
            if host_only:
                self.host_only.append(info.filename)

    def _add(self, path: str, content: bytes, like: str) -> None:
        old = self.old.getinfo(like)
        fresh = zipfile.ZipInfo(path, old.date_time)
        fresh.external_attr, fresh.create_system = old.external_attr, old.create_system
        self.new.writestr(fresh, content)
        self.changed[path] = (_record_hash(hashlib.sha256(content).digest()), len(content))

    def _record(self, record: str, marker: str) -> bytes:
        text = self.old.read(record).decode("utf-8")
        gone = {*self.dropped, marker, record}
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for row in csv.reader(text.splitlines()):
            if not row or row[0] in gone or row[0].startswith(record + "."):
                continue
            if row[0] in self.changed:
                digest, size = self.changed[row[0]]
                row = [row[0], digest, str(size)]
            writer.writerow(row)
        digest, size = self.changed[marker]
        writer.writerow([marker, digest, str(size)])
        writer.writerow([record, "", ""])
        return out.getvalue().encode("utf-8")


def marker_text(source: Path, wishes: Wishes, done: Slimmed) -> str:
    """The marker's content: which wheel this was, and what is missing from it."""
    value = {
        "schema": MARKER_SCHEMA,
        "original": source.name,
        "original_sha256": sha256_of(source),
        "original_size": source.stat().st_size,
        "gpu_arch": wishes.gpu_arch,
        "dropped": list(done.dropped),
        "host_only": list(done.host_only),
        "removed_bytes": done.removed,
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def record_path(wheel: zipfile.ZipFile) -> str:
    """The path of a wheel's RECORD. Raises WheelhouseError if there is not exactly one."""
    found = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD") and name.count("/") == 1]
    if len(found) != 1:
        raise WheelhouseError(f"{wheel.filename} is not a valid wheel: it has {len(found)} RECORDs")
    return found[0]


def _record_hash(digest: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
