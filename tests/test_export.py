"""Exported files are readable Python that agrees with the harness."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from conftest import chosen
from engine import world
from fakeindex import Release, error, exits

from harness.case import Case
from harness.casefile import build_case, load_case
from harness.cell import Cell, make_cell, repro_cells, workaround_cells
from harness.due import Options, run_attempt
from harness.export import export_cell
from harness.outcome import Kind, Outcome, matched
from harness.run import Server
from harness.yamlsource import parse_yaml

HERE = Path(__file__).parent
CORPUS = sorted((HERE.parent / "cases").glob("*.yaml"))
OWN = sorted((HERE / "cases").glob("*.yaml"))

BROKEN = Release(
    "2.8.0",
    behaviours={
        "offset": "values",
        "reorder": "stride",
        "second": error("stale cache entry", from_compilation=2),
        "segfault": "sigsegv",
        "hang": "hang",
        "flaky": error("lost the race"),
        "unrelated": error("something else"),
        "script_error": "run-error",
        "script_exit": exits(3),
        "bug": error("deep down", exception="KeyError"),
        "bare": error("bare", phase="run"),
        "gone": "missing",
        "shape": "shape",
        "dtype": "dtype",
        "nan": {"kind": "values", "how": "nan", "first": 1, "backends": ["inductor"]},
    },
)


def cells_of(file: Path, workarounds: bool = True) -> list[Cell]:
    """Every repro of a case file, and every workaround on it."""
    case = load_case(file)
    found = repro_cells(case, file.parent)
    if workarounds:
        found += [w for cell in list(found) for w in workaround_cells(case, file.parent, cell.repro)]
    return found


def expected_code(outcome: Outcome, cell: Cell) -> int:
    """What the exported file must exit with where the harness saw ``outcome``."""
    if matched(outcome, cell.case.signatures(cell.repro)) is not None:
        return 1
    return 0 if outcome.kind is Kind.OK else 2


def run_export(
    cell: Cell, python: Path, folder: Path, device: str = "cpu"
) -> subprocess.CompletedProcess[str]:
    """The exported file, run as a stranger would."""
    file = folder / f"{cell.name}.py"
    file.write_text(export_cell(cell, device))
    environ = {k: v for k, v in os.environ.items() if k in ("FAKE_STATE", "LANG", "HOME")}
    environ["PATH"] = f"{python.parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(python), str(file)], capture_output=True, text=True, timeout=600, env=environ, cwd=folder
    )


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    with world(tmp_path_factory.mktemp("export"), BROKEN, Release("2.9.0")) as found:
        yield found


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("file", [*CORPUS, *OWN], ids=lambda file: file.stem)
def test_every_cell_of_every_case_exports_as_python_that_is_short_and_names_no_harness(
    file: Path, device: str
) -> None:
    for cell in cells_of(file):
        text = export_cell(cell, device)
        compile(text, cell.label, "exec")
        assert "import harness" not in text
        assert "from harness" not in text
        if not cell.model.script:
            assert cell.spec["model"].strip() in text
            own = len(cell.spec["model"].splitlines())
            assert sum(bool(line.strip()) for line in text.splitlines()) - own < 140, cell.label


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.stem)
@pytest.mark.parametrize("version", ["2.8.0", "2.9.0"])
def test_exports_exit_as_the_harness_judges(
    file: Path, version: str, pythons: dict[str, Path], tmp_path: Path
) -> None:
    python = pythons[version]
    cells = [c for c in cells_of(file) if c.repro != "hang" or c.workaround is None]
    check_agreement(cells, python, tmp_path)


def check_agreement(cells: list[Cell], python: Path, tmp_path: Path) -> None:
    """Harness and exports say the same of every cell."""
    server = Server(python, tmp_path / "home", warm=False)
    try:

        def judge(cell: Cell) -> str | None:
            outcome = run_attempt(server, cell, "cpu", 0, Options(fork=False))
            done = run_export(cell, python, tmp_path)
            wanted = expected_code(outcome, cell)
            if cell.model.script:
                wanted = outcome.exit_code if outcome.exit_code is not None else -1
            if done.returncode == wanted:
                return None
            return f"{cell.label}: {outcome.kind} {outcome.message}, wanted {wanted}: {done}"

        with ThreadPoolExecutor(4) as pool:
            wrong = [line for line in pool.map(judge, cells) if line]
    finally:
        server.close()
    assert not wrong, "\n".join(wrong)


# One repro a line of thought, most of them awkward.
AWKWARD = r"""
wrapped-by-type:
  model: |
    def forward(x):
        return torch.fake.maybe('bug', x + 1)
  failure:
  - {kind: error, exception: torch._inductor.exc.InductorError}
