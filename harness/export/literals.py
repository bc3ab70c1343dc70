"""Values of a case as the Python that makes them."""

from __future__ import annotations

import ast
import symtable
import textwrap
from collections.abc import Iterable
from typing import Any

from harness.worker.compare import TOLERANCES

WIDTH = 96


def raw(pattern: str) -> str:
    """A raw string literal where one can say it."""
    for quote in ('"', "'"):
        literal = f"r{quote}{pattern}{quote}"
        try:
            if ast.literal_eval(literal) == pattern:
                return literal
        except (SyntaxError, ValueError):
            continue
    return repr(pattern)


def set_of(names: Iterable[str]) -> str:
    return "{" + ", ".join(quoted(name) for name in names) + "}"


def quoted(text: str) -> str:
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\') else repr(text)


def literal(value: Any) -> str:
    """A value as Python, strings in double quotes."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value)


def tensor(item: dict[str, Any], device: str) -> str:
    """What ``worker/repro.py`` makes of ``item``, as an expression."""
    shape = tuple(item["shape"])
    size = ", ".join(map(str, shape)) if shape else "()"
    dtype = item["dtype"]
    kind = f"torch.{dtype}" if dtype.isidentifier() else f"getattr(torch, {dtype!r})"
    fill = item["fill"]
    if fill == "full":
        made = f"torch.full({shape!r}, {item['value']!r}).to({kind})"
    elif fill == "randint":
        made = f"torch.randint({item['low']}, {item['high']}, {shape!r})"
        made += "" if dtype == "int64" else f".to({kind})"
    elif fill == "arange":
        count = 1
        for length in shape:
            count *= length
        made = f"torch.arange({count})" + (f".reshape({shape!r})" if len(shape) != 1 else "")
        made += "" if dtype == "int64" else f".to({kind})"
    else:
        made = f"torch.{fill}({size})" + ("" if dtype == "float32" else f".to({kind})")
    if item.get("stride") is not None:
        made = f"torch.empty_strided({shape!r}, {tuple(item['stride'])!r}, dtype={kind}).copy_({made})"
    where = item.get("device") or device
    if where != "cpu":
        made += f'.to("{where}")'
    return made + (".requires_grad_()" if item.get("requires_grad") else "")


def tolerance(given: dict[str, float | None]) -> str:
    def pair(rtol: float, atol: float) -> str:
        mine = given.get("rtol"), given.get("atol")
        return f"{rtol if mine[0] is None else mine[0]!r}, {atol if mine[1] is None else mine[1]!r}"

    if None not in (given.get("rtol"), given.get("atol")):
        return pair(0, 0)
    lines = "".join(f'\n            "{name}": ({pair(*both)}),' for name, both in TOLERANCES.items())
    return f"{{{lines}\n        }}.get(str(one.dtype)[6:], ({pair(0.2, 0.2)}))"


def arguments(given: dict[str, Any]) -> str:
    return "".join(f", {name}={literal(value)}" for name, value in given.items() if value is not None)


def module_of(path: str) -> str:
    """The module that holds a setting: up to its ``config``, else torch's own subpackage."""
    parts = path.split(".")
    for index, part in enumerate(parts[:-1]):
        if part.endswith("config"):
            return ".".join(parts[: index + 1])
    return ".".join(parts[:2]) if len(parts) > 2 else "torch"


def bound(source: str) -> set[str]:
    """Names that the model's source binds at its top."""
    table = symtable.symtable(source, "model", "exec")
    return {
        s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()
    }


def wrapped(words: Iterable[str | None]) -> list[str]:
    return textwrap.wrap(" ".join(word for word in words if word), WIDTH)


def comment(lines: Iterable[str]) -> str:
    """Lines as comments; whatever a title holds, it stays one."""
    safe = (" ".join("".join(c if c.isprintable() else " " for c in line).split()) for line in lines)
    return "\n".join(f"# {line}" for line in safe if line)
