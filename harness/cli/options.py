"""Options declared once, and what several commands start with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.case import Case
from harness.casefile import load_corpus
from harness.env import default_home
from harness.release import Listing, list_releases
from harness.store import Store
from harness.target import Source, brought, pick_sources

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Cases = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CASE[/REPRO]]...", help="Case ids, single repros, or YAML files; all by default."
    ),
]
Torch = Annotated[str, typer.Option(help="Releases: 2.14.1, 2.8.., 2.6..2.9, latest:5, minors, all.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, or both with a comma.")]
Channel = Annotated[str, typer.Option(help="pypi, cpu, cu126, nightly, nightly/cu130, or wheelhouse:DIR.")]
Python = Annotated[str | None, typer.Option(help="Python version or path; newest that fits by default.")]
Interpreter = Annotated[str | None, typer.Option(help="A Python with its own torch, read and never changed.")]
Jobs = Annotated[
    int | None, typer.Option("-j", "--jobs", min=1, max=512, help="Cells at once; cores by default.")
]
Trials = Annotated[int, typer.Option(min=1, max=1000, help="Attempts at each trigger, at least.")]
Timeout = Annotated[float, typer.Option(min=1, max=86400, help="Seconds an attempt may take.")]
CasesDir = Annotated[Path, typer.Option("--cases", help="Folder of the corpus.")]
ResultsDir = Annotated[Path, typer.Option("--results", help="Folder of the records.")]
Budget = Annotated[float, typer.Option("--disk-budget", min=0.01, help="GB for environments and uv's cache.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use the last listing and uv's cache alone.")]
Fork = Annotated[
    bool, typer.Option("--fork/--no-fork", help="Fork attempts from a process that has imported torch.")
]


def corpus(folder: Path, names: list[str] | None) -> list[tuple[Case, Path]]:
    """Cases with the folders that their scripts lie in."""
    return [
        (case, folder if not _is_file(names, case) else Path(_is_file(names, case) or "").parent)
        for case in load_corpus(folder, names)
    ]


def _is_file(names: list[str] | None, case: Case) -> str | None:
    return next((n for n in names or [] if n.endswith((".yaml", ".yml")) and Path(n).stem == case.id), None)


def sources_for(
    torch: str,
    channel: str,
    python: str | None,
    interpreter: str | None,
    cases: list[tuple[Case, Path]],
    offline: bool,
) -> list[Source]:
    """Sources as asked for, newest first; says what listing they come from."""
    packages = tuple(sorted({p for case, _ in cases for p in case.packages}))
    if interpreter:
        return [brought(interpreter, packages)]
    listing = listed(channel, offline)
    return pick_sources(listing, torch, python, packages)


def listed(channel: str, offline: bool) -> Listing:
    """The listing of a channel; a stale one is said."""
    listing = list_releases(channel, default_home(), offline)
    if listing.stale:
        err.print(f"using the listing of {listing.fetched}: {listing.stale}", markup=False)
    return listing


def say_problems(store: Store) -> None:
    """Name the records that could not be read."""
    for problem in store.problems:
        err.print(f"warning: {problem}", markup=False)