wrapped-inner-type:
  model: |
    def forward(x):
        return torch.fake.maybe('bug', x + 1)
  failure:
  - {kind: error, exception: KeyError, message: deep down}
while-compiling:
  model: |
    def forward(x):
        return torch.fake.maybe('bug', x + 1)
  failure:
  - {kind: error, phase: compile}
not-while-running:
  model: |
    def forward(x):
        return torch.fake.maybe('bug', x + 1)
  failure:
  - {kind: error, phase: run}
while-running:
  model: |
    def forward(x):
        return torch.fake.maybe('bare', x + 1)
  failure:
  - kind: error
    phase: run
    message: [nothing, '^RuntimeError: bare']
one-of-two-signatures:
  model: |
    def forward(x):
        return torch.fake.maybe('bare', x + 1)
  failure:
  - {kind: mismatch}
  - kind: [error, oom]
    message: ba.e
fails-in-eager-too:
  model: |
    def forward(x):
        return torch.fake.maybe('gone', x + 1)
  failure:
  - kind: error
    phase: [compile, run]
fails-in-eager-and-that-is-it:
  model: |
    def forward(x):
        return torch.fake.maybe('gone', x + 1)
  failure:
  - {kind: error, exception: AttributeError}
fails-while-built:
  model: |
    missing = torch.no_such_thing
    def forward(x):
        return x
  failure:
  - {kind: error, phase: eager}
  - {kind: mismatch}
refused:
  model: |
    def forward(x):
        return x
  compile:
    options: {no_such_option: true}
  failure:
  - {kind: error, exception: RuntimeError}
no-such-setting:
  model: |
    def forward(x):
        return x
  config: {torch._inductor.config.no_such: true}
  failure:
  - {kind: error}
only-eager-refuses:
  model: |
    def forward(x):
        if not torch._dynamo.is_compiling():
            raise ValueError('no\nmore')
        return x
  compare: [raises]
  failure:
  - {kind: mismatch, message: '^eager raised ValueError: no; compiled returned'}
both-refuse:
  model: |
    def forward(x):
        raise ValueError('no')
  compare: [raises]
  failure:
  - kind: [error, mismatch]
each-refuses-in-its-own-way:
  model: |
    def forward(x):
        raise KeyError("compiled") if torch._dynamo.is_compiling() else ValueError("eager")
  compare: [raises]
  failure:
  - {kind: mismatch}
  - {kind: error, message: nothing of that sort}
the-same-refusal-wrapped:
  model: |
    def forward(x):
        if torch._dynamo.is_compiling():
            return torch.fake.maybe("bug", x)
        raise KeyError("eager")
  compare: [raises]
  failure:
  - {kind: error}
only-compiled-refuses:
  model: |
    def forward(x):
        return torch.fake.maybe('bare', x + 1)
  compare: [raises]
  failure:
  - {kind: error, phase: run}
wrong-shape:
  model: |
    def forward(x):
        return {'a': [torch.fake.maybe('shape', x + 1), 3.5, None]}
  failure:
  - {kind: mismatch, message: 'output\[''a''\]\[0\]: shape \(4,\) in eager, \(1,\)'}
wrong-dtype-that-is-not-asked-for:
  model: |
    def forward(x):
        return torch.fake.maybe('dtype', x + 1)
  compare: [shape, stride]
  failure:
  - {kind: mismatch}
wrong-dtype:
  model: |
    def forward(x):
        return torch.fake.maybe('dtype', x + 1)
  failure:
  - {kind: mismatch, message: 'dtype float32 in eager, float64 compiled'}
one-nan:
  model: |
    def forward(x):
        return torch.fake.maybe('nan', x + 1)
  failure:
  - {kind: mismatch, message: 1 of 4 values differ}
within-tolerance:
  model: |
    def forward(x):
        return torch.fake.maybe('offset', x + 1)
  tolerance: {atol: 1.5, rtol: 0.0}
  failure:
  - {kind: mismatch}
changes-its-input:
  model: |
    def forward(x):
        if torch._dynamo.is_compiling():
            x._values[0] += 1
        return 1
  failure:
  - {kind: mismatch, message: '^input x: 1 of 4 values differ'}
another-number:
  model: |
    def forward(x):
        return (1, 2.0, float('nan'), 5 + torch._dynamo.is_compiling())
  failure:
  - {kind: mismatch, message: '^output\[3\] is 5 in eager, 6 compiled$'}
own-names:
  model: |
    def judge(stage):
        return stage
    call = judge
    found = 1
    def forward(x):
        return call(x)
  inputs:
    x y:
      shape: [2]
exits:
  model: |
    import sys
    def forward(x):
        if torch._dynamo.is_compiling():
            sys.exit(0)
        return x
  failure:
  - {kind: error, phase: run, exception: SystemExit}
