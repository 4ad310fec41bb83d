"""Models that CTranslate2 decodes: the same weights, exported once, answered by its own search.

A model of source and target is translated; a language model goes on from a text (going_on.py). Each stands here as a
model whose state is what was read so far, and as a search over it with the settings of ours. A model upon an encoder of
BERT stays ours but for the encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.core.cpu import available_cores
from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.core.protocols import Hypothesis, Padded
from regard.decoding.strategy import DecoderInputs, DecodingStrategy, optimize_for_decoding
from regard.engines.ctranslate2 import cache, search
from regard.engines.ctranslate2.export import export
from regard.engines.ctranslate2.generation import CT2LanguageModel, GeneratorFactory, ct2_generation
from regard.models.bert import Encoder as BertEncoder
from regard.models.gpt import GPT
from regard.training.load_run import LoadedRun


def ensure_export(parts: LoadedRun) -> Path:
    """The export of a run's weights, made now unless it is there and whole."""
    folder, weights = cache.cache_path(parts.folder)
    if not cache.is_complete(folder, weights):
        export(parts.model, parts.task.spec, folder, weights=weights)
    return folder


def can_match_native(model: nn.Module, decoding: DecodingStrategy | None) -> bool:
    """Whether CTranslate2 may find what our own search does. A text mostly goes on to its limit, where a beam of ours
    counts an end mark, and what may not come twice is counted otherwise; greedy search does neither."""
    if not isinstance(model, GPT) or decoding is None:
        return decoding is None or decoding.name in search.SUPPORTED_STRATEGIES
    return decoding.name == "greedy" and not decoding.config.no_repeat


def build(parts: LoadedRun, precision: str = "float32") -> tuple[nn.Module, Callable[[Any], Any]]:
    """The parts of a run -> what stands for its model, and its decoding by CTranslate2."""
    library = require("ctranslate2", extra="ctranslate2")
    folder = ensure_export(parts)
    if isinstance(parts.model, GPT):
        source = GeneratorFactory(library, folder, precision)
        return CT2LanguageModel(parts.model), lambda decoding: ct2_generation(decoding, source)
    if isinstance(getattr(parts.model, "encoder", None), BertEncoder):
        return with_ct2_encoder(
            parts.model, library.Encoder(str(folder), compute_type=precision, intra_threads=available_cores())
        )
    translator = search.open_export(folder, precision=precision)
    return CT2Seq2SeqModel(parts.model), lambda decoding: _translating(decoding, translator)


def with_ct2_encoder(model: nn.Module, encoder: Any) -> tuple[nn.Module, Callable[[Any], Any]]:
    """A model that reads by an encoder of CTranslate2 and is the same otherwise; it searches nothing."""
    other: Any = copy(model)
    other._modules = {**model._modules, "encoder": CT2Encoder(other.encoder, encoder)}
    return other, lambda decoding: decoding


class CT2Encoder(nn.Module):
    """Stands for an encoder: texts of one segment are read by CTranslate2, others by our own."""

    def __init__(self, original: BertEncoder, encoder: Any) -> None:
        super().__init__()
        self.original, self.encoder = original, encoder

    def forward(self, text: Padded, segments: Tensor | None = None) -> Tensor:
        tokens, lengths = text
        if not tokens.numel() or int(lengths.min()) < 1 or (segments is not None and bool(segments.any())):
            own: Tensor = self.original(text, segments)
            return own
        rows = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        features = torch.from_numpy(np.array(self.encoder.forward_batch(rows).last_hidden_state))  # (b longest d)
        return pad(features, (0, 0, 0, tokens.shape[1] - features.shape[1]))


class CT2Seq2SeqModel(nn.Module):
    """Stands for a model that CTranslate2 decodes: its state before the first token is the source itself."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original

    def start(self, source: Padded) -> Padded:
        """The rows that CTranslate2 will read."""
        return source

    def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """CTranslate2 gives whole outputs only."""
        raise ConfigError("engine ctranslate2 gives whole outputs only; use engine native")


def _translating(decoding: DecodingStrategy | None, translator: Any) -> DecodingStrategy:
    if decoding is None or decoding.name not in search.SUPPORTED_STRATEGIES:
        name = "nothing" if decoding is None else decoding.name
        raise ConfigError(f"engine ctranslate2 searches by greedy or beam, not by {name}")
    return CT2Search(decoding.name, decoding.config, translator)


@dataclass(frozen=True)
class CT2Search(DecodingStrategy):
    """Greedy or beam search by CTranslate2, with the settings of ours."""

    translator: Any

    def decode(self, model: Any, sources: DecoderInputs) -> list[list[Hypothesis]]:
        """The source rows -> hypotheses of each, best first; our own search finds those that are not settled."""
        if sources.first_input is not None or sources.grammar is not None:
            raise ConfigError("engine ctranslate2 knows neither a beginning nor a grammar; use engine native")
        tokens, lengths = sources.state
        rows = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        wait = search.submit(
            self.translator,
            rows,
            sources.limits.tolist(),
            decoding=asdict(self.config),
            special_tokens=sources.special_tokens,
        )
        found = wait()
        left = torch.tensor([number for number, row in enumerate(found) if row is None], dtype=torch.long)
        if left.numel():
            native = optimize_for_decoding(model.original)
            state = native.start(Padded(tokens[left], lengths[left]))
            own = DecodingStrategy(self.name, self.config)(
                native, state, special_tokens=sources.special_tokens, limits=sources.limits[left], sample_indices=left
            )
            for number, hypotheses in zip(left.tolist(), own, strict=True):
                found[number] = hypotheses
        return [row or [] for row in found]
