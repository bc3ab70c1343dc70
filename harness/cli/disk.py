"""harness envs and doctor: what is on disk, what this host can run."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from harness.cli.options import Channel, out
from harness.doctor import examine
from harness.env import Environments, default_home

app = typer.Typer()
envs_app = typer.Typer(help="Environments on disk.", no_args_is_help=True)


@envs_app.command("list")
def envs_list(json_: Annotated[bool, typer.Option("--json")] = False) -> None:
    """What is on disk, newest use first."""
    environments = Environments(default_home())
    rows = environments.listed()
    if json_:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return
    for row in rows:
        state = "" if row["complete"] else "  (half made)"
        out.print(f"{row['bytes'] / 1e9:6.2f} GB  {row['last_use']}  {row['id']}{state}", markup=False)
    out.print(f"{environments.usage() / 1e9:6.2f} GB  in all, shared files counted once", markup=False)


@envs_app.command("prune")
def envs_prune(
    all_: Annotated[bool, typer.Option("--all", help="Every unused environment and uv's cache.")] = False,
) -> None:
    """Remove what is half made; with --all everything that no run uses."""
    freed, removed = Environments(default_home()).prune(all_)
    for name in removed:
        out.print(f"removed {name}", markup=False)
    out.print(f"{freed / 1e9:.2f} GB freed", markup=False)


@app.command()
def doctor(
    channel: Channel = "pypi",
    json_: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """What this host can run, and what to do where it cannot."""
    checks = examine(Environments(default_home()), channel)
    if json_:
        sys.stdout.write(json.dumps([asdict(item) for item in checks], indent=1) + "\n")
    else:
        for item in checks:
            mark = "  " if item.ok is None else "ok" if item.ok else "NO"
            out.print(f"{mark} {item.name:<14} {item.found}", markup=False, soft_wrap=True)
            if item.next_step:
                out.print(f"   {'':<14} {item.next_step}", markup=False, soft_wrap=True)
    if any(item.ok is False for item in checks):
        raise typer.Exit(4)
