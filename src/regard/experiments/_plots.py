"""Plots of experiments in one style: the colours of the explorer, on a transparent background, in gray ink.

The ink has enough contrast on light and on dark pages, so one file serves both.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from regard.core.extras import require

INK = "#7d858f"  # at least 3.5:1 on white and on the dark page
COLOURS = ("#2f8fb5", "#d9772b", "#5f9e5c", "#a779c9", "#c2647f", "#9a8a3c", "#5b7fd1", "#7d858f")  # accent, warm, …
MARKERS = "osD^vPX*"  # so that colour is not the only difference
MAX_LEGEND_COLUMNS = 3
LEGEND_CHARACTERS = 62  # of a row of a legend, as wide as the plot
HANDLE_CHARACTERS = 5  # width of the line or box before a name, in characters
MAX_TICK_CHARACTERS = 50  # of all groups of bars, above which their names are rotated
STYLE = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "font.size": 11,
    "lines.linewidth": 2,
}


def render(draw: Callable[[Any], None]) -> bytes:
    """Return the PNG of a plot that `draw` draws on one pair of axes."""
    matplotlib: Any = require("matplotlib", extra="plots")
    figure_class: Any = require("matplotlib.figure", extra="plots").Figure
    with matplotlib.rc_context({**STYLE, "axes.prop_cycle": matplotlib.cycler(color=COLOURS)}):
        figure = figure_class(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def plot_lines(axes: Any, named: Mapping[str, Mapping[float, float]], *, x: str, y: str) -> None:
    """Plot curves {name: {x: y}} with axis labels and a legend."""
    for (name, points), marker in zip(named.items(), MARKERS, strict=False):
        axes.plot(list(points), list(points.values()), marker=marker, markersize=5, label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    legend_above(axes, columns=_legend_columns(named))


def plot_bars(axes: Any, named: Mapping[str, Mapping[str, Sequence[float]]], *, y: str) -> None:
    """Plot groups of bars {color: {group: values of the seeds}}; bars are means, error bars span the values."""
    groups = list(dict.fromkeys(group for values in named.values() for group in values))
    width = 0.8 / len(named)
    for index, (name, values) in enumerate(named.items()):
        present = [group for group in groups if group in values]
        xs = [groups.index(group) + (index - (len(named) - 1) / 2) * width for group in present]
        heights = [fmean(values[group]) for group in present]
        errors = [
            [height - min(values[group]) for height, group in zip(heights, present, strict=True)],
            [max(values[group]) - height for height, group in zip(heights, present, strict=True)],
        ]
        axes.bar(xs, heights, width=0.9 * width, yerr=errors, capsize=2, ecolor=INK, label=name)
    crowded = sum(map(len, groups)) > MAX_TICK_CHARACTERS
    axes.set_xticks(range(len(groups)), groups, rotation=20 if crowded else 0, ha="right" if crowded else "center")
    axes.set_ylabel(y)
    if len(named) > 1:
        legend_above(axes, columns=_legend_columns(named))


def draw_baseline(axes: Any, height: float, name: str) -> None:
    """Draw a dashed horizontal line with its name to the right of the axes."""
    axes.axhline(height, color=INK, linestyle="--", linewidth=1)
    coordinates: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate(name, (1, height), xytext=(4, 0), va="center", annotation_clip=False, **coordinates)


def _legend_columns(names: Iterable[str]) -> int:
    """Return the number of columns of a legend, so that it is no wider than the plot and its rows are equally long."""
    lengths = [len(name) + HANDLE_CHARACTERS for name in names]
    allowed = range(2 if len(lengths) == 4 else MAX_LEGEND_COLUMNS, 1, -1)
    return next((columns for columns in allowed if _legend_width(lengths, columns) <= LEGEND_CHARACTERS), 1)


def _legend_width(lengths: Sequence[int], columns: int) -> int:
    """Return the sum of the longest entries of the columns; a legend is filled column by column."""
    rows, num_longer = divmod(len(lengths), columns)
    width, start = 0, 0
    for column in range(columns):
        stop = start + rows + (column < num_longer)
        width, start = width + max(lengths[start:stop], default=0), stop
    return width


def legend_above(axes: Any, *, columns: int) -> None:
    """Add a legend above the axes."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)
