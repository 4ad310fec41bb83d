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
from regard.decoding.constraints import Constraints, constrain
from regard.decoding.stopping import Rule, ShrinkingBeam

NONE = -torch.inf  # the sum of a row without a hypothesis
WORTHWHILE = 7 / 8  # the batch is made smaller when no more than this share of it is left: copying caches has a price
Ended = dict[int, list[Hypothesis]]  # by source


class SearchState(NamedTuple):
    """Sources that are being decoded, and their hypotheses that still grow."""

    state: State
    next_input: Tensor  # (s w) the tokens that the model reads next
    tokens: Tensor  # (s w t) decoded so far, padded on the left where a source began later than others
    lengths: Tensor  # (s) how many of these tokens are the source's own
    sums: Tensor  # (s w) of log probabilities
    lanes: Tensor  # (s w) which of its source's first rows a hypothesis comes from
    draws: Tensor  # (s l n) a random number for each lane and step; none for a decoder that does not draw
    capacity: Tensor  # (s) how many more hypotheses the source may have
    best_ended_scores: Tensor  # (s n) rank scores of the best that have ended, best first
    limits: Tensor  # (s) the greatest length
    sources: Tensor  # (s) their numbers, counted in the order in which they were begun
    ended: Ended  # what has ended of the sources that are not finished
    begun: int  # how many sources there were, finished ones included
    spare: int  # no source reaches its limit in fewer steps than this


class Candidates(NamedTuple):
    """What the hypotheses may become, per source; those whose sum is -inf are none."""

    parents: Tensor  # (s k) the row that is continued
    tokens: Tensor  # (s k)
    sums: Tensor  # (s k) with the token


def _no_draws(limits: Tensor, numbers: Tensor) -> Tensor:
    return limits.new_empty(limits.numel(), 0, 0)


@dataclass(frozen=True)
class StrategySpec:
    """What a decoder is: how it chooses, how many hypotheses a source has, and how they are ranked."""

    choose: Callable[[Tensor, SearchState], Candidates]  # given log probabilities (s w v), -inf for what is forbidden
    lanes: int = 1  # rows at the start
    capacity: int = 1  # hypotheses searched for
    nbest: int = 1  # hypotheses wanted
    length_penalty: float = 0.0
    draws: Callable[[Tensor, Tensor], Tensor] = _no_draws  # limits (s) and numbers (s) -> random numbers (s l n)
    rule: Rule = field(default_factory=ShrinkingBeam)  # when a source is over

    @property
    def compared(self) -> int:
        """How many of the ended hypotheses of a source the growing ones are compared with."""
        return self.rule.compared(nbest=self.nbest, capacity=self.capacity)


