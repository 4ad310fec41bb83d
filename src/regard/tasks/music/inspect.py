"""Inspection of a piece of music: its tokens, its piano roll, and a replay.

Nothing is generated here: the page shows the attention with which the model predicted each token.
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
from regard.core.protocols import Decoder
from regard.data.music.encoding import Encoding, TokenArray
from regard.tasks._shared.teacher_forcing import gather_log_probs, log_probabilities, with_alternatives
from regard.tasks.music.metrics import no_condition

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
    """The first `max_tokens` tokens of a piece -> axes, piano roll and replay."""
    tokens = piece_tokens[:max_tokens]
    device = next(model.parameters()).device  # type: ignore[attr-defined]  # a decoder is a module as well
    target = torch.from_numpy(np.concatenate([[special_tokens.bos], tokens]))[None].to(device)
    source = no_condition(target)
    start_time = time.perf_counter()
    log_probs = log_probabilities(model, source, target)
    total = float(gather_log_probs(log_probs, target).sum())
    seconds = time.perf_counter() - start_time
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
                f"{path.name}: {_count_text(tokens, piece_tokens)}, {nats:.3f} nats each",
                score=total,
                rank=-nats,
                tokens=with_alternatives(tokens.tolist(), log_probs[0], partial(_token_name, encoding)),
            ),
        ),
        replay=lambda: model(target[:, :-1], model.start(source))[0][0],
        predicted_ids=target[0, 1:],
        seconds=seconds,
        answer_axis="output",
        inputs={"read": target[:, :-1]},
        views=("pianoroll",),
        remarks=_cut_remarks(len(tokens), len(piece_tokens)),
        extra={"roll": piano_roll(encoding, tokens)},
    )


def _cut_remarks(num_shown: int, num_tokens: int) -> tuple[str, ...]:
    """Return a remark if only the start of a piece is shown."""
    return () if num_shown == num_tokens else (f"only the first {num_shown:,} of {num_tokens:,} tokens are shown",)


def _count_text(tokens: TokenArray, piece_tokens: TokenArray) -> str:
    """Return the number of tokens shown, and the total if it is larger."""
    if len(tokens) == len(piece_tokens):
        return f"{len(tokens)} tokens"
    return f"the first {len(tokens)} of {len(piece_tokens)} tokens"


def _items(tokens: TokenArray, encoding: Encoding) -> tuple[Item, ...]:
    labels = [_token_name(encoding, token, position) for position, token in enumerate(tokens.tolist())]
    return tuple(
        Item(label) if point is None else Item(label, time=point.seconds, pitch=point.pitch)
        for label, point in zip(labels, encoding.piano_roll_points(tokens), strict=True)
    )


def _token_name(encoding: Encoding, token: int, position: int) -> str:
    return SPECIAL_TOKEN_NAMES.get(token) or encoding.label(token, position)


def piano_roll(encoding: Encoding, tokens: TokenArray) -> dict[str, Any]:
    """Tokens -> their notes (start, end, pitch, voice, velocity), and the names of the voices."""
    notes = encoding.notes(encoding.decode(tokens))
    return {
        "notes": [[round(n.start, 4), round(n.end, 4), n.pitch, n.voice, n.velocity] for n in notes],
        "voices": list(encoding.voices),
    }
