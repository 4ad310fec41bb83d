"""Score texts with a language model: the log probability of every token; and a vector of each text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from regard.core.data_specs import LanguageSpec
from regard.core.errors import DataError
from regard.core.protocols import Decoder
from regard.core.task import Prediction
from regard.data.text.token_stream import evaluation_windows
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.unknown_words import find_unknown_words
from regard.tasks._shared.text_vectors import vector_prediction
from regard.tasks.language.generate import empty_source, start_tokens, token_nats


def score_texts(
    model: Decoder, texts: Sequence[str], tokenizer: Tokenizer, sizes: LanguageSpec, device: torch.device
) -> list[Prediction]:
    """Texts -> their log probability; `data` has the perplexity, and each token with its offsets and log probability.

    The end of the text is not scored. A text longer than the context is scored in windows that overlap by half.
    """
    rows = [_tokens(text, tokenizer) for text in texts]
    nats = token_nats(model, rows, sizes, device)
    return [
        _scored(text, values, tokenizer, first_is_scored=sizes.start_token)
        for text, values in zip(texts, nats, strict=True)
    ]


def embed_texts(
    model: Decoder, texts: Sequence[str], tokenizer: Tokenizer, sizes: LanguageSpec, device: torch.device
) -> list[Prediction]:
    """Texts -> the mean of the features of their tokens, in windows if a text is longer than the context."""
    return [vector_prediction(_mean_features(model, _tokens(text, tokenizer), sizes, device)) for text in texts]


def _mean_features(model: Decoder, tokens: np.ndarray, sizes: LanguageSpec, device: torch.device) -> np.ndarray:
    parts = []
    for window in evaluation_windows(len(tokens), sizes.max_length - 1):
        start = start_tokens(sizes)
        row = torch.tensor([[*start, *tokens[window.start : window.stop].tolist()]], device=device)
        features, _ = model.features(row, model.start(empty_source(1, device)))
        parts.append(features[0, len(start) + window.scored_from - window.start :].float().cpu().numpy())
    mean: np.ndarray = np.concatenate(parts).mean(axis=0)
    return mean


def _tokens(text: str, tokenizer: Tokenizer) -> np.ndarray:
    tokens = np.array(tokenizer.encode([text])[0], dtype=np.int64)
    if not len(tokens):
        raise DataError("there is no text to read; give some text")
    return tokens


def _scored(text: str, nats: np.ndarray, tokenizer: Tokenizer, *, first_is_scored: bool) -> Prediction:
    spans = tokenizer.encode_with_offsets(text)
    tokens = [
        {"text": span.text, "start": span.start, "end": span.stop, "log_probability": -float(value)}
        for span, value in zip(spans, nats, strict=True)
    ]
    if not first_is_scored:  # there is no token before the first one that predicts it
        tokens[0]["log_probability"] = None
    num_scored = max(1, len(nats) - (not first_is_scored))
    perplexity = math.exp(min(float(nats.sum()) / num_scored, 700.0))
    named = (f"{span.text!r} {-value:.2f}" for span, value in zip(spans, nats, strict=True))
    prediction = Prediction(
        f"perplexity {perplexity:.4g}: {', '.join(named)}",
        -float(nats.sum()),
        -float(nats.sum()),
        value=nats,
        data={"perplexity": perplexity, "tokens": tokens},
    )
    return prediction.with_unknown_tokens(find_unknown_words(text, tokenizer))
