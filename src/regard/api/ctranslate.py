"""Models that CTranslate2 decodes: the same weights, exported once, answered by its own search.

A model of source and target is translated; a language model goes on from a text. Each stands here as a model whose
state is what was read so far, and as a search over it with the settings of ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.api.export import export, is_whole
from regard.api.workers import available
from regard.core import tree
from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.core.files import cache_folder, digest
from regard.core.protocols import Hypothesis, Padded
from regard.core.seed import mix
from regard.core.sizes import Marks
from regard.decoding import Decoding, Sources
from regard.models.gpt import GPT, GPTState
from regard.training.run import Parts

Row = tuple[int, ...]
Finder = Callable[[Decoding | None], Decoding]


def build(parts: Parts) -> tuple[nn.Module, Finder]:
    """The parts of a run -> what stands for its model, and its decoding by CTranslate2."""
    library = require("ctranslate2", extra="ctranslate2")
    weights = digest(parts.folder / "model.safetensors")
    folder = cache_folder() / "ctranslate2" / weights[:16]  # once for these weights; never from a stranger's run folder
    if not is_whole(folder, weights):
        shutil.rmtree(folder, ignore_errors=True)
        export(parts.model, parts.task.sizes, folder, weights=weights)
    if isinstance(parts.model, GPT):
        return Telling(parts.model), lambda decoding: _telling(decoding, library, folder)
    translator = library.Translator(str(folder), compute_type="float32", inter_threads=available(), intra_threads=1)
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
    if decoding is None or decoding.name not in ("greedy", "beam"):
        name = "nothing" if decoding is None else decoding.name
        raise ConfigError(f"engine ctranslate2 searches by greedy or beam, not by {name}")
    return Search(decoding.name, decoding.config, translator)


@dataclass(frozen=True)
class Search(Decoding):
    """Greedy or beam search by CTranslate2, with the settings of ours."""

    translator: Any

    def decode(self, model: Any, sources: Sources) -> list[list[Hypothesis]]:
        """The source rows -> hypotheses of each, best first, cut at its limit."""
        if sources.first is not None or sources.grammar is not None:
            raise ConfigError("engine ctranslate2 knows neither a beginning nor a grammar; use engine native")
        marks, limits, given = sources.marks, sources.limits, sources.state
        rows = zip(given.tokens.tolist(), given.lengths.tolist(), strict=True)
        results = self.translator.translate_batch(
            [[str(token) for token in row[:length]] for row, length in rows],
            num_hypotheses=getattr(self.config, "nbest", 1),
            min_decoding_length=self.config.min_length,
            max_decoding_length=int(limits.max()),
            max_batch_size=64,
            **_settings(self.config, marks),
        )
        return [
            _hypotheses(row.hypotheses, row.scores, end=marks.end, limit=limit, penalty=_penalty(self.config))
            for row, limit in zip(results, limits.tolist(), strict=True)
        ]


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


def _telling(decoding: Decoding | None, library: Any, folder: Path) -> Decoding:
    if decoding is None or decoding.name not in ("greedy", "beam", "sample"):
        name = "nothing" if decoding is None else decoding.name
        raise ConfigError(f"engine ctranslate2 goes on by greedy, beam or sample, not by {name}")
    return GoOn(decoding.name, decoding.config, library, folder)


@dataclass(frozen=True)
class GoOn(Decoding):
    """Greedy search, beam search or sampling behind a text by CTranslate2, with the settings of ours.

    Its draws are others than ours. What a text gets depends on seed and number alone: CTranslate2 reads a seed when
    a thread begins, so that each text that is drawn has a generator, and thereby a thread, of its own.
    """

    library: Any
    folder: Path

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
        if self.has("seed"):
            self.library.set_random_seed(mix(self.config.seed, number) % 2**32)
        return self.library.Generator(str(self.folder), compute_type="float32", intra_threads=torch.get_num_threads())

    def _one(self, generator: Any, text: Row, marks: Marks, limit: int) -> list[Hypothesis]:
        if limit == 0:
            return [Hypothesis((), 0.0, 0.0)]
        drawn: dict[str, Any] = {}
        if self.has("seed"):
            config = self.config
            drawn = {
                "sampling_topk": config.top_k,
                "sampling_topp": config.top_p,
                "sampling_temperature": config.temperature,
            }
        (result,) = generator.generate_batch(
            [[str(token) for token in text]],
            num_hypotheses=getattr(self.config, "nbest", getattr(self.config, "samples", 1)),
            min_length=self.config.min_length,
            max_length=limit,
            include_prompt_in_result=False,
            **drawn,
            **_settings(self.config, marks),
        )
        return _hypotheses(result.sequences, result.scores, end=marks.end, limit=limit, penalty=_penalty(self.config))


def _settings(config: Any, marks: Marks) -> dict[str, Any]:
    """What both ways of CTranslate2 call by the same names."""
    return {
        "beam_size": getattr(config, "width", 1),
        "length_penalty": _penalty(config),
        "no_repeat_ngram_size": config.no_repeat,
        "suppress_sequences": [[str(token)] for token in (marks.pad, marks.start, *config.forbid)],
        "return_end_token": True,
        "return_scores": True,
    }


def _penalty(config: Any) -> float:
    return float(getattr(config, "length_penalty", 0.0))


def _hypotheses(rows: list[list[str]], ranks: list[float], *, end: int, limit: int, penalty: float) -> list[Hypothesis]:
    """CTranslate2 ranks by the sum of log p divided by length^penalty; the sum is what is wanted."""
    return [
        Hypothesis(tuple(int(word) for word in words if int(word) != end)[:limit], rank * len(words) ** penalty, rank)
        for words, rank in zip(rows, ranks, strict=True)
    ]
