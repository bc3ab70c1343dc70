"""Making a wheelhouse on a host with network."""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from packaging.utils import canonicalize_name

from harness.wheelhouse import fatbin, resolve, slimwheel
from harness.wheelhouse.manifest import (
    MANIFEST,
    PART_SUFFIX,
    Manifest,
    Part,
    Target,
    WheelEntry,
    WheelhouseError,
    read,
    sha256_of,
    write,
)

PART_SIZE = 60_000_000
# On a slim libtorch_cuda.so (520 MB) and libtorch_cpu.so (448 MB), one busy core: preset 1 gave
# 68 + 88 MB in 30 s, 3 with the x86 filter 66 + 82 MB in 135 s, 6 with it 64 + 73 MB in 450 s.
PRESET = 1
DICTIONARY = 8 << 20

# What a host that only compiles and runs on one GPU never opens. ``*`` matches ``/`` too.
SINGLE_GPU_DROP = (
    "*.a",
    "nvidia/*.bc",
    "nvidia/*/include/*",
    "nvidia/nvshmem/bin/*",
    "nvidia/nvshmem/lib/nvshmem_*",
    "nvidia/cuda_nvrtc/lib/*.alt.*",
    "nvidia/cudnn/lib/libcudnn_*",
    "torch/bin/protoc*",
    "triton/backends/nvidia/lib/cupti*",
    "triton/backends/amd/lib/libtriton_amd_codegen.so",
    "triton/instrumentation/*.so",
    "triton/plugins/*",
    "triton/FileCheck",
)
# Libraries that torch has to load and that no matrix product calls.
SINGLE_GPU_HOST_ONLY = (
    "*/libnccl.so*",
    "*/libnvshmem*.so*",
    "*/libtorch_nvshmem.so",
    "*/libcufft*.so*",
    "*/libcurand.so*",
    "*/libcusolver*.so*",
    "*/libcusparse*.so*",
)


