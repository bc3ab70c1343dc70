"""What a case's timings ask for, in numbers: a cell for each timing, size and dtype. Pure."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.case import Case, TensorInput, Timing, TimingVariant
from harness.errors import UsageError
from harness.formula import evaluate
from harness.timingstore import Json

ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip


@dataclass(frozen=True)
class TimingCell:
    """One timing of a case at one size and dtype; ``spec`` is what the worker gets, less the device."""

    case: str
    timing: str
    size: str
    dims: dict[str, int]
    dtype: str
    spec: Json
    flops: float | None
    bytes: float | None

    @property
    def name(self) -> str:
        """``timing/size/dtype``."""
        return f"{self.timing}/{self.size}/{self.dtype}"

    @property
    def digest(self) -> str:
        """SHA-256, first 16 hex digits, of what runs."""
        spec = dict(self.spec)
        spec["variants"] = [{k: v for k, v in item.items() if k != "against"} for item in spec["variants"]]
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def plan(case: Case, only: Sequence[str] = (), device: str | None = None) -> list[TimingCell]:
    """The cells of a case, the most telling first: timings in turn, the ends of each list of sizes
    before its middle, so that what a deadline leaves still spans the range.

    Raises:
        UsageError: a formula or a shape that has no value, a variant that is not there.
    """
    lists = [
        _cells(case, name, timing)
        for name, timing in case.timings.items()
        if device is None or timing.devices is None or device in timing.devices
    ]
    lists = [[c for c in cells if not only or any(fnmatchcase(c.name, p) for p in only)] for cells in lists]
    places = [
        ((index + 0.5) / len(cells), number, cell)
        for number, cells in enumerate(lists)
        for index, cell in enumerate(cells)
    ]
    return [cell for _, _, cell in sorted(places, key=lambda place: place[:2])]


def _cells(case: Case, name: str, timing: Timing) -> list[TimingCell]:
    for key, variant in timing.variants.items():
        if variant.against is not None and variant.against not in timing.variants:
            raise UsageError(
                f"{case.id}, timing {name}: variant {key!r} is against {variant.against!r}, which is none",
                "known: " + ", ".join(timing.variants),
            )
    sizes = list(timing.sizes)
    return [_cell(case, name, timing, size, dtype) for size in _ends_first(sizes) for dtype in timing.dtypes]


def _ends_first(names: list[str]) -> list[str]:
    """First, last, then the middles of the gaps that are left, widest first."""
    order = list(dict.fromkeys([0, len(names) - 1]))[: len(names)]
    while len(order) < len(names):
        done = sorted(order)
        gap, low = max((high - low, -low) for low, high in itertools.pairwise(done))
        order.append(-low + gap // 2)
    return [names[index] for index in order]


def _cell(case: Case, name: str, timing: Timing, size: str, dtype: str) -> TimingCell:
    where = f"{case.id}, timing {name}, size {size}"
    if dtype not in ITEM_BYTES:
        raise UsageError(
            f"{case.id}, timing {name}: {dtype!r} is no dtype", "known: " + ", ".join(ITEM_BYTES)
        )
    dims = dict(timing.sizes[size])
    names = {**dims, "itemsize": ITEM_BYTES[dtype]}

    def count(key: str) -> float | None:
        text = getattr(timing, key)
        return None if text is None else float(evaluate(text, names, f"{where}, {key}"))

    spec: Json = {
        "timing": True,
        "model": timing.model,
        "inputs": {k: _input(v, dtype, dims, f"{where}, input {k}") for k, v in timing.inputs.items()},
        "dtype": dtype,
        "seed": 0,
        "variants": [_variant(key, value) for key, value in timing.variants.items()],
        "reference": next(
            (k for k, v in timing.variants.items() if v.entry == "eager" and not v.model), None
        ),
    }
    return TimingCell(case.id, name, size, dims, dtype, spec, count("flops"), count("bytes"))


def _variant(name: str, variant: TimingVariant) -> Json:
    plain = variant.model_dump()
    return {"name": name, **plain, "compile": {k: v for k, v in plain["compile"].items() if v is not None}}


def _input(item: TensorInput, dtype: str, dims: dict[str, int], where: str) -> Json:
    """An input with its shape in numbers; the cell's dtype unless it names one of its own."""
    value = item.model_dump()
    shape = [
        size if isinstance(size, int) else evaluate(size, dims, f"{where}, shape") for size in item.shape
    ]
    if any(size != int(size) for size in shape):
        raise UsageError(f"{where}: shape {shape} is not whole")
    value["shape"] = [int(size) for size in shape]
    if "dtype" not in item.model_fields_set:
        value["dtype"] = dtype
    return value
