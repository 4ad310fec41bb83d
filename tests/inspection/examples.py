"""Synthetic inspections, for tests of the page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.core.inspectable import Axis, Item, Output, Parent, Token
from regard.inspection.json_format import (
    AlignmentResult,
    Embeddings,
    Faithfulness,
    HeadComputation,
    Inspection,
    Map,
    Positions,
    Stage,
    TrainingSnapshot,
)

SOURCE = ("the", "old", "teacher", "gave", "the", "small", "child", "a", "book", "</s>")
TARGET = ("늙은", "선생님은", "작은", "아이에게", "책을", "주셨어요", ".", "</s>")
TRUTH = ((0, 1), (1, 2), (2, 5), (3, 6), (4, 8), (5, 3), (7, 9))
Array = NDArray[np.float32]


def softmax(scores: NDArray[np.float64]) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def cross(random: np.random.Generator, heads: int, sharp: float = 1.0) -> Array:
    scores = random.normal(0, 1.0, (heads, len(TARGET), len(SOURCE)))
    for row, column in TRUTH:
        scores[:, row, column] += sharp * (1.5 + 4 * random.random(heads))
    return softmax(scores)


def square(random: np.random.Generator, heads: int, size: int, causal: bool) -> Array:
    distance = np.arange(size)[None, :] - np.arange(size)[:, None]
    shift = random.integers(-2, 3, heads)[:, None, None]
    scores = -np.abs(distance[None] - shift) * random.random(heads)[:, None, None] * 2 + random.normal(
        0, 0.6, (heads, size, size)
    )
    if causal:
        scores = np.where(distance[None] > 0, -1e9, scores)
    return softmax(scores)


def axis(labels, title: str) -> Axis:
    return Axis(tuple(Item(label, special=label.startswith("<")) for label in labels), title)


AXES = {
    "source": axis(SOURCE, "source"),
    "output": axis(TARGET, "output"),
    "read": axis(("<s>", *TARGET[:-1]), "read"),
}


def attention(name: str, layer: int, weights: Array, **more) -> Map:
    """Return a map named after its group: encoder, decoder or cross."""
    sides = {"encoder": ("source", "source"), "decoder": ("output", "read"), "cross": ("output", "source")}[name]
    titles = {"encoder": "Source self-attention", "decoder": "Output self-attention", "cross": "Output → source"}
    allowed = np.tril(np.ones((1, *weights.shape[1:]), bool)) if name == "decoder" else None
    return Map(
        f"{name}.{layer}",
        f"{name}.{layer}",
        *sides,
        weights,
        group=name,
        title=titles[name],
        layer=layer,
        inward=name != "cross",
        allowed=allowed,
        **more,
    )


def maps(random: np.random.Generator, layers: int, heads: int, sharp: float = 1.0) -> tuple[Map, ...]:
    def honest(by_row: bool) -> Faithfulness:
        gradient, removal = (tuple(float(x) for x in random.random(heads)) for _ in range(2))
        return Faithfulness(gradient, removal, float(random.random()), float(random.random()), by_row)

    encoder = [
        attention("encoder", layer, square(random, heads, len(SOURCE), False), honesty=honest(False))
        for layer in range(layers)
    ]
    decoder = [
        attention("decoder", layer, square(random, heads, len(TARGET), True), honesty=honest(True))
        for layer in range(layers)
    ]
    crossing = [attention("cross", layer, cross(random, heads, sharp), honesty=honest(True)) for layer in range(layers)]
    return (*encoder, *decoder, *crossing)


def step(random: np.random.Generator, attention_map: Map, head: int) -> HeadComputation:
    _, t, s = attention_map.weights.shape
    q, k, v = (random.normal(0, 1, (n, 16)).astype(np.float32) for n in (t, s, s))
    allowed = np.tril(np.ones((t, s), np.float32)) if attention_map.group == "decoder" else np.ones((t, s), np.float32)
    attention_map.weights[head] = softmax(np.where(allowed > 0, (q @ k.T / 4).astype(np.float64), -1e9))
    stages = (Stage("q·k", q @ k.T), Stage("÷ √d", q @ k.T / 4))
    return HeadComputation(attention_map.name, head, "Softmax[ q·k / √d + M ] · V", "softmax", q, k, v, stages)


def positions() -> Positions:
    angles = np.arange(40)[:, None] / 10000 ** (2 * (np.arange(32) // 2)[None] / 32)
    table = np.where(np.arange(32) % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)
    dots = np.array([np.mean((table[: 40 - n] * table[n:]).sum(-1)) for n in range(40)], np.float32)
    return Positions("sinusoidal", table, dots)


def embeddings(random: np.random.Generator) -> Embeddings:
    words = tuple("teacher student child book letter gave reads 선생님 학생 아이 책 편지 old small".split())
    points = random.normal(0, 1, (len(words), 2)).astype(np.float32)
    near = tuple(tuple((int((i + n) % len(words)), 0.9 - 0.1 * n) for n in range(1, 6)) for i in range(len(words)))
    return Embeddings("source", "PCA", words, points, near)


def probe(n: int) -> TrainingSnapshot:
    weights = cross(np.random.default_rng(7), 2, n / 4)
    return TrainingSnapshot(100 * n, AXES, (attention("cross", 0, weights),), " ".join(TARGET[:n]))


def measured(random: np.random.Generator, all_maps: tuple[Map, ...]) -> AlignmentResult:
    crossing = [attention_map for attention_map in all_maps if attention_map.group == "cross"]
    heads = [[round(float(x), 3) for x in random.random(len(attention_map.weights))] for attention_map in crossing]
    rates = {
        attention_map.name: {"mean": 0.1 + 0.1 * attention_map.layer, "heads": head_rates}
        for attention_map, head_rates in zip(crossing, heads, strict=True)
    }
    return AlignmentResult("output", "source", TRUTH, rates, crossing[-1].name)


def tokens() -> tuple[Token, ...]:
    """Return each output token with two alternatives."""
    return tuple(
        Token(word, -0.05 * (i + 1), ((word, -0.05 * (i + 1)), (TARGET[(i + 3) % len(TARGET)], -1.6), ("그", -3.0)))
        for i, word in enumerate(TARGET)
    )


def translation(
    layers: int = 6, heads: int = 8, title: str = "the old teacher gave the small child a book"
) -> Inspection:
    """Return an English-Korean translation with all data that the page can show."""
    random = np.random.default_rng(7)
    all_maps = maps(random, layers, heads)
    telling = (all_maps[0], all_maps[layers], all_maps[2 * layers])
    return Inspection(
        text=title,
        model="transformer",
        task="translation",
        axes=AXES,
        maps=all_maps,
        answered="output",
        outputs=(
            Output("늙은 선생님은 작은 아이에게 책을 주셨어요 .", -0.412, -0.31, tokens()),
            Output("늙은 선생님이 작은 아이에게 책을 주셨어요 .", -1.73, -0.52),
            Output("선생님은 작은 아이에게 책을 주었다 .", -3.2, -0.9),
        ),
        facts={"parameters": 1_284_608, "run": "runs/en-ko"},
        truth=measured(random, all_maps),
        steps=tuple(step(random, attention_map, head) for attention_map in telling for head in range(min(2, heads))),
        positions=positions(),
        embeddings=(embeddings(random),),
        probes=tuple(probe(n) for n in range(8)),
        views=("alignment",),
    )


def levels(sentences: int = 3, words: int = 5) -> Inspection:
    """Return a document with attention over the words of each sentence, and over sentences."""
    random = np.random.default_rng(5)
    axes = {
        "document": axis(["<document>"], "document"),
        "sentences": axis([f"sentence {i + 1}" for i in range(sentences)], "sentences"),
    }
    upper = softmax(random.normal(0, 1, (1, 1, sentences)))
    all_maps = [Map("upper", "upper", "document", "sentences", upper, group="upper", title="Document → sentences")]
    for i in range(sentences):
        parent = Parent("sentences", i)
        labels = tuple(Item(f"w{i}.{j}") for j in range(words))
        axes[f"words.{i}"] = Axis(labels, f"words of sentence {i + 1}", parent)
        weights = softmax(random.normal(0, 1, (2, words, words)))
        title = f"Words of sentence {i + 1} self-attention"
        side = f"words.{i}"
        all_maps.append(
            Map(f"lower #{i + 1}", "lower", side, side, weights, side, title, inward=True, batch=i, parent=parent)
        )
    return Inspection(
        "a document", "hierarchical", "documents", axes, tuple(all_maps), outputs=(Output("praise", -0.3),)
    )


def long(size: int = 2048, heads: int = 2) -> Inspection:
    """Return an inspection with one causal map of `size` tokens."""
    random = np.random.default_rng(3)
    distance = np.arange(size)[None, :] - np.arange(size)[:, None]
    scores = random.normal(0, 1.5, (heads, size, size)) - np.abs(distance)[None] / 200 + 6 * (distance[None] % 97 == 0)
    weights = softmax(np.where(distance[None] > 0, -1e9, scores))
    axes = {
        "read": Axis(tuple(Item(f"w{n}") for n in range(size)), "read"),
        "output": Axis(tuple(Item(f"w{n + 1}") for n in range(size)), "output"),
    }
    all_maps = Map("layers.0", "layers.0", "output", "read", weights, "output", "Output self-attention", inward=True)
    return Inspection(f"{size} words", "gpt", "language", axes, (all_maps,), answered="output")
