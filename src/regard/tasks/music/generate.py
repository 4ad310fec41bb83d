"""Generation of pieces from a prompt, constrained by a grammar so that every piece is valid.

Pieces may be longer than the context of the model. When the KV cache is full, the older half is dropped. The rest is
encoded again from the start of a bar, like a training crop from the middle of a piece, so every position scheme works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import MusicSpec
from regard.core.inference_mode import eval_mode
from regard.core.protocols import Decoder, Padded, Readout, State
from regard.core.protocols.music import MusicCondition
from regard.core.state_tree import map_tensors, repeat_rows
from regard.data.music.encoding import Encoding, TokenArray
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.notes import Note
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.tasks.music.conditions import ConditionClasses
from regard.tasks.music.guidance import GuidedDecoder
from regard.tasks.music.prompts import Length, Prompt, continuation_prompt


class Composition(NamedTuple):
    """A generated piece and its scores."""

    notes: list[Note]  # in seconds
    tokens: TokenArray
    score: float  # log probability of the generated tokens
    prompt_seconds: float  # duration of the prompt
    rank: float = 0.0  # mean log probability of a generated token, since lengths differ


class PieceGenerator(NamedTuple):
    """Generates pieces with a model; has the encoding, classes and spec it was trained with."""

    encoding: Encoding
    classes: ConditionClasses
    sizes: MusicSpec

    def generate_unconditional(
        self, model: Decoder, decoding: DecodingStrategy, *, seconds: float
    ) -> list[Composition]:
        """Return new pieces of at most `seconds`, best first."""
        prompt = continuation_prompt(None, self.encoding, prompt_seconds=None, length=Length(seconds))
        return self.generate(model, prompt, decoding)

    def generate(
        self,
        model: Decoder,
        prompt: Prompt,
        decoding: DecodingStrategy,
        *,
        condition: Sequence[str] = (),
        guidance: float = 1.0,
    ) -> list[Composition]:
        """A prompt and classes of conditions -> pieces, best first, as many as the decoding strategy returns.

        A `guidance` above 1 strengthens the condition. Scores are then those of the guided distribution.
        """
        special_tokens = self.sizes.special_tokens
        classes = self.classes.encode_request(condition)
        with eval_mode(model) as device:
            model = optimize_for_decoding(model)
            model = model if guidance == 1 else GuidedDecoder(model, guidance)

            def start_state(position: int) -> State:
                source = self._condition(classes, prompt.visible_tokens, position)
                return model.start(map_tensors(source, lambda x: x.to(device)))

            sliding = SlidingWindowDecoder(
                model, start_state, max_length=self.sizes.max_length, bar=prompt.encoding.tokens_per_bar
            )
            tokens = torch.from_numpy(np.concatenate([[special_tokens.bos], prompt.tokens]))[None].to(device)
            state = sliding.start(tokens)
            if tokens.shape[1] > 1:
                _, state = sliding.features(tokens[:, :-1], state)
            limits = torch.tensor([prompt.limit], device=device)
            (hypotheses,) = decoding(
                sliding,
                state,
                special_tokens=special_tokens,
                limits=limits,
                first_input=tokens[:, -1],
                grammar=prompt.grammar,
            )
        pieces = []
        for hypothesis in hypotheses:
            piece_tokens = np.concatenate([prompt.tokens, np.array(hypothesis.tokens, dtype=np.int64)])
            rank = hypothesis.score / (len(hypothesis.tokens) + 1)  # with EOS
            notes = to_notes(piece_tokens, prompt)
            pieces.append(Composition(notes, piece_tokens, hypothesis.score, prompt.seconds, rank))
        return sorted(pieces, key=lambda piece: -piece.rank)

    def _condition(self, classes: Padded, fixed_tokens: TokenArray | None, position: int) -> Padded | MusicCondition:
        """Return the condition of a piece that the model reads from a position on."""
        if not self.sizes.has_fixed_tokens or fixed_tokens is None:
            return classes
        fixed = torch.from_numpy(fixed_tokens[position:])[None]
        return MusicCondition(*classes, Padded(fixed, torch.tensor([fixed.shape[1]])))


def to_notes(tokens: TokenArray, prompt: Prompt) -> list[Note]:
    """The tokens of a piece -> its notes in seconds; the notes of a given melody are returned unchanged."""
    encoding = prompt.encoding
    content = encoding.decode(tokens)
    notes = encoding.notes(content, prompt.onsets) if isinstance(encoding, GridEncoding) else encoding.notes(content)
    if not prompt.melody:
        return notes
    return sorted([*prompt.melody, *(note for note in notes if note.voice != 0)])


class SlidingState(NamedTuple):
    """All tokens so far, the state of the model, and the number of dropped tokens."""

    tokens: Tensor  # (r n)
    model_state: State
    num_dropped: int


class SlidingWindowDecoder:
    """A `Decoder` of one source without a length limit.

    `start_state(position)` returns the state of the model before the token at a position.
    """

    def __init__(self, model: Decoder, start_state: Callable[[int], State], *, max_length: int, bar: int) -> None:
        self.model, self.start_state, self.max_length, self.bar = model, start_state, max_length, bar

    @property
    def readout(self) -> Readout:
        return self.model.readout

    def start(self, source: Tensor) -> SlidingState:
        """Return the state before the first token; only the device of `source` (1 …) is used."""
        return SlidingState(torch.zeros(1, 0, dtype=torch.long, device=source.device), self.start_state(0), 0)

    def features(self, tokens: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """Return the features of the tokens; of many tokens at once, only of those that fit into the context."""
        all_tokens = torch.cat([state.tokens, tokens], dim=1)
        length = all_tokens.shape[1]
        if length - state.num_dropped <= self.max_length:
            x, inner = self.model.features(tokens, state.model_state)
            return x, SlidingState(all_tokens, inner, state.num_dropped)
        num_dropped = -(-(length - max(self.bar, self.max_length // 2)) // self.bar) * self.bar
        start = repeat_rows(self.start_state(num_dropped), len(all_tokens))
        x, inner = self.model.features(all_tokens[:, num_dropped:], start)
        return x[:, -tokens.shape[1] :], SlidingState(all_tokens, inner, num_dropped)

    def __call__(self, tokens: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state
