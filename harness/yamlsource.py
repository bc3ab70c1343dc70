"""YAML that remembers where each key stood, so that a refusal can name file, line and key.

Loading is safe by construction: no tags beyond YAML's own scalars, no aliases (a case has no use for
them and they are how a small file becomes a large one), no duplicate keys, bounded size and depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.errors import CaseError

MAX_BYTES = 1_000_000
MAX_DEPTH = 40

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlSource:
    """A parsed document, with the 1-based line of every key and item."""

    file: str
    data: Any
    lines: dict[Path_, int] = field(default_factory=dict)

    def line_of(self, path: Path_) -> int | None:
        """Line of ``path``, or of the nearest ancestor that stands in the file."""
        for cut in range(len(path), -1, -1):
            if path[:cut] in self.lines:
                return self.lines[path[:cut]]
        return None

    def error(self, message: str, path: Path_, hint: str | None = None) -> CaseError:
        """A CaseError about the value at ``path``."""
        key = ".".join(str(part) for part in path) or None
        return CaseError(message, file=self.file, line=self.line_of(path), key=key, hint=hint)


def load_yaml(file: Path, shown_as: str | None = None) -> YamlSource:
    """Read one YAML mapping.

    Raises:
        CaseError: unreadable, not UTF-8, too large, not YAML, or not a mapping at the top.
    """
    name = shown_as or str(file)
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as exc:
        raise CaseError(f"cannot be read: {exc.strerror or exc}", file=name) from exc
    if len(raw) > MAX_BYTES:
        raise CaseError(f"is larger than {MAX_BYTES:,} bytes, which no case needs", file=name)
    return parse_yaml(raw, name)


def parse_yaml(raw: bytes, name: str) -> YamlSource:
    """Parse ``raw`` as one YAML mapping; see :func:`load_yaml`."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = raw[: exc.start].count(b"\n") + 1
        raise CaseError("is not UTF-8 text", file=name, line=line) from exc
    try:
        _refuse_aliases_and_depth(text, name)
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            lines: dict[Path_, int] = {}
            data = _build(loader, node, (), lines, name) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = exc.problem or exc.context or "cannot be parsed"
        raise CaseError(
            f"is not valid YAML: {problem}", file=name, line=mark.line + 1 if mark else None
        ) from exc
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, TypeError, RecursionError) as exc:
        # What PyYAML's constructors raise at values that their tag does not fit, such as !!int "".
        said = (str(exc).splitlines() or [type(exc).__name__])[0]
        raise CaseError(f"is not valid YAML: {said[:200]}", file=name) from exc
    if not isinstance(data, dict):
        raise CaseError("must be a mapping of keys such as id, title and repros", file=name, line=1)
    return YamlSource(name, data, lines)


def _line(event: yaml.Event) -> int | None:
    return event.start_mark.line + 1 if event.start_mark is not None else None


def _refuse_aliases_and_depth(text: str, name: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise CaseError(
                "YAML anchors and aliases are not allowed in a case",
                file=name,
                line=_line(event),
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise CaseError(
                    f"is nested deeper than {MAX_DEPTH} levels",
                    file=name,
                    line=_line(event),
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _build(loader: yaml.SafeLoader, node: yaml.Node, path: Path_, lines: dict[Path_, int], name: str) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str | int | float | bool):
                raise CaseError("a key must be a plain word", file=name, line=line)
            # Torch versions and sizes are natural keys; YAML reads 2.10 as a number, so only
            # strings are kept as they stand and everything else is named in the refusal.
            if not isinstance(key, str):
                raise CaseError(
                    f"key {key_node.value!r} must be quoted, else YAML reads it as {key!r}",
                    file=name,
                    line=line,
                )
            if key in result:
                raise CaseError(f"key {key!r} stands twice", file=name, line=line, key=key)
            lines[(*path, key)] = line
            result[key] = _build(loader, value_node, (*path, key), lines, name)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, item, (*path, index), lines, name) for index, item in enumerate(node.value)]
    value = loader.construct_object(node, deep=True)
    if isinstance(value, int) and abs(value) >= 2**63:
        raise CaseError(
            "a number this large fits no tensor",
            file=name,
            line=node.start_mark.line + 1,
            key=".".join(map(str, path)),
        )
    return value
