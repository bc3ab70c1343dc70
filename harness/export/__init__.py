"""``harness export``: a cell as one file that needs torch alone, to paste into an issue.

The file does what the worker does (``worker/repro.py``, ``worker/compare.py``) and judges as
:class:`harness.outcome.Signature` does, written out for one cell with nothing that it does not need.
It exits 1 where the failure signature matches, 0 where the model is clean, 2 where it fails in
another way or cannot run. Patterns are searched in the formatted traceback, or in stderr where the
bug ends the process; what torch logs besides is not looked at.
"""

from __future__ import annotations

import ast

from harness.cell import Cell
from harness.export.literals import comment, module_of, wrapped
from harness.export.writer import Writer
from harness.outcome import Signature


def export_cell(cell: Cell, device: str) -> str:
    """The source of one file that shows what ``cell`` does on ``device`` (``cpu`` or ``cuda``)."""
    if cell.model.script:
        return _script(cell)
    return Writer(cell, device).source()


def _script(cell: Cell) -> str:
    """The script itself below a header; what the cell sets stands before its first statement."""
    assert cell.model.script is not None
    source = (cell.folder / cell.model.script).read_text("utf-8", "replace")
    signs = "; or ".join(_in_words(s) for s in cell.case.signatures(cell.repro))
    what = f"Repro {cell.repro!r}" + (f" with the workaround {cell.workaround!r}" if cell.workaround else "")
    words = [f"{what}, a script.", cell.model.note, f"The bug shows where it ends by {signs}."]
    header = comment([cell.case.title, cell.case.issue or "", *wrapped(words)])
    lines: list[str] = []
    if cell.spec["env"]:
        lines += ["import os", *(f"os.environ[{k!r}] = {v!r}" for k, v in cell.spec["env"].items())]
    if cell.spec["config"]:
        lines += [f"import {name}" for name in sorted({module_of(path) for path in cell.spec["config"]})]
        lines += [f"{path} = {value!r}" for path, value in cell.spec["config"].items()]
    body = source.splitlines()
    at = _first_statement(source)
    return "\n".join([header, "", *body[:at], *lines, *body[at:], ""])


def _first_statement(source: str) -> int:
    """Line index after the docstring and the imports from ``__future__``."""
    at = 0
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, ValueError):
        return 0
    for index, node in enumerate(nodes):
        doc = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not doc and not future:
            break
        at = node.end_lineno or at
    return at


def _in_words(signature: Signature) -> str:
    words = [" or ".join(signature.kind)]
    for name, values in (
        ("exception", signature.exception),
        ("message", signature.message),
        ("signal", signature.signal),
        ("exit code", signature.exit_code),
    ):
        if values:
            words.append(f"{name} {' or '.join(map(str, values))}")
    return ", ".join(words)
