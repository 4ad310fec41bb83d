"""Attend compared with the written-out formula and PyTorch's kernel and module; masked rows, sharing, errors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import attend as attend_module
from regard.attention import scores
from regard.attention.attend import Attend, append_one_hot, attend_with_weights, fold_hypotheses, unfold_hypotheses
from regard.attention.functional import attend as attend_once
from regard.attention.kernels import chunked
from regard.attention.masks import Mask
from regard.attention.normalizers import Hard
from regard.attention.record import record
from regard.core.errors import RegardError, ShapeError
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.positions import build as position


def scaled_dot(dim=4, **settings):
    return Attend(scores.build("scaled_dot", dim), **settings)


def qkv(b, h, t, s, *, dtype=torch.float64):
    return (torch.randn(b, h, n, width, dtype=dtype) for n, width in ((t, 4), (s, 4), (s, 3)))


def written_out(q, k, v, allowed):
    """Compute the formula one query at a time, in float64."""
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                visible = [j for j in range(k.shape[2]) if allowed[b, h, i, j]]
                exponentials = [math.exp(float(q[b, h, i] @ k[b, h, j]) / math.sqrt(q.shape[-1])) for j in visible]
                for j, weight in zip(visible, exponentials, strict=True):
                    out[b, h, i] += weight / sum(exponentials) * v[b, h, j].double()
    return out


batches, lengths = st.integers(1, 2), st.integers(0, 5)


@given(st.tuples(batches, batches, lengths, lengths), st.booleans(), st.integers(0, 2**32))
def test_the_formula_for_any_shape_and_mask(shape, causal, seed):
    torch.manual_seed(seed)
    b, h, t, s = shape
    q, k, v = qkv(b, h, t, s)
    pairs = torch.rand(b, 1, t, s) < 0.6
    lengths = torch.randint(0, s + 1, (b,))
    mask = Mask.explicit(pairs) & Mask.lengths(lengths, s) & (Mask.causal() if causal else Mask())
    order = torch.arange(s) <= torch.arange(s - t, s)[:, None] if causal else torch.ones(t, s, dtype=torch.bool)
    allowed = (pairs & order & (torch.arange(s) < lengths[:, None])[:, None, None]).expand(b, h, t, s)
    torch.testing.assert_close(scaled_dot()(q, k, v, mask), written_out(q, k, v, allowed))


@pytest.mark.parametrize("n", [6, 70])  # the short kernel, and the fused one
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parity_with_the_kernel_of_pytorch(dtype, n):
    q, k, v = qkv(2, 3, n, n, dtype=dtype)
    pairs = torch.rand(2, 3, n, n) < 0.7
    pairs[..., 0] = True
    for mask, settings in [
        (Mask(), {}),
        (Mask.causal(), {"is_causal": True}),
        (Mask.explicit(pairs), {"attn_mask": pairs}),
    ]:
        output, expected = scaled_dot()(q, k, v, mask), scaled_dot_product_attention(q, k, v, **settings)
        torch.testing.assert_close(output, expected)
        assert n < 70 or output.equal(expected)


def test_the_common_case_calls_the_fused_kernel_directly(monkeypatch):
    """The common case skips checks and kernel selection (bench/attention.py measures it)."""
    calls = []
    for name in ("check_shapes", "check_dtypes", "use_short_kernel", "use_local_blocks"):
        monkeypatch.setattr(attend_module, name, lambda *_, name=name, **__: calls.append(name))
    q, k, v = (torch.randn(1, 2, 256, 4) for _ in range(3))
    for settings, causal in [((), False), ((Mask(),), False), ((Mask.causal(),), True)]:
        expected = scaled_dot_product_attention(q, k, v, is_causal=causal)
        torch.testing.assert_close(scaled_dot()(q, k, v, *settings), expected)
    assert calls == []


@pytest.mark.parametrize("causal", [False, True])
def test_parity_with_the_module_of_pytorch(causal):
    reference = nn.MultiheadAttention(12, 3, batch_first=True)
    layer = MultiHeadAttention(scaled_dot(4, queries="a", keys="b"), HeadDims.split_evenly(12, 3))
    for part, projection in zip(reference.in_proj_weight.chunk(3), (layer.q, layer.k, layer.v), strict=True):
        projection.weight.data = part.detach().clone()
    layer.o.weight.data = reference.out_proj.weight.detach().clone()
    x = torch.randn(2, 5, 12)
    hidden = torch.arange(5) >= torch.tensor([[5], [3]])  # masks of PyTorch are True for hidden keys
    forbidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    expected, _ = reference(x, x, x, key_padding_mask=hidden, attn_mask=forbidden)
    mask = Mask.lengths(torch.tensor([5, 3])) & (Mask.causal() if causal else Mask())
    torch.testing.assert_close(layer(x, layer.project_kv(x), mask), expected)


@pytest.mark.parametrize("mask", [Mask(), Mask.causal(), Mask.explicit(torch.rand(3, 4) < 0.5), Mask.local(1, 1)])
def test_gradcheck(mask):
    inputs = tuple(x.requires_grad_() for x in qkv(1, 2, 3, 4))
    assert torch.autograd.gradcheck(lambda q, k, v: scaled_dot()(q, k, v, mask), inputs)


@pytest.mark.parametrize("size", [2**22, 24])  # in one piece, and in chunks of one or two queries
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["scaled_dot", "cosine", "concat", "relative"])
def test_a_fully_masked_query_gives_zeros(name, training, size, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", size)
    bias = position("relative", 4, max_length=3).position_bias(heads=2, dim=4) if name == "relative" else None
    score = scores.build("scaled_dot" if name == "relative" else name, 4)
    attend = Attend(score, position_bias=bias, dropout=0.3).train(training)
    q, k, v = (x.requires_grad_() for x in qkv(2, 2, 3, 3, dtype=torch.float32))
    allowed = torch.tensor([[False] * 3, [True, False, True], [True] * 3])
    mask = Mask.explicit(allowed) & Mask.lengths(torch.tensor([0, 3]))
    output = attend(q, attend.project(k), v, mask)
    assert not output[0].any() and not output[1, :, 0].any()
    output.square().sum().backward()
    for leaf in (q, k, v, *attend.parameters()):
        assert leaf.grad.isfinite().all()
    assert not q.grad[0].any() and not k.grad[0].any() and not v.grad[0].any()


def test_dropout_keeps_the_mean_and_is_off_in_evaluation(monkeypatch):
    attend = scaled_dot(4, dropout=0.5)
    q, k, v = qkv(1, 1, 3, 4)
    expected = attend.eval()(q, k, v)
    assert attend.eval()(q, k, v).equal(expected)
    repeated = [x.expand(4000, -1, -1, -1) for x in (q, k, v)]
    for size in (2**22, 2**14):
        monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", size)
        mean = attend.train()(*repeated).mean(dim=0, keepdim=True)
        torch.testing.assert_close(mean, expected, atol=0.1, rtol=0)


def test_dropout_over_a_long_sequence_is_chunked(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 64)
    attend, sizes = scaled_dot(4, dropout=0.1).train(), []
    attend.weigh.register_forward_hook(lambda module, inputs, weights: sizes.append(weights.numel()))
    q, k, v = qkv(1, 1, 32, 32)
    attend(q, k, v)
    assert max(sizes) <= 64 and sum(sizes) == 32 * 32


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_hypotheses_of_a_shared_source(b, width, t):
    q, k, v = qkv(b * width, 2, t, 5)
    mask = Mask.lengths(torch.arange(b) % 5 + 1, 5)
    shared = scaled_dot()(q, k[:b], v[:b], mask)
    repeated = Mask(keys=mask.keys.repeat_interleave(width, 0))
    k, v = (x[:b].repeat_interleave(width, 0) for x in (k, v))
    torch.testing.assert_close(shared, scaled_dot()(q, k, v, repeated))


def test_unfold_undoes_fold():
    q, k, _ = qkv(6, 2, 3, 5)
    folded = fold_hypotheses(q, k[:2], Mask())
    assert folded.shape == (2, 2, 9, 4)
    assert unfold_hypotheses(folded, 6).equal(q)


def test_a_bias_common_to_all_keys_changes_nothing():
    q, k, v = qkv(1, 1, 3, 4)
    torch.testing.assert_close(scaled_dot()(q, k + q.new_ones(4), v), scaled_dot()(q, k, v), atol=1e-9, rtol=1e-9)


def shapes(*sizes):
    return [torch.zeros(size) for size in sizes]


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        (shapes((2, 3, 4), (2, 3, 4), (2, 3, 4)), "needs (b h t d), (b h s d), (b h s e); got query (2, 3, 4)"),
        (
            shapes((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 2, 4)),
            "keys and values must have equal batch, heads and length; got query (1, 1, 2, 4)",
        ),
        (
            shapes((1, 2, 2, 4), (1, 1, 3, 4), (1, 1, 3, 4)),
            "queries have 2 heads but keys 1; split both into equally many",
        ),
        (shapes((3, 1, 2, 4), (2, 1, 3, 4), (2, 1, 3, 4)), "3 rows of queries cannot share 2 rows of keys"),
        (shapes((3, 1, 2, 4), (0, 1, 3, 4), (0, 1, 3, 4)), "3 rows of queries cannot share 0 rows of keys"),
        (
            shapes((1, 1, 2, 5), (1, 1, 3, 4), (1, 1, 3, 4)),
            "queries have width 5 but keys 4; project them to one width",
        ),
    ],
)
def test_tensors_that_do_not_fit(tensors, text):
    with pytest.raises(ShapeError) as error:
        scaled_dot()(*tensors)
    assert text in str(error.value)


def test_masks_that_do_not_fit():
    q, k, v = qkv(2, 2, 3, 3)
    for mask, text in [
        (Mask.lengths(torch.tensor([1, 2, 3])), "it has 3 rows but the batch 2"),
        (Mask.explicit(torch.ones(2, 3, 3, 3) > 0), "it has 3 heads but the attention 2"),
        (Mask.explicit(torch.ones(4, 3) > 0), "it is 4 x 3, but there are 3 queries and 3 keys"),
    ]:
        with pytest.raises(ShapeError, match=text):
            scaled_dot()(q, k, v, mask)


@pytest.mark.parametrize("name", ["additive", "concat", "general", "cosine"])
def test_keys_must_be_projected_exactly_once(name):
    attend = Attend(scores.build(name, 4))
    q, k, v = qkv(1, 2, 3, 5, dtype=torch.float32)
    for tensor in (k, attend.project(k).tensor, attend.weigh.score.project_keys(k)):
        with pytest.raises(ShapeError) as error:
            attend(q, tensor, v)
        text = f"attend: the keys are a Tensor, but score {name!r} projects keys first; give attend.project(keys)"
        assert str(error.value).startswith(text)
    torch.testing.assert_close(attend(q, attend.project(k), v), attend_once(q, k, v, score=attend.weigh.score))


def test_keys_without_projection_are_passed_directly():
    q, k, v = qkv(1, 2, 3, 5)
    assert scaled_dot()(q, k, v).equal(scaled_dot()(q, scaled_dot().project(k), v))


def test_arguments_of_the_wrong_type():
    q, k, v = qkv(1, 2, 3, 5)
    dot = scores.build("dot", 4)
    for make, text in [
        (lambda: Attend("dot"), "attention: score is the name 'dot'; create it: regard.score('dot', width)"),
        (
            lambda: Attend(torch.matmul),
            "attention: score is a builtin_function_or_method; give regard.score(name, width)",
        ),
        (lambda: Attend(dot, normalizer="softmax"), "attention: normalizer is the name 'softmax'; give the object"),
        (
            lambda: Attend(dot, normalizer=torch.softmax),
            "attention: normalizer is a builtin_function_or_method; give a m",
        ),
        (lambda: scaled_dot()(q, k, v, torch.ones(3, 5) > 0), "attend: mask is a Tensor; describe it: Mask.explicit"),
        (
            lambda: scaled_dot()(q.float(), k, v),
            "attend: query is float32, key float64, value float64; convert all to",
        ),
    ]:
        with pytest.raises(RegardError) as error:
            make()
        assert str(error.value).startswith(text) and "\n" not in str(error.value)


def test_autocast_allows_different_precisions():
    q, k, v = qkv(1, 2, 3, 5, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(
            scaled_dot()(q, k, v).float(), scaled_dot()(q, k, v.bfloat16()).float(), atol=0.05, rtol=0
        )


def test_positions_prevent_sharing_of_keys():
    q, k, v = qkv(2, 2, 3, 3)
    with pytest.raises(
        ShapeError, match="the mask is not a mask of keys alone; hypotheses can share the keys of a source"
    ):
        scaled_dot()(q, k[:1], v[:1], Mask.causal())
    rotary = scaled_dot(position_bias=position("rotary", 4, max_length=3).position_bias(heads=2, dim=4))
    with pytest.raises(ShapeError, match="a position bias needs one row of keys and values per query row"):
        rotary(q, k[:1], v[:1])


@pytest.mark.parametrize("score", ["scaled_dot", "concat"])
def test_returned_weights_are_those_of_the_definition(score):
    attend = Attend(scores.build(score, 4))
    q, k, v = torch.randn(4, 1, 2, 4), torch.randn(2, 1, 5, 4), torch.randn(2, 1, 5, 3)  # two query rows per source
    mask = Mask.lengths(torch.tensor([5, 3]), 5)
    k = attend.project(k)
    with record(attend) as maps:
        result = attend_with_weights(attend, q, k, append_one_hot(v), mask)
    assert torch.allclose(result.weights, maps[""].weights, atol=1e-6)
    assert torch.allclose(result.output, attend(q, k, v, mask), atol=1e-6)


def test_returned_weights_have_a_gradient_and_hard_weights_are_one_hot():
    q, k = torch.randn(1, 1, 2, 4, requires_grad=True), torch.randn(1, 1, 5, 4)
    attend_with_weights(Attend(scores.build("dot", 4)), q, k, append_one_hot(k)).weights[..., 0].sum().backward()
    assert q.grad.abs().sum() > 0
    hard = Attend(scores.build("dot", 4), normalizer=Hard())
    weights = attend_with_weights(hard, q, k, append_one_hot(k)).weights
    assert weights.sum(dim=-1).tolist() == [[[1.0, 1.0]]] and weights.amax() == 1
