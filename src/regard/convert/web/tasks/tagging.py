"""Tagging in the browser: a program from tokens and characters to logits; Viterbi and marginals are JavaScript."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from regard.convert.web.decoder_programs import EXAMPLE_LENGTH
from regard.convert.web.trace import Constants, trace
from regard.data.text.tagged_corpus import MAX_UNIT_CHARS
from regard.layers.crf import LinearChain
from regard.layers.document_batch import UnitBatch
from regard.tasks._shared import text_corpus
from regard.training.load_run import LoadedRun

EXAMPLE_UNITS, EXAMPLE_CHARACTERS = 7, 5


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the program, the tokenizer, the tags with their transitions, and the units of a run."""
    model: Any = parts.model
    task: Any = parts.task
    encoder = task.encoder

    def logits(tokens: Tensor, first_tokens: Tensor, characters: Tensor) -> list[Tensor]:
        ones = torch.full((1,), 1)
        batch = UnitBatch(tokens, ones * tokens.shape[1], first_tokens, ones * first_tokens.shape[1], characters)
        return [model.readout(model(batch))]

    num_characters = EXAMPLE_CHARACTERS if encoder.alphabet else 0
    inputs = [
        torch.full((1, EXAMPLE_LENGTH), 4),
        torch.arange(EXAMPLE_UNITS)[None],
        torch.full((1, EXAMPLE_UNITS, num_characters), 4),
    ]
    with torch.no_grad():
        transitions = model.readout.chain.transitions()
    return {
        "programs": {"logits": trace(model, logits, inputs, constants)},
        "tokenizers": [json.loads((parts.folder / text_corpus.TOKENIZER).read_text(encoding="utf-8"))],
        "tags": list(encoder.tags),
        "scheme": encoder.scheme,
        "alphabet": encoder.alphabet,
        "units": encoder.data_unit if encoder.unit_mode == "given" else encoder.unit_mode,
        "maxTokens": encoder.max_tokens,
        "maxUnitCharacters": MAX_UNIT_CHARS,
        "isChain": isinstance(model.readout.chain, LinearChain),
        "transitions": {name: _finite(part) for name, part in transitions._asdict().items()},
    }


def _finite(scores: Tensor) -> list[Any]:
    """Return scores as lists; -inf, which JSON does not have, is None."""
    if scores.dim() > 1:
        return [_finite(row) for row in scores]
    return [value if value > float("-inf") else None for value in scores.tolist()]
