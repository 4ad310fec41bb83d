"""English-Korean sentence pairs from a synchronous grammar, with the exact word alignment.

The word order changes (SVO -> SOV), and particles depend on the last syllable. A subject with `a` is new (이/가), any
other is the topic (은/는). English cues determine the Korean speech level: `Sir,` and `Everyone,` select 합니다체,
`Note:` selects 해라체, everything else is 해요체, also with `Hello`. One English sentence has one translation. Some
have no full stop. The split of a sentence depends on its hash, so that splits cannot overlap.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Literal, NamedTuple, TypeVar

from regard.data.builtin import _en_ko_lexicon as words
from regard.data.builtin import _splits
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
CUED, TWO_CLAUSES, REQUESTS, FRONTED, NEGATED = 0.4, 0.15, 0.08, 0.2, 0.25  # probabilities
PRONOUN_OBJECTS, GIVING, NAMED_PETS, UNCOUNTED_GIFTS, UNPUNCTUATED = 0.3, 0.08, 0.7, 0.5, 0.05
GIFT_ACTIONS = [action for action in words.ACTIONS if action.takes == "gift"]
NO_SETTING = words.Setting("", "", "")


class Example(NamedTuple):
    """A sentence pair and its alignment: pairs of source and target word indices, from 0, split at spaces."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


def split_of(source: str) -> str:
    """Return the split of an English sentence; a missing full stop does not change it."""
    return _splits.split_of(source.removesuffix(".") + ".")


def generate(split: str, count: int, *, seed: int) -> list[Example]:
    """Return `count` different examples of a split (`train`, `valid`, `test`), the same for the same seed."""
    _splits.check_split(split)
    rng = random.Random(f"{seed} {split}")
    examples: dict[str, Example] = {}
    while len(examples) < count:
        example = _example(rng)
        if rng.random() < UNPUNCTUATED:
            example = example._replace(source=example.source.removesuffix("."))
        if split_of(example.source) == split:
            examples.setdefault(example.source, example)
    return list(examples.values())


def min_num_statements() -> int:
    """Return a lower bound on the number of statements of one clause; those of two clauses are keys its square."""
    nouns = {kind: sum(_object_count(noun, kind) for noun in words.OBJECTS[kind]) for kind in words.OBJECTS}
    subjects = len(words.PRONOUNS) + len(words.NAMES) + 3 * len(words.PEOPLE) * (1 + len(words.PEOPLE_ADJECTIVES))
    num_timed = sum(1 for moment in words.MOMENTS if moment.english)
    orders = len(words.CUES) * len(words.MOMENTS) + num_timed  # a time comes first if there is no cue
    goals = {"goal": len(words.GOALS) * (1 + len(words.MEANS) + len(words.COMPANY))}
    settings = 1 + len(words.PLACES) + len(words.COMPANY)
    actions = sum(goals.get(a.takes, nouns.get(a.takes, 1) * settings) for a in words.ACTIONS if a.base != a.past)
    return subjects * actions * orders * 2


def _object_count(noun: words.Noun, kind: str) -> int:
    return (len(_articles(noun, kind)) + (len(words.NUMBERS) if noun.plural else 0)) * (1 + len(words.ADJECTIVES[kind]))


def _example(rng: random.Random) -> Example:
    cues = words.CUES[1:] if rng.random() < CUED else words.CUES[:1]
    english_cue, korean_cue, register = rng.choice(cues)
    cue = _phrase(english_cue, korean_cue, "cue")
    if register != "plain" and rng.random() < REQUESTS:
        return _finish(cue, _request(rng, register))
    first = _clause(rng, register, "1")
    time = _phrase(first.moment.english, first.moment.korean, "time")
    fronted = bool(first.moment.english) and not english_cue and rng.random() < FRONTED
    front = BilingualPhrase((*time.english[:-1], _comma(time.english[-1])), time.korean) if fronted else cue
    inner = BilingualPhrase((), ()) if fronted else time
    if rng.random() >= TWO_CLAUSES:
        return _finish(front, _statement(first, inner, end=final_verb(first, register)))
    joint = rng.choice(("and", "but"))
    second = _clause(rng, register, "2")._replace(moment=first.moment._replace(english="", korean=""))
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
    """Join phrases to an example: text with a capital and a full stop, and the alignment."""
    english, korean = (*front.english, *rest.english), (*front.korean, *rest.korean)
    source, target = (" ".join(word.text for word in phrase) + "." for phrase in (english, korean))
    pairs = product(enumerate(english), enumerate(korean))
    alignment = tuple((i, j) for (i, e), (j, k) in pairs if e.keys & k.keys)
    return Example(source[0].upper() + source[1:], target, alignment)


