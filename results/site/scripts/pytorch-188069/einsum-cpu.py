# [inductor] max-autotune: bmm(x, x) and bmm(x, y) share one cached Triton kernel, TypeError
# https://github.com/pytorch/pytorch/issues/188069
# Repro 'einsum' on cpu. The expression, a bmm with the second operand transposed, in one
# graph.
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
        and names & {"TypeError"}
        and any(re.search(words, text) for words in (
            r"launcher\(\) got multiple values for argument 'stream'",
            r"too many positional arguments",
            r"launcher\(\) missing \d+ required positional arguments?",
            r"launcher\(\) takes \d+ positional arguments? but \d+ (was|were) given",
        ))
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
torch.compile(lambda: None, mode="max-autotune-no-cudagraphs")
stage = "build"


def forward(x, y):
    same = torch.einsum("...ab,...Ab->...aA", x, x)
    return same + torch.einsum("...ab,...Ab->...aA", x, y)


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
    x = torch.randn(2, 128, 128)
    y = torch.randn(2, 128, 128)
    output = compile(forward)(x, y)
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
