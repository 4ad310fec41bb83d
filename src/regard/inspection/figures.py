"""Figures for print: the primary map as PNG, or as PDF with an additional page of all heads per group."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.extras import require
from regard.core.files import write_bytes
from regard.inspection.json_format import Inspection, Map

SHADES = ["#fdfcf8", "#f3f3d3", "#cfe6c2", "#90cdb9", "#4ca9b3", "#2a7fa8", "#245592", "#1d2f6b", "#120f3a"]
MANY_KEYS = 24  # more keys have small weights: they are drawn on a root scale, as on the page
TEXT_COLOR, LABEL_COLOR = "#1c2024", "#5c636b"
# Fonts with Hangul and CJK glyphs, in order of preference; fonts that are not installed are skipped.
FONTS = [
    "Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "NanumBarunGothic", "Apple SD Gothic Neo", "Malgun Gothic",
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "WenQuanYi Micro Hei",
]  # fmt: skip


def save(inspection: Inspection, path: Path) -> None:
    """Draw an inspection to a .png or .pdf file."""
    suffix = path.suffix.lower()
    if suffix not in (".png", ".pdf"):
        raise RegardError(f"{path}: figures are saved as .png or .pdf, not {suffix or 'without a suffix'}")
    first = inspection.primary_map
    if first is None:
        raise RegardError(f"{inspection.model} has no attention map to draw")
    matplotlib = require("matplotlib", extra="plots")
    # fontTools logs every table that it drops from an embedded font.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    with matplotlib.rc_context({"font.family": fonts(), "pdf.fonttype": 42, "axes.unicode_minus": False}):
        write_bytes(path, _png(inspection, first) if suffix == ".png" else _pdf(inspection, first))


def fonts() -> list[str]:
    """Return the font families: the default one, then those with the glyphs that it lacks."""
    manager = require("matplotlib.font_manager", extra="plots")
    installed = set(manager.get_font_names())
    if not installed & set(FONTS):  # matplotlib caches its list: search for fonts installed since then
        for path in manager.findSystemFonts():
            if any(word in path.lower() for word in ("nanum", "noto", "malgun", "gothic", "wqy")):
                manager.fontManager.addfont(path)
        installed = set(manager.get_font_names())
    return ["DejaVu Sans", *(name for name in FONTS if name in installed)]


def _png(inspection: Inspection, first: Map) -> bytes:
    buffer = io.BytesIO()
    _large(inspection, first).savefig(buffer, format="png", dpi=200)
    return buffer.getvalue()


def _pdf(inspection: Inspection, first: Map) -> bytes:
    pages = require("matplotlib.backends.backend_pdf", extra="plots").PdfPages
    buffer = io.BytesIO()
    with pages(buffer) as document:
        document.savefig(_large(inspection, first))
        for group in dict.fromkeys(attention.group for attention in inspection.maps):
            document.savefig(_grid([attention for attention in inspection.maps if attention.group == group]))
    return buffer.getvalue()


def _figure(width: float, height: float) -> Any:
    figure = require("matplotlib.figure", extra="plots").Figure
    return figure(figsize=(width, height), layout="constrained", facecolor="white")


def _colormap() -> Any:
    colors = require("matplotlib.colors", extra="plots")
    return colors.LinearSegmentedColormap.from_list("regard", SHADES)


def _norm(weights: Any, attention: Map) -> Any:
    """Return the color scale: up to the largest weight of a row that is not forced, by roots if there are many keys.

    A row is forced if the mask leaves it one key: its weight is 1 in every model, and would set the scale.
    """
    colors = require("matplotlib.colors", extra="plots")
    allowed = attention.allowed
    forced = None if allowed is None or weights.shape[1] == 1 else allowed.any(axis=0).sum(axis=1) == 1
    free = weights if forced is None or forced.all() else weights[~forced]
    return colors.PowerNorm(0.5 if weights.shape[1] > MANY_KEYS else 1.0, vmin=0, vmax=max(float(free.max()), 1e-9))


def _large(inspection: Inspection, attention: Map) -> Any:
    """Draw the mean over the heads of a map, with labels of rows and columns."""
    weights = attention.weights.mean(axis=0)
    rows, columns = weights.shape
    side = 0.34 if max(rows, columns) <= 60 else 10 / max(rows, columns)
    figure = _figure(max(4.0, 2.2 + side * columns), max(3.4, 1.9 + side * rows))
    axes = figure.add_subplot()
    image = axes.imshow(weights, cmap=_colormap(), norm=_norm(weights, attention), aspect="equal")
    if max(rows, columns) <= 60:
        axes.set_xticks(
            range(columns), inspection.axes[attention.keys].labels, rotation=50, ha="left", rotation_mode="anchor"
        )
        axes.set_yticks(range(rows), inspection.axes[attention.queries].labels)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=9, colors=TEXT_COLOR)
    axes.spines[:].set_visible(False)
    heads, title = len(attention.weights), f"{attention.title}, layer {attention.layer + 1}"
    axes.set_xlabel(f"{title}, mean of {heads} heads" if heads > 1 else title, fontsize=9, color=LABEL_COLOR)
    bar = figure.colorbar(image, ax=axes, shrink=0.5, aspect=18)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0, colors=LABEL_COLOR)
    return figure


def _grid(maps: list[Map]) -> Any:
    """Draw all layers × heads of one group."""
    heads = max(len(attention.weights) for attention in maps)
    figure = _figure(max(4.0, 0.9 + 1.1 * heads), max(1.8, 0.8 + 1.15 * len(maps)))
    figure.suptitle(maps[0].title, fontsize=11, color=TEXT_COLOR)
    panels = figure.subplots(len(maps), heads, squeeze=False)
    for row, attention in zip(panels, maps, strict=True):
        for head, axes in enumerate(row):
            axes.set_axis_off()
            if head < len(attention.weights):
                weights = attention.weights[head]
                axes.imshow(
                    weights,
                    cmap=_colormap(),
                    norm=_norm(weights, attention),
                    aspect="auto",
                    interpolation="nearest",
                )
                axes.set_title(f"{attention.layer + 1}.{head + 1}", fontsize=7, color=LABEL_COLOR, pad=2)
    return figure
