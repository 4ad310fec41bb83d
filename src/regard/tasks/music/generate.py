"""New pieces from a model: from nothing, from a primer, around a tune, or into gaps. Every one is a valid piece.

A memory that slides: a model that remembers so many tokens goes on for as long as one likes.

When the memory is full, the older half is forgotten: the model reads the tokens that are left anew, from a whole number
of bars on, as it read crops from the middle of pieces when it was trained. So every position scheme can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import MusicSpec
from regard.core.inference_mode import eval_mode
from regard.core.protocols import Decoder, Padded, Readout, State
from regard.core.protocols.music import MusicCondition
from regard.core.state_tree import map_tensors, repeat_rows
from regard.data.music import statistics
from regard.data.music.encoding import Encoding, TokenArray
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.notes import Note
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.tasks.music.conditions import ConditionClasses
from regard.tasks.music.prompts import Length, Prompt, continuation_prompt


class Composition(NamedTuple):
    """A piece and what the model thinks of it."""

    notes: list[Note]  # in seconds
    tokens: TokenArray
    score: float  # log probability of what is new
    prompt_seconds: float  # seconds that came from the primer
    rank: float = 0.0  # the mean log probability of a new token: pieces are of unlike length


class PieceGenerator(NamedTuple):
    """Makes pieces with a model: the encoding, classes and sizes it was trained with."""

    encoding: Encoding
    classes: ConditionClasses
    sizes: MusicSpec

    def generate_unconditional(
        self, model: Decoder, decoding: DecodingStrategy, *, seconds: float
    ) -> list[Composition]:
        """New pieces of at most so many seconds, best first."""
        return self.generate(
            model, continuation_prompt(None, self.encoding, prompt_seconds=None, length=Length(seconds)), decoding
        )

    def generate(
        self, model: Decoder, prompt: Prompt, decoding: DecodingStrategy, *, condition: Sequence[str] = ()
    ) -> list[Composition]:
        """A beginning and what the piece should be like -> pieces, best first, as many as the decoder gives."""
        given, marks = prompt.tokens, self.sizes.special_tokens
        asked = self.classes.encode_request(condition)
        with eval_mode(model) as device:
            model = optimize_for_decoding(model)

            def begin(place: int) -> State:
                return model.start(
                    map_tensors(self._announced(asked, prompt.visible_tokens, place), lambda x: x.to(device))
                )

            sliding = SlidingWindowDecoder(
                model, begin, max_length=self.sizes.max_length, bar=prompt.encoding.tokens_per_bar
            )
            tokens = torch.from_numpy(np.concatenate([[marks.bos], given]))[None].to(device)
            state = sliding.start(tokens)
            if tokens.shape[1] > 1:
                _, state = sliding.features(tokens[:, :-1], state)
            limits = torch.tensor([prompt.limit], device=device)
            (hypotheses,) = decoding(
                sliding, state, special_tokens=marks, limits=limits, first_input=tokens[:, -1], grammar=prompt.grammar
            )
        made = []
        for each in hypotheses:
            whole = np.concatenate([given, np.array(each.tokens, dtype=np.int64)])
            rank = each.score / (len(each.tokens) + 1)  # with the end mark
            made.append(Composition(to_notes(whole, prompt), whole, each.score, prompt.seconds, rank))
        return sorted(made, key=lambda piece: -piece.rank)

    def _announced(self, classes: Padded, shown: TokenArray | None, place: int) -> Padded | MusicCondition:
        """What the model is told beforehand, of a piece that it reads from a place on."""
        if not self.sizes.has_fixed_tokens or shown is None:
            return classes
        given = torch.from_numpy(shown[place:])[None]
        return MusicCondition(*classes, Padded(given, torch.tensor([given.shape[1]])))


def to_notes(tokens: TokenArray, prompt: Prompt) -> list[Note]:
    """The tokens of a piece -> its notes in seconds; those that were given are as they were given."""
    encoding = prompt.encoding
    content = encoding.decode(tokens)
    notes = encoding.notes(content, prompt.onsets) if isinstance(encoding, GridEncoding) else encoding.notes(content)
    if not prompt.melody:
        return notes
    return sorted([*prompt.melody, *(note for note in notes if note.voice != 0)])


def compare_statistics(pieces: Sequence[Composition], reference: Sequence[Any], encoding: Encoding) -> dict[str, float]:
    """New pieces beside the content of real ones -> the same numbers of both, and how far their histograms differ."""
    drawn = [piece.notes for piece in pieces]
    heard = [encoding.notes(content) for content in reference]
    numbers = {
        "pitch_distance": statistics.total_variation(
            statistics.pitch_histogram(drawn), statistics.pitch_histogram(heard)
        ),
        "interval_distance": statistics.total_variation(
            statistics.interval_histogram(drawn), statistics.interval_histogram(heard)
        ),
    }
    if isinstance(encoding, GridEncoding):
        tables = {
            "samples": statistics.describe([encoding.decode(piece.tokens) for piece in pieces]),
            "data": statistics.describe(reference),
        }
    else:
        tables = {"samples": statistics.texture(drawn), "data": statistics.texture(heard)}
    return numbers | {f"{name}_{whose}": value for whose, table in tables.items() for name, value in table.items()}


class SlidingState(NamedTuple):
    """All tokens so far, the model's own state, and how many of the tokens it has forgotten."""

    tokens: Tensor  # (r n)
    model_state: State
    num_dropped: int


class SlidingWindowDecoder:
    """A `Decoder` of one source that never runs out of memory; `begin` gives the model's state before the token of a
    number."""

    def __init__(self, model: Decoder, start_state: Callable[[int], State], *, max_length: int, bar: int) -> None:
        self.model, self.start_state, self.max_length, self.bar = model, start_state, max_length, bar

    @property
    def readout(self) -> Readout:
        return self.model.readout

    def start(self, source: Tensor) -> SlidingState:
        """The state before the first token; only the device of `source` (1 …) counts, the rest is known."""
        return SlidingState(torch.zeros(1, 0, dtype=torch.long, device=source.device), self.start_state(0), 0)

    def features(self, tokens: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """Of many tokens at once only the last may have features: those that fit into the memory."""
        whole = torch.cat([state.tokens, tokens], dim=1)
        length = whole.shape[1]
        if length - state.num_dropped <= self.max_length:
            x, inner = self.model.features(tokens, state.model_state)
            return x, SlidingState(whole, inner, state.num_dropped)
        forgotten = -(-(length - max(self.bar, self.max_length // 2)) // self.bar) * self.bar
        x, inner = self.model.features(whole[:, forgotten:], repeat_rows(self.start_state(forgotten), len(whole)))
        return x[:, -tokens.shape[1] :], SlidingState(whole, inner, forgotten)

    def __call__(self, tokens: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state
