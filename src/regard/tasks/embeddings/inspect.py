"""Word vectors as they are shown: the nearest words of a sum, and the frequent words in two dimensions.

The page gets the vectors of these words too, in 8 bits, so that it can look for neighbours and do sums by itself.
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
from regard.tasks.embeddings.word_space import Term, WordSpace

MAX_POINTS = 500  # words that are shown as points: the picture by t-SNE takes seconds for more
Array = NDArray[np.float32]


def build_inspectable(
    model: Any, space: WordSpace, text: str, terms: list[Term], *, count: int, first_id: int
) -> Inspectable:
    """A sum of words -> the words nearest to it, and a picture of them among the most frequent words."""
    begun = time.perf_counter()
    near = space.nearest(terms, count)
    seconds = time.perf_counter() - begun
    asked = [space.index[term.word] for term in terms]
    listed = list(dict.fromkeys([*asked, *(space.index[each.word] for each in near), *range(MAX_POINTS)]))
    listed = [place for place in listed if place < len(space.words)][:MAX_POINTS]
    places = torch.tensor([first_id + place for place in asked])
    signs = torch.tensor([float(term.sign) for term in terms])

    def cosines() -> torch.Tensor:
        """(1 n): how near every word is to the sum; the words of the sum itself are left out."""
        unit = torch.nn.functional.normalize(model.vectors.weight, dim=-1)
        total = (unit[places] * signs[:, None].to(unit)).sum(dim=0)
        return (unit[first_id:] @ torch.nn.functional.normalize(total, dim=0)).index_fill(0, places - first_id, -2.0)[
            None
        ]

    return Inspectable(
        title=text,
        axes={"words": Axis(tuple(Item(term.word) for term in terms), "words", input="words")},
        query_axes={},
        key_axes={},
        outputs=tuple(Output(each.word, rank=each.cosine) for each in near),
        replay=cosines,
        predicted_ids=torch.tensor([space.index[near[0].word]]) if near else torch.zeros(0, dtype=torch.long),
        seconds=seconds,
        inputs={"words": places[None]},
        views=("vectors",),
        extra={
            "vectors": vectors_view(
                [space.words[place] for place in listed], space.unit_vectors[listed], num_query_words=len(set(asked))
            )
        },
    )


def vectors_view(words: list[str], unit_vectors: Array, *, num_query_words: int) -> dict[str, Any]:
    """Words and their vectors of length 1 (n d) -> what the page needs; the first `asked` words were asked for."""
    return {
        "words": words,
        "asked": num_query_words,
        "points": {name: np.round(points, 4).tolist() for name, points in project_2d(unit_vectors).items()},
        "width": unit_vectors.shape[1],
        "vectors": base64.b64encode(np.round(unit_vectors * 127).astype(np.int8).tobytes()).decode(),
    }
