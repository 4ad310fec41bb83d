"""Image generation: scores equal those of the entire image, known levels are kept, images are independent."""

import pytest
import torch

from regard.core.data_specs import ImageGenerationSpec
from regard.core.protocols.image_generator import ImageCondition
from regard.decoding.strategies import sample
from regard.models import image_transformer, pixel_cnn
from regard.tasks.image_generation.generate import (
    UNKNOWN,
    Guidance,
    LevelMode,
    generate,
    generate_batch,
    progress_bar,
    teacher_forcing_loss,
)

SIZES = ImageGenerationSpec(height=5, width=4, channels=3, levels=4, num_classes=2)
SAMPLING = sample.Config(seed=3)
CHANGES = [
    {"attention": "full"},
    {"attention": "local_1d"},
    {"attention": "local_2d"},
    {"position_unit": "pixel", "output": "logistic"},
    {"position_unit": "pixel"},
    {"position_unit": "pixel", "output": "residual", "neighbourhood": 1},
]


def condition(count):
    return ImageCondition(torch.arange(count) % 3, torch.zeros(count, 0, dtype=torch.long))


def models():
    torch.manual_seed(0)
    for change in CHANGES:
        config = image_transformer.Config(
            layers=1, dim=8, heads=2, query_block=(2, 2), memory_block=(1, 1), block_1d=(6, 5), **change
        )
        yield image_transformer.build(config, SIZES).eval()
    yield pixel_cnn.build(pixel_cnn.TINY, SIZES).eval()


@torch.no_grad()
@pytest.mark.parametrize(
    "model", list(models()), ids=[*(" ".join(map(str, change.values())) for change in CHANGES), "pixel_cnn"]
)
def test_scores_equal_those_of_the_entire_image(model):
    known_levels = torch.full((2, 60), UNKNOWN)
    images = generate_batch(model, condition(2), known_levels, num_levels=4, choice=SAMPLING)
    assert images.levels.min() >= 0 and images.levels.max() < 4
    for row in range(2):
        alone = ImageCondition(*(part[row : row + 1] for part in condition(2)))
        score = -teacher_forcing_loss(model, images.levels[row : row + 1], alone, num_levels=4)
        assert float(images.scores[row]) == pytest.approx(float(score), rel=1e-4)
    first = generate_batch(model, condition(1), known_levels[:1], num_levels=4, choice=SAMPLING)
    assert first.levels.equal(images.levels[:1])


def test_known_levels_are_kept_at_every_position():
    model = next(models())
    known_levels = torch.full((2, 60), UNKNOWN)
    known_levels[0, :30] = torch.arange(30) % 4
    known_levels[1, 40:] = 2
    levels = generate_batch(model, condition(2), known_levels, num_levels=4, choice=LevelMode.MOST_LIKELY).levels
    assert levels[0, :30].equal(known_levels[0, :30]) and levels[1, 40:].equal(known_levels[1, 40:])
    complete = torch.arange(60)[None] % 4
    assert generate_batch(model, condition(1), complete, num_levels=4, choice=SAMPLING).levels.equal(complete)


@torch.no_grad()
def test_the_mean_has_a_smaller_error_than_the_most_likely_level():
    model = next(models())
    model.readout.each[0].bias[:] = torch.tensor([0.0, -9.0, -0.3, -0.3])  # most likely 0; mean 1.5 or more
    nothing = torch.full((1, 60), UNKNOWN)
    model.readout.each[0].weight[:] = 0
    levels = {mode: generate(model, condition(1), nothing, sizes=SIZES, choice=mode).unique() for mode in LevelMode}
    assert levels == {LevelMode.MOST_LIKELY: torch.tensor([0]), LevelMode.MEAN: torch.tensor([1])}


@torch.no_grad()
def test_guidance_adds_the_difference_that_the_class_makes():
    conditional, unconditional = torch.randn(2, 3, 5).log_softmax(dim=-1)
    log_probs, guided = Guidance(2.0, 2).combine(torch.cat([conditional, unconditional]))
    assert log_probs.equal(conditional)
    torch.testing.assert_close(guided, (2 * conditional - unconditional).log_softmax(dim=-1))


@torch.no_grad()
def test_guidance_towards_no_class_changes_nothing(monkeypatch):
    model = next(models())
    nothing = ImageCondition(torch.full((3,), 2), torch.zeros(3, 0, dtype=torch.long))
    plain = generate(model, nothing, None, sizes=SIZES, choice=SAMPLING)
    assert generate(model, nothing, None, sizes=SIZES, choice=SAMPLING, guidance=3.0).equal(plain)
    guided = generate(model, condition(2), None, sizes=SIZES, choice=SAMPLING, guidance=9.0)
    assert not guided.equal(generate(model, condition(2), None, sizes=SIZES, choice=SAMPLING))


def test_any_number_of_images_is_generated(monkeypatch):
    monkeypatch.setattr("regard.tasks.image_generation.generate.BATCH_IMAGES", 2)
    assert generate(next(models()), condition(3), None, sizes=SIZES, choice=LevelMode.MOST_LIKELY).shape == (3, 60)


def test_samples_of_every_batch_differ(monkeypatch):
    together = generate(next(models()), condition(7), None, sizes=SIZES, choice=SAMPLING)
    assert len(together.unique(dim=0)) == 7
    monkeypatch.setattr("regard.tasks.image_generation.generate.BATCH_IMAGES", 2)
    assert generate(next(models()), condition(7), None, sizes=SIZES, choice=SAMPLING).equal(together)


def test_the_progress_bar_is_shown_on_a_terminal(monkeypatch, capsys):
    with progress_bar(2) as on_step:
        on_step()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar(2) as on_step:
        on_step()
        on_step()
    assert "painting" in capsys.readouterr().err
