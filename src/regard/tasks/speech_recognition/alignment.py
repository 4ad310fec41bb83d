"""Alignment of transcripts with time: attention over frames, compared with the true boundaries of the words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.record import attention_modules, record
from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.progress import track
from regard.core.protocols.speech import SpeechFrames, SpeechModel
from regard.data import batching
from regard.data.speech.features import HOP_SECONDS, Features
from regard.data.speech.utterances import Utterances, WordSpan
from regard.data.text.alignment import word_indices
from regard.data.text.tokenizer import Tokenizer
from regard.layers.fuse_for_decoding import original_model

FRAME_AXIS = "frames"  # key axis of attention over the states of the encoder
BATCH_UTTERANCES = 32
SPAN_SHARE = 0.8  # of the attention of a token that is in its span


class AlignmentScores(NamedTuple):
    """Attention of the words of a split, compared with their true boundaries."""

    error: float  # share of words whose most attended time is outside of their boundaries
    outside: float  # share of attention outside of the boundaries of the attending word
    monotonic: float  # share of words whose most attended time is not before that of the previous word


def collate_features(features: Sequence[Features]) -> SpeechFrames:
    """Features (t m) of each recording -> a padded batch (b t m)."""
    lengths = np.array([len(part) for part in features], np.int64)
    frames = np.zeros((len(features), int(lengths.max(initial=1)), features[0].shape[1]), np.float32)
    for row, part in enumerate(features):
        frames[row, : len(part)] = part
    return SpeechFrames(torch.from_numpy(frames), torch.from_numpy(lengths))


def state_times(num_states: int, reduction: int) -> NDArray[np.float64]:
    """Return start and stop of each state of the encoder in seconds (s 2)."""
    edges = np.arange(num_states + 1) * (reduction * HOP_SECONDS)
    return np.stack([edges[:-1], edges[1:]], axis=1)


def attention_over_time(model: Any, source: SpeechFrames, tokens: Tensor) -> Tensor | None:
    """Recordings and transcripts with BOS and EOS (b t+1) -> weights (b t s) of each token after BOS.

    The mean over the heads of the last layer that attends to frames; None for a model without attention.
    """
    model = original_model(model)
    if not attention_modules(model):
        return None
    with record(model) as maps:
        model.features(tokens[:, :-1], model.start(source))
    weights = [attention.weights for attention in maps.values() if attention.keys == FRAME_AXIS != attention.queries]
    return weights[-1].mean(dim=1)


def alignment_scores(
    model: SpeechModel, split: Utterances, vocabulary: Tokenizer, special_tokens: SpecialTokens
) -> AlignmentScores | None:
    """Compare attention with the true boundaries, teacher-forced; None without attention or boundaries."""
    if not len(split) or not split.word_spans(0):
        return None
    tokens = vocabulary.encode(split.transcripts)
    per_word: list[tuple[bool, float, bool]] = []
    with eval_mode(model) as device:
        batches = batching.batches_by_length(split.num_frames(), budget=2**62, max_rows=BATCH_UTTERANCES)
        for batch in track(batches, total=len(split), size=len):
            rows = [[special_tokens.bos, *tokens[i], special_tokens.eos] for i in batch.tolist()]
            source = collate_features([split.features(i) for i in batch.tolist()])
            moved = SpeechFrames(source.frames.to(device), source.lengths.to(device))
            weights = attention_over_time(model, moved, batching.pad(rows).tokens.to(device))
            if weights is None:
                return None
            for i, row in zip(batch.tolist(), weights.double().cpu().numpy(), strict=True):
                first_tokens = _first_tokens(split.transcripts[i], vocabulary)
                per_word += _compare(row[first_tokens], split.word_spans(i), model.reduction)
    hits, inside, forward = (np.mean(column) for column in zip(*per_word, strict=True))
    return AlignmentScores(float(1 - hits), float(1 - inside), float(forward))


def _first_tokens(text: str, vocabulary: Tokenizer) -> list[int]:
    """Return the index of the first token of each word."""
    indices = word_indices(text, vocabulary.encode_with_offsets(text))
    return [indices.index(word) for word in range(len(text.split()))]


def _compare(weights: NDArray[np.float64], spans: Sequence[WordSpan], reduction: int) -> list[tuple[bool, float, bool]]:
    """Weights (words s) -> for each word: its peak is inside, the attention inside, its peak is not before the last."""
    times = state_times(weights.shape[1], reduction)
    centers = times.mean(axis=1)
    peaks = weights.argmax(axis=1)
    results = []
    for word, (span, peak) in enumerate(zip(spans, peaks, strict=True)):
        overlap = np.clip(np.minimum(times[:, 1], span.stop) - np.maximum(times[:, 0], span.start), 0, None)
        inside = float(weights[word] @ (overlap / (times[:, 1] - times[:, 0])))
        hit = bool(overlap[peak] > 0) and span.start - 1e-9 <= centers[peak] <= span.stop + 1e-9
        results.append((hit, inside, not word or bool(peak >= peaks[word - 1])))
    return results


def token_times(weights: Tensor, reduction: int) -> list[tuple[float, float]]:
    """Weights (t s) -> start and stop in seconds of the states that hold most of each token's attention.

    The shortest span around the peak that has SPAN_SHARE of the attention.
    """
    times = state_times(weights.shape[1], reduction)
    spans = []
    for row in weights.double().cpu().numpy():
        low = high = int(row.argmax())
        while row[low : high + 1].sum() < SPAN_SHARE * row.sum() and (low > 0 or high < len(row) - 1):
            left, right = (row[low - 1] if low else -1.0), (row[high + 1] if high < len(row) - 1 else -1.0)
            low, high = (low - 1, high) if left >= right else (low, high + 1)
        spans.append((float(times[low, 0]), float(times[high, 1])))
    return spans


def signatures() -> dict[str, str]:
    """Return how the metrics of the alignment are computed."""
    measured = "teacher-forced, mean of heads, at the first token of each word"
    peak = "share of words whose most attended time is"
    return {
        "alignment_error": f"{peak} outside of their true boundaries; {measured}",
        "attention_outside": f"share of attention outside of the true boundaries of the word; {measured}",
        "monotonic": f"{peak} not before that of the previous word; {measured}",
    }
