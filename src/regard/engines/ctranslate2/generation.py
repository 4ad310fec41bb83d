"""Language models that CTranslate2 lets go on: our own model reads and scores a text, its search goes on with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core import state_tree
from regard.core.cpu import available_cores
from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError
from regard.core.protocols import Hypothesis, Padded
from regard.core.seed import combine_seeds
from regard.decoding.strategy import DecoderInputs, DecodingStrategy
from regard.engines.ctranslate2 import search
from regard.models.gpt import GPT, GPTState

Row = tuple[int, ...]
PendingHypotheses = Callable[[], list[Hypothesis] | None]  # None: not settled
SAMPLING_OPTIONS = {"topk": "top_k", "topp": "top_p", "temperature": "temperature"}  # theirs -> ours


class PromptState(NamedTuple):
    """What a language model has read: its own state, and the tokens for CTranslate2."""

    state: GPTState
    tokens: tuple[Row, ...]

    def _join(self, other: PromptState, *, shared: bool) -> PromptState:
        """For core.tree."""
        return PromptState(state_tree.concat_states(self.state, other.state), self.tokens + other.tokens)


class CT2LanguageModel(nn.Module):
    """Stands for a language model that CTranslate2 lets go on: it reads and scores a text itself, and keeps it."""

    def __init__(self, original: GPT) -> None:
        super().__init__()
        self.original, self.readout = original, original.readout

    def start(self, source: Padded) -> PromptState:
        return PromptState(self.original.start(source), ((),) * len(source.lengths))

    def features(self, tokens: Tensor, state: PromptState) -> tuple[Tensor, PromptState]:
        features, after = self.original.features(tokens, state.state)
        rows = zip(state.tokens, tokens.tolist(), strict=True)
        return features, PromptState(after, tuple((*before, *new) for before, new in rows))

    def forward(self, tokens: Tensor, state: PromptState) -> tuple[Tensor, PromptState]:
        features, after = self.features(tokens, state)
        return self.readout(features), after


@dataclass(frozen=True)
class GeneratorFactory:
    """From what generators of CTranslate2 are made."""

    library: Any
    folder: Path
    precision: str

    def create_generator(self, *, workers: int, threads: int) -> Any:
        """A generator that works on so many batches at once."""
        settings = {"compute_type": self.precision, "inter_threads": workers, "intra_threads": threads}
        return self.library.Generator(str(self.folder), **settings)

    @cached_property
    def batch_generator(self) -> Any:
        """A worker of one thread on each core."""
        return self.create_generator(workers=available_cores(), threads=1)

    @cached_property
    def single_generator(self) -> Any:
        """One worker, of as many threads as pay for a single text."""
        return self.create_generator(workers=1, threads=torch.get_num_threads())


def ct2_generation(decoding: DecodingStrategy | None, factory: GeneratorFactory) -> DecodingStrategy:
    if decoding is None or decoding.name not in (*search.SUPPORTED_STRATEGIES, "sample"):
        name = "nothing" if decoding is None else decoding.name
        raise ConfigError(f"engine ctranslate2 goes on by greedy, beam or sample, not by {name}")
    return CT2Generation(decoding.name, decoding.config, factory)


@dataclass(frozen=True)
class CT2Generation(DecodingStrategy):
    """Greedy search, beam search or sampling behind a text by CTranslate2, with the settings of ours.

    Its draws are others than ours. What a text gets depends on seed and number alone: CTranslate2 reads a seed when
    a thread begins, so that each text that is drawn has a generator, and thereby a thread, of its own.
    """

    factory: GeneratorFactory

    def decode(self, model: Any, sources: DecoderInputs) -> list[list[Hypothesis]]:
        """Texts -> how each goes on, up to its limit."""
        if sources.grammar is not None:
            raise ConfigError("engine ctranslate2 knows no grammar; use engine native")
        marks, limits = sources.special_tokens, sources.limits
        last = [marks.bos] * limits.numel() if sources.first_input is None else sources.first_input.tolist()
        order = range(limits.numel()) if sources.sample_indices is None else sources.sample_indices.tolist()
        texts = [(*row, token) for row, token in zip(sources.state.tokens, last, strict=True)]
        if self.has_setting("seed"):
            each = zip(order, texts, limits.tolist(), strict=True)
            drawn = [self._begin(self._drawing(number), [text], marks, limit)[0]() for number, text, limit in each]
            return [hypotheses or [] for hypotheses in drawn]
        found = self._all(texts, limits.tolist(), marks)
        left = torch.tensor([place for place, hypotheses in enumerate(found) if hypotheses is None], dtype=torch.long)
        return [own or [] for own in self._settled(found, left, model, sources)]

    def _settled(
        self, found: search.RowHypotheses, left: Tensor, model: Any, sources: DecoderInputs
    ) -> search.RowHypotheses:
        """The same; our own search finds how those go on that were cut at their limit."""
        if left.numel():
            first = None if sources.first_input is None else sources.first_input[left]
            own = DecodingStrategy(self.name, self.config)(
                model.original,
                state_tree.select_sources(sources.state.state, left),
                special_tokens=sources.special_tokens,
                limits=sources.limits[left],
                first_input=first,
            )
            for place, hypotheses in zip(left.tolist(), own, strict=True):
                found[place] = hypotheses
        return found

    def _all(self, texts: list[Row], limits: list[int], marks: SpecialTokens) -> search.RowHypotheses:
        """Texts of one length and limit together: beside longer ones, CTranslate2 goes on otherwise than alone."""
        generator = self.factory.batch_generator if len(texts) > 1 else self.factory.single_generator
        alike: dict[tuple[int, int], list[int]] = {}
        for place, (text, limit) in enumerate(zip(texts, limits, strict=True)):
            alike.setdefault((len(text), limit), []).append(place)
        begun: dict[int, PendingHypotheses] = {}
        for (_, limit), places in alike.items():
            begun |= zip(places, self._begin(generator, [texts[place] for place in places], marks, limit), strict=True)
        return [begun[place]() for place in range(len(texts))]

    def _drawing(self, number: int) -> Any:
        self.factory.library.set_random_seed(combine_seeds(self.config.seed, number) % 2**32)
        return self.factory.create_generator(workers=1, threads=torch.get_num_threads())

    def _begin(self, generator: Any, texts: list[Row], marks: SpecialTokens, limit: int) -> list[PendingHypotheses]:
        """Hand texts of one length over -> a function for each that waits for how it goes on."""
        if limit == 0:
            return [lambda: [Hypothesis((), 0.0, 0.0)]] * len(texts)
        decoding = asdict(self.config)
        drawn: dict[str, Any] = {}
        if self.has_setting("seed"):
            drawn = {f"sampling_{name}": decoding[ours] for name, ours in SAMPLING_OPTIONS.items()}
        results = generator.generate_batch(
            [[str(token) for token in text] for text in texts],
            num_hypotheses=decoding.get("nbest", decoding.get("num_samples", 1)),
            min_length=decoding["min_length"],
            max_length=limit,
            max_batch_size=max(1, search.MAX_HYPOTHESES_PER_WORKER // decoding.get("beam_width", 1)),
            include_prompt_in_result=False,
            asynchronous=True,
            **drawn,
            **search.ct2_options(decoding, suppressed_tokens=(marks.pad, marks.bos, *decoding["suppress_tokens"])),
        )
        cut = partial(_cut, end=marks.eos, limit=limit, penalty=float(decoding.get("length_penalty", 0.0)))
        return [partial(self._settle, result, cut, marks.eos) for result in results]

    def _settle(self, result: Any, cut: Callable[[Any], list[Hypothesis]], end: int) -> list[Hypothesis] | None:
        """Wait for a result. A beam is settled once all of it has ended: at a limit ours counts the end mark."""
        ready = result.result()
        open_ = self.has_setting("beam_width") and any(not words or int(words[-1]) != end for words in ready.sequences)
        return None if open_ else cut(ready)


def _cut(result: Any, *, end: int, limit: int, penalty: float) -> list[Hypothesis]:
    """What a text goes on by: up to its end mark or its limit. The sum of log p is that of the tokens there are."""
    return [
        Hypothesis(tuple(int(word) for word in words if int(word) != end)[:limit], rank * len(words) ** penalty, rank)
        for words, rank in zip(result.sequences, result.scores, strict=True)
    ]
