"""How long publishing takes: ``python scripts/bench_publish.py [RECORDS]``, 10,000 unless given.

A host that is busy otherwise shows in the wall seconds alone; the CPU seconds are ours.

Makes a synthetic store of that many cells in a temporary folder, publishes it once from nothing and
once again, and prints the seconds and the size of the front page. Exit code 1 where the first takes
10 s or more, or the front page weighs 300 KB or more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from syntheticstore import Plan, fill

from harness.report import publish

LIMIT_S = 10.0
FRONT_BYTES = 300_000


def main(wanted: int = 10_000) -> int:
    """Run the benchmark; the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = 1
        while True:
            store, corpus = fill(folder / "records", Plan(cases=cases, workarounds=18))
            cells = sum(len(document.cells) for document in store.documents())
            if cells >= wanted:
                break
            cases += max(1, int((wanted - cells) / max(1, cells / cases)))
        print(f"{cells} records of {cases} cases")
        took = []
        for what in ("from nothing", "again"):
            began, busy = time.perf_counter(), time.process_time()
            done = publish(store, corpus, folder / "site", folder / "results")
            took.append(time.perf_counter() - began)
            busy = time.process_time() - busy
            print(
                f"published {what}: {took[-1]:.2f} s ({busy:.2f} s of CPU), "
                f"{done.pages} pages, {done.written} files written"
            )
        front = (folder / "site" / "index.html").stat().st_size
        total = sum(file.stat().st_size for file in (folder / "site").rglob("*") if file.is_file())
        print(f"front page {front / 1000:.0f} KB, site {total / 1e6:.1f} MB")
    return int(took[0] >= LIMIT_S or front >= FRONT_BYTES)


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
