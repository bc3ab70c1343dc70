"""Arithmetic over named whole numbers, as a case's timings write it: ``2*b*m*k*n``. Pure."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from harness.errors import UsageError

Number = int | float

MOST = 1e30  # far beyond any count of operations; a power tower stops here
MOST_CHARS = 500

_OPERATIONS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max, "ceil": math.ceil}


class _Refused(Exception):
    """Why a formula has no value, in words."""


def evaluate(formula: str, names: Mapping[str, Number], where: str = "formula") -> Number:
    """The value of ``formula``: ``+ - * / // % **``, parentheses, ``min``, ``max``, ``ceil``, names.

    Raises:
        UsageError: it is no such formula, or its value is negative or absurd; one sentence, which
            begins with ``where``.
    """
    try:
        if len(formula) > MOST_CHARS:
            raise _Refused(f"is longer than {MOST_CHARS} characters")
        value = _value(ast.parse(formula.strip(), mode="eval").body, names)
    except _Refused as exc:
        raise _error(where, formula, str(exc), names) from exc
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise _error(where, formula, "is no formula", names) from exc
    except ZeroDivisionError as exc:
        raise _error(where, formula, "divides by zero", names) from exc
    except (OverflowError, TypeError) as exc:
        raise _error(where, formula, "has no value", names) from exc
    if value < 0:
        raise _error(where, formula, f"is negative: {value:g}", names)
    return value


def _error(where: str, formula: str, why: str, names: Mapping[str, Number]) -> UsageError:
    shown = formula if len(formula) <= 80 else formula[:79] + "…"
    return UsageError(f"{where}: {shown!r} {why}", "it may use " + ", ".join(sorted(names)))


def _value(node: ast.expr, names: Mapping[str, Number]) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value)
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise _Refused(f"names {node.id!r}, which is no size")
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand, names)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, names), _value(node.right, names)
        if isinstance(node.op, ast.Pow):
            if not 0 <= right <= 64 or (left and right * math.log10(abs(left)) > 30):
                raise _Refused("has a power that is too large")
            return _bounded(left**right)
        if type(node.op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(node.op)](left, right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None and node.args:
            return _bounded(function(*(_value(argument, names) for argument in node.args)))
    raise _Refused(f"holds {ast.unparse(node)[:40]!r}, which is no arithmetic over sizes")


def _bounded(value: object) -> Number:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Refused("has a value that is no number")
    if not math.isfinite(value) or abs(value) > MOST:
        raise _Refused("has a value that is too large")
    return value
