"""Continuous batching: what a request gets is what it gets alone, whoever joins, leaves or fails beside it."""

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

KINDS = [build("greedy", no_repeat=1), build("beam", width=3, no_repeat=1), build("sample", samples=2, no_repeat=2)]
TEXTS = ["They sleep.", "Please buy two apples.", "Suji slept.", "I read.", "They buy books."]


def pooled(decoding: DecodingStrategy, pool: ContinuousBatcher, told=None) -> BatchedStrategy:
    return BatchedStrategy(decoding.name, decoding.config, batcher=pool, on_tokens=told)


def ask(subject, texts, decoding):
    return subject.task.answer(subject.model, texts, Options(), decoding)


def slow(model, seconds=0.01):
    """A step takes so long that others come in the middle of it; gives a way back."""
    return model.register_forward_pre_hook(lambda *_: time.sleep(seconds))


@pytest.mark.parametrize("decoding", KINDS, ids=lambda each: each.name)
def test_each_gets_what_it_gets_alone(subject, decoding):
    alone = [ask(subject, [text], decoding) for text in TEXTS]
    sizes: list[int] = []
    shared = pooled(decoding, ContinuousBatcher(on_step=sizes.append))
    held = slow(subject.model)
    try:
        with ThreadPoolExecutor(len(TEXTS)) as threads:
            waiting = []
            for text in TEXTS:
                waiting.append(threads.submit(ask, subject, [text], shared))
                time.sleep(0.02)
            beside = [each.result(60) for each in waiting]
    finally:
        held.remove()
    for (one,), (other,) in zip(alone, beside, strict=True):
        assert [answer.text for answer in one] == [answer.text for answer in other]
        assert [answer.score for answer in one] == pytest.approx([answer.score for answer in other], abs=1e-3)
    assert max(sizes) > 1  # they were computed together


def test_seeds_of_their_own_share_a_batch_and_several_inputs_keep_their_order(subject):
    pool = ContinuousBatcher()
    decodings = [build("sample", seed=seed, no_repeat=1) for seed in (1, 2)]
    kinds = {pooled(each, pool)._kind(subject.task.marks, None) for each in decodings}
    assert len(kinds) == 1 and pooled(decodings[0], pool)._kind(subject.task.marks, object()) is None
    for decoding in decodings:
        wanted = ask(subject, TEXTS, decoding)
        found = ask(subject, TEXTS, pooled(decoding, pool))
        assert [a.text for each in found for a in each] == [a.text for each in wanted for a in each]
    assert ask(subject, [], pooled(decodings[0], pool)) == []


def test_one_that_is_given_up_leaves_and_the_others_go_on(subject):
    pool = ContinuousBatcher()
    wanted, held = ask(subject, TEXTS[:1], KINDS[0]), slow(subject.model, 0.2)
    asked = threading.Event()

    def gone():
        asked.set()
        raise Cancelled("the client has gone")

    def leave():
        with cancellable(gone):
            return ask(subject, TEXTS[1:2], pooled(KINDS[0], pool))

    try:
        with ThreadPoolExecutor(2) as threads:
            leaving, staying = threads.submit(leave), threads.submit(ask, subject, TEXTS[:1], pooled(KINDS[0], pool))
            with pytest.raises(Cancelled, match="the client has gone"):
                leaving.result(60)
            held.remove()
            assert asked.is_set() and staying.result(60)[0][0].text == wanted[0][0].text
    finally:
        held.remove()


def test_what_fails_in_the_batch_is_done_alone(subject, monkeypatch):
    wanted = ask(subject, TEXTS, KINDS[0])

    def broken(self, running):
        raise RuntimeError("not this one")

    monkeypatch.setattr("regard.serve.continuous_batching.Lane.step", broken)
    found = ask(subject, TEXTS, pooled(KINDS[0], ContinuousBatcher()))
    assert [each[0].text for each in found] == [each[0].text for each in wanted]


def test_a_search_that_cannot_begin_fails_as_it_does_alone(subject):
    state = subject.model.start(Padded(torch.tensor([[5, 3]]), torch.tensor([2])))
    with pytest.raises(Exception, match="limits has 2 entries, the state 1 rows"):
        pooled(KINDS[0], ContinuousBatcher())(
            subject.model, state, marks=subject.task.marks, limits=torch.tensor([3, 3])
        )


def test_whoever_reads_along_hears_the_tokens_so_far(subject):
    heard: list[list[int]] = []
    ((answer,),) = ask(subject, TEXTS[:1], pooled(KINDS[0], ContinuousBatcher(), heard.append))
    lengths = [len(tokens) for tokens in heard]
    assert lengths == sorted(lengths) and lengths[0] == 1
    assert answer.text.startswith(subject.task.spell(heard[0])) and subject.task.spell(heard[-1]) == answer.text


def test_who_draws_and_is_over_does_not_end_the_batch_of_those_who_came_later(subject, monkeypatch):
    """One that is over may stay in the batch while others go on, but not past its last draw."""
    from regard.core.state_tree import select_sources
    from regard.decoding import search as decoding_search

    decoding = build("sample", seed=3, min_length=3)
    source = subject.task.encode_sources(TEXTS[:2])
    search = decoding.search(subject.model, special_tokens=subject.task.marks)
    state = subject.model.start(source)
    short, long = (select_sources(state, torch.tensor([row])) for row in (0, 1))
    alone = search.run(long, limits=torch.tensor([9]))
    monkeypatch.setattr(decoding_search, "WORTHWHILE", -1.0)  # nothing leaves the batch before its limit
    running, found = search.start(short, torch.tensor([1])), {}
    running, _ = search.step(running)
    running = search.merge(running, search.start(long, torch.tensor([9])))
    while running.source_ids.numel():
        running, finished = search.step(running)
        found |= finished
    assert sorted(found) == [0, 1] and [each.tokens for each in found[1]] == [each.tokens for each in alone[0]]
