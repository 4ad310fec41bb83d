"""Search in steps, the same for all decoders: feed the last tokens, let the decoder choose, set aside what has ended.

`begin` makes a value of sources that are to be decoded, `step` adds a token to each, `join` sets sources that begin
later beside those that run. A corpus is a loop over `step`; a server joins a request whenever one comes. Everything is
kept in tensors of `s` sources × `w` rows, a row for each hypothesis that still grows. Rows and sources that have ended
leave the batch, so that they cost nothing; the state is reordered by `core.tree` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.core import state_tree
from regard.core.cancellation import check_cancelled
from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError, ShapeError
from regard.core.protocols import Decoder, Grammar, Hypothesis, State
from regard.core.state_tree import repeat_rows, select, select_sources
from regard.decoding.constraints import Constraints, apply_constraints
from regard.decoding.stopping import ShrinkingBeam, StoppingRule

EMPTY_ROW_SCORE = -torch.inf  # the sum of a row without a hypothesis
SHRINK_THRESHOLD = (
    7 / 8
)  # the batch is made smaller when no more than this share of it is left: copying caches has a price
HypothesesBySource = dict[int, list[Hypothesis]]  # by source


class SearchState(NamedTuple):
    """Sources that are being decoded, and their hypotheses that still grow."""

    state: State
    next_input: Tensor  # (s w) the tokens that the model reads next
    tokens: Tensor  # (s w t) decoded so far, padded on the left where a source began later than others
    lengths: Tensor  # (s) how many of these tokens are the source's own
    cum_log_probs: Tensor  # (s w) of log probabilities
    root_index: Tensor  # (s w) which of its source's first rows a hypothesis comes from
    uniforms: Tensor  # (s l n) a random number for each lane and step; none for a decoder that does not draw
    capacity: Tensor  # (s) how many more hypotheses the source may have
    best_ended_scores: Tensor  # (s n) rank scores of the best that have ended, best first
    limits: Tensor  # (s) the greatest length
    source_ids: Tensor  # (s) their numbers, counted in the order in which they were begun
    ended: HypothesesBySource  # what has ended of the sources that are not finished
    num_started: int  # how many sources there were, finished ones included
    min_steps_to_limit: int  # no source reaches its limit in fewer steps than this


class Candidates(NamedTuple):
    """What the hypotheses may become, per source; those whose sum is -inf are none."""

    parents: Tensor  # (s k) the row that is continued
    tokens: Tensor  # (s k)
    cum_log_probs: Tensor  # (s k) with the token


def _no_draws(limits: Tensor, numbers: Tensor) -> Tensor:
    return limits.new_empty(limits.numel(), 0, 0)


@dataclass(frozen=True)
class StrategySpec:
    """What a decoder is: how it chooses, how many hypotheses a source has, and how they are ranked."""

    choose: Callable[[Tensor, SearchState], Candidates]  # given log probabilities (s w v), -inf for what is forbidden
    initial_width: int = 1  # rows at the start
    capacity: int = 1  # hypotheses searched for
    nbest: int = 1  # hypotheses wanted
    length_penalty: float = 0.0
    draw_uniforms: Callable[[Tensor, Tensor], Tensor] = (
        _no_draws  # limits (s) and numbers (s) -> random numbers (s l n)
    )
    stopping_rule: StoppingRule = field(default_factory=ShrinkingBeam)  # when a source is over

    @property
    def num_compared(self) -> int:
        """How many of the ended hypotheses of a source the growing ones are compared with."""
        return self.stopping_rule.num_compared(nbest=self.nbest, capacity=self.capacity)


class Search:
    """A decoder applied to a model: what stays the same from step to step."""

    def __init__(
        self,
        model: Decoder,
        spec: StrategySpec,
        *,
        special_tokens: SpecialTokens,
        constraints: Constraints,
        grammar: Grammar | None = None,
    ) -> None:
        self.model, self.spec = model, spec
        self.special_tokens, self.constraints, self.grammar = special_tokens, constraints, grammar

    def run(
        self, state: State, *, limits: Tensor, first_input: Tensor | None = None, sample_indices: Tensor | None = None
    ) -> list[list[Hypothesis]]:
        """The arguments of `begin` -> the hypotheses of each source, best first."""
        if limits.numel() == 0:
            return []
        running = self.start(state, limits, first_input=first_input, sample_indices=sample_indices)
        hypotheses: HypothesesBySource = {}
        while running.source_ids.numel():
            check_cancelled()
            running, finished = self.step(running)
            hypotheses |= finished
        return [hypotheses[source] for source in range(limits.numel())]

    @torch.inference_mode()
    def start(
        self, state: State, limits: Tensor, *, first_input: Tensor | None = None, sample_indices: Tensor | None = None
    ) -> SearchState:
        """The state before the first token, one row a source, and the greatest length of each (s).

        At its limit a hypothesis is ended, and the end mark counted, as if the decoder had chosen it. So a score is
        always the teacher-forced score of the tokens and the end mark. `first` (s) is the token to feed first, in
        place of the start mark: the last of a prompt whose other tokens the state has seen. What a source draws
        depends on its entry in `numbers` (s) alone, which counts from 0 unless given.
        """
        if state_tree.batch_size(state) != limits.numel():
            raise ShapeError(
                f"limits has {limits.numel()} entries, the state {state_tree.batch_size(state)} rows; give one per source"
            )
        sources, lanes = limits.numel(), self.spec.initial_width
        limits = limits.clamp(min=0)
        order = torch.arange(sources, device=limits.device)
        fed = torch.full_like(limits, self.special_tokens.bos) if first_input is None else first_input
        return SearchState(
            state=repeat_rows(state, lanes) if lanes > 1 else state,
            next_input=fed[:, None].expand(sources, lanes),
            tokens=limits.new_empty(sources, lanes, 0),
            lengths=torch.zeros_like(limits),
            cum_log_probs=torch.zeros(sources, lanes, dtype=torch.float64, device=limits.device),
            root_index=torch.arange(lanes, device=limits.device).expand(sources, lanes),
            uniforms=self.spec.draw_uniforms(limits, order if sample_indices is None else sample_indices),
            capacity=torch.full_like(limits, self.spec.capacity),
            best_ended_scores=torch.full(
                (sources, self.spec.num_compared), EMPTY_ROW_SCORE, dtype=torch.float64, device=limits.device
            ),
            limits=limits,
            source_ids=order,
            ended={},
            num_started=sources,
            min_steps_to_limit=int(limits.min()) if sources else 0,
        )

    @torch.inference_mode()
    def step(self, search_state: SearchState) -> tuple[SearchState, HypothesesBySource]:
        """One token more for every hypothesis -> what runs on, and the hypotheses of the sources that are finished."""
        scores, state = self._score(search_state)
        candidates, search_state = self.spec.choose(scores, search_state), search_state._replace(state=state)
        if self._all_grow(search_state, candidates):
            return _grow(search_state, candidates), {}
        search_state, candidates = self._set_aside(search_state, candidates)
        alive = candidates.cum_log_probs > EMPTY_ROW_SCORE
        going = alive.any(dim=1)
        search_state, finished = self._finish(search_state, going)
        return _grow(*_shrink(search_state, candidates, alive=alive, going=going)), finished

    @torch.inference_mode()
    def merge(self, search_state: SearchState, incoming: SearchState) -> SearchState:
        """Sources beside others that may have begun earlier; each is decoded as if it were alone. Those of `more` are
        numbered after those of `running`."""
        incoming = incoming._replace(
            source_ids=incoming.source_ids + search_state.num_started,
            ended={source + search_state.num_started: hypotheses for source, hypotheses in incoming.ended.items()},
            num_started=incoming.num_started + search_state.num_started,
        )
        if not search_state.source_ids.numel() or not incoming.source_ids.numel():
            return (search_state if search_state.source_ids.numel() else incoming)._replace(
                num_started=incoming.num_started
            )
        width = max(search_state.cum_log_probs.shape[1], incoming.cum_log_probs.shape[1])
        length = max(int(part.lengths.max()) for part in (search_state, incoming))
        steps = max(part.uniforms.shape[2] for part in (search_state, incoming))
        parts = [
            _widened(part, width, length=length, steps=steps, mark=self.special_tokens.pad)
            for part in (search_state, incoming)
        ]
        joined = state_tree.concat_states(
            *(part._replace(ended=None, num_started=0, min_steps_to_limit=0) for part in parts)
        )  # type: ignore[arg-type]  # plain values are joined below
        ended = search_state.ended | incoming.ended
        return joined._replace(
            ended=ended,
            num_started=incoming.num_started,
            min_steps_to_limit=min(search_state.min_steps_to_limit, incoming.min_steps_to_limit),
        )

    def _score(self, running: SearchState) -> tuple[Tensor, State]:
        logits, state = self.model(running.next_input.reshape(-1, 1), running.state)
        scores = _log_softmax(logits[:, -1].float())
        sources, width, _ = running.tokens.shape
        lengths = running.lengths.repeat_interleave(width) if width > 1 else running.lengths
        history = running.tokens.flatten(0, 1)
        apply_constraints(
            scores,
            history,
            lengths=lengths,
            at_limit=(running.limits <= running.lengths).repeat_interleave(width)
            if running.min_steps_to_limit <= 0
            else None,
            allowed=None if self.grammar is None else _allowed(self.grammar, history, lengths),
            special_tokens=self.special_tokens,
            constraints=self.constraints,
        )
        return scores.view(sources, width, -1), state

    def _all_grow(self, running: SearchState, candidates: Candidates) -> bool:
        """Whether nothing has ended so far and nothing does now, so that there is nothing to compare: the rule."""
        fit = not running.ended and candidates.cum_log_probs.shape[1] <= self.spec.capacity
        return fit and bool(
            ((candidates.tokens != self.special_tokens.eos) & (candidates.cum_log_probs > EMPTY_ROW_SCORE)).all()
        )

    def _set_aside(self, running: SearchState, candidates: Candidates) -> tuple[SearchState, Candidates]:
        """Move the candidates that end to `ended`, and drop those that cannot come among the n best any more."""
        alive, ends = candidates.cum_log_probs > EMPTY_ROW_SCORE, candidates.tokens == self.special_tokens.eos
        done = alive & ends & (alive.cumsum(dim=1) <= running.capacity[:, None])
        penalty = self.spec.length_penalty
        if bool(done.any()):
            ranks = (
                candidates.cum_log_probs.masked_fill(~done, EMPTY_ROW_SCORE)
                / (running.lengths[:, None] + 1).double() ** penalty
            )
            kept = torch.cat([running.best_ended_scores, ranks], dim=1).topk(self.spec.num_compared, dim=1).values
            ended = _noted(running, candidates, done=done, ranks=ranks)
            capacity = self.spec.stopping_rule.remaining_capacity(running.capacity, done.sum(dim=1))
            running = running._replace(best_ended_scores=kept, ended=ended, capacity=capacity)
        grows = alive & ~ends
        sums = candidates.cum_log_probs.masked_fill(
            ~grows | (grows.cumsum(dim=1) > running.capacity[:, None]), EMPTY_ROW_SCORE
        )
        # Log probabilities only lower a sum, and a penalty helps most at the greatest length: where the rule ranks by
        # it, no continuation can rank above this. A source that cannot better what it has is over.
        best = (
            sums.amax(dim=1)
            / self.spec.stopping_rule.ranking_length(running.lengths, running.limits).double() ** penalty
        )
        return running, candidates._replace(
            cum_log_probs=sums.masked_fill((best <= running.best_ended_scores[:, -1])[:, None], EMPTY_ROW_SCORE)
        )

    def _finish(self, running: SearchState, going: Tensor) -> tuple[SearchState, HypothesesBySource]:
        """Take the hypotheses of sources that have nothing left to grow out of `ended`."""
        over = ~going & (running.cum_log_probs > EMPTY_ROW_SCORE).any(
            dim=1
        )  # those that were over before are in the batch at most
        ended, finished = dict(running.ended), dict[int, list[Hypothesis]]()
        for source in running.source_ids[over].tolist():
            hypotheses = ended.pop(source, [])
            if not hypotheses:
                raise CheckpointError(
                    f"source {source}: the model's log probabilities are not finite; its weights are damaged or "
                    "diverged: load an earlier checkpoint or train with a lower learning rate"
                )
            ranked = sorted(hypotheses, key=lambda each: -each.rank_score)  # of equals the one that ended first
            finished[source] = ranked[: self.spec.nbest]
        return running._replace(ended=ended), finished


def _log_softmax(logits: Tensor) -> Tensor:
    """(r v) -> (r v), in place: on a CPU twice as fast as the logsumexp alone, and nothing leaves the cache."""
    scores: Tensor = torch.ops.aten._log_softmax.out(logits, 1, False, out=logits)
    return scores


def _allowed(grammar: Grammar, history: Tensor, lengths: Tensor) -> Tensor:
    """Tokens (r t), of which the last `lengths` (r) are a row's own -> (r v) bool, by the grammar."""
    sizes = lengths.unique().tolist()
    groups = [(lengths == length).nonzero().flatten() for length in sizes]
    parts = [grammar.allowed(history[rows, history.shape[1] - n :]) for rows, n in zip(groups, sizes, strict=True)]
    return torch.cat(parts)[torch.cat(groups).argsort()] if len(parts) > 1 else parts[0]


