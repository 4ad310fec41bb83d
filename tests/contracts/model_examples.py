"""Small data specs and examples for every data spec class, on which a model can be run and trained.

A new class gets a function that creates examples and an entry in FAMILIES. Examples have the output of a model
(`output`) and its training loss (`loss`). Those of decoders are `Decoded`.
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
    SpeechSpec,
    TaggingSpec,
    TagTransitions,
)
from regard.core.protocols import Padded
from regard.core.protocols.image_generator import ImageCondition
from regard.core.protocols.masked_lm import MaskedBatch
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.core.protocols.speech import SpeechBatch, SpeechFrames
from regard.inspection import invariants
from regard.layers.document_batch import SentenceBatch, UnitBatch
from regard.layers.item_softmax import FullSoftmax, all_log_probabilities

BIO = TagTransitions(
    (True, True, False), ((True, True, False), (True, True, True), (True, True, True)), (True, True, True)
)
BATCH_SIZE = 8  # examples per data spec


class Decoded(NamedTuple):
    """Sequences for a decoder."""

    inputs: invariants.DecoderInputs

    def output(self, model: Any) -> Tensor:
        logits, _ = model(self.inputs.target, model.start(self.inputs.source))
        return logits

    def loss(self, model: Any) -> Tensor:
        features, _ = model.features(self.inputs.target[:, :-1], model.start(self.inputs.source))
        labels = self.inputs.target[:, 1:].flatten()
        return model.readout.loss(features.flatten(0, 1), labels) / len(labels)


class Captioned(NamedTuple):
    """Images with captions."""

    inputs: invariants.DecoderInputs

    def output(self, model: Any) -> Tensor:
        logits, _ = model(self.inputs.target, model.start(self.inputs.source))
        return logits

    def loss(self, model: Any) -> Tensor:
        parts = model.losses(self.inputs.source, self.inputs.target, pad=self.inputs.special_tokens.pad)
        return sum(parts.values(), torch.zeros(())) / self.inputs.target[:, 1:].numel()


class Spoken(NamedTuple):
    """Recordings with transcripts."""

    inputs: invariants.DecoderInputs

    def output(self, model: Any) -> Tensor:
        logits, _ = model(self.inputs.target, model.start(self.inputs.source))
        return logits

    def loss(self, model: Any) -> Tensor:
        target, special = self.inputs.target, self.inputs.special_tokens
        rows = torch.cat([target, torch.full_like(target[:, :1], special.eos)], dim=1)
        lengths = torch.full((len(rows),), rows.shape[1])
        batch = SpeechBatch(self.inputs.source, Padded(rows, lengths))
        return model.loss(batch, pad=special.pad) / target.numel()


class Filled(NamedTuple):
    """Texts with masked tokens."""

    batch: MaskedBatch

    def output(self, model: Any) -> Tensor:
        return model.readout(model(self.batch).features)

    def loss(self, model: Any) -> Tensor:
        labels = self.batch.tokens[self.batch.prediction_mask]
        return model.readout.loss(model(self.batch).features, labels) / len(labels)


class Labelled(NamedTuple):
    """Inputs with labels."""

    inputs: Any
    labels: tuple[Tensor, ...]  # arguments of the readout's loss after the features

    def output(self, model: Any) -> Tensor:
        return model.readout(model(self.inputs))

    def loss(self, model: Any) -> Tensor:
        return model.readout.loss(model(self.inputs), *self.labels) / BATCH_SIZE


class Near(NamedTuple):
    """Neighboring words, and negatives."""

    tokens: Tensor  # (r 2)
    negatives: Tensor  # (r k)

    def output(self, model: Any) -> Tensor:
        return model(self.tokens)

    def loss(self, model: Any) -> Tensor:
        total, pairs = model.loss(self.tokens, torch.ones_like(self.tokens), self.negatives, negatives_per_pair=1.0)
        return total / pairs


class Chosen(NamedTuple):
    """Users with a history, the item catalog, and the next item of each user."""

    users: UserBatch
    catalog: ItemCatalog
    targets: Tensor  # (b)

    def output(self, model: Any) -> Tensor:
        return all_log_probabilities(model, model.states(self.users, self.catalog)[:, -1], self.catalog)

    def loss(self, model: Any) -> Tensor:
        states = model.states(self.users, self.catalog)[:, -1]
        liked = model.rating_logits(self.users, self.catalog, self.targets[:, None])
        return (FullSoftmax()(model, states, self.catalog, self.targets) - liked.sigmoid().log().sum()) / BATCH_SIZE


class Generated(NamedTuple):
    """Images that are generated position by position."""

    levels: Tensor  # (b n)
    condition: ImageCondition
    start: int

    def features(self, model: Any) -> tuple[Tensor, Tensor]:
        labels = self.levels[:, model.order]
        previous = torch.cat([torch.full_like(labels[:, :1], self.start), labels[:, :-1]], dim=1)
        return model.features(previous, model.start(self.condition))[0], labels

    def output(self, model: Any) -> Tensor:
        return model.readout(self.features(model)[0])

    def loss(self, model: Any) -> Tensor:
        features, labels = self.features(model)
        return model.readout.loss(features.flatten(0, 1), labels.flatten(0, 1)) / labels.numel()


class Classified(NamedTuple):
    """Images with classes."""

    images: Tensor
    labels: Tensor

    def output(self, model: Any) -> Tensor:
        return model(self.images)

    def loss(self, model: Any) -> Tensor:
        return model.readout.loss(model.features(self.images), self.labels) / BATCH_SIZE


class Detected(NamedTuple):
    """Images with objects, one for every query."""

    images: Tensor
    classes: int

    def output(self, model: Any) -> Tensor:
        return torch.cat([part.flatten() for part in model(self.images)])

    def loss(self, model: Any) -> Tensor:
        output = model(self.images)
        num_queries = output.logits.shape[1:3].numel()
        labels = torch.arange(BATCH_SIZE)[:, None].expand(output.logits.shape[1:3]).flatten() % self.classes
        class_losses = [cross_entropy(logits.flatten(0, 1), labels) for logits in output.logits]
        return (
            torch.stack(class_losses).mean()
            + (output.boxes - labels.view(1, BATCH_SIZE, -1, 1) / 10).abs().sum() / num_queries
        )


def tokens(sizes: Any, *shape: int) -> Tensor:
    return torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size - 1, shape)


def sequences(sizes: Seq2SeqSpec | MusicSpec) -> Decoded:
    return Decoded(invariants.random_inputs(sizes, rows=BATCH_SIZE, length=6))


def texts(sizes: LanguageSpec) -> Decoded:
    source = Padded(torch.zeros(BATCH_SIZE, 0, dtype=torch.long), torch.zeros(BATCH_SIZE, dtype=torch.long))
    return Decoded(invariants.DecoderInputs(source, tokens(sizes, BATCH_SIZE, 6), sizes.special_tokens))


def captioned_images(sizes: CaptioningSpec) -> Captioned:
    target = tokens(sizes, BATCH_SIZE, 6)
    target[:, 0] = sizes.special_tokens.bos
    return Captioned(
        invariants.DecoderInputs(
            torch.randn(BATCH_SIZE, sizes.channels, sizes.height, sizes.width), target, sizes.special_tokens
        )
    )


def recordings(sizes: SpeechSpec) -> Spoken:
    target = tokens(sizes, BATCH_SIZE, 6)
    target[:, 0] = sizes.special_tokens.bos
    lengths = torch.tensor([40, 37, 34, 40, 39, 36, 33, 38])
    frames = torch.randn(BATCH_SIZE, 40, sizes.num_bands) * (torch.arange(40) < lengths[:, None])[..., None]
    return Spoken(invariants.DecoderInputs(SpeechFrames(frames, lengths), target, sizes.special_tokens))


def masked_texts(sizes: MaskedLMSpec) -> Filled:
    text, is_masked = tokens(sizes, BATCH_SIZE, 7), torch.zeros(BATCH_SIZE, 7, dtype=torch.bool)
    is_masked[:, [2, 5]] = True
    input_tokens, order = text.masked_fill(is_masked, sizes.special_tokens.mask), is_masked.long()
    return Filled(
        MaskedBatch(input_tokens, text, torch.full((BATCH_SIZE,), 7), is_masked, order, torch.zeros_like(order))
    )


def documents(sizes: DocumentSpec) -> Labelled:
    counts, lengths = torch.tensor([1, 2] * 4), torch.randint(2, 6, (12,))
    mask = torch.arange(5) < lengths[:, None]
    labels = torch.arange(BATCH_SIZE) % sizes.num_labels
    return Labelled(SentenceBatch(tokens(sizes, 12, 5) * mask, lengths, counts), (labels,))


def sentences(sizes: TaggingSpec) -> Labelled:
    counts = torch.tensor([2, 4, 3, 1] * 2)
    mask = torch.arange(4) < counts[:, None]
    characters = (
        torch.randint(sizes.special_tokens.first_regular_id, sizes.num_characters, (BATCH_SIZE, 4, 5)) * mask[..., None]
    )
    units = UnitBatch(tokens(sizes, BATCH_SIZE, 4) * mask, counts, torch.arange(4) * mask, counts, characters)
    return Labelled(units, (torch.tensor([[1, 2, 0, 1]] * 8).roll(1, 0) * mask, counts))


def neighbours(sizes: EmbeddingSpec) -> Near:
    words = torch.arange(sizes.special_tokens.first_regular_id, sizes.vocab_size)
    return Near(words[: 2 * BATCH_SIZE // 2].view(-1, 2), words[BATCH_SIZE : BATCH_SIZE + BATCH_SIZE // 2, None])


def choices(sizes: RecommendationSpec) -> Chosen:
    catalog = ItemCatalog(torch.arange(1, sizes.num_items + 1), torch.rand(sizes.num_items, sum(sizes.item_field_dims)))
    history, ids = torch.randint(sizes.num_items, (BATCH_SIZE, 4)), torch.arange(1, BATCH_SIZE + 1)
    times = torch.rand(BATCH_SIZE, 4).cumsum(dim=1)
    profiles, ratings = torch.rand(BATCH_SIZE, sum(sizes.user_field_dims)), torch.rand(BATCH_SIZE, 4)
    users = UserBatch(ids, profiles, history, ratings, times, torch.full((BATCH_SIZE,), 4))
    return Chosen(users, catalog, torch.arange(BATCH_SIZE))


def generated_images(sizes: ImageGenerationSpec) -> Generated:
    levels = torch.randint(sizes.levels, (BATCH_SIZE, sizes.height * sizes.width * sizes.channels))
    return Generated(
        levels, ImageCondition(torch.arange(BATCH_SIZE) % 2, torch.zeros(BATCH_SIZE, 0, dtype=torch.long)), sizes.levels
    )


def classified_images(sizes: ImageClassificationSpec) -> Classified:
    images = torch.rand(BATCH_SIZE, sizes.channels, sizes.height, sizes.width) * 2 - 1
    return Classified(images, torch.arange(BATCH_SIZE) % sizes.num_classes)


def scenes(sizes: DetectionSpec) -> Detected:
    return Detected(torch.rand(BATCH_SIZE, sizes.channels, sizes.height, sizes.width) * 2 - 1, sizes.num_classes)


FAMILIES: dict[type, tuple[Any, Callable[[Any], Any]]] = {
    Seq2SeqSpec: (Seq2SeqSpec(source_vocab_size=23, target_vocab_size=19, max_length=12), sequences),
    MusicSpec: (MusicSpec(num_conditions=23, vocab_size=19, max_length=12), sequences),
    LanguageSpec: (LanguageSpec(vocab_size=19, max_length=12), texts),
    MaskedLMSpec: (MaskedLMSpec(vocab_size=19, max_length=12, special_tokens=SpecialTokens(mask=18)), masked_texts),
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
    CaptioningSpec: (CaptioningSpec(height=8, width=12, channels=3, vocab_size=19, max_length=12), captioned_images),
    SpeechSpec: (SpeechSpec(num_bands=5, vocab_size=19, max_length=12, max_frames=60), recordings),
    ImageGenerationSpec: (
        ImageGenerationSpec(height=3, width=4, channels=3, levels=3, num_classes=2),
        generated_images,
    ),
    ImageClassificationSpec: (ImageClassificationSpec(height=6, width=8, channels=3, num_classes=3), classified_images),
    DetectionSpec: (DetectionSpec(height=12, width=8, channels=3, num_classes=3, max_objects=2), scenes),
}
DECODED = [
    family for family, (_, create) in FAMILIES.items() if create in (sequences, texts, captioned_images, recordings)
]
