"""The digits of scikit-learn, as brightness."""

from regard.data.builtin import digits
from regard.data.images.resize import to_levels


def test_all_images_and_levels():
    pixels, labels = digits.load()
    assert pixels.shape == (1797, 8, 8, 1) and len(labels) == 1797 and set(labels.tolist()) == set(range(10))
    levels = to_levels(pixels, digits.LEVELS)
    assert set(levels.ravel().tolist()) == set(range(17))


def test_levels_equal_the_values_of_scikit_learn():
    from sklearn.datasets import load_digits

    pixels, _ = digits.load()
    assert (to_levels(pixels, digits.LEVELS)[..., 0] == load_digits().images).all()
