"""Generated sentences with persons, places and times, in English (tagged words) and Korean (tagged characters).

The split of a sentence depends on its hash, so that splits cannot overlap. Half of the names in `valid`, `test` and
`templates` are not in the training sentences, and the sentences of `templates` also have templates of their own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Literal

from regard.core.errors import DataError
from regard.data.builtin import _entities_words as lists
from regard.data.builtin import _splits
from regard.data.builtin._korean_morphology import final_consonant, particle
from regard.data.builtin._splits import split_of
from regard.data.text import tag_schemes, word_units
from regard.data.text.tag_schemes import Entity
from regard.data.text.tagged_files import Sentence, parse_markup
from regard.data.text.word_units import Unit

Language = Literal["en", "ko"]
UNITS: dict[Language, Unit] = {"en": "words", "ko": "characters"}
ENTITY_TYPES = ("person", "place", "time")
FULL_NAME_RATE = 0.5  # probability that a name includes the surname
SUFFIX_RATE = 0.5  # probability that 이 follows a given name that ends with a consonant
FAMOUS_NAME_RATE = 0.1  # probability of a historical or public person in Korean training sentences
HELD_OUT_NAME_RATE = 0.5  # share of names in held-out splits that are not in the training data
RECENT_YEAR_RATE = 0.7  # share of years after 1950
TEMPLATES = "templates"  # split with templates that are not in the other splits
SPLITS = (*_splits.SPLITS, TEMPLATES)
ALL_TEMPLATES = {
    ("en", False): lists.ENGLISH_TEMPLATES,
    ("en", True): lists.HELD_OUT_ENGLISH_TEMPLATES,
    ("ko", False): lists.KOREAN_TEMPLATES,
    ("ko", True): lists.HELD_OUT_KOREAN_TEMPLATES,
}
ADVERB_PATTERN = re.compile(r"(<(?:어제|오늘|내일):time>)에(?=[ 도])")  # these times have no particle
PARTICLE_PATTERN = re.compile(r"\[([^\]]+)\]")


def generate(split: str, count: int, *, language: Language, seed: int) -> list[Sentence]:
    """Return `count` different sentences of a split (see `SPLITS`), the same for the same seed."""
    if split not in SPLITS:
        raise DataError(f"the built-in entities have no split {split!r}; known: {', '.join(SPLITS)}")
    rng = random.Random(f"{seed} {split} {language}")
    sentences: dict[str, Sentence] = {}
    while len(sentences) < count:
        text, spans = parse_markup(_markup_sentence(rng, language, split))
        if split in (TEMPLATES, split_of(text)):
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


def _markup_sentence(rng: random.Random, language: Language, split: str) -> str:
    """Generate a sentence with its entities as <name:type>."""
    english, held_out = language == "en", split != "train"
    templates = ALL_TEMPLATES[language, split == TEMPLATES]
    sentence = rng.choice(templates)
    generators: dict[str, Callable[[], str]] = {
        "P": lambda: _person(rng, language, held_out=held_out),
        "N": lambda: f"<{_korean_name(rng, held_out=held_out)}:person>",
        "L": lambda: f"<{_place(rng, language, held_out=held_out)}:place>",
        "T": lambda: rng.choice(lists.TIMES) if english else f"<{rng.choice(lists.KOREAN_TIMES)}:time>",
        "B": lambda: rng.choice(lists.BARE_TIMES),
        "F": lambda: _foreign_word(rng, language),
    }
    for symbol, generate_entity in generators.items():
        while f"{{{symbol}}}" in sentence:
            sentence = sentence.replace(f"{{{symbol}}}", generate_entity(), 1)
    sentence = _fill_numbers(rng, sentence, english=english)
    return _capitalize(sentence) if english else _fill_particles(sentence)


def _capitalize(sentence: str) -> str:
    """Write the first letter in upper case, also inside markup."""
    first = sentence.startswith("<")
    return sentence[: first + 1].upper() + sentence[first + 1 :]


def _choose(rng: random.Random, names: Sequence[str], held_out_names: Sequence[str], *, held_out: bool) -> str:
    """Draw a name; half of the names of a held-out split are not in the training data."""
    return rng.choice(held_out_names if held_out and rng.random() < HELD_OUT_NAME_RATE else names)


def _person(rng: random.Random, language: Language, *, held_out: bool) -> str:
    if language == "en":
        first = _choose(rng, lists.FIRST_NAMES, lists.HELD_OUT_FIRST_NAMES, held_out=held_out)
        last = _choose(rng, lists.SURNAMES, lists.HELD_OUT_SURNAMES, held_out=held_out)
        return f"<{first} {last}:person>" if rng.random() < FULL_NAME_RATE else f"<{first}:person>"
    name = _korean_name(rng, held_out=held_out)
    is_given = name in lists.KOREAN_GIVEN_NAMES or name in lists.HELD_OUT_KOREAN_GIVEN_NAMES
    has_suffix = is_given and final_consonant(name) and rng.random() < SUFFIX_RATE  # 아름 -> 아름이: among friends
    return f"<{name}:person>{'이' if has_suffix else ''}"


def _korean_name(rng: random.Random, *, held_out: bool) -> str:
    """Return a given name, a surname with a given name, or the name of a historical or public person."""
    if not held_out and rng.random() < FAMOUS_NAME_RATE:
        return rng.choice(lists.KOREAN_FULL_NAMES)
    name = _choose(rng, lists.KOREAN_GIVEN_NAMES, lists.HELD_OUT_KOREAN_GIVEN_NAMES, held_out=held_out)
    return f"{rng.choice(lists.KOREAN_SURNAMES)}{name}" if rng.random() < FULL_NAME_RATE else name


def _place(rng: random.Random, language: Language, *, held_out: bool) -> str:
    if language == "en":
        return _choose(rng, lists.PLACES, lists.HELD_OUT_PLACES, held_out=held_out)
    return _choose(rng, lists.KOREAN_PLACES, lists.HELD_OUT_KOREAN_PLACES, held_out=held_out)


def _foreign_word(rng: random.Random, language: Language) -> str:
    """Return random letters of another script, which are no entity: Hangul in English, Cyrillic in Korean."""
    low, high = (0xAC00, 0xD7A3) if language == "en" else (0x0430, 0x044F)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(2, 5)))


def _fill_numbers(rng: random.Random, sentence: str, *, english: bool) -> str:
    month: str | int = rng.choice(lists.MONTHS) if english else rng.randint(1, 12)
    first_year = 1950 if rng.random() < RECENT_YEAR_RATE else 1400
    return (
        sentence.replace("{year}", str(rng.randint(first_year, 2029)))
        .replace("{month}", str(month))
        .replace("{day}", rng.choice(lists.DAYS))
        .replace("{hour}", str(rng.randint(1, 12)))
        .replace("{number}", str(rng.randint(1, 28)))
    )


def _fill_particles(sentence: str) -> str:
    """Replace choices such as [은/는] by the particle for the preceding syllable, ignoring markup."""
    sentence = ADVERB_PATTERN.sub(r"\1", sentence)
    while (choice := PARTICLE_PATTERN.search(sentence)) is not None:
        before = sentence[: choice.start()]
        noun = before.removesuffix(">").rpartition(":")[0] if before.endswith(">") else before
        sentence = before + particle(noun[-1], choice[1])[1:] + sentence[choice.end() :]
    return sentence
