"""A narrow model is the model with every other token forbidden; with all tokens it is the model."""

from functools import partial

import pytest
import torch

from regard.core.protocols import Marks, Padded, Sizes
from regard.decoding import beam, greedy, sample
from regard.door import narrow
from regard.models import bahdanau, luong, seq2seq, transformer

SIZES = Sizes(source=19, target=41, longest=64)
LIST = torch.tensor([0, 1, 2, 3, 5, 8, 13, 21, 30, 34, 40])


def build(module, precision="float32"):
    torch.manual_seed(3)
    model = module.build(module.TINY, SIZES).eval()
    for weight in model.parameters():
        weight.data.mul_(1.5)  # far from uniform, so that nothing hangs on rounding
    return model.prepared(precision) if hasattr(model, "prepared") else model


def source():
    torch.manual_seed(4)
    lengths = torch.tensor([7, 3, 5])
    tokens = torch.randint(4, SIZES.source, (3, 7))
    return Padded(tokens.where(torch.arange(7) < lengths[:, None], 0), lengths)


class Masked(torch.nn.Module):
    """The whole model whose other tokens have no probability."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.absent = torch.ones(SIZES.target, dtype=torch.bool).index_fill(0, LIST, False)

    def forward(self, tokens, state):
        logits, state = self.model(tokens, state)
        return logits.masked_fill(self.absent, -torch.inf), state


def found(decode, model, started, config):
    return decode(model, started, marks=Marks(), limits=torch.tensor([9, 6, 12]), config=config)


def same(ours, theirs):
    assert [[h.tokens for h in row] for row in ours] == [[h.tokens for h in row] for row in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


MODELS = [(seq2seq, "float32"), (bahdanau, "float32"), (luong, "float32")]
MODELS += [(transformer, "float32"), (transformer, "int8")]
SEARCHES = [(greedy, {}), (beam, {"width": 3, "nbest": 2}), (beam, {"width": 4, "no_repeat": 2, "min_length": 3})]
SEARCHES += [(sample, {"top_k": 4}), (greedy, {"forbid": (7, 8, 30)})]


@pytest.mark.parametrize(("module", "precision"), MODELS)
@pytest.mark.parametrize(("search", "settings"), SEARCHES)
def test_it_is_the_model_with_the_others_forbidden(module, precision, search, settings):
    model, config = build(module, precision), search.Config(**settings)
    listed = narrow.Listed(model, lambda tokens: LIST)
    ours = found(partial(narrow.decode, search=search.decode), listed, listed.start(source()), config)
    same(ours, found(search.decode, Masked(model), model.start(source()), config))
    assert {token for row in ours for best in row for token in best.tokens} <= set(LIST.tolist())


@pytest.mark.parametrize(("module", "precision"), MODELS)
def test_with_all_tokens_it_is_the_model(module, precision):
    model, config = build(module, precision), beam.Config(width=3, nbest=3)
    listed = narrow.Listed(model, lambda tokens: torch.arange(SIZES.target))
    ours = found(partial(narrow.decode, search=beam.decode), listed, listed.start(source()), config)
    same(ours, found(beam.decode, model, model.start(source()), config))


def test_it_keeps_the_protocol():
    model = build(bahdanau)
    few = narrow.Narrow(model, LIST)
    tokens = torch.tensor([[2, 4, 9], [2, 10, 0], [2, 7, 7]])
    with torch.no_grad():
        logits, _ = few(tokens, few.start(source()))
        features, _ = few.features(tokens, few.start(source()))
        whole, _ = model(LIST[tokens], model.start(source()))
    torch.testing.assert_close(few.readout(features), logits)
    torch.testing.assert_close(logits, whole[..., LIST])
