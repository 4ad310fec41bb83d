"""Models that CTranslate2 decodes: the same weights, exported once, answered by its own search.

A model of source and target is translated; a language model goes on from a text. Each stands here as a model whose
state is what was read so far, and as a search over it with the settings of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.api import ct2, kept
from regard.api.export import export
from regard.core import tree
from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.core.protocols import Hypothesis, Padded
from regard.core.seed import mix
from regard.core.sizes import Marks
from regard.decoding import Decoding, Sources, optimised
from regard.models.gpt import GPT, GPTState
from regard.training.run import Parts

Row = tuple[int, ...]
Finder = Callable[[Decoding | None], Decoding]
DRAWN = {"topk": "top_k", "topp": "top_p", "temperature": "temperature"}  # theirs -> ours


def ready(parts: Parts) -> Path:
    """The export of a run's weights, made now unless it is there and whole."""
    folder, weights = kept.place(parts.folder)
    if not kept.is_whole(folder, weights):
        export(parts.model, parts.task.sizes, folder, weights=weights)
    return folder


def build(parts: Parts, precision: str = "float32") -> tuple[nn.Module, Finder]:
    """The parts of a run -> what stands for its model, and its decoding by CTranslate2."""
    library = require("ctranslate2", extra="ctranslate2")
    folder = ready(parts)
    if isinstance(parts.model, GPT):
        return Telling(parts.model), lambda decoding: _telling(decoding, Source(library, folder, precision))
    translator = ct2.open_export(folder, precision=precision)
    return Exported(parts.model), lambda decoding: _translating(decoding, translator)


