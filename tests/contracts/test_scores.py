"""Invariants of attention for every registered score, with every position scheme inside the score."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend, AttendCache
from regard.attention.kernels import chunked, local
from regard.attention.masks import Mask
from regard.attention.record import record
from regard.attention.score import ProjectedKeys
from regard.core.registry import registered_names
from regard.layers.positions import build as position

B, H, S, D = 2, 2, 6, 4
SCORES = registered_names("regard.attention.scores")
POSITIONS = ["none", "relative", "rotary"]
MASKS = {
    "none": Mask(),
    "causal": Mask.causal(),
    "lengths": Mask.lengths(torch.tensor([S, 0])),
    "left": Mask.present(torch.arange(S) >= torch.tensor([[0], [4]])),
    "start": Mask.left_padded(torch.tensor([0, 4])) & Mask.causal(),
    "explicit": Mask.explicit(torch.tensor([[i != 1 and (i * j) % 3 != 1 for j in range(S)] for i in range(S)])),
    "window": Mask.local(2, 1),
    "causal window": Mask.causal() & Mask.local(2) & Mask.lengths(torch.tensor([S, 3]), S),
    "blocks": Mask.block(2, 1) & Mask.causal(),
    "image": Mask.image(2, 3, query=(1, 2), memory=(1, 1)) & Mask.causal(),
}


def make(name, scheme="none", **settings):
    bias = position(scheme, D * H, max_length=3).position_bias(heads=H, dim=D)
    return Attend(scores.build(name, D), position_bias=bias, **settings).double()


def tensors(t=S, s=S):
    return [torch.randn(B, H, n, D, dtype=torch.float64, requires_grad=True) for n in (t, s, s)]


def call(attend, q, k, v, mask=Mask()):
    return attend(q, attend.project(k), v, mask)


@pytest.fixture
def small_blocks(monkeypatch):
    """Use blocks of two, so that a short sequence has many."""
    monkeypatch.setattr(local, "MIN_BLOCK_SIZE", 2)


@pytest.fixture(params=[2**22, 50], ids=["whole", "chunked"])
def sized(request, monkeypatch):
    """Compute all in one chunk, and in chunks of about one row."""
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", request.param)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("scheme", POSITIONS)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.usefixtures("small_blocks", "sized")
def test_every_path_equals_the_definition(name, scheme, mask):
    """fused = plain = chunked, block = dense, skewed or rotated: forward and gradient."""
    attend = make(name, scheme)
    q, k, v = tensors()
    leaves = [q, k, v, *attend.parameters()]
    fast = call(attend, q, k, v, mask)
    plain = attend.weigh(q, attend.weigh.score.project_keys(k), mask) @ v
    torch.testing.assert_close(fast, plain)
    grad_output = torch.randn_like(fast)
    gradients, expected_gradients = (
        torch.autograd.grad(out, leaves, grad_output, retain_graph=True) for out in (fast, plain)
    )
    torch.testing.assert_close(gradients, expected_gradients)


@pytest.mark.parametrize("scheme", POSITIONS)
@pytest.mark.parametrize("name", SCORES)
def test_gradients_are_right(name, scheme):
    attend = make(name, scheme)
    q, k, v = (x[:1, :, :3].detach().requires_grad_() for x in tensors())
    weights = tuple(attend.parameters())
    assert torch.autograd.gradcheck(lambda q, k, v, *_: call(attend, q, k, v, Mask.causal()), (q, k, v, *weights))


@pytest.mark.parametrize("name", SCORES)
def test_rows_sum_to_one_or_are_empty(name):
    q, k, _ = tensors()
    weigh = make(name).weigh
    for mask in MASKS.values():
        sums = weigh(q, weigh.score.project_keys(k), mask).sum(dim=-1)
        allowed = mask.dense(S, S)
        is_nonempty = torch.ones(B, H, S) if allowed is None else allowed.any(dim=-1).expand(B, H, S)
        torch.testing.assert_close(sums, is_nonempty.double())


@pytest.mark.parametrize("name", SCORES)
def test_an_inner_product_gives_the_same_weights(name):
    q, k, _ = tensors()
    score = scores.build(name, D).double()
    k = score.project_keys(k)
    dot = score.as_dot(q, k)
    if dot is not None:
        torch.testing.assert_close((dot.q @ dot.k.mT * dot.scale).softmax(-1), score(q, k).softmax(-1))


@pytest.mark.parametrize("name", SCORES)
def test_keys_are_projected_one_by_one(name):
    """Needed for a growing cache: projecting and concatenating commute."""
    _, k, _ = tensors()
    score = scores.build(name, D).double()
    parts = [score.project_keys(k[:, :, :2]), score.project_keys(k[:, :, 2:2]), score.project_keys(k[:, :, 2:])]
    torch.testing.assert_close(torch.cat(parts, dim=2), score.project_keys(k))


@pytest.mark.parametrize("scheme", POSITIONS)
@pytest.mark.parametrize("name", SCORES)
def test_padding_on_either_side_has_no_effect(name, scheme):
    attend = make(name, scheme)
    q, k, v = tensors()
    alone = call(attend, q, k, v, Mask.causal())
    padding = [torch.randn(B, H, 3, D, dtype=torch.float64) * 9 for _ in range(3)]
    right = [torch.cat([x, y], dim=2) for x, y in zip((q, k, v), padding, strict=True)]
    mask = Mask.lengths(torch.tensor([S, S]), S + 3)
    torch.testing.assert_close(call(attend, *right, mask & Mask.causal())[:, :, :S], alone)
    left = [torch.cat([y, x], dim=2) for x, y in zip((q, k, v), padding, strict=True)]
    mask = Mask.left_padded(torch.tensor([3, 3]))
    torch.testing.assert_close(call(attend, *left, mask & Mask.causal())[:, :, 3:], alone)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("scheme", POSITIONS)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("spare", [0, 3])
def test_attention_over_a_cache_equals_the_definition(name, scheme, mask, spare):
    """Whatever the spare columns contain, for one query and for many, for hypotheses that share a source."""
    attend = make(name, scheme).float().eval()
    q, k, v = (x.detach().float() for x in tensors())
    k = attend.weigh.score.project_keys(k)
    keys, values = (torch.nn.functional.pad(x, (0, 0, 0, spare), value=9.0) for x in (k, v))
    for queries, part in ((q, mask), (q[:, :, -1:], mask.submask(S - 1, S, keys=S))):
        expected = (attend.weigh(queries, k, part) @ v).transpose(1, 2).flatten(2).flatten(0, 1)
        flat = queries.transpose(1, 2).flatten(2).flatten(0, 1)
        cached = AttendCache(attend)(flat, ProjectedKeys(keys), values, part, shape=(B, queries.shape[2]), length=S)
        torch.testing.assert_close(cached, expected)
    if scheme == "none" and not mask.depends_on_position and mask.pairs is None:
        doubled = [x.transpose(1, 2).flatten(2).repeat_interleave(2, dim=0) for x in (q, attend.weigh(q, k, mask) @ v)]
        cached = AttendCache(attend)(
            doubled[0].flatten(0, 1), ProjectedKeys(keys), values, mask, shape=(2 * B, S), length=S
        )
        torch.testing.assert_close(cached, doubled[1].flatten(0, 1))


@pytest.mark.parametrize("scheme", POSITIONS)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("mask", [Mask.causal(), Mask.causal() & Mask.local(2), Mask.causal() & Mask.block(2, 1)])
@pytest.mark.usefixtures("small_blocks")
def test_no_output_depends_on_a_later_input(name, scheme, mask):
    """The gradients are exactly zero."""
    q, k, v = tensors()
    output = call(make(name, scheme), q, k, v, mask)
    for i in range(S):
        for x in torch.autograd.grad(output[:, :, i].sum(), (q, k, v), retain_graph=True):
            assert not x[:, :, i + 1 :].any()
            assert x[:, :, i].any() or x is not v


@pytest.mark.parametrize("scheme", POSITIONS)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("mask", [Mask.causal(), Mask.causal() & Mask.local(2), Mask.causal() & Mask.block(2, 1)])
@pytest.mark.parametrize("cuts", [(1,) * S, (2, 3, 1)])
def test_any_chunks(name, scheme, mask, cuts):
    attend = make(name, scheme)
    q, k, v = tensors()
    whole, parts, end = call(attend, q, k, v, mask), [], 0
    for size in cuts:
        start, end = end, end + size
        parts.append(call(attend, q[:, :, start:end], k[:, :, :end], v[:, :, :end], mask))
    torch.testing.assert_close(torch.cat(parts, dim=2), whole)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", SCORES)
def test_recording_has_no_effect(name, training):
    attend = make(name, dropout=0.5).train(training)
    q, k, v = tensors()
    with record(attend) as maps:
        torch.manual_seed(1)
        output = call(attend, q, k, v, Mask.causal())
    torch.manual_seed(1)
    assert call(attend, q, k, v, Mask.causal()).equal(output)
    assert maps[""].weights.sum(dim=-1).allclose(torch.ones((), dtype=torch.float64))
    if not training:
        torch.testing.assert_close(maps[""].weights @ v, output)


@pytest.mark.parametrize("name", ["scaled_dot", "concat"])  # each has a separate path; compiling takes seconds
def test_compiled_is_eager_with_empty_rows_too(name):
    attend = make(name, "relative")
    q, k, v = tensors()
    keys = torch.arange(S) < torch.tensor([[0], [4]])

    def run(q, k, v, keys):
        return call(attend, q, k, v, Mask.causal() & Mask.present(keys))

    eager, compiled = run(q, k, v, keys), torch.compile(run, backend="aot_eager", fullgraph=True)(q, k, v, keys)
    torch.testing.assert_close(compiled, eager)
    leaves = [q, k, v, *attend.parameters()]
    gradients, expected_gradients = (torch.autograd.grad(out.square().sum(), leaves) for out in (compiled, eager))
    torch.testing.assert_close(gradients, expected_gradients)
    assert not compiled[0].any() and all(x.isfinite().all() for x in gradients)


@pytest.mark.parametrize("name", SCORES)
def test_no_keys_at_all(name):
    q, k, v = tensors(t=3, s=0)
    for mask in (Mask(), Mask.causal()):
        output = call(make(name, "relative"), q, k, v, mask)
        assert output.shape == (B, H, 3, D) and not output.any()
