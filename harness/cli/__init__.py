"""The command line: the only place that prints or exits.

Exit codes: 0 done; 1 a checked expectation does not hold; 2 usage or a malformed case;
3 inconclusive; 4 an environment could not be made; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import bisecting, disk, reporting, running, timing, wheelhouse
from harness.cli.options import err
from harness.env import default_home
from harness.errors import HarnessError
from harness.log import LOG, start_log

HELP = """Runs torch.compile bug repros and advised workarounds across PyTorch releases.

Exit codes: 0 done; 1 a checked expectation does not hold; 2 usage or a malformed case;
3 inconclusive; 4 an environment could not be made; 130 interrupted."""

app = typer.Typer(help=HELP, no_args_is_help=True, pretty_exceptions_enable=False)
for part in (running.app, bisecting.app, timing.app, reporting.app, disk.app):
    app.add_typer(part)
app.add_typer(disk.envs_app, name="envs")
app.add_typer(wheelhouse.wheelhouse_app, name="wheelhouse")


LOGGED = {"matrix", "run", "bisect", "time", "wheelhouse"}


@app.callback()
def begin(
    context: typer.Context,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log to stderr too.")] = False,
) -> None:
    """Start the log of a command that runs things."""
    if context.invoked_subcommand in LOGGED:
        start_log(default_home(), context.invoked_subcommand, verbose)


def _terminate(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point: one sentence and an exit code for a user's mistake, a log for a bug of ours."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = app(standalone_mode=False)
    except HarnessError as exc:
        LOG.error("%s", exc.message)
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
    LOG.exception("a bug of the harness")
    file = folder / f"bug-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
    file.write_text(f"{sys.argv}\n{traceback.format_exc()}")
    return file


__all__ = ["app", "main"]
