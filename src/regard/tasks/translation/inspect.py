"""Inspection of a translation: its tokens and words, their alternatives, and replays of the model.

Attention is not recorded during search. The output is fed to the decoder with teacher forcing instead. The logits do
not depend on how tokens are split into chunks, so the attention maps are those of the search: row t belongs to the
step that generated output t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Truth
from regard.core.protocols import Decoder, Hypothesis, Padded
from regard.data.text.alignment import Links, word_indices
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair, TokenSpan
from regard.tasks._shared.teacher_forcing import ablate_tokens, hypotheses_to_outputs
from regard.tasks._shared.tokens import vocabulary_sample


class TranslatedText(NamedTuple):
    """A text with its translations, best first."""

    text: str
    source: Padded  # (1 s), EOS included
    hypotheses: list[Hypothesis]
    seconds: float  # duration of the search
    links: Links | None  # true word alignment of the text and its best translation, if known
    remarks: tuple[str, ...] = ()


def build_inspectable(
    model: Decoder, translated: TranslatedText, *, vocabularies: TokenizerPair, special_tokens: SpecialTokens
) -> Inspectable:
    """A text and its translations -> axes, outputs and replays of the model."""
    source, best = translated.source, [*translated.hypotheses[0].tokens, special_tokens.eos]
    device = source.tokens.device
    target = torch.tensor([[special_tokens.bos, *best]], device=device)
    output = vocabularies.target.decode([best])[0]
    items = {
        "source": _source_items(translated, vocabularies.source),
        "output": _items(output, vocabularies.target.decode_with_offsets(best[:-1])),
    }
    items["read"] = (Item(vocabularies.target.token_text(special_tokens.bos), special=True), *items["output"][:-1])
    inputs = {"source": source.tokens, "read": target[:, :-1]}
    replay = Replay(model, source, target)
    return Inspectable(
        title=translated.text,
        axes={name: Axis(axis_items, name, input=name if name in inputs else "") for name, axis_items in items.items()},
        query_axes={"source": (AxisRef("source"),), "target": (AxisRef("output"),)},
        key_axes={"source": (AxisRef("source"),), "target": (AxisRef("read"),)},
        outputs=hypotheses_to_outputs(
            model,
            source,
            translated.hypotheses,
            tokenizer=vocabularies.target,
            special_tokens=special_tokens,
            device=device,
        ),
        replay=replay,
        predicted_ids=target[0, 1:],
        seconds=translated.seconds,
        answer_axis="output",
        ablations={
            "source": replay.ablate_source,
            "read": lambda: ablate_tokens(model, source, target[:, :-1], unk=special_tokens.unk),
        },
        deletion_axes={"source": True},
        inputs=inputs,
        truth=None if translated.links is None else Truth("output", "source", translated.links),
        vocabularies=(
            vocabulary_sample(vocabularies.source, source.tokens[0].tolist(), name="source", word_starts=True),
            vocabulary_sample(vocabularies.target, best, name="target", word_starts=True),
        ),
        views=("alignment",),
        remarks=translated.remarks,
    )


@dataclass(frozen=True)
class Replay:
    """Runs the model again over a source and its complete output."""

    model: Decoder
    source: Padded  # (1 s)
    target: Tensor  # (1 n+1): BOS, the output, EOS

    def __call__(self) -> Tensor:
        """Return the logits (n v) of every token of the output."""
        return self.model(self.target[:, :-1], self.model.start(self.source))[0][0]

    def ablate_source(self) -> Tensor:
        """Return logits (s n v) with each source token in turn removed from the sentence."""
        tokens = self.source.tokens[0]
        size = len(tokens)
        if size < 2:
            return self()[None]
        shorter = torch.stack([torch.cat([tokens[:i], tokens[i + 1 :]]) for i in range(size)])  # (s s-1)
        state = self.model.start(Padded(shorter, torch.full((size,), size - 1, device=tokens.device)))
        return self.model(self.target[:, :-1].expand(size, -1), state)[0]


def _source_items(translated: TranslatedText, tokenizer: Tokenizer) -> tuple[Item, ...]:
    """Return the tokens of the text and EOS, and the tokens of a translation memory after them."""
    items = _items(translated.text, tokenizer.encode_with_offsets(translated.text))
    appended = translated.source.tokens[0, len(items) :].tolist()
    return items + tuple(Item(tokenizer.token_text(token), special=token == SpecialTokens.eos) for token in appended)


def _items(text: str, spans: Sequence[TokenSpan]) -> tuple[Item, ...]:
    words = word_indices(text, spans)
    items = [Item(span.text, word=word, span=(span.start, span.stop)) for span, word in zip(spans, words, strict=True)]
    return (*items, Item(SPECIAL_TOKENS[SpecialTokens.eos].strip(), special=True))
