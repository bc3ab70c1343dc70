"""A made-up corpus and its records, for the report's tests and benchmark; large and hostile."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import store as records
from harness.case import Case
from harness.cell import make_cell
from harness.outcome import ExceptionInfo, Kind, Outcome, Phase
from harness.store import Attempt, CellRecord, Document, Store

_RELEASES = (
    "2.0.0 2.0.1 2.1.0 2.1.1 2.1.2 2.2.0 2.2.1 2.2.2 2.3.0 2.3.1 2.4.0 2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 "
    "2.8.0 2.9.0 2.9.1 2.10.0 2.10.1 2.11.0 2.12.0 2.12.1 2.13.0 2.13.1 2.14.0 2.14.1 2.14.2 2.14.3 2.14.4 "
    "2.15.0 2.15.1 2.16.0.dev20260601"
)
RELEASES = tuple(_RELEASES.split())

HOSTILE = (
    "</pre></code></title><script>window.broken=1</script><img src=x onerror=window.broken=1>"
    "\x1b[31mred\x1b[0m \u202egnirts\u202c \x00\x07 {{ 7*7 }} {% raw %} ]]> --> '\"` =HYPERLINK(1) | a | b\n"
    "zalgo z\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308 wide \ud800 surrogate " + "unbroken" * 60
)

MACHINES: dict[str, dict[str, Any]] = {
    "linux-x86-64-intel-xeon-platinum": {
        "system": "Linux x86_64", "cpu": "Intel(R) Xeon(R) Platinum 8481C", "cores": 2,
        "memory_bytes": 16 * 2**30, "gpus": [], "driver": None, "compiler": "g++ (Debian 12.2.0-14) 12.2.0",
    },
    "linux-x86-64-amd-epyc-nvidia-h200": {
        "system": "Linux x86_64", "cpu": "AMD EPYC 9554 64-Core Processor", "cores": 16,
        "memory_bytes": 128 * 2**30, "driver": "570.86.15",
        "gpus": [{"name": "NVIDIA H200", "memory_bytes": 139 * 2**30, "capability": "9.0"}],
        "compiler": None,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """How much to make. ``bug`` are the first and last release index with it."""

    cases: int = 2
    triggers: int = 3
    workarounds: int = 10
    releases: int = len(RELEASES)
    devices: tuple[str, ...] = ("cpu", "cuda")
    hostile: bool = True


def case(number: int = 0, plan: Plan | None = None) -> Case:
    """A case with triggers, a neighbour, a control, a claimed repro, workarounds and claims."""
    plan = plan or Plan()
    model = "def forward(x):\n    return torch.relu(x)  # <b>{{ not markup }}</b>\n"
    repros: dict[str, Any] = {
        f"trigger-{i}": {"role": "trigger", "model": model, "inputs": {"x": {"shape": [3]}},
                         "note": "<i>note</i>"}
        for i in range(plan.triggers)
    }  # fmt: skip
    repros["sibling"] = {
        "role": "trigger", "model": model, "inputs": {"x": {"shape": [3]}},
        "failure": [{"kind": ["mismatch"]}],
    }  # fmt: skip
    repros["control"] = {"role": "control", "model": model, "inputs": {"x": {"shape": [3]}}}
    repros["demo"] = {"role": "claimed", "model": model, "inputs": {"x": {"shape": [3]}}}
    triggers = [name for name in repros if name.startswith("trigger")]
    shapes: list[dict[str, Any]] = [
        {"compile": {"backend": "aot_eager"}, "note": "Hostile <script>alert(1)</script> note."},
        {"config": {"torch._dynamo.config.suppress_errors": True}},
        {"compile": {"options": {"no_such_option": False}}},
        {"entry": "eager"},
        {"env": {"TORCH_THING": "1; <x>"}},
        {"model": dict.fromkeys(triggers, model)},
    ]
    works = {
        f"fix-{i}-{['holds', 'some', 'rejected', 'fails', 'breaks', 'flaky'][i % 6]}": shapes[i % len(shapes)]
        for i in range(plan.workarounds)
    }
    claims = [
        {"source": "article-<b>1</b>", "section": f"§{i}", "says": f"The {name} avoids it & more.",
         "expect": {"workaround": name, "verdict": "holds"}}
        for i, name in enumerate(works)
    ] + [
        {"source": "thread", "section": "1", "says": "The demo shows it.",
         "expect": {"repro": "demo", "verdict": "bug"}},
        {"source": "thread", "section": "2", "says": "The newest is fixed.",
         "expect": {"repro": triggers, "verdict": "clean", "torch": "latest"}},
        {"source": "thread", "section": "3", "says": "Shows on the GPU.",
         "expect": {"repro": "trigger-0", "verdict": "bug", "device": "cuda"}},
    ]  # fmt: skip
    return Case.model_validate(
        {
            "id": f"synthetic-{number}",
            "issue": f"https://github.com/pytorch/pytorch/issues/{100000 + number}",
            "title": f"A made-up bug number {number} <script>window.broken=1</script> & its title",
            "summary": "It is made up. </p><script>window.broken=1</script> Nothing of it is real.",
            "devices": ["cpu", "cuda"],
            "failure": [{"kind": "error", "exception": "RuntimeError", "message": "made-up failure"}],
            "repros": repros,
            "workarounds": works,
            "claims": claims,
            "expect": [
                {"repro": "control", "verdict": "clean"},
                {"repro": triggers, "verdict": "clean", "torch": "..2.3"},
            ],
        }
    )


def fill(root: Path, plan: Plan | None = None) -> tuple[Store, list[tuple[Case, Path]]]:
    """Write the records of ``plan`` below ``root``; the store and the cases with their folder."""
    plan = plan or Plan()
    cases = [case(number, plan) for number in range(plan.cases)]
    for number, each in enumerate(cases):
        for device in plan.devices:
            machine = "linux-x86-64-amd-epyc-nvidia-h200" if device == "cuda" else next(iter(MACHINES))
            for index, torch in enumerate(RELEASES[-plan.releases :]):
                if device == "cuda" and index % 3 == 1:
                    continue  # not run
                write(root, document(each, torch, device, machine, _world(plan, number, index), plan))
    # A second machine that repeats two releases, and contradicts the first on one of them.
    for torch in RELEASES[-6:-4]:
        world = _world(plan, 0, 20 if torch == RELEASES[-6] else 0)
        write(root, document(cases[0], torch, "cpu", "linux-x86-64-amd-epyc-nvidia-h200", world, plan))
    return Store(root), [(each, root) for each in cases]


def _world(plan: Plan, number: int, index: int) -> str:
    """What happens on a release: ``setup``, ``clean``, ``bug``, ``other`` or ``unsupported``."""
    if index == 0:
        return "unsupported"
    if index == 7:
        return "setup"
    if index < 9 + number or index > plan.releases - 4 + number * 3:
        return "clean"
    return "other" if index == 15 else "bug"


def document(
    each: Case, torch: str, device: str, machine: str, world: str, plan: Plan | None = None
) -> Document:
    """The record of a case on a release in which ``world`` holds."""
    plan = plan or Plan()
    cells = []
    for name, repro in each.repros.items():
        attempts = _attempts(world, repro.role, name, None, plan)
        cells.append(_cell(each, name, None, attempts))
    if world == "bug":
        for work in each.workarounds:
            for name in each.targets_of(work):
                if each.repros[name].role == "trigger":
                    cells.append(_cell(each, name, work, _attempts(world, "trigger", name, work, plan)))
    failed = world == "setup"
    commit = hashlib.sha1(torch.encode()).hexdigest()
    target = {
        "torch": torch, "build": None if failed else f"{torch}+cu130", "channel": "pypi", "device": device,
        "git_version": None if failed else commit, "python": None if failed else "3.11.9", "cuda": "13.0",
        "numpy": "1.26.4", "wheel": f"torch-{torch}-cp311-cp311-manylinux_2_28_x86_64.whl",
        "wheel_sha256": commit + "0" * 24, "release_date": "2025-01-01T00:00:00Z",
    }  # fmt: skip
    return Document(each.id, machine, records.target_id(target), MACHINES[machine], target, cells)


def write(root: Path, doc: Document) -> None:
    """As ``Store.add`` would leave it, in one go."""
    file = root / doc.machine_id / doc.target_id / f"{doc.case}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    records._write(file, doc)


def _cell(each: Case, repro: str, work: str | None, attempts: list[Attempt]) -> CellRecord:
    cell = make_cell(each, Path(), repro, work)
    return CellRecord(repro, work, cell.digest, dict(cell.spec), attempts)


def bug(message: str = "made-up failure") -> Outcome:
    """The outcome that the case's signature matches."""
    return Outcome(
        kind=Kind.ERROR,
        phase=Phase.RUN,
        exceptions=(
            ExceptionInfo(type="torch._inductor.exc.InductorError", message="RuntimeError: wrapped"),
            ExceptionInfo(type="RuntimeError", message=message, link="cause"),
        ),
        exit_code=1,
        duration_s=7.25,
        stderr_tail="Traceback (most recent call last):\n" + "  File x, line 1\n" * 60 + message,
    )


