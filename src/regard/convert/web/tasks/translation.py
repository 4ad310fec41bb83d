"""Translation in the browser: encoder, decoder step, and tokenizers."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from regard.convert.web.decoder_programs import EXAMPLE_LENGTH, decoder_programs
from regard.convert.web.trace import Constants
from regard.core.protocols import Padded
from regard.data.text import translation_codec
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the programs, the tokenizers and the limits of a run."""
    model: Any = parts.model
    task: Any = parts.task

    def start(tokens: Tensor) -> Any:
        return model.start(Padded(tokens, torch.full((1,), 1) * tokens.shape[1]))

    names = translation_codec.tokenizer_files(joint=task.config.joint)
    return {
        "programs": decoder_programs(model, start, [torch.full((1, EXAMPLE_LENGTH), 4)], constants),
        "tokenizers": [json.loads((parts.folder / name).read_text(encoding="utf-8")) for name in names],
        "maxLength": task.spec.max_length,
        "lengthRatio": translation_codec.MAX_LENGTH_RATIO,
        "lengthMargin": translation_codec.MAX_LENGTH_MARGIN,
    }