def build(
    torch_version: str,
    python: str,
    gpu_arch: str | None,
    part_size: int,
    out_dir: Path,
    *,
    released: datetime | None = None,
    reuse_host: bool = False,
    own: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    drop: Sequence[str] = (),
    host_only: Sequence[str] = (),
    substitute: Mapping[str, str] | None = None,
    requirements: Sequence[str] = (),
    downloads: Path | None = None,
    wheels_from: Path | None = None,
    preset: int = PRESET,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> Target:
    """Add one torch release to the wheelhouse in ``out_dir``, made if it is not there.

    Args:
        torch_version: as released, ``2.15.0``.
        python: the far host's, ``3.12``.
        gpu_arch: keep this GPU architecture's code only (``sm_90``); None changes no GPU code.
        part_size: the most bytes in a part.
        released: when the release was uploaded, with a time zone; nothing newer is resolved.
        reuse_host: ship no nvidia wheels, the far host's are linked in (see ``hostlibs``).
        own: projects that are shipped all the same, because the host's are too old.
        leave_out: globs of projects that are not shipped and not looked for.
        drop: globs of files left out of the wheels, such as ``SINGLE_GPU_DROP``.
        host_only: globs of libraries that lose all GPU code, such as ``SINGLE_GPU_HOST_ONLY``.
        substitute: project to version, in place of what the release would get; for sharing one
            wheel between releases. Written down in the target.
        requirements: what else is to be installed beside torch, setuptools and numpy.
        downloads: where the original wheels are kept; a folder that goes away, if None.
        wheels_from: a folder of wheels to resolve from, in place of the index.
        preset: xz's, 0 to 9.
        jobs: how many wheels are made at the same time.
        progress: called with one line for each wheel.

    A wheel that the wheelhouse has in the same form is not made again, so a build that was
    interrupted goes on where it stopped.

    Raises:
        WheelhouseError: no solution, no fitting wheel, a download that fails or has another hash,
            GPU code of an unknown layout, or a wheel that is there already in another form.
    """
    if part_size < 1:
        raise WheelhouseError(f"a part of {part_size} bytes holds nothing")
    if gpu_arch is not None:
        fatbin.parse_arch(gpu_arch)
    out_dir.mkdir(parents=True, exist_ok=True)
    manifest = read(out_dir / MANIFEST) if (out_dir / MANIFEST).exists() else Manifest()
    wanted = [f"torch=={torch_version}", *resolve.ALWAYS, *requirements]
    lookup = {"python": python, "until": released, "wheels_from": wheels_from}
    overrides = {canonicalize_name(k): v for k, v in (substitute or {}).items()}
    pins = resolve.resolve(wanted, overrides=overrides, **lookup)  # type: ignore[arg-type]
    wishes = slimwheel.Wishes(gpu_arch, tuple(drop), tuple(host_only))
    away = tuple(leave_out) + (("nvidia-*", "cuda-toolkit") if reuse_host else ())
    stays = {canonicalize_name(name) for name in own}
    shipped = [
        pin
        for pin in pins
        if pin.project in stays or not any(fnmatchcase(pin.project, glob) for glob in away)
    ]
    plain = {pin.project: pin.version for pin in pins}
    if overrides:
        plain |= {p.project: p.version for p in resolve.resolve(wanted, **lookup)}  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory(dir=out_dir, prefix=".build-") as scratch:
        folder = downloads or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)

        def make(pin: resolve.Pin) -> WheelEntry:
            maker = _Maker(pin, wishes, part_size, preset, out_dir, Path(scratch))
            return maker.entry(manifest.wheels.get(pin.filename), folder)

        # lzma lets go of the interpreter, so threads are enough.
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            running = {pool.submit(make, pin): pin for pin in shipped}
            for done in as_completed(running):
                entry = done.result()
                manifest.wheels[entry.filename] = entry
                write(out_dir / MANIFEST, manifest)
                carried = sum(part.size for part in entry.parts)
                progress(f"{entry.filename}: {entry.form}, {carried / 1e6:.1f} MB in parts")
    target = Target(
        name=f"torch-{torch_version}-cp{python.replace('.', '')}",
        torch=torch_version,
        python=python,
        platform="linux_x86_64",
        released=None if released is None else released.isoformat(),
        gpu_arch=gpu_arch,
        reuse_host=reuse_host,
        left_out={pin.project: pin.version for pin in pins if pin not in shipped},
        substituted={
            pin.project: (plain[pin.project], pin.version)
            for pin in shipped
            if plain[pin.project] != pin.version
        },
        wheels=tuple(pin.filename for pin in shipped),
    )
    manifest.targets[target.name] = target
    write(out_dir / MANIFEST, manifest)
    return target


