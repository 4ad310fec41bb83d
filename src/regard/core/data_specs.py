"""What the data decided, as against the choices in a Config: vocabularies, lengths, classes. One family a kind of data.

A task has sizes of one family (its file says which: `SPEC`), and a model's `build(config, sizes: Text)` says by its
annotation which families it takes. A family of one's own is a frozen dataclass anywhere.
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
    """Tokens with a meaning of their own. Their numbers come first; a mark that was added later comes last of all
    tokens, so that no other number moves."""

    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3
    mask: int | None = None  # what a masked language model puts in place of a hidden token

    @property
    def first_regular_id(self) -> int:
        """The lowest number of an ordinary token."""
        return max(self.pad, self.unk, self.bos, self.eos) + 1


@dataclass(frozen=True)
class Seq2SeqSpec:
    """A text goes in, another one comes out."""

    source_vocab_size: int  # tokens of the source vocabulary
    target_vocab_size: int  # tokens of the target vocabulary
    max_length: int  # longest sequence, in tokens, end mark included
    special_tokens: SpecialTokens = SpecialTokens()
    joint_vocab: bool = False  # source and target are one vocabulary


@dataclass(frozen=True)
class MusicSpec:
    """Pieces of music as tokens, with conditions (composer, key, mode) that a piece may be given."""

    num_conditions: int  # class tokens, marks included
    vocab_size: int  # tokens of the encoding, marks included
    max_length: int  # tokens that are remembered at once
    special_tokens: SpecialTokens = SpecialTokens()
    crop_length: int | None = None  # tokens of a training example, where that is known
    voices: int | None = None  # tokens of one time step; 0: the encoding has no steps; None: not known
    steps_per_bar: int = 16  # time steps of a bar
    has_fixed_tokens: bool = False  # some tokens may be given beforehand, wherever in the piece they are


def spec_of(task: ModuleType) -> type:
    """The family of sizes that a task's file declares."""
    family = getattr(task, "SPEC", None)
    if not isinstance(family, type):
        raise ConfigError(f"{task.__name__}: it must say which sizes it has, for example SPEC = Seq2SeqSpec")
    return family


def accepts(model: ModuleType, spec: type) -> bool:
    """Whether a model's file can be built from sizes of a family, by the annotation of its `build`."""
    hint: Any = typing.get_type_hints(model.build).get("sizes", object)
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    return any(kind is Any or (isinstance(kind, type) and issubclass(spec, kind)) for kind in kinds)


@dataclass(frozen=True)
class LanguageSpec:
    """Plain text as tokens: what a language model reads and continues."""

    vocab_size: int  # tokens of the vocabulary, marks included
    max_length: int  # tokens that are seen at once: the context
    special_tokens: SpecialTokens = SpecialTokens()


@dataclass(frozen=True)
class DocumentSpec:
    """Documents of sentences of tokens, each with a label, or with several."""

    vocab_size: int  # tokens of the vocabulary, marks included
    num_labels: int  # different labels
    max_length: int  # tokens of a document
    max_sentence_length: int  # tokens of a sentence
    max_sentences: int  # sentences of a document
    special_tokens: SpecialTokens = SpecialTokens()
    multi_label: bool = False  # a document may have any number of labels


@dataclass(frozen=True)
class TagTransitions:
    """Which tag may stand first, which may follow which, and which may stand last; tags by number."""

    first: tuple[bool, ...]
    follows: tuple[tuple[bool, ...], ...]  # follows[i][j]: tag j may stand behind tag i
    last: tuple[bool, ...]


@dataclass(frozen=True)
class TaggingSpec:
    """Sentences of units (words or characters), each with a tag; a unit is read as one token or several."""

    vocab_size: int  # tokens of the vocabulary, marks included
    num_characters: int  # letters that units are spelt with, marks included
    max_length: int  # tokens of a sentence
    allowed_transitions: TagTransitions  # of the tags
    special_tokens: SpecialTokens = SpecialTokens()

    @property
    def num_tags(self) -> int:
        """How many tags there are."""
        return len(self.allowed_transitions.first)


@dataclass(frozen=True)
class ImageGenerationSpec:
    """Images that are made pixel by pixel: of a class, or from a smaller image, where the data has such."""

    height: int
    width: int
    channels: int
    levels: int  # of brightness that are told apart
    num_classes: int = 0  # 0: none
    low_res_size: tuple[int, int] = (0, 0)  # rows and columns of the image that is to be enlarged; 0: none


@dataclass(frozen=True)
class ImageClassificationSpec:
    """Images that are looked at as a whole, each of a class."""

    height: int
    width: int
    channels: int
    num_classes: int


@dataclass(frozen=True)
class DetectionSpec:
    """Images with objects in them, each with a class and a box."""

    height: int
    width: int
    channels: int
    num_classes: int
    max_objects: int  # objects in an image


@dataclass(frozen=True)
class CaptioningSpec:
    """Images, or what a net made of them, that are told in words."""

    height: int
    width: int
    channels: int
    vocab_size: int  # tokens of the vocabulary, marks included
    max_length: int  # tokens of a caption, end mark included
    special_tokens: SpecialTokens = SpecialTokens()


@dataclass(frozen=True)
class MaskedLMSpec:
    """Plain text as tokens, some of which are covered and to be foretold."""

    vocab_size: int  # tokens of the vocabulary, marks included
    max_length: int  # tokens that are seen at once, marks included
    special_tokens: SpecialTokens = SpecialTokens()
    has_pairs: bool = False  # a row holds two texts, and whether they belong together is to be told


@dataclass(frozen=True)
class EmbeddingSpec:
    """Words that get a vector each."""

    vocab_size: int  # of the vocabulary, marks included
    special_tokens: SpecialTokens = SpecialTokens()


@dataclass(frozen=True)
class RecommendationSpec:
    """Users who choose among items; both have profiles, fields of features side by side."""

    num_users: int  # who have a number of their own, from 1 on; 0 stands for anyone else
    num_items: int  # that have a number of their own, from 1 on; 0 stands for any other
    user_field_dims: tuple[int, ...]  # features of each field of a user's profile
    item_field_dims: tuple[int, ...]  # features of each field of an item's profile
    max_length: int  # items of a history that are read
    span_days: float = 1.0  # that the data spans
