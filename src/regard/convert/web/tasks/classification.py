"""Classification in the browser: a program for the words of one sentence, and one for the sentences of a document."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from regard.attention.masks import NO_MASK
from regard.convert.web.decoder_programs import EXAMPLE_LENGTH
from regard.convert.web.trace import Constants, trace
from regard.core.errors import ConfigError
from regard.models._hierarchical_encoder import BlockEncoder, GRUEncoder, HierarchyLevel
from regard.models.hierarchical import Hierarchical
from regard.tasks._shared import text_corpus
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the programs, the tokenizer, the labels and the limits of a run."""
    model, task = parts.model, parts.task
    if not isinstance(model, Hierarchical):
        raise ConfigError(f"web: classification with {parts.recipe.model.name} is not supported; use hierarchical")
    if model.votes is not None:
        raise ConfigError("web: n-gram votes (model.votes) are not supported; train with model.votes=0")
    config: Any = parts.recipe.task.config
    if config.separator:
        raise ConfigError("web: documents with several labels are not supported; use a run with one label each")

    def words(tokens: Tensor) -> list[Tensor]:
        return [encode(model.words, model.embedding(tokens))]

    def sentences(features: Tensor) -> list[Tensor]:
        return [model.readout(encode(model.sentences, features))]

    width = model.readout.in_features
    example = torch.full((1, EXAMPLE_LENGTH), 4)
    limits = config.limits
    labelled: Any = task
    return {
        "programs": {
            "words": trace(model, words, [example], constants),
            "sentences": trace(model, sentences, [torch.zeros(1, EXAMPLE_LENGTH, width)], constants),
        },
        "tokenizers": [json.loads((parts.folder / text_corpus.TOKENIZER).read_text(encoding="utf-8"))],
        "labels": list(labelled.label_names),
        "splitter": {name: getattr(config.splitter, name) for name in ("marks", "breaks", "abbreviations")},
        "limits": [limits.max_tokens, limits.max_sentences, limits.max_sentence_tokens],
    }


def encode(level: HierarchyLevel, features: Tensor) -> Tensor:
    """One level of the hierarchy for one unpadded sequence: features (1 s d) -> (1 e)."""
    mixer: Any = level.mixer
    if isinstance(mixer, GRUEncoder):
        x, _ = mixer.both.net(features)
    elif isinstance(mixer, BlockEncoder):
        x = mixer.position(mixer.enter(mixer.widen(features)))
        for layer in mixer.layers:
            x, _ = layer(x, NO_MASK)
        x = mixer.last(x)
    else:
        x = torch.tanh(mixer.widen(features))
    pooled: Tensor = level.pool(x)
    return pooled
