"""The loop that all decoders share: feed the last tokens, let the decoder choose, set aside what has ended.

Everything is kept in tensors of `s` sources × `w` rows and turned into hypotheses at the end. Rows and sources that
have ended leave the batch, so that they cost nothing; the state is reordered by `core.tree` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import CheckpointError, ShapeError
from regard.core.protocols import Decoder, Hypothesis, State
from regard.core.sizes import Marks
from regard.core.tree import rows, select, select_sources, spread
from regard.decoding._constraints import Constraints, Grammar, constrain

NONE = -torch.inf  # the sum of a row without a hypothesis
WORTHWHILE = 7 / 8  # the batch is made smaller when no more than this share of it is left: copying caches has a price


class Running(NamedTuple):
    """The hypotheses that still grow."""

    state: State
    tokens: Tensor  # (s w t)
    sums: Tensor  # (s w) of log probabilities
    lanes: Tensor  # (s w) which of its source's first rows a hypothesis comes from
    room: Tensor  # (s) how many more hypotheses the source may have
    kept: Tensor  # (s n) rank scores of the best that have ended, best first
    limits: Tensor  # (s)
    sources: Tensor  # (s)


class Candidates(NamedTuple):
    """What the hypotheses may become, per source; those whose sum is -inf are none."""

    parents: Tensor  # (s k) the row that is continued
    tokens: Tensor  # (s k)
    sums: Tensor  # (s k) with the token


class Ended(NamedTuple):
    """Hypotheses that ended at one step."""

    sources: Tensor  # (n)
    tokens: Tensor  # (n t) without the end mark
    sums: Tensor  # (n)
    ranks: Tensor  # (n)


@dataclass(frozen=True)
class Plan:
    """How many hypotheses a source has, and how they are ranked."""

    lanes: int = 1  # rows at the start
    room: int = 1  # hypotheses searched for
    nbest: int = 1  # hypotheses wanted
    length_penalty: float = 0.0


Choose = Callable[[Tensor, Running], Candidates]  # log probabilities (s w v), -inf for what is forbidden


class Search:
    """One search: what stays the same from step to step."""

    def __init__(
        self,
        model: Decoder,
        *,
        choose: Choose,
        plan: Plan,
        marks: Marks,
        constraints: Constraints,
        grammar: Grammar | None = None,
    ) -> None:
        self.model, self.choose, self.plan = model, choose, plan
        self.marks, self.constraints, self.grammar = marks, constraints, grammar
        self._shortest = 0  # no source is full before this length

    def run(self, state: State, *, limits: Tensor, first: Tensor | None) -> list[list[Hypothesis]]:
        """The state before the first token -> hypotheses of each source, best first."""
        if limits.numel() == 0:
            return []
        if rows(state) != limits.numel():
            raise ShapeError(f"limits has {limits.numel()} entries, the state {rows(state)} rows; give one per source")
        running = self._begin(state, limits)
        self._shortest = int(limits.min())
        fed = torch.full_like(limits, self.marks.start) if first is None else first
        fed = fed.repeat_interleave(self.plan.lanes)[:, None]
        ended: list[Ended] = []
        while running.sources.numel():
            scores, state = self._score(fed, running)
            candidates = self.choose(scores, running)
            running, candidates = self._set_aside(running._replace(state=state), candidates, ended=ended)
            running = _grow(*_shrink(running, candidates))
            fed = running.tokens[:, :, -1:].flatten(0, 1)
        return _collect(ended, sources=limits.numel(), nbest=self.plan.nbest)

    def _begin(self, state: State, limits: Tensor) -> Running:
        sources, lanes = limits.numel(), self.plan.lanes
        return Running(
            state=spread(state, lanes) if lanes > 1 else state,
            tokens=limits.new_empty(sources, lanes, 0),
            sums=torch.zeros(sources, lanes, dtype=torch.float64, device=limits.device),
            lanes=torch.arange(lanes, device=limits.device).expand(sources, lanes),
            room=torch.full_like(limits, self.plan.room),
            kept=torch.full((sources, self.plan.nbest), NONE, dtype=torch.float64, device=limits.device),
            limits=limits.clamp(min=0),
            sources=torch.arange(sources, device=limits.device),
        )

    def _score(self, fed: Tensor, running: Running) -> tuple[Tensor, State]:
        logits, state = self.model(fed, running.state)
        scores = _log_softmax(logits[:, -1].float())
        sources, width, length = running.tokens.shape
        full = (running.limits <= length).repeat_interleave(width) if length >= self._shortest else None
        history = running.tokens.flatten(0, 1)
        constrain(scores, history, full=full, marks=self.marks, constraints=self.constraints, grammar=self.grammar)
        return scores.view(sources, width, -1), state

    def _set_aside(self, running: Running, candidates: Candidates, *, ended: list[Ended]) -> tuple[Running, Candidates]:
        """Note the candidates that end, and leave those that may still be wanted."""
        penalty, length = self.plan.length_penalty, running.tokens.shape[2] + 1
        alive = candidates.sums > NONE
        done = alive & (candidates.tokens == self.marks.end)
        some = bool(done.any())
        if not (some or ended) and bool(alive.all()):  # nothing to be compared with yet
            return running, candidates
        if some:
            ended.append(_note(running, candidates, done=done, scale=length**penalty))
            ranks = candidates.sums.masked_fill(~done, NONE) / length**penalty
            kept = torch.cat([running.kept, ranks], dim=1).topk(self.plan.nbest, dim=1).values
            running = running._replace(kept=kept, room=running.room - done.sum(dim=1))
        sums = candidates.sums.masked_fill(done | ~alive, NONE)
        # Log probabilities only lower a sum, and the penalty helps most at the greatest length: no continuation can
        # rank above this. A source that cannot better its n-th best is over, and so is one with nothing left to grow.
        best = sums.amax(dim=1) / (running.limits + 1).double() ** penalty
        return running, candidates._replace(sums=sums.masked_fill((best <= running.kept[:, -1])[:, None], NONE))


def _log_softmax(logits: Tensor) -> Tensor:
    """(r v) -> (r v), in place: on a CPU twice as fast as the logsumexp alone, and nothing leaves the cache."""
    scores: Tensor = torch.ops.aten._log_softmax.out(logits, 1, False, out=logits)
    return scores


def _note(running: Running, candidates: Candidates, *, done: Tensor, scale: float) -> Ended:
    source, place = done.nonzero(as_tuple=True)
    sums = candidates.sums[source, place]
    tokens = running.tokens[source, candidates.parents[source, place]]
    return Ended(running.sources[source], tokens=tokens, sums=sums, ranks=sums / scale)


def _shrink(running: Running, candidates: Candidates) -> tuple[Running, Candidates]:
    """Drop sources that are over and rows that hold nothing, once there are enough of them."""
    alive = candidates.sums > NONE
    if bool(alive.all()):
        return running, candidates
    going = alive.any(dim=1)
    width = int(alive.sum(dim=1).max())
    if int(going.sum()) * width > WORTHWHILE * alive.numel():
        return running, candidates
    if not bool(going.all()):
        left = going.nonzero().flatten()
        state = select_sources(running.state, left, width=running.sums.shape[1]) if width else None
        running = select(running._replace(state=None), left)._replace(state=state)
        candidates, alive = select(candidates, left), alive[left]
    order = (~alive).int().argsort(dim=1, stable=True)[:, :width]
    return running, Candidates(*(part.gather(1, order) for part in candidates))


def _grow(running: Running, candidates: Candidates) -> Running:
    """The hypotheses that the candidates make."""
    sources, width, length = running.tokens.shape
    parents = candidates.parents
    if width == parents.shape[1] == 1:  # every row goes on by itself
        tokens = torch.cat([running.tokens, candidates.tokens[:, :, None]], dim=2)
        return running._replace(tokens=tokens, sums=candidates.sums)
    tokens = running.tokens.gather(1, parents[:, :, None].expand(-1, -1, length))
    state, order = running.state, (torch.arange(sources, device=parents.device)[:, None] * width + parents).flatten()
    if order.numel() and not torch.equal(order, torch.arange(sources * width, device=order.device)):
        state = select(state, order)
    return running._replace(
        state=state,
        tokens=torch.cat([tokens, candidates.tokens[:, :, None]], dim=2),
        sums=candidates.sums,
        lanes=running.lanes.gather(1, parents),
    )


def _collect(ended: list[Ended], *, sources: int, nbest: int) -> list[list[Hypothesis]]:
    found: list[list[Hypothesis]] = [[] for _ in range(sources)]
    for step in ended:
        for source, tokens, total, rank in zip(*(part.tolist() for part in step), strict=True):
            found[source].append(Hypothesis(tuple(tokens), score=total, rank_score=rank))
    for source, hypotheses in enumerate(found):
        if not hypotheses:
            raise CheckpointError(
                f"source {source}: the model's log probabilities are not finite; its weights are damaged or diverged: "
                "load an earlier checkpoint or train with a lower learning rate"
            )
        hypotheses.sort(key=lambda hypothesis: -hypothesis.rank_score)  # stable: of equals the one that ended first
    return [hypotheses[:nbest] for hypotheses in found]