class _Maker:
    """One wheel on its way into the wheelhouse."""

    def __init__(
        self,
        pin: resolve.Pin,
        wishes: slimwheel.Wishes,
        part_size: int,
        preset: int,
        out_dir: Path,
        scratch: Path,
    ) -> None:
        self.pin, self.wishes = pin, wishes
        self.part_size, self.preset = part_size, preset
        self.out_dir, self.scratch = out_dir, scratch

    def entry(self, there: WheelEntry | None, downloads: Path) -> WheelEntry:
        """The wheel as it ships: what is there if it is the same, else made now."""
        original = resolve.fetch(self.pin, downloads)
        if there is not None:
            self._check(there, original)
            if self._complete(there):
                return there
        size = original.stat().st_size
        wheel, done = original, slimwheel.Slimmed((), (), {})
        if slimwheel.would_change(original, self.wishes):
            slim = self.scratch / self.pin.filename
            done = slimwheel.slim(original, slim, self.wishes, self.scratch)
            # Where nothing was taken away the original ships, byte for byte.
            if done.removed or done.dropped:
                wheel = slim
            else:
                slim.unlink()
        form: Literal["original", "repacked", "slimmed"] = "original"
        if wheel is not original:
            form = "slimmed" if done.removed else "repacked"
        digest = sha256_of(wheel)
        entry = WheelEntry(
            filename=self.pin.filename,
            project=self.pin.project,
            version=self.pin.version,
            sha256=digest,
            size=wheel.stat().st_size,
            form=form,
            original_sha256=self.pin.sha256,
            original_size=size,
            gpu_arch=self.wishes.gpu_arch if form == "slimmed" else None,
            dropped=done.dropped,
            host_only=done.host_only,
            parts=tuple(self._cut(wheel, digest)),
        )
        if wheel is not original:
            wheel.unlink()
        return entry

    def _check(self, there: WheelEntry, original: Path) -> None:
        """Refuse a wheel that was shipped from another original or with other wishes."""
        dropped, host_only = slimwheel.named(original, self.wishes)
        same = there.original_sha256 == self.pin.sha256 and there.dropped == dropped
        same &= set(there.host_only) <= set(host_only)
        if there.form == "slimmed":
            same &= there.gpu_arch == self.wishes.gpu_arch
        if not same:
            raise WheelhouseError(
                f"{there.filename} is in this wheelhouse already, made with other options",
                hint="use the same options, or another folder",
            )

    def _complete(self, there: WheelEntry) -> bool:
        found = {file.name: file for file in self.out_dir.rglob(f"*{PART_SUFFIX}")}
        return all(
            part.name in found and found[part.name].stat().st_size == part.size for part in there.parts
        )

    def _cut(self, wheel: Path, digest: str) -> Iterator[Part]:
        stem = re.sub(r"[^\w.-]", "_", f"{self.pin.project}-{self.pin.version}")
        waiting = bytearray()
        number = 0
        for piece in _xz(wheel, self.preset):
            waiting += piece
            while len(waiting) > self.part_size:
                number += 1
                yield self._part(stem, digest, number, waiting[: self.part_size])
                del waiting[: self.part_size]
        yield self._part(stem, digest, number + 1, waiting)

    def _part(self, stem: str, digest: str, number: int, content: bytes | bytearray) -> Part:
        name = f"{stem}-{digest[:12]}-{number:03}{PART_SUFFIX}"
        fresh = self.out_dir / f"{name}.tmp"
        fresh.write_bytes(content)
        fresh.replace(self.out_dir / name)
        return Part(name, hashlib.sha256(content).hexdigest(), len(content))


def _xz(file: Path, preset: int) -> Iterator[bytes]:
    """The file as one xz stream. The x86 filter is worth 5 to 10 percent on host code."""
    filters = [
        {"id": lzma.FILTER_X86},
        {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": DICTIONARY},
    ]
    packer = lzma.LZMACompressor(lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=filters)
    with file.open("rb") as reader:
        while block := reader.read(1 << 20):
            yield packer.compress(block)
    yield packer.flush()


def pack_calls(out_dir: Path, limit: int, torch_order: Sequence[str], *, reserve: int = 0) -> list[Path]:
    """Move the parts into folders ``call-01``, ``call-02``, ..., each at most ``limit`` bytes.

    For a host that takes only so much at a time. Releases come in the order given, so that each
    can run as soon as its last folder is there. The manifest lies in the first folder, where
    ``reserve`` bytes are left free for what else is to be carried.

    Raises WheelhouseError if a part is larger than the limit or missing.
    """
    manifest = read(out_dir / MANIFEST)
    found = {file.name: file for file in out_dir.rglob(f"*{PART_SUFFIX}")}
    order = [
        part
        for version in torch_order
        for target in manifest.pick([version])
        for wheel in target.wheels
        for part in manifest.wheels[wheel].parts
    ]
    parts = list(dict.fromkeys(order))
    lost = [part.name for part in parts if part.name not in found]
    if lost:
        raise WheelhouseError(f"parts are missing: {', '.join(lost)}", hint="build again")
    large = [part.name for part in parts if part.size > limit]
    if large:
        raise WheelhouseError(f"larger than {limit} bytes: {', '.join(large)}")
    room = limit - reserve - (out_dir / MANIFEST).stat().st_size
    plan: list[list[Part]] = []
    while parts:
        row = []
        for part in parts:  # in order, and a later part where an earlier one leaves a gap
            if part.size <= room:
                row.append(part)
                room -= part.size
        plan.append(row)
        parts = [part for part in parts if part not in row]
        room = limit
    folders = [out_dir / f"call-{number:02}" for number in range(1, len(plan) + 1)]
    for folder, row in zip(folders, plan, strict=True):
        folder.mkdir(exist_ok=True)
        for part in row:
            found[part.name].replace(folder / part.name)
    shutil.copy(out_dir / MANIFEST, folders[0] / MANIFEST)
    return folders
