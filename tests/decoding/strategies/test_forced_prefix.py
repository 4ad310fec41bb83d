"""A beginning that is given: its tokens come, each scored as the model scores it; then greedy search goes on."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.strategies import forced_prefix, greedy


def test_nothing_given_is_greedy(toys):
    model, source, limits = toys.Recurrent(12, seed=1), torch.randn(5, 8), [9, 3, 0, 5, 9]
    assert toys.run(forced_prefix, model, source, limits=limits) == toys.run(greedy, model, source, limits=limits)


def test_the_tokens_of_greedy_search_given_again_are_its_output(toys):
    model, source = toys.Recurrent(12, seed=2), torch.randn(1, 8)
    ((best,),) = toys.run(greedy, model, source, limits=[7])
    given = (*best.tokens, toys.marks.end)
    ((again,),) = toys.run(forced_prefix, model, source, limits=[7], tokens=given)
    assert again.tokens == best.tokens and again.score == pytest.approx(best.score)


def test_whatever_is_given_comes_and_is_scored(toys):
    model, source = toys.Recurrent(12, seed=3), torch.randn(2, 8)
    given = (5, 4, 9)
    found = toys.run(forced_prefix, model, source, limits=[8, 8], tokens=(*given, toys.marks.end))
    for i, (one,) in enumerate(found):
        assert one.tokens == given
        with torch.no_grad():
            read = torch.tensor([[toys.marks.start, *given]])
            logits, _ = model(read, model.start(source[i : i + 1]))
        scores = logits[0].log_softmax(-1)
        said = [*given, toys.marks.end]
        assert one.score == pytest.approx(float(sum(scores[t, token] for t, token in enumerate(said))), abs=1e-4)
    ((short,), _) = toys.run(forced_prefix, model, source, limits=[2, 8], tokens=given)
    assert short.tokens == given[:2]  # the limit wins


def test_numbers_that_cannot_be():
    with pytest.raises(ConfigError, match=r"^tokens holds -1; token numbers are 0 or more$"):
        forced_prefix.Config(tokens=(3, -1))
