"""The fake torch does what it says, seen from subprocesses that import it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import fakeindex as fake
from fakeindex import Release

Completed = subprocess.CompletedProcess[str]
RunCode = Callable[..., Completed]


@pytest.fixture
def run_torch(tmp_path: Path) -> RunCode:
    """Runs code against an unpacked fake release with one bug, `oops`."""

    def run(
        code: str, what: str | fake.Behaviour = "clean", version: str = "2.8.0", **fields: object
    ) -> Completed:
        release = Release(version, behaviours={"oops": what}, **fields)  # type: ignore[arg-type]
        site = tmp_path / f"site-{version}"
        with zipfile.ZipFile(io.BytesIO(release.wheels()[0].body)) as archive:
            archive.extractall(site)
        env = {"PYTHONPATH": str(site), "FAKE_STATE": str(tmp_path / "state"), "PATH": os.defpath}
        return subprocess.run(
            [sys.executable, "-c", f"import torch\n{code}"],
            env=env,
            capture_output=True,
            text=True,
            timeout=20,
        )

    return run


COMPILED = "print(torch.compile(lambda x: torch.fake.maybe('oops', x + 1))(torch.ones(2)).tolist())"


def test_importing_the_fake_torch_is_fast(run_torch: RunCode) -> None:
    # The best of several, from within the child: the first import writes the compiled files, and
    # a busy host slows single ones.
    code = """
import subprocess, sys
for _ in range(6):
    command = [sys.executable, "-X", "importtime", "-c", "import torch"]
    print(subprocess.run(command, capture_output=True, text=True).stderr.splitlines()[-1])
