"""Files of a transcript: subtitles (.srt) and a picture of the attention over the spectrogram (.svg)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import torch
from torch import Tensor

from regard.attention.record import attention_modules
from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.protocols.speech import SpeechFrames
from regard.data.speech.features import HOP_SECONDS, Features
from regard.data.text.alignment import word_indices
from regard.data.text.tokenizer import Tokenizer
from regard.layers.fuse_for_decoding import original_model
from regard.tasks.speech_recognition import alignment

PIXELS_PER_FRAME, BAND_PIXELS, ROW_PIXELS, LABEL_PIXELS = 2, 3, 18, 90  # sizes in the picture
LEVELS = 24  # shades of the spectrogram; equal neighbors are drawn as one rectangle
MIN_WEIGHT = 0.02  # attention that is drawn


def renderers(
    model: Any,
    features: Features,
    tokens: Sequence[int],
    *,
    vocabulary: Tokenizer,
    special_tokens: SpecialTokens,
) -> dict[str, Callable[[], bytes]]:
    """Return suffix -> a function that renders the file; empty for a model without attention."""
    if not attention_modules(original_model(model)):
        return {}

    def weights() -> Tensor:
        with eval_mode(original_model(model)) as device:
            rows = torch.tensor([[special_tokens.bos, *tokens, special_tokens.eos]], device=device)
            source = alignment.collate_features([features])
            source = SpeechFrames(source.frames.to(device), source.lengths.to(device))
            attended = alignment.attention_over_time(model, source, rows)
        assert attended is not None
        return attended[0, : len(tokens)]  # without EOS

    text = vocabulary.decode([tokens])[0]
    spans = vocabulary.decode_with_offsets(list(tokens))
    original: Any = original_model(model)
    reduction = int(original.reduction)
    return {
        ".srt": lambda: render_subtitles(text, word_indices(text, spans), weights(), reduction),
        ".svg": partial(_render, features, [span.text for span in spans], weights, reduction),
    }


def _render(features: Features, labels: Sequence[str], weights: Callable[[], Tensor], reduction: int) -> bytes:
    return render_picture(features, labels, weights(), reduction)


def render_subtitles(text: str, words: Sequence[int], weights: Tensor, reduction: int) -> bytes:
    """A text, the word of each token and the attention of the tokens (t s) -> one subtitle per word."""
    times = alignment.token_times(weights, reduction)
    blocks = []
    for index, word in enumerate(text.split()):
        spans = [span for span, owner in zip(times, words, strict=True) if owner == index]
        start, stop = min(span[0] for span in spans), max(span[1] for span in spans)
        blocks.append(f"{index + 1}\n{_clock(start)} --> {_clock(stop)}\n{word}\n")
    return "\n".join(blocks).encode()


def _clock(seconds: float) -> str:
    """1.5 -> 00:00:01,500."""
    rest, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, whole_seconds = divmod(rest, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{whole_seconds:02},{milliseconds:03}"


def render_picture(features: Features, labels: Sequence[str], weights: Tensor, reduction: int) -> bytes:
    """Features (t m), tokens and their attention (n s) -> an SVG file: the spectrogram, then one row per token."""
    num_frames, num_bands = features.shape
    top = num_bands * BAND_PIXELS + 6
    width, height = LABEL_PIXELS + num_frames * PIXELS_PER_FRAME, top + len(labels) * ROW_PIXELS + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="12"><rect width="{width}" height="{height}" fill="#fff"/>',
        *_spectrogram(features),
    ]
    for row, (label, attended) in enumerate(zip(labels, weights.tolist(), strict=True)):
        y = top + row * ROW_PIXELS
        parts.append(f'<text x="{LABEL_PIXELS - 6}" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
        for state, weight in enumerate(attended):
            if weight >= MIN_WEIGHT:
                x = LABEL_PIXELS + state * reduction * PIXELS_PER_FRAME
                parts.append(
                    f'<rect x="{x}" y="{y + 1}" width="{reduction * PIXELS_PER_FRAME}" height="{ROW_PIXELS - 2}" '
                    f'fill="#c2410c" fill-opacity="{weight:.2f}"/>'
                )
    for second in range(int(num_frames * HOP_SECONDS) + 1):
        x = LABEL_PIXELS + round(second / HOP_SECONDS) * PIXELS_PER_FRAME
        parts.append(f'<text x="{x}" y="{height - 5}" fill="#666">{second} s</text>')
    return "".join([*parts, "</svg>"]).encode()


def _spectrogram(features: Features) -> list[str]:
    """Draw each band as rectangles of equal shades."""
    low, high = float(features.min()), float(features.max())
    shades = ((features - low) / max(high - low, 1e-6) * (LEVELS - 1)).round().astype(int)
    parts = []
    for band in range(features.shape[1]):
        y, start, column = (features.shape[1] - 1 - band) * BAND_PIXELS, 0, shades[:, band].tolist()
        for frame in range(1, len(column) + 1):
            if frame == len(column) or column[frame] != column[start]:
                grey = round(255 * (1 - column[start] / (LEVELS - 1)))
                x, width = LABEL_PIXELS + start * PIXELS_PER_FRAME, (frame - start) * PIXELS_PER_FRAME
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{width}" height="{BAND_PIXELS}" fill="rgb({grey},{grey},{grey})"/>'
                )
                start = frame
    return parts