def ok() -> Outcome:
    output = {"shape": [3], "stride": [1], "dtype": "float32"}
    return Outcome(kind=Kind.OK, phase=Phase.COMPARE, duration_s=3.5, output=output)


def other(text: str = "another failure") -> Outcome:
    return Outcome(
        kind=Kind.ERROR, phase=Phase.COMPILE, exceptions=(ExceptionInfo(type="ValueError", message=text),),
        duration_s=2.0, stderr_tail=text,
    )  # fmt: skip


def _attempts(world: str, role: str, name: str, work: str | None, plan: Plan) -> list[Attempt]:
    text = "made-up failure " + (HOSTILE if plan.hostile else "")
    found: list[Outcome]
    if world == "setup":
        found = [Outcome(kind=Kind.SETUP, phase=Phase.INSTALL, reason="no wheel <for> this Python")]
    elif world == "unsupported":
        found = [Outcome(kind=Kind.UNSUPPORTED, phase=Phase.IMPORT, reason="Python 3.11+ not yet supported")]
    elif work is not None:
        found = [_worked(work, name, text)]
        if work.endswith("flaky"):
            found = [ok(), bug(text), ok()]
    elif role == "trigger" and name == "sibling":
        wrong = Outcome(kind=Kind.MISMATCH, phase=Phase.COMPARE, reason="values differ")
        found = [wrong] if world == "bug" else [ok()]
    elif role == "trigger" and world == "bug":
        found = [bug(text)] if name != "trigger-1" else [ok(), bug(text), ok()]
    elif role == "trigger" and world == "other":
        found = [other(text)]
    else:
        found = [ok()]
    return [Attempt(o, "2026-06-01T12:00:00+00:00", True) for o in found]


def _worked(work: str, name: str, text: str) -> Outcome:
    if work.endswith("rejected"):
        return Outcome(kind=Kind.UNSUPPORTED, phase=Phase.COMPILE, reason="Unexpected optimization option")
    if work.endswith("fails") or (work.endswith("some") and name == "trigger-2"):
        return bug(text)
    return other(text) if work.endswith("breaks") else ok()
