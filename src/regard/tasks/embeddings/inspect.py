"""Inspection of word vectors: the nearest words of a sum of words, and the frequent words in two dimensions.

The page gets the vectors of these words in 8 bits, so that it can find neighbours and add words by itself.
"""

from __future__ import annotations

import base64
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.inspectable import Axis, Inspectable, Item, Output
from regard.core.pca import project_2d
from regard.tasks.embeddings.word_space import EmbeddingModel, Term, WordSpace

MAX_POINTS = 500  # words shown as points: t-SNE takes seconds for more
Array = NDArray[np.float32]


def build_inspectable(
    model: EmbeddingModel, space: WordSpace, text: str, terms: list[Term], *, count: int, first_id: int
) -> Inspectable:
    """A sum of words -> the nearest words, and a picture of them among the most frequent words."""
    start_time = time.perf_counter()
    neighbours = space.nearest(terms, count)
    seconds = time.perf_counter() - start_time
    query_words = [space.index[term.word] for term in terms]
    near_words = [space.index[neighbour.word] for neighbour in neighbours]
    points = list(dict.fromkeys([*query_words, *near_words, *range(MAX_POINTS)]))
    points = [index for index in points if index < len(space.words)][:MAX_POINTS]
    tokens = torch.tensor([first_id + index for index in query_words])
    signs = torch.tensor([float(term.sign) for term in terms])

    def cosines() -> torch.Tensor:
        """Return the cosine (1 n) of every word to the sum; -2 for the words of the sum itself."""
        unit = torch.nn.functional.normalize(model.vectors.weight, dim=-1)
        total = torch.nn.functional.normalize((unit[tokens] * signs[:, None].to(unit)).sum(dim=0), dim=0)
        return (unit[first_id:] @ total).index_fill(0, tokens - first_id, -2.0)[None]

    return Inspectable(
        title=text,
        axes={"words": Axis(tuple(Item(term.word) for term in terms), "words", input="words")},
        query_axes={},
        key_axes={},
        outputs=tuple(Output(neighbour.word, rank=neighbour.cosine) for neighbour in neighbours),
        replay=cosines,
        predicted_ids=torch.tensor(near_words[:1], dtype=torch.long),
        seconds=seconds,
        inputs={"words": tokens[None]},
        views=("vectors",),
        extra={
            "vectors": vectors_view(
                [space.words[index] for index in points],
                space.unit_vectors[points],
                num_query_words=len(set(query_words)),
            )
        },
    )


def vectors_view(words: list[str], unit_vectors: Array, *, num_query_words: int) -> dict[str, Any]:
    """Return the data of the page for words and their vectors of length 1 (n d), the words of the query first."""
    return {
        "words": words,
        "asked": num_query_words,
        "points": {name: np.round(points, 4).tolist() for name, points in project_2d(unit_vectors).items()},
        "width": unit_vectors.shape[1],
        "vectors": base64.b64encode(np.round(unit_vectors * 127).astype(np.int8).tobytes()).decode(),
    }
