"""Forced prefix: its tokens are generated and scored by the model; then greedy search continues."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.strategies import forced_prefix, greedy


def test_an_empty_prefix_is_greedy(toys):
    model, source, limits = toys.Recurrent(12, seed=1), torch.randn(5, 8), [9, 3, 0, 5, 9]
    assert toys.run(forced_prefix, model, source, limits=limits) == toys.run(greedy, model, source, limits=limits)


def test_forcing_the_greedy_output_reproduces_it(toys):
    model, source = toys.Recurrent(12, seed=2), torch.randn(1, 8)
    ((best,),) = toys.run(greedy, model, source, limits=[7])
    prefix = (*best.tokens, toys.special_tokens.eos)
    ((again,),) = toys.run(forced_prefix, model, source, limits=[7], tokens=prefix)
    assert again.tokens == best.tokens and again.score == pytest.approx(best.score)


def test_the_prefix_is_generated_and_scored(toys):
    model, source = toys.Recurrent(12, seed=3), torch.randn(2, 8)
    prefix = (5, 4, 9)
    results = toys.run(forced_prefix, model, source, limits=[8, 8], tokens=(*prefix, toys.special_tokens.eos))
    for i, (hypothesis,) in enumerate(results):
        assert hypothesis.tokens == prefix
        with torch.no_grad():
            inputs = torch.tensor([[toys.special_tokens.bos, *prefix]])
            logits, _ = model(inputs, model.start(source[i : i + 1]))
        scores = logits[0].log_softmax(-1)
        forced = [*prefix, toys.special_tokens.eos]
        assert hypothesis.score == pytest.approx(
            float(sum(scores[t, token] for t, token in enumerate(forced))), abs=1e-4
        )
    ((short,), _) = toys.run(forced_prefix, model, source, limits=[2, 8], tokens=prefix)
    assert short.tokens == prefix[:2]  # the limit takes precedence


def test_negative_token_ids():
    with pytest.raises(ConfigError, match=r"^tokens contains -1; token ids must be at least 0$"):
        forced_prefix.Config(tokens=(3, -1))