"""
    microseconds = min(int(line.split("|")[1]) for line in run_torch(code).stdout.splitlines())
    assert microseconds < 50_000


def test_only_compiled_code_has_the_bug(run_torch: RunCode) -> None:
    eager = "print((lambda x: torch.fake.maybe('oops', x + 1))(torch.ones(2)).tolist())"
    assert run_torch(eager, "error").stdout == "[2.0, 2.0]\n"
    assert run_torch(COMPILED, "clean").stdout == "[2.0, 2.0]\n"
    assert run_torch(COMPILED, "error").returncode == 1
    script = "torch.fake.maybe('oops', compiled=True)"
    assert "RuntimeError: Expected result >= 0" in run_torch(script, "error").stderr


@pytest.mark.parametrize(
    ("version", "wrapped"),
    [
        ("2.5.0", "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nKeyError: 'deep'"),
        ("2.9.0", "torch._inductor.exc.InductorError: KeyError: 'deep'"),
    ],
)
def test_errors_of_the_compiler_are_wrapped_as_that_release_does(
    run_torch: RunCode, version: str, wrapped: str
) -> None:
    bug = fake.error("deep", exception="KeyError", cause=fake.error("deeper", exception="OSError"))
    done = run_torch(COMPILED, bug, version)
    assert wrapped in done.stderr
    assert "OSError: deeper" in done.stderr
    assert "compile_fx.py" in done.stderr
    running = run_torch(COMPILED, fake.error("bare", phase="run"), version)
    assert running.stderr.splitlines()[-1] == "RuntimeError: bare"
    assert "compile_fx.py" not in running.stderr


def test_suppress_errors_helps_against_the_compiler_and_not_against_its_code(run_torch: RunCode) -> None:
    code = f"torch._dynamo.config.suppress_errors = True\n{COMPILED}"
    assert run_torch(code, fake.error()).stdout == "[2.0, 2.0]\n"
    assert run_torch(code, fake.error(phase="run")).returncode == 1


@pytest.mark.parametrize(
    ("bug", "seen"),
    [
        (fake.wrong_values(), "[3.0, 3.0] (1,) torch.float32"),
        (fake.wrong_values("nan", first=1), "[nan, 2.0] (1,) torch.float32"),
        (fake.wrong_stride(), "[2.0, 2.0] (2,) torch.float32"),
        (fake.wrong_stride((0,)), "[2.0, 2.0] (0,) torch.float32"),
        (fake.wrong_shape(), "[2.0] (1,) torch.float32"),
        (fake.wrong_dtype(), "[2.0, 2.0] (1,) torch.float64"),
    ],
)
@pytest.mark.parametrize("body", ["torch.fake.maybe('oops', x + 1)", "(torch.fake.maybe('oops'), x + 1)[1]"])
def test_outputs_are_wrong_in_the_way_that_was_asked_for(
    run_torch: RunCode, bug: fake.Behaviour, seen: str, body: str
) -> None:
    code = f"y = torch.compile(lambda x: {body})(torch.ones(2)); print(y.tolist(), y.stride(), y.dtype)"
    assert run_torch(code, bug).stdout.strip() == seen


@pytest.mark.parametrize(
    ("bug", "code", "stderr"),
    [
        ("sigsegv", -11, ""),
        ("sigfpe", -8, ""),
        (fake.crash("SIGABRT", stderr="free(): invalid pointer\n"), -6, "free(): invalid pointer"),
        (fake.exits(3), 3, ""),
        (fake.exits(4, hard=True), 4, ""),
        ("missing", 1, "AttributeError: '_OpNamespace' 'aten' object has no attribute '_fake_op'"),
        (fake.allocate(1 << 22), 0, ""),
        (fake.hang(0.1), 0, ""),
        ("warn", 0, "FutureWarning: LeafSpec"),
    ],
)
def test_processes_end_as_asked_for(run_torch: RunCode, bug: fake.Behaviour, code: int, stderr: str) -> None:
    done = run_torch(COMPILED, bug)
    assert done.returncode == code
    assert stderr in done.stderr


def test_a_hang_hangs_and_too_much_memory_fails_in_the_words_of_torch(run_torch: RunCode) -> None:
    begun = time.monotonic()
    limit = "import signal; signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
    assert run_torch(limit + COMPILED, fake.hang(ignore_sigterm=True)).returncode == -14
    assert time.monotonic() - begun > 0.25
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
    done = run_torch(limit + COMPILED, fake.allocate(1 << 29))
    assert f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {1 << 29} bytes" in done.stderr


def test_flaky_failures_come_on_the_listed_attempts_or_by_chance(run_torch: RunCode) -> None:
    codes = [run_torch(COMPILED, fake.flaky(attempts=[1, 3])).returncode for _ in range(5)]
    assert codes == [0, 1, 0, 1, 0]
    loop = "hits = 0\nfor _ in range(400):\n  try: torch.fake.maybe('oops', compiled=True)\n"
    loop += "  except RuntimeError: hits += 1\nprint(hits)"
    assert 60 < int(run_torch(loop, fake.flaky(p=0.3)).stdout) < 180
    turns = fake.one_of(fake.exits(7), "clean", fake.exits(9), in_turn=True)
    seen = [run_torch(COMPILED, turns, "2.9.0").returncode for _ in range(4)]
    assert seen == [7, 0, 9, 7]


@pytest.mark.parametrize(
    ("conditions", "fails", "passes"),
    [
        ({}, "", "backend='aot_eager'"),
        ({"backends": ("eager",)}, "backend='eager'", ""),
        ({"modes": ("max-autotune",)}, "mode='max-autotune'", "mode='reduce-overhead'"),
        ({"unless": {"inductor.freezing": True}}, "", "options={'freezing': True}"),
        ({"unless": {"inductor.max_autotune": True}}, "mode='default'", "mode='max-autotune'"),
        ({"unless": {"compile.dynamic": False}}, "dynamic=True", "dynamic=False"),
    ],
)
def test_bugs_depend_on_settings_where_they_say_so(
    run_torch: RunCode, conditions: dict[str, object], fails: str, passes: str
) -> None:
    bug = fake.error(**conditions)  # type: ignore[arg-type]
    code = "torch.compile(lambda x: torch.fake.maybe('oops', x), {})(torch.ones(2))"
    assert run_torch(code.format(fails), bug).returncode == 1
    assert run_torch(code.format(passes), bug).returncode == 0


def test_a_bug_may_need_a_second_compilation_since_the_last_reset(run_torch: RunCode) -> None:
    bug = fake.error(from_compilation=2)
    once = "torch.compile(lambda x: torch.fake.maybe('oops', x))(torch.ones(2))\n"
    assert run_torch(once, bug).returncode == 0
    assert run_torch(once * 2, bug).returncode == 1
    assert run_torch(f"{once}torch._dynamo.reset()\n{once}", bug).returncode == 0


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "torch.compile(print, mode='default', options={})",
            "RuntimeError: Either mode or options can be specified, "
            "but both can't be specified at the same time.",
        ),
        (
            "torch.compile(print, mode='foo')",
            "RuntimeError: Unrecognized mode=foo, should be one of: default",
        ),
        (
            "torch.compile(print, options={'foo': 1})",
            "RuntimeError: Unexpected optimization option foo, known options are ['compile_threads',",
        ),
        ("torch.compile(print, options={'freezing': 1})", "got int should be bool"),
        ("torch.compile(print, backend='foo')", "InvalidBackend: Invalid backend: 'foo'"),
        ("torch._inductor.config.foo = 1", "AttributeError: torch._inductor.config.foo does not exist"),
        ("torch._inductor.config.triton.foo", "torch._inductor.config.triton.foo does not exist"),
        ("torch.export.export(print, (1,))", "ValueError: Expected `mod` to be an instance"),
        ("torch.ones(2, device='cuda')", "RuntimeError: No CUDA GPUs are available"),
    ],
)
def test_settings_are_refused_in_the_words_of_torch(run_torch: RunCode, code: str, said: str) -> None:
    done = run_torch(code)
    assert done.returncode == 1
    assert said in done.stderr


def test_releases_differ_in_what_they_have_and_need(run_torch: RunCode) -> None:
    refused = run_torch(COMPILED, version="2.0.0", max_compile_python=(3, 10))
    assert "Python 3.11+ not yet supported for torch.compile" in refused.stderr
    assert run_torch("torch._dynamo", version="2.0.0").returncode == 1
    assert run_torch("torch._dynamo.reset()", version="2.1.0").returncode == 0
    needing = run_torch(COMPILED, compile_imports=("no_such_module",))
    assert "InductorError: ModuleNotFoundError: No module named 'no_such_module'" in needing.stderr
    name = "torch._inductor.config.triton.use_block_ptr"
    assert run_torch(f"{name} = True").returncode == 0
    assert "does not exist" in run_torch(f"{name} = True", missing_config=(name,)).stderr


def test_the_surface_that_repros_and_the_worker_use(run_torch: RunCode) -> None:
    code = """
