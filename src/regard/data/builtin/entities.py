"""Generated sentences with persons, places and times, in English (tagged words) and Korean (tagged characters).

The split of a sentence depends on its hash, so that splits cannot overlap.
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
FULL_NAME_RATE = 0.5  # probability that a name includes the surname
PARTICLE_PATTERN = re.compile(r"\[([^\]]+)\]")


def generate(split: str, count: int, *, language: Language, seed: int) -> list[Sentence]:
    """Return `count` different sentences of a split (`train`, `valid`, `test`), the same for the same seed."""
    rng = split_rng(split, language=language, seed=seed)
    sentences: dict[str, Sentence] = {}
    while len(sentences) < count:
        text, spans = parse_markup(_markup_sentence(rng, language))
        if split_of(text) == split:
            location = f"built-in entities_{language} {split}:{len(sentences) + 1}"
            sentences.setdefault(text, tag_sentence(text, spans, language=language, location=location))
    return list(sentences.values())


def tag_sentence(text: str, entity_list: list[Entity], *, language: Language, location: str) -> Sentence:
    """Text and character spans of its entities -> units with tags."""
    units = word_units.SPLITTERS[UNITS[language]](text)
    unit_entities = []
    for first, last, kind in entity_list:
        covered = [i for i, (start, stop) in enumerate(units) if start < last and stop > first]
        unit_entities.append(Entity(covered[0], covered[-1] + 1, kind))
    tags = tag_schemes.entities_to_tags(unit_entities, len(units), "bio")
    return Sentence(text, tuple(units), tuple(tags), location)


def _markup_sentence(rng: random.Random, language: Language) -> str:
    """Generate a sentence with its entities as <name:type>."""
    english = language == "en"
    sentence = rng.choice(lists.ENGLISH_TEMPLATES if english else lists.KOREAN_TEMPLATES)
    generators = {"P": _person, "L": _city, "T": _time}
    for symbol, generate_entity in generators.items():
        while f"{{{symbol}}}" in sentence:
            sentence = sentence.replace(f"{{{symbol}}}", generate_entity(rng, language), 1)
    sentence = _fill_numbers(rng, sentence)
    return sentence[0].upper() + sentence[1:] if english else _fill_particles(sentence)


def _person(rng: random.Random, language: Language) -> str:
    is_full = rng.random() < FULL_NAME_RATE
    if language == "en":
        name = rng.choice(lists.FIRST_NAMES)
        return f"<{name} {rng.choice(lists.SURNAMES)}:person>" if is_full else f"<{name}:person>"
    name = rng.choice(lists.KOREAN_GIVEN_NAMES)
    if is_full:
        return f"<{rng.choice(lists.KOREAN_SURNAMES)}{name}:person>"
    return f"<{name}:person>{'이' if final_consonant(name) else ''}"  # 아름 -> 아름이: a given name among friends


def _city(rng: random.Random, language: Language) -> str:
    return f"<{rng.choice(lists.CITIES if language == 'en' else lists.KOREAN_CITIES)}:place>"


def _time(rng: random.Random, language: Language) -> str:
    return rng.choice(lists.TIMES) if language == "en" else f"<{rng.choice(lists.KOREAN_TIMES)}:time>"


def _fill_numbers(rng: random.Random, sentence: str) -> str:
    month: str | int = rng.choice(lists.MONTHS) if sentence.isascii() else rng.randint(1, 12)
    return (
        sentence.replace("{year}", str(rng.randint(1950, 2029)))
        .replace("{month}", str(month))
        .replace("{day}", rng.choice(lists.DAYS))
        .replace("{hour}", str(rng.randint(1, 12)))
        .replace("{number}", str(rng.randint(1, 28)))
    )


def _fill_particles(sentence: str) -> str:
    """Replace choices such as [은/는] by the particle for the preceding syllable, ignoring markup."""
    while (choice := PARTICLE_PATTERN.search(sentence)) is not None:
        before = sentence[: choice.start()]
        noun = before.removesuffix(">").rpartition(":")[0] if before.endswith(">") else before
        sentence = before + particle(noun[-1], choice[1])[1:] + sentence[choice.end() :]
    return sentence
