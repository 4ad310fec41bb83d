"""Continuous batching: the searches of all requests of a run as one batch that grows and shrinks.

A task is handed a decoder like any other (`Pooled`). What it asks for is not searched for by itself: it joins what is
being decoded, by `Search.join`, and comes back when it has ended, while the others go on. Each is decoded as if it were
alone, draws included. So requests that come together are computed together, one that has ended leaves at once, and one
that waits joins at the next token; no task knows of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce

import torch
from torch import Tensor

from regard.core.cancellation import check_cancelled
from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Decoder, Grammar, Hypothesis, State
from regard.decoding.strategy import DecoderInputs, DecodingStrategy, Search, SearchState

CANCEL_POLL_S = 0.25  # seconds between two questions whether a search is still wanted

SourceHypotheses = list[list[Hypothesis]]
TokenCallback = Callable[[Sequence[int]], None]  # hears the tokens of the best so far


class RetryAlone(Exception):
    """A search that is to be made by itself: something went wrong in the batch that it was part of."""


@dataclass(eq=False)
class SearchRequest:
    """A search that takes part: the arguments of Search.begin, and who waits for it."""

    search: Search
    batch_key: Hashable  # those of one kind are steps of the same decoder; None: of its own
    state: State
    limits: Tensor  # (s)
    first: Tensor | None
    sample_indices: Tensor | None
    on_tokens: TokenCallback | None = None
    cancelled: bool = False
    results: dict[int, list[Hypothesis]] = field(default_factory=dict)
    done: Future[SourceHypotheses] = field(default_factory=Future)

    @property
    def size(self) -> int:
        """How many sources it has."""
        return self.limits.numel()

    def begin(self) -> SearchState:
        """Before its first token."""
        return self.search.start(self.state, self.limits, first_input=self.first, sample_indices=self.sample_indices)

    def end(self, index: int, hypotheses: list[Hypothesis]) -> None:
        """One of its sources has ended; with the last of them, whoever waits hears of it."""
        self.results[index] = hypotheses
        if len(self.results) == self.size:
            with suppress(InvalidStateError):
                self.done.set_result([self.results[each] for each in range(self.size)])

    def fail(self, error: Exception) -> None:
        """It cannot be part of a batch."""
        with suppress(InvalidStateError):
            self.done.set_exception(error)


@dataclass(eq=False)
class DecodingBatch:
    """Searches of one kind, decoded side by side; its sources by number, and whose they are."""

    search: Search
    state: SearchState
    owners: dict[int, tuple[SearchRequest, int]]

    def add(self, more: SearchState, wanted: Sequence[SearchRequest]) -> None:
        """Beside those that run."""
        base = self.state.num_started
        self.state = self.search.merge(self.state, more)
        self.owners |= {base + number: ticket for number, ticket in owners_of(wanted).items()}

    def step(self) -> None:
        """One token more for each; those that have ended leave."""
        self._drop()
        self.state, finished = self.search.step(self.state)
        for number, hypotheses in finished.items():
            wanted, place = self.owners.pop(number)
            wanted.end(place, hypotheses)
        if any(wanted.on_tokens is not None for wanted, _ in self.owners.values()):
            self._tell()

    def _drop(self) -> None:
        """What nobody wants any more has reached its limit: it ends with the next token."""
        gone = {number for number, (wanted, _) in self.owners.items() if wanted.cancelled}
        if gone:
            kept = torch.tensor([number not in gone for number in self.state.source_ids.tolist()])
            limits = self.state.limits * kept.to(self.state.limits.device)
            self.state = self.state._replace(limits=limits, min_steps_to_limit=0)

    def _tell(self) -> None:
        running = self.state
        for row, number in enumerate(running.source_ids.tolist()):
            wanted, place = self.owners.get(number, (None, 0))
            if wanted is not None and wanted.on_tokens is not None and place == 0:
                best, length = int(running.cum_log_probs[row].argmax()), int(running.lengths[row])
                wanted.on_tokens(running.tokens[row, best, running.tokens.shape[2] - length :].tolist())


def owners_of(wanted: Sequence[SearchRequest]) -> dict[int, tuple[SearchRequest, int]]:
    """Sources in their order, numbered from 0 -> whose each is, and which of theirs."""
    flat = [(each, place) for each in wanted for place in range(each.size)]
    return dict(enumerate(flat))


class ContinuousBatcher:
    """The thread that decodes, and what it decodes."""

    def __init__(self, on_step: Callable[[int], None] | None = None) -> None:
        self.told = on_step  # hears how many sources each step has
        self._changed = threading.Condition()
        self._coming: list[SearchRequest] = []
        self._lanes: dict[Hashable, DecodingBatch] = {}
        self._thread: threading.Thread | None = None

    def run(self, request: SearchRequest) -> SourceHypotheses:
        """The hypotheses of each source, best first; given up where the request is."""
        with self._changed:
            self._coming.append(request)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            while True:
                with suppress(TimeoutError):
                    return request.done.result(timeout=CANCEL_POLL_S)
                check_cancelled()
        finally:
            request.cancelled = True  # if it has not ended, it ends now

    def _run(self) -> None:
        """Decode until there is nothing to do for a while."""
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._coming or self._lanes, timeout=10):
                    self._thread = None
                    return
                coming, self._coming = self._coming, []
            self._admit(coming)
            for kind, lane in list(self._lanes.items()):
                self._step(kind, lane)

    def _admit(self, coming: Sequence[SearchRequest]) -> None:
        """Those of one kind are joined with each other first: what runs is copied once."""
        kinds: dict[Hashable, list[SearchRequest]] = {}
        for wanted in coming:
            kinds.setdefault(wanted if wanted.batch_key is None else wanted.batch_key, []).append(wanted)
        for kind, some in kinds.items():
            try:
                lane, search = self._lanes.get(kind), some[0].search
                more = reduce(search.merge, [wanted.begin() for wanted in some])
                if lane is None:
                    self._lanes[kind] = DecodingBatch(search, more, owners_of(some))
                else:
                    lane.add(more, some)
            except Exception as wrong:  # whatever it is, each finds out for itself
                for wanted in some:
                    wanted.fail(RetryAlone(str(wrong)))

    def _step(self, kind: Hashable, lane: DecodingBatch) -> None:
        try:
            if self.told is not None:
                self.told(lane.state.source_ids.numel())
            lane.step()
        except Exception as wrong:
            for wanted, _ in lane.owners.values():
                wanted.fail(RetryAlone(str(wrong)))
            lane.owners.clear()
        if not lane.owners:
            del self._lanes[kind]


@dataclass(frozen=True)
class BatchedStrategy(DecodingStrategy):
    """A decoder like any other, whose searches are made by a pool."""

    batcher: ContinuousBatcher = field(default_factory=ContinuousBatcher, compare=False)
    on_tokens: TokenCallback | None = field(default=None, compare=False)
    on_search_start: Callable[[], None] = field(
        default=lambda: None, compare=False
    )  # hears that all is ready to be searched for
    request_indices: tuple[int, ...] = field(
        default=(), compare=False
    )  # of each input in its own request; (): it is all of one

    def sample_indices(self, count: int) -> list[int]:
        """As Decoding: what is drawn for an input is what is drawn when its request is answered alone."""
        return list(self.request_indices) if self.request_indices else super().sample_indices(count)

    def decode(self, model: Decoder, sources: DecoderInputs) -> SourceHypotheses:
        """As Decoding: the state before the first token, one row a source -> hypotheses of each source, best first."""
        state, marks, limits, first, numbers, grammar = sources
        if not limits.numel():
            return []
        search = self.search(model, special_tokens=marks, grammar=grammar)
        self.on_search_start()
        try:
            return self.batcher.run(
                SearchRequest(search, self._kind(marks, grammar), state, limits, first, numbers, self.on_tokens)
            )
        except RetryAlone:
            return super().decode(model, sources)

    def _kind(self, marks: SpecialTokens, grammar: Grammar | None) -> Hashable:
        """Equal where steps are. A seed is used up when a search begins; a grammar is one search's own."""
        config = replace(self.config, seed=0) if self.has_setting("seed") else self.config
        return None if grammar is not None else (self.name, repr(config), repr(marks))
