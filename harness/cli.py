"""The command line: the only place that prints or exits.

Exit codes: 0 done; 1 a checked expectation does not hold; 2 usage or a malformed case;
3 inconclusive; 4 an environment could not be made; 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from harness.case import Case, load_corpus
from harness.cell import make_cell, parse_cell
from harness.env import DEFAULT_BUDGET, Environments, default_home
from harness.errors import HarnessError, SetupError, UsageError
from harness.live import LiveWatcher, PlainWatcher, printable
from harness.matrix import Matrix, Options, Summary
from harness.release import Listing, list_releases
from harness.run import DEFAULT_TIMEOUT_S, Server
from harness.store import Store
from harness.target import Source, brought, parse_devices, pick_sources

app = typer.Typer(
    help=(__doc__ or "").replace("The command line: the only place that prints or exits.", "").strip()
    and "Runs torch.compile bug repros and advised workarounds across PyTorch releases.\n\n"
    + (__doc__ or "").split("\n\n", 1)[1],
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
envs_app = typer.Typer(help="Environments on disk.", no_args_is_help=True)
app.add_typer(envs_app, name="envs")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Cases = Annotated[
    list[str] | None, typer.Argument(metavar="[CASE]...", help="Case ids or YAML files; all by default.")
]
Torch = Annotated[str, typer.Option(help="Releases: 2.14.1, 2.8.., 2.6..2.9, latest:5, minors, all.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, or both with a comma.")]
Channel = Annotated[str, typer.Option(help="pypi, cpu, cu126, nightly, nightly/cu130, or wheelhouse:DIR.")]
Python = Annotated[str | None, typer.Option(help="Python version or path; newest that fits by default.")]
Interpreter = Annotated[str | None, typer.Option(help="A Python with its own torch, read and never changed.")]
Jobs = Annotated[
    int | None, typer.Option("-j", "--jobs", min=1, max=512, help="Cells at once; cores by default.")
]
Trials = Annotated[int, typer.Option(min=1, max=1000, help="Attempts a cell, at least.")]
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
    chosen = corpus(cases_dir, cases)
    devices = parse_devices(device)
    store = Store(results / "records")
    sources = sources_for(torch, channel, python, interpreter, chosen, offline)
    options = Options(jobs or os.cpu_count() or 1, trials, timeout, 0, fork, rerun, workarounds)
    environments = Environments(default_home(), int(budget * 1e9), offline)
    plain = not err.is_terminal
    watcher: Any = PlainWatcher(err) if plain else LiveWatcher(err)
    engine = Matrix(chosen, store, environments, options, watcher)
    if plain:
        summary = engine.run(sources, devices)
    else:
        with watcher:
            summary = engine.run(sources, devices)
    _say_problems(store)
    _close(summary, len(sources))


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


def _say_problems(store: Store) -> None:
    for problem in store.problems:
        err.print(f"warning: {problem}", markup=False)


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
    from harness.matrix import run_attempt
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


@envs_app.command("list")
def envs_list(json_: Annotated[bool, typer.Option("--json")] = False) -> None:
    """What is on disk, newest use first."""
    import json

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


def _terminate(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point: one sentence and an exit code for a user's mistake, a log for a bug of ours."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(standalone_mode=False)
    except HarnessError as exc:
        err.print(f"error: {exc.message}", markup=False, soft_wrap=True)
        if exc.hint:
            err.print(f"  {exc.hint}", markup=False, soft_wrap=True)
        sys.exit(exc.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        err.print("interrupted", markup=False)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as exc:
        if hasattr(exc, "show") and hasattr(exc, "exit_code"):  # typer's own usage errors
            exc.show()
            sys.exit(2)
        file = _log_bug()
        err.print(f"error: this is a bug of the harness: {type(exc).__name__}: {exc}", markup=False)
        err.print(f"  the traceback is in {file}", markup=False)
        sys.exit(70)
    sys.exit(code if isinstance(code, int) else 0)


def _log_bug() -> Path:
    folder = default_home() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"bug-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
    file.write_text(f"{sys.argv}\n{traceback.format_exc()}")
    logging.getLogger("harness").debug("bug", exc_info=True)
    return file


__all__ = ["SetupError", "UsageError", "app", "main"]
