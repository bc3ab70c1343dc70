"""What a repro, a workaround or a spec is, as a person would type it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.case import Case, CompileArgs, Repro, SameInput, TensorInput, Workaround

_DEFAULTS = {"dtype": "float32", "fill": "randn", "low": 0, "high": 10, "requires_grad": False}


@dataclass(frozen=True)
class Source:
    """A piece of code with a heading."""

    title: str
    code: str


def settings(work: Workaround) -> str:
    """The settings of a workaround as code; empty where it changes the model alone."""
    lines = [f"export {key}={_shell(value)}" for key, value in work.env.items()]
    lines += [f"{key} = {value!r}" for key, value in work.config.items()]
    if work.compile is not None:
        lines.append(_compile_line(work.compile))
    if work.entry == "eager":
        lines.append("f(...)  # called directly, not through torch.compile")
    elif work.entry == "export":
        lines.append("torch.export.export(...)  # in place of torch.compile")
    elif work.entry == "compile":
        lines.append("torch.compile(f)")
    lines += [f"{name} = {_input(value)}" for name, value in work.inputs.items()]
    return "\n".join(lines)


def sources(work: Workaround, case: Case, name: str) -> list[Source]:
    """The changed models of a workaround, those of triggers first."""
    if isinstance(work.model, str):
        return [Source("the model instead", work.model.rstrip())]
    models = work.model or {}
    order = sorted(models, key=lambda repro: case.repros[repro].role != "trigger")
    return [Source(repro, models[repro].rstrip()) for repro in order if repro in case.targets_of(name)]


def compile_call(repro: Repro) -> str:
    """How a repro is run."""
    if repro.entry == "eager":
        return "forward(...)  # eager: no torch.compile in it"
    if repro.entry == "export":
        return "torch.export.export(...)"
    lines = [f"{key} = {value!r}" for key, value in repro.config.items()]
    return "\n".join([*lines, _compile_line(repro.compile)])


def inputs(repro: Repro) -> list[str]:
    """The inputs, one a line."""
    return [f"{name} = {_input(value)}" for name, value in repro.inputs.items()]


def changed(spec: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """What a workaround's recorded spec has otherwise than its baseline's."""
    keys = dict.fromkeys([*base, *spec])
    return {key: spec.get(key) for key in keys if spec.get(key) != base.get(key)}


def _compile_line(arguments: CompileArgs) -> str:
    given = arguments.model_dump(exclude_unset=True)
    words = [f"{key}={value!r}" for key, value in given.items() if value is not None]
    gone = [key for key, value in given.items() if value is None]
    note = f"  # without {' and '.join(gone)}" if gone else ""
    return f"torch.compile({', '.join(['f', *words])}){note}"


def _input(value: Any) -> str:
    if isinstance(value, SameInput):
        return f"{value.same_as}  # the very same tensor"
    if not isinstance(value, TensorInput):
        return repr(value)
    given = value.model_dump(exclude_none=True)
    shape = "(" + ", ".join(map(str, given.pop("shape"))) + ("," if len(value.shape) == 1 else "") + ")"
    rest = [f"{key}={item!r}" for key, item in given.items() if _DEFAULTS.get(key) != item]
    kind = value.fill if value.fill != "randint" else f"randint {value.low}..{value.high}"
    rest = [word for word in rest if not word.startswith(("fill=", "low=", "high="))]
    return f"{kind} {shape} {value.dtype}" + (f" ({', '.join(rest)})" if rest else "")


def _shell(value: str) -> str:
    import shlex

    return shlex.quote(value)
