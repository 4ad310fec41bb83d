"""A small task with two levels of attention: words of each sentence, then sentences of a document. No decoding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.errors import DataError
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Parent, Token
from regard.core.protocols import TargetMetric
from regard.core.task import Prediction, Task

LABELS = ("praise", "blame", "neither")
TEXT = "the film is good. i did not like the long end. go and see it."


@dataclass(frozen=True)
class Options:
    """Options of a request."""

    n: int = 1  # number of labels


class Pool(nn.Module):
    """(b n d) -> (b d): attention pooling with a learned query."""

    def __init__(self, dim, *, queries, keys):
        super().__init__()
        self.question = nn.Parameter(torch.randn(dim))
        self.attend = Attend(scores.build("dot", dim), queries=queries, keys=keys)

    def forward(self, x, mask):
        return self.attend(self.question.expand(len(x), 1, 1, -1), x[:, None], x[:, None], mask)[:, 0, 0]


class Model(nn.Module):
    """Sentences (n t) of a document -> logits (1 labels)."""

    def __init__(self, dim=8):
        super().__init__()
        self.embedding = nn.Embedding(64, dim, padding_idx=0)
        self.self_attn = Attend(scores.build("scaled_dot", dim), queries="words", keys="words")
        self.word_attn = Pool(dim, queries="sentence", keys="words")
        self.sentence_attn = Pool(dim, queries="document", keys="sentences")
        self.readout = nn.Linear(dim, len(LABELS))

    def forward(self, tokens):
        mask = Mask.present(tokens > 0)
        x = self.embedding(tokens)
        x = x + self.self_attn(x[:, None], x[:, None], x[:, None], mask)[:, 0]
        sentences = self.word_attn(x, mask)[None]
        return self.readout(self.sentence_attn(sentences, Mask()))


class Documents(Task):
    target_metric = TargetMetric("error", higher_is_better=False)
    spec = None
    examples = (TEXT, "good. bad end.")

    def parse_input(self, text):
        sentences = [sentence.split() for sentence in text.split(".") if sentence.strip()]
        if not sentences:
            raise DataError("there is no sentence to read; give some text")
        return sentences

    def tokens(self, sentences):
        longest = max(map(len, sentences))
        ids = [[1 + sum(map(ord, word)) % 63 for word in words] for words in sentences]
        return torch.tensor([row + [0] * (longest - len(row)) for row in ids])

    @torch.no_grad()
    def predict(self, model, inputs, options, decoding):
        rows = [model(self.tokens(sentences)).log_softmax(-1)[0].topk(options.n) for sentences in inputs]
        return [
            [
                Prediction(LABELS[i], score, score, value=i)
                for score, i in zip(*map(torch.Tensor.tolist, row), strict=True)
            ]
            for row in rows
        ]

    def inspect(self, model, sentences, options, decoding):
        tokens, best = self.tokens(sentences), self.predict(model, [sentences], Options(n=3), decoding)[0]
        axes = {
            "document": Axis((Item("document", special=True),), "document"),
            "sentences": Axis(tuple(Item(" ".join(words)) for words in sentences), "sentences"),
        }
        for i, words in enumerate(sentences):
            parent = Parent("sentences", i)
            axes[f"words.{i}"] = Axis(tuple(map(Item, words)), f"words of sentence {i + 1}", parent, input="words")
            axes[f"sentence.{i}"] = Axis((Item(" ".join(words)),), f"sentence {i + 1}", parent)
        words = tuple(AxisRef(f"words.{i}", i) for i in range(len(sentences)))

        def without_sentences():
            remaining = [[row for j, row in enumerate(tokens) if j != i] for i in range(len(tokens))]
            return torch.stack([model(torch.stack(rows)) if rows else model(tokens * 0) for rows in remaining])

        alternatives = tuple((answer.text, answer.score) for answer in best)
        return Inspectable(
            title=" / ".join(" ".join(words) for words in sentences),
            axes=axes,
            query_axes={
                "words": words,
                "sentence": tuple(AxisRef(f"sentence.{i}", i) for i in range(len(sentences))),
                "document": (AxisRef("document"),),
            },
            key_axes={"words": words, "sentences": (AxisRef("sentences"),)},
            outputs=(Output(best[0].text, best[0].score, None, (Token(best[0].text, best[0].score, alternatives),)),),
            replay=lambda: model(tokens),
            predicted_ids=torch.tensor([best[0].value]),
            ablations={"sentences": without_sentences},
            inputs={"words": tokens},
        )
