"""Sentences with persons, places and times from a grammar, in English (words are tagged) and Korean (characters are).

The split of a sentence is decided by its hash, so that splits cannot overlap.
"""

from __future__ import annotations

import random
import re
from typing import Literal

from regard.data.builtin import _entities_words as lists
from regard.data.builtin._korean_morphology import final_consonant, particle
from regard.data.builtin._splits import split_of, split_rng
from regard.data.text import tag_schemes, word_units
from regard.data.text.tag_schemes import Entity
from regard.data.text.tagged_files import Sentence, parse_markup
from regard.data.text.word_units import Unit

Language = Literal["en", "ko"]
UNITS: dict[Language, Unit] = {"en": "words", "ko": "characters"}
ENTITY_TYPES = ("person", "place", "time")
FULL_NAME_RATE = 0.5  # how often a name is given with the surname
PARTICLE_PATTERN = re.compile(r"\[([^\]]+)\]")


def generate(split: str, count: int, *, language: Language, seed: int) -> list[Sentence]:
    """A split (`train`, `valid`, `test`) -> `count` different sentences, the same for the same seed."""
    chance = split_rng(split, language=language, seed=seed)
    made: dict[str, Sentence] = {}
    while len(made) < count:
        text, found = parse_markup(_marked(chance, language))
        if split_of(text) == split:
            place = f"built-in entities_{language} {split}:{len(made) + 1}"
            made.setdefault(text, tag_sentence(text, found, language=language, location=place))
    return list(made.values())


def tag_sentence(text: str, entity_list: list[Entity], *, language: Language, location: str) -> Sentence:
    """A text and the places of its entities -> its units with their tags."""
    spans = word_units.SPLITTERS[UNITS[language]](text)
    inside = []
    for first, last, kind in entity_list:
        covered = [i for i, (start, stop) in enumerate(spans) if start < last and stop > first]
        inside.append(Entity(covered[0], covered[-1] + 1, kind))
    return Sentence(text, tuple(spans), tuple(tag_schemes.entities_to_tags(inside, len(spans), "bio")), location)


def _marked(chance: random.Random, language: Language) -> str:
    """A sentence with its entities as <name:type>."""
    english = language == "en"
    sentence = chance.choice(lists.ENGLISH_TEMPLATES if english else lists.KOREAN_TEMPLATES)
    makers = {"P": _person, "L": _town, "T": _time}
    for letter, make in makers.items():
        while f"{{{letter}}}" in sentence:
            sentence = sentence.replace(f"{{{letter}}}", make(chance, language), 1)
    sentence = _numbers(chance, sentence)
    return sentence[0].upper() + sentence[1:] if english else _particles(sentence)


def _person(chance: random.Random, language: Language) -> str:
    whole = chance.random() < FULL_NAME_RATE
    if language == "en":
        name = chance.choice(lists.FIRST_NAMES)
        return f"<{name} {chance.choice(lists.SURNAMES)}:person>" if whole else f"<{name}:person>"
    name = chance.choice(lists.KOREAN_GIVEN_NAMES)
    if whole:
        return f"<{chance.choice(lists.KOREAN_SURNAMES)}{name}:person>"
    return f"<{name}:person>{'이' if final_consonant(name) else ''}"  # 아름 -> 아름이: a given name among friends


def _town(chance: random.Random, language: Language) -> str:
    return f"<{chance.choice(lists.CITIES if language == 'en' else lists.KOREAN_CITIES)}:place>"


def _time(chance: random.Random, language: Language) -> str:
    return chance.choice(lists.TIMES) if language == "en" else f"<{chance.choice(lists.KOREAN_TIMES)}:time>"


def _numbers(chance: random.Random, sentence: str) -> str:
    month: str | int = chance.choice(lists.MONTHS) if sentence.isascii() else chance.randint(1, 12)
    return (
        sentence.replace("{year}", str(chance.randint(1950, 2029)))
        .replace("{month}", str(month))
        .replace("{day}", chance.choice(lists.DAYS))
        .replace("{hour}", str(chance.randint(1, 12)))
        .replace("{number}", str(chance.randint(1, 28)))
    )


def _particles(sentence: str) -> str:
    """은/는 and the like, chosen by the last syllable before them, marks passed over."""
    while (choice := PARTICLE_PATTERN.search(sentence)) is not None:
        before = sentence[: choice.start()]
        noun = before.removesuffix(">").rpartition(":")[0] if before.endswith(">") else before
        sentence = before + particle(noun[-1], choice[1])[1:] + sentence[choice.end() :]
    return sentence
