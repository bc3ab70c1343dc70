"""Failure signatures as Python conditions, which say what :class:`harness.outcome.Signature` says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.export.literals import raw, set_of
from harness.outcome import Kind, Phase, Signature

# Where the harness's phases are in the exported file; `settings` is the file's own: what torch
# refuses there says nothing about the bug.
_STAGES = {
    Phase.IMPORT: "import",
    Phase.BUILD: "build",
    Phase.EAGER: "eager",
    Phase.COMPILE: "compiled",
    Phase.RUN: "compiled",
    Phase.COMPARE: "compare",
}


class Judge:
    """The conditions under which the exported file says that the bug shows."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.signatures = signatures
        crashes = {Kind.SIGNAL, Kind.TIMEOUT}
        self.watched = any(
            set(s.kind) & crashes or s.exit_code or (Kind.OK in s.kind and s.message) for s in signatures
        )
        self.watch_stage = any(s.phase is not None and set(s.kind) & crashes for s in signatures)
        self.mismatches = any(Kind.MISMATCH in s.kind for s in signatures)

    def error_condition(self) -> str:
        """Python that is true where a raised exception is the bug; empty where none can be."""
        found = []
        for signature in self.signatures:
            kinds = set(signature.kind) & {Kind.ERROR, Kind.OOM}
            if not kinds or signature.signal or signature.exit_code:
                continue
            parts = _stage_condition(signature, "compiling(error)")
            if parts is None:
                continue
            if kinds == {Kind.OOM}:
                parts.append("out_of_memory(error)")
            elif kinds == {Kind.ERROR} and not signature.message:
                parts.append("not out_of_memory(error)")
            if signature.exception:
                parts.append(f"names & {set_of(signature.exception)}")
            if signature.message:
                parts.append(_search(signature.message, "text"))
            found.append(parts)
        return _any(found)

    def mismatch_code(self) -> str:
        """Exit code for a comparison that failed."""
        found = []
        for signature in self.signatures:
            phases = signature.phase
            if Kind.MISMATCH not in signature.kind or signature.exception:
                continue
            if signature.signal or signature.exit_code:
                continue
            if phases is None or Phase.COMPARE in phases:
                found.append([_search(signature.message, "reason")] if signature.message else [])
        return _either(found)

    def crash_conditions(self, kind: Kind) -> list[list[str]]:
        found = []
        for signature in self.signatures:
            if kind not in signature.kind or signature.exception or signature.exit_code:
                continue
            if kind is Kind.TIMEOUT and signature.signal:
                continue
            parts = _stage_condition(signature, "compiling")
            if parts is None:
                continue
            if signature.phase is None:
                parts = []
            if signature.signal:
                parts.append(f"name in {set_of(signature.signal)}")
            if signature.message:
                parts.append(_search(signature.message, "text"))
            found.append(parts)
        return found

    def signal_code(self) -> str:
        return _either(self.crash_conditions(Kind.SIGNAL))

    def timeout_code(self) -> str:
        return _either(self.crash_conditions(Kind.TIMEOUT))

    def code_lines(self) -> list[str]:
        """What else the watching process looks at: hard exits, and warnings of a run that is fine."""
        lines = []
        for signature in self.signatures:
            search = f" and {_search(signature.message, 'text')}" if signature.message else ""
            if Kind.ERROR in signature.kind and signature.exit_code and not signature.exception:
                codes = ", ".join(map(str, signature.exit_code))
                lines += [f"if code in ({codes},){search}:", '    finish(1, "exit code %d" % code)']
            elif Kind.OK in signature.kind and signature.message and not signature.exception:
                lines += [f"if code == 0{search}:", '    finish(1, "it ran, and said so on stderr")']
        return lines


def _stage_condition(signature: Signature, compiling: str) -> list[str] | None:
    """What ``signature`` asks of the stage; None where no stage of the file can be meant."""
    if signature.phase is None:
        return ['stage != "settings"']
    phases = set(signature.phase)
    stages = sorted({_STAGES[phase] for phase in phases if phase in _STAGES})
    if not stages:
        return None
    words = " ".join(f'"{stage}"' for stage in stages)
    test = f"stage == {words}" if len(stages) == 1 else f"stage in ({words.replace(' ', ', ')})"
    halves = phases & {Phase.COMPILE, Phase.RUN}
    if len(halves) == 1:
        half = compiling if Phase.COMPILE in phases else f"not {compiling}"
        return [test, half] if len(stages) == 1 else [test, f'(stage != "compiled" or {half})']
    return [test]


def anchored(signatures: Iterable[Signature]) -> bool:
    """Whether a pattern asks for the start of the text, which for the harness is the exception."""
    return any("^" in message or r"\A" in message for s in signatures for message in s.message or ())


def names_expression(signatures: Iterable[Signature]) -> str:
    dotted = any("." in name for s in signatures for name in s.exception or ())
    plain = "{type(link).__name__ for link in chain(error)}"
    if not dotted:
        return plain
    return plain + ' | {type(link).__module__ + "." + type(link).__qualname__ for link in chain(error)}'


def _either(conditions: list[list[str]]) -> str:
    """Exit code as Python: 1 where a condition holds."""
    if not conditions:
        return "2"
    return "1" if [] in conditions else f"1 if {_any(conditions)} else 2"


def _any(conditions: list[list[str]]) -> str:
    """Any of the conditions, each a list of what must hold together; a long one over several lines."""

    def written(join: str) -> str:
        parts = [f"{join}and ".join(together) for together in conditions]
        if len(parts) > 1:
            parts = [f"({part})" if " and " in part else part for part in parts]
        return f"{join}or ".join(parts)

    text = written(" ")
    return text if len(text) < 90 and "\n" not in text else f"(\n        {written(chr(10) + ' ' * 8)}\n    )"


def _search(patterns: Sequence[str], where: str) -> str:
    if len(patterns) == 1:
        return f"re.search({raw(patterns[0])}, {where})"
    lines = "".join(f"\n            {raw(pattern)}," for pattern in patterns)
    return f"any(re.search(words, {where}) for words in ({lines}\n        ))"
