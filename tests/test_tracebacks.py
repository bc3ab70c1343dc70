"""Tracebacks are read back from what real programs write to stderr."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.tracebacks import parse_tracebacks

SIMPLE = """\
/site-packages/torch/cuda/__init__.py:51: FutureWarning: The pynvml package is deprecated.
  import pynvml  # type: ignore[import]
Traceback (most recent call last):
  File "/tmp/repro.py", line 7, in <module>
    f(torch.randn(3))
    ~^^^^^^^^^^^^^^^^
  File "/tmp/torchinductor_root/xy/cxy.py", line 41, in call
    buf0 = empty_strided_cpu((0, 3), (-1, 1), torch.float32)
RuntimeError: Expected result >= 0 to be true, but got false.  (Could this error message be improved?)
"""

CHAINED = """\
Traceback (most recent call last):
  File "/site-packages/torch/_inductor/compile_fx.py", line 952, in compile_fx_inner
    launcher(*args, stream=stream)
TypeError: launcher() got multiple values for argument 'stream'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/tmp/repro.py", line 7, in <module>
    f(x)
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
TypeError: launcher() got multiple values for argument 'stream'

Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information


You can suppress this exception and fall back to eager by setting:
    import torch._dynamo
    torch._dynamo.config.suppress_errors = True

"""

CONTEXT = """\
Traceback (most recent call last):
  File "a.py", line 2, in <module>
    {}["k"]
KeyError: 'k'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
    raise ValueError
ValueError
"""

SURVIVED = """\
Traceback (most recent call last):
  File "worker.py", line 2, in run
    raise OSError("not so bad")
OSError: not so bad
W1201 12:00:00 went on without it
Traceback (most recent call last):
  File "main.py", line 9, in <module>
    main()
torch._inductor.exc.InductorError: LoweringException: AssertionError: no
  target: aten.bmm.default

  args[0]: TensorBox(StorageBox())
"""

SYNTAX = """\
  File "/tmp/repro.py", line 3
    def f(:
          ^
SyntaxError: invalid syntax
"""

IMPORTED_SYNTAX = """\
Traceback (most recent call last):
  File "/tmp/main.py", line 1, in <module>
    import broken
  File "/tmp/broken.py", line 3
    def f(:
          ^
SyntaxError: invalid syntax
"""

DUMP = """\
Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/site-packages/torch/_ops.py", line 1061 in __call__
  File "/tmp/repro.py", line 5 in forward
"""

RANKED = "".join(f"[rank0]: {line}\n" for line in SIMPLE.splitlines()[2:])


def read(text: str) -> list[tuple[str, str, str]]:
    return [(e.type, e.message.splitlines()[0] if e.message else "", e.link) for e in parse_tracebacks(text)]


def test_a_single_exception_is_read_from_among_warnings() -> None:
    assert read(SIMPLE) == [
        (
            "RuntimeError",
            "Expected result >= 0 to be true, but got false.  (Could this error message be improved?)",
            "raised",
        )
    ]


def test_a_chain_comes_outermost_first_with_the_whole_message_of_each() -> None:
    outer, inner = parse_tracebacks(CHAINED)
    assert (outer.type, outer.link) == ("torch._dynamo.exc.BackendCompilerFailed", "raised")
    assert outer.message.startswith("backend='inductor' raised:\nTypeError: launcher()")
    assert outer.message.endswith("suppress_errors = True")
    assert (inner.type, inner.link) == ("TypeError", "cause")
    assert inner.message == "launcher() got multiple values for argument 'stream'"


def test_what_was_being_handled_is_told_from_a_cause() -> None:
    assert read(CONTEXT) == [("ValueError", "", "raised"), ("KeyError", "'k'", "context")]


def test_three_links_keep_their_order() -> None:
    text = CHAINED + "\nDuring handling of the above exception, another exception occurred:\n\n" + SIMPLE
    assert [(kind, link) for kind, _, link in read(text)] == [
        ("RuntimeError", "raised"),
        ("torch._dynamo.exc.BackendCompilerFailed", "context"),
        ("TypeError", "cause"),
    ]


def test_a_traceback_that_was_printed_and_survived_is_another_story() -> None:
    assert read(SURVIVED) == [
        ("torch._inductor.exc.InductorError", "LoweringException: AssertionError: no", "raised")
    ]
    assert "args[0]: TensorBox" in parse_tracebacks(SURVIVED)[0].message


def test_a_source_that_python_cannot_read_is_a_syntax_error() -> None:
    assert read(SYNTAX) == [("SyntaxError", "invalid syntax", "raised")]
    assert read(IMPORTED_SYNTAX) == [("SyntaxError", "invalid syntax", "raised")]


def test_the_prefix_of_a_rank_is_looked_through() -> None:
    assert read(RANKED) == read(SIMPLE)


def test_a_dump_of_a_crash_holds_no_exception() -> None:
    assert read(DUMP) == []
    assert read("") == []
    assert read("Traceback (most recent call last):") == []
    assert read("Traceback (most recent call last):\n  File") == []


def test_a_message_that_goes_on_for_pages_is_cut() -> None:
    (info,) = parse_tracebacks("Traceback (most recent call last):\nValueError: " + "x" * 100_000)
    assert len(info.message) == 6000


LINES = st.sampled_from([*CHAINED.splitlines(), *CONTEXT.splitlines(), *SYNTAX.splitlines(), "x: y", ""])


@given(st.lists(LINES, max_size=30).map("\n".join))
def test_any_mixture_of_lines_is_read_without_failing(text: str) -> None:
    chain = parse_tracebacks(text)
    assert not chain or chain[0].link == "raised"
