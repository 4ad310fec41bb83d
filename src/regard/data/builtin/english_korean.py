"""English -> Korean from a synchronous grammar: made in both languages at once, so that the word alignment is known.

Word order turns (SVO -> SOV), particles follow the last syllable, a subject with `a` is new (이/가), any other is the
topic (은/는). How polite the Korean is shows in English: `Sir,` and `Everyone,` ask for 합니다체, `Note:` for 해라체,
all else is 해요체. One English sentence has one translation. The split of a sentence is decided by its hash, so that
splits cannot overlap.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b
from itertools import product
from typing import Literal, NamedTuple, TypeVar

from regard.core.errors import DataError
from regard.data.builtin import _en_ko_lexicon as words
from regard.data.builtin._en_ko_clauses import (
    BilingualPhrase,
    Clause,
    Subject,
    Word,
    connective_verb,
    final_verb,
    verb_words,
)
from regard.data.builtin._korean_morphology import Register, Verb, particle, request

T = TypeVar("T")
HELD_OUT_PERCENT = 10  # of all sentences, for valid and for test each
CUED, TWO_CLAUSES, REQUESTS, FRONTED, NEGATED = 0.4, 0.15, 0.08, 0.2, 0.25  # how often
NO_SETTING = words.Setting("", "", "")


class Example(NamedTuple):
    """A sentence pair and which source word (counted from 0, cut at spaces) makes which target word."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


def generate(split: str, count: int, *, seed: int) -> list[Example]:
    """A split (`train`, `valid`, `test`) -> `count` different examples, the same for the same seed."""
    if split not in ("train", "valid", "test"):
        raise DataError(f"the built-in data has no split {split!r}; known: train, valid, test")
    chance = random.Random(f"{seed} {split}")
    examples: dict[str, Example] = {}
    while len(examples) < count:
        example = _example(chance)
        if split_of(example.source) == split:
            examples.setdefault(example.source, example)
    return list(examples.values())


def split_of(source: str) -> str:
    """An English sentence -> the split it belongs to."""
    place = int.from_bytes(blake2b(source.encode(), digest_size=4).digest(), "little") % 100
    if place < HELD_OUT_PERCENT:
        return "valid"
    return "test" if place < 2 * HELD_OUT_PERCENT else "train"


def min_num_statements() -> int:
    """How many statements of one clause there are at least; of two clauses there are about the square of it."""
    nouns = {kind: sum(_object_count(noun, kind) for noun in words.OBJECTS[kind]) for kind in words.OBJECTS}
    subjects = len(words.PRONOUNS) + len(words.NAMES) + 3 * len(words.PEOPLE) * (1 + len(words.PEOPLE_ADJECTIVES))
    timed = sum(1 for moment in words.MOMENTS if moment.english)
    orders = len(words.CUES) * len(words.MOMENTS) + timed  # a time may stand in front where no cue does
    around = {"goal": len(words.GOALS) * (1 + len(words.MEANS) + len(words.COMPANY))}
    beside = 1 + len(words.PLACES) + len(words.COMPANY)
    actions = sum(around.get(a.takes, nouns.get(a.takes, 1) * beside) for a in words.ACTIONS if a.base != a.past)
    return subjects * actions * orders * 2


def _object_count(noun: words.Noun, kind: str) -> int:
    return (len(_articles(noun, kind)) + (len(words.NUMBERS) if noun.plural else 0)) * (1 + len(words.ADJECTIVES[kind]))


