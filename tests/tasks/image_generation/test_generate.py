"""Images made place by place: scores are those of the whole image, what is known stays, images are made apart."""

import pytest
import torch

from regard.core.data_specs import ImageGenerationSpec
from regard.core.protocols.image_generator import ImageCondition
from regard.decoding.strategies import sample
from regard.models import image_transformer, pixel_cnn
from regard.tasks.image_generation.generate import UNKNOWN, generate, generate_batch, progress_bar, teacher_forcing_loss

SIZES = ImageGenerationSpec(height=5, width=4, channels=3, levels=4, num_classes=2)
HOW = sample.Config(seed=3)
CHANGES = [
    {"attention": "full"},
    {"attention": "local_1d"},
    {"attention": "local_2d"},
    {"places": "pixel", "output": "logistic"},
    {"places": "pixel"},
]


def subject(count):
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
@pytest.mark.parametrize("model", list(models()), ids=[*(" ".join(change.values()) for change in CHANGES), "pixel_cnn"])
def test_the_score_of_what_is_made_is_that_of_the_whole(model):
    known = torch.full((2, 60), UNKNOWN)
    painted = generate_batch(model, subject(2), known, num_levels=4, sampling=HOW)
    assert painted.levels.min() >= 0 and painted.levels.max() < 4
    for row in range(2):
        alone = ImageCondition(*(part[row : row + 1] for part in subject(2)))
        whole = -teacher_forcing_loss(model, painted.levels[row : row + 1], alone, num_levels=4)
        assert float(painted.scores[row]) == pytest.approx(float(whole), rel=1e-4)
    first = generate_batch(model, subject(1), known[:1], num_levels=4, sampling=HOW)
    assert first.levels.equal(painted.levels[:1])


def test_what_is_known_stays_wherever_it_is():
    model = next(models())
    known = torch.full((2, 60), UNKNOWN)
    known[0, :30] = torch.arange(30) % 4
    known[1, 40:] = 2
    painted = generate_batch(model, subject(2), known, num_levels=4, sampling=None).levels
    assert painted[0, :30].equal(known[0, :30]) and painted[1, 40:].equal(known[1, 40:])
    whole = torch.arange(60)[None] % 4
    assert generate_batch(model, subject(1), whole, num_levels=4, sampling=HOW).levels.equal(whole)


def test_any_number_is_made(monkeypatch):
    monkeypatch.setattr("regard.tasks.image_generation.generate.TOGETHER", 2)
    assert generate(next(models()), subject(3), None, sizes=SIZES, sampling=None).shape == (3, 60)


def test_progress_is_drawn_where_somebody_watches(monkeypatch, capsys):
    with progress_bar(2) as tick:
        tick()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar(2) as tick:
        tick()
        tick()
    assert "painting" in capsys.readouterr().err
