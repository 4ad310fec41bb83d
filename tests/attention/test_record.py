"""Recording does not change outputs; maps are the weights of the output; heads and queries can be selected."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.kernels import chunked
from regard.attention.masks import Mask
from regard.attention.normalizers import Hard
from regard.attention.record import record
from regard.core.errors import RegardError
from regard.layers.multihead import HeadDims, MultiHeadAttention


class TwoLayers(nn.Module):
    """Two attention layers, with dropout of weights and features."""

    def __init__(self, score="scaled_dot", normalizer=None):
        super().__init__()
        self.first = MultiHeadAttention(
            Attend(scores.build(score, 4), dropout=0.4, queries="words", keys="words"), HeadDims.split_evenly(8, 2)
        )
        self.cross = MultiHeadAttention(
            Attend(scores.build(score, 4), normalizer=normalizer, dropout=0.4), HeadDims.split_evenly(8, 2)
        )
        self.drop = nn.Dropout(0.3)

    def forward(self, x, mask):
        x = self.drop(self.first(x, self.first.project_kv(x), mask))
        return self.drop(self.cross(x, self.cross.project_kv(x), mask))


def inputs():
    return torch.randn(3, 6, 8), Mask.causal() & Mask.lengths(torch.tensor([6, 2, 0]), 6)


@pytest.mark.parametrize("size", [2**22, 30])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("normalizer", [None, Hard()])
@pytest.mark.parametrize("score", ["scaled_dot", "concat"])
def test_recording_does_not_change_outputs_or_gradients(score, normalizer, training, size, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", size)
    model = TwoLayers(score, normalizer).train(training)
    x, mask = inputs()
    results = []
    for recording in (False, True):
        torch.manual_seed(5)
        x.requires_grad_().grad = None
        if recording:
            with record(model) as maps:
                output = model(x, mask)
        else:
            output = model(x, mask)
        output.sum().backward()
        results.append((output.detach(), x.grad, torch.rand(1)))
    assert all(a.equal(b) for a, b in zip(*results, strict=True))
    for attention_map in maps.values():
        sums = attention_map.weights.sum(dim=-1)
        assert ((sums - 1).abs() < 1e-6).logical_or(sums == 0).all()
        assert not attention_map.weights.requires_grad


@pytest.mark.parametrize("name", ["scaled_dot", "cosine", "general", "concat"])
@pytest.mark.parametrize("mask", [Mask(), Mask.causal(), Mask.causal() & Mask.local(3), Mask.block(2, 1)])
def test_the_maps_give_the_output(name, mask):
    attend = Attend(scores.build(name, 4))
    q, k, v = (torch.randn(2, 3, 300, 4) for _ in range(3))
    with record(attend) as maps:
        output = attend(q, attend.project(k), v, mask=mask)
    torch.testing.assert_close(maps[""].weights @ v, output)


def test_axes_are_named():
    model = TwoLayers()
    with record(model.eval()) as maps:
        model(*inputs())
    assert list(maps) == ["first", "cross"]
    assert maps["first"].queries == maps["first"].keys == "words"
    assert maps["first"].weights.shape == (3, 2, 6, 6)


@pytest.mark.parametrize("normalizer", [None, Hard()])
@pytest.mark.parametrize(
    "rows", [None, slice(1, 4), slice(-2, None), slice(0, None, 2), slice(1, None, 3), slice(9, None)]
)
@pytest.mark.parametrize("heads", [None, [1], [1, 0]])
def test_only_heads_and_rows(heads, rows, normalizer, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 60)
    model, (x, mask) = TwoLayers("concat", normalizer).eval(), inputs()
    with record(model) as full:
        model(x, mask)
    with record(model, only="cross*", heads=heads, rows=rows) as partial:
        model(x, mask)
    assert list(partial) == ["cross"]
    expected = full["cross"].weights[:, heads or [0, 1]][:, :, rows or slice(None)]
    torch.testing.assert_close(partial["cross"].weights, expected)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 500)
    attend, sizes = Attend(scores.build("scaled_dot", 4)), []
    attend.weigh.register_forward_hook(lambda module, inputs, weights: sizes.append(weights.numel()))
    q = torch.randn(1, 2, 50, 4)
    with record(attend, rows=slice(0, 30)) as maps:
        attend(q, q, q)
    assert sizes and max(sizes) <= 500 and sum(sizes) == 2 * 30 * 50
    assert maps[""].weights.shape == (1, 2, 30, 50)


def test_steps_are_joined_and_absent_keys_get_zero():
    attend = Attend(scores.build("scaled_dot", 4))
    q, k, v = (torch.randn(2, 1, 5, 4) for _ in range(3))
    with record(attend) as steps:
        for i in range(5):
            attend(q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1], Mask.causal())
    with record(attend) as full:
        attend(q, k, v, Mask.causal())
    torch.testing.assert_close(steps[""].weights, full[""].weights)


@pytest.mark.parametrize("normalizer", [None, Hard()])
@pytest.mark.parametrize("rows", [None, slice(1, None)])
def test_hypotheses_of_a_shared_source_have_separate_maps(normalizer, rows):
    attend = Attend(scores.build("scaled_dot", 4), normalizer=normalizer).eval()
    q, k = torch.randn(6, 2, 3, 4), torch.randn(2, 2, 5, 4)
    mask = Mask.lengths(torch.tensor([5, 2]))
    with record(attend, rows=rows) as shared:
        attend(q, k, k, mask)
    with record(attend, rows=rows) as separate:
        k = k.repeat_interleave(3, 0)
        attend(q, k, k, Mask(keys=mask.keys.repeat_interleave(3, 0)))
    torch.testing.assert_close(shared[""].weights, separate[""].weights)


def test_hooks_are_removed_even_after_an_error():
    model = TwoLayers()
    with pytest.raises(ZeroDivisionError), record(model):
        raise ZeroDivisionError
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"only": "decoder*"},
            "no attention matches only='decoder*'; the model's attention modules are: first, cross",
        ),
        ({}, "nothing was recorded; call the model itself inside the block"),
        ({"rows": slice(None, None, -1)}, "rows=slice(None, None, -1) runs backwards; give a step of at least 1"),
    ],
)
def test_recording_nothing_is_an_error(settings, text):
    with pytest.raises(RegardError) as error, record(TwoLayers(), **settings):
        pass
    assert text in str(error.value)


def test_a_model_without_attention():
    with (
        pytest.raises(RegardError, match="none; only attention built with regard's Attend can be recorded"),
        record(nn.Linear(2, 2)),
    ):
        pass


def test_invalid_heads():
    attend, q = Attend(scores.build("dot", 4)), torch.randn(1, 2, 3, 4)
    with pytest.raises(RegardError, match=r"heads=\[2\] but there are 2; count from 0"), record(attend, heads=[2]):
        attend(q, q, q)


def test_calls_with_different_batches_are_recorded_but_not_joined():
    attend, q = Attend(scores.build("dot", 4)), torch.randn(2, 1, 3, 4)
    with record(attend) as maps:
        attend(q[:1], q[:1], q[:1])
        attend(q, q, q)
    (recorded,) = maps.values()
    assert [tuple(call.shape) for call in recorded.calls] == [(1, 1, 3, 3), (2, 1, 3, 3)]
    assert torch.equal(recorded.calls[0], recorded.calls[1][:1])
    assert repr(recorded) == "AttentionMap(queries -> keys: (1, 1, 3, 3), (2, 1, 3, 3))"
    message = r'have 1, 2 rows and cannot be joined; beam search .* use map\.calls, .* decoding="greedy"'
    with pytest.raises(RegardError, match=message):
        _ = recorded.weights
