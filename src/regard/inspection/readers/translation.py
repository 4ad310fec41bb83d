"""Reads a sentence for a translation model: decodes it, and prepares the replay of the best output all at once.

Maps are never recorded during search. The output is fed back as if it were given, and by the law of cuts the maps are
those of the search: row t is the look from which output t was emitted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch

from regard.core.errors import DataError
from regard.core.protocols import Hypothesis, Padded
from regard.data import sources
from regard.data.builtin import english_korean
from regard.data.tokens import MARKS, Tokenizer
from regard.inspection.example import Example, Pair, Truth, Vocabulary
from regard.inspection.format import Axis, Output

WORDS = 120  # of each vocabulary that are shown as points
KNOWN = 3000  # training sentences whose alignment is looked up; making more of them would keep the page waiting


def read(task: Any, model: Any, text: str, *, decode: Callable[..., list[list[Hypothesis]]]) -> Example:
    """A sentence -> its translation, labels, and the replay."""
    if not text.strip():
        raise DataError("there is no sentence to look at; give some text")
    device = next(model.parameters()).device
    source = Padded(*(x.to(device) for x in task.encode_sources([text])))
    limits = (2 * source.lengths + 10).clamp(max=task.sizes.longest - 1)
    begun = time.perf_counter()
    best = decode(model, model.start(source), marks=task.marks, limits=limits)[0]
    seconds = time.perf_counter() - begun
    tokens = [*best[0].tokens, task.marks.end]
    target = torch.tensor([[task.marks.start, *tokens]], device=device)
    vocabularies = task.vocabularies
    labels = [vocabularies.target.name(token) for token in target[0].tolist()]
    sources_shown = [vocabularies.source.name(token) for token in source.tokens[0].tolist()]
    outputs = tuple(Output(task.decode_tokens(one.tokens), one.score, one.rank_score) for one in best)

    def replay() -> Any:
        return model(target[:, :-1], model.start(source))

    return Example(
        axes={
            "source": Axis(tuple(sources_shown)),
            "output": Axis(tuple(labels[1:])),
            "read": Axis(tuple(labels[:-1])),
        },
        rows={"source": "source", "target": "output"},
        columns={"source": "source", "target": "read"},
        outputs=outputs,
        replay=replay,
        seconds=seconds,
        pair=Pair(source, target),
        truth=_truth(task, text, outputs[0].text, rows=tokens, columns=source.tokens[0].tolist()),
        vocabularies=tuple(
            _vocabulary(name, tokenizer, first=seen)
            for name, tokenizer, seen in zip(
                ("source", "target"), vocabularies, (source.tokens[0].tolist(), tokens), strict=True
            )
        ),
    )


def _vocabulary(name: str, tokenizer: Tokenizer, *, first: Sequence[int]) -> Vocabulary:
    """The tokens of the example, then others that begin a word, taken evenly from the frequent and the rare."""
    named = ((token, str(tokenizer.engine.id_to_token(token))) for token in range(len(MARKS), tokenizer.size))
    words = [token for token, text in named if text.startswith(" ") and len(text) > 2] or list(
        range(len(MARKS), tokenizer.size)
    )
    others = words[:: max(1, len(words) // WORDS)]
    tokens = tuple(dict.fromkeys([*(token for token in first if token >= len(MARKS)), *others]))[:WORDS]
    return Vocabulary(name, tokenizer.size, tokens, tuple(tokenizer.name(token) for token in tokens))


def _truth(task: Any, text: str, output: str, *, rows: Sequence[int], columns: Sequence[int]) -> Truth | None:
    """The true links of a sentence of the built-in grammar, if the output is its translation; else nobody knows."""
    config = task.config
    if config.path is not None or config.name != sources.BUILT_IN:
        return None
    turned = config.source == "ko"
    english = output if turned else text
    split = english_korean.split_of(english)
    count = min(config.pairs, KNOWN) if split == "train" else sources.HELD_OUT
    wanted = (output, text) if turned else (text, output)
    known = _grammar(split, count, config.seed).get(wanted)
    if known is None:
        return None
    links = frozenset((target, source) for source, target in known) if turned else frozenset(known)
    words = [_words(tokenizer, side) for tokenizer, side in zip(task.vocabularies, (columns, rows), strict=True)]
    spoken = [_spoken(tokenizer, side) for tokenizer, side in zip(task.vocabularies, (columns, rows), strict=True)]
    drawn = tuple((t, s) for t in spoken[1] for s in spoken[0] if (words[0][s], words[1][t]) in links)
    return Truth(links, words[1], words[0], drawn)


@lru_cache(maxsize=3)  # making a split takes seconds, and a served page asks again and again
def _grammar(split: str, count: int, seed: int) -> dict[tuple[str, str], tuple[tuple[int, int], ...]]:
    return {(one.source, one.target): one.alignment for one in english_korean.generate(split, count, seed=seed)}


def _words(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[int, ...]:
    """For each token but the end mark the number of the word (cut at spaces) it ends in."""
    begun = tokenizer.decode([tokens[: i + 1] for i in range(len(tokens) - 1)])
    return tuple(max(0, len(text.split()) - 1) for text in begun)


def _spoken(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    """The places of tokens that are more than punctuation: only these are drawn as linked."""
    return [i for i, token in enumerate(tokens[:-1]) if any(map(str.isalnum, tokenizer.name(token)))]
