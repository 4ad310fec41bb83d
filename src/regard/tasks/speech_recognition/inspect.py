"""Inspection of a transcript: its tokens, the states of the encoder over time, and replays of the model over both."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item
from regard.core.protocols import Hypothesis
from regard.core.protocols.speech import SpeechFrames, SpeechModel
from regard.data.speech.audio_files import Recording, Waveform, encode_wav
from regard.data.speech.features import HOP_SECONDS, Features, LogMel
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.tasks._shared.teacher_forcing import ablate_tokens, hypotheses_to_outputs
from regard.tasks.speech_recognition import alignment
from regard.tasks.speech_recognition.alignment import FRAME_AXIS

Span = tuple[float, float]  # start and stop in seconds
BATCH_ABLATIONS = 32  # recordings in a batch
MAX_ABLATED_STATES = 160  # of a recording; the states of a longer one are removed by masking attention
MAX_SILENCED_SPANS = 8
MIN_SPAN_SECONDS = 0.2
ENVELOPE_COLUMNS = 800  # of the drawn waveform


class TranscribedRecording(NamedTuple):
    """A recording with its transcripts, best first."""

    recording: Recording
    features: Features  # (t m)
    hypotheses: list[Hypothesis]
    seconds: float  # duration of the search
    silenced: tuple[tuple[Span, str], ...]  # spans, and the transcript without each
    log_mel: LogMel


def silence_spans(seconds: float) -> list[Span]:
    """Return equal spans that cover a recording."""
    count = max(1, min(MAX_SILENCED_SPANS, int(seconds / MIN_SPAN_SECONDS)))
    edges = np.linspace(0, seconds, count + 1).tolist()
    return list(pairwise(edges))


def build_inspectable(
    model: SpeechModel,
    transcribed: TranscribedRecording,
    vocabulary: Tokenizer,
    *,
    special_tokens: SpecialTokens,
    device: torch.device,
) -> Inspectable:
    """A recording and its transcripts -> axes, outputs and replays of the model."""
    best = [*transcribed.hypotheses[0].tokens, special_tokens.eos]
    tokens = torch.tensor([[special_tokens.bos, *best]], device=device)
    source = alignment.collate_features([transcribed.features])
    source = SpeechFrames(source.frames.to(device), source.lengths.to(device))
    items = _items(best, vocabulary)
    read = (Item(vocabulary.token_text(special_tokens.bos), special=True), *items[:-1])
    times = alignment.state_times(-(-len(transcribed.features) // model.reduction), model.reduction)
    states = tuple(Item(f"{start:.2f}", time=float(start)) for start in times[:, 0])
    ablations = {"read": lambda: ablate_tokens(model, source, tokens[:, :-1], unk=special_tokens.unk)}
    if len(states) <= MAX_ABLATED_STATES:
        ablations[FRAME_AXIS] = lambda: ablate_states(model, source, tokens)
    return Inspectable(
        title=transcribed.recording.name,
        axes={
            "target": Axis(items, "transcript"),
            FRAME_AXIS: Axis(states, "time"),
            "read": Axis(read, "read", input="read"),
        },
        query_axes={"target": (AxisRef("target"),), FRAME_AXIS: (AxisRef(FRAME_AXIS),)},
        key_axes={FRAME_AXIS: (AxisRef(FRAME_AXIS),), "read": (AxisRef("read"),)},
        outputs=hypotheses_to_outputs(
            model, source, transcribed.hypotheses, tokenizer=vocabulary, special_tokens=special_tokens, device=device
        ),
        replay=lambda: model(tokens[:, :-1], model.start(source))[0][0],
        predicted_ids=tokens[0, 1:],
        seconds=transcribed.seconds,
        answer_axis="target",
        ablations=ablations,
        inputs={"read": tokens[:, :-1]},
        views=("speech",),
        remarks=transcribed.recording.remarks,
        extra={"speech": _view_data(transcribed, model.reduction)},
    )


def ablate_states(model: SpeechModel, source: SpeechFrames, tokens: Tensor) -> Tensor:
    """Return logits (s t v) of one transcript (1 t+1) with the frames of each state in turn replaced by 0."""
    count = -(-source.frames.shape[1] // model.reduction)
    logits = []
    for low in range(0, count, BATCH_ABLATIONS):
        rows = min(BATCH_ABLATIONS, count - low)
        frames = source.frames.repeat(rows, 1, 1)
        for row in range(rows):
            start = (low + row) * model.reduction
            frames[row, start : start + model.reduction] = 0
        changed = SpeechFrames(frames, source.lengths.repeat(rows))
        logits.append(model(tokens[:, :-1].expand(rows, -1), model.start(changed))[0])
    return torch.cat(logits)


def _items(tokens: Sequence[int], vocabulary: Tokenizer) -> tuple[Item, ...]:
    spans = vocabulary.decode_with_offsets(list(tokens[:-1]))
    items = [Item(span.text, word=index, span=(span.start, span.stop)) for index, span in enumerate(spans)]
    return (*items, Item(SPECIAL_TOKENS[SpecialTokens.eos].strip(), special=True))


def _view_data(transcribed: TranscribedRecording, reduction: int) -> dict[str, Any]:
    """Return JSON values for the page: the sound, its waveform and spectrogram, and transcripts of silenced copies."""
    recording = transcribed.recording
    energies = transcribed.log_mel.energies(recording.waveform)
    low, high = float(np.percentile(energies, 5)), float(energies.max())
    shades = ((energies - low) / max(high - low, 1e-6)).clip(0, 1) * 255
    again = [{"span": [round(edge, 3) for edge in span], "text": text} for span, text in transcribed.silenced]
    return {
        "seconds": round(recording.seconds, 4),
        "state_seconds": reduction * HOP_SECONDS,
        "wav": base64.b64encode(encode_wav(recording.waveform, recording.rate)).decode(),
        "envelope": _envelope(recording.waveform),
        "frames": len(energies),
        "bands": energies.shape[1],
        "spectrogram": base64.b64encode(shades.astype(np.uint8).tobytes()).decode(),
        "again": again,
    }


def _envelope(waveform: Waveform) -> list[list[float]]:
    """Return minimum and maximum of the samples of each column of the drawn waveform, relative to the loudest."""
    parts = np.array_split(waveform, min(ENVELOPE_COLUMNS, len(waveform)))
    peak = max(float(np.abs(waveform).max()), 1e-6)
    return [[round(float(part.min()) / peak, 3), round(float(part.max()) / peak, 3)] for part in parts]
