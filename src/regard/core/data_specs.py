"""Data specs: the facts that the data determines, such as vocabulary sizes, lengths and classes.

Choices are in a Config instead. There is one spec class per kind of data. A task declares its spec class as `SPEC`; a
model declares the ones it accepts by the annotation of `build(config, sizes: Seq2SeqSpec)`. Any frozen dataclass can be
a spec.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from regard.core.errors import ConfigError


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the special tokens.

    They come first. A special token added later gets the last id, so that no other id changes.
    """

    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3
    mask: int | None = None  # [MASK] of a masked language model

    @property
    def first_regular_id(self) -> int:
        """The lowest id of a token that is not special."""
        return max(self.pad, self.unk, self.bos, self.eos) + 1


@dataclass(frozen=True)
class Seq2SeqSpec:
    """Pairs of source and target texts."""

    source_vocab_size: int
    target_vocab_size: int
    max_length: int  # tokens of a sequence, EOS included
    special_tokens: SpecialTokens = SpecialTokens()
    joint_vocab: bool = False  # source and target share one vocabulary


@dataclass(frozen=True)
class MusicSpec:
    """Pieces of music as tokens, with optional conditions (composer, key, mode)."""

    num_conditions: int  # class tokens, special tokens included
    vocab_size: int  # tokens of the encoding, special tokens included
    max_length: int  # tokens of the context
    special_tokens: SpecialTokens = SpecialTokens()
    crop_length: int | None = None  # tokens of a training example; None: not known
    voices: int | None = None  # tokens per time step; 0: the encoding has no time steps; None: not known
    steps_per_bar: int = 16  # time steps
    has_fixed_tokens: bool = False  # some tokens may be fixed in advance, anywhere in the piece


@dataclass(frozen=True)
class LanguageSpec:
    """Plain text as tokens, for language models."""

    vocab_size: int  # special tokens included
    max_length: int  # tokens of the context
    special_tokens: SpecialTokens = SpecialTokens()
    start_token: bool = True  # a BOS token precedes every text


@dataclass(frozen=True)
class DocumentSpec:
    """Documents as sentences of tokens, each document with one or several labels."""

    vocab_size: int  # special tokens included
    num_labels: int
    max_length: int  # tokens of a document
    max_sentence_length: int  # tokens of a sentence
    max_sentences: int  # sentences of a document
    special_tokens: SpecialTokens = SpecialTokens()
    multi_label: bool = False  # a document may have any number of labels


@dataclass(frozen=True)
class TagTransitions:
    """Tags that may come first, follow each other and come last, by tag index."""

    first: tuple[bool, ...]
    follows: tuple[tuple[bool, ...], ...]  # follows[i][j]: tag j may follow tag i
    last: tuple[bool, ...]


@dataclass(frozen=True)
class TaggingSpec:
    """Sentences of units (words or characters), each with a tag. A unit has one or several tokens."""

    vocab_size: int  # special tokens included
    num_characters: int  # characters of units, special tokens included
    max_length: int  # tokens of a sentence
    allowed_transitions: TagTransitions
    special_tokens: SpecialTokens = SpecialTokens()

    @property
    def num_tags(self) -> int:
        """The number of tags."""
        return len(self.allowed_transitions.first)


@dataclass(frozen=True)
class ImageGenerationSpec:
    """Images that are generated pixel by pixel, conditioned on a class or a smaller image if the data has them."""

    height: int
    width: int
    channels: int
    levels: int  # intensity levels of a channel
    num_classes: int = 0  # 0: no classes
    low_res_size: tuple[int, int] = (0, 0)  # rows and columns of the image that is upscaled; 0: none


@dataclass(frozen=True)
class ImageClassificationSpec:
    """Images, each with one class."""

    height: int
    width: int
    channels: int
    num_classes: int


@dataclass(frozen=True)
class DetectionSpec:
    """Images with objects, each object with a class and a box."""

    height: int
    width: int
    channels: int
    num_classes: int
    max_objects: int  # objects in an image


@dataclass(frozen=True)
class CaptioningSpec:
    """Images, or features extracted from them, with captions."""

    height: int
    width: int
    channels: int
    vocab_size: int  # special tokens included
    max_length: int  # tokens of a caption, EOS included
    special_tokens: SpecialTokens = SpecialTokens()


@dataclass(frozen=True)
class SpeechSpec:
    """Recordings of speech as frames of log-mel energies, with transcripts."""

    num_bands: int  # energies of a frame
    vocab_size: int  # special tokens included
    max_length: int  # tokens of a transcript, EOS included
    max_frames: int  # frames of a recording
    special_tokens: SpecialTokens = SpecialTokens()


@dataclass(frozen=True)
class MaskedLMSpec:
    """Plain text as tokens, some of which are masked and predicted."""

    vocab_size: int  # special tokens included
    max_length: int  # tokens of the context, special tokens included
    special_tokens: SpecialTokens = SpecialTokens()
    has_pairs: bool = False  # a row holds two texts; the model also predicts if the second follows the first


@dataclass(frozen=True)
class EmbeddingSpec:
    """Words, each with one embedding vector."""

    vocab_size: int  # special tokens included
    special_tokens: SpecialTokens = SpecialTokens()


@dataclass(frozen=True)
class RecommendationSpec:
    """Users who choose items. Users and items have profiles: concatenated fields of features."""

    num_users: int  # users with an embedding, ids from 1; id 0 is any other user
    num_items: int  # items with an embedding, ids from 1; id 0 is any other item
    user_field_dims: tuple[int, ...]  # width of each field of a user profile
    item_field_dims: tuple[int, ...]  # width of each field of an item profile
    max_length: int  # items of a history that are used
    span_days: float = 1.0  # time span of the data


def spec_of(task: ModuleType) -> type:
    """Return the spec class that a task module declares."""
    spec = getattr(task, "SPEC", None)
    if not isinstance(spec, type):
        raise ConfigError(f"{task.__name__}: it has no data spec; declare one, for example SPEC = Seq2SeqSpec")
    return spec


def accepts(model: ModuleType, spec: type) -> bool:
    """Return True if a model module accepts a spec class, by the annotation of `sizes` in its `build`."""
    hint: Any = typing.get_type_hints(model.build).get("sizes", object)
    accepted = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    return any(kind is Any or (isinstance(kind, type) and issubclass(spec, kind)) for kind in accepted)
