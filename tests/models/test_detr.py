"""DETR: the predicted set does not depend on the order of the queries."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.attention.record import record
from regard.core.data_specs import DetectionSpec
from regard.core.errors import ConfigError
from regard.inspection.invariants import reference_attention
from regard.models import detr

SIZES = DetectionSpec(height=13, width=10, channels=3, num_classes=4, max_objects=3)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return detr.build(detr.TINY, SIZES).eval()


def images(batch_size=2):
    return torch.rand(batch_size, 3, 13, 10) * 2 - 1


@torch.no_grad()
def test_invariants(model):
    x = images()
    logits, boxes = model(x)
    assert logits.shape == (2, 2, 5, 5) and boxes.shape == (2, 2, 5, 4) and boxes.min() >= 0 and boxes.max() <= 1
    torch.testing.assert_close(model(x[1:]).logits, logits[:, 1:], atol=1e-5, rtol=1e-5)
    with reference_attention(model):
        torch.testing.assert_close(model(x).boxes, boxes, atol=1e-5, rtol=1e-5)
    with record(model) as maps:
        assert model(x).boxes.equal(boxes)
    assert maps["decoder.1.cross_attn"].weights.shape == (2, 2, 5, 4 * 3)
    for recorded in maps.values():
        torch.testing.assert_close(recorded.weights.sum(dim=-1), torch.ones_like(recorded.weights[..., 0]))


@torch.no_grad()
def test_queries_are_a_set(model):
    """Permuted queries give the same objects in the permuted order."""
    x, order = images(), torch.tensor([3, 1, 4, 0, 2])
    before = model(x)
    model.queries.copy_(model.queries[order])
    model.points.copy_(model.points[order])
    torch.testing.assert_close(model(x).boxes, before.boxes[:, :, order], atol=1e-5, rtol=1e-5)


def test_reference_points_cover_the_image():
    points = detr._spread(40)
    cells = {(int(x * 3), int(y * 3)) for x, y in points.tolist()}
    assert len(cells) == 9 and points.min() > 0 and points.max() < 1


def test_every_parameter_learns(model):
    output = model.train()(images())
    (cross_entropy(output.logits.flatten(0, 2), torch.zeros(20, dtype=torch.long)) + output.boxes.sum()).backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())


def test_the_default_count_of_queries():
    assert detr.build(replace(detr.TINY, queries=0), SIZES).queries.shape[0] == 9


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"dim": 15}, "dim=15 cannot be divided among heads=2; choose a multiple of 2"),
        ({"stride": 6}, "stride=6 must be a power of two and at least 2"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, text):
    with pytest.raises(ConfigError, match=f"^{text}$"):
        replace(detr.TINY, **change)
