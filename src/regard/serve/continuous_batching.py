"""Continuous batching: one thread decodes the searches of all requests of a run as a batch that grows and shrinks.

A task receives an ordinary decoding strategy (`BatchedStrategy`). Its search is prefilled and joins the running batch
at the next step (`Search.merge`); it leaves the batch as soon as it has finished. Every search is decoded as if it were
alone, samples included, and no task depends on the batching.
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

CANCEL_POLL_S = 0.25  # seconds between two checks whether the request of a search was cancelled
THREAD_IDLE_S = 10  # seconds after which the idle decoding thread ends

SourceHypotheses = list[list[Hypothesis]]
TokenCallback = Callable[[Sequence[int]], None]  # receives the tokens of the best hypothesis so far


class RetryAlone(Exception):
    """The batch of a search failed: the search must be run alone."""


@dataclass(eq=False)
class SearchRequest:
    """A search to decode: the arguments of Search.start, and the future of its result."""

    search: Search
    batch_key: Hashable  # searches with equal keys share the steps of one decoder; None: a batch of its own
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
        """Number of sources."""
        return self.limits.numel()

    def start(self) -> SearchState:
        """Return the state before the first token."""
        return self.search.start(self.state, self.limits, first_input=self.first, sample_indices=self.sample_indices)

    def finish(self, index: int, hypotheses: list[Hypothesis]) -> None:
        """Store the result of one source; after the last one, set the result of the request."""
        self.results[index] = hypotheses
        if len(self.results) == self.size:
            with suppress(InvalidStateError):
                self.done.set_result([self.results[source] for source in range(self.size)])

    def fail(self, error: Exception) -> None:
        """Set an error as the result of the request."""
        with suppress(InvalidStateError):
            self.done.set_exception(error)


@dataclass(eq=False)
class DecodingBatch:
    """Searches with equal keys that are decoded together. Every source has a slot: its id in the search state."""

    search: Search
    state: SearchState
    slots: dict[int, tuple[SearchRequest, int]]  # source id -> request, and index of the source in it

    def add(self, state: SearchState, requests: Sequence[SearchRequest]) -> None:
        """Merge started searches into the batch."""
        first_id = self.state.num_started
        self.state = self.search.merge(self.state, state)
        self.slots |= {first_id + offset: slot for offset, slot in slots_of(requests).items()}

    def step(self) -> None:
        """Decode one token for every source; finished sources leave the batch."""
        self._end_cancelled()
        self.state, finished = self.search.step(self.state)
        for source_id, hypotheses in finished.items():
            request, index = self.slots.pop(source_id)
            request.finish(index, hypotheses)
        if any(request.on_tokens is not None for request, _ in self.slots.values()):
            self._report_tokens()

    def _end_cancelled(self) -> None:
        """Set the length limit of cancelled searches to zero, so that they finish at the next step."""
        cancelled = {source_id for source_id, (request, _) in self.slots.items() if request.cancelled}
        if cancelled:
            active = torch.tensor([source_id not in cancelled for source_id in self.state.source_ids.tolist()])
            limits = self.state.limits * active.to(self.state.limits.device)
            self.state = self.state._replace(limits=limits, min_steps_to_limit=0)

    def _report_tokens(self) -> None:
        state = self.state
        for row, source_id in enumerate(state.source_ids.tolist()):
            request, index = self.slots.get(source_id, (None, 0))
            if request is not None and request.on_tokens is not None and index == 0:
                best, length = int(state.cum_log_probs[row].argmax()), int(state.lengths[row])
                request.on_tokens(state.tokens[row, best, state.tokens.shape[2] - length :].tolist())


def slots_of(requests: Sequence[SearchRequest]) -> dict[int, tuple[SearchRequest, int]]:
    """Number the sources of all requests from 0 -> the request of each, and its index in it."""
    return dict(enumerate((request, index) for request in requests for index in range(request.size)))


class ContinuousBatcher:
    """The decoding thread and its batches, one per batch key."""

    def __init__(self, on_step: Callable[[int], None] | None = None) -> None:
        self.on_step = on_step  # called with the number of sources of each step
        self._changed = threading.Condition()
        self._submitted: list[SearchRequest] = []
        self._batches: dict[Hashable, DecodingBatch] = {}
        self._thread: threading.Thread | None = None

    def run(self, request: SearchRequest) -> SourceHypotheses:
        """Return the hypotheses of each source, best first; cancelled when the current request is."""
        with self._changed:
            self._submitted.append(request)
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
            request.cancelled = True  # ends the search if it has not finished

    def _run(self) -> None:
        """Decode until the thread has been idle for a while."""
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._submitted or self._batches, timeout=THREAD_IDLE_S):
                    self._thread = None
                    return
                submitted, self._submitted = self._submitted, []
            self._admit(submitted)
            for key, batch in list(self._batches.items()):
                self._step(key, batch)

    def _admit(self, submitted: Sequence[SearchRequest]) -> None:
        """Add searches to their batches. New ones are merged with each other first: the batch is then copied once."""
        requests_by_key: dict[Hashable, list[SearchRequest]] = {}
        for request in submitted:
            requests_by_key.setdefault(request if request.batch_key is None else request.batch_key, []).append(request)
        for key, requests in requests_by_key.items():
            try:
                batch, search = self._batches.get(key), requests[0].search
                state = reduce(search.merge, [request.start() for request in requests])
                if batch is None:
                    self._batches[key] = DecodingBatch(search, state, slots_of(requests))
                else:
                    batch.add(state, requests)
            except BaseException as error:  # even a panic: each request meets its own error when it is run alone
                for request in requests:
                    request.fail(RetryAlone(str(error)))

    def _step(self, key: Hashable, batch: DecodingBatch) -> None:
        try:
            if self.on_step is not None:
                self.on_step(batch.state.source_ids.numel())
            batch.step()
        except BaseException as error:  # the thread serves all requests
            for request, _ in batch.slots.values():
                request.fail(RetryAlone(str(error)))
            batch.slots.clear()
        if not batch.slots:
            del self._batches[key]


@dataclass(frozen=True)
class BatchedStrategy(DecodingStrategy):
    """A decoding strategy whose searches are run by a ContinuousBatcher."""

    batcher: ContinuousBatcher = field(default_factory=ContinuousBatcher, compare=False)
    on_tokens: TokenCallback | None = field(default=None, compare=False)
    # called when the inputs are prepared and the search is about to start
    on_search_start: Callable[[], None] = field(default=lambda: None, compare=False)

    def decode(self, model: Decoder, sources: DecoderInputs) -> SourceHypotheses:
        """Return the hypotheses of each source, best first, decoded together with other requests."""
        state, special_tokens, limits, first, sample_indices, grammar = sources
        if not limits.numel():
            return []
        search = self.search(model, special_tokens=special_tokens, grammar=grammar)
        self.on_search_start()
        key = self._batch_key(special_tokens, grammar)
        try:
            return self.batcher.run(SearchRequest(search, key, state, limits, first, sample_indices, self.on_tokens))
        except RetryAlone:
            return super().decode(model, sources)

    def _batch_key(self, special_tokens: SpecialTokens, grammar: Grammar | None) -> Hashable:
        """Return a key that is equal if the steps are. The seed is used only at the start; a grammar is not shared."""
        config = replace(self.config, seed=0) if self.has_setting("seed") else self.config
        return None if grammar is not None else (self.name, repr(config), repr(special_tokens))
