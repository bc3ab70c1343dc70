# [inductor] compiled empty_strided with a negative stride: Expected result >= 0
# https://github.com/pytorch/pytorch/issues/188227
# Repro 'article-at-run-time' on cuda. zero-rows, looked at for when it fails: running generated
# code, not compiling it.
# Needs torch alone. Exits 1 where the bug shows, 0 where not, 2 on another failure.
import atexit, os, platform, re, shutil, sys, tempfile, traceback

cache = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # nothing cached by earlier runs
atexit.register(shutil.rmtree, cache, ignore_errors=True)

stage = "import"


def finish(code, line):
    print(("CLEAN", "BUG", "OTHER")[code] + ": " + line)
    sys.exit(code)


def chain(error):
    """The exception and what it came from: torch wraps the real one."""
    for _ in range(16):
        yield error
        context = not error.__suppress_context__ and error.__context__
        error = getattr(error, "inner_exception", None) or error.__cause__ or context or None
        if error is None:
            return


def compiling(error):
    """Whether the compiler raised it, and not the code that it made."""
    files = (
        "torch/_dynamo/convert_frame.py",
        "torch/_dynamo/output_graph.py",
        "torch/_inductor/compile_fx.py",
        "torch/export/__init__.py",
        "torch/export/_trace.py",
    )
    calls = (
        "_compile",
        "compile_inner",
        "call_user_compiler",
        "_call_user_compiler",
        "compile_fx",
        "compile_fx_inner",
        "fx_codegen_and_compile",
        "export",
        "_export",
    )
    for _ in range(16):
        codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")) or any(
            code.co_filename.endswith(files) and code.co_name in calls for code in codes
        ):
            return True
        error = getattr(error, "inner_exception", None) or error.__cause__
        if error is None:
            break
    return False


def judge(kind, error, trace):
    """Whatever is raised ends here."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(text)
    names = {type(link).__name__ for link in chain(error)}
    bug = (
        stage == "compiled"
        and not compiling(error)
        and names & {"RuntimeError"}
        and re.search(r"Expected result >= 0", text)
    )
    line = ("%s: %s" % (kind.__name__, error)).splitlines()[0]
    finish(1 if bug else 2, "%s (stage: %s)" % (line, stage))


sys.excepthook = judge

import torch

try:
    from triton import __version__ as triton
except Exception:
    triton = None

print("torch", torch.__version__, torch.version.git_version, "python", platform.python_version())
print("triton", triton, "device", torch.cuda.is_available() and torch.cuda.get_device_name())

stage = "settings"  # what torch refuses here is not the bug
if not torch.cuda.is_available():
    raise RuntimeError("no CUDA device")
torch.compile(lambda: None)
stage = "build"


def forward(x):
    return torch.empty_strided((0, 3), (-1, 1), device=x.device)


def facts(path, value):
    """What is compared, by name."""
    if isinstance(value, (tuple, list, dict)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, part in parts for k, v in facts("%s[%r]" % (path, key), part).items()}
    if not isinstance(value, torch.Tensor):
        return {}
    return {
        path + ": dtype": str(value.dtype)[6:],
        path + ": shape": tuple(value.shape),
        path + ": stride": tuple(value.stride()),
    }


def call(compile):
    torch.manual_seed(0)
    x = torch.randn(3).to("cuda")
    output = compile(forward)(x)
    torch.cuda.synchronize()
    return facts("output", output)


if __name__ == "__main__":
    stage = "eager"
    expected = call(lambda fn, **_: fn)
    stage = "compiled"
    actual = call(torch.compile)
    stage = "compare"
    found = [
        "%s %s in eager, %s compiled" % (what, expected.get(what), actual.get(what))
        for what in {**expected, **actual}
        if expected.get(what) != actual.get(what)
    ]
    reason = "; ".join(found[:4])
    if reason:
        finish(2, reason)
    finish(0, "eager and compiled agree")
