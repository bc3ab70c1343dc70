# [inductor] max-autotune: bmm(x, x) and bmm(x, y) share one cached Triton kernel, TypeError
# https://github.com/pytorch/pytorch/issues/188069
# Repro 'article-detector' on cuda. The test by which the article's demo recognises the bug,
# applied to one-graph. `failure` is that the test recognises it.
# Needs torch alone. Exits 1 where the bug shows, 0 where not, 2 on another failure.
import atexit, functools, os, platform, re, shutil, sys, tempfile, traceback

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
print("triton", triton, "device", torch.cuda.is_available() and torch.cuda.get_device_name())

stage = "settings"  # what torch refuses here is not the bug
if not torch.cuda.is_available():
    raise RuntimeError("no CUDA device")
torch.compile(lambda: None, mode="max-autotune-no-cudagraphs")
stage = "build"


def f(x, y):
    return torch.bmm(x, x) + torch.bmm(x, y)

def run(compile, x, y):
    try:
        return compile(f)(x, y)
    except TypeError as e:
        if "positional arguments" in str(e):
            raise RuntimeError("the article's test recognises it") from e
        raise


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
        path: value.detach().cpu(),
    }


def call(compile):
    torch.manual_seed(0)
    x = torch.randn(2, 128, 128).to("cuda")
    y = torch.randn(2, 128, 128).to("cuda")
    output = run(compile, x=x, y=y)
    torch.cuda.synchronize()
    seen = facts("output", output)
    seen.update(facts("input x", x))
    seen.update(facts("input y", y))
    return seen


if __name__ == "__main__":
    stage = "eager"
    expected = call(lambda fn, **_: fn)
    stage = "compiled"
    actual = call(functools.partial(torch.compile, mode="max-autotune-no-cudagraphs"))
    stage = "compare"
    found = []
    for what in {**expected, **actual}:
        one, two = expected.get(what), actual.get(what)
        if not (torch.is_tensor(one) and torch.is_tensor(two) and one.shape == two.shape):
            if not torch.is_tensor(one) and one != two:
                found.append("%s %s in eager, %s compiled" % (what, one, two))
            continue
        rtol, atol = 0.001, 0.01
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
