"""The benchmarks of images: every system does its work, and figures say what they mean."""

import image_cost
import images as bench
import images_page
import pytest
import torch


def test_our_vit_trains():
    assert bench.vit_training(True)["regard"]()() == 2


def test_the_window_is_smaller_than_all_keys():
    window, everything = (bench.cache_bytes(True, attention)() for attention in ("local_2d", "full"))
    assert 0 < window < everything


def test_bytes_are_counted_once():
    buffer = torch.zeros(100)
    assert bench.size_of((buffer[:10], buffer[5:], torch.zeros(3))) == 412


def test_exponents_and_the_crossover():
    full = {str(side): {"seconds": side**4 / 1e4, "megabytes": 1.0 * side} for side in image_cost.SIDES}
    local = {str(side): {"seconds": side**2 / 50, "megabytes": 1.0 * side} for side in image_cost.SIDES}
    assert image_cost.exponent(full, "seconds") == pytest.approx(4)
    assert image_cost.exponent(local, "seconds") == pytest.approx(2)
    assert image_cost.crossover(full, local, "seconds") == 16
    assert image_cost.summary({"full": full, "local_2d": local})[1].endswith(
        "a step is faster than full from side 16 on"
    )


def test_the_results_say_what_samples_are_taken_for_and_what_a_side_costs():
    figures = {"samples": 20, "distinct": 19, "recognised": 95.0, "by_class": [90.0, 100.0], "real_recognised": 98.3}
    page = images_page.recognised(figures)
    assert "generated 20 digits at temperature 1, equally many of each class, 19 of them distinct." in page
    assert "assigns 95.0 % of them to the requested class (0: 90, 1: 100)" in page
    points = {str(side): {"seconds": side**2 / 50, "megabytes": 1.0 * side} for side in image_cost.SIDES}
    assert "- full: seconds ~ side^2.00" in images_page.cost({"full": points})
