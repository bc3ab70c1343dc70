"""Timings as a table: speed-ups with their spread, rates, and how far they are from the machine's limits.

Two variants are compared round by round: the ratio of their times in the same round, so that a drift
of the machine cancels. The ratio told is the median of these, its interval their quartiles. It is no
difference where that interval holds 1, or where it is no farther from 1 than the quartiles of the
reference against itself, which every process times twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.timingstore import Json, TimingDocument, TimingStore
from harness.worker.steady import quartiles

FEWEST_ROUNDS = 5

COLUMNS = (
    "case", "timing", "size", "dims", "dtype", "variant", "torch", "build", "device", "machine",
    "kind", "phase", "exception", "message", "cold", "first_call_s",
    "median_s", "q1_s", "q3_s", "n", "speedup", "speedup_low", "speedup_high", "difference",
    "against", "vs", "vs_low", "vs_high", "vs_difference",
    "device_median_s", "device_q1_s", "device_q3_s", "device_speedup", "device_speedup_low",
    "device_speedup_high", "device_difference", "device_vs", "device_vs_low", "device_vs_high",
    "device_vs_difference", "host_median_s",
    "flops", "bytes", "flops_per_s", "bytes_per_s", "limit_flops_per_s", "limit_bytes_per_s", "bound",
    "share", "rel_error", "error_limit", "graphs", "noise_low", "noise_high", "load", "threads", "tf32",
    "inputs_cold", "recorded",
)  # fmt: skip


@dataclass(frozen=True)
class Ratio:
    """``middle`` with its quartiles; ``difference`` is faster, slower or none, or None where too few
    rounds were made to say."""

    middle: float
    low: float
    high: float
    difference: str | None


def ratio(
    base: Sequence[float], other: Sequence[float], noise: tuple[float, float] | None = None
) -> Ratio | None:
    """``base / other`` round by round: above 1 where ``other`` takes less time. ``noise`` are the
    quartiles of the reference against itself."""
    pairs = [one / two for one, two in zip(base, other, strict=False) if one > 0 and two > 0]
    if not pairs:
        return None
    low, middle, high = quartiles(pairs)
    spread = max(abs(math.log(edge)) for edge in noise) if noise else 0.0
    if len(pairs) < FEWEST_ROUNDS:
        difference = None
    elif low <= 1 <= high or abs(math.log(middle)) <= spread:
        difference = "none"
    else:
        difference = "faster" if middle > 1 else "slower"
    return Ratio(middle, low, high, difference)


def timing_frame(root: Path | TimingStore) -> pd.DataFrame:
    """A row for each variant of each cell below ``root`` (``results/timings``), :data:`COLUMNS`.

    Times in seconds a call, wall time as a caller sees it (``median_s``) and, on CUDA, of the device
    alone on a cold cache (``device_median_s``). ``speedup`` is over the eager variant; ``vs`` is the
    time as a multiple of the variant named by ``against``: above 1 it costs. Rates, ``share`` (of
    the time that the machine's measured limits allow) and ``bound`` are of the device's time where
    there is one; a share above 1 says that the data stayed in a cache.
    """
    store = root if isinstance(root, TimingStore) else TimingStore(root)
    return frame(store.documents())


def rows_of(table: pd.DataFrame) -> list[Json]:
    """The table's rows with None for what is not there, for JSON."""
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in table.to_dict("records")
    ]


