"""YAML to cases: loading, checking of names, and refusals in one sentence with file, line and key."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.case import (
    Case,
    Claim,
    CompileArgs,
    Expectation,
    Input,
    Repro,
    SameInput,
    TensorInput,
    Timing,
    TimingVariant,
    Tolerance,
    Workaround,
)
from harness.errors import CaseError
from harness.outcome import Signature
from harness.yamlsource import YamlSource, load_yaml


def load_case(file: Path, shown_as: str | None = None) -> Case:
    """Read and check one case file.

    Raises:
        CaseError: malformed; the message names file, line, key and what would be right.
    """
    return build_case(load_yaml(file, shown_as), file.parent)


def build_case(source: YamlSource, folder: Path) -> Case:
    """Check a parsed document; ``folder`` is where its scripts are looked for."""
    try:
        case = Case.model_validate(source.data)
    except ValidationError as exc:
        raise _explain(source, exc) from exc
    except RecursionError as exc:
        raise source.error("is nested too deeply", ()) from exc
    _check_names(case, source)
    _check_scripts(case, source, folder)
    return case


def load_corpus(folder: Path, names: list[str] | None = None) -> list[Case]:
    """All cases of ``folder``, or those named by id or by path, in that order.

    Raises:
        CaseError: a file is malformed, two share an id, or a named case is not there.
    """
    files = sorted(folder.glob("*.yaml")) if folder.is_dir() else []
    if not names:
        if not files:
            raise CaseError("holds no case (*.yaml)", file=str(folder))
        cases = [load_case(file) for file in files]
    else:
        cases = []
        for name in names:
            path = Path(name)
            if path.suffix in {".yaml", ".yml"}:
                cases.append(load_case(path))
                continue
            known = {file.stem: file for file in files}
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                close = close or [stem for stem in known if name.lstrip("#") in stem][:1]
                hint = f"did you mean {close[0]}?" if close else "known: " + ", ".join(known)
                raise CaseError(f"no case is named {name!r}", file=str(folder), hint=hint)
            cases.append(load_case(known[name]))
    seen: dict[str, Case] = {}
    for case in cases:
        if case.id in seen and seen[case.id] != case:
            raise CaseError(f"two cases have the id {case.id!r}", file=str(folder))
        seen[case.id] = case
    return list(seen.values())


def _check_names(case: Case, source: YamlSource) -> None:
    def known(name: str, names: dict[str, Any], what: str, path: tuple[str | int, ...]) -> None:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]}?" if close else "known: " + ", ".join(names)
            raise source.error(f"no {what} is named {name!r}", path, hint)

    if source.data.get("id") and Path(source.file).suffix == ".yaml":
        stem = Path(source.file).stem
        if stem != case.id:
            raise source.error(f"must be the name of the file, {stem!r}", ("id",))
    for name, work in case.workarounds.items():
        at: tuple[str | int, ...] = ("workarounds", name)
        for index, repro in enumerate(work.applies_to or []):
            known(repro, case.repros, "repro", (*at, "applies_to", index))
        if isinstance(work.model, dict):
            for repro in work.model:
                known(repro, case.repros, "repro", (*at, "model", repro))
            for repro in work.applies_to or []:
                if repro not in work.model:
                    raise source.error(f"has no source for repro {repro!r}", (*at, "model"))
    groups: list[tuple[tuple[str | int, ...], Expectation]] = [
        (("expect", i), item) for i, item in enumerate(case.expect)
    ]
    for i, claim in enumerate(case.claims):
        groups += [(("claims", i, "expect", j), item) for j, item in enumerate(claim.expect)]
    for at, item in groups:
        for repro in item.repro or []:
            known(repro, case.repros, "repro", (*at, "repro"))
        if item.workaround is not None:
            known(item.workaround, case.workarounds, "workaround", (*at, "workaround"))
    for name, model in case.repros.items():
        _check_same(source, model.inputs, ("repros", name, "inputs"), model.inputs)
    for name, work in case.workarounds.items():
        for repro in case.targets_of(name):
            merged = {**case.repros[repro].inputs, **work.inputs}
            _check_same(source, merged, ("workarounds", name, "inputs"), work.inputs)


def _check_same(
    source: YamlSource, inputs: dict[str, Input], at: tuple[str | int, ...], own: dict[str, Input]
) -> None:
    """``same_as`` names an input that is made before it."""
    made: list[str] = []
    for key, value in inputs.items():
        if isinstance(value, SameInput) and value.same_as not in made:
            where = "stands below it" if value.same_as in inputs else "does not exist"
            hint = "it can name: " + ", ".join(made) if made else "write the input that it names above it"
            raise source.error(f"same_as: {value.same_as!r} {where}", (*at, key) if key in own else at, hint)
        made.append(key)


def _check_scripts(case: Case, source: YamlSource, folder: Path) -> None:
    for name, repro in case.repros.items():
        if repro.script is None:
            continue
        path = ("repros", name, "script")
        try:
            target = (folder / repro.script).resolve()
            inside, there = target.is_relative_to(folder.resolve()), target.is_file()
        except (OSError, ValueError, RuntimeError) as exc:  # too long, a NUL, a loop of links
            raise source.error("is no name of a file", path) from exc
        if not inside:
            raise source.error("must lie in the folder of the case file", path)
        if not there:
            raise source.error(f"no such file: {repro.script}", path)


def _explain(source: YamlSource, exc: ValidationError) -> CaseError:
    """The first complaint as one sentence about a key that stands in the file."""
    issues = exc.errors(include_url=False, include_input=True)
    # A union reports complaints for each member. A mapping was not meant to be a number, nor a member
    # that misses keys, where another misses none; of the rest the deepest is about what was meant.
    mappings = [
        i for i in issues if isinstance(i["input"], dict) and i["type"].endswith(("_type", "_required"))
    ]
    issues = [item for item in issues if item not in mappings] or issues
    absent = [item["loc"][:-1] for item in issues if item["type"] == "missing"]
    meant = [item for item in issues if not any(item["loc"][: len(loc)] == loc for loc in absent)]
    issue = max(meant or issues, key=lambda item: (item["type"] != "missing", len(item["loc"])))
    path = _real_path(source.data, issue["loc"])
    kind, message = issue["type"], issue["msg"]
    hint = None
    if kind == "extra_forbidden":
        key = str(issue["loc"][-1])
        message = f"unknown key {key!r}"
        siblings = _known_keys(issues, path)
        close = difflib.get_close_matches(key, siblings, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else "known: " + ", ".join(sorted(siblings))
    elif kind == "missing":
        message = f"key {str(issue['loc'][-1])!r} is missing"
    elif kind == "value_error":
        message = message.removeprefix("Value error, ")
    elif kind == "literal_error":
        message = f"must be {issue['ctx']['expected']}, not {issue['input']!r}"
    else:
        shown = repr(issue["input"])
        message = f"{message[0].lower()}{message[1:]}, not {shown[:60]}"
    return source.error(message, path, hint)


def _real_path(data: Any, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """``loc`` without the parts that pydantic adds for union members and key checks."""
    path: list[str | int] = []
    here: Any = data
    for part in loc:
        inside = isinstance(here, dict) and part in here
        if inside or (isinstance(here, list) and isinstance(part, int) and part < len(here)):
            here = here[part]
            path.append(part)
    return tuple(path)


def _known_keys(issues: list[Any], path: tuple[str | int, ...]) -> list[str]:
    """Keys that the model at ``path`` knows."""
    models: dict[str, type[BaseModel]] = {
        "repros": Repro,
        "workarounds": Workaround,
        "claims": Claim,
        "expect": Expectation,
        "failure": Signature,
        "unsupported": Signature,
        "inputs": TensorInput,
        "compile": CompileArgs,
        "tolerance": Tolerance,
        "timings": Timing,
        "variants": TimingVariant,
    }
    model: type[BaseModel] = Case
    for part in path[:-1] if path else ():
        model = models.get(str(part), model)
    return list(model.model_fields)