exits-hard:
  model: |
    import os
    def forward(x):
        if torch._dynamo.is_compiling():
            os._exit(7)
        return x
  failure:
  - {kind: error, exit_code: 7}
aborts-in-eager:
  model: |
    import os
    def forward(x):
        os.abort()
  failure:
  - kind: signal
    phase: [compile, run]
aborts-in-compiled-code:
  model: |
    import os
    def forward(x):
        if torch._dynamo.is_compiling():
            os.abort()
        return x
  failure:
  - {kind: signal, phase: run, message: 'Fatal Python error: Aborted'}
variables:
  model: |
    import os
    def forward(x):
        assert os.environ['SOME'] == 'it\'s "so"'
        return x
  env: {SOME: it's "so", MALLOC_CHECK_: '3'}
  entry: eager
inputs-of-every-kind:
  model: |
    def run(compile, **given):
        return compile(lambda: [v for v in given.values()])()
  inputs:
    a:
      shape: [2, 3]
      fill: arange
      dtype: float64
    b: {same_as: a}
    c:
      shape: [2, 2]
      fill: randint
      dtype: int64
      low: 3
      high: 9
    d:
      shape: [2]
      fill: full
      value: 1.5
      dtype: float16
      stride: [2]
    e: 3
    f: text
    g: null
    lambda: [1, 2]
    h: true
    i:
      shape: []
      fill: rand
exported:
  model: |
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1
  entry: export
hostile-title:
  model: |
    def forward(x):
        return x
  note: "a \"\"\" \\ \a note\nimport os"
"""


def awkward_case() -> Case:
    """:data:`AWKWARD` as a case."""
    repros = yaml.safe_load(AWKWARD)
    for body in repros.values():
        body.setdefault("role", "trigger")
        body.setdefault("inputs", {"x": {"shape": [4]}})
    data = {"id": "awkward", "title": 'one """ \\', "failure": [{"kind": "mismatch"}], "repros": repros}
    return build_case(parse_yaml(yaml.safe_dump(data).encode(), "awkward"), HERE)


@pytest.mark.parametrize("version", ["2.8.0", "2.9.0"])
def test_awkward_repros_export_and_agree_too(version: str, pythons: dict[str, Path], tmp_path: Path) -> None:
    case = awkward_case()
    check_agreement([make_cell(case, HERE, name) for name in case.repros], pythons[version], tmp_path)


def test_an_export_says_what_it_runs_on_and_ends_with_one_plain_line(
    pythons: dict[str, Path], tmp_path: Path
) -> None:
    case = awkward_case()
    said = run_export(make_cell(case, HERE, "wrapped-inner-type"), pythons["2.8.0"], tmp_path)
    first, second, *_, last = said.stdout.splitlines()
    assert first.startswith("torch 2.8.0 ")
    assert f"python {sys.version_info.major}.{sys.version_info.minor}" in first
    assert second == "triton None device cpu"
    assert last == "BUG: InductorError: KeyError: 'deep down' (stage: compiled)"
    clean = run_export(make_cell(case, HERE, "wrapped-inner-type"), pythons["2.9.0"], tmp_path)
    assert clean.stdout.splitlines()[-1] == "CLEAN: eager and compiled agree"
    gpu = run_export(make_cell(case, HERE, "wrapped-inner-type"), pythons["2.8.0"], tmp_path, "cuda")
    assert gpu.returncode == 2
    assert gpu.stdout.splitlines()[-1] == "OTHER: RuntimeError: no CUDA device (stage: settings)"


def test_an_export_leaves_nothing_behind_in_the_temporary_folder(
    pythons: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    file = tmp_path / "exported.py"
    file.write_text(export_cell(make_cell(awkward_case(), HERE, "wrapped-inner-type"), "cpu"))
    done = subprocess.run(
        [str(pythons["2.8.0"]), str(file)], env={"TMPDIR": str(scratch)}, capture_output=True, timeout=60
    )
    assert done.returncode == 1
    assert list(scratch.iterdir()) == []


@pytest.mark.real
@pytest.mark.timeout(3600)
@pytest.mark.skipif("HARNESS_REAL" not in os.environ, reason="HARNESS_REAL is not set")
def test_exports_of_the_corpus_agree_with_the_harness_on_real_torch(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    real_python: list[tuple[str, Path]] = request.getfixturevalue("real_python")
    for version, python in real_python[:1]:  # the newest: each cell costs a cold start, twice
        folder = tmp_path / version
        folder.mkdir()
        cells = [
            cell
            for file in CORPUS
            for cell in cells_of(file, workarounds=False)
            if "cpu" in cell.case.devices_of(cell.repro)
        ]
        check_agreement(chosen(cells), Path(python), folder)
