"""Decoding strategies: greedy, beam, full beam, sampling, forced prefix; one file per strategy in `strategies/`.

Each file has a `Config` and `build(config) -> StrategySpec`, which `Search` runs step by step. A strategy uses `start`,
`features` and `readout` of a model and does not depend on the model's class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError
from regard.core.protocols import Decoder, Grammar, Hypothesis, State
from regard.core.registry import find
from regard.decoding.constraints import OutputConstraints, constraints_of
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
MAX_NBEST = 1_000  # hypotheses per source; each is a row of the batch


def build(name: str, **settings: Any) -> DecodingStrategy:
    """Return a strategy by name with settings, for example build("beam", beam_width=8)."""
    return DecodingStrategy(name, find("regard.decoding.strategies", name).Config(**settings))


def optimize_for_decoding(model: Decoder, precision: str = "float32") -> Decoder:
    """Return an equivalent model that decodes faster, a snapshot of the current weights; the model itself if there is
    none."""
    faster: Decoder = model.for_decoding(precision) if hasattr(model, "for_decoding") else model
    return faster


def n_best(
    search_fn: Callable[[DecodingStrategy], list[list[Hypothesis]]], decoding: DecodingStrategy, *, count: int
) -> list[list[Hypothesis]]:
    """Return the `count` best hypotheses of each source.

    The first is the one found without asking for more. If the others need a wider beam, they are the best of that beam.
    """
    wide_decoding = decoding.with_nbest(count)
    hypotheses = search_fn(wide_decoding)
    if wide_decoding.name == decoding.name and wide_decoding.width == decoding.width:
        return hypotheses
    penalty = float(getattr(wide_decoding.config, "length_penalty", 0.0))
    firsts = (single[0] for single in search_fn(decoding))
    return [
        [
            first._replace(rank_score=first.score / (len(first.tokens) + 1) ** penalty),
            *(hypothesis for hypothesis in candidates if hypothesis.tokens != first.tokens),
        ][:count]
        for first, candidates in zip(firsts, hypotheses, strict=True)
    ]


class DecoderInputs(NamedTuple):
    """Inputs of a search; see `Search.start`."""

    state: State  # before the first token, one row per source
    special_tokens: SpecialTokens
    limits: Tensor  # (s)
    first_input: Tensor | None = None  # (s)
    sample_indices: Tensor | None = None  # (s)
    grammar: Grammar | None = None


@dataclass(frozen=True)
class DecodingStrategy:
    """A strategy by name and its settings: the [decoding] section of a recipe."""

    name: str
    config: Any
    # index of each input in its request, if a batch is only a part of a request; (): the batch is the request
    request_indices: tuple[int, ...] = field(default=(), compare=False, repr=False, kw_only=True)
    overrides: OutputConstraints | None = field(default=None, kw_only=True)  # replace the constraints of the config

    @property
    def constraints(self) -> OutputConstraints:
        """Constraints on the output; a Config without such settings has none."""
        return constraints_of(self.config) if self.overrides is None else self.overrides

    def with_constraints(self, **changes: Any) -> DecodingStrategy:
        """Return the strategy with changed constraints, whether or not its Config has them as settings."""
        if self.overrides is None and all(map(self.has_setting, changes)):
            return self.with_settings(**changes)
        return replace(self, overrides=replace(self.constraints, **changes))

    @property
    def width(self) -> int:
        """Number of hypotheses per source that are decoded together."""
        return int(getattr(self.config, "beam_width", getattr(self.config, "num_samples", 1)))

    def has_setting(self, setting: str) -> bool:
        """Return True if the strategy has this setting."""
        return any(item.name == setting for item in fields(self.config))

    def with_settings(self, **settings: Any) -> DecodingStrategy:
        """Return the strategy with changed settings."""
        return replace(self, config=replace(self.config, **settings))

    def with_nbest(self, count: int) -> DecodingStrategy:
        """Return a strategy for the `count` best hypotheses: a beam that is at least as wide, or minimum Bayes risk
        with at least as many samples. For 1 it is unchanged."""
        if count == 1:
            return self
        if count > MAX_NBEST:
            raise ConfigError(f"nbest={count} is too large; request at most {MAX_NBEST}")
        for width in ("beam_width", "num_samples"):
            if self.has_setting(width) and self.has_setting("nbest"):
                return self.with_settings(**{width: max(getattr(self.config, width), count)}, nbest=count)
        return self.as_strategy("beam", beam_width=max(5, count), nbest=count)

    def with_overrides(self, **settings: Any) -> DecodingStrategy:
        """Return the strategy with the settings that are not None. If it does not have all of them, return sampling;
        for temperature 0, greedy search."""
        overrides = {name: value for name, value in settings.items() if value is not None}
        if overrides.get("temperature") == 0:
            return self.as_strategy("greedy")
        return (
            self.with_settings(**overrides)
            if all(map(self.has_setting, overrides))
            else self.as_strategy("sample", **overrides)
        )

    def as_strategy(self, name: str, **settings: Any) -> DecodingStrategy:
        """Return another strategy with the same constraints."""
        config = find("regard.decoding.strategies", name).Config
        shared = {item.name: getattr(self.config, item.name) for item in fields(config) if self.has_setting(item.name)}
        return replace(self, name=name, config=config(**shared | settings))

    def sample_indices(self, count: int) -> list[int]:
        """Return the sampling index of each of `count` inputs: its index in its request, so that samples do not depend
        on how a request is divided into batches."""
        return list(self.request_indices or range(count))

    def search(self, model: Decoder, *, special_tokens: SpecialTokens, grammar: Grammar | None = None) -> Search:
        """Return the search of this strategy with a model, to be run step by step. Tokens that the grammar does not
        allow are never generated."""
        spec: StrategySpec = find("regard.decoding.strategies", self.name).build(self.config)
        return Search(model, spec, special_tokens=special_tokens, constraints=self.constraints, grammar=grammar)

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
        """Model state before the first token, one row per source -> hypotheses of each source, best first. See
        `Search.start` for the arguments."""
        return self.decode(model, DecoderInputs(state, special_tokens, limits, first_input, sample_indices, grammar))

    def decode(self, model: Decoder, inputs: DecoderInputs) -> list[list[Hypothesis]]:
        """Same as calling the strategy, with one argument; strategies with a different search override it."""
        search = self.search(model, special_tokens=inputs.special_tokens, grammar=inputs.grammar)
        return search.run(
            inputs.state, limits=inputs.limits, first_input=inputs.first_input, sample_indices=inputs.sample_indices
        )
