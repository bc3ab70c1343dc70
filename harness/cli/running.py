"""Commands that run cells: matrix, run, releases."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.case import Case
from harness.cell import Cell, make_cell, parse_cell
from harness.cli.options import (
    Budget,
    Cases,
    CasesDir,
    Channel,
    DeviceOption,
    Fork,
    Interpreter,
    Jobs,
    Offline,
    Python,
    ResultsDir,
    Timeout,
    Torch,
    Trials,
    corpus,
    err,
    listed,
    out,
    say_problems,
    sources_for,
)
from harness.due import Options, cells_of
from harness.env import DEFAULT_BUDGET, Environments, default_home
from harness.errors import UsageError
from harness.live import LiveWatcher, PlainWatcher, printable
from harness.matrix import Matrix, Summary
from harness.run import DEFAULT_TIMEOUT_S, Server
from harness.store import Store
from harness.target import parse_devices, pick_sources

app = typer.Typer()


@app.command()
def matrix(
    cases: Cases = None,
    torch: Torch = "minors",
    device: DeviceOption = "cpu",
    channel: Channel = "pypi",
    python: Python = None,
    interpreter: Interpreter = None,
    jobs: Jobs = None,
    trials: Trials = 1,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run what is on record too.")] = False,
    workarounds: Annotated[bool, typer.Option("--workarounds/--no-workarounds")] = True,
    fork: Fork = True,
    budget: Budget = DEFAULT_BUDGET / 1e9,
    offline: Offline = False,
    cases_dir: CasesDir = Path("cases"),
    results: ResultsDir = Path("results"),
) -> None:
    """Run what is not recorded yet, newest release first. Ctrl-C keeps all that ran."""
    chosen, wanted = _chosen(cases, cases_dir)
    devices = parse_devices(device)
    store = Store(results / "records")
    sources = sources_for(torch, channel, python, interpreter, chosen, offline)
    options = Options(jobs or os.cpu_count() or 1, trials, timeout, 0, fork, rerun, workarounds)
    environments = Environments(default_home(), int(budget * 1e9), offline)
    plain = not err.is_terminal
    watcher: Any = PlainWatcher(err) if plain else LiveWatcher(err)
    engine = Matrix(chosen, store, environments, options, watcher, wanted)
    if plain:
        summary = engine.run(sources, devices)
    else:
        with watcher:
            summary = engine.run(sources, devices)
    say_problems(store)
    _close(summary, len(sources))


def _chosen(
    names: list[str] | None, cases_dir: Path
) -> tuple[list[tuple[Case, Path]], Callable[[str], list[Cell]] | None]:
    """Cases, and the cells of the repros that were named as CASE/REPRO, where any were."""
    cells = [n for n in names or [] if "/" in n and not n.endswith((".yaml", ".yml"))]
    ids = [n.split("/")[0] if n in cells else n for n in names or []]
    chosen = corpus(cases_dir, list(dict.fromkeys(ids)) or None)
    repros: dict[str, set[str]] = {}
    for name in cells:
        case, _, repro, workaround = parse_cell(name, chosen)
        if workaround is not None or repro is None:
            raise UsageError(f"{name!r} is no CASE or CASE/REPRO", "one cell alone: harness run")
        repros.setdefault(case.id, set()).add(repro)
    if not repros:
        return chosen, None

    def wanted(device: str) -> list[Cell]:
        return [
            cell for cell in cells_of(chosen, device)
            if cell.case.id not in repros or cell.repro in repros[cell.case.id]
        ]  # fmt: skip

    return chosen, wanted


def _close(summary: Summary, targets: int) -> None:
    for label, why in summary.failures.items():
        err.print(f"torch {label}: no environment: {printable(why, 300)}", markup=False)
    err.print(
        f"{summary.ran} cells run, {summary.covered} on record already, "
        f"{targets} releases, {summary.seconds:.0f} s",
        markup=False,
    )
    if summary.interrupted:
        err.print("interrupted; all that ran is kept. To go on:", markup=False)
        err.print("  " + shlex.join(["harness", *sys.argv[1:]]), markup=False)
        raise typer.Exit(130)
    if summary.failures and not summary.ran and not summary.covered:
        raise typer.Exit(4)


@app.command()
def run(
    cell: Annotated[str, typer.Argument(metavar="CASE[/REPRO[+WORKAROUND]]")],
    torch: Torch = "latest",
    device: DeviceOption = "cpu",
    channel: Channel = "pypi",
    python: Python = None,
    interpreter: Interpreter = None,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    trials: Trials = 1,
    budget: Budget = DEFAULT_BUDGET / 1e9,
    offline: Offline = False,
    cases_dir: CasesDir = Path("cases"),
) -> None:
    """Run one cell in a fresh process and show what it did. Nothing is recorded."""
    from harness.due import run_attempt
    from harness.outcome import matched
    from harness.target import Target

    case_name = cell.split("/", 1)[0]
    case, folder, repro, workaround = parse_cell(cell, corpus(cases_dir, [case_name]))
    names = [repro] if repro else [n for n, r in case.repros.items() if r.role == "trigger"]
    (source,) = sources_for(torch, channel, python, interpreter, [(case, folder)], offline)[:1]
    environments = Environments(default_home(), int(budget * 1e9), offline)
    err.print(f"making  torch {source.label}", markup=False)
    with environments.use(source) as env:
        server = Server(env.python, environments.home.path, warm=False)
        try:
            for name in names:
                for which in parse_devices(device):
                    for number in range(trials):
                        what = make_cell(case, folder, name, workaround)
                        outcome = run_attempt(
                            server, what, which, number, Options(timeout_s=timeout, fork=False)
                        )
                        shows = matched(outcome, case.signatures(name)) is not None
                        target = Target(source, which)
                        out.print(
                            f"{what.label} on torch {env.facts.get('torch')} {target.device}", markup=False
                        )
                        out.print(f"  outcome    {outcome.kind} in phase {outcome.phase}", markup=False)
                        out.print(f"  signature  {'matches' if shows else 'does not match'}", markup=False)
                        out.print(f"  duration   {outcome.duration_s:.1f} s", markup=False)
                        if outcome.reason:
                            out.print(f"  reason     {printable(outcome.reason, 500)}", markup=False)
                        for link in outcome.exceptions:
                            out.print(
                                f"  {link.link:<10} {link.type}: {printable(link.message, 400)}", markup=False
                            )
                        for part in outcome.output or []:
                            out.print(f"  output     {part}", markup=False)
                        if str(outcome.kind) not in ("ok", "mismatch") and outcome.stderr_tail:
                            out.print("  stderr:", markup=False)
                            for line in outcome.stderr_tail.splitlines()[-25:]:
                                out.print("    " + printable(line, 300), markup=False)
        finally:
            server.close()


@app.command()
def plan(
    cases: Cases = None,
    torch: Torch = "minors",
    device: DeviceOption = "cpu",
    channel: Channel = "pypi",
    python: Python = None,
    trials: Trials = 1,
    format_: Annotated[str, typer.Option("--format", help="table, json or github.")] = "table",
    jobs: Annotated[int, typer.Option("--shards", min=1, max=256, help="Jobs of the github format.")] = 4,
    offline: Offline = False,
    cases_dir: CasesDir = Path("cases"),
    results: ResultsDir = Path("results"),
) -> None:
    """What harness matrix would run: cells on record and missing; shards for a CI."""
    from harness.plan import plan as planned_for
    from harness.plan import shards

    if format_ not in ("table", "json", "github"):
        raise UsageError(f"no format is named {format_!r}", "known: table, json, github")
    chosen = corpus(cases_dir, cases)
    sources = sources_for(torch, channel, python, None, chosen, offline)
    environments = Environments(default_home(), offline=offline)
    store = Store(results / "records")
    planned = planned_for(chosen, sources, parse_devices(device), store, environments, Options(trials=trials))
    if format_ == "json":
        sys.stdout.write(json.dumps([asdict(p) for p in planned], indent=1) + "\n")
    elif format_ == "github":
        sys.stdout.write(json.dumps(shards(planned, jobs)) + "\n")
    else:
        for item in planned:
            out.print(
                f"{item.torch:<12} {item.device:<5} {item.recorded:>4} on record {item.missing:>4} missing",
                markup=False,
            )
    say_problems(store)


@app.command()
def releases(torch: Torch = "all", channel: Channel = "pypi", offline: Offline = False) -> None:
    """What a channel publishes, and what is left out of it, with reasons."""
    listing = listed(channel, offline)
    for source in reversed(pick_sources(listing, torch, None)):
        assert source.release is not None
        pythons = ", ".join(f"{a}.{b}" for a, b in reversed(source.release.pythons()))
        out.print(f"{source.release.version:<22} {source.release.day:<12} Python {pythons}", markup=False)
    old = [version for version, why in listing.left_out.items() if why.startswith("older than")]
    for version, why in listing.left_out.items():
        if version not in old:
            err.print(f"left out {version}: {why}", markup=False)
    if old:
        err.print(f"left out {len(old)} releases: {listing.left_out[old[0]]}", markup=False)
