"""The Image Transformer keeps the decoding invariants in every configuration, and learns to copy."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.image_generator import ImageCondition
from regard.core.state_tree import select
from regard.inspection.invariants import reference_attention
from regard.layers.fuse_for_decoding import optimize_for_decoding
from regard.models import image_transformer as it

SIZES = ImageGenerationSpec(height=5, width=7, channels=3, levels=6, num_classes=4)
CASES = [
    {"attention": attention, "position_unit": unit, "output": output}
    for attention in ("full", "local_1d", "local_2d")
    for unit in ("channel", "pixel")
    for output in ("categorical", "logistic")
] + [
    {"neighbourhood": 2},
    {"position_unit": "pixel", "neighbourhood": 1},
    {"position_unit": "pixel", "output": "residual", "neighbourhood": 2},
    {"coordinates": "learned"},
    {"score": "additive"},
]


def build(change, sizes=SIZES):
    torch.manual_seed(0)
    return it.build(replace(it.TINY, **change), sizes).eval()


def inputs(model, sizes=SIZES, batch_size=2):
    """Random images as inputs of the model: the levels before each position, and of each position."""
    images = torch.randint(sizes.levels, (batch_size, sizes.height * sizes.width * sizes.channels))
    labels = images[:, model.order]
    start = torch.full_like(labels[:, :1], sizes.levels)
    low_res = torch.randint(sizes.levels, (batch_size, sizes.low_res_size[0] * sizes.low_res_size[1] * sizes.channels))
    condition = ImageCondition(torch.arange(batch_size) % (sizes.num_classes + 1), low_res)
    return torch.cat([start, labels[:, :-1]], dim=1), labels, condition


@pytest.fixture(
    params=[
        *CASES,
        {"low_res_size": (2, 3)},
        {"low_res_size": (2, 3), "neighbourhood": 1},
        {"low_res_size": (2, 3), "output": "residual", "position_unit": "pixel", "neighbourhood": 1},
    ],
    ids=str,
)
def case(request):
    change = dict(request.param)
    sizes = replace(SIZES, low_res_size=change.pop("low_res_size", (0, 0)))
    model = build(change, sizes)
    return model, *inputs(model, sizes)


@torch.no_grad()
def test_any_chunks(case):
    model, tokens, _, condition = case
    whole, _ = model.features(tokens, model.start(condition))
    for variant, size in (
        (model, 1),
        (model, 4),
        (model, 50),
        (optimize_for_decoding(model), 1),
        (optimize_for_decoding(model), 4),
    ):
        state, parts = variant.start(condition), []
        for chunk in tokens.split(size, dim=1):
            features, state = variant.features(chunk, state)
            parts.append(features)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_no_position_depends_on_a_later_one(case):
    model, tokens, _, condition = case
    before, _ = model.features(tokens, model.start(condition))
    for position in (1, 8, tokens.shape[1] - 1):
        changed = tokens.clone()
        changed[:, position:] = (changed[:, position:] + 1) % SIZES.levels
        after, _ = model.features(changed, model.start(condition))
        assert after[:, :position].equal(before[:, :position]) and not after[:, position:].equal(before[:, position:])


@torch.no_grad()
def test_kernels_equal_the_definition_and_recording_has_no_effect(case):
    model, tokens, _, condition = case
    plain, _ = model.features(tokens, model.start(condition))
    with reference_attention(model):
        reference, _ = model.features(tokens, model.start(condition))
    torch.testing.assert_close(plain, reference, atol=1e-5, rtol=1e-5)
    with record(model) as maps:
        recorded_output, _ = model.features(tokens, model.start(condition))
    assert recorded_output.equal(plain)
    for recorded in maps.values():
        torch.testing.assert_close(recorded.weights.sum(dim=-1), torch.ones_like(recorded.weights[..., 0]))


@torch.no_grad()
def test_the_loss_is_the_likelihood_of_sampling(case):
    """The loss is the sum of -log p over channels that are sampled one after the other, each conditioned on the
    previous ones."""
    model, tokens, labels, condition = case
    features, _ = model.features(tokens, model.start(condition))
    flat, values = features.flatten(0, 1), labels.flatten(0, 1).view(features.shape[0] * features.shape[1], -1)
    total = torch.zeros(())
    for channel in range(values.shape[1]):
        scores = model.readout.logits(flat, values[:, :channel]).log_softmax(dim=-1)
        total -= scores.gather(1, values[:, channel, None]).sum()
    torch.testing.assert_close(model.readout.loss(flat, labels.flatten(0, 1)), total, atol=1e-2, rtol=1e-4)


def test_every_parameter_learns(case):
    model, tokens, labels, condition = case
    features, _ = model.train().features(tokens, model.start(condition))
    model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1)).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


@torch.no_grad()
def test_rows_can_be_selected(case):
    model, tokens, _, condition = case
    _, state = model.features(tokens[:, :9], model.start(condition))
    both, _ = model.features(tokens[:, 9:20], state)
    rows = torch.tensor([1, 1])
    condition = ImageCondition(condition.labels[rows], condition.low_res[rows])
    _, state = model.features(tokens[rows, :9], model.start(condition))
    selected, _ = model.features(tokens[rows, 9:20], select(state, rows))
    torch.testing.assert_close(selected, both[rows], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("unit", ["channel", "pixel"])
def test_the_order_contains_all_levels(unit):
    model = build({"position_unit": unit})
    assert model.order.flatten().sort().values.equal(torch.arange(105))
    raster = build({"position_unit": unit, "attention": "full"}).order
    assert raster.flatten().equal(torch.arange(105)) and not model.order.equal(raster)


def test_classes_and_low_res_images_change_the_features():
    sizes = replace(SIZES, low_res_size=(2, 3))
    model = build({}, sizes)
    tokens, _, condition = inputs(model, sizes)
    first, _ = model.features(tokens, model.start(condition))
    second, _ = model.features(tokens, model.start(condition._replace(labels=condition.labels + 1)))
    third, _ = model.features(tokens, model.start(condition._replace(low_res=(condition.low_res + 1) % 6)))
    assert not first.equal(second) and not first.equal(third)


def test_super_resolution_learns_to_copy():
    """If the large image equals the low-resolution image, the model learns to copy it."""
    sizes = ImageGenerationSpec(4, 4, 1, levels=2, low_res_size=(4, 4))
    model = build({"layers": 1}, sizes).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        images = torch.randint(2, (32, 16))
        labels = images[:, model.order]
        tokens = torch.cat([torch.full_like(labels[:, :1], 2), labels[:, :-1]], dim=1)
        features, _ = model.features(tokens, model.start(ImageCondition(torch.zeros(32, dtype=torch.long), images)))
        loss = model.readout.loss(features.flatten(0, 1), labels.flatten()) / labels.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"layers": 0},
            "layers=0 must be at least 1",
        ),
        ({"dim": 15}, "dim=15 cannot be divided among heads=2; choose a multiple of 2"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, text):
    with pytest.raises(ConfigError, match=f"^{text}$"):
        replace(it.TINY, **change)
    with pytest.raises(ConfigError, match=r"^position='rotary' is one-dimensional and inside the score"):
        build({"coordinates": "rotary"})
