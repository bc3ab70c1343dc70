"""The GPU code inside an ELF library: where it lies, and which of it one architecture needs.

nvcc puts the machine code of every GPU generation into sections named ``.nv_fatbin`` (and
``__nv_relfatbin`` for relocatable code, which NCCL and NVSHMEM have). Such a section is a row of
containers: a 16-byte header (u32 magic 0xBA55ED50, u16 version, u16 header size, u64 payload
size), then entries. An entry has a header (u16 kind: 1 PTX, 2 cubin; u16 version; u32 header
size; u64 padded payload size; u32 SM architecture at byte 28) and then its payload, which newer
toolkits compress. Compression does not matter here: a payload is zeroed whole, its header stays,
and nothing moves. The layout is not documented by its vendor; it was read from the wheels of
torch 2.7 to 2.15 and of the CUDA 12.6 to 13.2 libraries beside them, and anything that does not
look like it is refused rather than guessed at.

cuFFT keeps its containers one by one among its data (``.data``, ``.ldata``) and loads them itself.
There a container counts only where its magic stands on a multiple of 4 bytes and its entries fill
it exactly.

An architecture is written ``sm_90``; the entries of its variants (``sm_90a``) carry the same
number and are always kept with it.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from harness.wheelhouse.manifest import WheelhouseError

Buffer = bytes | bytearray | memoryview | mmap.mmap

FATBIN_SECTIONS = frozenset({".nv_fatbin", "__nv_relfatbin"})
LOOSE_SECTIONS = frozenset({".data", ".ldata"})
KIND_PTX = 1
KIND_CUBIN = 2

_CONTAINER_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")
_MAGIC_BYTES = struct.pack("<I", _CONTAINER_MAGIC)
_ENTRY = struct.Struct("<HHIQ")
_ENTRY_ARCH_OFFSET = 28
_SMALLEST_ENTRY_HEADER = 32
_SHT_NOBITS = 8
_ARCH = re.compile(r"sm_(\d{2,3})([af]?)")


@dataclass(frozen=True)
class Section:
    """A section of an ELF file: its name, and its place in the file in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Entry:
    """One piece of GPU code. ``offset`` and ``size`` (bytes) are those of its payload."""

    kind: int
    arch: int
    offset: int
    size: int


def parse_arch(name: str) -> int:
    """The number in an architecture's name: 90 for ``sm_90`` and for ``sm_90a``.

    Raises WheelhouseError if it is not such a name.
    """
    found = _ARCH.fullmatch(name)
    if found is None:
        raise WheelhouseError(
            f"{name!r} is not a GPU architecture", hint="write it like sm_80, sm_90 or sm_120"
        )
    return int(found.group(1))


def is_elf64(data: Buffer) -> bool:
    """Whether the data begin a little-endian 64-bit ELF file, the only sort that is slimmed."""
    return len(data) >= 64 and bytes(data[:6]) == b"\x7fELF\x02\x01"


def fatbin_sections(data: Buffer, name: str = "the file") -> list[Section]:
    """The sections of an ELF file that may hold GPU code, in file order. ``name`` is for the errors.

    Raises WheelhouseError if the section table does not fit into the file.
    """
    if not is_elf64(data):
        return []
    table = struct.unpack_from("<Q", data, 40)[0]
    entry_size, count, names_index = struct.unpack_from("<HHH", data, 58)
    if table == 0:
        return []
    header = struct.Struct("<IIQQQQIIQQ")
    try:
        first = header.unpack_from(data, table)
        # With 0xFF00 sections or more the counts stand in the first section header (ELF gABI).
        count = count or first[5]
        names_index = first[6] if names_index == 0xFFFF else names_index
        rows = [header.unpack_from(data, table + index * entry_size) for index in range(count)]
        names_at = rows[names_index][4]
    except (struct.error, IndexError) as error:
        raise WheelhouseError(f"{name}: its ELF section table is cut off") from error
    found = []
    wanted = FATBIN_SECTIONS | LOOSE_SECTIONS
    longest = max(map(len, wanted)) + 1
    for row in rows:
        start = names_at + row[0]
        label = bytes(data[start : start + longest]).split(b"\0")[0].decode("ascii", "replace")
        if label in wanted and row[1] != _SHT_NOBITS:
            if row[4] + row[5] > len(data):
                raise WheelhouseError(f"{name}: its section {label} is cut off")
            found.append(Section(label, row[4], row[5]))
    return sorted(found, key=lambda section: section.offset)


def containers(data: Buffer, section: Section, name: str = "the file") -> Iterator[list[Entry]]:
    """The containers of one section, each as the list of its entries.

    Raises WheelhouseError where the bytes do not look like the layout in this module's docstring.
    """
    if section.name in LOOSE_SECTIONS:
        yield from _loose(data, section, name)
        return
    at, end = section.offset, section.offset + section.size
    while at < end:
        # Linkers align containers, so zero words may lie between them.
        if end - at < 8 or bytes(data[at : at + 8]) == bytes(8):
            if any(data[at : at + 8]):
                raise _strange(name, section, at)
            at += 8
            continue
        if end - at < _CONTAINER.size:
            raise _strange(name, section, at)
        magic, _, header_size, payload_size = _CONTAINER.unpack_from(data, at)
        stop = at + header_size + payload_size
        if magic != _CONTAINER_MAGIC or header_size < _CONTAINER.size or stop > end:
            raise _strange(name, section, at)
        yield _entries(data, at + header_size, stop, name, section)
        at = stop