def _clause(rng: random.Random, register: Register, name: str) -> Clause:
    subject = _subject(rng, register, f"subject{name}")
    action = rng.choice(GIFT_ACTIONS if rng.random() < GIVING else words.ACTIONS)
    is_unambiguous = action.base != action.past  # `I read` has two readings: here it is always the past
    moments = [m for m in words.MOMENTS if is_unambiguous or m.ongoing or m.tense != "present"]
    setting = _setting(rng, action, f"setting{name}")
    object_phrase = _object(rng, action.takes, register, f"object{name}")
    return Clause(name, subject, action, object_phrase, rng.choice(moments), rng.random() < NEGATED, setting)


def _subject(rng: random.Random, register: Register, name: str) -> Subject:
    kind = rng.choice(("pronoun", "name", "noun", "noun"))
    if kind == "pronoun":
        english, humble, plain = rng.choice(words.PRONOUNS)
        korean = particle(plain if register == "plain" else humble, "은/는")
        person: Literal["I", "s", "p"] = "I" if english == "I" else "s" if english in ("he", "she") else "p"
        return Subject(_phrase(english, korean, name), person)
    if kind == "name":
        english, korean = rng.choice(words.NAMES)
        return Subject(_phrase(english, particle(korean, "은/는"), name), "s")
    article = rng.choice(("a", "the", "my"))
    noun = rng.choice(words.PEOPLE)
    phrase = _noun(article, noun, _maybe(rng, words.PEOPLE_ADJECTIVES, ("", "")), register=register, name=name)
    return Subject(_with_particle(phrase, "이/가" if article == "a" else "은/는"), "s")


def _object(rng: random.Random, kind: str, register: Register, name: str) -> BilingualPhrase:
    if kind == "gift":
        return _join_phrases(_recipient(rng, register, f"{name} recipient"), _gift(rng, register, name))
    if kind == "person" and rng.random() < PRONOUN_OBJECTS:
        return _with_particle(_object_pronoun(rng, register, name), "을/를")
    if kind not in words.OBJECTS:
        return BilingualPhrase((), ())
    noun = rng.choice(words.OBJECTS[kind])
    adjective = _maybe(rng, words.ADJECTIVES[kind], ("", ""))
    if noun.plural and rng.random() < 0.25:
        return _with_particle(_counted(rng.choice(words.NUMBERS), noun, adjective, name=name), "을/를")
    article = rng.choice(_articles(noun, kind))
    return _with_particle(_noun(article, noun, adjective, register=register, name=name), "을/를")


def _object_pronoun(rng: random.Random, register: Register, name: str) -> BilingualPhrase:
    english, humble, plain = rng.choice(words.OBJECT_PRONOUNS)
    return _phrase(english, plain if register == "plain" else humble, name)


def _recipient(rng: random.Random, register: Register, name: str) -> BilingualPhrase:
    """Return the receiver of a gift: `my dog Charlie` -> 제 개 찰리에게."""
    kind = rng.choice(("pronoun", "person", "pet", "pet", "pet"))
    if kind == "pronoun":
        phrase = _object_pronoun(rng, register, name)
    else:
        nouns, adjectives = (
            (words.PETS, words.PET_ADJECTIVES) if kind == "pet" else (words.PEOPLE, words.PEOPLE_ADJECTIVES)
        )
        adjective = _maybe(rng, adjectives, ("", ""))
        phrase = _noun(rng.choice(("a", "the", "my")), rng.choice(nouns), adjective, register=register, name=name)
        if kind == "pet" and rng.random() < NAMED_PETS:
            phrase = _join_phrases(phrase, _phrase(*rng.choice(words.PET_NAMES), f"{name} name"))
    return _with_particle(phrase, "에게/에게")


def _gift(rng: random.Random, register: Register, name: str) -> BilingualPhrase:
    if rng.random() < UNCOUNTED_GIFTS:
        return _with_particle(_phrase(*rng.choice(words.GIFTS), name), "을/를")
    return _object(rng, "thing", register, name)


def _articles(noun: words.Noun, kind: str) -> tuple[str, ...]:
    return ("",) if kind == "subject" else ("a" if noun.plural else "", "the", "my")


