"""The CTranslate2 engine of a run: models and decoding strategies that stand for the native ones.

A source/target model is decoded by search.py, a language model continues prompts with generation.py; each is a model
whose state is its input so far. Of a model with a BERT encoder only the encoder is replaced.
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
    """Return the export of a loaded run; it is created now unless it is complete."""
    folder, key = cache.cache_path(parts.folder, trusted=parts.trusted)
    parts.check_unchanged()  # else the weights in memory would be stored under the key of other files
    if not cache.is_complete(folder, key):
        export(parts.model, parts.task.spec, folder, key=key)
    return folder


def can_match_native(model: nn.Module, decoding: DecodingStrategy | None) -> bool:
    """Return True if CTranslate2 may give the results of the native search.

    Continuations mostly reach their limit, where the native beam counts EOS; repeated n-grams are counted differently
    too. So language models are limited to greedy search without `no_repeat_ngram_size`.
    """
    if not isinstance(model, GPT) or decoding is None:
        return decoding is None or decoding.name in search.SUPPORTED_STRATEGIES
    return decoding.name == "greedy" and not decoding.config.no_repeat_ngram_size


def build(parts: LoadedRun, precision: str = "float32") -> tuple[nn.Module, Callable[[Any], Any]]:
    """Loaded run -> the model that stands for its own, and a function that converts decoding strategies."""
    library = require("ctranslate2", extra="ctranslate2")
    folder = ensure_export(parts)
    if isinstance(parts.model, GPT):
        factory = GeneratorFactory(library, folder, precision)
        return CT2LanguageModel(parts.model), lambda decoding: ct2_generation(decoding, factory)
    if isinstance(getattr(parts.model, "encoder", None), BertEncoder):
        encoder = library.Encoder(str(folder), compute_type=precision, intra_threads=available_cores())
        return with_ct2_encoder(parts.model, encoder)
    translator = search.open_export(folder, precision=precision)
    return CT2Seq2SeqModel(parts.model), lambda decoding: ct2_search(decoding, translator)


def with_ct2_encoder(model: nn.Module, encoder: Any) -> tuple[nn.Module, Callable[[Any], Any]]:
    """Return a copy of a model with a CTranslate2 encoder; decoding strategies are unchanged."""
    replaced: Any = copy(model)
    replaced._modules = {**model._modules, "encoder": CT2Encoder(replaced.encoder, encoder)}
    return replaced, lambda decoding: decoding


class CT2Encoder(nn.Module):
    """Encodes texts of one segment with CTranslate2, others with the original encoder."""

    def __init__(self, original: BertEncoder, encoder: Any) -> None:
        super().__init__()
        self.original, self.encoder = original, encoder

    def forward(self, text: Padded, segments: Tensor | None = None) -> Tensor:
        tokens, lengths = text
        if not tokens.numel() or int(lengths.min()) < 1 or (segments is not None and bool(segments.any())):
            native_features: Tensor = self.original(text, segments)
            return native_features
        rows = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        features = torch.from_numpy(np.array(self.encoder.forward_batch(rows).last_hidden_state))  # (b longest d)
        return pad(features, (0, 0, 0, tokens.shape[1] - features.shape[1]))


class CT2Seq2SeqModel(nn.Module):
    """Stands for a model that CTranslate2 decodes: its state before the first token is the source itself."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original

    def start(self, source: Padded) -> Padded:
        """Return the source rows for CTranslate2."""
        return source

    def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Not supported: CTranslate2 returns complete outputs only."""
        raise ConfigError("engine ctranslate2: returns complete outputs only; use engine native")


def ct2_search(decoding: DecodingStrategy | None, translator: Any) -> DecodingStrategy:
    """Return the CTranslate2 counterpart of a decoding strategy."""
    if decoding is None or decoding.name not in search.SUPPORTED_STRATEGIES:
        name = "a task without decoding" if decoding is None else decoding.name
        raise ConfigError(f"engine ctranslate2: supports greedy and beam, not {name}; use engine native")
    return CT2Search(decoding.name, decoding.config, translator)


@dataclass(frozen=True)
class CT2Search(DecodingStrategy):
    """Greedy or beam search by CTranslate2, with the settings of the native strategy."""

    translator: Any

    def decode(self, model: Any, sources: DecoderInputs) -> list[list[Hypothesis]]:
        """Source rows -> hypotheses of each, best first. Rows that are not settled are decoded natively."""
        if sources.first_input is not None or sources.grammar is not None:
            raise ConfigError("engine ctranslate2: supports neither a prefix nor a grammar; use engine native")
        tokens, lengths = sources.state
        rows = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        wait = search.submit(
            self.translator,
            rows,
            sources.limits.tolist(),
            decoding=asdict(self.config),
            special_tokens=sources.special_tokens,
        )
        hypotheses = wait()
        unsettled = torch.tensor([index for index, row in enumerate(hypotheses) if row is None], dtype=torch.long)
        if unsettled.numel():
            native_model = optimize_for_decoding(model.original)
            state = native_model.start(Padded(tokens[unsettled], lengths[unsettled]))
            native_rows = DecodingStrategy(self.name, self.config)(
                native_model,
                state,
                special_tokens=sources.special_tokens,
                limits=sources.limits[unsettled],
                sample_indices=unsettled,
            )
            for index, row in zip(unsettled.tolist(), native_rows, strict=True):
                hypotheses[index] = row
        return [row or [] for row in hypotheses]
