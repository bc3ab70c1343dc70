"""Charts of timings: speed-up by shape and mode, across releases, compile time, share of
the machine's limit.

Points are medians, bars the quartiles; a hollow point is no difference beyond the noise, a cross a
variant that failed. Colours are Okabe and Ito's, each variant with a marker of its own. The bytes
depend on the records alone.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from harness.judge import version_key
from harness.report.charts import Chart

EAGER = "#000000"
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7F7F7F")
MARKERS = "osD^vPX*<>"
PNG_DPI = 110
SAME, FAILED = "no difference", "failed"
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "harness", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 9,
    "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "path.simplify": False,
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left",
}  # fmt: skip


@dataclass(frozen=True)
class _Sheet:
    """What is drawn of one timing: all of it, its newest release, releases oldest first."""

    part: pd.DataFrame
    newest: pd.DataFrame
    releases: list[str]
    looks: list[_Look]


@dataclass(frozen=True)
class _Look:
    """How a variant is drawn everywhere."""

    name: str
    colour: str
    marker: str


def timing_charts(table: pd.DataFrame) -> list[Chart]:
    """Up to four charts for each case, timing, device and machine of :func:`timing_frame`'s table."""
    made: list[Chart] = []
    for key, part in table.groupby(["case", "timing", "device", "machine"], sort=True):
        case, timing, device, machine = key
        part = part[part["variant"].notna()]
        if part.empty:
            continue
        releases = sorted(part["torch"].unique(), key=version_key)
        sheet = _Sheet(part, part[part["torch"] == releases[-1]], releases, _looks(part))
        where = f"{case}: {timing} on {device}, {machine}"
        for kind, (title, draw) in _KINDS.items():
            name = f"timing-{kind}-{case}-{timing}-{device}-{machine}"
            data = _drawn(f"{where}\n{title.format(torch=releases[-1])}", partial(draw, sheet), sheet.looks)
            if data is not None:
                title = f"{where}. {title.format(torch=releases[-1])}"
                made.append(Chart(name=name, title=title, case=str(case), svg=data[0], png=data[1]))
    return made


def _drawn(title: str, draw: Callable[[], Any], looks: Sequence[_Look]) -> tuple[bytes, bytes] | None:
    """SVG and PNG, whatever the user's settings of matplotlib are."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        figure = draw()
        if figure is None:
            return None
        FigureCanvasAgg(figure)
        used = {text for axes in figure.axes for text in axes.get_legend_handles_labels()[1]}
        _legend(figure, looks, used)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        return _bytes(figure, "svg"), _bytes(figure, "png")


def _legend(figure: Any, looks: Sequence[_Look], used: set[str]) -> None:
    from matplotlib.lines import Line2D

    drawn = [(look.name, look.colour, look.marker, look.colour) for look in looks if look.name in used]
    drawn += [(SAME, "#555555", "o", "white")] if SAME in used else []
    drawn += [(FAILED, "#555555", "x", "#555555")] if FAILED in used else []
    handles = [
        Line2D([], [], color=colour, marker=marker, markerfacecolor=face, linestyle="", label=name)
        for name, colour, marker, face in drawn
    ]
    if not drawn:  # the axis names the variants
        return
    width = max(len(name) for name, *_ in drawn)
    columns = max(1, min(len(drawn), int(figure.get_figwidth() / (0.5 + 0.08 * width))))
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, frameon=False)


def _bytes(figure: Any, form: str) -> bytes:
    out = io.BytesIO()
    if form == "svg":
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    else:
        figure.savefig(out, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return out.getvalue()


# What is drawn ----------------------------------------------------------------------------------


def _speedups(sheet: _Sheet) -> Any:
    """Speed-up by shape: a panel a dtype; on CUDA a second row for the device alone."""
    return _ratios(sheet, "speedup", "difference", "speed-up over eager (×)")


def _costs(sheet: _Sheet) -> Any:
    """What workarounds cost: their time as a multiple of the unmodified variant's."""
    return _ratios(sheet, "vs", "vs_difference", "time, multiple of the unmodified (×)")


