"""Verdicts of experiments that train: figures that support a claim, and one change that refutes it."""

from __future__ import annotations

import copy

import pytest

from regard.core.registry import find
from regard.experiments import (
    alignment,
    bidirectional,
    bottleneck,
    causal_mask,
    exposure_bias,
    heads,
    hierarchy,
    local_attention,
    parallel,
    patches,
    query_key_projections,
    query_state,
    relative,
    residual,
    soft_hard,
    speech_alignment,
)
from regard.experiments._translation_models import MODELS


def rows(names, **values):
    """Figures of cells with one seed: the same value for every cell, or a dict of values by cell."""
    return {
        f"{name}, seed 1": {
            figure: value[name] if isinstance(value, dict) else value for figure, value in values.items()
        }
        for name in names
    }


def changed(figures, cell, figure, value):
    result = copy.deepcopy(figures)
    result[cell][figure] = value
    return result


def parallel_figures():
    growth = {"seq2seq": 10, "bahdanau": 12, "transformer": 0}
    return {
        f"{kind}, n = {n}": {
            "n": n,
            "sequential operations, training": 50 + slope * n,
            "decoder calls, decoding": n,
            "tokens/s, training": 100.0,
            "tokens/s, decoding": 10.0,
        }
        for kind, slope in growth.items()
        for n in (64, 128)
    }


def local_attention_figures():
    bits = {f"{kind}, digits, seed 1": {local_attention.BITS: 2.0} for kind in local_attention.VARIANTS}
    exponents = {"full": 2, "local_1d": 1, "local_2d": 1}
    return bits | {
        f"{kind}, side {side}": {"pixels": side**2, "milliseconds": float(side ** (2 * power))}
        for kind, power in exponents.items()
        for side in (16, 32)
    }


def exposure_bias_figures():
    parts = ("all", *exposure_bias.PARTS)
    teacher_forced = {f"{exposure_bias.TEACHER_FORCED}, {part}": 0.9 for part in parts}
    accuracies = zip(parts, (0.6, 0.8, 0.6, 0.4), strict=True)
    free_running = {f"{exposure_bias.FREE_RUNNING}, {part}": accuracy for part, accuracy in accuracies}
    return {f"{kind}, seed 1": teacher_forced | free_running for kind in exposure_bias.VARIANTS}


def residual_figures():
    return {
        f"{kind}, {depth} layers, seed 1": {residual.NATS: 2.0 + (kind != "both"), residual.SIMILARITY: 0.5}
        for kind in residual.VARIANTS
        for depth in residual.DEPTHS
    }


def patches_figures():
    error = {"ViT, 100 images": 0.6, "CNN, 100 images": 0.2, "ViT, 4000 images": 0.06, "CNN, 4000 images": 0.05}
    return rows(error, **{patches.ERROR: error})


def bidirectional_figures():
    f1 = {
        "bidirectional, pretrained": 0.8,
        "bidirectional, not pretrained": 0.4,
        "causal, pretrained": 0.5,
        "causal, not pretrained": 0.5,
    }
    return rows(f1, **{bidirectional.F1: f1})


def heads_figures():
    loss = {"1 head": 1.2, "2 heads": 1.1, "4 heads": 1.0, "8 heads": 1.1}
    role_weights = {f"max on {role}": 0.5 for role in heads.ROLES}
    return rows(loss, loss=loss, BLEU=30.0, **{heads.PRUNABLE: 0.5}, **role_weights)


def alignment_figures():
    values = {alignment.ERROR: 0.3, alignment.DIAGONAL: 0.6, alignment.GRADIENT: 0.5}
    return rows(alignment.VARIANTS, **values, **{alignment.REMOVED: 0.6, alignment.ANY: 0.2})


def hierarchy_figures():
    short, middle, long = (f"accuracy, {length} sentences" for length in hierarchy.LENGTHS)
    accuracy = {short: 0.9, middle: 0.8, long: {"two levels": 0.9, "one level": 0.6}}
    return rows(hierarchy.VARIANTS, **accuracy, parameters=100, **{hierarchy.TIME: 5.0})


def relative_figures():
    trained, twice = (f"nats, {name}" for name in relative.LENGTHS)
    kinds = list(relative.VARIANTS)
    nats = {trained: (0.7, 0.7, 0.7, 0.6), twice: (2.0, 1.0, 0.9, 0.6)}
    return rows(kinds, **{figure: dict(zip(kinds, values, strict=True)) for figure, values in nats.items()})


def bottleneck_figures():
    last = f"group {bottleneck.GROUPS}"
    bleu = {"BLEU, group 1": 80.0, f"BLEU, {last}": {kind: 40.0 if kind == "seq2seq" else 70.0 for kind in MODELS}}
    return rows(MODELS, **bleu, **{"words, group 1": 5.0, f"words, {last}": 15.0})


