"""Continuous batching: a search gives the same result as alone, whatever joins, leaves or fails next to it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.core.cancellation import Cancelled, cancellable
from regard.core.protocols import Padded
from regard.decoding.strategy import DecodingStrategy, build
from regard.serve.continuous_batching import BatchedStrategy, ContinuousBatcher
from regard.tasks.translation import Options

STRATEGIES = [
    build("greedy", no_repeat_ngram_size=1),
    build("beam", beam_width=3, no_repeat_ngram_size=1),
    build("sample", num_samples=2, no_repeat_ngram_size=2),
]
TEXTS = ["They sleep.", "Please buy two apples.", "Suji slept.", "I read.", "They buy books."]


def batched(decoding: DecodingStrategy, batcher: ContinuousBatcher, on_tokens=None) -> BatchedStrategy:
    return BatchedStrategy(decoding.name, decoding.config, batcher=batcher, on_tokens=on_tokens)


def predict(subject, texts, decoding):
    return subject.task.predict(subject.model, texts, Options(), decoding)


def slow_down(model, seconds=0.01):
    """Slow down every step, so that other searches join during a search; returns the hook."""
    return model.register_forward_pre_hook(lambda *_: time.sleep(seconds))


@pytest.mark.parametrize("decoding", STRATEGIES, ids=lambda strategy: strategy.name)
def test_results_are_those_of_each_search_alone(subject, decoding):
    alone = [predict(subject, [text], decoding) for text in TEXTS]
    sizes: list[int] = []
    strategy = batched(decoding, ContinuousBatcher(on_step=sizes.append))
    hook = slow_down(subject.model)
    try:
        with ThreadPoolExecutor(len(TEXTS)) as threads:
            futures = []
            for text in TEXTS:
                futures.append(threads.submit(predict, subject, [text], strategy))
                time.sleep(0.02)
            together = [future.result(60) for future in futures]
    finally:
        hook.remove()
    for (expected,), (row,) in zip(alone, together, strict=True):
        assert [prediction.text for prediction in row] == [prediction.text for prediction in expected]
        scores = [prediction.score for prediction in expected]
        assert [prediction.score for prediction in row] == pytest.approx(scores, abs=1e-3)
    assert max(sizes) > 1  # searches shared steps


def test_different_seeds_share_a_batch_and_inputs_keep_their_order(subject):
    batcher = ContinuousBatcher()
    strategies = [build("sample", seed=seed, no_repeat_ngram_size=1) for seed in (1, 2)]
    special_tokens = subject.task.special_tokens
    keys = {batched(strategy, batcher)._batch_key(special_tokens, None) for strategy in strategies}
    assert len(keys) == 1 and batched(strategies[0], batcher)._batch_key(special_tokens, object()) is None
    for strategy in strategies:
        expected = predict(subject, TEXTS, strategy)
        rows = predict(subject, TEXTS, batched(strategy, batcher))
        assert [row[0].text for row in rows] == [row[0].text for row in expected]
    assert predict(subject, [], batched(strategies[0], batcher)) == []


def test_a_cancelled_search_leaves_the_batch_and_the_others_continue(subject):
    batcher = ContinuousBatcher()
    expected, hook = predict(subject, TEXTS[:1], STRATEGIES[0]), slow_down(subject.model, 0.2)
    checked = threading.Event()

    def disconnected():
        checked.set()
        raise Cancelled("the client disconnected")

    def predict_cancelled():
        with cancellable(disconnected):
            return predict(subject, TEXTS[1:2], batched(STRATEGIES[0], batcher))

    try:
        with ThreadPoolExecutor(2) as threads:
            cancelled = threads.submit(predict_cancelled)
            active = threads.submit(predict, subject, TEXTS[:1], batched(STRATEGIES[0], batcher))
            with pytest.raises(Cancelled, match="the client disconnected"):
                cancelled.result(60)
            hook.remove()
            assert checked.is_set() and active.result(60)[0][0].text == expected[0][0].text
    finally:
        hook.remove()


def test_searches_of_a_failed_batch_are_repeated_alone(subject, monkeypatch):
    expected = predict(subject, TEXTS, STRATEGIES[0])

    def broken(self):
        raise RuntimeError("broken")

    monkeypatch.setattr("regard.serve.continuous_batching.DecodingBatch.step", broken)
    rows = predict(subject, TEXTS, batched(STRATEGIES[0], ContinuousBatcher()))
    assert [row[0].text for row in rows] == [row[0].text for row in expected]


def test_a_search_that_cannot_start_raises_its_own_error(subject):
    state = subject.model.start(Padded(torch.tensor([[5, 3]]), torch.tensor([2])))
    strategy = batched(STRATEGIES[0], ContinuousBatcher())
    with pytest.raises(Exception, match="limits"):
        strategy(subject.model, state, special_tokens=subject.task.special_tokens, limits=torch.tensor([3, 3]))


def test_the_callback_receives_the_tokens_so_far(subject):
    calls: list[list[int]] = []
    ((prediction,),) = predict(subject, TEXTS[:1], batched(STRATEGIES[0], ContinuousBatcher(), calls.append))
    lengths = [len(tokens) for tokens in calls]
    assert lengths == sorted(lengths) and lengths[0] == 1
    assert prediction.text.startswith(subject.task.decode_tokens(calls[0]))
    assert subject.task.decode_tokens(calls[-1]) == prediction.text


def test_a_finished_sample_does_not_end_the_batch_of_later_searches(subject, monkeypatch):
    """A finished search may stay in the batch while others continue, but not past its last sample."""
    from regard.core.state_tree import select_sources
    from regard.decoding import search as decoding_search

    decoding = build("sample", seed=3, min_length=3)
    source = subject.task.encode_sources(TEXTS[:2])
    search = decoding.search(subject.model, special_tokens=subject.task.special_tokens)
    state = subject.model.start(source)
    short, long = (select_sources(state, torch.tensor([row])) for row in (0, 1))
    alone = search.run(long, limits=torch.tensor([9]))
    monkeypatch.setattr(decoding_search, "SHRINK_THRESHOLD", -1.0)  # nothing leaves the batch before its limit
    search_state, hypotheses = search.start(short, torch.tensor([1])), {}
    search_state, _ = search.step(search_state)
    search_state = search.merge(search_state, search.start(long, torch.tensor([9])))
    while search_state.source_ids.numel():
        search_state, finished = search.step(search_state)
        hypotheses |= finished
    assert sorted(hypotheses) == [0, 1]
    assert [hypothesis.tokens for hypothesis in hypotheses[1]] == [hypothesis.tokens for hypothesis in alone[0]]
