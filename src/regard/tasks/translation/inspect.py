"""Translations: searched for in batches of like length, and one of them shown.

What is shown are the tokens of a translation, their words, and the model run again over source and output. Maps are
never recorded during search. The output is fed back as if it were given, and by the law of cuts the maps are those of
the search: row t is the look from which output t was emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Truth, Vocabulary
from regard.core.progress import track
from regard.core.protocols import Decoder, Hypothesis, Padded
from regard.core.state_tree import repeat_rows
from regard.data import batching
from regard.data.text.alignment import Links, word_indices
from regard.data.text.pair_files import Pairs
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair, TokenSpan
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.tasks._shared.teacher_forcing import ablate_tokens, with_alternatives

MAX_BATCH_SOURCES = 256  # decoded side by side: more gain nothing, and their caches leave the processor's
MAX_HYPOTHESES = 640  # hypotheses of them: more gain little, and take memory
MIN_BATCH_TOKENS = 4096  # source tokens of them, at least, whatever fits into a training batch
MAX_VOCABULARY_POINTS = 120  # of each vocabulary that are shown as points


@dataclass(frozen=True)
class SearchSettings:
    """How translations are searched for."""

    decoding: DecodingStrategy
    special_tokens: SpecialTokens
    length_limits: Callable[[Tensor], Tensor]  # lengths of sources (b) -> the most tokens of each translation (b)
    budget: int = 0  # source tokens of a batch; PADDED where that is more

    def __call__(self, model: Decoder, source: Padded, sample_indices: Tensor | None = None) -> list[list[Hypothesis]]:
        """Sources, all side by side -> their translations, best first."""
        limits = self.length_limits(source.lengths)
        return self.decoding(
            model, model.start(source), special_tokens=self.special_tokens, limits=limits, sample_indices=sample_indices
        )


def search(
    model: Decoder, source: Padded, settings: SearchSettings, *, sample_indices: Sequence[int]
) -> list[list[Hypothesis]]:
    """Any number of sources, in their order -> the translations of each, best first. What is drawn for a source depends
    on its entry in `numbers`."""
    device = next(model.parameters()).device  # type: ignore[attr-defined]  # a decoder is a module as well
    model = optimize_for_decoding(model)
    budget, most = (
        max(MIN_BATCH_TOKENS, settings.budget),
        min(MAX_BATCH_SOURCES, max(1, MAX_HYPOTHESES // settings.decoding.width)),
    )
    translations: list[list[Hypothesis]] = [[] for _ in sample_indices]
    batches = batching.batches_by_length(source.lengths.numpy(), budget=budget, max_rows=most)
    for rows in track(batches, total=len(sample_indices), size=len):
        lengths = source.lengths[rows]
        part = Padded(source.tokens[rows, : int(lengths.max())].to(device), lengths.to(device))
        own = torch.tensor([sample_indices[row] for row in rows], device=device)
        for row, hypotheses in zip(rows, settings(model, part, own), strict=True):
            translations[row] = hypotheses
    return translations


class TranslatedText(NamedTuple):
    """A text with its translations, best first."""

    text: str
    source: Padded  # (1 s), end mark included
    hypotheses: list[Hypothesis]
    seconds: float  # that the search took
    links: Links | None  # the true word alignment of text and best translation, where it is known


def build_inspectable(
    model: Decoder, translated: TranslatedText, *, vocabularies: TokenizerPair, special_tokens: SpecialTokens
) -> Inspectable:
    """A text and its translations -> axes, outputs, and ways to run the model again."""
    source, best = translated.source, [*translated.hypotheses[0].tokens, special_tokens.eos]
    target = torch.tensor([[special_tokens.bos, *best]], device=source.tokens.device)
    output = vocabularies.target.decode([best])[0]
    items = {
        "source": _items(translated.text, vocabularies.source.encode_with_offsets(translated.text)),
        "output": _items(output, vocabularies.target.decode_with_offsets(best[:-1])),
    }
    items["read"] = (Item(vocabularies.target.token_text(special_tokens.bos), special=True), *items["output"][:-1])
    inputs = {"source": source.tokens, "read": target[:, :-1]}
    replay = Replay(model, source, target)
    return Inspectable(
        title=translated.text,
        axes={name: Axis(each, name, input=name if name in inputs else "") for name, each in items.items()},
        query_axes={"source": (AxisRef("source"),), "target": (AxisRef("output"),)},
        key_axes={"source": (AxisRef("source"),), "target": (AxisRef("read"),)},
        outputs=_outputs(model, translated, vocabulary=vocabularies.target, marks=special_tokens),
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
            _vocabulary("source", vocabularies.source, first=source.tokens[0].tolist()),
            _vocabulary("target", vocabularies.target, first=best),
        ),
        views=("alignment",),
    )


@dataclass(frozen=True)
class Replay:
    """The model run again over a source and its output, all at once."""

    model: Decoder
    source: Padded  # (1 s)
    target: Tensor  # (1 n+1): start, the output, end

    def __call__(self) -> Tensor:
        """Logits (n v) of every token of the output."""
        return self.model(self.target[:, :-1], self.model.start(self.source))[0][0]

    def ablate_source(self) -> Tensor:
        """Logits (s n v), each source token in turn taken out of the sentence."""
        tokens = self.source.tokens[0]
        size = len(tokens)
        if size < 2:
            return self()[None]
        shorter = torch.stack([torch.cat([tokens[:i], tokens[i + 1 :]]) for i in range(size)])  # (s s-1)
        state = self.model.start(Padded(shorter, torch.full((size,), size - 1, device=tokens.device)))
        return self.model(self.target[:, :-1].expand(size, -1), state)[0]


def find_reference(splits: Iterable[Pairs], text: str, vocabulary: Tokenizer) -> tuple[int, ...] | None:
    """The translation of a sentence that is in the data, as tokens with their end mark."""
    pairs = (pair for split in splits for pair in split)
    target = next((target for source, target in pairs if source == text), None)
    return None if target is None else (*vocabulary.encode([target])[0], SpecialTokens.eos)


def _items(text: str, pieces: Sequence[TokenSpan]) -> tuple[Item, ...]:
    words = word_indices(text, pieces)
    items = [Item(p.text, word=n, span=(p.start, p.stop)) for p, n in zip(pieces, words, strict=True)]
    return (*items, Item(SPECIAL_TOKENS[SpecialTokens.eos].strip(), special=True))


def _outputs(
    model: Decoder, translated: TranslatedText, *, vocabulary: Tokenizer, marks: SpecialTokens
) -> tuple[Output, ...]:
    """The translations with log p of every token, and what else might have stood there."""
    rows = [[marks.bos, *hypothesis.tokens, marks.eos] for hypothesis in translated.hypotheses]
    tokens = batching.pad(rows, marks.pad).tokens.to(translated.source.tokens.device)
    logits, _ = model(tokens[:, :-1], repeat_rows(model.start(translated.source), len(rows)))
    scores = logits.float().log_softmax(dim=-1)  # (n t v)
    outputs = []
    for row, hypothesis, own in zip(rows, translated.hypotheses, scores, strict=True):
        each = with_alternatives(row[1:], own[: len(row) - 1], lambda token, _: vocabulary.token_text(token))
        text = vocabulary.decode([hypothesis.tokens])[0]
        outputs.append(Output(text, hypothesis.score, hypothesis.rank_score, each))
    return tuple(outputs)


def _vocabulary(name: str, tokenizer: Tokenizer, *, first: Sequence[int]) -> Vocabulary:
    """The tokens of the example, then others that begin a word, taken evenly from the frequent and the rare."""
    named = (
        (token, str(tokenizer.engine.id_to_token(token))) for token in range(len(SPECIAL_TOKENS), tokenizer.vocab_size)
    )
    words = [token for token, text in named if text.startswith(" ") and len(text) > 2]
    words = words or list(range(len(SPECIAL_TOKENS), tokenizer.vocab_size))
    others = words[:: max(1, len(words) // MAX_VOCABULARY_POINTS)]
    tokens = tuple(dict.fromkeys([*(token for token in first if token >= len(SPECIAL_TOKENS)), *others]))[
        :MAX_VOCABULARY_POINTS
    ]
    return Vocabulary(name, tokenizer.vocab_size, tokens, tuple(tokenizer.token_text(token) for token in tokens))
