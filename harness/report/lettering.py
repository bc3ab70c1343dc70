"""Short texts on a matplotlib figure, drawn glyph by glyph: a collection for each character.

A heat map has some seven hundred of them. As matplotlib's own texts and ticks they take most of the
time that a chart costs; as collections, next to none, and an SVG refers to each glyph by its id.
Positions and sizes are in inches from the figure's lower left.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

_UNIT = 100.0  # glyph outlines are taken at this many pixels an em

Placed = list[tuple[float, float]]


@functools.cache
def _font(bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))
    font.set_size(_UNIT, 72)
    return font


@functools.lru_cache(512)
def _glyph(char: str, bold: bool) -> tuple[Any, Any, float]:
    """Vertices, codes and advance of a character, at one unit an em."""
    from matplotlib.ft2font import LoadFlags

    font = _font(bold)
    glyph = font.load_char(ord(char), flags=LoadFlags.NO_HINTING)
    vertices, codes = font.get_path()
    return vertices / _UNIT, codes, glyph.linearHoriAdvance / 65536 / _UNIT


def width(text: str, points: float, bold: bool = False) -> float:
    """Inches that ``text`` is long."""
    return sum(_glyph(char, bold)[2] for char in text) * points / 72


class Lettering:
    """Collects texts, then draws them all."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, float, bool, bool], Placed] = defaultdict(list)

    def write(
        self, text: str, x: float, y: float, points: float, *, align: float = 0, bold: bool = False,
        upright: bool = False,
    ) -> None:  # fmt: skip
        """``text`` with its middle line through (x, y), ``align`` of its length before that point
        (0 starts there, 0.5 is centred, 1 ends there); ``upright`` reads from below."""
        at = -align * width(text, points, bold)
        sink = -0.36 * points / 72  # half the height of a capital
        for char in text:
            place = (x - sink, y + at) if upright else (x + at, y + sink)
            if not char.isspace():
                self._places[char, points, bold, upright].append(place)
            at += _glyph(char, bold)[2] * points / 72

    def draw(self, axes: Any, colour: str = "#000000") -> None:
        """Onto ``axes``, whose data coordinates are inches of the figure."""
        from matplotlib.collections import PathCollection
        from matplotlib.path import Path
        from matplotlib.transforms import Affine2D

        for (char, points, bold, upright), places in self._places.items():
            vertices, codes, _ = _glyph(char, bold)
            turn = Affine2D().scale(points / 72)
            path = Path(vertices, codes).transformed(turn.rotate_deg(90) if upright else turn)
            glyphs = PathCollection(
                [path], offsets=places, offset_transform=axes.transData, facecolor=colour, linewidth=0
            )
            glyphs.set_transform(axes.figure.dpi_scale_trans)
            glyphs.set_snap(False)
            axes.add_collection(glyphs, autolim=False)
