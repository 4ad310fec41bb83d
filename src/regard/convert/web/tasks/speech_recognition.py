"""Speech recognition in the browser: frames of features to transcripts, and the settings of the features."""

from __future__ import annotations

import base64
import json
from typing import Any

import torch
from torch import Tensor

from regard.convert.web.decoder_programs import decoder_programs
from regard.convert.web.trace import Constants
from regard.core.errors import ConfigError
from regard.core.protocols.speech import SpeechFrames
from regard.data.speech import features
from regard.models.ctc import CTC
from regard.tasks.speech_recognition import inspect
from regard.tasks.speech_recognition.task import EXAMPLE_FILES, TOKENIZER_FILE
from regard.training.load_run import LoadedRun

EXAMPLE_FRAMES = 117  # a size that no layer has, also after it is halved, because equal sizes share a symbol


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the programs, the tokenizer, the settings of the features, and an example recording."""
    model: Any = parts.model
    task: Any = parts.task
    if isinstance(model, CTC):
        raise ConfigError("web: speech_recognition with ctc is not supported; use las or speech_transformer")
    path = parts.folder / EXAMPLE_FILES[0]
    if not path.exists():
        raise ConfigError(f"{path}: no such file, and a page starts with an example recording; train the run again")

    def start(frames: Tensor) -> Any:
        return model.start(SpeechFrames(frames, torch.full((1,), 1) * frames.shape[1]))

    frames = torch.zeros(1, EXAMPLE_FRAMES, task.log_mel.bands)
    return {
        "programs": decoder_programs(model, start, [frames], constants),
        "tokenizers": [json.loads((parts.folder / TOKENIZER_FILE).read_text(encoding="utf-8"))],
        "maxLength": task.spec.max_length,
        "maxSeconds": task.config.max_seconds,
        "reduction": model.reduction,
        "features": _feature_settings(task.log_mel),
        "spans": {"most": inspect.MAX_SILENCED_SPANS, "seconds": inspect.MIN_SPAN_SECONDS},
        "envelopeColumns": inspect.ENVELOPE_COLUMNS,
        "opens": [".wav"],
        "example": {"name": path.name, "file": base64.b64encode(path.read_bytes()).decode("ascii")},
        "options": {
            "properties": {"n": {"type": "integer", "default": 1}, "silence": {"type": "string", "default": ""}}
        },
    }


def _feature_settings(log_mel: features.LogMel) -> dict[str, Any]:
    window = round(log_mel.rate * features.WINDOW_SECONDS)
    filters = features.mel_filters(*log_mel)  # (frequencies m)
    return {
        "rate": log_mel.rate,
        "bands": log_mel.bands,
        "hop": log_mel.hop,
        "hopSeconds": features.HOP_SECONDS,
        "window": window,
        "filters": [[round(float(weight), 9) for weight in row] for row in filters],
        "floor": features.FLOOR,
        "range": features.RANGE,
        "scale": features.SCALE,
    }
