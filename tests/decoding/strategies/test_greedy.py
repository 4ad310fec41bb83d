"""Greedy search against a plain loop."""

import pytest
import torch

from regard.decoding.strategies import greedy


@pytest.mark.parametrize("seed", range(5))
def test_takes_the_likeliest_token_at_every_step(toys, seed):
    model, source, limits = toys.Recurrent(12, seed=seed), torch.randn(6, 8), [0, 3, 15, 15, 4, 9]
    found = toys.run(greedy, model, source, limits=limits)
    for i, limit in enumerate(limits):
        state, token, expected = model.start(source[i : i + 1]), toys.marks.start, []
        while len(expected) < limit:
            logits, state = model(torch.tensor([[token]]), state)
            logits[..., [toys.marks.pad, toys.marks.start]] = -torch.inf
            token = int(logits.argmax())
            if token == toys.marks.end:
                break
            expected.append(token)
        (hypothesis,) = found[i]
        assert hypothesis.tokens == tuple(expected)
        assert hypothesis.rank_score == hypothesis.score


def test_of_equal_tokens_the_first(toys):
    ((hypothesis,),) = toys.run(greedy, toys.Bigram(torch.zeros(6, 6)), 1, limits=[3])
    assert hypothesis.tokens == (1, 1, 1)


def test_ended_rows_leave_the_batch(toys):
    model, seen = toys.Recurrent(), []
    model.register_forward_hook(lambda module, inputs, outputs: seen.append(len(inputs[0])))
    toys.run(greedy, model, torch.randn(8, 8), limits=[0, 0, 0, 0, 5, 5, 5, 9], min_length=9)
    assert seen == [8] + [4] * 5 + [1] * 4
