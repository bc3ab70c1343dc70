"""One attempt: what it can do, what comes of it, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from engine import attempt, spec, tensor, world
from fakeindex import Release, allocate, error, warns

from harness.errors import SetupError
from harness.outcome import Kind, Outcome, Phase
from harness.run import Interrupted, Request, Server, probe

RELEASE = Release(
    "2.8.0",
    behaviours={
        "wrapped": error("deep", exception="KeyError", cause=error("deeper", exception="OSError")),
        "bare": error("bare", phase="run"),
        "values": "values",
        "shape": "shape",
        "dtype": "dtype",
        "stride": "stride",
        "segv": "sigsegv",
        "fpe": "sigfpe",
        "abort": "sigabrt",
        "hang": "hang",
        "memory": allocate(900_000_000, seconds=20),
        "gone": "missing",
        "warns": warns("it is deprecated"),
    },
    missing_config=("torch._inductor.config.triton.use_block_ptr",),
)
MAYBE = "def forward(x):\n    return torch.fake.maybe({!r}, x + 1)\n"


@dataclass
class Bench:
    """Servers of one environment: one that forks, one that does not."""

    python: Path
    home: Path
    warm: Server
    cold: Server


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    work = tmp_path_factory.mktemp("worker")
    with world(work, RELEASE) as pythons:
        python, home = pythons["2.8.0"], work / "attempts-home"
        warm, cold = Server(python, home), Server(python, home, warm=False)
        assert warm.warm, warm.why
        yield Bench(python, home, warm, cold)
        warm.close()
        cold.close()


@pytest.fixture(autouse=True)
def _nothing_is_left(bench: Bench) -> Iterator[None]:
    """After each test: the two servers and their folders, and no process or folder besides."""
    yield
    end = time.monotonic() + 5
    while time.monotonic() < end and _below(bench) > 2:
        time.sleep(0.02)
    assert _below(bench) == 2
    assert {f.name for f in (bench.home / "attempts").iterdir()} == {
        server._folder.path.name for server in (bench.warm, bench.cold)
    }


def _below(bench: Bench) -> int:
    return sum(1 for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE)


def told(outcome: Outcome) -> tuple[Any, ...]:
    """What two runs of the same cell must agree in."""
    chain = [(e.type, e.message.partition("\n")[0], e.link) for e in outcome.exceptions]
    return (
        outcome.kind,
        outcome.phase,
        outcome.reason,
        chain,
        outcome.signal,
        outcome.exit_code,
        outcome.output,
    )


RETURNS = "def forward(x):\n    return x + 1\n"

# What an attempt does and what must come of it: `is` names kind and phase. Without a model it returns
# x + 1, with `maybe` it does what the release does there.
TABLE: dict[str, dict[str, Any]] = yaml.safe_load(r"""
clean: {is: ok compare}
clean-module:
  is: ok compare
  model: |
    class Model(torch.nn.Module):
        def forward(self, x):
            return x
clean-run:
  is: ok compare
  model: |
    def run(compile, x):
        return compile(lambda y: y + 1)(x)
error-of-the-compiler: {is: error compile, says: deeper, exception: OSError, maybe: wrapped}
error-of-its-code: {is: error run, says: bare, exception: RuntimeError, maybe: bare}
error-in-eager: {is: error eager, says: has no attribute '_fake_op', exception: AttributeError, maybe: gone}
error-in-the-source:
  is: error build
  says: No module
  exception: ModuleNotFoundError
  model: |
    import no_such
    def forward(x):
        return x
values: {is: mismatch compare, says: 'output: 4 of 4 values differ by up to 1', maybe: values}
shape: {is: mismatch compare, says: 'output: shape (4,) in eager, (1,) compiled', maybe: shape}
dtype: {is: mismatch compare, says: 'output: dtype float32 in eager, float64 compiled', maybe: dtype}
stride:
  is: mismatch compare
  says: 'output: stride (1,) in eager, (2,) compiled'
  maybe: stride
  given:
    compare: [stride]
stride-not-asked-for: {is: ok compare, maybe: stride}
raises-alike:
  is: ok compare
  says: 'both raised; eager: no'
  model: |
    def forward(x):
        raise ValueError('no')
  given:
    compare: [raises]