def _example(chance: random.Random) -> Example:
    cues = words.CUES[1:] if chance.random() < CUED else words.CUES[:1]
    english_cue, korean_cue, register = chance.choice(cues)
    cue = _twin(english_cue, korean_cue, "cue")
    if register != "plain" and chance.random() < REQUESTS:
        return _finish(cue, _request(chance, register))
    first = _clause(chance, register, "1")
    time = _twin(first.moment.english, first.moment.korean, "time")
    fronted = bool(first.moment.english) and not english_cue and chance.random() < FRONTED
    front = BilingualPhrase((*time.english[:-1], _comma(time.english[-1])), time.korean) if fronted else cue
    inner = BilingualPhrase((), ()) if fronted else time
    if chance.random() >= TWO_CLAUSES:
        return _finish(front, _statement(first, inner, end=final_verb(first, register)))
    joint = chance.choice(("and", "but"))
    second = _clause(chance, register, "2")._replace(moment=first.moment._replace(english="", korean=""))
    left = _statement(first, inner, end=connective_verb(first, joint))
    right = _statement(second, BilingualPhrase((), ()), end=final_verb(second, register))
    link = Word(joint, frozenset({"joint"}))
    both = BilingualPhrase(
        (*left.english[:-1], _comma(left.english[-1]), link, *right.english), (*left.korean, *right.korean)
    )
    return _finish(front, both)


def _comma(word: Word) -> Word:
    return word._replace(text=word.text + ",")


def _finish(front: BilingualPhrase, rest: BilingualPhrase) -> Example:
    """Phrases -> text with capital and full stop, and the alignment."""
    english, korean = (*front.english, *rest.english), (*front.korean, *rest.korean)
    source, target = (" ".join(word.text for word in side) + "." for side in (english, korean))
    pairs = product(enumerate(english), enumerate(korean))
    alignment = tuple((i, j) for (i, e), (j, k) in pairs if e.about & k.about)
    return Example(source[0].upper() + source[1:], target, alignment)


def _clause(chance: random.Random, register: Register, name: str) -> Clause:
    subject = _subject(chance, register, f"subject{name}")
    action = chance.choice(words.ACTIONS)
    clear = action.base != action.past  # `I read` is either tense: here it is always the past
    moments = [m for m in words.MOMENTS if clear or m.ongoing or m.tense != "present"]
    setting = _setting(chance, action, f"setting{name}")
    things = _object(chance, action.takes, register, f"object{name}")
    return Clause(name, subject, action, things, chance.choice(moments), chance.random() < NEGATED, setting)


def _subject(chance: random.Random, register: Register, name: str) -> Subject:
    sort = chance.choice(("pronoun", "name", "noun", "noun"))
    if sort == "pronoun":
        english, humble, plain = chance.choice(words.PRONOUNS)
        korean = particle(plain if register == "plain" else humble, "은/는")
        person: Literal["I", "s", "p"] = "I" if english == "I" else "s" if english in ("he", "she") else "p"
        return Subject(_twin(english, korean, name), person)
    if sort == "name":
        english, korean = chance.choice(words.NAMES)
        return Subject(_twin(english, particle(korean, "은/는"), name), "s")
    article = chance.choice(("a", "the", "my"))
    noun = chance.choice(words.PEOPLE)
    phrase = _noun(article, noun, _maybe(chance, words.PEOPLE_ADJECTIVES, ("", "")), register=register, name=name)
    return Subject(_mark(phrase, "이/가" if article == "a" else "은/는"), "s")


def _object(chance: random.Random, kind: str, register: Register, name: str) -> BilingualPhrase:
    if kind not in words.OBJECTS:
        return BilingualPhrase((), ())
    noun = chance.choice(words.OBJECTS[kind])
    adjective = _maybe(chance, words.ADJECTIVES[kind], ("", ""))
    if noun.plural and chance.random() < 0.25:
        return _mark(_counted(chance.choice(words.NUMBERS), noun, adjective, name=name), "을/를")
    article = chance.choice(_articles(noun, kind))
    return _mark(_noun(article, noun, adjective, register=register, name=name), "을/를")


def _articles(noun: words.Noun, kind: str) -> tuple[str, ...]:
    return ("",) if kind == "subject" else ("a" if noun.plural else "", "the", "my")