def _ratios(sheet: _Sheet, column: str, word: str, label: str) -> Any:
    part = sheet.newest
    if not part[column].notna().any():
        return None
    looks = [
        look
        for look in sheet.looks
        if part[part["variant"] == look.name][column].notna().any()
        or (part[part["variant"] == look.name]["kind"] != "ok").any()
    ]
    rows = [("", "as called: wall time, host included")]
    if part[f"device_{column}"].notna().any():
        rows.append(("device_", "device alone, cold L2 cache"))

    def cell(axes: Any, some: pd.DataFrame, row: tuple[str, str]) -> None:
        axes.axhline(1, color="#888888", linewidth=0.8, zorder=1)
        axes.set_yscale("log", base=2)
        _points(axes, some, looks, row[0] + column, row[0] + word)
        _plain_ticks(axes, "×", 2.0)

    return _by_dtype(part, rows, cell, label)


def _shares(sheet: _Sheet) -> Any:
    """Share of the limit by shape: the time that the measured rates allow, over the time taken."""
    part = sheet.newest
    if not part["share"].notna().any():
        return None
    timed = part["device_median_s"].where(part["device_median_s"].notna(), part["median_s"])
    low = part["device_q3_s"].where(part["device_q3_s"].notna(), part["q3_s"])
    high = part["device_q1_s"].where(part["device_q1_s"].notna(), part["q1_s"])
    part = part.assign(
        percent=100 * part["share"],
        percent_low=100 * part["share"] * timed / low,
        percent_high=100 * part["share"] * timed / high,
        same=None,
    )
    clock = "device time" if part["device_median_s"].notna().any() else "wall time"

    def cell(axes: Any, some: pd.DataFrame, row: tuple[str, str]) -> None:
        axes.axhline(100, color="#888888", linewidth=0.8, zorder=1)
        axes.set_yscale("log")
        _points(axes, some, sheet.looks, "percent", "same")
        _plain_ticks(axes, "%", 10.0)
        bounds = some.drop_duplicates("size").set_index("size")["bound"]
        names = [text.get_text() for text in axes.get_xticklabels()]
        sizes = _sizes(some)
        axes.set_xticks(
            range(len(names)),
            [f"{name}\nbound: {bounds.get(size)}" for name, size in zip(names, sizes, strict=True)],
        )

    return _by_dtype(part, [("", clock)], cell, "share of the limit (%)")


