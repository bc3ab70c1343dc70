# [inductor] compiled empty_strided with a negative stride: Expected result >= 0
# https://github.com/pytorch/pytorch/issues/188227
# Repro 'article-dynamic-transpose' on cpu. The same with dynamic shapes, where the article places
# the fault most often.
# Needs torch alone. Exits 1 where the bug shows, 0 where not, 2 on another failure.
import atexit, functools, os, platform, re, shutil, sys, tempfile, traceback

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
torch.compile(lambda: None, backend="inductor", dynamic=True)
stage = "build"


def forward(x):
    y = x.transpose(0, 1)
    z = y.contiguous()
    return z * 2


def facts(path, value):
    """What is compared, by name."""
    if isinstance(value, (tuple, list, dict)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, part in parts for k, v in facts("%s[%r]" % (path, key), part).items()}
    if not isinstance(value, torch.Tensor):
        return {path + " is": "%.6g" % value if isinstance(value, float) else value}
    return {
        path + ": dtype": str(value.dtype)[6:],
        path + ": shape": tuple(value.shape),
        path + ": stride": tuple(value.stride()),
        path: value.detach().cpu(),
    }


def call(compile):
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    output = compile(forward)(x)
    seen = facts("output", output)
    seen.update(facts("input x", x))
    return seen


if __name__ == "__main__":
    stage = "eager"
    expected = call(lambda fn, **_: fn)
    stage = "compiled"
    actual = call(functools.partial(torch.compile, backend="inductor", dynamic=True))
    stage = "compare"
    found = []
    for what in {**expected, **actual}:
        one, two = expected.get(what), actual.get(what)
        if not (torch.is_tensor(one) and torch.is_tensor(two) and one.shape == two.shape):
            if not torch.is_tensor(one) and one != two:
                found.append("%s %s in eager, %s compiled" % (what, one, two))
            continue
        rtol, atol = {
            "float64": (1e-06, 1e-08),
            "float32": (0.001, 0.0001),
            "complex64": (0.001, 0.0001),
            "complex128": (1e-06, 1e-08),
            "float16": (0.02, 0.02),
            "bfloat16": (0.04, 0.04),
        }.get(str(one.dtype)[6:], (0.2, 0.2))
        if not one.is_floating_point() and not one.is_complex():
            rtol, atol = 0, 0  # exactly
        wide = torch.float64 if one.is_floating_point() else one.dtype
        one, two = one.to(wide), two.to(wide)
        off = ~torch.isclose(two, one, rtol=rtol, atol=atol, equal_nan=True)
        if off.any():
            most = " by up to %.3g" % (two - one).abs()[off].max() if rtol else ""
            found.append("%s: %d of %d values differ%s" % (what, off.sum(), one.numel(), most))
    reason = "; ".join(found[:4])
    if reason:
        finish(2, reason)
    finish(0, "eager and compiled agree")
