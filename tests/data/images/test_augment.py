"""Augmentation changes only the requested properties of images and labels."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.data.images.augment import Augmentation, apply_mixup, augment, crop, erase, flip, warp


def images(b=64, c=2, h=9, w=7):
    return torch.rand(b, c, h, w) * 2 - 1


def test_no_augmentation_returns_the_images():
    x, labels = images(), torch.arange(64)
    mixed = augment(x, labels, Augmentation())
    assert mixed.images is x and mixed.labels is labels and mixed.weight.eq(1).all()


@pytest.mark.parametrize("name", ["crop", "flip", "shift", "erase", "mixup"])
def test_shapes_ranges_and_seeds(name):
    augmentation = Augmentation(**{name: 2 if name == "crop" else 0.5})
    x, labels = images(), torch.arange(64)
    torch.manual_seed(1)
    first = augment(x, labels, augmentation)
    torch.manual_seed(1)
    second = augment(x, labels, augmentation)
    assert first.images.shape == x.shape and first.images.abs().max() <= 1 + 1e-6
    assert not first.images.equal(x) and first.images.equal(second.images)


def test_crops_are_moved_images():
    x = images(b=1).expand(200, -1, -1, -1)
    padded = torch.nn.functional.pad(x[0], (2, 2, 2, 2), value=-1.0)
    crops = [padded[:, i : i + 9, j : j + 7] for i in range(5) for j in range(5)]
    indices = [next(n for n, expected in enumerate(crops) if expected.equal(image)) for image in crop(x, 2)]
    assert len(set(indices)) == 25


def test_flips_are_all_or_nothing():
    x = images(400)
    flipped = [image.equal(before.flip(2)) for image, before in zip(flip(x, 0.25), x, strict=True)]
    unchanged = [image.equal(before) for image, before in zip(flip(x, 0.0), x, strict=True)]
    assert 60 < sum(flipped) < 140 or all(unchanged)
    assert flip(x, 1.0).equal(x.flip(3))


def test_a_warp_of_magnitude_zero_is_the_identity():
    x = images()
    torch.testing.assert_close(warp(x, 0.0), x)
    assert (warp(-torch.ones(3, 1, 5, 5), 0.9) + 1).abs().max() < 1e-6  # pixels from beyond the border are black


def test_erased_is_one_rectangle_of_a_bounded_share():
    x = torch.full((300, 1, 16, 16), 2.0)  # brighter than any noise
    erased = erase(x, 0.5)[:, 0] != 2
    changed = erased.flatten(1).any(dim=1)
    assert 100 < int(changed.sum()) < 200
    for image in erased[changed]:
        rows, columns = image.any(dim=1), image.any(dim=0)
        assert int(image.sum()) == int(rows.sum() * columns.sum()) <= 0.45 * 256


def test_mixed_labels_belong_to_their_images():
    x, labels = torch.arange(50.0)[:, None, None, None].expand(-1, 1, 2, 2), torch.arange(50)
    mixed = apply_mixup(x, labels, 0.4)
    expected = mixed.labels * mixed.weight + mixed.other_labels * (1 - mixed.weight)
    torch.testing.assert_close(mixed.images[:, 0, 0, 0], expected)
    assert mixed.weight.min() >= 0.5


@pytest.mark.parametrize("options", [{"crop": -1}, {"mixup": -0.1}])
def test_negative_is_refused(options):
    with pytest.raises(ConfigError, match=r"must not be negative; 0 switches them off$"):
        Augmentation(**options)


@pytest.mark.parametrize("name", ["flip", "shift", "erase"])
def test_probabilities_have_bounds(name):
    with pytest.raises(ConfigError, match=rf"^{name}=1.5: must lie in 0 … 1; 0 switches it off$"):
        Augmentation(**{name: 1.5})
