"""Clauses of the built-in English-Korean grammar: verb phrases in both languages, with alignment keys per word."""

from __future__ import annotations

from typing import Literal, NamedTuple

from regard.data.builtin._en_ko_lexicon import Action, Moment
from regard.data.builtin._korean_morphology import Register, Verb, connective_form, sentence_final_form

NEGATION, PROGRESSIVE, NEGATED_PROGRESSIVE = Verb("않"), Verb("있", "stative"), Verb("않", "stative")


class Word(NamedTuple):
    """A word and its alignment keys; words of the two languages with a common key are aligned."""

    text: str
    keys: frozenset[str]


class BilingualPhrase(NamedTuple):
    """A phrase in both languages."""

    english: tuple[Word, ...]
    korean: tuple[Word, ...]


class Subject(NamedTuple):
    """The subject of a clause; `person` is I, s (third singular) or p (all others), for the English verb."""

    phrase: BilingualPhrase
    person: Literal["I", "s", "p"]


class Clause(NamedTuple):
    """The parts of a clause before they are put in order."""

    name: str
    subject: Subject
    action: Action
    object: BilingualPhrase
    moment: Moment
    negated: bool
    setting: BilingualPhrase


def verb_words(clause: Clause) -> tuple[Word, ...]:
    """Return the English verb of a clause with its auxiliary and `not`."""
    action, moment, person = clause.action, clause.moment, clause.subject.person
    auxiliary = _auxiliary(moment, person, negated=clause.negated)
    if moment.ongoing:
        form = action.ing
    elif auxiliary:
        form = action.base
    else:
        form = action.past if moment.tense == "past" else action.third if person == "s" else action.base
    tense, verb = frozenset({f"tense{clause.name}"}), frozenset({f"verb{clause.name}"})
    negation = (Word("not", frozenset({f"not{clause.name}"})),) if clause.negated else ()
    if not auxiliary:
        return (Word(form, verb | tense),)
    return (Word(auxiliary, tense), *negation, Word(form, verb))


def _auxiliary(moment: Moment, person: Literal["I", "s", "p"], *, negated: bool) -> str:
    if moment.ongoing and moment.tense == "past":
        return "were" if person == "p" else "was"
    if moment.ongoing:
        return {"I": "am", "s": "is", "p": "are"}[person]
    if moment.tense == "future":
        return "will"
    if not negated:
        return ""
    return "did" if moment.tense == "past" else "does" if person == "s" else "do"


def _korean_verb(clause: Clause) -> tuple[tuple[Word, ...], Verb, frozenset[str]]:
    """Return the words before the last Korean verb of a clause, that verb, and its keys without the tense."""
    verb, negation = frozenset({f"verb{clause.name}"}), frozenset({f"not{clause.name}"})
    tense, korean = frozenset({f"tense{clause.name}"}), clause.action.korean
    if clause.moment.ongoing:
        main_verb = Word(korean.stem + "고", verb)
        if clause.negated:
            return (main_verb, Word("있지", tense)), NEGATED_PROGRESSIVE, negation
        return (main_verb,), PROGRESSIVE, frozenset()
    if clause.negated:
        return (Word(korean.stem + "지", verb),), NEGATION, negation
    return (), korean, verb


def final_verb(clause: Clause, register: Register) -> tuple[Word, ...]:
    """Return the Korean verb that ends the sentence."""
    before, verb, keys = _korean_verb(clause)
    form = sentence_final_form(verb, tense=clause.moment.tense, register=register)
    return (*before, *_align_form(form, clause, keys))


def connective_verb(clause: Clause, conjunction: str) -> tuple[Word, ...]:
    """Return the Korean verb that connects a clause to the next one, by `and` (고) or `but` (지만)."""
    ending: Literal["고", "지만"] = "고" if conjunction == "and" else "지만"
    before, verb, keys = _korean_verb(clause)
    form = connective_form(verb, tense=clause.moment.tense, ending=ending)
    *inner, last = _align_form(form, clause, keys)
    return (*before, *inner, last._replace(keys=last.keys | {"joint"}))


def _align_form(form: str, clause: Clause, keys: frozenset[str]) -> tuple[Word, ...]:
    """Add keys to a verb form: of one word (action and tense) or of two (action, then tense)."""
    first, *rest = form.split()
    tense = frozenset({f"tense{clause.name}"})
    return (Word(first, keys), Word(rest[0], tense)) if rest else (Word(first, keys | tense),)