def _loose(data: Buffer, section: Section, name: str) -> Iterator[list[Entry]]:
    at, end = section.offset, section.offset + section.size
    window = 1 << 24
    while at < end:
        # In windows, so that a section of hundreds of megabytes is never copied as a whole.
        start = at
        piece = bytes(data[start : min(start + window, end)])
        at += max(len(piece) - len(_MAGIC_BYTES) + 1, 1)
        found = piece.find(_MAGIC_BYTES)
        if found < 0:
            continue
        at = start + found + 4
        if (start + found) % 4 or end - (start + found) < _CONTAINER.size:
            continue
        _, _, header_size, payload_size = _CONTAINER.unpack_from(data, start + found)
        stop = start + found + header_size + payload_size
        if header_size != _CONTAINER.size or payload_size == 0 or stop > end:
            continue
        try:
            entries = _entries(data, start + found + header_size, stop, name, section)
        except WheelhouseError:
            continue  # the magic number by chance
        yield entries
        at = stop


def _entries(data: Buffer, at: int, stop: int, name: str, section: Section) -> list[Entry]:
    found = []
    while at < stop:
        if stop - at < _SMALLEST_ENTRY_HEADER:
            raise _strange(name, section, at)
        kind, _, header_size, payload_size = _ENTRY.unpack_from(data, at)
        (arch,) = struct.unpack_from("<I", data, at + _ENTRY_ARCH_OFFSET)
        if header_size < _SMALLEST_ENTRY_HEADER or at + header_size + payload_size > stop:
            raise _strange(name, section, at)
        found.append(Entry(kind, arch, at + header_size, payload_size))
        at += header_size + payload_size
    return found


def _strange(name: str, section: Section, at: int) -> WheelhouseError:
    return WheelhouseError(
        f"{name}: the GPU code in {section.name} has an unknown layout"
        f" at byte {at - section.offset} of the section",
        hint="ship this wheel as it is: build without an architecture, or exempt it",
    )


def needed(entries: list[Entry], arch: int) -> set[Entry]:
    """Which entries of one container a GPU of this architecture can use.

    Its own machine code, if there is any; PTX is then never compiled, so it goes. Without it, what
    the driver would fall back on: machine code of the same generation and a smaller number, else
    PTX of the architecture or an older one. An entry that is neither PTX nor a cubin is kept: its
    use is not known.
    """
    keep = {entry for entry in entries if entry.kind not in (KIND_PTX, KIND_CUBIN)}
    cubins = [entry for entry in entries if entry.kind == KIND_CUBIN]
    own = {entry for entry in cubins if entry.arch == arch}
    if own:
        return keep | own
    # Machine code runs on later minor versions of its major one: sm_80's on sm_86 (CUDA guide).
    keep |= {entry for entry in cubins if entry.arch // 10 == arch // 10 and entry.arch < arch}
    return keep | {entry for entry in entries if entry.kind == KIND_PTX and entry.arch <= arch}


def zero_ranges(
    data: Buffer, arch: int | None, name: str = "the file"
) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """What slimming an ELF file overwrites with zeros.

    ``arch`` is the architecture that stays; None keeps no GPU code at all, for a library that has
    to load but is never asked to compute. Returns (offset, size) pairs in bytes, ascending and
    apart from each other, and the bytes taken away by kind and architecture (``cubin sm_80``).
    A file that is no ELF file, or has no GPU code, gives ([], {}).
    """
    ranges: list[tuple[int, int]] = []
    removed: dict[str, int] = {}
    for section in fatbin_sections(data, name):
        for entries in containers(data, section, name):
            keep = set() if arch is None else needed(entries, arch)
            for entry in entries:
                if entry in keep or entry.size == 0:
                    continue
                ranges.append((entry.offset, entry.size))
                word = {KIND_PTX: "ptx", KIND_CUBIN: "cubin"}.get(entry.kind, f"kind-{entry.kind}")
                label = f"{word} sm_{entry.arch}"
                removed[label] = removed.get(label, 0) + entry.size
    return sorted(ranges), dict(sorted(removed.items()))


def zeroed(data: Buffer, ranges: list[tuple[int, int]]) -> Iterator[bytes]:
    """The data with the ranges zeroed, in pieces of at most 1 MiB, without a copy of the whole."""
    block = 1 << 20
    at = 0
    for offset, size in [*ranges, (len(data), 0)]:
        for start in range(at, offset, block):
            yield bytes(data[start : min(start + block, offset)])
        for start in range(0, size, block):
            yield bytes(min(block, size - start))
        at = offset + size