CASES = {  # figures that support the claim; and a cell, a figure and a value that refute it
    "parallel": (parallel_figures, ("transformer, n = 128", "sequential operations, training", 5000)),
    "causal_mask": (
        lambda: rows(["causal mask", "no mask"], **{
            causal_mask.LOSS: {"causal mask": 2.0, "no mask": 0.1},
            causal_mask.BLEU: {"causal mask": 30.0, "no mask": 1.0},
        }),
        ("no mask, seed 1", causal_mask.BLEU, 29.0),
    ),
    "query_state": (
        lambda: rows(query_state.VARIANTS, **{
            query_state.BLEU: 30.0,
            query_state.ERROR: {"previous state": 0.5, "current state": 0.3, "current state, parallel": 0.4},
            query_state.TIME: {"previous state": 40, "current state": 40, "current state, parallel": 10},
        }),
        ("previous state, seed 1", query_state.ERROR, 0.2),
    ),
    "scores": (
        lambda: rows(["additive", "concat", "cosine", "dot", "general", "scaled_dot"], **{
            "BLEU": 30.0, "loss": 1.0, "parameters of the score": 10,
            "milliseconds of the attention": dict.fromkeys(["cosine", "dot", "general", "scaled_dot"], 9)
            | dict.fromkeys(["additive", "concat"], 20),
        }),
        ("dot, seed 1", "BLEU", 3.0),
    ),
    "query_key_projections": (
        lambda: rows(["no projections", "learned projections", "oracle"], **{
            query_key_projections.HIT: {"no projections": 0.08, "learned projections": 0.3, "oracle": 0.31},
        }),
        ("no projections, seed 1", query_key_projections.HIT, 0.3),
    ),
    "residual": (residual_figures, ("no norm, 12 layers, seed 1", residual.NATS, 1.0)),
    "heads": (heads_figures, ("1 head, seed 1", "loss", 0.5)),
    "exposure_bias": (exposure_bias_figures, ("luong, seed 1", "free running, last third", 0.9)),
    "bottleneck": (bottleneck_figures, ("luong, seed 1", f"BLEU, group {bottleneck.GROUPS}", 5.0)),
    "alignment": (alignment_figures, ("luong, seed 1", alignment.ERROR, 0.7)),
    "relative": (relative_figures, ("relative, seed 1", f"nats, {relative.TWICE}", 3.0)),
    "local_attention": (local_attention_figures, ("local_2d, digits, seed 1", local_attention.BITS, 4.0)),
    "hierarchy": (hierarchy_figures, ("one level, seed 1", "accuracy, 16 sentences", 0.95)),
    "patches": (patches_figures, ("ViT, 100 images, seed 1", patches.ERROR, 0.2)),
    "bidirectional": (bidirectional_figures, ("causal, pretrained, seed 1", bidirectional.F1, 0.9)),
    "speech_alignment": (
        lambda: rows(speech_alignment.VARIANTS, **{
            speech_alignment.ERROR: 5.0, speech_alignment.ALIGNMENT: 6.0, speech_alignment.MONOTONIC: 99.0,
            speech_alignment.LONGER: {"content": 30.0, "location": 8.0}, speech_alignment.LONGER_ALIGNMENT: 9.0,
        }),
        ("location, seed 1", speech_alignment.LONGER, 40.0),
    ),
    "soft_hard": (
        lambda: rows(soft_hard.VARIANTS, **{
            soft_hard.BLEU: {"soft": 60.0, "hard": 40.0, soft_hard.MIXED: 50.0}, "pointing": 0.5, soft_hard.TIME: 30.0,
            soft_hard.NOISE: {"soft": 0.0, "hard": 2.0, soft_hard.MIXED: 1.0},
        }),
        ("hard, seed 1", soft_hard.BLEU, 70.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_follows_the_numbers(name):
    make_figures, change = CASES[name]
    verdict = find("regard.experiments", name).verdict
    figures = make_figures()
    assert verdict(figures).holds
    assert not verdict(changed(figures, *change)).holds
    assert verdict(figures).text != verdict(changed(figures, *change)).text
    assert verdict(changed(figures, *change)).reason.startswith("Not met: ")


@pytest.mark.parametrize("name", ["bottleneck", "query_state"])
def test_undertrained_models_are_not_judged(name):
    figures = CASES[name][0]()
    weak = {
        cell: {figure: value / 10 if "BLEU" in figure else value for figure, value in values.items()}
        for cell, values in figures.items()
    }
    result = find("regard.experiments", name).verdict(weak)
    assert result.holds is None and result.label == "not decided" and "undertrained" in result.reason.lower()


def test_the_longest_chain_grows_with_a_loop():
    import torch

    x = torch.ones(3, requires_grad=True)
    single, repeated = x.sin().sum(), x
    for _ in range(10):
        repeated = repeated.sin()
    assert parallel.longest_chain(repeated.sum()) == parallel.longest_chain(single) + 9