def _noted(running: SearchState, candidates: Candidates, *, done: Tensor, ranks: Tensor) -> HypothesesBySource:
    """What has ended so far, together with the candidates that end now."""
    ended = dict(running.ended)
    source, place = done.nonzero(as_tuple=True)
    rows = running.tokens[source, candidates.parents[source, place]]
    facts = (
        running.source_ids[source],
        running.lengths[source],
        candidates.cum_log_probs[source, place],
        ranks[source, place],
    )
    for tokens, number, length, total, rank in zip(rows.tolist(), *(fact.tolist() for fact in facts), strict=True):
        hypothesis = Hypothesis(tuple(tokens[len(tokens) - length :]), score=total, rank_score=rank)
        ended[number] = [*ended.get(number, []), hypothesis]
    return ended


def _shrink(
    running: SearchState, candidates: Candidates, *, alive: Tensor, going: Tensor
) -> tuple[SearchState, Candidates]:
    """Drop finished sources and empty rows from the batch, once that saves more than copying the caches costs, or once
    one of them has reached its limit, behind which a model may have no places."""
    width, past = int(alive.sum(dim=1).max()), ~going & (running.lengths >= running.limits)
    if int(going.sum()) * width > SHRINK_THRESHOLD * alive.numel() and not bool(past.any()):
        return running, candidates
    if not bool(going.all()):
        left = going.nonzero().flatten()
        state = select_sources(running.state, left, width=running.cum_log_probs.shape[1]) if width else None
        kept = select(running._replace(state=None, ended=None), left)  # type: ignore[arg-type]  # both are put back
        running = kept._replace(state=state, ended=running.ended)
        candidates, alive = select(candidates, left), alive[left]
    order = (~alive).int().argsort(dim=1, stable=True)[:, :width]
    return running, Candidates(*(part.gather(1, order) for part in candidates))


