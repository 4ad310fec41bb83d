"""A piano roll: time across, pitch upward. As a PNG with a colour for each voice, or drawn in a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from regard.core.errors import DataError
from regard.core.extras import require
from regard.data.music.key import pitch_name
from regard.data.music.notes import Note

MAX_COLUMNS = 72  # columns of a drawing in a terminal, beside the names of pitches: 78 in all
BLOCKS = " ▄▀█"  # a character is two pitches high: none, the lower, the upper, both
COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#7d3c98")


def render(notes: Sequence[Note], *, title: str = "", names: Sequence[str] = (), prompt_seconds: float = 0.0) -> bytes:
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
    if prompt_seconds > 0:
        axes.axvspan(0, prompt_seconds, color="0.9", zorder=0, label="given")
    axes.set(xlabel="seconds", ylabel="pitch (60 = middle C)", title=title, xlim=(0, end))
    axes.grid(axis="y", color="0.9", zorder=0)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper right", ncols=5, fontsize="small")
    packed = io.BytesIO()
    figure.savefig(packed, format="png", dpi=110)
    return packed.getvalue()


def render_text(notes: Sequence[Note], *, prompt_seconds: float = 0.0) -> str:
    """Notes in seconds -> lines of text, narrower than a terminal; what lies before `given` seconds is marked."""
    if not notes:
        return "(no notes)\n"
    end = max(note.end for note in notes)
    columns = max(1, min(MAX_COLUMNS, round(end * 8)))
    low, high = (edge(note.pitch for note in notes) for edge in (min, max))
    low -= (high - low + 1) % 2  # whole characters
    sounds = np.zeros((high - low + 1, columns), dtype=np.int64)  # from the highest pitch down
    for note in notes:
        first = min(columns - 1, int(note.start / end * columns))
        sounds[high - note.pitch, first : max(first + 1, round(note.end / end * columns))] = 1
    rows = 2 * sounds[::2] + sounds[1::2]
    names = [f"{pitch_name(pitch):>4} │" for pitch in range(high, low, -2)]
    lines = [name + "".join(BLOCKS[cell] for cell in row) for name, row in zip(names, rows.tolist(), strict=True)]
    primer = min(columns, round(prompt_seconds / end * columns))
    ruler = "═" * primer + "─" * (columns - primer)
    return "\n".join([*lines, f"{'':>4} └{ruler}", f"{'0 s':>5}{f'{end:.1f} s':>{max(1, columns + 1)}}"]) + "\n"
