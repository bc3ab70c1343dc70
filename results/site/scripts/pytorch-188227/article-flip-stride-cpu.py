# [inductor] compiled empty_strided with a negative stride: Expected result >= 0
# https://github.com/pytorch/pytorch/issues/188227
# Repro 'article-flip-stride' on cpu.
# Needs torch alone. Exits 1 where the bug shows, 0 where not, 2 on another failure.
import platform, re, sys, traceback

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
        stage != "settings"
        and names & {"AssertionError"}
        and re.search(r"the article says", text)
    )
    line = ("%s: %s" % (kind.__name__, error)).splitlines()[0]
    finish(1 if bug else 2, "%s (stage: %s)" % (line, stage))


sys.excepthook = judge

import torch

print("torch", torch.__version__, torch.version.git_version, "python", platform.python_version())

stage = "build"


def forward():
    a = torch.arange(6).reshape(2, 3)
    c = a.flip(1)
    assert c.stride() == (3, 1), "stride is %s, the article says (3, 1)" % (c.stride(),)
    assert c.is_contiguous() and c.data_ptr() != a.data_ptr(), "the article says: a new tensor"
    return torch.zeros(1)


def call(compile):
    torch.manual_seed(0)
    compile(forward)()


if __name__ == "__main__":
    stage = "eager"
    call(lambda fn, **_: fn)
    stage = "compare"
    finish(0, "it runs")
