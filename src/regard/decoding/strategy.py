"""Search: greedy, beam, full beam, sampling, after a prefix; one file each. Each has a `Config` and
`plan(config) -> Plan`, from which `Search` makes steps. Decoders know `start`, `features`, `readout` of a model and
never which model it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError
from regard.core.protocols import Decoder, Grammar, Hypothesis, State
from regard.core.registry import find
from regard.decoding.search import Candidates, Search, SearchState, StrategySpec

__all__ = [
    "Candidates",
    "DecodingStrategy",
    "Search",
    "SearchState",
    "StrategySpec",
    "build",
    "n_best",
    "optimize_for_decoding",
]
MAX_NBEST = 1_000  # hypotheses of one source that are searched for: each is a row of a batch


def build(name: str, **settings: Any) -> DecodingStrategy:
    """A decoder by its name, with settings: build("beam", width=8)."""
    return DecodingStrategy(name, find("regard.decoding.strategies", name).Config(**settings))


def optimize_for_decoding(model: Decoder, precision: str = "float32") -> Decoder:
    """An equal model that decodes faster, of the weights as they are now; the model itself where it has none."""
    faster: Decoder = model.for_decoding(precision) if hasattr(model, "for_decoding") else model
    return faster


def n_best(
    search_fn: Callable[[DecodingStrategy], list[list[Hypothesis]]], decoding: DecodingStrategy, *, count: int
) -> list[list[Hypothesis]]:
    """The `count` best hypotheses of each source. The first of them is the one without asking for more; where a wider
    beam is needed for the others, they are its best."""
    wide = decoding.with_nbest(count)
    found = search_fn(wide)
    if wide.name == decoding.name and wide.width == decoding.width:
        return found
    penalty = float(getattr(wide.config, "length_penalty", 0.0))
    firsts = (own[0] for own in search_fn(decoding))
    return [
        [
            first._replace(rank_score=first.score / (len(first.tokens) + 1) ** penalty),
            *(each for each in others if each.tokens != first.tokens),
        ][:count]
        for first, others in zip(firsts, found, strict=True)
    ]


class DecoderInputs(NamedTuple):
    """What is to be decoded: see Search.begin."""

    state: State  # before the first token, one row a source
    special_tokens: SpecialTokens
    limits: Tensor  # (s)
    first_input: Tensor | None = None  # (s)
    sample_indices: Tensor | None = None  # (s)
    grammar: Grammar | None = None


@dataclass(frozen=True)
class DecodingStrategy:
    """A decoder by its name, and its settings: the [decoding] section of a recipe."""

    name: str
    config: Any

    @property
    def width(self) -> int:
        """How many hypotheses of a source stand side by side."""
        return int(getattr(self.config, "beam_width", getattr(self.config, "num_samples", 1)))

    def has_setting(self, setting: str) -> bool:
        """Whether the decoder has such a setting."""
        return any(field.name == setting for field in fields(self.config))

    def with_settings(self, **settings: Any) -> DecodingStrategy:
        """The same decoder with other settings."""
        return replace(self, config=replace(self.config, **settings))

    def with_nbest(self, count: int) -> DecodingStrategy:
        """The search for the `count` best: a beam at least as wide. 1 leaves the decoder as it is."""
        if count == 1:
            return self
        if count > MAX_NBEST:
            raise ConfigError(f"nbest={count} is too many to search for; ask for at most {MAX_NBEST}")
        if self.has_setting("beam_width") and self.has_setting("nbest"):
            return self.with_settings(width=max(self.config.width, count), nbest=count)
        return self.as_strategy("beam", beam_width=max(5, count), nbest=count)

    def with_overrides(self, **settings: Any) -> DecodingStrategy:
        """The decoder with the settings that are not None; sampling, if it does not have them all, and greedy search at
        temperature 0."""
        given = {name: value for name, value in settings.items() if value is not None}
        if given.get("temperature") == 0:
            return self.as_strategy("greedy")
        return self.with_settings(**given) if all(map(self.has_setting, given)) else self.as_strategy("sample", **given)

    def as_strategy(self, name: str, **settings: Any) -> DecodingStrategy:
        """Another decoder with the same constraints."""
        config = find("regard.decoding.strategies", name).Config
        kept = {
            field.name: getattr(self.config, field.name) for field in fields(config) if self.has_setting(field.name)
        }
        return replace(self, name=name, config=config(**kept | settings))

    def sample_indices(self, count: int) -> list[int]:
        """So many inputs -> the number by which each draws: its place. Where inputs of several requests are answered
        together, each request counts its own (serve/continuous_batching.py)."""
        return list(range(count))

    def search(self, model: Decoder, *, special_tokens: SpecialTokens, grammar: Grammar | None = None) -> Search:
        """The decoder applied to a model, to be run step by step; tokens that a grammar does not allow never come."""
        plan: StrategySpec = find("regard.decoding.strategies", self.name).plan(self.config)
        return Search(model, plan, special_tokens=special_tokens, constraints=self.config, grammar=grammar)

    def __call__(
        self,
        model: Decoder,
        state: State,
        *,
        special_tokens: SpecialTokens,
        limits: Tensor,
        first_input: Tensor | None = None,
        sample_indices: Tensor | None = None,
        grammar: Grammar | None = None,
    ) -> list[list[Hypothesis]]:
        """The state before the first token, one row a source -> hypotheses of each source, best first (Search.begin
        says what the arguments are)."""
        return self.decode(model, DecoderInputs(state, special_tokens, limits, first_input, sample_indices, grammar))

    def decode(self, model: Decoder, inputs: DecoderInputs) -> list[list[Hypothesis]]:
        """The same of one value: what a decoder that searches in a way of its own overrides."""
        search = self.search(model, special_tokens=inputs.special_tokens, grammar=inputs.grammar)
        return search.run(
            inputs.state, limits=inputs.limits, first_input=inputs.first_input, sample_indices=inputs.sample_indices
        )
