"""Language modeling in the browser: the decoder step, and the tokenizer."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from regard.convert.web.decoder_programs import decoder_programs
from regard.convert.web.trace import Constants
from regard.core.protocols import Padded
from regard.tasks._shared import text_corpus
from regard.tasks._shared.tokens import raw_text
from regard.tasks.language.generate import start_tokens
from regard.tasks.language.inspect import NUM_ALTERNATIVES
from regard.tasks.language.task import Options
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the programs, the tokenizer with the raw text of each token, and the options of a request."""
    model: Any = parts.model
    task: Any = parts.task

    def start(lengths: Tensor) -> Any:
        return model.start(Padded(lengths[:, None][:, :0], lengths))

    options = Options()
    properties = {
        "tokens": {"type": "integer", "default": options.tokens},
        "temperature": {"type": "number"},
        "top_k": {"type": "integer"},
        "top_p": {"type": "number"},
        "seed": {"type": "integer"},
    }
    return {
        "programs": decoder_programs(model, start, [torch.zeros(1, dtype=torch.long)], constants),
        "tokenizers": [json.loads((parts.folder / text_corpus.TOKENIZER).read_text(encoding="utf-8"))],
        "rawTexts": [raw_text(token, task.tokenizer) for token in range(task.tokenizer.vocab_size)],
        "startTokens": start_tokens(task.spec),
        "maxLength": task.spec.max_length,
        "alternatives": NUM_ALTERNATIVES,
        "options": {"properties": properties},
    }
