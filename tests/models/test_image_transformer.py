"""The Image Transformer keeps the laws in every configuration, and learns what is there to learn."""

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
    {"attention": attention, "places": places, "output": output}
    for attention in ("full", "local_1d", "local_2d")
    for places in ("channel", "pixel")
    for output in ("categorical", "logistic")
] + [{"surroundings": 2}, {"places": "pixel", "surroundings": 1}, {"coordinates": "learned"}, {"score": "additive"}]


def build(change, sizes=SIZES):
    torch.manual_seed(0)
    return it.build(replace(it.TINY, **change), sizes).eval()


def inputs(model, sizes=SIZES, rows=2):
    """Random images as the model reads them: the levels of the places before each, and of each."""
    images = torch.randint(sizes.levels, (rows, sizes.height * sizes.width * sizes.channels))
    labels = images[:, model.order]
    start = torch.full_like(labels[:, :1], sizes.levels)
    small = torch.randint(sizes.levels, (rows, sizes.low_res_size[0] * sizes.low_res_size[1] * sizes.channels))
    subject = ImageCondition(torch.arange(rows) % (sizes.num_classes + 1), small)
    return torch.cat([start, labels[:, :-1]], dim=1), labels, subject


@pytest.fixture(params=[*CASES, {"small": (2, 3)}, {"small": (2, 3), "surroundings": 1}], ids=str)
def case(request):
    change = dict(request.param)
    sizes = replace(SIZES, small=change.pop("small", (0, 0)))
    model = build(change, sizes)
    return model, *inputs(model, sizes)


@torch.no_grad()
def test_however_it_is_cut(case):
    model, tokens, _, subject = case
    whole, _ = model.features(tokens, model.start(subject))
    for same, size in (
        (model, 1),
        (model, 4),
        (model, 50),
        (optimize_for_decoding(model), 1),
        (optimize_for_decoding(model), 4),
    ):
        state, parts = same.start(subject), []
        for chunk in tokens.split(size, dim=1):
            features, state = same.features(chunk, state)
            parts.append(features)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_no_place_sees_a_later_one(case):
    model, tokens, _, subject = case
    before, _ = model.features(tokens, model.start(subject))
    for place in (1, 8, tokens.shape[1] - 1):
        changed = tokens.clone()
        changed[:, place:] = (changed[:, place:] + 1) % SIZES.levels
        after, _ = model.features(changed, model.start(subject))
        assert after[:, :place].equal(before[:, :place]) and not after[:, place:].equal(before[:, place:])


@torch.no_grad()
def test_fast_kernels_are_the_definition_and_looking_changes_nothing(case):
    model, tokens, _, subject = case
    plain, _ = model.features(tokens, model.start(subject))
    with reference_attention(model):
        slow, _ = model.features(tokens, model.start(subject))
    torch.testing.assert_close(plain, slow, atol=1e-5, rtol=1e-5)
    with record(model) as maps:
        seen, _ = model.features(tokens, model.start(subject))
    assert seen.equal(plain)
    for found in maps.values():
        torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones_like(found.weights[..., 0]))


@torch.no_grad()
def test_the_loss_is_the_likelihood_of_drawing(case):
    """The loss is the sum of -log p over channels that are drawn one after the other, each given those before."""
    model, tokens, labels, subject = case
    features, _ = model.features(tokens, model.start(subject))
    flat, values = features.flatten(0, 1), labels.flatten(0, 1).view(features.shape[0] * features.shape[1], -1)
    total = torch.zeros(())
    for channel in range(values.shape[1]):
        scores = model.readout.logits(flat, values[:, :channel]).log_softmax(dim=-1)
        total -= scores.gather(1, values[:, channel, None]).sum()
    torch.testing.assert_close(model.readout.loss(flat, labels.flatten(0, 1)), total, atol=1e-2, rtol=1e-4)


def test_every_parameter_learns(case):
    model, tokens, labels, subject = case
    features, _ = model.train().features(tokens, model.start(subject))
    model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1)).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


@torch.no_grad()
def test_rows_can_be_chosen(case):
    model, tokens, _, subject = case
    _, state = model.features(tokens[:, :9], model.start(subject))
    both, _ = model.features(tokens[:, 9:20], state)
    rows = torch.tensor([1, 1])
    subject = ImageCondition(subject.labels[rows], subject.small[rows])
    _, state = model.features(tokens[rows, :9], model.start(subject))
    again, _ = model.features(tokens[rows, 9:20], select(state, rows))
    torch.testing.assert_close(again, both[rows], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("places", ["channel", "pixel"])
def test_the_order_is_one_of_all_levels(places):
    model = build({"places": places})
    assert model.order.flatten().sort().values.equal(torch.arange(105))
    raster = build({"places": places, "attention": "full"}).order
    assert raster.flatten().equal(torch.arange(105)) and not model.order.equal(raster)


def test_classes_and_small_images_change_what_is_made():
    sizes = replace(SIZES, small=(2, 3))
    model = build({}, sizes)
    tokens, _, subject = inputs(model, sizes)
    first, _ = model.features(tokens, model.start(subject))
    other, _ = model.features(tokens, model.start(subject._replace(labels=subject.labels + 1)))
    third, _ = model.features(tokens, model.start(subject._replace(small=(subject.low_res + 1) % 6)))
    assert not first.equal(other) and not first.equal(third)


def test_a_small_image_alone_determines_a_copy_of_it():
    """Super-resolution by attention: where the large image is the small one, the model learns to copy it."""
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
    assert loss.item() < 0.1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"layers": 0},
            "layers, dim, heads, mixtures and encoder_layers must be at least 1, hidden and surroundings 0",
        ),
        ({"dim": 15}, "dim=15 cannot be divided among heads=2; choose a multiple of 2"),
        ({"dropout": 1.0}, "dropout=1.0 is not a probability below 1"),
    ],
)
def test_wrong_settings(change, text):
    with pytest.raises(ConfigError, match=f"^{text}$"):
        replace(it.TINY, **change)
    with pytest.raises(ConfigError, match=r"^position='rotary' counts along one axis, inside the score"):
        build({"coordinates": "rotary"})
