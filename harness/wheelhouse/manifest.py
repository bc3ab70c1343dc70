"""What a wheelhouse says about itself: targets, wheels and parts, as dataclasses and as JSON.

``manifest.json`` beside the parts and ``wheelhouse.json`` beside the joined wheels have the same
form. Only the standard library is used: the far host may have nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError

SCHEMA = 1
MANIFEST = "manifest.json"
JOINED = "wheelhouse.json"
MARKER = "SLIMMED.json"
PART_SUFFIX = ".part"


class WheelhouseError(HarnessError):
    """Wheels that cannot be resolved, slimmed, cut, verified or joined."""

    exit_code = 4


@dataclass(frozen=True)
class Part:
    """A slice of one wheel's xz stream; ``size`` in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class WheelEntry:
    """A wheel as it is shipped, and the one it came from. Sizes in bytes.

    ``form``: ``original`` (byte for byte), ``repacked`` (the same files, stored without
    compression, perhaps some dropped) or ``slimmed`` (GPU code zeroed as well).
    ``host_only``: the libraries all of whose GPU code was taken away.
    """

    filename: str
    project: str
    version: str
    sha256: str
    size: int
    form: Literal["original", "repacked", "slimmed"]
    original_sha256: str
    original_size: int
    gpu_arch: str | None
    dropped: tuple[str, ...]
    host_only: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Target:
    """One torch release as a wheelhouse holds it.

    ``wheels``: file names, all that has to be installed. ``left_out``: projects that the release
    needs and that are not shipped, with the version it would have got. ``substituted``: projects
    shipped in another version than the release would have got: name to (wanted, shipped).
    ``reuse_host``: the nvidia libraries left out are to come from the host (see ``hostlibs``).
    """

    name: str
    torch: str
    python: str
    platform: str
    released: str | None
    gpu_arch: str | None
    reuse_host: bool
    left_out: dict[str, str]
    substituted: dict[str, tuple[str, str]]
    wheels: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """All targets of one wheelhouse, and the wheels that they share."""

    targets: dict[str, Target] = field(default_factory=dict)
    wheels: dict[str, WheelEntry] = field(default_factory=dict)

    def pick(self, torch: list[str] | None) -> list[Target]:
        """The targets of these torch versions, all of them for None.

        Raises WheelhouseError naming the versions that are not there.
        """
        if torch is None:
            return list(self.targets.values())
        absent = [v for v in torch if all(t.torch != v for t in self.targets.values())]
        if absent:
            there = ", ".join(sorted({t.torch for t in self.targets.values()})) or "nothing"
            raise WheelhouseError(f"the wheelhouse has no torch {', '.join(absent)}", hint=f"it has {there}")
        return [target for target in self.targets.values() if target.torch in torch]


def to_json(manifest: Manifest) -> str:
    """The manifest as text, the same for the same content."""
    value = {"schema": SCHEMA, "kind": "wheelhouse", **asdict(manifest)}
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def from_json(text: str, source: str) -> Manifest:
    """Read a manifest; ``source`` names it in errors.

    Raises WheelhouseError if it is no manifest, is of another schema, or lacks something.
    """
    try:
        value = json.loads(text)
        schema = value["schema"] if value["kind"] == "wheelhouse" else None
    except (ValueError, KeyError, TypeError) as error:
        raise WheelhouseError(f"{source} is not a wheelhouse's manifest") from error
    if schema != SCHEMA:
        raise WheelhouseError(
            f"{source} has schema {schema}, this harness reads {SCHEMA}",
            hint="build the wheelhouse again with this version",
        )
    try:
        targets = {name: _target(row) for name, row in value["targets"].items()}
        wheels = {name: _wheel(row) for name, row in value["wheels"].items()}
        needed = {wheel for target in targets.values() for wheel in target.wheels}
    except (KeyError, TypeError, AttributeError) as error:
        raise WheelhouseError(f"{source} is incomplete: {error}") from error
    if not needed <= wheels.keys():
        lost = ", ".join(sorted(needed - wheels.keys()))
        raise WheelhouseError(f"{source} names wheels that it does not describe: {lost}")
    names = [*wheels, *(part.name for wheel in wheels.values() for part in wheel.parts)]
    for name in names:
        # Names become paths on the far host; one that leaves the folder is never ours.
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            raise WheelhouseError(f"{source} has a file name that leaves its folder: {name!r}")
    return Manifest(targets, wheels)


def _target(row: Mapping[str, Any]) -> Target:
    values = {f.name: row[f.name] for f in fields(Target)}
    values["wheels"] = tuple(values["wheels"])
    values["substituted"] = {k: (v[0], v[1]) for k, v in values["substituted"].items()}
    return Target(**values)


def _wheel(row: Mapping[str, Any]) -> WheelEntry:
    values = {f.name: row[f.name] for f in fields(WheelEntry)}
    for key in ("dropped", "host_only"):
        values[key] = tuple(values[key])
    values["parts"] = tuple(Part(**part) for part in values["parts"])
    return WheelEntry(**values)


def read(path: Path) -> Manifest:
    """Read a manifest file. Raises WheelhouseError if it is absent or no manifest."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WheelhouseError(f"cannot read {path}: {error}") from error
    return from_json(text, str(path))


def write(path: Path, manifest: Manifest) -> None:
    """Write a manifest file whole, then rename it into place."""
    fresh = path.with_name(path.name + ".tmp")
    fresh.write_text(to_json(manifest), encoding="utf-8")
    fresh.replace(path)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
