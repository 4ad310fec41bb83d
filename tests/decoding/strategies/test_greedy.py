"""Greedy search against a plain loop."""

import pytest
import torch

from regard.decoding.strategies import greedy


@pytest.mark.parametrize("seed", range(5))
def test_takes_the_most_likely_token_at_every_step(toys, seed):
    model, source, limits = toys.Recurrent(12, seed=seed), torch.randn(6, 8), [0, 3, 15, 15, 4, 9]
    results = toys.run(greedy, model, source, limits=limits)
    for i, limit in enumerate(limits):
        state, token, expected = model.start(source[i : i + 1]), toys.special_tokens.bos, []
        while len(expected) < limit:
            logits, state = model(torch.tensor([[token]]), state)
            logits[..., [toys.special_tokens.pad, toys.special_tokens.bos]] = -torch.inf
            token = int(logits.argmax())
            if token == toys.special_tokens.eos:
                break
            expected.append(token)
        (hypothesis,) = results[i]
        assert hypothesis.tokens == tuple(expected)
        assert hypothesis.rank_score == hypothesis.score


def test_ties_take_the_first_token(toys):
    ((hypothesis,),) = toys.run(greedy, toys.Bigram(torch.zeros(6, 6)), 1, limits=[3])
    assert hypothesis.tokens == (1, 1, 1)


def test_ended_rows_leave_the_batch(toys):
    model, batch_sizes = toys.Recurrent(), []
    model.register_forward_hook(lambda module, inputs, outputs: batch_sizes.append(len(inputs[0])))
    toys.run(greedy, model, torch.randn(8, 8), limits=[0, 0, 0, 0, 5, 5, 5, 9], min_length=9)
    assert batch_sizes == [8] + [4] * 5 + [1] * 4
