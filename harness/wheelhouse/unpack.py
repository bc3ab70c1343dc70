"""Joining a wheelhouse's parts into a folder of wheels, on the far host.

Needs Python 3.12 or newer and its standard library; no network, no pydantic, no uv.
"""

from __future__ import annotations

import hashlib
import lzma
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.wheelhouse.manifest import (
    JOINED,
    MANIFEST,
    PART_SUFFIX,
    Manifest,
    Part,
    Target,
    WheelEntry,
    WheelhouseError,
    from_json,
    read,
    sha256_of,
    write,
)


class FaultyPartsError(WheelhouseError):
    """Parts that are missing, corrupt or foreign; ``faults`` has one sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        count = "one part is" if len(faults) == 1 else f"{len(faults)} parts are"
        super().__init__(
            "\n".join([f"{count} not as the manifest says:", *faults]),
            hint="bring these parts again, or unpack the complete releases by name",
        )
        self.faults = tuple(faults)


def unpack(
    parts: Path,
    dest: Path,
    torch: list[str] | None = None,
    *,
    jobs: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Target]:
    """Verify the parts under ``parts`` and join them into wheels in ``dest``.

    Args:
        parts: a folder with the manifest and the parts, in it or in folders below it.
        dest: where the wheels go, and ``wheelhouse.json``, which is written last. A wheel that is
            there already and sound is not made again.
        torch: the releases wanted, as ``2.15.0``; None for all. Parts that only other releases
            need may be missing.
        jobs: wheels joined at the same time; None for one a core.
        progress: called with one line for each wheel.

    Returns the targets that ``dest`` now serves, those of earlier calls included.

    Raises:
        FaultyPartsError: parts are missing, corrupt or foreign; all of them are named, and nothing
            is joined.
        WheelhouseError: there is no manifest, or not one; no such release; a wheel that does not
            come out as the manifest says.
    """
    manifest = find_manifest(parts)
    targets = manifest.pick(torch)
    names = dict.fromkeys(name for target in targets for name in target.wheels)
    dest.mkdir(parents=True, exist_ok=True)
    wheels = [manifest.wheels[name] for name in names]
    todo = [wheel for wheel in wheels if not _is_there(dest / wheel.filename, wheel)]
    found = find_parts(parts)
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        faults = check(manifest, todo, found, pool.map)
        if faults:
            raise FaultyPartsError(faults)
        for line in pool.map(lambda wheel: _join(wheel, found, dest), todo):
            progress(line)
    served = _merge(dest, manifest, targets)
    write(dest / JOINED, served)
    return list(served.targets.values())


def find_manifest(parts: Path) -> Manifest:
    """The manifest in a folder of parts or in a folder below it.

    Raises WheelhouseError if there is none, or several that differ.
    """
    files = sorted(parts.rglob(MANIFEST)) if parts.is_dir() else []
    if not files:
        raise WheelhouseError(f"{parts} has no {MANIFEST}", hint="bring the manifest beside the parts")
    texts = {file.read_text(encoding="utf-8") for file in files}
    if len(texts) > 1:
        raise WheelhouseError(
            f"{parts} has {len(files)} manifests that differ",
            hint="keep the parts of each wheelhouse in a folder of their own",
        )
    return from_json(texts.pop(), str(files[0]))


def find_parts(parts: Path) -> dict[str, Path]:
    """Every part file under a folder, by name."""
    return {file.name: file for file in sorted(parts.rglob(f"*{PART_SUFFIX}"))}


def check(
    manifest: Manifest,
    wheels: list[WheelEntry],
    found: dict[str, Path],
    over: Callable[[Callable[[Part], str | None], list[Part]], Iterator[str | None]],
) -> list[str]:
    """What is wrong with the parts that these wheels need, and with parts that nothing knows.

    ``over`` is ``map``, or one that works in parallel.
    """
    known = {part.name for wheel in manifest.wheels.values() for part in wheel.parts}
    owner = {part.name: wheel.filename for wheel in wheels for part in wheel.parts}

    def fault(part: Part) -> str | None:
        file = found.get(part.name)
        if file is None:
            return f"{part.name} is missing; {owner[part.name]} needs it."
        size = file.stat().st_size
        if size != part.size:
            return f"{part.name} is corrupt: it has {size} bytes in place of {part.size}."
        if sha256_of(file) != part.sha256:
            return f"{part.name} is corrupt: its SHA-256 is not the manifest's."
        return None

    faults = [line for line in over(fault, [p for w in wheels for p in w.parts]) if line]
    foreign = sorted(found.keys() - known)
    return faults + [f"{name} is foreign: the manifest does not know it." for name in foreign]


def _is_there(file: Path, wheel: WheelEntry) -> bool:
    return file.exists() and file.stat().st_size == wheel.size and sha256_of(file) == wheel.sha256


def _join(wheel: WheelEntry, found: dict[str, Path], dest: Path) -> str:
    target = dest / wheel.filename
    fresh = dest / f"{wheel.filename}.tmp"
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    digest = hashlib.sha256()
    try:
        with fresh.open("wb") as out:
            for part in wheel.parts:
                with found[part.name].open("rb") as file:
                    while block := file.read(1 << 18):
                        piece = unpacker.decompress(block)
                        digest.update(piece)
                        out.write(piece)
    except (lzma.LZMAError, EOFError) as error:
        raise WheelhouseError(f"{wheel.filename} does not unpack: {error}") from error
    if not unpacker.eof or digest.hexdigest() != wheel.sha256:
        raise WheelhouseError(f"{wheel.filename} comes out other than it was packed")
    fresh.replace(target)
    return f"{wheel.filename}: {wheel.form}, {wheel.size / 1e6:.1f} MB"


def _merge(dest: Path, manifest: Manifest, targets: list[Target]) -> Manifest:
    """What the folder serves: what it served before, and these targets."""
    served = read(dest / JOINED) if (dest / JOINED).exists() else Manifest()
    for target in targets:
        served.targets[target.name] = target
        for name in target.wheels:
            before = served.wheels.get(name)
            if before is not None and before.sha256 != manifest.wheels[name].sha256:
                raise WheelhouseError(
                    f"{dest} has {name} in another form already",
                    hint="unpack into another folder",
                )
            served.wheels[name] = manifest.wheels[name]
    return served


def find_target(folder: Path, torch: str, python: str) -> tuple[Target, list[Path]] | None:
    """What a folder that ``unpack`` made has for a release and a Python (``3.12``), else None.

    Returns the target and its wheels. They are complete: install them with no index and without
    their dependencies, since a target may leave some out on purpose. A folder that has no
    ``wheelhouse.json`` gives None; it may still hold wheels that somebody brought.

    Raises WheelhouseError if a wheel is gone, or ``wheelhouse.json`` is broken.
    """
    if not (folder / JOINED).exists():
        return None
    for target in read(folder / JOINED).targets.values():
        if target.torch == torch and target.python == python:
            wheels = [folder / name for name in target.wheels]
            gone = [wheel.name for wheel in wheels if not wheel.exists()]
            if gone:
                raise WheelhouseError(f"{folder} has lost {', '.join(gone)}", hint="unpack the parts again")
            return target, wheels
    return None