raises-in-eager-alone:
  is: mismatch compare
  says: 'eager raised ValueError: no; compiled returned float32(4,) stride [1]'
  model: |
    def forward(x):
        if not torch._dynamo.is_compiling():
            raise ValueError('no')
        return x
  given:
    compare: [raises]
sigsegv: {is: signal compile, says: killed by SIGSEGV, maybe: segv}
sigfpe: {is: signal compile, says: killed by SIGFPE, maybe: fpe}
sigabrt: {is: signal compile, says: killed by SIGABRT, maybe: abort}
crash-in-eager:
  is: signal eager
  says: killed by SIGABRT
  model: |
    import os
    def forward(x):
        os.abort()
realtime-signal:
  is: signal eager
  says: killed by SIG40
  model: |
    import os
    def forward(x):
        os.kill(os.getpid(), 40)
no-such-option:
  is: unsupported build
  says: Unexpected optimization option
  given:
    compile:
      options: {no_such: true}
mode-with-options:
  is: unsupported build
  says: Either mode or options
  given:
    compile:
      mode: default
      options: {}
no-such-backend:
  is: unsupported build
  says: Invalid backend
  given:
    compile: {backend: nonsense}
no-such-setting:
  is: unsupported build
  says: has no setting torch._inductor.config.triton.use_block_ptr
  given:
    config: {torch._inductor.config.triton.use_block_ptr: true}
no-such-dtype:
  is: unsupported eager
  says: has no dtype float7
  given:
    inputs:
      x:
        shape: [2]
        dtype: float7
no-such-device:
  is: unsupported build
  says: sees no CUDA device
  given: {device: cuda}
exported:
  is: ok compare
  maybe: values
  given: {entry: export}
eager:
  is: ok compare
  maybe: values
  given: {entry: eager}
other-backend:
  is: ok compare
  maybe: wrapped
  given:
    compile: {backend: aot_eager, mode: null}
setting-that-helps:
  is: ok compare
  maybe: wrapped
  given:
    config: {torch._dynamo.config.suppress_errors: true}
warns: {is: ok compare, maybe: warns}
exits-softly:
  is: error eager
  says: '0'
  exception: SystemExit
  model: |
    import sys
    def forward(x):
        sys.exit(0)
exits-hard:
  is: error eager
  says: ended with exit code 9 and no readable result
  model: |
    import os
    def forward(x):
        os._exit(9)
interrupts-itself:
  is: error eager
  exception: KeyboardInterrupt
  model: |
    def forward(x):
        raise KeyboardInterrupt
message-that-cannot-be-made:
  is: error eager
  exception: Odd
  model: |
    class Odd(Exception):
        def __str__(self):
            raise ValueError
    def forward(x):
        raise Odd
surrogates:
  is: error eager
  says: 'odd ? '
  exception: ValueError
  model: |
    def forward(x):
        raise ValueError('odd \ud800 \x00 \x1b[31m')
memory-error:
  is: oom eager
  says: no room
  exception: MemoryError
  model: |
    def forward(x):
        raise MemoryError('no room')
input-changed:
  is: mismatch compare
  says: 'input x: 1 of 4 values differ'
  model: |
    def forward(x):
        if torch._dynamo.is_compiling():
            x._values[1] += 1
        return 1
closes-every-file:
  is: ok compare
  model: |
    import os
    def forward(x):
        os.closerange(3, 5000)
        return x
loses-its-folder:
  is: ok compare
  model: |
    import os, shutil
    HERE = os.getcwd()
    def forward(x):
        shutil.rmtree(HERE, ignore_errors=True)
        return x
loses-its-folder-and-that-above:
  is: error import
  says: ended with exit code 70 and no readable result
  model: |
    import os, shutil
    ABOVE = os.path.dirname(os.getcwd())
    def forward(x):
        shutil.rmtree(ABOVE, ignore_errors=True)
        return x
locks-its-folder:
  is: ok compare
  model: |
    import os
    def forward(x):
        os.chmod('.', 0)
        return x
crash-with-a-stack:
  is: signal run
  says: killed by SIGSEGV
  model: |
    import faulthandler
    def forward(x):
        if torch._dynamo.is_compiling():
            faulthandler._sigsegv()
        return x
