"""Outputs described and compared, leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Dict

Json = Dict[str, Any]

# Default (rtol, atol). Wide enough for another order of summation, far narrower than a wrong
# result: compiled code is allowed to round differently, not to compute something else.
TOLERANCES = {
    "float64": (1e-6, 1e-8),
    "float32": (1e-3, 1e-4),
    "complex64": (1e-3, 1e-4),
    "complex128": (1e-6, 1e-8),
    "float16": (2e-2, 2e-2),
    "bfloat16": (4e-2, 4e-2),
}


def leaves(torch: Any, value: Any, path: str = "output") -> Iterator[tuple[str, Any]]:
    """Tensors and scalars inside nested tuples, lists and dicts, each with its path."""
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(torch, item, "%s[%d]" % (path, index))
    elif isinstance(value, dict):
        for key in value:
            yield from leaves(torch, value[key], "%s[%r]" % (path, key))
    else:
        yield path, value


def is_tensor(torch: Any, value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def dtype_name(value: Any) -> str:
    return str(value.dtype).replace("torch.", "")


def describe(torch: Any, value: Any) -> list[Json]:
    """Shape, stride (elements), dtype and device of every leaf; type and repr of other values."""
    described: list[Json] = []
    for path, leaf in leaves(torch, value):
        if is_tensor(torch, leaf):
            item: Json = {"at": path, "shape": list(leaf.shape), "dtype": dtype_name(leaf)}
            try:
                item["stride"] = list(leaf.stride())
            except Exception:  # sparse and nested layouts have none
                item["stride"] = None
            item["device"] = str(getattr(leaf, "device", "cpu"))
        else:
            item = {"at": path, "type": type(leaf).__name__, "value": repr(leaf)[:200]}
        described.append(item)
        if len(described) >= 64:
            break
    return described


def short(described: list[Json]) -> str:
    """One line of a description."""
    words = []
    for item in described[:3]:
        if "shape" in item:
            words.append("%s%s stride %s" % (item["dtype"], tuple(item["shape"]), item["stride"]))
        else:
            words.append("%s %s" % (item["type"], item["value"][:60]))
    return ", ".join(words) or "nothing"


def compare(
    torch: Any,
    expected: Any,
    actual: Any,
    wants: set[str],
    tolerance: Json,
    label: str = "output",
) -> list[str]:
    """What differs, a sentence each; empty where nothing does."""
    left = list(leaves(torch, expected, label))
    right = list(leaves(torch, actual, label))
    if [path for path, _ in left] != [path for path, _ in right]:
        return ["%s has %d parts in eager, %d compiled" % (label, len(left), len(right))]
    found: list[str] = []
    for (path, one), (_, two) in zip(left, right):  # noqa: B905 -- strict= came with 3.10
        if is_tensor(torch, one) != is_tensor(torch, two):
            found.append(
                "%s is a %s in eager, a %s compiled" % (path, type(one).__name__, type(two).__name__)
            )
        elif is_tensor(torch, one):
            found += _compare_tensors(torch, path, one, two, wants, tolerance)
        elif "values" in wants and not _same_scalar(one, two):
            found.append("%s is %r in eager, %r compiled" % (path, one, two))
    return found


def dir_of(kind: type) -> set[str]:
    """Names that ``kind`` and its bases define themselves, below ``object``."""
    return {name for base in kind.__mro__[:-1] for name in vars(base)}


def _same_scalar(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (one != one and two != two) or abs(one - two) <= 1e-6 * abs(one)
    if type(one) is type(two) and "__eq__" not in dir_of(type(one)):
        return True  # opaque objects of one type: nothing to compare
    try:
        return bool(one == two)
    except Exception:
        return type(one) is type(two)


def _compare_tensors(
    torch: Any, path: str, one: Any, two: Any, wants: set[str], tolerance: Json
) -> list[str]:
    found: list[str] = []
    if "dtype" in wants and one.dtype != two.dtype:
        found.append("%s: dtype %s in eager, %s compiled" % (path, dtype_name(one), dtype_name(two)))
    if tuple(one.shape) != tuple(two.shape):
        if wants & {"shape", "values"}:
            found.append("%s: shape %s in eager, %s compiled" % (path, tuple(one.shape), tuple(two.shape)))
        return found
    if "stride" in wants and tuple(one.stride()) != tuple(two.stride()):
        found.append("%s: stride %s in eager, %s compiled" % (path, tuple(one.stride()), tuple(two.stride())))
    if "values" not in wants:
        return found
    one, two = one.detach().cpu(), two.detach().cpu()
    exact = not (one.is_floating_point() or one.is_complex())
    if exact:
        if not torch.equal(one, two.to(one.dtype)):
            count = int((one != two).sum())
            found.append("%s: %d of %d values differ" % (path, count, one.numel()))
        return found
    rtol, atol = TOLERANCES.get(dtype_name(one), (2e-1, 2e-1))
    rtol = tolerance["rtol"] if tolerance.get("rtol") is not None else rtol
    atol = tolerance["atol"] if tolerance.get("atol") is not None else atol
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, two = one.to(wide), two.to(wide)
    close = torch.isclose(two, one, rtol=rtol, atol=atol, equal_nan=True)
    if not bool(close.all()):
        wrong = ~close
        worst = (two - one).abs()[wrong]
        finite = worst[torch.isfinite(worst)]
        most = float(finite.max()) if finite.numel() else float("nan")
        found.append(
            "%s: %d of %d values differ by up to %.3g (rtol %g, atol %g)"
            % (path, int(wrong.sum()), one.numel(), most, rtol, atol)
        )
    return found
