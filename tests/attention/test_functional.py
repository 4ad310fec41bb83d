"""Functional attention: leading axes, masks, empty inputs and errors. The textbook example is a doctest."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard.attention import scores
from regard.attention.functional import attend
from regard.attention.masks import Mask
from regard.attention.normalizers import Hard
from regard.core.errors import ConfigError, DataError, RegardError, ShapeError


@pytest.mark.parametrize("axes", [(), (2,), (2, 3)])
def test_leading_axes(axes):
    q, k, v = (torch.randn(*axes, n, 4) for n in (5, 6, 6))
    torch.testing.assert_close(attend(q, k, v), scaled_dot_product_attention(q, k, v))


def test_a_mask_per_row_of_the_batch():
    q, k, v = (torch.randn(2, n, 4) for n in (5, 6, 6))
    output = attend(q, k, v, mask=Mask.lengths(torch.tensor([6, 2])))
    torch.testing.assert_close(output[1], attend(q[1], k[1, :2], v[1, :2]))
    pairs = torch.rand(2, 5, 6) < 0.5
    torch.testing.assert_close(
        attend(q, k, v, mask=Mask.explicit(pairs))[0], attend(q[0], k[0], v[0], mask=Mask.explicit(pairs[0]))
    )


def test_a_learned_score_is_passed_as_an_object():
    q, k, v = torch.randn(5, 4), torch.randn(6, 3), torch.randn(6, 2)
    score = scores.build("additive", 4, 3)
    output = attend(q, k, v, score=score)
    weights = (torch.tanh(score.query(q)[:, None] + score.key(k)) @ score.weight.weight[0]).softmax(dim=-1)
    torch.testing.assert_close(output, weights @ v)


def test_hard_attention_selects_the_best_key():
    q, k, v = (torch.randn(n, 4) for n in (5, 6, 6))
    assert attend(q, k, v, normalizer=Hard().eval(), score="dot").equal(v[(q @ k.mT).argmax(dim=-1)])


def test_no_keys_give_zeros():
    q, k = torch.randn(5, 4), torch.randn(0, 4)
    assert attend(q, k, k).equal(torch.zeros(5, 4))
    assert attend(q, q, q, mask=Mask.lengths(torch.tensor([0]), 5)).equal(torch.zeros(5, 4))


@pytest.mark.parametrize(
    "mask", [Mask(), Mask.causal(), Mask.local(9, 0), Mask.lengths(torch.tensor([], dtype=int), 8)]
)
@pytest.mark.parametrize("shape", [(0, 2, 8, 4), (2, 0, 8, 4), (0, 2, 0, 4), (0, 2, 8, 0)])
def test_empty_inputs_give_empty_outputs(shape, mask):
    if mask.keys is not None and shape[2:] != (8, 4):
        pytest.skip("the mask is for eight keys")
    if mask.keys is not None and shape[0]:
        pytest.skip("the mask is for no rows")
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    output = attend(*inputs, mask=mask)
    assert output.shape == scaled_dot_product_attention(*inputs).shape
    output.sum().backward()
    long = [torch.randn(*shape[:2], 300, shape[3]) for _ in range(3)]
    if mask.keys is None:
        assert attend(*long, mask=mask).shape == long[0].shape


def test_without_features_all_keys_get_equal_weights():
    q, v = torch.randn(1, 2, 8, 0), torch.randn(1, 2, 8, 4)
    torch.testing.assert_close(attend(q, q, v), v.mean(dim=2, keepdim=True).expand_as(v))
    torch.testing.assert_close(attend(q, q, v), scaled_dot_product_attention(q, q, v))
    assert attend(v, v, q).shape == (1, 2, 8, 0)


@pytest.mark.parametrize("training", [True, False])
def test_passed_modules_keep_their_training_mode(training):
    q, k, v = (torch.randn(n, 4) for n in (5, 6, 6))
    score, hard = scores.build("additive", 4).train(training), Hard().train(training)
    attend(q, k, v, score=score, normalizer=hard)
    assert score.training is hard.training is training
    queries = torch.zeros(400, 4)  # all keys are equally likely
    indices = attend(queries, torch.zeros(2, 4), torch.tensor([[0.0], [1.0]]), normalizer=hard)
    assert (0 < indices.mean() < 1) == training  # samples in training only


def make(query=(3, 4), key=(5, 4), value=(5, 2)):
    return [torch.randn(shape) for shape in (query, key, value)]


@pytest.mark.parametrize(
    ("tensors", "settings", "error", "text"),
    [
        (make(query=(4,)), {}, ShapeError, "query has shape (4,); give (t d), (b t d) or (b h t d)"),
        (make(key=(2, 5, 4)), {}, ShapeError, "key has 3 axes but query 2; give both the same"),
        (make(value=(4, 2)), {}, ShapeError, "keys and values must have equal batch, heads and length"),
        (make(key=(5, 3)), {}, ShapeError, "queries have width 4 but keys 3; project them to one width (W_Q, W_K)"),
        ([torch.ones(3, 4).long(), *make()[1:]], {}, ShapeError, "query is int64; give floats: query.float()"),
        ([*make()[:2], torch.tensor([[float("nan")]] * 5)], {}, DataError, "value contains NaN or infinity"),
        (
            make(),
            {"mask": torch.ones(3, 5).bool()},
            ShapeError,
            "mask is a Tensor; describe it: Mask.explicit(tensor)",
        ),
        (
            make(),
            {"score": lambda q, k: q @ k.mT},
            ConfigError,
            "score is a function; give a name, or an object: regard.",
        ),
        (
            make(),
            {"normalizer": "hard"},
            ConfigError,
            "normalizer is the name 'hard'; give the object: Softmax() or Ha",
        ),
        (
            make(),
            {"normalizer": torch.softmax},
            ConfigError,
            "normalizer is a builtin_function_or_method; give a module",
        ),
        (
            [make()[0].double(), *make()[1:]],
            {},
            ShapeError,
            "query is float64, key float32, value float32; convert all",
        ),
        (
            [*make()[:2], make()[2].half()],
            {"score": "dot"},
            ShapeError,
            "value float16; convert all to one: x.to",
        ),
        (make(), {"mask": Mask.lengths(torch.tensor([4]))}, ShapeError, "it is for 4 keys but there are 5"),
        (make(), {"score": "scaled_dott"}, ConfigError, "unknown score 'scaled_dott'; did you mean 'scaled_dot'?"),
        (make(), {"score": "general"}, ShapeError, "score 'general' has learned weights; create it once"),
        (make(key=(5, 3)), {"score": "concat"}, ShapeError, "regard.score('concat', 4, 3)"),
        (
            make(),
            {"score": scores.build("concat", 6)},
            ShapeError,
            "built for widths 6 and 6, but query has 4 and key 4",
        ),
    ],
)
def test_errors(tensors, settings, error, text):
    with pytest.raises(error) as raised:
        attend(*tensors, **settings)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, RegardError)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 5, 3, 4)])
@pytest.mark.parametrize("mask", [None, Mask.causal()])
def test_an_attention_map_mixes_the_values_as_attend_does(shape, mask):
    query, key = torch.randn(shape), torch.randn(*shape[:-2], 6, 4)
    value = torch.randn(*shape[:-2], 6, 7)
    for score in ("dot", regard.score("additive", 4)):
        weights = regard.attention_map(query, key, score=score, mask=mask)
        assert weights.shape == (*shape[:-1], 6)
        torch.testing.assert_close(weights @ value, regard.attend(query, key, value, score=score, mask=mask))


def test_an_attention_map_has_gradients_and_ignores_nan_in_padding():
    query, key = torch.randn(1, 2, 4, requires_grad=True), torch.randn(1, 3, 4)
    key[:, 2] = float("nan")
    weights = regard.attention_map(query, key, mask=Mask.lengths(torch.tensor([2]), size=3))
    weights[..., 0].sum().backward()
    assert weights[..., 2].eq(0).all() and query.grad.isfinite().all()


def test_arguments_that_are_not_tensors_are_refused():
    with pytest.raises(ShapeError, match=r"^attend: query is a int; give a tensor: torch\.as_tensor"):
        regard.attend(1, 2, 3)
    with pytest.raises(ShapeError, match=r"^attend: key is a list; give a tensor"):
        regard.attention_map(torch.randn(2, 3), [[1.0]])
