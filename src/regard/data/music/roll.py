"""A piano roll as a PNG: time across, pitch upward, a colour for each voice."""

from __future__ import annotations

import io
from collections.abc import Sequence

from regard.core.errors import DataError
from regard.core.extras import require
from regard.data.music.notes import Note

COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#7d3c98")


def render(notes: Sequence[Note], *, title: str = "", names: Sequence[str] = (), given: float = 0.0) -> bytes:
    """Notes in seconds -> the bytes of a PNG; what lies before `given` seconds (a primer) is shaded."""
    if not notes:
        raise DataError("there are no notes to draw; let the piece be longer")
    require("matplotlib", extra="plots")
    figures = require("matplotlib.figure", extra="plots")
    end = max(note.end for note in notes)
    figure = figures.Figure(figsize=(min(24.0, max(8.0, end / 2.5)), 4.5), layout="constrained")
    axes = figure.add_subplot()
    for voice in sorted({note.voice for note in notes}):
        mine = [note for note in notes if note.voice == voice]
        axes.barh(
            [note.pitch for note in mine],
            [note.end - note.start for note in mine],
            left=[note.start for note in mine],
            height=0.9,
            color=COLOURS[voice % len(COLOURS)],
            label=names[voice] if voice < len(names) else f"voice {voice + 1}",
        )
    if given > 0:
        axes.axvspan(0, given, color="0.9", zorder=0, label="given")
    axes.set(xlabel="seconds", ylabel="pitch (60 = middle C)", title=title, xlim=(0, end))
    axes.grid(axis="y", color="0.9", zorder=0)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper right", ncols=5, fontsize="small")
    packed = io.BytesIO()
    figure.savefig(packed, format="png", dpi=110)
    return packed.getvalue()
