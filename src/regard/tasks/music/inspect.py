"""A piece of music as it is shown: its tokens, its piano roll, and the model run again over what came before each.

The model answers nothing here: it is shown what it looked at when it foretold each token of the piece.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.core.protocols import Decoder, Padded
from regard.data.music.encoding import Encoding, TokenArray
from regard.tasks._shared.teacher_forcing import gather_log_probs, log_probabilities, with_alternatives

SPECIAL_TOKEN_NAMES = {
    SpecialTokens.pad: "pad",
    SpecialTokens.unk: "unknown",
    SpecialTokens.bos: "start",
    SpecialTokens.eos: "end",
}


def build_inspectable(
    model: Decoder,
    piece_tokens: TokenArray,
    max_tokens: int,
    *,
    encoding: Encoding,
    special_tokens: SpecialTokens,
    path: Path,
) -> Inspectable:
    """The tokens of a piece -> axes, its piano roll, and the way to run the model again, of the first `most` tokens."""
    tokens = piece_tokens[:max_tokens]
    device = next(model.parameters()).device  # type: ignore[attr-defined]  # a decoder is a module as well
    target = torch.from_numpy(np.concatenate([[special_tokens.bos], tokens]))[None].to(device)
    none = Padded(target.new_full((1, 1), special_tokens.pad), target.new_ones(1))
    begun = time.perf_counter()
    scores = log_probabilities(model, none, target)
    total = float(gather_log_probs(scores, target).sum())
    seconds = time.perf_counter() - begun
    items = _items(tokens, encoding)
    nats = -total / max(1, len(tokens))
    return Inspectable(
        title=path.name,
        axes={
            "output": Axis(items, "output"),
            "read": Axis(
                (Item(SPECIAL_TOKEN_NAMES[SpecialTokens.bos], special=True), *items[:-1]), "read", input="read"
            ),
        },
        query_axes={"target": (AxisRef("output"),)},
        key_axes={"target": (AxisRef("read"),)},
        outputs=(
            Output(
                f"{path.name}: {_counted(tokens, piece_tokens)}, {nats:.3f} nats each",
                score=total,
                rank=-nats,
                tokens=with_alternatives(tokens.tolist(), scores[0], partial(_name, encoding)),
            ),
        ),
        replay=lambda: model(target[:, :-1], model.start(none))[0][0],
        predicted_ids=target[0, 1:],
        seconds=seconds,
        answer_axis="output",
        inputs={"read": target[:, :-1]},
        views=("pianoroll",),
        extra={"roll": piano_roll(encoding, tokens)},
    )


def _counted(tokens: TokenArray, whole: TokenArray) -> str:
    """How many tokens are shown, and of how many where that is not all."""
    return f"{len(tokens)} tokens" if len(tokens) == len(whole) else f"the first {len(tokens)} of {len(whole)} tokens"


def _items(tokens: TokenArray, encoding: Encoding) -> tuple[Item, ...]:
    labels = [_name(encoding, token, place) for place, token in enumerate(tokens.tolist())]
    return tuple(
        Item(label) if spot is None else Item(label, time=spot.seconds, pitch=spot.pitch)
        for label, spot in zip(labels, encoding.piano_roll_points(tokens), strict=True)
    )


def _name(encoding: Encoding, token: int, place: int) -> str:
    return SPECIAL_TOKEN_NAMES.get(token) or encoding.label(token, place)


def piano_roll(encoding: Encoding, tokens: TokenArray) -> dict[str, Any]:
    """Tokens -> the notes they make: start, end, pitch, voice, velocity; and what the voices are called."""
    notes = encoding.notes(encoding.decode(tokens))
    return {
        "notes": [[round(n.start, 4), round(n.end, 4), n.pitch, n.voice, n.velocity] for n in notes],
        "voices": list(encoding.voices),
    }
