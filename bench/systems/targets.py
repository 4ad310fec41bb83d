"""Targets: the ratio of regard's rate to that of a peer at its fastest measured setting."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

Works = dict[str, dict[str, list[dict[str, Any]]]]  # work -> system -> its rounds


@dataclass(frozen=True)
class Target:
    """A row of the table; a system belongs to `against` if its name starts with it."""

    work: str
    task: str
    against: str
    least: float
    system: str = "regard"


NO_RECIPE = "not measured: each peer needs its own recipe and hours of training"
TARGETS = (
    Target("train TINY", "train-tiny", "transformers", 2.5),
    Target("train BASE", "train-base", "transformers", 1.6),
    Target("train bahdanau 512", "train-bahdanau", "PyTorch loop", 2.0),
    Target("train GPT, characters", "gpt", "nanoGPT", 1.6),
    Target("train GPT, 8,000 subwords", "gpt_words", "nanoGPT", 1.8),
    Target("train BERT", "bert", "HF BERT", 2.5),
    Target("train ViT", "vit", "timm", 1.5),
    Target("train word2vec", "word2vec", "gensim", 1.0),
    Target("train hierarchical attention", "hierarchical", "plain loop", 1.5),
    Target("decode TINY greedy, native", "decode-tiny-greedy", "CTranslate2 float32", 1.0),
    Target("decode TINY beam 5, native", "decode-tiny-beam", "CTranslate2 float32", 1.0),
    Target("single sentence TINY greedy, native", "single-tiny-greedy", "transformers", 3.0),
    Target("single sentence BASE greedy, native", "single-base-greedy", "transformers", 2.0),
    Target("texts: 10,000 lines, greedy, engine auto", "text-corpus-greedy", "CTranslate2", 0.95, system="regard auto"),
    Target("texts: 10,000 lines, beam 5, engine auto", "text-corpus-beam", "patient", 0.95, system="regard auto"),
    Target("texts: batch of 64, greedy, engine auto", "text-batch-greedy", "CTranslate2", 0.95, system="regard auto"),
    Target("texts: one at a time, greedy, engine auto", "text-single-greedy", "CTranslate2", 0.9, system="regard auto"),
    Target("start to first translation, engine auto", "startup-tiny", "CTranslate2", 0.5, system="regard auto"),
    Target("language generation, native", "generation", "HF generate", 5.0),
    Target("language generation, exported", "exported", "HF generate", 5.0),
    Target("predict 10,000 documents", "documents", "plain loop", 1.5),
    Target("predict 10,000 sentences with tags", "tags", "plain loop", 1.5),
    Target("predict items for 10,000 users", "recommendation", "plain loop", 1.5),
    Target("predict captions of 2,000 images", "captions", "plain loop", 1.5),
    Target("200 clients, translation, one process", "clients-translation", "own corpus", 0.8),
    Target("200 clients, generation, one process", "clients-language", "own corpus", 0.8),
)
OPEN = (  # work, compared with, target, reason
    ("minutes to 37 BLEU on Multi30k de-en", "transformers' Trainer", "≥ 2", NO_RECIPE),
    ("minutes to 1.55 nats on tiny Shakespeare", "nanoGPT's script", "≥ 2", NO_RECIPE),
    ("minutes to 75 % on CIFAR-10", "timm's script", "≥ 2", NO_RECIPE),
    ("minutes to 0.90 on IMDB", "transformers' Trainer", "≥ 2", NO_RECIPE),
)
LIKE = (  # the same number format on both sides
    Target("decode TINY greedy, float32", "decode-tiny-greedy", "CTranslate2 float32", 1.0),
    Target("decode TINY greedy, int8", "decode-tiny-greedy", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("decode TINY beam 5, float32", "decode-tiny-beam", "CTranslate2 float32", 1.0),
    Target("decode TINY beam 5, int8", "decode-tiny-beam", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("decode BASE greedy, float32", "decode-base-greedy", "CTranslate2 float32", 1.0),
    Target("decode BASE beam 5, float32", "decode-base-beam", "CTranslate2 float32", 1.0),
    Target("single sentence BASE greedy, int8", "single-base-greedy", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("corpus, greedy, float32", "corpus-tiny-greedy", "CTranslate2 float32", 1.0),
    Target("corpus, greedy, int8", "corpus-tiny-greedy", "CTranslate2 int8", 1.0, system="regard int8"),
    Target("corpus, beam 5, float32", "corpus-tiny-beam", "CTranslate2 float32", 1.0),
    Target("corpus, beam 5, int8", "corpus-tiny-beam", "CTranslate2 int8", 1.0, system="regard int8"),
)


def rates(rounds: list[dict[str, Any]]) -> list[float]:
    """Return the rates of one system, round by round; that of a start is one divided by its seconds."""
    return [record["rate"] if "rate" in record else 1 / record["ready"] for record in rounds]


def ratios(system: list[dict[str, Any]], peer: list[dict[str, Any]]) -> list[float]:
    """Return our rate divided by the peer's in each round; both were measured shortly after each other."""
    return [a / b for a, b in zip(rates(system), rates(peer), strict=False)]


def spread(values: list[float]) -> str:
    """Format the median, and the range in brackets."""
    median = f"{statistics.median(values):.2f}"
    return median if len(values) == 1 else f"{median} ({min(values):.2f} to {max(values):.2f})"


def best(systems: dict[str, list[dict[str, Any]]], target: Target) -> str | None:
    """Return the peer's fastest setting."""
    names = [name for name, rounds in systems.items() if rounds and name.startswith(target.against)]
    return max(names, key=lambda name: statistics.median(rates(systems[name])), default=None)


def row(target: Target, works: Works) -> list[str]:
    """Return the cells work, compared with, target, measured, met."""
    systems = works.get(target.task, {})
    peer, system = best(systems, target), systems.get(target.system, [])
    if peer is None or not system:
        return [target.work, target.against, f"≥ {target.least}", "not measured", ""]
    measured = ratios(system, systems[peer])
    reached = "yes" if statistics.median(measured) >= target.least else "**no**"
    return [target.work, peer, f"≥ {target.least}", spread(measured), reached]
