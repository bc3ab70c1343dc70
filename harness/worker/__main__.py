"""Entry: ``python harness/worker serve [MODULE ...]`` or ``python harness/worker attempt JOB``.

The folder is loaded as a package of its own, ``harness_worker``, and taken off ``sys.path`` again:
a repro that imports ``compare`` or ``serve`` must not find ours.
"""

from __future__ import annotations

import importlib.util
import os
import sys


def load() -> None:
    """Make this folder importable as ``harness_worker``."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "harness_worker",
        os.path.join(here, "__init__.py"),
        submodule_search_locations=[here],
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["harness_worker"] = module
    spec.loader.exec_module(module)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]


def main() -> None:
    """Dispatch on the first argument."""
    load()
    command = sys.argv[1]
    if command == "serve":
        from harness_worker.serve import serve  # type: ignore[import-not-found]

        serve(sys.argv[2:])
    elif command == "attempt":
        from harness_worker.attempt import main as attempt  # type: ignore[import-not-found]

        attempt(sys.argv[2])
    else:
        raise SystemExit("unknown worker command %r" % command)


main()
