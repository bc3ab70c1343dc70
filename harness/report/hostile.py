"""Text from outside made safe to look at. Escaping for HTML is jinja's; here is the rest of it:
control characters made visible, and texts too long shortened."""

from __future__ import annotations

import functools
import re

from markupsafe import Markup, escape

# Control characters but tab and newline; marks that reorder, join or hide text; lone surrogates,
# which no UTF-8 file can hold.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e01ff]"
)
# More than four combining marks on one letter paint over the lines around it.
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_CODE = re.compile(r"`([^`\n]+)`")
_STACK = re.compile(f"({_MARK}{{4}}){_MARK}+")


def _seen(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"‹U+{code:04X}›"


@functools.lru_cache(8192)
def visible(text: str) -> str:
    """``text`` with nothing in it that acts on a page or a terminal and cannot be seen.

    Control characters become their pictures (␛), others ``‹U+202E›``; line ends become ``\\n``.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _HIDDEN.sub(_seen, text.replace("\r\n", "\n"))
    return text if text.isascii() else _STACK.sub(r"\1", text)


@functools.lru_cache(8192)
def one_line(text: str, limit: int = 200) -> str:
    """``text`` visible, in one line of at most ``limit`` characters."""
    return shorten(" ".join(visible(text[: limit * 8]).split()), limit)


def prose(text: str) -> Markup:
    """``text`` as HTML: escaped, visible, and what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(visible(text)))))


def shorten(text: str, limit: int) -> str:
    """``text`` or its beginning with an ellipsis, at most ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def tail(text: str, limit: int) -> tuple[str, int]:
    """The last ``limit`` characters, from a line's start where there is one, and how many were
    left out."""
    if len(text) <= limit:
        return text, 0
    cut = len(text) - limit
    line = text.find("\n", cut, cut + 200)
    cut = line + 1 if line >= 0 else cut
    return text[cut:], cut


def middle_out(text: str, limit: int) -> tuple[str, int]:
    """``text`` with its middle left out where it is longer than ``limit``, and how much was."""
    if len(text) <= limit:
        return text, 0
    half = limit // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}", len(text) - 2 * half
