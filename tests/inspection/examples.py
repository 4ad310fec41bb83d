"""Made-up inspections with the shape of real ones, for tests of the page alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.inspection.format import (
    Alignment,
    Axis,
    Embeddings,
    Honesty,
    Inspection,
    Map,
    Output,
    Positions,
    Probe,
    Stage,
    Step,
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


def maps(random: np.random.Generator, layers: int, heads: int, sharp: float = 1.0) -> tuple[Map, ...]:
    def honest() -> Honesty:
        return Honesty(tuple(float(x) for x in random.random(heads)), tuple(float(x) for x in random.random(heads)))

    found = []
    for layer in range(layers):
        found.append(
            Map(
                f"encoder.{layer}",
                "encoder",
                layer,
                "source",
                "source",
                square(random, heads, len(SOURCE), False),
                honest(),
            )
        )
    for layer in range(layers):
        found.append(
            Map(
                f"decoder.{layer}",
                "decoder",
                layer,
                "output",
                "read",
                square(random, heads, len(TARGET), True),
                honest(),
            )
        )
        found.append(Map(f"cross.{layer}", "cross", layer, "output", "source", cross(random, heads, sharp), honest()))
    return tuple(found)


def step(random: np.random.Generator, one: Map, head: int) -> Step:
    _, t, s = one.weights.shape
    q, k, v = (random.normal(0, 1, (n, 16)).astype(np.float32) for n in (t, s, s))
    allowed = np.tril(np.ones((t, s), np.float32)) if one.group == "decoder" else np.ones((t, s), np.float32)
    weights = softmax(np.where(allowed > 0, (q @ k.T / 4).astype(np.float64), -1e9))
    stages = (Stage("q·k", q @ k.T), Stage("÷ √d", q @ k.T / 4))
    return Step(one.name, head, "Softmax[ q·k / √d + M ] · V", "softmax", q, k, v, stages, allowed, weights)


def positions() -> Positions:
    place = np.arange(40)[:, None] / 10000 ** (2 * (np.arange(32) // 2)[None] / 32)
    table = np.where(np.arange(32) % 2 == 0, np.sin(place), np.cos(place)).astype(np.float32)
    dots = np.array([np.mean((table[: 40 - n] * table[n:]).sum(-1)) for n in range(40)], np.float32)
    return Positions("sinusoidal", table, dots)


def embeddings(random: np.random.Generator) -> Embeddings:
    words = tuple("teacher student child book letter gave reads 선생님 학생 아이 책 편지 old small".split())
    points = random.normal(0, 1, (len(words), 2)).astype(np.float32)
    near = tuple(tuple((int((i + n) % len(words)), 0.9 - 0.1 * n) for n in range(1, 6)) for i in range(len(words)))
    return Embeddings("source", "PCA", words, points, near)


def probe(n: int, axes: dict[str, Axis]) -> Probe:
    weights = cross(np.random.default_rng(7), 2, n / 4)
    return Probe(100 * n, axes, (Map("cross.0", "cross", 0, "output", "source", weights),), " ".join(TARGET[:n]))


def alignment(random: np.random.Generator, found: tuple[Map, ...]) -> Alignment:
    crossing = [one for one in found if one.group == "cross"]
    heads = [[round(float(x), 3) for x in random.random(len(one.weights))] for one in crossing]
    rates = {
        one.name: {"mean": 0.1 + 0.1 * one.layer, "heads": each} for one, each in zip(crossing, heads, strict=True)
    }
    return Alignment(TRUTH, rates, crossing[-1].name)


def translation(
    layers: int = 6, heads: int = 8, title: str = "the old teacher gave the small child a book"
) -> Inspection:
    """An English sentence into Korean, with everything the page can show."""
    random = np.random.default_rng(7)
    found = maps(random, layers, heads)
    axes = {"source": Axis(SOURCE), "output": Axis(TARGET), "read": Axis(("<s>", *TARGET[:-1]))}
    telling = (found[0], found[layers], found[layers + 1])
    return Inspection(
        title=title,
        model="transformer",
        task="translation",
        axes=axes,
        maps=found,
        outputs=(
            Output("늙은 선생님은 작은 아이에게 책을 주셨어요 .", -0.412, -0.31),
            Output("늙은 선생님이 작은 아이에게 책을 주셨어요 .", -1.73, -0.52),
            Output("선생님은 작은 아이에게 책을 주었다 .", -3.2, -0.9),
        ),
        facts={"parameters": 1_284_608, "run": "runs/en-ko"},
        alignment=alignment(random, found),
        steps=tuple(step(random, one, head) for one in telling for head in range(min(2, heads))),
        positions=positions(),
        embeddings=(embeddings(random),),
        probes=tuple(probe(n, axes) for n in range(8)),
    )


def long(size: int = 2048, heads: int = 2) -> Inspection:
    """One causal map of `size` tokens."""
    random = np.random.default_rng(3)
    distance = np.arange(size)[None, :] - np.arange(size)[:, None]
    scores = random.normal(0, 1.5, (heads, size, size)) - np.abs(distance)[None] / 200 + 6 * (distance[None] % 97 == 0)
    weights = softmax(np.where(distance[None] > 0, -1e9, scores))
    axes = {"read": Axis(tuple(f"w{n}" for n in range(size))), "output": Axis(tuple(f"w{n + 1}" for n in range(size)))}
    return Inspection(
        f"{size} words", "gpt", "language", axes, (Map("layers.0", "decoder", 0, "output", "read", weights),)
    )
