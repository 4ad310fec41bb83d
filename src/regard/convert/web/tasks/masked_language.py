"""Masked language modeling in the browser: one program from the tokens of a text to logits at every position."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from regard.convert.web.decoder_programs import EXAMPLE_LENGTH
from regard.convert.web.trace import Constants, trace
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.data.text.masking import special_tokens_of
from regard.models.bert import Bert
from regard.tasks._shared.tokens import raw_text
from regard.tasks.masked_language import fill
from regard.tasks.masked_language.inspect import MIN_CANDIDATES
from regard.tasks.masked_language.task import Options
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the program, the tokenizer with its mask, and the tokens that never fill a mask."""
    model = parts.model
    task: Any = parts.task
    if not isinstance(model, Bert):
        raise ConfigError(f"web: masked_language with {parts.recipe.model.name} is not supported; use bert")

    def logits(tokens: Tensor) -> list[Tensor]:
        features = model.encoder(Padded(tokens, torch.full((1,), 1) * tokens.shape[1]))
        return [model.readout(model.head(features))]

    mask = special_tokens_of(task.tokenizer).mask
    first, size = task.spec.special_tokens.first_regular_id, task.tokenizer.vocab_size
    regular = [token for token in range(first, size) if token != mask]
    return {
        "programs": {"logits": trace(model, logits, [torch.full((1, EXAMPLE_LENGTH), 4)], constants)},
        "tokenizers": [json.loads(task.tokenizer.engine.to_str())],
        "mask": mask,
        "hasSpaces": any(len(raw_text(token, task.tokenizer)) > 1 for token in regular),
        "excluded": fill.excluded_tokens(task.tokenizer).tolist(),
        "maxLength": task.spec.max_length,
        "candidates": MIN_CANDIDATES,
        "options": {"properties": {"n": {"type": "integer", "default": Options().n}}},
    }
