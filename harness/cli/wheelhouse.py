"""harness wheelhouse: targets for a host without network."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import err, listed, out
from harness.errors import UsageError
from harness.target import pick_sources

wheelhouse_app = typer.Typer(help="Targets for a host without network.", no_args_is_help=True)

UNITS = {"k": 10**3, "m": 10**6, "g": 10**9}


def parse_size(text: str) -> int:
    """``60M`` in bytes.

    Raises:
        UsageError: it is no size.
    """
    digits, unit = text.strip().rstrip("bB"), 1
    if digits and digits[-1].lower() in UNITS:
        unit = UNITS[digits[-1].lower()]
        digits = digits[:-1]
    if not digits.isdigit() or int(digits) * unit < 1_000_000:
        raise UsageError(f"{text!r} is no size of at least 1M", "write for instance 60M")
    return int(digits) * unit


@wheelhouse_app.command("build")
def build_command(
    torch: Annotated[str, typer.Option(help="Releases: 2.15.0, latest:2, ...")],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder of the parts.")],
    python: Annotated[str, typer.Option(help="Python of the far host.")] = "3.12",
    gpu_arch: Annotated[str | None, typer.Option(help="Keep machine code of one GPU, such as sm_90.")] = None,
    part_size: Annotated[str, typer.Option(help="Largest part, such as 60M.")] = "60M",
    reuse_host: Annotated[
        bool, typer.Option("--reuse-host", help="Leave out nvidia libraries; the far host's torch has them.")
    ] = False,
    own: Annotated[
        list[str] | None, typer.Option(help="With --reuse-host: a library to ship even so.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Pattern of files to leave out of the wheels.")
    ] = None,
) -> None:
    """All wheels that a release needs, in parts with a manifest of hashes."""
    from harness.wheelhouse.build import build

    size = parse_size(part_size)
    for source in pick_sources(listed("pypi", False), torch, python):
        assert source.release is not None
        err.print(f"building torch {source.torch} for Python {python}", markup=False)
        released = datetime.fromisoformat(source.release.date) if source.release.date else None
        build(
            source.torch, python, gpu_arch, size, out_dir,
            released=released, reuse_host=reuse_host, own=own or (), drop=drop or (),
        )  # fmt: skip
    parts = sorted(out_dir.glob("*.part"))
    total = sum(part.stat().st_size for part in parts)
    out.print(f"{len(parts)} parts, {total / 1e6:.0f} MB in {out_dir}", markup=False)


@wheelhouse_app.command("unpack")
def unpack_command(
    parts: Annotated[
        Path, typer.Argument(help="Folder with the parts and the manifest, or folders of them.")
    ],
    dest: Annotated[Path, typer.Argument(help="Where the wheels go: --channel wheelhouse:DEST.")],
    torch: Annotated[list[str] | None, typer.Option(help="Only these releases.")] = None,
) -> None:
    """Verify the parts and join them into wheels."""
    from harness.wheelhouse.unpack import unpack

    targets = unpack(parts, dest, torch, progress=lambda line: err.print(line, markup=False))
    for target in targets:
        out.print(
            f"torch {target.torch} for Python {target.python}: --channel wheelhouse:{dest}", markup=False
        )
