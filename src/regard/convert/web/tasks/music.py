"""Music in the browser: the decoder step and the grid of four voices."""

from __future__ import annotations

import base64
from typing import Any

import torch
from torch import Tensor

from regard.convert.web.decoder_programs import decoder_programs
from regard.convert.web.request_options import option_schema
from regard.convert.web.trace import Constants
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.data.music.grid_encoding import VOICE_NAMES, GridEncoding
from regard.data.music.key import pitch_name
from regard.tasks.music.task import EXAMPLE, MAX_INSPECTED_TOKENS
from regard.training.load_run import LoadedRun

OPTIONS = {
    "continue_seconds": ("number", 0, "length of a continuation of the piece; 0: the piece is shown unchanged"),
    "temperature": ("number", 1, "above 1: more diverse, below 1: less"),
    "top_k": ("integer", 0, "sample from the k most likely tokens; 0: from all"),
    "top_p": ("number", 1, "sample from the most likely tokens that have this share of the probability"),
    "seed": ("integer", 1, "seed of the samples"),
}


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the programs, the grid, the names of pitches, and an example file."""
    model: Any = parts.model
    task: Any = parts.task
    encoding = task.encoding
    if not isinstance(encoding, GridEncoding):
        raise ConfigError(
            f"web: music with performed notes (data.encoding={encoding.name}) is not supported; use a grid"
        )
    path = parts.folder / EXAMPLE
    if not path.exists():
        raise ConfigError(f"{path}: no such file, and a page starts with an example; train the run again")

    def start(classes: Tensor) -> Any:
        return model.start(Padded(classes, torch.full((1,), 1)))

    no_class = torch.full((1, 1), task.special_tokens.pad)
    return {
        "programs": decoder_programs(model, start, [no_class], constants),
        "grid": encoding.settings() | {"voices": VOICE_NAMES, "size": encoding.size},
        "pitches": [pitch_name(pitch) for pitch in range(128)],
        "maxTokens": min(MAX_INSPECTED_TOKENS, task.spec.max_length - 1),
        "opens": [".mid", ".midi"],
        "example": {"name": path.name, "file": base64.b64encode(path.read_bytes()).decode("ascii")},
        "options": {"properties": option_schema(OPTIONS)},
    }
