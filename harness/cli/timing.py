"""The command that times: compiled against eager."""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import (
    Budget,
    Cases,
    CasesDir,
    Channel,
    Fork,
    Interpreter,
    Offline,
    Python,
    ResultsDir,
    Torch,
    corpus,
    err,
    sources_for,
)
from harness.env import DEFAULT_BUDGET, Environment, Environments, default_home
from harness.live import printable
from harness.target import Source, Target, parse_devices
from harness.timing import Summary, TimingOptions, run_timings
from harness.timingplan import TimingCell

# pandas takes a second to import, so only the command that needs it does.
if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer()


@app.command()
def time(
    cases: Cases = None,
    torch: Torch = "latest",
    device: Annotated[str, typer.Option("--device", help="cpu or cuda, or both with a comma.")] = "cpu",
    channel: Channel = "pypi",
    python: Python = None,
    interpreter: Interpreter = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="PATTERN", help="timing/size/dtype, as in 'bmm/*/bfloat16'; repeatable."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds, 75 s a release.")] = False,
    deadline: Annotated[
        float | None, typer.Option(min=1, help="Seconds a release; what is left over is not timed.")
    ] = None,
    per_variant: Annotated[
        float, typer.Option("--budget", min=0.01, max=3600, help="Seconds of steady rounds a variant.")
    ] = 0.5,
    shared_caches: Annotated[
        bool,
        typer.Option("--shared-caches", help="Variants share caches: sooner done, first calls not cold."),
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, max=86400, help="Seconds a process may take.")] = 1800,
    rerun: Annotated[bool, typer.Option("--rerun", help="Time what is on record too.")] = False,
    fork: Fork = True,
    format_: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    budget: Budget = DEFAULT_BUDGET / 1e9,
    offline: Offline = False,
    cases_dir: CasesDir = Path("cases"),
    results: ResultsDir = Path("results"),
) -> None:
    """Time compiled against eager where it is not recorded yet; tables and charts are made anew.

    The machine should have nothing else to do. Records go to results/timings.
    """
    from harness.report.timing_files import to_csv, write_timings
    from harness.timingframe import rows_of, timing_frame

    if format_ not in ("table", "json", "csv"):
        raise typer.BadParameter("must be table, json or csv", param_hint="--format")
    chosen = corpus(cases_dir, cases)
    sources = sources_for(torch, channel, python, interpreter, chosen, offline)
    environments = Environments(default_home(), int(budget * 1e9), offline)
    options = TimingOptions(
        budget_s=per_variant, deadline_s=deadline, timeout_s=timeout, only=tuple(only or ()),
        cold=not shared_caches, fork=fork, rerun=rerun,
    )  # fmt: skip
    options = options.quick() if quick else options
    done = Summary()
    for which in parse_devices(device):
        some = [case for case, _ in chosen]
        done.add(run_timings(some, sources, which, results / "timings", environments, options, _Lines()))
        if done.interrupted:
            break
    files = write_timings(results)
    table = timing_frame(results / "timings")
    table = table[table["case"].isin([case.id for case, _ in chosen])]
    if format_ == "json":
        sys.stdout.write(json.dumps(rows_of(table), indent=1) + "\n")
    elif format_ == "csv":
        sys.stdout.write(to_csv(table))
    else:
        _show(table)
    for label, why in done.failures.items():
        err.print(f"torch {label}: no environment: {printable(why, 300)}", markup=False)
    for label, why in done.skipped.items():
        err.print(f"{label}: skipped: {printable(why, 300)}", markup=False)
    err.print(
        f"{done.ran} cells timed, {done.covered} on record already, {done.seconds:.0f} s; "
        f"{len(files)} tables and charts in {results}",
        markup=False,
    )
    if done.interrupted:
        err.print("interrupted; all that was timed is kept. To go on:", markup=False)
        err.print("  " + shlex.join(["harness", *sys.argv[1:]]), markup=False)
        raise typer.Exit(130)
    if done.failures and not done.ran and not done.covered:
        raise typer.Exit(4)


class _Lines:
    """A line for each thing that happened, on stderr."""

    def preparing(self, source: Source) -> None:
        self._say(f"making  torch {source.label}")

    def prepared(self, source: Source, env: Environment | None, why: str | None) -> None:
        self._say(f"ready   torch {source.label}" if env else f"failed  torch {source.label}: {why}")

    def started(self, target: Target, cell: TimingCell, number: int, total: int) -> None:
        self._say(f"timing  {target.label}  {cell.case} {cell.name}  {number}/{total}")

    def finished(self, target: Target, cell: TimingCell, record: dict[str, Any]) -> None:
        words = []
        for variant in record["variants"]:
            seen = variant.get("call")
            words.append(f"{variant['name']} {_seconds(seen['median']) if seen else variant['kind']}")
        self._say("        " + (", ".join(words) or f"{record['kind']}: {record.get('reason')}"))

    def noted(self, text: str) -> None:
        self._say(f"note    {text}")

    def _say(self, text: str) -> None:
        err.print(printable(text, 400), markup=False, highlight=False, soft_wrap=True)


def _seconds(value: Any) -> str:
    if value is None or math.isnan(value):
        return ""
    for scale, unit in ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):
        if value < 1000 * scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} s"


def _show(table: pd.DataFrame) -> None:
    from rich.table import Table

    from harness.cli.options import out
    from harness.timingframe import rows_of

    shown = Table(header_style="bold", pad_edge=False, box=None)
    for name in (
        "torch",
        "device",
        "shape",
        "variant",
        "first call",
        "a call",
        "over eager",
        "vs",
        "of limit",
    ):
        shown.add_column(name, no_wrap=name in ("torch", "a call"))
    for row in rows_of(table):
        over = "no difference" if row["difference"] == "none" else _times(row["speedup"])
        versus = "no difference" if row["vs_difference"] == "none" else _times(row["vs"])
        shown.add_row(
            str(row["torch"]), str(row["device"]), f"{row['timing']}/{row['size']}/{row['dtype']}",
            str(row["variant"] or ""), _seconds(row["first_call_s"]),
            _seconds(row["median_s"]) if row["kind"] == "ok" else f"{row['kind']}: {row['exception'] or ''}",
            over, versus, f"{row['share']:.1%}" if row["share"] is not None else "",
        )  # fmt: skip
    out.print(shown)


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}×"
