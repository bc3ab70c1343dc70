"""The harness against what people do by hand, side by side in one run, on the same cells.

By hand: for each release ``python -m venv``, ``pip install torch==V numpy setuptools``, and for each
cell ``python repro.py`` (the file that ``harness export`` writes). With ``--per-cell`` venv and
install are repeated for every cell, as a loop that wants clean environments does.
The harness: ``harness matrix`` on the same releases and cells, in an empty store.

Both sides run twice: cold (empty download caches) and warm (caches kept, environments made anew).

    .venv/bin/python scripts/bench_loop.py --torch 2.12.1,2.11.0 --case pytorch-188227 --repros 8

Needs about 12 GB a release in ``--work``, which is removed afterwards. Prints JSON last.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from harness.casefile import load_corpus
from harness.cell import Cell, repro_cells
from harness.export import export_cell

ROOT = Path(__file__).resolve().parent.parent


def timed(command: list[str], env: dict[str, str], cwd: Path) -> tuple[float, int]:
    """Seconds and exit code of a command, its output thrown away."""
    began = time.perf_counter()
    done = subprocess.run(
        command, env=env, cwd=cwd, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - began, done.returncode


def by_hand(
    work: Path, cache: Path, releases: list[str], files: dict[str, Path], per_cell: bool
) -> dict[str, float]:
    """Seconds spent in venv, install and repro."""
    spent = {"venv": 0.0, "install": 0.0, "repro": 0.0}
    env = {**os.environ, "PIP_CACHE_DIR": str(cache), "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    for release in releases:
        groups = [[file] for file in files.values()] if per_cell else [list(files.values())]
        for group in groups:
            venv = work / "venv"
            spent["venv"] += timed([sys.executable, "-m", "venv", str(venv)], env, work)[0]
            python = str(venv / "bin" / "python")
            seconds, code = timed(
                [python, "-m", "pip", "install", "-q", f"torch=={release}", "numpy", "setuptools"], env, work
            )
            if code:
                raise SystemExit(f"pip install torch=={release} ended with {code}")
            spent["install"] += seconds
            for file in group:
                spent["repro"] += timed([python, str(file)], env, work)[0]
            shutil.rmtree(venv)
    return spent


def with_harness(home: Path, releases: list[str], case: Path, results: Path) -> float:
    """Seconds of ``harness matrix`` in an empty store."""
    env = {**os.environ, "HARNESS_HOME": str(home)}
    command = [
        str(ROOT / ".venv/bin/harness"), "matrix", str(case), "--torch", ",".join(releases),
        "--results", str(results), "--no-workarounds", "--disk-budget", "40",
    ]  # fmt: skip
    seconds, code = timed(command, env, ROOT)
    if code:
        raise SystemExit(f"harness matrix ended with {code}")
    return seconds


def reduced_case(cells: list[Cell], folder: Path) -> Path:
    """A case file with the chosen repros alone."""
    import yaml

    case = cells[0].case
    data = case.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    data["repros"] = {cell.repro: data["repros"][cell.repro] for cell in cells}
    for key in ("workarounds", "claims", "expect", "timings"):
        data.pop(key, None)
    file = folder / f"{case.id}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", default="2.12.1,2.11.0")
    parser.add_argument("--case", default="pytorch-188227")
    parser.add_argument("--repros", type=int, default=8)
    parser.add_argument("--per-cell", action="store_true")
    parser.add_argument("--work", type=Path, default=ROOT / ".harness" / "bench")
    args = parser.parse_args()
    releases = args.torch.split(",")
    (case,) = load_corpus(ROOT / "cases", [args.case])
    cells = repro_cells(case, ROOT / "cases")[: args.repros]
    work: Path = args.work.absolute()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        files = {}
        for cell in cells:
            files[cell.repro] = work / f"{cell.repro}.py"
            files[cell.repro].write_text(export_cell(cell, "cpu"))
        small = reduced_case(cells, work)
        report: dict[str, object] = {"releases": releases, "cells": [c.repro for c in cells]}
        for state in ("cold", "warm"):
            if state == "warm" and (work / "home" / "envs").exists():
                shutil.rmtree(work / "home" / "envs")
            harness_s = with_harness(work / "home", releases, small, work / f"results-{state}")
            spent = by_hand(work, work / "pip-cache", releases, files, args.per_cell)
            hand_s = sum(spent.values())
            report[state] = {
                "harness_s": round(harness_s, 1),
                "by_hand_s": round(hand_s, 1),
                "by_hand": {k: round(v, 1) for k, v in spent.items()},
                "harness_over_by_hand": round(harness_s / hand_s, 3),
            }
            print(state, json.dumps(report[state]), file=sys.stderr)
        print(json.dumps(report))
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