class Search:
    """A decoder applied to a model: what stays the same from step to step."""

    def __init__(
        self,
        model: Decoder,
        plan: StrategySpec,
        *,
        marks: SpecialTokens,
        constraints: Constraints,
        grammar: Grammar | None = None,
    ) -> None:
        self.model, self.plan = model, plan
        self.marks, self.constraints, self.grammar = marks, constraints, grammar

    def run(
        self, state: State, *, limits: Tensor, first: Tensor | None = None, numbers: Tensor | None = None
    ) -> list[list[Hypothesis]]:
        """The arguments of `begin` -> the hypotheses of each source, best first."""
        if limits.numel() == 0:
            return []
        running = self.begin(state, limits, first=first, numbers=numbers)
        hypotheses: Ended = {}
        while running.sources.numel():
            check_cancelled()
            running, finished = self.step(running)
            hypotheses |= finished
        return [hypotheses[source] for source in range(limits.numel())]

    @torch.inference_mode()
    def begin(
        self, state: State, limits: Tensor, *, first: Tensor | None = None, numbers: Tensor | None = None
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
        sources, lanes = limits.numel(), self.plan.lanes
        limits = limits.clamp(min=0)
        order = torch.arange(sources, device=limits.device)
        fed = torch.full_like(limits, self.marks.bos) if first is None else first
        return SearchState(
            state=repeat_rows(state, lanes) if lanes > 1 else state,
            next_input=fed[:, None].expand(sources, lanes),
            tokens=limits.new_empty(sources, lanes, 0),
            lengths=torch.zeros_like(limits),
            sums=torch.zeros(sources, lanes, dtype=torch.float64, device=limits.device),
            lanes=torch.arange(lanes, device=limits.device).expand(sources, lanes),
            draws=self.plan.draws(limits, order if numbers is None else numbers),
            capacity=torch.full_like(limits, self.plan.capacity),
            best_ended_scores=torch.full(
                (sources, self.plan.compared), NONE, dtype=torch.float64, device=limits.device
            ),
            limits=limits,
            sources=order,
            ended={},
            begun=sources,
            spare=int(limits.min()) if sources else 0,
        )

    @torch.inference_mode()
    def step(self, running: SearchState) -> tuple[SearchState, Ended]:
        """One token more for every hypothesis -> what runs on, and the hypotheses of the sources that are finished."""
        scores, state = self._score(running)
        candidates, running = self.plan.choose(scores, running), running._replace(state=state)
        if self._all_grow(running, candidates):
            return _grow(running, candidates), {}
        running, candidates = self._set_aside(running, candidates)
        alive = candidates.sums > NONE
        going = alive.any(dim=1)
        running, finished = self._finish(running, going)
        return _grow(*_shrink(running, candidates, alive=alive, going=going)), finished

    @torch.inference_mode()
    def join(self, running: SearchState, more: SearchState) -> SearchState:
        """Sources beside others that may have begun earlier; each is decoded as if it were alone. Those of `more` are
        numbered after those of `running`."""
        more = more._replace(
            sources=more.sources + running.begun,
            ended={source + running.begun: hypotheses for source, hypotheses in more.ended.items()},
            begun=more.begun + running.begun,
        )
        if not running.sources.numel() or not more.sources.numel():
            return (running if running.sources.numel() else more)._replace(begun=more.begun)
        width = max(running.sums.shape[1], more.sums.shape[1])
        length = max(int(part.lengths.max()) for part in (running, more))
        steps = max(part.draws.shape[2] for part in (running, more))
        parts = [_widened(part, width, length=length, steps=steps, mark=self.marks.pad) for part in (running, more)]
        joined = state_tree.concat_states(*(part._replace(ended=None, begun=0, spare=0) for part in parts))  # type: ignore[arg-type]  # plain values are joined below
        ended = running.ended | more.ended
        return joined._replace(ended=ended, begun=more.begun, spare=min(running.spare, more.spare))

    def _score(self, running: SearchState) -> tuple[Tensor, State]:
        logits, state = self.model(running.next_input.reshape(-1, 1), running.state)
        scores = _log_softmax(logits[:, -1].float())
        sources, width, _ = running.tokens.shape
        lengths = running.lengths.repeat_interleave(width) if width > 1 else running.lengths
        history = running.tokens.flatten(0, 1)
        constrain(
            scores,
            history,
            lengths=lengths,
            full=(running.limits <= running.lengths).repeat_interleave(width) if running.spare <= 0 else None,
            allowed=None if self.grammar is None else _allowed(self.grammar, history, lengths),
            marks=self.marks,
            constraints=self.constraints,
        )
        return scores.view(sources, width, -1), state

    def _all_grow(self, running: SearchState, candidates: Candidates) -> bool:
        """Whether nothing has ended so far and nothing does now, so that there is nothing to compare: the rule."""
        fit = not running.ended and candidates.sums.shape[1] <= self.plan.capacity
        return fit and bool(((candidates.tokens != self.marks.eos) & (candidates.sums > NONE)).all())

    def _set_aside(self, running: SearchState, candidates: Candidates) -> tuple[SearchState, Candidates]:
        """Move the candidates that end to `ended`, and drop those that cannot come among the n best any more."""
        alive, ends = candidates.sums > NONE, candidates.tokens == self.marks.eos
        done = alive & ends & (alive.cumsum(dim=1) <= running.capacity[:, None])
        penalty = self.plan.length_penalty
        if bool(done.any()):
            ranks = candidates.sums.masked_fill(~done, NONE) / (running.lengths[:, None] + 1).double() ** penalty
            kept = torch.cat([running.best_ended_scores, ranks], dim=1).topk(self.plan.compared, dim=1).values
            ended = _noted(running, candidates, done=done, ranks=ranks)
            capacity = self.plan.rule.left(running.capacity, done.sum(dim=1))
            running = running._replace(best_ended_scores=kept, ended=ended, capacity=capacity)
        grows = alive & ~ends
        sums = candidates.sums.masked_fill(~grows | (grows.cumsum(dim=1) > running.capacity[:, None]), NONE)
        # Log probabilities only lower a sum, and a penalty helps most at the greatest length: where the rule ranks by
        # it, no continuation can rank above this. A source that cannot better what it has is over.
        best = sums.amax(dim=1) / self.plan.rule.length(running.lengths, running.limits).double() ** penalty
        return running, candidates._replace(
            sums=sums.masked_fill((best <= running.best_ended_scores[:, -1])[:, None], NONE)
        )

    def _finish(self, running: SearchState, going: Tensor) -> tuple[SearchState, Ended]:
        """Take the hypotheses of sources that have nothing left to grow out of `ended`."""
        over = ~going & (running.sums > NONE).any(dim=1)  # those that were over before are in the batch at most
        ended, finished = dict(running.ended), dict[int, list[Hypothesis]]()
        for source in running.sources[over].tolist():
            hypotheses = ended.pop(source, [])
            if not hypotheses:
                raise CheckpointError(
                    f"source {source}: the model's log probabilities are not finite; its weights are damaged or "
                    "diverged: load an earlier checkpoint or train with a lower learning rate"
                )
            ranked = sorted(hypotheses, key=lambda each: -each.rank_score)  # of equals the one that ended first
            finished[source] = ranked[: self.plan.nbest]
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


def _noted(running: SearchState, candidates: Candidates, *, done: Tensor, ranks: Tensor) -> Ended:
    """What has ended so far, together with the candidates that end now."""
    ended = dict(running.ended)
    source, place = done.nonzero(as_tuple=True)
    rows = running.tokens[source, candidates.parents[source, place]]
    facts = (running.sources[source], running.lengths[source], candidates.sums[source, place], ranks[source, place])
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
    if int(going.sum()) * width > WORTHWHILE * alive.numel() and not bool(past.any()):
        return running, candidates
    if not bool(going.all()):
        left = going.nonzero().flatten()
        state = select_sources(running.state, left, width=running.sums.shape[1]) if width else None
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
        next_input=new, sums=candidates.sums, lengths=running.lengths + 1, spare=running.spare - 1
    )
    if width == parents.shape[1] == 1:  # every row goes on by itself
        return running._replace(tokens=torch.cat([running.tokens, new[:, :, None]], dim=2))
    tokens = running.tokens.gather(1, parents[:, :, None].expand(-1, -1, length))
    state, order = running.state, (torch.arange(sources, device=parents.device)[:, None] * width + parents).flatten()
    if order.numel() and not torch.equal(order, torch.arange(sources * width, device=order.device)):
        state = select(state, order)
    return running._replace(
        state=state, tokens=torch.cat([tokens, new[:, :, None]], dim=2), lanes=running.lanes.gather(1, parents)
    )


def _widened(running: SearchState, width: int, *, length: int, steps: int, mark: int) -> SearchState:
    """The same with `width` rows a source (those added hold nothing), `length` tokens and `steps` draws."""
    sources, rows = running.sums.shape
    more = width - rows
    own = torch.arange(rows, device=running.sums.device)
    places = torch.cat([own, own.new_zeros(more)]) + rows * torch.arange(sources, device=own.device)[:, None]
    return running._replace(
        state=select(running.state, places.flatten()) if more else running.state,
        next_input=pad(running.next_input, (0, more), value=mark),
        tokens=pad(running.tokens, (length - running.tokens.shape[2], 0, 0, more), value=mark),
        sums=pad(running.sums, (0, more), value=NONE),
        lanes=pad(running.lanes, (0, more)),
        draws=pad(running.draws, (0, steps - running.draws.shape[2])),
    )
