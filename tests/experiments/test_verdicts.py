"""Verdicts follow the numbers: figures that speak against a claim turn them round."""

from __future__ import annotations

from regard.experiments import gradients, order, requirements, scaling


def test_requirements():
    kept = dict.fromkeys([*requirements.ASKED, "features_in_use"], 1.0)
    figures = {name: kept | {"bounded": 0.0} for name in requirements.NAIVE} | {"sinusoidal": kept}
    assert requirements.verdict(figures).holds
    assert not requirements.verdict(figures | {"sinusoidal": kept | {"unique": 0.0}}).holds
    assert not requirements.verdict(figures | {"index": kept}).holds


def test_gradients():
    def figures(far):
        return {
            f"{name}, seed 1": {f"{distance} back": 1.0 if distance < 100 else far[name] for distance in
                                gradients.DISTANCES}
            for name in gradients.NETS
        }  # fmt: skip

    lost = {"RNN": 1e-9, "LSTM": 1e-5, "LSTM with attention": 0.5, "self-attention": 1.0}
    assert gradients.verdict(figures(lost)).holds
    assert not gradients.verdict(figures(lost | {"LSTM": 0.5})).holds
    assert "LSTM 2," in gradients.verdict(figures(lost | {"LSTM": 0.5})).text


def test_order():
    moved, short, long = "moved by a permutation", "right at 16 tokens", "right at 48 tokens"
    figures = {"none": {moved: 1e-7, short: 0.1, long: 0.1}, "rotary": {moved: 2.0, short: 1.0, long: 0.8}}
    assert order.verdict(figures).holds
    assert not order.verdict(figures | {"none": {moved: 0.5, short: 0.1, long: 0.1}}).holds
    assert not order.verdict(figures | {"rotary": {moved: 2.0, short: 0.3, long: 0.3}}).holds


def test_scaling():
    def figures(quality):
        return {
            f"{name}, d = {dim}, seed 1": {
                "deviation of scores": dim**0.5 if score == "dot" else 1.0,
                "entropy, share of the most": 0.5,
                "accuracy when trained": quality[score],
            }
            for dim in scaling.WIDTHS
            for score, name in scaling.NAMES.items()
        }

    assert scaling.verdict(figures({"dot": 0.5, "scaled_dot": 0.9})).holds
    assert not scaling.verdict(figures({"dot": 0.9, "scaled_dot": 0.9})).holds