def _noun(
    article: str, noun: words.Noun, adjective: tuple[str, str], *, register: Register, name: str
) -> BilingualPhrase:
    following = adjective[0] or noun.english
    english_article = "an" if article == "a" and following[0] in "aeiou" else article
    korean_article = {"the": "그", "my": "내" if register == "plain" else "제"}.get(article, "")
    head = _join_twins(
        _twin(english_article, korean_article, f"{name} article"), _twin(*adjective, f"{name} adjective")
    )
    return _join_twins(head, _twin(noun.english, noun.korean, name))


def _counted(number: tuple[str, str], noun: words.Noun, adjective: tuple[str, str], *, name: str) -> BilingualPhrase:
    english = _join_twins(_twin(number[0], "", f"{name} number"), _twin(*adjective, f"{name} adjective"))
    both = _join_twins(english, _twin(noun.plural, noun.korean, name))
    return _join_twins(both, _twin("", f"{number[1]} {noun.counter}", f"{name} number"))


def _setting(chance: random.Random, action: words.Action, name: str) -> BilingualPhrase:
    if action.takes == "goal":
        goal = _place(chance.choice(words.GOALS), name)
        beside = _maybe(chance, (*words.MEANS, *words.COMPANY), NO_SETTING)
        extra = _place(beside, f"{name} beside")
        return BilingualPhrase((*goal.english, *extra.english), (*extra.korean, *goal.korean))
    return _place(_maybe(chance, (*words.PLACES, *words.COMPANY), NO_SETTING), name)


def _place(setting: words.Setting, name: str) -> BilingualPhrase:
    if not setting.english:
        return BilingualPhrase((), ())
    marked = particle(setting.noun, setting.particle) if "/" in setting.particle else setting.noun + setting.particle
    twin = _twin(setting.english, marked, name)
    return BilingualPhrase(
        tuple(w._replace(about=frozenset()) if w.text == "the" else w for w in twin.english), twin.korean
    )


def _statement(clause: Clause, time: BilingualPhrase, *, end: tuple[Word, ...]) -> BilingualPhrase:
    """English: subject verb object setting time. Korean: subject time setting object verb."""
    subject = clause.subject.phrase
    english = (*subject.english, *verb_words(clause), *clause.object.english, *clause.setting.english, *time.english)
    return BilingualPhrase(
        english, (*subject.korean, *time.korean, *clause.setting.korean, *clause.object.korean, *end)
    )


def _request(chance: random.Random, register: Register) -> BilingualPhrase:
    action = chance.choice(words.ACTIONS)
    things = _object(chance, action.takes, register, "object")
    setting = _setting(chance, action, "setting")
    verb, ask, negation = (frozenset({name}) for name in ("verb", "ask", "not"))
    request_words: tuple[Word, ...] = (Word("please", ask), Word(action.base, verb))
    end: tuple[Word, ...] = (Word(request(action.korean, register), verb | ask),)
    if chance.random() < NEGATED:
        request_words = (Word("please", ask), Word("do", ask), Word("not", negation), Word(action.base, verb))
        end = (Word(action.korean.stem + "지", verb), Word(request(Verb("말"), register), negation | ask))
    return BilingualPhrase((*request_words, *things.english, *setting.english), (*setting.korean, *things.korean, *end))


def _mark(phrase: BilingualPhrase, choice: str) -> BilingualPhrase:
    """The phrase with a particle on its last Korean word."""
    last = phrase.korean[-1]
    return phrase._replace(korean=(*phrase.korean[:-1], last._replace(text=particle(last.text, choice))))


def _twin(english: str, korean: str, about: str) -> BilingualPhrase:
    return BilingualPhrase(
        *(tuple(Word(text, frozenset({about})) for text in side.split()) for side in (english, korean))
    )


def _join_twins(left: BilingualPhrase, right: BilingualPhrase) -> BilingualPhrase:
    return BilingualPhrase((*left.english, *right.english), (*left.korean, *right.korean))


def _maybe(chance: random.Random, options: Sequence[T], otherwise: T) -> T:
    return chance.choice(options) if options and chance.random() < 0.4 else otherwise