""")


@pytest.mark.parametrize("name", TABLE)
def test_an_attempt_ends_as_what_it_did_forked_or_fresh(bench: Bench, name: str) -> None:
    wanted = TABLE[name]
    model = wanted.get("model") or (MAYBE.format(wanted["maybe"]) if "maybe" in wanted else RETURNS)
    given = dict(wanted.get("given", {}))
    if "inputs" in given:
        given["inputs"] = {key: tensor(**value) for key, value in given["inputs"].items()}
    with ThreadPoolExecutor(2) as pool:
        forked = pool.submit(attempt, bench.warm, model, fresh=False, **given)
        fresh = pool.submit(attempt, bench.cold, model, **given)
        one, two = forked.result(), fresh.result()
    for outcome in (one, two):
        assert f"{outcome.kind} {outcome.phase}" == wanted["is"], outcome
        if "exception" in wanted:
            assert outcome.exception == wanted["exception"]
            assert wanted.get("says", "") in outcome.message
        else:
            assert wanted.get("says", "") in (outcome.reason or "")
    assert told(one) == told(two)


def test_the_cause_chain_is_kept_outermost_first(bench: Bench) -> None:
    outcome = attempt(bench.warm, MAYBE.format("wrapped"), fresh=False)
    assert [(e.type, e.link) for e in outcome.exceptions] == [
        ("torch._inductor.exc.InductorError", "raised"),
        ("KeyError", "cause"),
        ("OSError", "cause"),
    ]
    assert "compile_fx.py" in outcome.stderr_tail
    assert str(bench.home) not in outcome.model_dump_json()


def test_an_output_is_described(bench: Bench) -> None:
    outcome = attempt(bench.warm, "def forward(x):\n    return {'a': (x, 3)}\n", fresh=False)
    assert outcome.output == [
        {"at": "output['a'][0]", "shape": [4], "dtype": "float32", "stride": [1], "device": "cpu"},
        {"at": "output['a'][1]", "type": "int", "value": "3"},
    ]


def test_a_hang_is_a_timeout_that_says_where(bench: Bench) -> None:
    with ThreadPoolExecutor(4) as pool:
        models = [
            MAYBE.format("hang"),
            "import signal\n\ndef forward(x):\n    for number in (15, 2, 1):\n"
            "        signal.signal(number, signal.SIG_IGN)\n    while True:\n        pass\n",
            "import os, signal\n\ndef forward(x):\n    os.kill(os.getpid(), signal.SIGSTOP)\n",
        ]
        jobs = [pool.submit(attempt, bench.warm, model, fresh=False, timeout_s=2.5) for model in models]
        sleeping, deaf, stopped = (job.result() for job in jobs)
    assert (sleeping.kind, sleeping.phase, sleeping.signal) == ("timeout", "run", "SIGKILL")
    assert sleeping.reason == "did not end within 2.5 s"
    assert "in _hang" in sleeping.stderr_tail
    assert (deaf.kind, deaf.phase) == ("timeout", "eager")
    assert (stopped.kind, stopped.phase) == ("timeout", "eager")
    assert all(2.4 < o.duration_s < 10 for o in (sleeping, deaf, stopped))


def test_a_command_that_hangs_is_a_timeout_and_no_signal(bench: Bench) -> None:
    outcome = bench.cold.attempt(Request({}, timeout_s=1.5, command=("sleep", "60")))
    assert (outcome.kind, outcome.reason) == ("timeout", "did not end within 1.5 s")


def test_too_much_memory_is_told_from_other_ends(bench: Bench) -> None:
    request = Request(spec(MAYBE.format("memory")), fresh=False, timeout_s=30, memory_bytes=300_000_000)
    outcome = bench.warm.attempt(request)
    assert (outcome.kind, outcome.reason) == ("oom", "held more than 0.3 GB")
    shared = "import mmap, time\n\ndef forward(x):\n    m = mmap.mmap(-1, 500_000_000)\n"
    shared += "    m.write(b'x' * 500_000_000)\n    time.sleep(20)\n"
    outcome = bench.warm.attempt(Request(spec(shared), fresh=False, timeout_s=30, memory_bytes=300_000_000))
    assert outcome.kind is Kind.OOM


def test_gradients_are_compared_where_an_input_asks_for_one(bench: Bench) -> None:
    model = "def forward(x):\n    x.grad = x * (2 + torch._dynamo.is_compiling())\n    return x\n"
    inputs = {"x": tensor([2], fill="ones", requires_grad=True)}
    outcome = attempt(bench.warm, model, fresh=False, inputs=inputs)
    assert outcome.reason == "gradient of x: 2 of 2 values differ by up to 1 (rtol 0.001, atol 0.0001)"


def test_inputs_are_what_the_case_says(bench: Bench) -> None:
    model = (
        "def run(compile, a, b, c, d, e, f):\n"
        "    assert b is a and f == [1, 'two', None]\n"
        "    assert a.tolist() == [[0.0, 1.0], [2.0, 3.0]] and str(a.dtype) == 'torch.float64'\n"
        "    assert all(3 <= v < 5 for v in c.tolist()) and str(c.dtype) == 'torch.int64'\n"
        "    assert d.stride() == (5,) and d.tolist() == [7, 7]\n"
        "    assert e.shape == () and torch.is_tensor(e)\n"
        "    return 1\n"
    )
    inputs = {
        "a": tensor([2, 2], fill="arange", dtype="float64"),
        "b": {"same_as": "a"},
        "c": tensor([9], fill="randint", dtype="int64", low=3, high=5),
        "d": tensor([2], fill="full", value=7, stride=[5]),
        "e": tensor([], fill="rand"),
        "f": [1, "two", None],
    }
    outcome = attempt(bench.warm, model, fresh=False, inputs=inputs)
    assert outcome.kind is Kind.OK, outcome.stderr_tail


def test_a_script_is_judged_by_its_exit_code_and_its_exception(bench: Bench, tmp_path: Path) -> None:
    def run(source: str, **changes: Any) -> Outcome:
        file = tmp_path / "script.py"
        file.write_text(source)
        return bench.cold.attempt(
            Request({**spec("", script=str(file), **changes), "model": None}, timeout_s=30)
        )

    assert run("import torch; print(torch.__version__)").stdout_tail == "2.8.0\n"
    assert run("import os; os._exit(0)").kind is Kind.OK
    three = run("raise SystemExit(3)")
    assert (three.kind, three.exit_code, three.reason) == ("error", 3, "exit code 3")
    hard = run("import os; os._exit(4)")
    assert (hard.kind, hard.exit_code, hard.reason) == ("error", 4, "exit code 4")
    words = run("raise SystemExit('in words')")
    assert (words.exit_code, words.stderr_tail) == (1, "in words\n")
    raised = run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
    assert (raised.kind, raised.exit_code, raised.phase) == ("error", 1, "run")
    assert [e.type for e in raised.exceptions] == ["KeyError", "ZeroDivisionError"]
    broken = run("def f(:\n")
    assert (broken.exception, broken.exit_code) == ("SyntaxError", 1)
    warned = run("import warnings; warnings.warn('old', FutureWarning)")
    assert warned.kind is Kind.OK
    assert "FutureWarning: old" in warned.stderr_tail
    path = run("import sys, os; assert sys.argv == [os.path.abspath('script.py')], sys.argv; import compare")
    assert path.exception == "ModuleNotFoundError"
    unset = run("pass", config={"torch._inductor.config.nonsense": 1})
    assert (unset.kind, unset.phase) == ("unsupported", "build")
    crash = run("import os; os.kill(os.getpid(), 11)")
    assert (crash.kind, crash.signal, crash.phase) == ("signal", "SIGSEGV", "run")


def test_a_command_is_judged_by_its_exit_code(bench: Bench) -> None:
    def run(*command: str) -> Outcome:
        return bench.cold.attempt(Request({}, timeout_s=30, command=command))

    assert run("true").kind is Kind.OK
    failed = run("sh", "-c", "echo said; exit 5")
    assert (failed.kind, failed.exit_code, failed.stdout_tail) == ("error", 5, "said\n")
    raised = run(str(bench.python), "-c", "import torch; torch.no_such")
    assert raised.exception == "AttributeError"
    missing = run("/no/such/program")
    assert missing.kind is Kind.ERROR
    assert "No such file" in missing.stderr_tail
    assert run("sh", "-c", "kill -SEGV $$").signal == "SIGSEGV"


def test_no_variable_of_the_caller_is_seen_but_the_allowed_ones(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_TEST_SECRET", "hush")
    monkeypatch.setenv("https_proxy", "hush")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    model = "import os, json\n\ndef forward():\n    print(json.dumps(dict(os.environ)))\n"
    for server, fresh in ((bench.warm, False), (bench.cold, True)):
        outcome = attempt(server, model, fresh=fresh, inputs={}, env={"MINE": "yes"}, compare=["shape"])
        assert "hush" not in outcome.stdout_tail
        seen = json.loads(outcome.stdout_tail.splitlines()[0])
        assert seen["OMP_NUM_THREADS"] == "1"
        assert seen["MINE"] == "yes"
        private = ("HOME", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")
        assert all(seen[name].startswith("<attempt>/") for name in private)
    also = "import tempfile, os\n\ndef forward():\n    assert tempfile.gettempdir() == os.environ['TMPDIR']\n"
    assert attempt(bench.warm, also, fresh=False, inputs={}).kind is Kind.OK


def test_nothing_that_an_attempt_starts_outlives_it(bench: Bench) -> None:
    model = (
        "import os, signal, subprocess, time\n\n"
        "def forward(x):\n"
        "    for _ in range(3):\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            if os.fork() == 0:\n"
        "                signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "                time.sleep(300)\n"
        "            os._exit(0)\n"
        "    subprocess.Popen(['sleep', '301'], start_new_session=True)\n"
        "    time.sleep(0.2)\n"
        "    return x\n"
    )
    outcome = attempt(bench.warm, model, fresh=False)
    assert outcome.kind is Kind.OK
    assert outcome.detail["processes_left_behind"] >= 4


def test_a_flood_of_output_is_kept_to_its_end_and_bounded(bench: Bench) -> None:
    model = "import os, sys\n\ndef forward(x):\n    for _ in range(400):\n        os.write(1, b'x' * 65536)\n"
    model += "        os.write(2, b'y' * 65536)\n    os.write(1, b'the end')\n    return x\n"
    outcome = attempt(bench.warm, model, fresh=False)
    assert outcome.kind is Kind.OK
    assert outcome.stdout_tail.endswith("the end")
    assert len(outcome.model_dump_json()) < 30_000


FORGED: dict[str, Any] = {
    "nonsense": "{nonsense",
    "list": [1, 2],
    "setup": {"kind": "setup", "phase": "install"},
    "no-phase": {"kind": "ok"},
    "odd-types": {"kind": "error", "phase": "run", "exceptions": "abc", "detail": 3},
    "odd-links": {"kind": "error", "phase": "run", "exceptions": [{"type": 1}]},
    "unhashable": {"kind": {}, "phase": []},
    "deep": "[" * 100_000,
    "nested": {"kind": "ok", "phase": "compare", "output": json.loads("[" * 400 + "]" * 400)},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_result_is_no_outcome(bench: Bench, name: str) -> None:
    text = FORGED[name] if isinstance(FORGED[name], str) else json.dumps(FORGED[name])
    model = (
        f"import os\n\ndef forward(x):\n    open('../result.json', 'w').write({text!r})\n    os._exit(0)\n"
    )
    outcome = attempt(bench.warm, model, fresh=False)
    assert outcome.kind is Kind.ERROR
    assert outcome.reason == "ended with exit code 0 and no readable result"


def test_a_pipe_in_place_of_the_result_blocks_nobody(bench: Bench) -> None:
    model = "import os\n\ndef forward(x):\n    os.mkfifo('../result.json')\n    os.remove('../progress')\n"
    model += "    os.mkfifo('../progress')\n    os._exit(0)\n"
    began = time.monotonic()
    assert attempt(bench.warm, model, fresh=False).kind is Kind.ERROR
    assert time.monotonic() - began < 15


def test_an_attempt_that_ends_its_supervisor_is_an_error_and_the_next_one_runs(bench: Bench) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        model = "import os, time\n\ndef forward(x):\n"
        model += f"    os.kill(os.getppid(), {int(number)})\n    time.sleep(20)\n"
        outcome = attempt(bench.warm, model, fresh=False)
        assert (outcome.kind, outcome.reason) == (
            "error",
            "the attempt ended the process that watched over it",
        )
        assert attempt(bench.warm, RETURNS, fresh=False).kind is Kind.OK


def test_an_attempt_that_ends_the_server_harms_no_other(bench: Bench) -> None:
    killer = (
        "import os, time\n\n"
        "def forward(x):\n"
        "    with open('/proc/%d/status' % os.getppid()) as stream:\n"
        "        parent = int(stream.read().split('PPid:')[1].split()[0])\n"
        "    os.kill(parent, 9)\n"
        "    time.sleep(20)\n"
    )
    slow = "import time\n\ndef forward(x):\n    time.sleep(0.4)\n    return x\n"
    server = Server(bench.python, bench.home)
    try:
        with ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(attempt, server, slow, fresh=False) for _ in range(3)]
            bad = [pool.submit(attempt, server, killer, fresh=False) for _ in range(2)]
            jobs.append(pool.submit(attempt, server, slow, fresh=False))
            assert {job.result().kind for job in jobs} == {Kind.OK}
            assert {job.result().kind for job in bad} == {Kind.ERROR}
        assert attempt(server, RETURNS).kind is Kind.OK
    finally:
        server.close()


def test_closing_a_server_interrupts_what_runs_and_leaves_nothing(bench: Bench) -> None:
    server = Server(bench.python, bench.home)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(attempt, server, MAYBE.format("hang"), fresh=False) for _ in range(2)]
        time.sleep(0.7)
        server.close()
        for job in jobs:
            with pytest.raises(Interrupted):
                job.result(timeout=20)
    with pytest.raises(Interrupted):
        attempt(server, RETURNS)


def test_a_harness_that_is_killed_leaves_no_process(bench: Bench) -> None:
    code = (
        "import sys\nsys.path[:0] = sys.argv[3:]\nfrom pathlib import Path\n"
        "from harness.run import Server\nfrom engine import attempt\n"
        "server = Server(Path(sys.argv[1]), Path(sys.argv[2]))\nprint('ready', flush=True)\n"
        "attempt(server, 'import time\\n\\ndef forward(x):\\n    time.sleep(300)\\n', fresh=False)\n"
    )
    here = Path(__file__).parent
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(bench.python), str(bench.home), str(here), str(here.parent)],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    tree: list[psutil.Process] = []
    end = time.monotonic() + 20
    while len(tree) < 3 and time.monotonic() < end:
        tree = psutil.Process(child.pid).children(recursive=True)
        time.sleep(0.05)
    assert len(tree) >= 3  # server, supervisor, attempt
    child.kill()
    child.wait()
    child.stdout.close()
    _, alive = psutil.wait_procs(tree, timeout=15)
    assert alive == []
    assert len(list((bench.home / "attempts").iterdir())) == 3
    Server(bench.python, bench.home, warm=False).close()  # the next one clears away what it left


def test_an_interpreter_that_cannot_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be run"):
        Server(tmp_path / "no-python", tmp_path)
    liar = tmp_path / "python"
    liar.write_text("#!/bin/sh\necho it is no python >&2\n")
    liar.chmod(0o755)
    with pytest.raises(SetupError, match="does not start: it is no python"):
        Server(liar, tmp_path)
    assert list((tmp_path / "attempts").iterdir()) == []


def test_a_probe_tells_what_is_installed(bench: Bench) -> None:
    facts = probe(bench.python, bench.home)
    assert facts["torch"] == "2.8.0"
    assert facts["numpy"]
    assert facts["git_version"]
    assert facts["python"].startswith("3.")
    assert facts["cuda_available"] is False
    bare = probe(Path(sys.executable), bench.home)
    assert "No module named 'torch'" in bare["import_error"]


def test_an_import_of_torch_that_crashes_is_told_by_the_attempts(bench: Bench, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text("import os\nos.abort()\n")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    server = Server(python, bench.home)
    try:
        assert not server.warm
        outcome = attempt(server, RETURNS, env={"PYTHONPATH": str(site)})
        assert (outcome.kind, outcome.signal, outcome.phase) == (Kind.SIGNAL, "SIGABRT", Phase.IMPORT)
    finally:
        server.close()


def test_threads_started_by_an_import_forbid_forking(bench: Bench, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text(
        "import threading, time\n__version__ = '1'\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    server = Server(python, bench.home)
    try:
        assert not server.warm
    finally:
        server.close()
    assert os.path.isdir(bench.home)  # noqa: PTH112
