"""Compilers, tracers and transforms are noticed; every gradient written by hand has a second one and plain twins."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad, gradgradcheck
from torch.func import functional_call, hessian, jvp

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.functional import attend
from regard.attention.kernels import chunked
from regard.attention.kernels.local import sliding_windows
from regard.attention.masks import Mask
from regard.attention.scores import _tanh_kernel
from regard.core.data_specs import EmbeddingSpec
from regard.core.tracing import gradients, is_exporting, is_tracing, is_transforming
from regard.layers import linear, readout
from regard.layers.dropout import Dropout
from regard.layers.linear import Linear
from regard.layers.packed_rnn import BidirectionalRNN, make_packing
from regard.models import skipgram

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of torch, in its own decompositions


def test_what_follows_is_noticed():
    seen = []

    def look(x):
        seen.append((is_tracing(), is_exporting(), is_transforming()))
        return x * 1.0

    look(torch.ones(2))
    torch.vmap(look)(torch.ones(2))
    torch.func.grad(lambda x: look(x).sum())(torch.ones(2))
    with forward_ad.dual_level():
        look(torch.ones(2))
    torch.jit.trace(look, torch.ones(2), check_trace=False)
    torch.export.export(Calls(look), (torch.ones(2),))
    transform, trace = (True, False, True), (True, True, False)
    assert seen == [(False, False, False), transform, transform, transform, trace, trace]


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def test_gradients_that_have_gradients():
    x, w = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    d_x, none, d_w = gradients(lambda x, none, w: x**2 * w, (x, None, w), torch.tensor(1.0))
    assert (d_x, none, d_w) == (12, None, 4)
    assert torch.autograd.grad(d_x, (x, w)) == (6, 4)


def make(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def second_derivative_of_tanh_scores(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "SMALL", 0)
    return _tanh_kernel.tanh_scores, (make(1, 1, 3, 2), make(1, 1, 2, 2), make(2))


def second_derivative_of_windows(_):
    return (lambda x: sliding_windows(x, 3, 2).sin()), (make(1, 7, 2),)


def second_derivative_of_chunks(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK", 2)
    attend = Attend(scores.build("additive", 2)).double()
    names, weights = zip(*attend.named_parameters(), strict=True)

    def run(q, k, v, *weights):
        own = dict(zip(names, weights, strict=True))
        k = k @ own["weigh.score.key.weight"].mT  # as `project` does
        return functional_call(attend, own, (q, attend.project(k)._replace(tensor=k), v, Mask.causal()))

    return run, (make(1, 1, 6, 2), make(1, 1, 6, 2), make(1, 1, 6, 2), *(w.detach().requires_grad_() for w in weights))


def second_derivative_of_the_loss(monkeypatch):
    monkeypatch.setattr(readout, "ROWS", 2)
    labels = torch.tensor([0, 3, 1])
    return (lambda *x: readout.linear_cross_entropy(*x, labels, 0.1)), (make(3, 2), make(4, 2), make(4))


def second_derivative_of_recurrence(kind):
    net, how = BidirectionalRNN(kind, 2, 2).double(), make_packing(torch.tensor([3, 1, 2]), 3)
    return (lambda x: net(x, how)), (make(6, 2),)


def second_derivative_of_words(_):
    model = skipgram.build(skipgram.Config(dim=2), EmbeddingSpec(vocab_size=6)).double()
    torch.nn.init.normal_(model.contexts.weight)
    words, reach, others = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 1]]), torch.tensor([[4, 5]])

    def loss(vectors, contexts):
        with torch.nn.utils.stateless._reparametrize_module(
            model, {"vectors.weight": vectors, "contexts.weight": contexts}
        ):
            return model.loss(words, reach, others, negatives_per_pair=2.0)[0]

    return loss, (make(6, 2), make(6, 2))


OWN = {
    "tanh": second_derivative_of_tanh_scores,
    "windows": second_derivative_of_windows,
    "chunks": second_derivative_of_chunks,
    "loss": second_derivative_of_the_loss,
    "gru": lambda _: second_derivative_of_recurrence("gru"),
    "lstm": lambda _: second_derivative_of_recurrence("lstm"),
    "words": second_derivative_of_words,
}


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_own_functions_have_second_derivatives(own, monkeypatch):
    function, inputs = own(monkeypatch)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_own_functions_can_be_transformed(own, monkeypatch):
    """Forward-mode and reverse-mode derivatives of the plain operations agree with the gradient written by hand."""
    function, inputs = own(monkeypatch)
    directions = tuple(torch.randn_like(x) for x in inputs)
    out, along = jvp(lambda *x: function(*x).sum(), inputs, directions)
    by_hand = torch.autograd.grad(function(*inputs).sum(), inputs)
    torch.testing.assert_close(along, sum((d * g).sum() for d, g in zip(directions, by_hand, strict=True)))
    torch.testing.assert_close(out, function(*inputs).sum())


def test_large_products_and_dropout_twice(monkeypatch):
    monkeypatch.setattr(linear, "LARGE", 1)
    monkeypatch.setattr(linear, "has_wide_vectors", torch.backends.mkldnn.is_available)
    layer, x = Linear(3, 2), torch.randn(4, 3, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    summed = layer.weight.sum(dim=1)
    torch.testing.assert_close(second, 6 * (layer(x) * summed) @ layer.weight, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(jvp(layer, (x,), (x,))[1], x @ layer.weight.mT, rtol=1e-4, atol=1e-4)
    drop = Dropout(0.5).train()
    torch.manual_seed(0)
    (slope,) = torch.autograd.grad(drop(x).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    assert set(second.unique().tolist()) == {0.0, 8.0}
    with torch.random.fork_rng():
        assert torch.vmap(drop, randomness="different")(torch.ones(3, 50)).unique().tolist() == [0, 2]


@pytest.mark.parametrize("n", [5, 80])
@pytest.mark.parametrize("mask", [Mask(), Mask.causal(), Mask.causal() & Mask.local(9)], ids=str)
@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
def test_attention_under_every_transform(name, mask, n):
    score = scores.build(name, 3).double()
    q, k, v = (torch.randn(2, n, 3, dtype=torch.float64) for _ in range(3))

    def run(q, k, v):
        return attend(q, k, v, score=score, mask=mask)

    expected = torch.stack([run(*one) for one in zip(q, k, v, strict=True)])
    torch.testing.assert_close(torch.vmap(run)(q, k, v), expected)
    _, along = jvp(lambda x: run(x, k[0], v[0]), (q[0],), (torch.ones_like(q[0]),))
    small = 1e-6
    torch.testing.assert_close(along, (run(q[0] + small, k[0], v[0]) - run(q[0] - small, k[0], v[0])) / (2 * small))
    curved = hessian(lambda x: run(q[0] + x, k[0], v[0]).square().sum())(torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(curved, curved.mT)
