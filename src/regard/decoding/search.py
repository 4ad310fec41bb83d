"""Search loop shared by all decoding strategies: run the model, let the strategy choose, collect finished hypotheses.

Hypotheses are ranked here: `Search._collect_ended` divides the log probability of an ended hypothesis by its length to
the power of `length_penalty`, and `Search._finish` sorts by the result.

`start` creates the search state of a batch of sources, `step` adds one token to every hypothesis, and `merge` adds
sources that start later. A corpus is decoded by a loop over `step`; a server merges new requests between steps. The
tensors have `s` sources × `w` rows, one row per growing hypothesis. Finished rows and sources are removed from the
batch. The model state is only reordered by functions of `core.state_tree`.
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

EMPTY_ROW_SCORE = -torch.inf  # log probability of a row without a hypothesis
SHRINK_THRESHOLD = (
    7 / 8
)  # compact the batch when at most this share of its rows is in use, as copying caches costs time
HypothesesBySource = dict[int, list[Hypothesis]]  # by source id


class SearchState(NamedTuple):
    """Sources that are being decoded, and their growing hypotheses."""

    state: State
    next_input: Tensor  # (s w) next input tokens of the model
    tokens: Tensor  # (s w t) generated so far, padded on the left for sources that started later
    lengths: Tensor  # (s) number of generated tokens, without padding
    cum_log_probs: Tensor  # (s w) sums of log probabilities
    root_index: Tensor  # (s w) initial row of the source from which the hypothesis descends
    uniforms: Tensor  # (s l n) a random number per initial row and step; empty if the strategy does not sample
    capacity: Tensor  # (s) number of hypotheses that may still grow
    best_ended_scores: Tensor  # (s n) rank scores of the best ended hypotheses, best first
    limits: Tensor  # (s) maximum lengths
    source_ids: Tensor  # (s) source ids, in the order in which the sources were started
    ended: HypothesesBySource  # ended hypotheses of unfinished sources
    num_started: int  # number of sources started, including finished ones
    min_steps_to_limit: int  # no source reaches its limit in fewer steps


class Candidates(NamedTuple):
    """Possible continuations of the hypotheses of each source; entries with log probability -inf are unused."""

    parents: Tensor  # (s k) row that is continued
    tokens: Tensor  # (s k)
    cum_log_probs: Tensor  # (s k) including the token


def _no_uniforms(limits: Tensor, sample_indices: Tensor) -> Tensor:
    return limits.new_empty(limits.numel(), 0, 0)


@dataclass(frozen=True)
class StrategySpec:
    """Definition of a decoding strategy: choice of candidates, number of hypotheses and ranking."""

    choose: Callable[[Tensor, SearchState], Candidates]  # log probabilities (s w v), -inf for forbidden tokens
    initial_width: int = 1  # rows per source at the start
    capacity: int = 1  # hypotheses that may grow at the same time
    nbest: int = 1  # hypotheses to return
    length_penalty: float = 0.0  # exponent of the length by which log probabilities are divided for ranking
    draw_uniforms: Callable[[Tensor, Tensor], Tensor] = _no_uniforms  # limits (s), sample indices (s) -> (s l n)
    stopping_rule: StoppingRule = field(default_factory=ShrinkingBeam)  # decides when a source is finished
    # all ended hypotheses of a source, best first -> the hypotheses to return, best first; None: the `nbest` best
    rerank: Callable[[list[Hypothesis]], list[Hypothesis]] | None = None

    @property
    def num_compared(self) -> int:
        """Number of ended hypotheses per source with which the growing ones are compared."""
        return self.stopping_rule.num_compared(nbest=self.nbest, capacity=self.capacity)


class Search:
    """A decoding strategy applied to a model."""

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
        """Arguments of `start` -> hypotheses of each source, best first."""
        if limits.numel() == 0:
            return []
        search_state = self.start(state, limits, first_input=first_input, sample_indices=sample_indices)
        hypotheses: HypothesesBySource = {}
        while search_state.source_ids.numel():
            check_cancelled()
            search_state, finished = self.step(search_state)
            hypotheses |= finished
        return [hypotheses[source] for source in range(limits.numel())]

    @torch.inference_mode()
    def start(
        self, state: State, limits: Tensor, *, first_input: Tensor | None = None, sample_indices: Tensor | None = None
    ) -> SearchState:
        """Return the search state before the first token.

        `state` is the model state with one row per source, `limits` (s) are the maximum lengths. At its limit a
        hypothesis is ended with EOS, whose log probability is counted. So a score is always the teacher-forced score of
        the tokens and EOS. `first_input` (s) is the first input token in place of BOS: the last token of a prompt whose
        other tokens are in the state. The samples of a source depend only on its entry in `sample_indices` (s), by
        default 0, 1, 2, …
        """
        if state_tree.batch_size(state) != limits.numel():
            raise ShapeError(
                f"limits has {limits.numel()} entries but the state has {state_tree.batch_size(state)} rows; "
                "pass one limit per source"
            )
        sources, width = limits.numel(), self.spec.initial_width
        limits = limits.clamp(min=0)
        source_ids = torch.arange(sources, device=limits.device)
        next_input = torch.full_like(limits, self.special_tokens.bos) if first_input is None else first_input
        return SearchState(
            state=repeat_rows(state, width) if width > 1 else state,
            next_input=next_input[:, None].expand(sources, width),
            tokens=limits.new_empty(sources, width, 0),
            lengths=torch.zeros_like(limits),
            cum_log_probs=torch.zeros(sources, width, dtype=torch.float64, device=limits.device),
            root_index=torch.arange(width, device=limits.device).expand(sources, width),
            uniforms=self.spec.draw_uniforms(limits, source_ids if sample_indices is None else sample_indices),
            capacity=torch.full_like(limits, self.spec.capacity),
            best_ended_scores=torch.full(
                (sources, self.spec.num_compared), EMPTY_ROW_SCORE, dtype=torch.float64, device=limits.device
            ),
            limits=limits,
            source_ids=source_ids,
            ended={},
            num_started=sources,
            min_steps_to_limit=int(limits.min()) if sources else 0,
        )

    @torch.inference_mode()
    def step(self, search_state: SearchState) -> tuple[SearchState, HypothesesBySource]:
        """Add one token to every hypothesis -> the new state, and the hypotheses of the sources that are finished."""
        scores, state = self._score(search_state)
        candidates, search_state = self.spec.choose(scores, search_state), search_state._replace(state=state)
        if self._all_grow(search_state, candidates):
            return _grow(search_state, candidates), {}
        search_state, candidates = self._collect_ended(search_state, candidates)
        alive = candidates.cum_log_probs > EMPTY_ROW_SCORE
        unfinished = alive.any(dim=1)
        search_state, finished = self._finish(search_state, unfinished)
        return _grow(*_shrink(search_state, candidates, alive=alive, unfinished=unfinished)), finished

    @torch.inference_mode()
    def merge(self, search_state: SearchState, incoming: SearchState) -> SearchState:
        """Append sources that start later; each is decoded as if it were alone. The sources of `incoming` get the ids
        after those of `search_state`."""
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
            _padded(part, width, length=length, steps=steps, pad_token=self.special_tokens.pad)
            for part in (search_state, incoming)
        ]
        merged = state_tree.concat_states(
            *(part._replace(ended=None, num_started=0, min_steps_to_limit=0) for part in parts)  # type: ignore[arg-type]  # set below
        )
        ended = search_state.ended | incoming.ended
        return merged._replace(
            ended=ended,
            num_started=incoming.num_started,
            min_steps_to_limit=min(search_state.min_steps_to_limit, incoming.min_steps_to_limit),
        )

    def _score(self, search_state: SearchState) -> tuple[Tensor, State]:
        logits, state = self.model(search_state.next_input.reshape(-1, 1), search_state.state)
        scores = _log_softmax(logits[:, -1].float())
        sources, width, _ = search_state.tokens.shape
        lengths = search_state.lengths.repeat_interleave(width) if width > 1 else search_state.lengths
        history = search_state.tokens.flatten(0, 1)
        apply_constraints(
            scores,
            history,
            lengths=lengths,
            at_limit=(search_state.limits <= search_state.lengths).repeat_interleave(width)
            if search_state.min_steps_to_limit <= 0
            else None,
            allowed=None if self.grammar is None else _allowed(self.grammar, history, lengths),
            special_tokens=self.special_tokens,
            constraints=self.constraints,
        )
        return scores.view(sources, width, -1), state

    def _all_grow(self, search_state: SearchState, candidates: Candidates) -> bool:
        """Return True if no hypothesis has ended, which is the most frequent case: nothing needs to be compared."""
        within_capacity = candidates.cum_log_probs.shape[1] <= self.spec.capacity
        return (
            not search_state.ended
            and within_capacity
            and bool(
                ((candidates.tokens != self.special_tokens.eos) & (candidates.cum_log_probs > EMPTY_ROW_SCORE)).all()
            )
        )

    def _collect_ended(self, search_state: SearchState, candidates: Candidates) -> tuple[SearchState, Candidates]:
        """Move the candidates that end to `ended`, and drop those that cannot reach the n best any more.

        An ended hypothesis is ranked by  log P(y) / |y|^length_penalty,  |y| including EOS.
        """
        alive, is_eos = candidates.cum_log_probs > EMPTY_ROW_SCORE, candidates.tokens == self.special_tokens.eos
        is_ended = alive & is_eos & (alive.cumsum(dim=1) <= search_state.capacity[:, None])
        penalty = self.spec.length_penalty
        if bool(is_ended.any()):
            rank_scores = (
                candidates.cum_log_probs.masked_fill(~is_ended, EMPTY_ROW_SCORE)
                / (search_state.lengths[:, None] + 1).double() ** penalty
            )
            best_scores = (
                torch.cat([search_state.best_ended_scores, rank_scores], dim=1)
                .topk(self.spec.num_compared, dim=1)
                .values
            )
            ended = _with_ended(search_state, candidates, is_ended=is_ended, rank_scores=rank_scores)
            capacity = self.spec.stopping_rule.remaining_capacity(search_state.capacity, is_ended.sum(dim=1))
            search_state = search_state._replace(best_ended_scores=best_scores, ended=ended, capacity=capacity)
        is_growing = alive & ~is_eos
        sums = candidates.cum_log_probs.masked_fill(
            ~is_growing | (is_growing.cumsum(dim=1) > search_state.capacity[:, None]), EMPTY_ROW_SCORE
        )
        # With ShrinkingBeam an upper bound: log probabilities only decrease a sum, and the penalty helps most at full
        # length. A source is finished if `best` does not exceed the worst ended hypothesis that is compared.
        best = (
            sums.amax(dim=1)
            / self.spec.stopping_rule.ranking_length(search_state.lengths, search_state.limits).double() ** penalty
        )
        return search_state, candidates._replace(
            cum_log_probs=sums.masked_fill((best <= search_state.best_ended_scores[:, -1])[:, None], EMPTY_ROW_SCORE)
        )

    def _finish(self, search_state: SearchState, unfinished: Tensor) -> tuple[SearchState, HypothesesBySource]:
        """Remove the sources without a growing hypothesis from `ended` and return their hypotheses, best rank score
        first."""
        # Sources that finished earlier may still be in the batch, without hypotheses.
        has_hypotheses = (search_state.cum_log_probs > EMPTY_ROW_SCORE).any(dim=1)
        is_finished = ~unfinished & has_hypotheses
        ended, finished = dict(search_state.ended), dict[int, list[Hypothesis]]()
        for source in search_state.source_ids[is_finished].tolist():
            hypotheses = ended.pop(source, [])
            if not hypotheses:
                raise CheckpointError(
                    f"source {source}: the model's log probabilities are not finite; the weights are damaged or "
                    "diverged: load an earlier checkpoint or train with a lower learning rate"
                )
            ranked = sorted(hypotheses, key=lambda hypothesis: -hypothesis.rank_score)  # ties: the one that ended first
            finished[source] = self.spec.rerank(ranked) if self.spec.rerank else ranked[: self.spec.nbest]
        return search_state._replace(ended=ended), finished


def _log_softmax(logits: Tensor) -> Tensor:
    """(r v) -> (r v), in place: on a CPU twice as fast as logsumexp alone, and the data stays in the cache."""
    scores: Tensor = torch.ops.aten._log_softmax.out(logits, 1, False, out=logits)
    return scores


def _allowed(grammar: Grammar, history: Tensor, lengths: Tensor) -> Tensor:
    """History (r t), of which the last `lengths` (r) tokens are real -> (r v) bool, the mask of the grammar."""
    sizes = lengths.unique().tolist()
    groups = [(lengths == length).nonzero().flatten() for length in sizes]
    parts = [grammar.allowed(history[rows, history.shape[1] - n :]) for rows, n in zip(groups, sizes, strict=True)]
    return torch.cat(parts)[torch.cat(groups).argsort()] if len(parts) > 1 else parts[0]


def _with_ended(
    search_state: SearchState, candidates: Candidates, *, is_ended: Tensor, rank_scores: Tensor
) -> HypothesesBySource:
    """Return the ended hypotheses together with the candidates that end now."""
    ended = dict(search_state.ended)
    source, column = is_ended.nonzero(as_tuple=True)
    rows = search_state.tokens[source, candidates.parents[source, column]]
    values = (
        search_state.source_ids[source],
        search_state.lengths[source],
        candidates.cum_log_probs[source, column],
        rank_scores[source, column],
    )
    for tokens, source_id, length, score, rank_score in zip(
        rows.tolist(), *(value.tolist() for value in values), strict=True
    ):
        hypothesis = Hypothesis(tuple(tokens[len(tokens) - length :]), score=score, rank_score=rank_score)
        ended[source_id] = [*ended.get(source_id, []), hypothesis]
    return ended


def _shrink(
    search_state: SearchState, candidates: Candidates, *, alive: Tensor, unfinished: Tensor
) -> tuple[SearchState, Candidates]:
    """Remove finished sources and empty rows from the batch if that saves more than copying the caches costs. Also do
    so if a finished source has reached its limit, since the model may have no positions beyond it."""
    width, at_limit = int(alive.sum(dim=1).max()), ~unfinished & (search_state.lengths >= search_state.limits)
    if int(unfinished.sum()) * width > SHRINK_THRESHOLD * alive.numel() and not bool(at_limit.any()):
        return search_state, candidates
    if not bool(unfinished.all()):
        remaining = unfinished.nonzero().flatten()
        state = (
            select_sources(search_state.state, remaining, width=search_state.cum_log_probs.shape[1]) if width else None
        )
        selected = select(search_state._replace(state=None, ended=None), remaining)  # type: ignore[arg-type]  # both are restored below
        search_state = selected._replace(state=state, ended=search_state.ended)
        candidates, alive = select(candidates, remaining), alive[remaining]
    order = (~alive).int().argsort(dim=1, stable=True)[:, :width]
    return search_state, Candidates(*(part.gather(1, order) for part in candidates))


def _grow(search_state: SearchState, candidates: Candidates) -> SearchState:
    """Replace every row by its candidate: the tokens of the parent and one more."""
    sources, width, length = search_state.tokens.shape
    parents, new = candidates.parents, candidates.tokens
    search_state = search_state._replace(
        next_input=new,
        cum_log_probs=candidates.cum_log_probs,
        lengths=search_state.lengths + 1,
        min_steps_to_limit=search_state.min_steps_to_limit - 1,
    )
    if width == parents.shape[1] == 1:  # every row continues itself
        return search_state._replace(tokens=torch.cat([search_state.tokens, new[:, :, None]], dim=2))
    tokens = search_state.tokens.gather(1, parents[:, :, None].expand(-1, -1, length))
    state, order = (
        search_state.state,
        (torch.arange(sources, device=parents.device)[:, None] * width + parents).flatten(),
    )
    if order.numel() and not torch.equal(order, torch.arange(sources * width, device=order.device)):
        state = select(state, order)
    return search_state._replace(
        state=state,
        tokens=torch.cat([tokens, new[:, :, None]], dim=2),
        root_index=search_state.root_index.gather(1, parents),
    )


def _padded(search_state: SearchState, width: int, *, length: int, steps: int, pad_token: int) -> SearchState:
    """Return the state with `width` rows per source (the added rows are empty), `length` tokens and `steps` random
    numbers."""
    sources, rows = search_state.cum_log_probs.shape
    num_added = width - rows
    row_indices = torch.arange(rows, device=search_state.cum_log_probs.device)
    state_rows = (
        torch.cat([row_indices, row_indices.new_zeros(num_added)])
        + rows * torch.arange(sources, device=row_indices.device)[:, None]
    )
    return search_state._replace(
        state=select(search_state.state, state_rows.flatten()) if num_added else search_state.state,
        next_input=pad(search_state.next_input, (0, num_added), value=pad_token),
        tokens=pad(search_state.tokens, (length - search_state.tokens.shape[2], 0, 0, num_added), value=pad_token),
        cum_log_probs=pad(search_state.cum_log_probs, (0, num_added), value=EMPTY_ROW_SCORE),
        root_index=pad(search_state.root_index, (0, num_added)),
        uniforms=pad(search_state.uniforms, (0, steps - search_state.uniforms.shape[2])),
    )