def _noun(
    article: str, noun: words.Noun, adjective: tuple[str, str], *, register: Register, name: str
) -> BilingualPhrase:
    following = adjective[0] or noun.english
    english_article = "an" if article == "a" and following[0] in "aeiou" else article
    korean_article = {"the": "그", "my": "내" if register == "plain" else "제"}.get(article, "")
    head = _join_phrases(
        _phrase(english_article, korean_article, f"{name} article"), _phrase(*adjective, f"{name} adjective")
    )
    return _join_phrases(head, _phrase(noun.english, noun.korean, name))


def _counted(number: tuple[str, str], noun: words.Noun, adjective: tuple[str, str], *, name: str) -> BilingualPhrase:
    english = _join_phrases(_phrase(number[0], "", f"{name} number"), _phrase(*adjective, f"{name} adjective"))
    both = _join_phrases(english, _phrase(noun.plural, noun.korean, name))
    return _join_phrases(both, _phrase("", f"{number[1]} {noun.counter}", f"{name} number"))


def _setting(rng: random.Random, action: words.Action, name: str) -> BilingualPhrase:
    if action.takes == "goal":
        goal = _setting_phrase(rng.choice(words.GOALS), name)
        extra_setting = _maybe(rng, (*words.MEANS, *words.COMPANY), NO_SETTING)
        extra = _setting_phrase(extra_setting, f"{name} extra")
        return BilingualPhrase((*goal.english, *extra.english), (*extra.korean, *goal.korean))
    return _setting_phrase(_maybe(rng, (*words.PLACES, *words.COMPANY), NO_SETTING), name)


def _setting_phrase(setting: words.Setting, name: str) -> BilingualPhrase:
    if not setting.english:
        return BilingualPhrase((), ())
    korean = particle(setting.noun, setting.particle) if "/" in setting.particle else setting.noun + setting.particle
    phrase = _phrase(setting.english, korean, name)
    return BilingualPhrase(
        tuple(w._replace(keys=frozenset()) if w.text == "the" else w for w in phrase.english), phrase.korean
    )


def _statement(clause: Clause, time: BilingualPhrase, *, end: tuple[Word, ...]) -> BilingualPhrase:
    """English: subject verb object setting time. Korean: subject time setting object verb."""
    subject = clause.subject.phrase
    english = (*subject.english, *verb_words(clause), *clause.object.english, *clause.setting.english, *time.english)
    return BilingualPhrase(
        english, (*subject.korean, *time.korean, *clause.setting.korean, *clause.object.korean, *end)
    )


def _request(rng: random.Random, register: Register) -> BilingualPhrase:
    action = rng.choice([action for action in words.ACTIONS if action.takes != "gift"])  # 줘 주세요 is not used
    object_phrase = _object(rng, action.takes, register, "object")
    setting = _setting(rng, action, "setting")
    verb, ask, negation = (frozenset({name}) for name in ("verb", "ask", "not"))
    request_words: tuple[Word, ...] = (Word("please", ask), Word(action.base, verb))
    end: tuple[Word, ...] = (Word(request(action.korean, register), verb | ask),)
    if rng.random() < NEGATED:
        request_words = (Word("please", ask), Word("do", ask), Word("not", negation), Word(action.base, verb))
        end = (Word(action.korean.stem + "지", verb), Word(request(Verb("말"), register), negation | ask))
    return BilingualPhrase(
        (*request_words, *object_phrase.english, *setting.english), (*setting.korean, *object_phrase.korean, *end)
    )


def _with_particle(phrase: BilingualPhrase, choice: str) -> BilingualPhrase:
    """Append a particle to the last Korean word of a phrase."""
    last = phrase.korean[-1]
    return phrase._replace(korean=(*phrase.korean[:-1], last._replace(text=particle(last.text, choice))))


def _phrase(english: str, korean: str, key: str) -> BilingualPhrase:
    return BilingualPhrase(
        *(tuple(Word(text, frozenset({key})) for text in language.split()) for language in (english, korean))
    )


def _join_phrases(left: BilingualPhrase, right: BilingualPhrase) -> BilingualPhrase:
    return BilingualPhrase((*left.english, *right.english), (*left.korean, *right.korean))


def _maybe(rng: random.Random, options: Sequence[T], default: T) -> T:
    return rng.choice(options) if options and rng.random() < 0.4 else default
