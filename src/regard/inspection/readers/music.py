"""Reads a file of music for a model of music: its tokens, its piano roll, and the replay with what came before each.

The model answers nothing here: it is shown what it looked at when it foretold each token of the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.errors import DataError
from regard.core.protocols import Padded
from regard.data.music.encoding import Tokens
from regard.inspection.example import Example
from regard.inspection.format import Axis, Output

LONGEST = 1024  # tokens: about 40 seconds of a chorale; more would make a page of hundreds of megabytes


def read(task: Any, model: Any, text: str, *, decode: Callable[..., Any]) -> Example:
    """The path of a MIDI or MusicXML file -> labels, piano roll, and the replay."""
    if not text.strip():
        raise DataError("there is no music to look at; give the path of a .mid or .mxl file")
    opened = task.encoding.open(Path(text.strip()))
    tokens: Tokens = task.encoding.encode(opened.content)[: min(LONGEST, task.sizes.longest - 1)]
    device = next(model.parameters()).device
    target = torch.from_numpy(np.concatenate([[task.marks.start], tokens]))[None].to(device)
    none = Padded(target.new_zeros(1, 1), target.new_ones(1))

    def replay() -> Any:
        return model(target[:, :-1], model.start(none))

    begun = time.perf_counter()
    logits, _ = replay()
    chosen = logits.float().log_softmax(dim=-1).gather(-1, target[:, 1:, None])[0, :, 0]
    labels = [task.encoding.label(token, place) for place, token in enumerate(tokens.tolist())]
    score = float(chosen.sum())
    nats = -score / max(1, len(tokens))
    return Example(
        axes={"output": Axis(tuple(labels)), "read": Axis(("start", *labels[:-1]))},
        rows={"target": "output"},
        columns={"target": "read"},
        outputs=(Output(f"{Path(text).name}: {len(tokens)} tokens, {nats:.3f} nats each", score, -nats),),
        replay=replay,
        seconds=time.perf_counter() - begun,
        shown={"roll": roll(task.encoding, tokens, (-chosen).tolist())},
    )


def roll(encoding: Any, tokens: Tokens, nats: list[float]) -> dict[str, Any]:
    """Tokens -> the notes, where each token is on the roll, and how surprising it was."""
    notes = encoding.notes(encoding.decode(tokens))
    return {
        "notes": [[round(n.start, 4), round(n.end, 4), n.pitch, n.voice, n.velocity] for n in notes],
        "voices": list(encoding.voices),
        "spots": [None if spot is None else [round(spot.seconds, 4), spot.pitch] for spot in encoding.spots(tokens)],
        "nats": [round(value, 4) for value in nats],
    }
