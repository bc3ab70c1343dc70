# [inductor] compiled empty_strided with a negative stride: Expected result >= 0
# https://github.com/pytorch/pytorch/issues/188227
# Repro 'zero-vector' on cpu. Eager returns shape (0,), stride (1,).
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


def judge(kind, error, trace):
    """Whatever is raised ends here."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(text)
    names = {type(link).__name__ for link in chain(error)}
    bug = (
        stage == "compiled"
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
print("triton", triton, "device", "cpu")

stage = "settings"  # what torch refuses here is not the bug
torch.compile(lambda: None)
stage = "build"


def forward(x):
    return torch.empty_strided((0,), (-1,), device=x.device)


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
    x = torch.randn(3)
    return facts("output", compile(forward)(x))


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
