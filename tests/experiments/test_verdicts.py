"""Verdicts follow the figures: figures against a claim change its verdict."""

from __future__ import annotations

import math

import pytest
import torch

from regard.experiments import (
    complexity,
    gradients,
    hierarchy,
    length_extrapolation,
    position_requirements,
    scaling,
    soft_hard,
    word_order,
)
from regard.experiments._verdict import is_inconclusive, is_separated


def test_position_requirements():
    met = dict.fromkeys([*position_requirements.REQUIREMENTS, "features_in_use"], 1.0)
    figures = {name: met | {"bounded": 0.0} for name in position_requirements.NAIVE} | {"sinusoidal": met}
    assert position_requirements.verdict(figures).holds
    assert not position_requirements.verdict(figures | {"sinusoidal": met | {"unique": 0.0}}).holds
    assert not position_requirements.verdict(figures | {"index": met}).holds


def test_gradients():
    def figures(far):
        return {
            f"{name}, seed 1": {f"{distance} back": 1.0 if distance < 100 else far[name] for distance in
                                gradients.DISTANCES}
            for name in gradients.NETS
        }  # fmt: skip

    far_gradients = {"RNN": 1e-9, "LSTM": 1e-5, "LSTM with attention": 0.5, "self-attention": 1.0}
    assert gradients.verdict(figures(far_gradients)).holds
    assert not gradients.verdict(figures(far_gradients | {"LSTM": 0.5})).holds
    assert "LSTM 2," in gradients.verdict(figures(far_gradients | {"LSTM": 0.5})).text


def test_word_order():
    change, accuracy = word_order.PERMUTATION_CHANGE, word_order.ACCURACY
    figures = {"none": {change: 1e-7, accuracy: 0.1}, "rotary": {change: 2.0, accuracy: 1.0}}
    assert word_order.verdict(figures).holds
    assert not word_order.verdict(figures | {"none": {change: 0.5, accuracy: 0.1}}).holds
    assert not word_order.verdict(figures | {"rotary": {change: 2.0, accuracy: 0.3}}).holds


def test_length_extrapolation():
    def figures(short, long):
        values = {"relative": (1.0, 1.0), "sinusoidal": (short, long)}
        lengths = length_extrapolation.LENGTHS
        return {
            f"{name}, seed 1": {
                length_extrapolation.ACCURACIES[length]: value
                for length, value in zip(lengths, (before, after, after), strict=True)
            }
            for name, (before, after) in values.items()
        }

    assert length_extrapolation.verdict(figures(1.0, 0.95)).holds
    result = length_extrapolation.verdict(figures(1.0, 0.5))
    assert result.holds is False and "Schemes that retain 90%: relative." in result.text
    assert length_extrapolation.verdict(figures(0.5, 0.5)).holds is None


def test_scaling():
    def figures(accuracy, gradient):
        return {
            f"{name}, d = {dim}, seed 1": {
                scaling.STD: dim**0.5 if score == "dot" else 1.0,
                scaling.ENTROPY: 0.5,
                scaling.GRADIENT: gradient[score],
                scaling.ACCURACY: accuracy[score],
            }
            for dim in scaling.WIDTHS
            for score, name in scaling.NAMES.items()
        }

    vanishing, stable = {"dot": 0.01, "scaled_dot": 0.2}, {"dot": 0.2, "scaled_dot": 0.2}
    assert scaling.verdict(figures({"dot": 0.5, "scaled_dot": 0.9}, vanishing)).holds
    assert not scaling.verdict(figures({"dot": 0.9, "scaled_dot": 0.9}, vanishing)).holds
    assert not scaling.verdict(figures({"dot": 0.89, "scaled_dot": 0.9}, vanishing)).holds  # too small a difference
    assert not scaling.verdict(figures({"dot": 0.5, "scaled_dot": 0.9}, stable)).holds