def _by_dtype(
    part: pd.DataFrame, rows: Sequence[tuple[str, str]], cell: Callable[..., None], label: str
) -> Any:
    from matplotlib.figure import Figure

    dtypes = sorted(part["dtype"].unique(), reverse=True)
    count = max(len(_sizes(part)), 1)
    width = 0.9 + max(3.6, count * 1.15)
    figure = Figure(
        figsize=(width * len(dtypes), 0.9 + 3.1 * len(rows)), facecolor="white", layout="constrained"
    )
    grid = figure.subplots(len(rows), len(dtypes), squeeze=False, sharey="row")
    for line, row in zip(grid, rows, strict=True):
        for axes, dtype in zip(line, dtypes, strict=True):
            some = part[part["dtype"] == dtype]
            sizes = _sizes(some)
            axes.set_xticks(range(len(sizes)), [_size_label(some, size) for size in sizes], fontsize=8)
            axes.set_xlim(-0.5, len(sizes) - 0.5)
            cell(axes, some, row)
            axes.set_title(f"{dtype}: {row[1]}")
            axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
            axes.set_axisbelow(True)
            for edge in range(1, len(sizes)):
                axes.axvline(edge - 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
        line[0].set_ylabel(label)
    return figure


def _points(axes: Any, part: pd.DataFrame, looks: Sequence[_Look], column: str, word: str) -> None:
    """Medians with quartile bars, variants beside each other in each size."""
    shown = [look for look in looks if (part["variant"] == look.name).any()]
    step = min(0.16, 0.8 / max(1, len(shown)))
    for number, look in enumerate(shown):
        shift = (number - (len(shown) - 1) / 2) * step
        for place, size in enumerate(_sizes(part)):
            found = part[(part["variant"] == look.name) & (part["size"] == size)]
            for _, row in found.iterrows():
                if pd.notna(row[column]) and row[column] > 0:
                    bars = [[row[column] - row[f"{column}_low"]], [row[f"{column}_high"] - row[column]]]
                    hollow = row[word] == "none"
                    if hollow:
                        axes.plot([], [], label=SAME)
                    axes.errorbar(
                        place + shift, row[column], yerr=bars, color=look.colour, marker=look.marker,
                        markersize=5.5, markerfacecolor="white" if hollow else look.colour, linestyle="",
                        elinewidth=1.3, capsize=2, label=look.name, zorder=3,
                    )  # fmt: skip
                elif row["kind"] != "ok":
                    axes.plot([], [], label=FAILED)
                    axes.plot(
                        place + shift, 0.03, marker="x", color=look.colour, markersize=6, linestyle="",
                        transform=axes.get_xaxis_transform(), label=look.name, clip_on=False,
                    )  # fmt: skip


def _compile_times(sheet: _Sheet) -> Any:
    """First calls from cold caches: a panel a release, a line a variant, a dot a size and dtype."""
    from matplotlib.figure import Figure

    part, releases, looks = sheet.part, sheet.releases, sheet.looks
    cold = part[(part["cold"] == True) & (part["first_call_s"] > 0)]  # noqa: E712 -- objects, with nulls
    if cold.empty:
        return None
    shown = [look for look in looks if (cold["variant"] == look.name).any()]
    columns = min(4, len(releases))
    lines = -(-len(releases) // columns)
    size = (2.0 + 2.6 * columns, 1.1 + lines * (0.7 + 0.32 * len(shown)))
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    flat = [axes for line in grid for axes in line]
    for axes in flat[len(releases) :]:
        axes.set_visible(False)
    for axes, torch in zip(flat, releases, strict=False):
        axes.set_xscale("log")
        for place, look in enumerate(shown):
            values = sorted(cold[(cold["torch"] == torch) & (cold["variant"] == look.name)]["first_call_s"])
            if not values:
                continue
            spread = [place + 0.18 * ((n % 3) - 1) for n in range(len(values))]
            axes.plot(values, spread, color=look.colour, marker=look.marker, linestyle="", markersize=4.5,
                      alpha=0.55, markeredgewidth=0)  # fmt: skip
            series = pd.Series(values)
            low, middle, high = (float(series.quantile(q)) for q in (0.25, 0.5, 0.75))
            axes.plot([low, high], [place, place], color=look.colour, linewidth=2, zorder=3)
            axes.plot(
                [middle, middle], [place - 0.33, place + 0.33], color=look.colour, linewidth=2.4, zorder=3
            )
        axes.set_yticks(range(len(shown)), [look.name for look in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_title(f"torch {torch}")
        axes.grid(axis="x", color="#e5e5e5", linewidth=0.6)
        _plain_ticks(axes, "", 10.0, axis="x")
    for axes in flat[: len(releases)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("first call (s)")
    return figure


def _releases(sheet: _Sheet) -> Any:
    """Time a call over the releases: a panel a size and dtype, scales of their own, from zero."""
    from matplotlib.figure import Figure

    part, releases, looks = sheet.part, sheet.releases, sheet.looks
    if len(releases) < 2 or not part["median_s"].notna().any():
        return None
    sizes, dtypes = _sizes(part), sorted(part["dtype"].unique(), reverse=True)
    figure = Figure(
        figsize=(0.6 + len(sizes) * max(2.3, 0.42 * len(releases)), 1.5 + 2.5 * len(dtypes)),
        facecolor="white", layout="constrained",
    )  # fmt: skip
    grid = figure.subplots(len(dtypes), len(sizes), squeeze=False, sharex=True)
    step = min(0.1, 0.7 / max(1, len(looks)))
    for line, dtype in zip(grid, dtypes, strict=True):
        for axes, size in zip(line, sizes, strict=True):
            some = part[(part["dtype"] == dtype) & (part["size"] == size)]
            scale, unit = _unit(some["q3_s"].max())
            for number, look in enumerate(looks):
                shift = (number - (len(looks) - 1) / 2) * step
                rows = some[(some["variant"] == look.name)].set_index("torch")
                at = [i for i, torch in enumerate(releases) if torch in rows.index]
                seen = rows.reindex([releases[i] for i in at])
                middle = seen["median_s"] * scale
                bars = [middle - seen["q1_s"] * scale, seen["q3_s"] * scale - middle]
                axes.errorbar(
                    [i + shift for i in at], middle, yerr=bars, color=look.colour, marker=look.marker,
                    markersize=4.5, linewidth=1, elinewidth=1.2, capsize=2, label=look.name,
                )  # fmt: skip
                lost = [i + shift for i in at if rows.loc[releases[i], "kind"] != "ok"]
                if lost:  # an empty line without clipping would take the layout to its corner
                    axes.plot([], [], label=FAILED)
                    axes.plot(lost, [0.03] * len(lost), marker="x", color=look.colour, linestyle="",
                              transform=axes.get_xaxis_transform(), clip_on=False)  # fmt: skip
            axes.set_ylim(bottom=0)
            axes.set_xlim(-0.5, len(releases) - 0.5)
            axes.set_xticks(range(len(releases)), releases, rotation=90)
            axes.set_title(f"{size}, {dtype}, {unit}", fontsize=9)
            axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        line[0].set_ylabel("time a call")
    return figure


_KINDS: dict[str, tuple[str, Callable[[_Sheet], Any]]] = {
    "speedup": ("Speed-up over eager, torch {torch}", _speedups),
    "cost": ("What workarounds cost, torch {torch}", _costs),
    "releases": ("Time a call across releases, wall time", _releases),
    "compile": (
        "First call from cold caches: compilation; a dot a size and dtype, once each",
        _compile_times,
    ),
    "share": ("Share of the machine's measured limit, torch {torch}", _shares),
}


# Small things -----------------------------------------------------------------------------------


def _looks(part: pd.DataFrame) -> list[_Look]:
    """Variants in the order of the records, eager first and black."""
    names = list(dict.fromkeys(part["variant"]))
    others = [name for name in names if name != "eager"]
    found = [_Look("eager", EAGER, "o")] if "eager" in names else []
    for number, name in enumerate(others):
        found.append(_Look(name, COLOURS[number % len(COLOURS)], MARKERS[1 + number % (len(MARKERS) - 1)]))
    return found


def _sizes(part: pd.DataFrame) -> list[str]:
    """Size names from the least work to the most."""
    least = part.groupby("size")["flops"].min()
    known = sorted(least.index, key=lambda name: (0.0 if math.isnan(least[name]) else least[name], name))
    return [str(name) for name in known]


def _size_label(part: pd.DataFrame, size: str) -> str:
    dims = str(part[part["size"] == size]["dims"].iloc[0])
    names, values = zip(*(item.split("=") for item in dims.split()), strict=True)
    return f"{size}\n{'×'.join(values)}\n({','.join(names)})"


def _unit(seconds: float) -> tuple[float, str]:
    for scale, unit in ((1e6, "µs"), (1e3, "ms")):
        if not seconds * scale >= 2000:
            return scale, unit
    return 1.0, "s"


def _plain_ticks(axes: Any, unit: str, base: float, axis: str = "y") -> None:
    """Ticks of a log axis as plain numbers; evenly spaced ones where whole powers are few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    which = axes.yaxis if axis == "y" else axes.xaxis
    low, high = which.get_view_interval()
    span = math.log(high / low, base) if low > 0 else 9.0
    subs = (1.0, 2.0, 5.0) if base == 10 and span < 3 else (1.0,)
    if span < (2.0 if base == 2 else 0.6):
        which.set_major_locator(MaxNLocator(6))
    else:
        which.set_major_locator(LogLocator(base=base, subs=subs, numticks=12))
    which.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{unit}"))
    which.set_minor_formatter(NullFormatter())
