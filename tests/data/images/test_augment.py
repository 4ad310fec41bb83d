"""Augmentation changes what it should and nothing else."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.data.images.augment import Augmentation, apply_mixup, augment, crop, erase, flip, warp


def images(b=64, c=2, h=9, w=7):
    return torch.rand(b, c, h, w) * 2 - 1


def test_nothing_asked_for_changes_nothing():
    x, labels = images(), torch.arange(64)
    mixed = augment(x, labels, Augmentation())
    assert mixed.images is x and mixed.labels is labels and mixed.weight.eq(1).all()


@pytest.mark.parametrize("name", ["crop", "flip", "shift", "erase", "mixup"])
def test_shapes_ranges_and_seeds(name):
    how = Augmentation(**{name: 2 if name == "crop" else 0.5})
    x, labels = images(), torch.arange(64)
    torch.manual_seed(1)
    once = augment(x, labels, how)
    torch.manual_seed(1)
    again = augment(x, labels, how)
    assert once.images.shape == x.shape and once.images.abs().max() <= 1 + 1e-6
    assert not once.images.equal(x) and once.images.equal(again.images)


def test_crops_are_moved_images():
    x = images(b=1).expand(200, -1, -1, -1)
    wide = torch.nn.functional.pad(x[0], (2, 2, 2, 2), value=-1.0)
    places = [wide[:, i : i + 9, j : j + 7] for i in range(5) for j in range(5)]
    which = [next(n for n, place in enumerate(places) if place.equal(image)) for image in crop(x, 2)]
    assert len(set(which)) == 25


def test_flips_are_all_or_nothing():
    x = images(400)
    turned = [image.equal(before.flip(2)) for image, before in zip(flip(x, 0.25), x, strict=True)]
    kept = [image.equal(before) for image, before in zip(flip(x, 0.0), x, strict=True)]
    assert 60 < sum(turned) < 140 or all(kept)
    assert flip(x, 1.0).equal(x.flip(3))


def test_a_warp_of_nothing_is_the_image():
    x = images()
    torch.testing.assert_close(warp(x, 0.0), x)
    assert (warp(-torch.ones(3, 1, 5, 5), 0.9) + 1).abs().max() < 1e-6  # from beyond the border comes the darkest


def test_erased_is_one_rectangle_of_a_bounded_share():
    x = torch.full((300, 1, 16, 16), 2.0)  # no noise is as bright
    gone = erase(x, 0.5)[:, 0] != 2
    some = gone.flatten(1).any(dim=1)
    assert 100 < int(some.sum()) < 200
    for image in gone[some]:
        rows, columns = image.any(dim=1), image.any(dim=0)
        assert int(image.sum()) == int(rows.sum() * columns.sum()) <= 0.45 * 256


def test_mixed_labels_belong_to_their_images():
    x, labels = torch.arange(50.0)[:, None, None, None].expand(-1, 1, 2, 2), torch.arange(50)
    mixed = apply_mixup(x, labels, 0.4)
    told = mixed.labels * mixed.weight + mixed.other_labels * (1 - mixed.weight)
    torch.testing.assert_close(mixed.images[:, 0, 0, 0], told)
    assert mixed.weight.min() >= 0.5


@pytest.mark.parametrize("wrong", [{"crop": -1}, {"mixup": -0.1}])
def test_negative_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"neither is negative; 0 leaves images alone$"):
        Augmentation(**wrong)


@pytest.mark.parametrize("name", ["flip", "shift", "erase"])
def test_shares_have_bounds(name):
    with pytest.raises(ConfigError, match=rf"^{name}=1.5 lies in 0 … 1; 0 leaves images alone$"):
        Augmentation(**{name: 1.5})