def frame(documents: Iterable[TimingDocument]) -> pd.DataFrame:
    """The table of ``documents``."""
    rows = [row for document in documents for cell in document.cells for row in _rows(document, cell)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(document: TimingDocument, cell: Json) -> Iterable[Json]:
    target, conditions = document.target, cell["conditions"]
    common: Json = {
        "case": document.case, "timing": cell["timing"], "size": cell["size"],
        "dims": " ".join(f"{key}={value}" for key, value in cell["dims"].items()), "dtype": cell["dtype"],
        "flops": cell.get("flops"), "bytes": cell.get("bytes"),
        "torch": target.get("torch"), "build": target.get("build"), "device": target.get("device"),
        "machine": document.machine_id, "recorded": cell.get("recorded"),
        "load": conditions.get("load_before"), "threads": conditions.get("threads"),
        "tf32": conditions.get("tf32_matmul"), "inputs_cold": conditions.get("cold"),
    }  # fmt: skip
    if not cell["variants"]:
        yield {**common, **_failure(cell)}
        return
    by_name = {variant["name"]: variant for variant in cell["variants"]}
    reference = by_name.get(cell.get("reference") or "")
    against = {v["name"]: v.get("against") for v in (cell.get("spec") or {}).get("variants", [])}
    limits = _limits(cell["limits"])
    for variant in cell["variants"]:
        row = {**common, **_failure(variant), "variant": variant["name"]}
        for key in ("cold", "first_call_s", "rel_error", "error_limit", "graphs"):
            row[key] = variant.get(key)
        row["against"] = against.get(variant["name"])
        base = by_name.get(row["against"] or "")
        for clock, prefix in (("call", ""), ("device", "device_")):
            seen = variant.get(clock)
            if not seen:
                continue
            row.update({f"{prefix}{key}_s": seen[key] for key in ("median", "q1", "q3")})
            noise = _noise(cell, by_name, clock)
            if clock == "call":
                row["n"] = seen["n"]
                row["noise_low"], row["noise_high"] = noise or (None, None)
            if reference is not None and reference is not variant and reference.get(clock):
                found = ratio(reference[clock]["rounds"], seen["rounds"], noise)
                _put(row, f"{prefix}speedup", f"{prefix}difference", found)
            if base is not None and base.get(clock):
                found = ratio(base[clock]["rounds"], seen["rounds"], noise)
                _put(row, f"{prefix}vs", f"{prefix}vs_difference", _inverse(found))
        if variant.get("host"):
            row["host_median_s"] = variant["host"]["median"]
        row.update(_rates(cell, variant, limits))
        yield row


def _failure(value: Json) -> Json:
    """Kind, phase, exception and message; null for the last two where nothing failed."""
    chain = [e for e in value.get("exceptions") or [] if e.get("link") != "context"]
    inner = chain[-1] if chain else {}
    return {
        "kind": value.get("kind"), "phase": value.get("phase"), "exception": inner.get("type"),
        "message": value.get("reason") or inner.get("message"),
    }  # fmt: skip


def _noise(cell: Json, by_name: Json, clock: str) -> tuple[float, float] | None:
    """Quartiles of the reference against its second self."""
    again = cell.get("again") or {}
    of = by_name.get(again.get("of") or "")
    if of is None or not of.get(clock) or not again.get(clock):
        return None
    found = ratio(of[clock]["rounds"], again[clock]["rounds"])
    return (found.low, found.high) if found else None


def _put(row: Json, name: str, difference: str, found: Ratio | None) -> None:
    if found is not None:
        row.update({name: found.middle, f"{name}_low": found.low, f"{name}_high": found.high})
        row[difference] = found.difference


def _inverse(found: Ratio | None) -> Ratio | None:
    """As a multiple of the base's time; the words stay: faster is faster."""
    return found and Ratio(1 / found.middle, 1 / found.high, 1 / found.low, found.difference)


def _limits(measured: Iterable[Json]) -> dict[str, float]:
    """The best of what was measured before and after: rates by ``flops_per_s`` and ``bytes_per_s``."""
    best: dict[str, float] = {}
    for limits in measured:
        for part, key in (("product", "flops_per_s"), ("copy", "bytes_per_s")):
            seen = (limits.get(part) or {}).get(key)
            if seen:
                best[key] = max(best.get(key, 0.0), seen["median"])
    return best


def _rates(cell: Json, variant: Json, limits: dict[str, float]) -> Json:
    found: Json = {f"limit_{key}": value for key, value in limits.items()}
    seen: Any = variant.get("device") or variant.get("call")
    if not seen:
        return found
    floors = {}
    for count, key, bound in (("flops", "flops_per_s", "compute"), ("bytes", "bytes_per_s", "memory")):
        if cell.get(count) is None:
            continue
        found[key] = cell[count] / seen["median"]
        if limits.get(key):
            floors[bound] = cell[count] / limits[key]
    if floors:
        found["bound"] = max(floors, key=lambda bound: floors[bound])
        found["share"] = floors[found["bound"]] / seen["median"]
    return found
