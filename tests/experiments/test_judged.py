"""Verdicts of experiments that train: figures that speak for a claim, and then one that turns the verdict round."""

from __future__ import annotations

import copy

import pytest

from regard.core.registry import find
from regard.experiments import (
    alignment,
    bottleneck,
    exposure_bias,
    heads,
    hierarchy,
    local_attention,
    parallel,
    patches,
    query_key_projections,
    residual,
    soft_hard,
)
from regard.experiments import relative as music
from regard.experiments._translation_models import MODELS


def rows(names, **values):
    """The same figures for every name, or those that a dict gives it; names of figures are as in the files."""
    return {
        f"{name}, seed 1": {figure: each[name] if isinstance(each, dict) else each for figure, each in values.items()}
        for name in names
    }


def changed(figures, cell, figure, value):
    other = copy.deepcopy(figures)
    other[cell][figure] = value
    return other


def of_parallel():
    chain = {"seq2seq": 10, "bahdanau": 12, "transformer": 0}
    return {
        f"{kind}, n = {n}": {
            "n": n,
            "operations in a chain, training": 50 + each * n,
            "calls of the decoder, decoding": n,
            "tokens/s, training": 100.0,
            "tokens/s, decoding": 10.0,
        }
        for kind, each in chain.items()
        for n in (64, 128)
    }


def of_local():
    bits = {f"{kind}, digits, seed 1": {"bits a pixel": 2.0} for kind in local_attention.VARIANTS}
    grows = {"full": 2, "local_1d": 1, "local_2d": 1}
    return bits | {
        f"{kind}, side {side}": {"pixels": side**2, "milliseconds": float(side ** (2 * power))}
        for kind, power in grows.items()
        for side in (16, 32)
    }


def of_exposure():
    given = {f"true words given, {part}": 0.9 for part in ("all", *exposure_bias.PARTS)}
    alone = dict(
        zip((f"on its own, {part}" for part in ("all", *exposure_bias.PARTS)), (0.6, 0.8, 0.6, 0.4), strict=True)
    )
    return {f"{kind}, seed 1": given | alone for kind in exposure_bias.VARIANTS}


def of_residual():
    return {
        f"{kind}, {depth} layers, seed 1": {"nats a token": 2.0 + (kind != "both"), residual.ALIKE: 0.5}
        for kind in residual.VARIANTS
        for depth in residual.DEPTHS
    }


def of_patches():
    lead = dict(zip(patches.SIZES, (20.0, 8.0, 1.0), strict=True))
    return {
        f"{kind}, {size} images, seed 1": {"accuracy": 70.0 + (lead[size] if kind == "CNN" else 0.0)}
        for kind in patches.VARIANTS
        for size in patches.SIZES
    }


def of_bidirectional():
    f1 = {"both directions, text read before": 0.8, "both directions, nothing read": 0.4}
    return rows([*f1, "one direction, text read before", "one direction, nothing read"], **{"F1 of entities": 0.5}) | {
        f"{name}, seed 1": {"F1 of entities": value} for name, value in f1.items()
    }


def of_heads():
    loss = {"1 head": 1.2, "2 heads": 1.1, "4 heads": 1.0, "8 heads": 1.1}
    looks = {f"most on {role}": 0.5 for role in heads.ROLES}
    return rows(loss, loss=loss, BLEU=30.0, **{"heads that can go": 0.5}, **looks)


def of_alignment():
    found = {alignment.ERROR: 0.3, alignment.DIAGONAL: 0.6, alignment.GRADIENT: 0.5}
    return rows(alignment.VARIANTS, **found, **{alignment.REMOVED: 0.6, alignment.ANY: 0.2})


def of_hierarchy():
    short, middle, long = (f"accuracy, {length} sentences" for length in hierarchy.LENGTHS)
    found = {short: 0.9, middle: 0.8, long: {"two levels": 0.9, "one level": 0.6}}
    return rows(hierarchy.VARIANTS, **found, weights=100, **{hierarchy.TIME: 5.0})


def of_relative():
    once, twice = (f"nats, {name}" for name in music.LENGTHS)
    kinds = list(music.VARIANTS.values())
    nats = {once: (0.7, 0.7, 0.6), twice: (2.0, 1.0, 0.6)}
    return rows(kinds, **{figure: dict(zip(kinds, each, strict=True)) for figure, each in nats.items()})