torch.manual_seed(0); a = torch.randn(2, 3); torch.manual_seed(0); b = torch.randn(2, 3)
assert torch.equal(a, b) and torch.allclose(a + 1 - 1, b) and not torch.isnan(a).any()
assert a.shape == (2, 3) and a.stride() == (3, 1)
assert a.t().stride() == (1, 3) and a.t().t().tolist() == a.tolist()
assert torch.empty_strided((0, 3), (-1, 1)).stride() == (-1, 1)
assert torch.arange(4).dtype == torch.int64 and torch.arange(4.0).tolist() == [0.0, 1.0, 2.0, 3.0]
assert torch.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
assert (2 * torch.full((2,), 3)).tolist() == [6, 6]
assert (a - b).abs().max().item() == 0 and repr(torch.Size([2])) == "torch.Size([2])"
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
assert torch.device("cuda:1").index == 1
class M(torch.nn.Module):
    def forward(self, x):
        return x * 2
m = M().eval()
for run in (m, torch.compile(m), torch.compile()(m), torch.export.export(m, (a,)).module()):
    with torch.no_grad():
        torch.testing.assert_close(run(a), a + a)
try:
    torch.testing.assert_close(a, a + 1)
except AssertionError:
    print("ok", torch.compiler.is_compiling(), torch._inductor.config.triton.use_block_ptr)
with torch._inductor.config.patch({"triton.use_block_ptr": True}):
    print(torch._inductor.config.triton.use_block_ptr)
"""
    done = run_torch(code)
    assert done.stdout == "ok False False\nTrue\n", done.stderr
