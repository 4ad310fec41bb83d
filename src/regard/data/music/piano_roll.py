"""Piano rolls (time across, pitch upward), as a PNG with one colour per voice or as text for a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from regard.core.errors import DataError
from regard.core.extras import require
from regard.data.music.key import pitch_name
from regard.data.music.notes import Note

MAX_COLUMNS = 72  # of the text, without the pitch names; 78 characters in total
BLOCKS = " ▄▀█"  # a character covers two pitches: neither, the lower, the upper, both
COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#7d3c98")


def render(notes: Sequence[Note], *, title: str = "", names: Sequence[str] = (), prompt_seconds: float = 0.0) -> bytes:
    """Notes in seconds -> the bytes of a PNG; the first `prompt_seconds` are shaded."""
    if not notes:
        raise DataError("there are no notes to draw; generate a longer piece")
    require("matplotlib", extra="plots")
    figures = require("matplotlib.figure", extra="plots")
    end = max(note.end for note in notes)
    figure = figures.Figure(figsize=(min(24.0, max(8.0, end / 2.5)), 4.5), layout="constrained")
    axes = figure.add_subplot()
    for voice in sorted({note.voice for note in notes}):
        voice_notes = [note for note in notes if note.voice == voice]
        axes.barh(
            [note.pitch for note in voice_notes],
            [note.end - note.start for note in voice_notes],
            left=[note.start for note in voice_notes],
            height=0.9,
            color=COLOURS[voice % len(COLOURS)],
            label=names[voice] if voice < len(names) else f"voice {voice + 1}",
        )
    if prompt_seconds > 0:
        axes.axvspan(0, prompt_seconds, color="0.9", zorder=0, label="prompt")
    axes.set(xlabel="seconds", ylabel="pitch (60 = middle C)", title=title, xlim=(0, end))
    axes.grid(axis="y", color="0.9", zorder=0)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper right", ncols=5, fontsize="small")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def render_text(notes: Sequence[Note], *, prompt_seconds: float = 0.0) -> str:
    """Notes in seconds -> lines of text of at most 78 characters; a double rule marks the first `prompt_seconds`."""
    if not notes:
        return "(no notes)\n"
    end = max(note.end for note in notes)
    columns = max(1, min(MAX_COLUMNS, round(end * 8)))
    low, high = (edge(note.pitch for note in notes) for edge in (min, max))
    low -= (high - low + 1) % 2  # two pitches per character
    sounds = np.zeros((high - low + 1, columns), dtype=np.int64)  # from the highest pitch down
    for note in notes:
        first = min(columns - 1, int(note.start / end * columns))
        sounds[high - note.pitch, first : max(first + 1, round(note.end / end * columns))] = 1
    rows = 2 * sounds[::2] + sounds[1::2]
    names = [f"{pitch_name(pitch):>4} │" for pitch in range(high, low, -2)]
    lines = [name + "".join(BLOCKS[cell] for cell in row) for name, row in zip(names, rows.tolist(), strict=True)]
    prompt_columns = min(columns, round(prompt_seconds / end * columns))
    ruler = "═" * prompt_columns + "─" * (columns - prompt_columns)
    return "\n".join([*lines, f"{'':>4} └{ruler}", f"{'0 s':>5}{f'{end:.1f} s':>{max(1, columns + 1)}}"]) + "\n"
