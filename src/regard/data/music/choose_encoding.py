"""Choice of the encoding by the data: the grid of four voices, or events if the grid would lose notes or times."""

from __future__ import annotations

from itertools import islice
from math import remainder
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.music import dataset
from regard.data.music.encodings import EncodingName
from regard.data.music.grid_encoding import GridEncoding

MAX_SAMPLED_FILES = 40  # files that are read for the choice, the first by name
MAX_LOST_SHARE = 0.05  # of the notes, up to which the grid is chosen
MAX_GRID_OFFSET = 0.1  # in steps: a note that starts farther from the grid was not meant to be on it
MAX_OFF_GRID_SHARE = 0.5  # of the notes; performances are on no grid


class EncodingChoice(NamedTuple):
    """The name of an encoding, and a line that gives the reason; "" if there is nothing to report."""

    name: EncodingName
    reason: str = ""


def choose_encoding(path: Path | None) -> EncodingChoice:
    """Choose the encoding of the pieces at a path: events only for files that do not fit the grid."""
    if path is None or not path.is_dir():
        return EncodingChoice("grid")
    grid = GridEncoding()
    num_notes = num_lost = num_off_grid = 0
    for _, source, data in islice(dataset.iter_files(path, []), MAX_SAMPLED_FILES):
        try:
            notes = grid.read_notes(source, data).notes
            lost = grid.open(source, data).num_lost
        except RegardError:  # reported when the file is read for training
            continue
        num_notes, num_lost = num_notes + len(notes), num_lost + lost
        num_off_grid += sum(abs(remainder(note.start * grid.resolution, 1)) > MAX_GRID_OFFSET for note in notes)
    if not num_notes:
        return EncodingChoice("grid")
    lost_share, off_grid_share = num_lost / num_notes, num_off_grid / num_notes
    if lost_share <= MAX_LOST_SHARE and off_grid_share <= MAX_OFF_GRID_SHARE:
        return EncodingChoice("grid")
    reason = (
        f"data.encoding=auto: events, because the grid of four voices in {grid.low} … {grid.high} would lose "
        f"{lost_share:.0%} of the notes and move {off_grid_share:.0%}; data.encoding=grid uses it nevertheless"
    )
    return EncodingChoice("events", reason)
