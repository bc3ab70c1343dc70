# [inductor] compiled empty_strided with a negative stride: Expected result >= 0
# https://github.com/pytorch/pytorch/issues/188227
# Repro 'article-detector' on cpu. The test by which the article's demo recognises the bug,
# applied to zero-rows. `failure` is that the test recognises it.
# Needs torch alone. Exits 1 where the bug shows, 0 where not, 2 on another failure.
import atexit, os, platform, re, shutil, sys, tempfile, traceback

cache = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # nothing cached by earlier runs
atexit.register(shutil.rmtree, cache, ignore_errors=True)

stage = "import"


def finish(code, line):
    print(("CLEAN", "BUG", "OTHER")[code] + ": " + line)
    sys.exit(code)


def judge(kind, error, trace):
    """Whatever is raised ends here."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(text)
    bug = stage != "settings" and re.search(r"the article's test recognises it", text)
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


def f(x):
    return torch.empty_strided((0, 3), (-1, 1), device=x.device)

def run(compile, x):
    g = compile(f)
    try:
        return g(x)
    except RuntimeError as e:
        if "empty_strided" in str(e) and "result >= 0" in str(e):
            raise RuntimeError("the article's test recognises it") from e
        raise


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
    return facts("output", run(compile, x=x))


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
