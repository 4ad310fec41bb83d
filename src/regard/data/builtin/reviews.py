"""Generated film reviews in English and Korean, with the sentence and the words that determine the label.

A review has four to seven sentences. One of them, the evidence sentence, is an opinion about the film and determines
the label; it may be negated by `not`. The others state facts or opinions about something else (the popcorn, the
weather) in the same words, so that counting words is not enough. The split of a review depends on a hash of its
evidence sentence, so that no evidence sentence is in two splits.
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
MIN_SENTENCES, MAX_SENTENCES = 4, 7
NEGATION_RATE, OFF_TOPIC_RATE = 0.3, 0.25  # probabilities of a negation, and of an opinion about something else
EVIDENCE_PATTERN = re.compile(r"\*([^*]+)\*")


class Review(NamedTuple):
    """A text, its label, and the evidence for it."""

    text: str
    label: str
    sentences: tuple[Span, ...]  # character spans
    evidence_sentence: int  # index of the sentence that determines the label
    evidence_words: tuple[Span, ...]  # character spans of the words that determine the label


def generate(split: str, count: int, *, language: Language, seed: int) -> list[Review]:
    """Return `count` different reviews of a split (`train`, `valid`, `test`), half of them positive."""
    rng = split_rng(split, language=language, seed=seed)
    reviews: dict[str, Review] = {}
    while len(reviews) < count:
        review = _review(rng, language, positive=len(reviews) % 2 == 1, split=split)
        reviews.setdefault(review.text, review)
    return list(reviews.values())


def _review(rng: random.Random, language: Language, *, positive: bool, split: str) -> Review:
    generate_opinion, generate_filler = GENERATORS[language]
    register: Register = rng.choice(("plain", "polite"))
    evidence = generate_opinion(rng, positive, register)
    while split_of(EVIDENCE_PATTERN.sub(r"\1", evidence)) != split:
        evidence = generate_opinion(rng, positive, register)
    num_fillers, distinct = rng.randint(MIN_SENTENCES, MAX_SENTENCES) - 1, set[str]()
    while len(distinct) < num_fillers:
        distinct.add(generate_filler(rng, register))
    fillers = sorted(distinct)  # the order of a set differs between processes
    rng.shuffle(fillers)
    index = rng.randint(0, len(fillers))
    return _join_sentences([*fillers[:index], evidence, *fillers[index:]], index, LABELS[positive])


def _join_sentences(sentences: list[str], evidence_sentence: int, label: str) -> Review:
    """Join sentences, with the evidence words between stars, to a review."""
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
    return Review(text, label, tuple(spans), evidence_sentence, tuple(words))


def _english_opinion(rng: random.Random, positive: bool, register: Register) -> str:
    negated = rng.random() < NEGATION_RATE
    word = rng.choice(english.GOOD if positive != negated else english.BAD)
    template = rng.choice(english.NEGATED_TEMPLATES if negated else english.OPINION_TEMPLATES)
    sentence = template.format(aspect=rng.choice(english.ASPECTS), degree=rng.choice(english.DEGREES), word=word)
    return sentence[0].upper() + sentence[1:]


def _english_filler(rng: random.Random, register: Register) -> str:
    if rng.random() < OFF_TOPIC_RATE:
        word = rng.choice((*english.GOOD, *english.BAD))
        return rng.choice(english.OFF_TOPIC_TEMPLATES).format(degree=rng.choice(english.DEGREES), word=word)
    return rng.choice(english.FACT_TEMPLATES).format(
        film=rng.choice(english.FILMS),
        moment=rng.choice(english.MOMENTS),
        company=rng.choice(english.COMPANY),
        seat=rng.choice(english.SEATS),
        person=rng.choice(english.PEOPLE),
        deed=rng.choice(english.DEEDS),
        place=rng.choice(english.PLACES),
        number=rng.randint(2, 180),
    )


def _korean_opinion(rng: random.Random, positive: bool, register: Register) -> str:
    negated = rng.random() < NEGATION_RATE
    verb = rng.choice(korean.GOOD if positive != negated else korean.BAD)
    word = "* *".join(korean.denied(verb, register)) if negated else korean.past(verb, register)
    aspect = particle(rng.choice(korean.ASPECTS), "이/가")
    return rng.choice(korean.OPINION_TEMPLATES).format(aspect=aspect, degree=rng.choice(korean.DEGREES), word=word)


def _korean_filler(rng: random.Random, register: Register) -> str:
    if rng.random() < OFF_TOPIC_RATE:
        word = korean.past(rng.choice((*korean.GOOD, *korean.BAD)), register)
        return f"{particle(rng.choice(korean.OFF_TOPIC_SUBJECTS), '이/가')} {rng.choice(korean.DEGREES)}{word}."
    film, person, place = (rng.choice(options) for options in (korean.FILMS, korean.PEOPLE, korean.PLACES))
    stem = rng.choice(korean.FACT_TEMPLATES).format(
        film_object=_quote_title(film, "을/를"),
        film_topic=_quote_title(film, "은/는"),
        moment=rng.choice(korean.MOMENTS),
        company=rng.choice(korean.COMPANY),
        seat=rng.choice(korean.SEATS),
        person=person,
        person_subject=particle(person, "이/가"),
        deed=rng.choice(korean.DEEDS),
        place=place,
        place_was=particle(place, "이었/였"),
        number=rng.randint(2, 180),
    )
    return stem + ("다." if register == "plain" else "어요.")


def _quote_title(film: str, choice: str) -> str:
    """Return a title in quotes with the particle for its last syllable: '밤 버스'를."""
    return f"'{film}'{particle(film, choice).removeprefix(film)}"


OpinionGenerator = Callable[[random.Random, bool, Register], str]
GENERATORS: dict[str, tuple[OpinionGenerator, Callable[[random.Random, Register], str]]] = {
    "en": (_english_opinion, _english_filler),
    "ko": (_korean_opinion, _korean_filler),
}
