"""For every family of sizes a small value of it and examples that a model of the family can be run and trained on.

A new family gets a function that makes examples and an entry in FAMILIES; examples know what a model makes of them
(`output`) and the loss that it learns by (`loss`). Those of decoders are `Decoded`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.core.data_specs import (
    CaptioningSpec,
    DetectionSpec,
    DocumentSpec,
    EmbeddingSpec,
    ImageClassificationSpec,
    ImageGenerationSpec,
    LanguageSpec,
    MaskedLMSpec,
    MusicSpec,
    RecommendationSpec,
    Seq2SeqSpec,
    SpecialTokens,
    TaggingSpec,
    TagTransitions,
)
from regard.core.protocols import Padded
from regard.core.protocols.image_generator import ImageCondition
from regard.core.protocols.masked_lm import MaskedBatch
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.inspection import invariants
from regard.layers.document_batch import SentenceBatch, UnitBatch
from regard.layers.item_softmax import FullSoftmax, all_log_probabilities

BIO = TagTransitions(
    (True, True, False), ((True, True, False), (True, True, True), (True, True, True)), (True, True, True)
)
ROWS = 8  # examples of each family


class Decoded(NamedTuple):
    """Sequences for a decoder."""

    trial: invariants.DecoderInputs

    def output(self, model: Any) -> Tensor:
        logits, _ = model(self.trial.target, model.start(self.trial.source))
        return logits

    def loss(self, model: Any) -> Tensor:
        features, _ = model.features(self.trial.target[:, :-1], model.start(self.trial.source))
        labels = self.trial.target[:, 1:].flatten()
        return model.readout.loss(features.flatten(0, 1), labels) / len(labels)


class Captioned(NamedTuple):
    """Images with what is said of them."""

    trial: invariants.DecoderInputs

    def output(self, model: Any) -> Tensor:
        logits, _ = model(self.trial.target, model.start(self.trial.source))
        return logits

    def loss(self, model: Any) -> Tensor:
        parts = model.losses(self.trial.source, self.trial.target, pad=self.trial.special_tokens.pad)
        return sum(parts.values(), torch.zeros(())) / self.trial.target[:, 1:].numel()


class Filled(NamedTuple):
    """Texts with gaps."""

    gaps: MaskedBatch

    def output(self, model: Any) -> Tensor:
        return model.readout(model(self.gaps).features)

    def loss(self, model: Any) -> Tensor:
        labels = self.gaps.tokens[self.gaps.prediction_mask]
        return model.readout.loss(model(self.gaps).features, labels) / len(labels)


class Labelled(NamedTuple):
    """Something with what is to be said of it."""

    given: Any
    labels: tuple[Tensor, ...]  # what the loss of the readout takes behind the features

    def output(self, model: Any) -> Tensor:
        return model.readout(model(self.given))

    def loss(self, model: Any) -> Tensor:
        return model.readout.loss(model(self.given), *self.labels) / ROWS


class Near(NamedTuple):
    """Words that stand side by side, and others that do not."""

    rows: Tensor  # (r 2)
    others: Tensor  # (r k)

    def output(self, model: Any) -> Tensor:
        return model(self.rows)

    def loss(self, model: Any) -> Tensor:
        total, pairs = model.loss(self.rows, torch.ones_like(self.rows), self.others, negatives=1.0)
        return total / pairs


class Chosen(NamedTuple):
    """Users with a history, the items there are, and what each chose next and liked."""

    people: UserBatch
    shelf: ItemCatalog
    chosen: Tensor  # (b)

    def output(self, model: Any) -> Tensor:
        return all_log_probabilities(model, model.states(self.people, self.shelf)[:, -1], self.shelf)

    def loss(self, model: Any) -> Tensor:
        states = model.states(self.people, self.shelf)[:, -1]
        liked = model.opinions(self.people, self.shelf, self.chosen[:, None])
        return (FullSoftmax()(model, states, self.shelf, self.chosen) - liked.sigmoid().log().sum()) / ROWS


class Made(NamedTuple):
    """Images that are made place by place."""

    levels: Tensor  # (b n)
    subject: ImageCondition
    start: int

    def features(self, model: Any) -> tuple[Tensor, Tensor]:
        labels = self.levels[:, model.order]
        before = torch.cat([torch.full_like(labels[:, :1], self.start), labels[:, :-1]], dim=1)
        return model.features(before, model.start(self.subject))[0], labels

    def output(self, model: Any) -> Tensor:
        return model.readout(self.features(model)[0])

    def loss(self, model: Any) -> Tensor:
        features, labels = self.features(model)
        return model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1)) / labels.numel()


class Pictured(NamedTuple):
    """Images with classes."""

    images: Tensor
    labels: Tensor

    def output(self, model: Any) -> Tensor:
        return model(self.images)

    def loss(self, model: Any) -> Tensor:
        return model.readout.loss(model.features(self.images), self.labels) / ROWS


class Seen(NamedTuple):
    """Images with objects, one for every query."""

    images: Tensor
    classes: int

    def output(self, model: Any) -> Tensor:
        return torch.cat([part.flatten() for part in model(self.images)])

    def loss(self, model: Any) -> Tensor:
        found = model(self.images)
        rows = found.logits.shape[1:3].numel()
        labels = torch.arange(ROWS)[:, None].expand(found.logits.shape[1:3]).flatten() % self.classes
        each = [cross_entropy(logits.flatten(0, 1), labels) for logits in found.logits]
        return torch.stack(each).mean() + (found.boxes - labels.view(1, ROWS, -1, 1) / 10).abs().sum() / rows


def tokens(sizes: Any, *shape: int) -> Tensor:
    return torch.randint(sizes.marks.first, sizes.size - 1, shape)


def sequences(sizes: Seq2SeqSpec | MusicSpec) -> Decoded:
    return Decoded(invariants.random_inputs(sizes, rows=ROWS, length=6))


def texts(sizes: LanguageSpec) -> Decoded:
    none = Padded(torch.zeros(ROWS, 0, dtype=torch.long), torch.zeros(ROWS, dtype=torch.long))
    return Decoded(invariants.DecoderInputs(none, tokens(sizes, ROWS, 6), sizes.special_tokens))


def told_images(sizes: CaptioningSpec) -> Captioned:
    target = tokens(sizes, ROWS, 6)
    target[:, 0] = sizes.special_tokens.bos
    return Captioned(
        invariants.DecoderInputs(
            torch.randn(ROWS, sizes.channels, sizes.height, sizes.width), target, sizes.special_tokens
        )
    )


def gaps(sizes: MaskedLMSpec) -> Filled:
    whole, chosen = tokens(sizes, ROWS, 7), torch.zeros(ROWS, 7, dtype=torch.bool)
    chosen[:, [2, 5]] = True
    seen, turns = whole.masked_fill(chosen, sizes.special_tokens.mask), chosen.long()
    return Filled(MaskedBatch(seen, whole, torch.full((ROWS,), 7), chosen, turns, torch.zeros_like(turns)))


def documents(sizes: DocumentSpec) -> Labelled:
    counts, lengths = torch.tensor([1, 2] * 4), torch.randint(2, 6, (12,))
    there = torch.arange(5) < lengths[:, None]
    labels = torch.arange(ROWS) % sizes.num_labels
    return Labelled(SentenceBatch(tokens(sizes, 12, 5) * there, lengths, counts), (labels,))


def sentences(sizes: TaggingSpec) -> Labelled:
    counts = torch.tensor([2, 4, 3, 1] * 2)
    there = torch.arange(4) < counts[:, None]
    letters = (
        torch.randint(sizes.special_tokens.first_regular_id, sizes.num_characters, (ROWS, 4, 5)) * there[..., None]
    )
    units = UnitBatch(tokens(sizes, ROWS, 4) * there, counts, torch.arange(4) * there, counts, letters)
    return Labelled(units, (torch.tensor([[1, 2, 0, 1]] * 8).roll(1, 0) * there, counts))


def neighbours(sizes: EmbeddingSpec) -> Near:
    words = torch.arange(sizes.special_tokens.first_regular_id, sizes.vocab_size)
    return Near(words[: 2 * ROWS // 2].view(-1, 2), words[ROWS : ROWS + ROWS // 2, None])


def choices(sizes: RecommendationSpec) -> Chosen:
    shelf = ItemCatalog(torch.arange(1, sizes.num_items + 1), torch.rand(sizes.num_items, sum(sizes.item_field_dims)))
    history, numbers = torch.randint(sizes.num_items, (ROWS, 4)), torch.arange(1, ROWS + 1)
    times = torch.rand(ROWS, 4).cumsum(dim=1)
    profiles, ratings = torch.rand(ROWS, sum(sizes.user_field_dims)), torch.rand(ROWS, 4)
    people = UserBatch(numbers, profiles, history, ratings, times, torch.full((ROWS,), 4))
    return Chosen(people, shelf, torch.arange(ROWS))


def paintings(sizes: ImageGenerationSpec) -> Made:
    levels = torch.randint(sizes.levels, (ROWS, sizes.height * sizes.width * sizes.channels))
    return Made(levels, ImageCondition(torch.arange(ROWS) % 2, torch.zeros(ROWS, 0, dtype=torch.long)), sizes.levels)


def pictures(sizes: ImageClassificationSpec) -> Pictured:
    images = torch.rand(ROWS, sizes.channels, sizes.height, sizes.width) * 2 - 1
    return Pictured(images, torch.arange(ROWS) % sizes.num_classes)


def scenes(sizes: DetectionSpec) -> Seen:
    return Seen(torch.rand(ROWS, sizes.channels, sizes.height, sizes.width) * 2 - 1, sizes.num_classes)


FAMILIES: dict[type, tuple[Any, Callable[[Any], Any]]] = {
    Seq2SeqSpec: (Seq2SeqSpec(source_vocab_size=23, target_vocab_size=19, max_length=12), sequences),
    MusicSpec: (MusicSpec(num_conditions=23, vocab_size=19, max_length=12), sequences),
    LanguageSpec: (LanguageSpec(vocab_size=19, max_length=12), texts),
    MaskedLMSpec: (MaskedLMSpec(vocab_size=19, max_length=12, special_tokens=SpecialTokens(mask=18)), gaps),
    DocumentSpec: (
        DocumentSpec(vocab_size=19, num_labels=3, max_length=14, max_sentence_length=5, max_sentences=3),
        documents,
    ),
    TaggingSpec: (TaggingSpec(vocab_size=19, num_characters=12, max_length=8, allowed_transitions=BIO), sentences),
    EmbeddingSpec: (EmbeddingSpec(vocab_size=19), neighbours),
    RecommendationSpec: (
        RecommendationSpec(
            num_users=8, num_items=12, user_field_dims=(3, 4), item_field_dims=(3, 2), max_length=6, span_days=30.0
        ),
        choices,
    ),
    CaptioningSpec: (CaptioningSpec(height=8, width=12, channels=3, vocab_size=19, max_length=12), told_images),
    ImageGenerationSpec: (ImageGenerationSpec(height=3, width=4, channels=3, levels=3, num_classes=2), paintings),
    ImageClassificationSpec: (ImageClassificationSpec(height=6, width=8, channels=3, num_classes=3), pictures),
    DetectionSpec: (DetectionSpec(height=12, width=8, channels=3, num_classes=3, max_objects=2), scenes),
}
DECODED = [family for family, (_, make) in FAMILIES.items() if make in (sequences, texts, told_images)]
