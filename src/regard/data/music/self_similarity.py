"""Self-similarity of pieces: the share of a bar that occurs in earlier bars (Yu et al. 2022, Museformer, section 4).

The similarity of two bars is the number of elements that both have, divided by the number that at least one has. The
elements of a chorale are its sounding cells (voice, step in the bar, pitch). Performances have no bars: the pitches
that start in a window of WINDOW_SECONDS are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.music.grid_encoding import SILENT, Voices
from regard.data.music.notes import Note

Bars = NDArray[np.bool_]  # (bars elements) True if a bar has the element
NUM_PITCHES = 128
BAR_STEPS = 16  # time steps
WINDOW_SECONDS = 2.0
MAX_LAG = 16  # bars


def grid_bars(grid: Voices) -> Bars:
    """A grid (steps voices) -> the cells of its complete bars, counted from the start."""
    cells = grid[: len(grid) // BAR_STEPS * BAR_STEPS].reshape(-1, BAR_STEPS * grid.shape[1])
    bars = np.zeros((*cells.shape, NUM_PITCHES), dtype=bool)
    bar, cell = (cells != SILENT).nonzero()
    bars[bar, cell, cells[bar, cell]] = True
    return bars.reshape(len(cells), cells.shape[1] * NUM_PITCHES)


def performance_bars(notes: Sequence[Note]) -> Bars:
    """Notes in seconds -> the pitches that start in each window."""
    windows = [int(note.start // WINDOW_SECONDS) for note in notes]
    bars = np.zeros((max(windows, default=-1) + 1, NUM_PITCHES), dtype=bool)
    bars[windows, [note.pitch for note in notes]] = True
    return bars


def similarities(bars: Bars) -> NDArray[np.float64]:
    """Return the similarity of each pair of bars (n n); NaN if both are empty."""
    elements = bars.astype(np.float32)
    common = (elements @ elements.T).astype(np.float64)
    sizes = bars.sum(axis=1)
    union = sizes[:, None] + sizes - common
    table = np.full_like(common, np.nan)
    np.divide(common, union, out=table, where=union > 0)
    return table


def best_earlier(bars: Bars) -> float:
    """Return the mean, over the bars from the second on, of the similarity to the most similar earlier bar."""
    table = np.nan_to_num(similarities(bars))
    best = [table[index, :index].max() for index in range(1, len(bars)) if bars[index].any()]
    return float(np.mean(best)) if best else 0.0


def by_lag(pieces: Sequence[Bars]) -> NDArray[np.float64]:
    """Return the mean similarity of two bars of a piece that are 1 … MAX_LAG bars apart; NaN if there are none."""
    tables = [similarities(bars) for bars in pieces]
    means = np.full(MAX_LAG, np.nan)
    for lag in range(1, MAX_LAG + 1):
        values = np.concatenate([np.zeros(0), *(np.diagonal(table, lag) for table in tables)])
        values = values[~np.isnan(values)]
        means[lag - 1] = values.mean() if len(values) else np.nan
    return means


def similarity_error(pieces: Sequence[Bars], reference: Sequence[Bars]) -> float:
    """Return the mean absolute difference of `by_lag` of two sets of pieces, over the lags that both have."""
    difference = np.abs(by_lag(pieces) - by_lag(reference))
    difference = difference[~np.isnan(difference)]
    return float(difference.mean()) if len(difference) else 0.0