def of_bottleneck():
    last = f"group {bottleneck.GROUPS}"
    found = {"BLEU, group 1": 80.0, f"BLEU, {last}": {kind: 40.0 if kind == "seq2seq" else 70.0 for kind in MODELS}}
    return rows(MODELS, **found, **{"words, group 1": 5.0, f"words, {last}": 15.0})


CASES = {  # what speaks for the claim; and a cell, a figure and a value that speak against it
    "parallel": (of_parallel, ("transformer, n = 128", "operations in a chain, training", 5000)),
    "cheating": (
        lambda: rows(["causal mask", "no mask"], **{
            "loss, true words given": {"causal mask": 2.0, "no mask": 0.1},
            "BLEU, on its own": {"causal mask": 30.0, "no mask": 1.0},
        }),
        ("no mask, seed 1", "BLEU, on its own", 29.0),
    ),
    "query": (
        lambda: rows(["state before", "state of the step", "state of the step, all at once"], **{
            "BLEU": 30.0,
            "alignment error": {"state before": 0.5, "state of the step": 0.3, "state of the step, all at once": 0.4},
            "milliseconds a step": {"state before": 40, "state of the step": 40, "state of the step, all at once": 10},
        }),
        ("state before, seed 1", "alignment error", 0.2),
    ),
    "scores": (
        lambda: rows(["additive", "concat", "cosine", "dot", "general", "scaled_dot"], **{
            "BLEU": 30.0, "loss": 1.0, "weights of the score": 10,
            "milliseconds a step": {"additive": 20, "concat": 20, "general": 9, "cosine": 9, "dot": 9, "scaled_dot": 9},
        }),
        ("dot, seed 1", "BLEU", 3.0),
    ),
    "adaptive": (
        lambda: rows(["as they are", "learned", query_key_projections.ORACLE], **{
            query_key_projections.HIT: {"as they are": 0.08, "learned": 0.3, query_key_projections.ORACLE: 0.31},
        }),
        ("as they are, seed 1", query_key_projections.HIT, 0.3),
    ),
    "residual": (of_residual, ("no norm, 12 layers, seed 1", "nats a token", 1.0)),
    "heads": (of_heads, ("1 head, seed 1", "loss", 0.5)),
    "exposure": (of_exposure, ("luong, seed 1", "on its own, last third", 0.9)),
    "bottleneck": (of_bottleneck, ("luong, seed 1", f"BLEU, group {bottleneck.GROUPS}", 5.0)),
    "alignment": (of_alignment, ("luong, seed 1", alignment.ERROR, 0.7)),
    "relative": (of_relative, ("relative, seed 1", "nats, twice that", 3.0)),
    "local": (of_local, ("local_2d, digits, seed 1", "bits a pixel", 4.0)),
    "hierarchy": (of_hierarchy, ("one level, seed 1", "accuracy, 16 sentences", 0.95)),
    "patches": (of_patches, ("ViT, 60 images, seed 1", "accuracy", 95.0)),
    "bidirectional": (of_bidirectional, ("one direction, text read before, seed 1", "F1 of entities", 0.9)),
    "soft_hard": (
        lambda: rows(soft_hard.VARIANTS, **{
            soft_hard.BLEU: {"soft": 60.0, "hard": 40.0}, "pointing": 50.0, soft_hard.TIME: 30.0,
            soft_hard.NOISE: {"soft": 0.0, "hard": 2.0},
        }),
        ("hard, seed 1", soft_hard.BLEU, 70.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_follows_the_numbers(name):
    make, against = CASES[name]
    judge = find("regard.experiments", name).verdict
    assert judge(make()).holds
    assert not judge(changed(make(), *against)).holds
    assert judge(make()).text != judge(changed(make(), *against)).text


@pytest.mark.parametrize("name", ["bottleneck", "query"])
def test_models_that_have_learned_too_little_are_not_judged(name):
    figures = CASES[name][0]()
    weak = {
        cell: {figure: value / 10 if "BLEU" in figure else value for figure, value in numbers.items()}
        for cell, numbers in figures.items()
    }
    said = find("regard.experiments", name).verdict(weak)
    assert said.holds is None and said.said == "not decided" and "Too little is learned to judge" in said.text


def test_a_chain_is_as_long_as_its_loop():
    import torch

    x = torch.ones(3, requires_grad=True)
    once, many = x.sin().sum(), x
    for _ in range(10):
        many = many.sin()
    assert parallel.longest_chain(many.sum()) == parallel.longest_chain(once) + 9