def _grow(running: SearchState, candidates: Candidates) -> SearchState:
    """Every row becomes what its candidate says: the tokens of the parent and one more."""
    sources, width, length = running.tokens.shape
    parents, new = candidates.parents, candidates.tokens
    running = running._replace(
        next_input=new,
        cum_log_probs=candidates.cum_log_probs,
        lengths=running.lengths + 1,
        min_steps_to_limit=running.min_steps_to_limit - 1,
    )
    if width == parents.shape[1] == 1:  # every row goes on by itself
        return running._replace(tokens=torch.cat([running.tokens, new[:, :, None]], dim=2))
    tokens = running.tokens.gather(1, parents[:, :, None].expand(-1, -1, length))
    state, order = running.state, (torch.arange(sources, device=parents.device)[:, None] * width + parents).flatten()
    if order.numel() and not torch.equal(order, torch.arange(sources * width, device=order.device)):
        state = select(state, order)
    return running._replace(
        state=state,
        tokens=torch.cat([tokens, new[:, :, None]], dim=2),
        root_index=running.root_index.gather(1, parents),
    )


def _widened(running: SearchState, width: int, *, length: int, steps: int, mark: int) -> SearchState:
    """The same with `width` rows a source (those added hold nothing), `length` tokens and `steps` draws."""
    sources, rows = running.cum_log_probs.shape
    more = width - rows
    own = torch.arange(rows, device=running.cum_log_probs.device)
    places = torch.cat([own, own.new_zeros(more)]) + rows * torch.arange(sources, device=own.device)[:, None]
    return running._replace(
        state=select(running.state, places.flatten()) if more else running.state,
        next_input=pad(running.next_input, (0, more), value=mark),
        tokens=pad(running.tokens, (length - running.tokens.shape[2], 0, 0, more), value=mark),
        cum_log_probs=pad(running.cum_log_probs, (0, more), value=EMPTY_ROW_SCORE),
        root_index=pad(running.root_index, (0, more)),
        uniforms=pad(running.uniforms, (0, steps - running.uniforms.shape[2])),
    )
