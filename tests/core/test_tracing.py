"""Compilers, tracers and transforms are detected; custom autograd functions work under all of them."""

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

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # raised inside torch


def test_tracers_and_transforms_are_detected():
    states = []

    def observe(x):
        states.append((is_tracing(), is_exporting(), is_transforming()))
        return x * 1.0

    observe(torch.ones(2))
    torch.vmap(observe)(torch.ones(2))
    torch.func.grad(lambda x: observe(x).sum())(torch.ones(2))
    with forward_ad.dual_level():
        observe(torch.ones(2))
    torch.jit.trace(observe, torch.ones(2), check_trace=False)
    torch.export.export(FunctionModule(observe), (torch.ones(2),))
    transform, trace = (True, False, True), (True, True, False)
    assert states == [(False, False, False), transform, transform, transform, trace, trace]


class FunctionModule(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def test_gradients_that_have_gradients():
    x, w = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    d_x, none, d_w = gradients(lambda x, none, w: x**2 * w, (x, None, w), torch.tensor(1.0))
    assert (d_x, none, d_w) == (12, None, 4)
    assert torch.autograd.grad(d_x, (x, w)) == (6, 4)


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def second_derivative_of_tanh_scores(monkeypatch):
    monkeypatch.setattr(_tanh_kernel, "MAX_PLAIN_ELEMENTS", 0)
    return _tanh_kernel.tanh_scores, (leaf(1, 1, 3, 2), leaf(1, 1, 2, 2), leaf(2))


def second_derivative_of_windows(_):
    return (lambda x: sliding_windows(x, 3, 2).sin()), (leaf(1, 7, 2),)


def second_derivative_of_chunks(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 2)
    attend = Attend(scores.build("additive", 2)).double()
    names, weights = zip(*attend.named_parameters(), strict=True)

    def run(q, k, v, *weights):
        parameters = dict(zip(names, weights, strict=True))
        k = k @ parameters["weigh.score.key.weight"].mT  # as `project` does
        return functional_call(attend, parameters, (q, attend.project(k)._replace(tensor=k), v, Mask.causal()))

    return run, (leaf(1, 1, 6, 2), leaf(1, 1, 6, 2), leaf(1, 1, 6, 2), *(w.detach().requires_grad_() for w in weights))


def second_derivative_of_the_loss(monkeypatch):
    monkeypatch.setattr(readout, "MIN_CHUNK_ROWS", 2)
    labels = torch.tensor([0, 3, 1])
    return (lambda *x: readout.linear_cross_entropy(*x, labels, 0.1)), (leaf(3, 2), leaf(4, 2), leaf(4))


def second_derivative_of_recurrence(kind):
    rnn, packing = BidirectionalRNN(kind, 2, 2).double(), make_packing(torch.tensor([3, 1, 2]), 3)
    return (lambda x: rnn(x, packing)), (leaf(6, 2),)


def second_derivative_of_words(_):
    model = skipgram.build(skipgram.Config(dim=2), EmbeddingSpec(vocab_size=6)).double()
    torch.nn.init.normal_(model.contexts.weight)
    words, reach, negatives = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 1]]), torch.tensor([[4, 5]])

    def loss(vectors, contexts):
        with torch.nn.utils.stateless._reparametrize_module(
            model, {"vectors.weight": vectors, "contexts.weight": contexts}
        ):
            return model.loss(words, reach, negatives, negatives_per_pair=2.0)[0]

    return loss, (leaf(6, 2), leaf(6, 2))


CUSTOM_FUNCTIONS = {
    "tanh": second_derivative_of_tanh_scores,
    "windows": second_derivative_of_windows,
    "chunks": second_derivative_of_chunks,
    "loss": second_derivative_of_the_loss,
    "gru": lambda _: second_derivative_of_recurrence("gru"),
    "lstm": lambda _: second_derivative_of_recurrence("lstm"),
    "words": second_derivative_of_words,
}


@pytest.mark.parametrize("build", CUSTOM_FUNCTIONS.values(), ids=CUSTOM_FUNCTIONS)
def test_custom_functions_have_second_derivatives(build, monkeypatch):
    function, inputs = build(monkeypatch)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("build", CUSTOM_FUNCTIONS.values(), ids=CUSTOM_FUNCTIONS)
def test_custom_functions_can_be_transformed(build, monkeypatch):
    """The forward-mode derivative of the plain fallback agrees with the custom backward pass."""
    function, inputs = build(monkeypatch)
    directions = tuple(torch.randn_like(x) for x in inputs)
    output, directional = jvp(lambda *x: function(*x).sum(), inputs, directions)
    custom_grads = torch.autograd.grad(function(*inputs).sum(), inputs)
    torch.testing.assert_close(directional, sum((d * g).sum() for d, g in zip(directions, custom_grads, strict=True)))
    torch.testing.assert_close(output, function(*inputs).sum())


def test_large_products_and_dropout_twice(monkeypatch):
    monkeypatch.setattr(linear, "MIN_ONEDNN_WORK", 1)
    monkeypatch.setattr(linear, "has_avx512", torch.backends.mkldnn.is_available)
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

    expected = torch.stack([run(*row) for row in zip(q, k, v, strict=True)])
    torch.testing.assert_close(torch.vmap(run)(q, k, v), expected)
    _, directional = jvp(lambda x: run(x, k[0], v[0]), (q[0],), (torch.ones_like(q[0]),))
    eps = 1e-6
    torch.testing.assert_close(directional, (run(q[0] + eps, k[0], v[0]) - run(q[0] - eps, k[0], v[0])) / (2 * eps))
    second = hessian(lambda x: run(q[0] + x, k[0], v[0]).square().sum())(torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(second, second.mT)
