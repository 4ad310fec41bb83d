"""Reviews of films from a grammar, in English and in Korean: which sentence and which words decide is known.

A review has four to seven sentences. One of them is an opinion about the film and decides; its words may be turned
round by `not`. The others tell facts, and some have an opinion about something else (the popcorn, the weather), made of
the same words, so that counting words is not enough. The split of a review is that of its deciding sentence, which is
decided by a hash: no sentence that decides in one split decides in another.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from regard.data.builtin import _reviews_english as english
from regard.data.builtin import _reviews_korean as korean
from regard.data.builtin._korean_morphology import Register, particle
from regard.data.builtin._splits import split_of, split_rng

Language = Literal["en", "ko"]
Span = tuple[int, int]
LABELS = ("negative", "positive")
MIN_SENTENCES, MAX_SENTENCES = 4, 7  # sentences
NEGATION_RATE, OFF_TOPIC_RATE = 0.3, 0.25  # how often a word is denied, and an opinion is about something else
EVIDENCE_PATTERN = re.compile(r"\*([^*]+)\*")


class Review(NamedTuple):
    """A text, its label, and what decides it."""

    text: str
    label: str
    sentences: tuple[Span, ...]  # places in the text
    evidence_sentence: int  # the number of the sentence that decides
    evidence_words: tuple[Span, ...]  # the deciding words: places in the text


def generate(split: str, count: int, *, language: Language, seed: int) -> list[Review]:
    """A split (`train`, `valid`, `test`) -> `count` different reviews, half of them positive; the same for a seed."""
    chance = split_rng(split, language=language, seed=seed)
    reviews: dict[str, Review] = {}
    while len(reviews) < count:
        review = _review(chance, language, positive=len(reviews) % 2 == 1, split=split)
        reviews.setdefault(review.text, review)
    return list(reviews.values())


def _review(chance: random.Random, language: Language, *, positive: bool, split: str) -> Review:
    decide, fill = GENERATORS[language]
    register: Register = chance.choice(("plain", "polite"))
    starred = decide(chance, positive, register)
    while split_of(EVIDENCE_PATTERN.sub(r"\1", starred)) != split:
        starred = decide(chance, positive, register)
    length, different = chance.randint(MIN_SENTENCES, MAX_SENTENCES) - 1, set[str]()
    while len(different) < length:
        different.add(fill(chance, register))
    others = sorted(different)  # the order of a set is not the same in every process
    chance.shuffle(others)
    deciding = chance.randint(0, len(others))
    return _joined([*others[:deciding], starred, *others[deciding:]], deciding, LABELS[positive])


def _joined(sentences: list[str], deciding: int, label: str) -> Review:
    """Sentences, the words that decide between stars -> the review."""
    text, spans, words = "", list[Span](), list[Span]()
    for sentence in sentences:
        plain, end = "", 0
        first = len(text) + (1 if text else 0)
        for match in EVIDENCE_PATTERN.finditer(sentence):
            plain += sentence[end : match.start()]
            words.append((first + len(plain), first + len(plain) + len(match[1])))
            plain += match[1]
            end = match.end()
        plain += sentence[end:]
        text = f"{text} {plain}" if text else plain
        spans.append((first, len(text)))
    return Review(text, label, tuple(spans), deciding, tuple(words))


def _decide_english(chance: random.Random, positive: bool, register: Register) -> str:
    turned = chance.random() < NEGATION_RATE
    word = chance.choice(english.GOOD if positive != turned else english.BAD)
    template = chance.choice(english.NEGATED_TEMPLATES if turned else english.OPINION_TEMPLATES)
    sentence = template.format(aspect=chance.choice(english.ASPECTS), degree=chance.choice(english.DEGREES), word=word)
    return sentence[0].upper() + sentence[1:]


def _fill_english(chance: random.Random, register: Register) -> str:
    if chance.random() < OFF_TOPIC_RATE:
        word = chance.choice((*english.GOOD, *english.BAD))
        return chance.choice(english.OFF_TOPIC_TEMPLATES).format(degree=chance.choice(english.DEGREES), word=word)
    return chance.choice(english.FACT_TEMPLATES).format(
        film=chance.choice(english.FILMS),
        moment=chance.choice(english.MOMENTS),
        company=chance.choice(english.COMPANY),
        seat=chance.choice(english.SEATS),
        person=chance.choice(english.PEOPLE),
        deed=chance.choice(english.DEEDS),
        place=chance.choice(english.PLACES),
        number=chance.randint(2, 180),
    )


def _decide_korean(chance: random.Random, positive: bool, register: Register) -> str:
    turned = chance.random() < NEGATION_RATE
    verb = chance.choice(korean.GOOD if positive != turned else korean.BAD)
    word = "* *".join(korean.denied(verb, register)) if turned else korean.past(verb, register)
    aspect = particle(chance.choice(korean.ASPECTS), "이/가")
    return chance.choice(korean.OPINION_TEMPLATES).format(
        aspect=aspect, degree=chance.choice(korean.DEGREES), word=word
    )


def _fill_korean(chance: random.Random, register: Register) -> str:
    if chance.random() < OFF_TOPIC_RATE:
        word = korean.past(chance.choice((*korean.GOOD, *korean.BAD)), register)
        return f"{particle(chance.choice(korean.OFF_TOPIC_SUBJECTS), '이/가')} {chance.choice(korean.DEGREES)}{word}."
    film, person, place = (chance.choice(each) for each in (korean.FILMS, korean.PEOPLE, korean.PLACES))
    stem = chance.choice(korean.FACT_TEMPLATES).format(
        film_object=_titled(film, "을/를"),
        film_topic=_titled(film, "은/는"),
        moment=chance.choice(korean.MOMENTS),
        company=chance.choice(korean.COMPANY),
        seat=chance.choice(korean.SEATS),
        person=person,
        person_subject=particle(person, "이/가"),
        deed=chance.choice(korean.DEEDS),
        place=place,
        place_was=particle(place, "이었/였"),
        number=chance.randint(2, 180),
    )
    return stem + ("다." if register == "plain" else "어요.")


def _titled(film: str, choice: str) -> str:
    """A title in quotes with the particle that its last syllable asks for: '밤 버스'를."""
    return f"'{film}'{particle(film, choice).removeprefix(film)}"


OpinionGenerator = Callable[[random.Random, bool, Register], str]
GENERATORS: dict[str, tuple[OpinionGenerator, Callable[[random.Random, Register], str]]] = {
    "en": (_decide_english, _fill_english),
    "ko": (_decide_korean, _fill_korean),
}
