"""What a case is: one issue with its repros, workarounds, claims, expectations and timings.

Every model refuses unknown keys. ``casefile`` reads cases from YAML and says in one sentence what is
wrong with a file. The JSON schema of these models is ``cases/schema.json``.
"""

from __future__ import annotations

import ast
import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from harness.errors import UsageError
from harness.outcome import Signature, Verdict, WorkaroundVerdict
from harness.ranges import ReleaseRange

Scalar = bool | int | float | str | None
Device = Literal["cpu", "cuda"]
Role = Literal["trigger", "control", "claimed"]
Entry = Literal["compile", "eager", "export"]
VerdictName = Literal["bug", "clean", "other", "unknown", "holds", "fails", "breaks", "rejected", "moot"]
Compare = Literal["values", "shape", "dtype", "stride", "raises"]

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CONFIG_KEY = re.compile(r"torch(\.[A-Za-z_][A-Za-z0-9_]*)+")


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError("must be lower-case letters, digits, '.', '_' and '-', at most 64 of them")
    return value


def _python(source: str) -> str:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as exc:
        line = getattr(exc, "lineno", None)
        where = f" (line {line} of the source)" if line else ""
        raise ValueError(f"is not valid Python: {getattr(exc, 'msg', exc)}{where}") from exc
    except (RecursionError, MemoryError) as exc:
        raise ValueError("is not valid Python: nested too deeply") from exc
    return source


def _release_range(value: str) -> str:
    try:
        ReleaseRange.parse(value)
    except UsageError as exc:
        raise ValueError(exc.message) from exc
    return value


def _env(value: dict[str, Any]) -> dict[str, Any]:
    for key in value:
        if not ENV_NAME.fullmatch(key):
            raise ValueError(f"{key!r} is no name of an environment variable")
    return value


def _config(value: dict[str, Any]) -> dict[str, Any]:
    for key in value:
        if not CONFIG_KEY.fullmatch(key):
            raise ValueError(f"{key!r} must be a full path such as torch._inductor.config.max_autotune")
    return value


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Name = Annotated[str, AfterValidator(_name)]
PythonSource = Annotated[str, AfterValidator(_python)]
RangeText = Annotated[str, AfterValidator(_release_range)]
EnvVars = Annotated[dict[str, str], AfterValidator(_env)]
ConfigValues = Annotated[dict[str, Scalar | list[Scalar] | dict[str, Scalar]], AfterValidator(_config)]