def complexity_figures(attention=2.0, path_length=1, dilated=6):
    exponents = dict.fromkeys(complexity.VARIANTS, 1.0) | {"self-attention": attention, complexity.TABLE: 2.0}
    steps = {
        "self-attention": path_length,
        complexity.TABLE: 1,
        "local attention": 4,
        "recurrent": 255,
        "convolution": 255,
        complexity.DILATED: dilated,
    }
    sizes = [(n, complexity.WIDTH) for n in (512, 1024)] + [(complexity.LENGTH, d) for d in (64, 128)]
    times = {
        f"{kind}, n = {n}, d = {d}": {
            "n": n,
            "d": d,
            complexity.TIME: (n / 512) ** power * d,
            complexity.SAVED_MEMORY: n * d,
        }
        for kind, power in exponents.items()
        for n, d in sizes
    }
    return times | {f"{kind}, path": {complexity.STEPS: steps[kind]} for kind in complexity.VARIANTS}


def test_complexity():
    assert complexity.verdict(complexity_figures()).holds
    assert not complexity.verdict(complexity_figures(attention=1.0)).holds
    assert not complexity.verdict(complexity_figures(path_length=3)).holds
    assert not complexity.verdict(complexity_figures(dilated=255)).holds
    assert "from n = 512 for recurrent" in complexity.verdict(complexity_figures()).text


def test_path_lengths_are_measured():
    lengths = {kind: complexity._measure_path(kind)[complexity.STEPS] for kind in complexity.VARIANTS}
    assert lengths == {
        "self-attention": 1,
        complexity.TABLE: 1,
        "local attention": 4,  # ⌈255 / 64⌉
        "recurrent": 255,
        "convolution": 255,
        complexity.DILATED: 6,  # ⌈log₃ 256⌉
    }


def test_crossover_length():
    lengths = (100.0, 200.0, 400.0)
    quadratic, linear = ({n: n**power for n in lengths} for power in (2, 1))
    assert complexity.crossover_length(quadratic, {n: 64 * n for n in lengths}) == pytest.approx(64)
    assert complexity.crossover_length(linear, quadratic) == math.inf


def test_saved_tensors_are_counted_once():
    x = torch.randn(1, 64, 8)
    attention, convolution = (
        complexity.saved_tensor_bytes(complexity.VARIANTS[kind](8), x) for kind in (complexity.TABLE, "convolution")
    )
    assert attention >= 64 * 64 * 4 > convolution


def test_is_separated():
    assert is_separated([1.0, 2.0], [2.1, 5.0])
    assert not is_separated([1.0, 2.2], [2.1, 5.0])


def test_seeds_that_differ_more_than_models_are_inconclusive():
    assert is_inconclusive([0.76, 1.0], [0.8, 0.93], clear=0.05)
    assert not is_inconclusive([0.76, 0.8], [0.81, 1.0], clear=0.05)  # separated
    assert not is_inconclusive([0.81, 1.0], [0.76, 0.8], clear=0.05)
    assert not is_inconclusive([0.98, 1.0], [0.99, 1.0], clear=0.05)  # equal within the tolerance

    def documents(one_level, two_levels):
        accuracy = {"one level": one_level, "two levels": two_levels}
        return {
            f"{kind}, seed {seed}": {f"accuracy, {length} sentences": value for length in hierarchy.LENGTHS}
            | {"parameters": 9.0, hierarchy.TIME: 1.0}
            for kind, values in accuracy.items()
            for seed, value in enumerate(values, start=1)
        }

    result = hierarchy.verdict(documents([0.76, 1.0], [0.8, 0.93]))
    assert result.holds is None
    assert result.reason.endswith(
        "(76% to 100% and 80% to 93% on the longest); --minutes 15 uses more seeds and trains longer."
    )
    assert hierarchy.verdict(documents([1.0, 1.0], [1.0, 1.0])).holds is False

    def captions(hard, soft):
        return {
            f"{kind}, seed {seed}": {
                soft_hard.BLEU: value,
                "pointing": 0.2,
                soft_hard.NOISE: noise,
                soft_hard.TIME: 1.0,
            }
            for kind, values, noise in (("hard", hard, 0.2), ("soft", soft, 0.0), (soft_hard.MIXED, hard, 0.1))
            for seed, value in enumerate(values, start=1)
        }

    assert soft_hard.verdict(captions([29.3, 57.4], [35.1, 54.9])).holds is None
    assert soft_hard.verdict(captions([29.3, 30.4], [35.1, 54.9])).holds is True
    assert soft_hard.verdict(captions([57.0, 58.0], [35.1, 54.9])).holds is False
