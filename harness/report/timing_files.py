"""Tables and charts of timings, written where they belong."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from harness.judge import version_key
from harness.report.timing_charts import timing_charts
from harness.timingframe import timing_frame


def write_timings(results: Path) -> list[Path]:
    """Make everything from ``results/timings``: ``tables/timings.csv``, one CSV and the charts
    (SVG and PNG) of each case. Returns the files."""
    table = timing_frame(results / "timings")
    if table.empty:
        return []
    files = [results / "tables" / "timings.csv"]
    _write(files[0], to_csv(table).encode())
    for case, part in table.groupby("case", sort=True):
        files.append(results / "tables" / f"timing-{case}.csv")
        _write(files[-1], to_csv(part).encode())
    for chart in timing_charts(table):
        for form, data in (("svg", chart.svg), ("png", chart.png)):
            files.append(results / "charts" / f"{chart.name}.{form}")
            _write(files[-1], data)
    return files


def to_csv(table: pd.DataFrame) -> str:
    """The frame in a fixed order, numbers in six digits."""
    keys = ["case", "machine", "device", "torch", "timing", "dtype", "flops", "size"]
    ordered = table.sort_values(
        keys, key=lambda c: c.map(version_key) if c.name == "torch" else c, kind="stable"
    )
    text: str = ordered.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return text.encode("utf-8", "backslashreplace").decode()


def _write(file: Path, data: bytes) -> None:
    """Whole file, renamed into place; untouched where it holds just that."""
    if file.exists() and file.read_bytes() == data:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(data)
    part.replace(file)
