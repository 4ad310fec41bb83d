"""Plots of experiments: a legend is inside its picture, in as few rows as fit."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="the extra plots is not installed")

from regard.experiments import _plots


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("digit error", "digit error, longer strings", "alignment error", "alignment error, longer strings"), 1),
        (("full (1.72 bits per pixel)", "local_1d (1.75 bits per pixel)", "local_2d (1.77 bits per pixel)"), 1),
        (("luong, teacher forcing", "luong, free running", "transformer, teacher forcing", "transformer, free"), 2),
        (("binary", "fraction", "index", "learned", "relative", "rotary", "sinusoidal"), 3),
        (("pretrained", "not pretrained"), 2),
    ],
)
def test_a_legend_is_inside_the_picture(names, columns):
    drawn = []

    def draw(axes):
        drawn.append(axes)
        _plots.plot_lines(axes, {name: {1: 0.5, 2: 1.0} for name in names}, x="tokens", y="accuracy, fraction")

    assert _plots.render(draw).startswith(b"\x89PNG")
    legend, figure = drawn[0].get_legend(), drawn[0].figure
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
    assert min(legend._ncols, len(names)) == columns