class Strict(BaseModel):
    """Unknown keys are errors; values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TensorInput(Strict):
    """A tensor argument. ``shape`` in elements; ``stride`` likewise, contiguous unless given."""

    shape: list[Annotated[int, Field(ge=0)] | str]
    dtype: str = "float32"
    fill: Literal["randn", "rand", "zeros", "ones", "arange", "full", "randint", "empty"] = "randn"
    value: float | int | bool | None = None
    low: int = 0
    high: int = 10
    stride: list[Annotated[int, Field(ge=0)]] | None = None
    requires_grad: bool = False
    device: Device | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.fill == "full" and self.value is None:
            raise ValueError("fill: full needs a value")
        if self.stride is not None and len(self.stride) != len(self.shape):
            raise ValueError("stride must have as many entries as shape")
        return self


class SameInput(Strict):
    """The very same object as another input: ``{same_as: x}``."""

    same_as: str


Input = TensorInput | SameInput | Scalar | list[Scalar]


class CompileArgs(Strict):
    """Arguments of ``torch.compile``; a key given as null is left out."""

    mode: str | None = None
    backend: str | None = None
    dynamic: bool | None = None
    fullgraph: bool | None = None
    options: dict[str, Scalar] | None = None
    disable: bool | None = None


class Tolerance(Strict):
    """|actual - expected| <= atol + rtol * |expected|."""

    rtol: Annotated[float, Field(ge=0)] | None = None
    atol: Annotated[float, Field(ge=0)] | None = None


class Repro(Strict):
    """A small model, its inputs and how it is compiled."""

    role: Role
    note: str | None = None
    model: PythonSource | None = None
    script: str | None = None
    inputs: dict[str, Input] = {}
    entry: Entry = "compile"
    compile: CompileArgs = CompileArgs()
    config: ConfigValues = {}
    env: EnvVars = {}
    compare: list[Compare] = ["values", "shape", "dtype"]
    tolerance: Tolerance = Tolerance()
    failure: list[Signature] | None = None
    devices: list[Device] | None = None
    seed: int = 0
    timeout: Annotated[float, Field(gt=0, le=86_400)] | None = None
    trials: Annotated[int, Field(ge=1, le=1000)] = 1

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if (self.model is None) == (self.script is None):
            raise ValueError("needs exactly one of model and script")
        if self.model is not None and not _defines(self.model, {"forward", "run", "Model"}):
            raise ValueError(
                "model must define forward(...), class Model(torch.nn.Module) or run(compile, ...)"
            )
        return self


class Workaround(Strict):
    """A named change to a repro. What is not named stays as the repro has it."""

    note: str | None = None
    compile: CompileArgs | None = None
    config: ConfigValues = {}
    env: EnvVars = {}
    inputs: dict[str, Input] = {}
    model: PythonSource | dict[str, PythonSource] | None = None
    entry: Entry | None = None
    applies_to: list[str] | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not (self.compile or self.config or self.env or self.inputs or self.model or self.entry):
            raise ValueError("changes nothing: give compile, config, env, inputs, model or entry")
        return self


class Expectation(Strict):
    """A predicted verdict of a repro, or of a workaround on repros, on releases and devices."""

    repro: Annotated[list[str], BeforeValidator(_as_list)] | None = None
    workaround: str | None = None
    verdict: Annotated[list[VerdictName], BeforeValidator(_as_list), Field(min_length=1)]
    torch: RangeText | None = None
    device: Device | None = None

    @model_validator(mode="after")
    def _verdict_fits(self) -> Self:
        allowed = [str(v) for v in (WorkaroundVerdict if self.workaround else Verdict)]
        for verdict in self.verdict:
            if verdict not in allowed:
                what = "a workaround" if self.workaround else "a repro"
                raise ValueError(f"{verdict!r} is no verdict of {what}; those are " + ", ".join(allowed))
        if self.repro is None and self.workaround is None:
            raise ValueError("needs a repro or a workaround")
        return self


class Claim(Strict):
    """What a source says, where, and the verdicts that it predicts."""

    source: str
    section: str
    says: str
    expect: Annotated[list[Expectation], BeforeValidator(_as_list), Field(min_length=1)]


class TimingVariant(Strict):
    """One way to run the timed model. ``against`` names the variant that it is a workaround of: its
    time is told as a multiple of that one's too."""

    entry: Entry = "compile"
    compile: CompileArgs = CompileArgs()
    config: ConfigValues = {}
    model: PythonSource | None = None
    against: str | None = None


class Timing(Strict):
    """Compiled against eager. Shapes may name the keys of ``sizes``; flops and bytes are formulas
    over these (``itemsize`` stands for the bytes of one element)."""

    model: PythonSource
    inputs: dict[str, TensorInput]
    sizes: dict[str, dict[str, Annotated[int, Field(ge=1)]]]
    dtypes: list[str] = ["float32"]
    devices: list[Device] | None = None
    variants: dict[str, TimingVariant]
    flops: str | None = None
    bytes: str | None = None
    note: str | None = None


class Case(Strict):
    """One issue."""

    id: Name
    issue: str | None = None
    title: str
    summary: str | None = None
    devices: list[Device] = ["cpu"]
    packages: list[str] = []
    failure: Annotated[list[Signature], Field(min_length=1)]
    unsupported: list[Signature] = []
    repros: Annotated[dict[Name, Repro], Field(min_length=1)]
    workarounds: dict[Name, Workaround] = {}
    claims: list[Claim] = []
    expect: list[Expectation] = []
    timings: dict[Name, Timing] = {}

    def signatures(self, repro: str) -> list[Signature]:
        """What counts as this bug in ``repro``: its own signatures, else the case's."""
        own = self.repros[repro].failure
        return self.failure if own is None else own

    def devices_of(self, repro: str) -> list[str]:
        """Devices that ``repro`` is for."""
        own = self.repros[repro].devices
        return list(self.devices if own is None else own)

    def targets_of(self, workaround: str) -> list[str]:
        """Names of the repros that ``workaround`` is tried on: triggers and claimed ones unless it
        names its own."""
        own = self.workarounds[workaround].applies_to
        if own is not None:
            return list(own)
        names = [n for n, repro in self.repros.items() if repro.role != "control"]
        model = self.workarounds[workaround].model
        return [n for n in names if n in model] if isinstance(model, dict) else names


def _defines(source: str, names: set[str]) -> bool:
    tree = ast.parse(source)
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = {node.name for node in tree.body if isinstance(node, kinds)}
    found |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return bool(found & names)
