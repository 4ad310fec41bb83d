"""Evaluation of music models: nats per note token in windows, and statistics of generated pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.progress import track
from regard.core.protocols import Decoder, Padded
from regard.core.protocols.music import MusicCondition
from regard.data import batching
from regard.data.music import self_similarity, statistics
from regard.data.music.encoding import Encoding, TokenArray
from regard.data.music.grid_encoding import GridEncoding
from regard.tasks._shared.teacher_forcing import gather_log_probs, log_probabilities
from regard.tasks.music.generate import Composition


class Excerpt(NamedTuple):
    """A window of a piece for evaluation, as indices of tokens."""

    start: int
    score_start: int  # tokens from here on are scored
    end: int


def excerpts(length: int, size: int, bar: int) -> list[Excerpt]:
    """Return windows of `size` that score every token once; each but the first has half a window of context."""
    hop = max(bar, size // 2 // bar * bar)
    parts = [Excerpt(0, 0, min(size, length))]
    while parts[-1].end < length:
        start = parts[-1].start + hop
        parts.append(Excerpt(start, parts[-1].end, min(start + size, length)))
    return parts


# tokens (b t+1) and the index of the piece of each row -> the condition of the rows
RowCondition = Callable[[Tensor, Sequence[int]], Padded | MusicCondition]


def no_condition(tokens: Tensor, pieces: Sequence[int] = ()) -> Padded:
    """Return the empty condition for rows of tokens."""
    return Padded(tokens.new_full((len(tokens), 1), SpecialTokens.pad), tokens.new_ones(len(tokens)))


def class_condition(tokens: Tensor, pieces: Sequence[int], *, classes: Sequence[Sequence[int]]) -> Padded:
    """Return the class tokens of the pieces of rows; `classes` are those of all pieces."""
    padded = batching.pad([list(classes[piece]) for piece in pieces])
    return Padded(padded.tokens.to(tokens.device), padded.lengths.to(tokens.device))


def visible_voices(
    tokens: Tensor, pieces: Sequence[int] = (), *, voices: int, visible: Sequence[int] = (0,)
) -> MusicCondition:
    """Rows (b t+1) of tokens, BOS first -> a condition without classes whose fixed tokens are those of some voices,
    by default of the highest."""
    labels = tokens[:, 1:]
    voice = torch.arange(labels.shape[1], device=tokens.device) % voices
    is_visible = torch.isin(voice, torch.tensor(visible, device=tokens.device)) & (labels > SpecialTokens.eos)
    lengths = (labels != SpecialTokens.pad).sum(dim=1)
    return MusicCondition(*no_condition(tokens), Padded(labels * is_visible, lengths))


def note_nats(
    model: Decoder,
    rows: Sequence[TokenArray],
    *,
    window: int,
    bar: int,
    budget: int,
    condition: RowCondition = no_condition,
) -> list[NDArray[np.float64]]:
    """Rows `BOS n1 … nn EOS` -> -log p of their note tokens.

    `window` 0 reads entire pieces; `condition` returns the condition of rows of tokens and of their pieces.
    """
    nats = [np.zeros(len(row) - 2) for row in rows]
    parts = [(i, part) for i, row in enumerate(rows) for part in excerpts(len(row) - 1, window or len(row), bar)]
    lengths = np.array([part.end - part.start for _, part in parts])
    with eval_mode(model) as device:
        for batch in track(batching.batches_by_length(lengths, budget=budget), total=len(parts), size=len):
            chosen = [parts[index] for index in batch]
            tokens = batching.pad([rows[i][part.start : part.end + 1] for i, part in chosen]).tokens.to(device)
            source = condition(tokens, [i for i, _ in chosen])
            log_probs = gather_log_probs(log_probabilities(model, source, tokens), tokens)
            for (i, part), row in zip(chosen, log_probs.double().cpu().numpy(), strict=True):
                last = min(part.end, len(nats[i]))  # EOS is not a note
                nats[i][part.score_start : last] = -row[part.score_start - part.start : last - part.start]
    return nats


def compare_statistics(pieces: Sequence[Composition], reference: Sequence[Any], encoding: Encoding) -> dict[str, float]:
    """Return statistics of generated pieces and of real ones, and the distances between their histograms."""
    generated = [piece.notes for piece in pieces]
    real = [encoding.notes(content) for content in reference]
    distances = {
        "pitch_distance": statistics.total_variation(
            statistics.pitch_histogram(generated), statistics.pitch_histogram(real)
        ),
        "interval_distance": statistics.total_variation(
            statistics.interval_histogram(generated), statistics.interval_histogram(real)
        ),
    }
    if isinstance(encoding, GridEncoding):
        grids = [encoding.decode(piece.tokens) for piece in pieces]
        bars = [[self_similarity.grid_bars(grid) for grid in part] for part in (grids, reference)]
        tables = {"samples": statistics.describe(grids), "data": statistics.describe(reference)}
    else:
        bars = [[self_similarity.performance_bars(notes) for notes in part] for part in (generated, real)]
        tables = {"samples": statistics.texture(generated), "data": statistics.texture(real)}
    distances["similarity_error"] = self_similarity.similarity_error(*bars)
    return distances | {f"{name}_{source}": value for source, table in tables.items() for name, value in table.items()}
