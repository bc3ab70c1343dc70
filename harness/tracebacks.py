"""Python tracebacks read back from a program's stderr, where no result file tells more."""

from __future__ import annotations

import re

from harness.outcome import ExceptionInfo

_RANK = re.compile(r"^\[rank\d+\]: ?")
_START = re.compile(r"^Traceback \(most recent call last\):\s*$")
_SYNTAX = re.compile(r"^(SyntaxError|IndentationError|TabError): (.*)$")
_FINAL = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.DOTALL)
_LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


def parse_tracebacks(text: str) -> tuple[ExceptionInfo, ...]:
    """The last chain of exceptions in ``text``, outermost first.

    Python prints causes before what they caused, so the last block is the outermost.
    """
    lines = [_RANK.sub("", line) for line in text.splitlines()]
    starts = [i for i, line in enumerate(lines) if _START.match(line)]
    if not starts:
        # Python says no more than this of a script that it cannot read.
        found = next((m for m in map(_SYNTAX.match, reversed(lines)) if m), None)
        return (ExceptionInfo(type=found[1], message=found[2]),) if found else ()
    chain: list[tuple[ExceptionInfo, str]] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(lines)
        body = lines[start + 1 : end]
        first = next((i for i, line in enumerate(body) if line and not line[0].isspace()), None)
        if first is None:
            continue
        message = body[first:]
        how = "raised"
        for i, line in enumerate(message):
            if line in _LINKS:
                how = "cause" if line == _LINKS[0] else "context"
                message = message[:i]
                break
        found = _FINAL.match("\n".join(message).strip())
        if found is None:
            continue
        if how == "raised" and number + 1 < len(starts):
            chain = []  # a traceback that was printed and survived; what follows is another story
            continue
        chain.append((ExceptionInfo(type=found[1], message=(found[2] or "")[:6000]), how))
    infos = []
    for index, (info, _) in enumerate(reversed(chain)):
        # ``how`` of an inner block says how the next outer one relates to it.
        position = len(chain) - 1 - index
        link = "raised" if index == 0 else chain[position][1]
        infos.append(info.model_copy(update={"link": link}))
    return tuple(infos)