class Exported(nn.Module):
    """Stands for a model that CTranslate2 decodes: its state before the first token is the source itself."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original

    def start(self, source: Padded) -> Padded:
        """The rows that CTranslate2 will read."""
        return source

    def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """CTranslate2 gives whole outputs only."""
        raise ConfigError("engine ctranslate2 gives whole outputs only; use engine native")


def _translating(decoding: Decoding | None, translator: Any) -> Decoding:
    if decoding is None or decoding.name not in ct2.SEARCHES:
        name = "nothing" if decoding is None else decoding.name
        raise ConfigError(f"engine ctranslate2 searches by greedy or beam, not by {name}")
    return Search(decoding.name, decoding.config, translator)


@dataclass(frozen=True)
class Search(Decoding):
    """Greedy or beam search by CTranslate2, with the settings of ours."""

    translator: Any

    def decode(self, model: Any, sources: Sources) -> list[list[Hypothesis]]:
        """The source rows -> hypotheses of each, best first; our own search finds those that are not settled."""
        if sources.first is not None or sources.grammar is not None:
            raise ConfigError("engine ctranslate2 knows neither a beginning nor a grammar; use engine native")
        tokens, lengths = sources.state
        rows = [row[:length] for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
        wait = ct2.begin(
            self.translator, rows, sources.limits.tolist(), decoding=asdict(self.config), marks=sources.marks
        )
        found = wait()
        left = torch.tensor([number for number, row in enumerate(found) if row is None], dtype=torch.long)
        if left.numel():
            native = optimised(model.original)
            state = native.start(Padded(tokens[left], lengths[left]))
            own = Decoding(self.name, self.config)(
                native, state, marks=sources.marks, limits=sources.limits[left], numbers=left
            )
            for number, hypotheses in zip(left.tolist(), own, strict=True):
                found[number] = hypotheses
        return [row or [] for row in found]


class Read(NamedTuple):
    """What a language model has read: its own state, and the tokens for CTranslate2."""

    state: GPTState
    tokens: tuple[Row, ...]

    def _join(self, other: Read, *, shared: bool) -> Read:
        """For core.tree."""
        return Read(tree.join(self.state, other.state), self.tokens + other.tokens)


class Telling(nn.Module):
    """Stands for a language model that CTranslate2 lets go on: it reads and scores a text itself, and keeps it."""

    def __init__(self, original: GPT) -> None:
        super().__init__()
        self.original, self.readout = original, original.readout

    def start(self, source: Padded) -> Read:
        return Read(self.original.start(source), ((),) * len(source.lengths))

    def features(self, tokens: Tensor, state: Read) -> tuple[Tensor, Read]:
        features, after = self.original.features(tokens, state.state)
        rows = zip(state.tokens, tokens.tolist(), strict=True)
        return features, Read(after, tuple((*before, *new) for before, new in rows))

    def forward(self, tokens: Tensor, state: Read) -> tuple[Tensor, Read]:
        features, after = self.features(tokens, state)
        return self.readout(features), after


class Source(NamedTuple):
    """From what a generator of CTranslate2 is made."""

    library: Any
    folder: Path
    precision: str


def _telling(decoding: Decoding | None, source: Source) -> Decoding:
    if decoding is None or decoding.name not in (*ct2.SEARCHES, "sample"):
        name = "nothing" if decoding is None else decoding.name
        raise ConfigError(f"engine ctranslate2 goes on by greedy, beam or sample, not by {name}")
    return GoOn(decoding.name, decoding.config, source)


@dataclass(frozen=True)
class GoOn(Decoding):
    """Greedy search, beam search or sampling behind a text by CTranslate2, with the settings of ours.

    Its draws are others than ours. What a text gets depends on seed and number alone: CTranslate2 reads a seed when
    a thread begins, so that each text that is drawn has a generator, and thereby a thread, of its own.
    """

    source: Source

    def decode(self, model: Any, sources: Sources) -> list[list[Hypothesis]]:
        """Texts -> how each goes on, up to its limit."""
        if sources.grammar is not None:
            raise ConfigError("engine ctranslate2 knows no grammar; use engine native")
        marks, limits = sources.marks, sources.limits
        last = [marks.start] * limits.numel() if sources.first is None else sources.first.tolist()
        order = range(limits.numel()) if sources.numbers is None else sources.numbers.tolist()
        texts = [(*row, token) for row, token in zip(sources.state.tokens, last, strict=True)]
        generator = None if self.has("seed") else self._generator()
        return [
            self._one(generator or self._generator(number), text, marks, limit)
            for number, text, limit in zip(order, texts, limits.tolist(), strict=True)
        ]

    def _generator(self, number: int = 0) -> Any:
        library, folder, precision = self.source
        if self.has("seed"):
            library.set_random_seed(mix(self.config.seed, number) % 2**32)
        return library.Generator(str(folder), compute_type=precision, intra_threads=torch.get_num_threads())

    def _one(self, generator: Any, text: Row, marks: Marks, limit: int) -> list[Hypothesis]:
        if limit == 0:
            return [Hypothesis((), 0.0, 0.0)]
        decoding = asdict(self.config)
        drawn: dict[str, Any] = {}
        if self.has("seed"):
            drawn = {f"sampling_{name}": decoding[ours] for name, ours in DRAWN.items()}
        (result,) = generator.generate_batch(
            [[str(token) for token in text]],
            num_hypotheses=decoding.get("nbest", decoding.get("samples", 1)),
            min_length=decoding["min_length"],
            max_length=limit,
            include_prompt_in_result=False,
            **drawn,
            **ct2.settings(decoding, never=(marks.pad, marks.start, *decoding["forbid"])),
        )
        return _cut(result, end=marks.end, limit=limit, penalty=float(decoding.get("length_penalty", 0.0)))


def _cut(result: Any, *, end: int, limit: int, penalty: float) -> list[Hypothesis]:
    """What a text goes on by: up to its end mark or its limit. The sum of log p is that of the tokens there are."""
    return [
        Hypothesis(tuple(int(word) for word in words if int(word) != end)[:limit], rank * len(words) ** penalty, rank)
        for words, rank in zip(result.sequences, result.scores, strict=True)
    ]
