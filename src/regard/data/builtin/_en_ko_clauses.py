"""A clause and its verb in both languages, with what each word is about."""

from __future__ import annotations

from typing import Literal, NamedTuple

from regard.data.builtin._en_ko_lexicon import Action, Moment
from regard.data.builtin._korean_morphology import Register, Verb, connective_form, sentence_final_form

NOT, BEING, NOT_BEING = Verb("않"), Verb("있", "stative"), Verb("않", "stative")


class Word(NamedTuple):
    """A word and what it is about; words of the two languages about the same thing are aligned."""

    text: str
    about: frozenset[str]


class BilingualPhrase(NamedTuple):
    """A phrase in both languages."""

    english: tuple[Word, ...]
    korean: tuple[Word, ...]


class Subject(NamedTuple):
    """Who acts; `person` is I, s (third singular) or p (all others), for the English verb."""

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
    """A clause -> its English verb with its auxiliary and `not`."""
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
    """A clause -> the words before its last verb, that verb, and what it is about besides the tense."""
    verb, negation = frozenset({f"verb{clause.name}"}), frozenset({f"not{clause.name}"})
    tense, korean = frozenset({f"tense{clause.name}"}), clause.action.korean
    if clause.moment.ongoing:
        going = Word(korean.stem + "고", verb)
        if clause.negated:
            return (going, Word("있지", tense)), NOT_BEING, negation
        return (going,), BEING, frozenset()
    if clause.negated:
        return (Word(korean.stem + "지", verb),), NOT, negation
    return (), korean, verb


def final_verb(clause: Clause, register: Register) -> tuple[Word, ...]:
    """A clause -> the Korean verb that ends the sentence."""
    before, verb, about = _korean_verb(clause)
    return (*before, *_ending(sentence_final_form(verb, tense=clause.moment.tense, register=register), clause, about))


def connective_verb(clause: Clause, conjunction: str) -> tuple[Word, ...]:
    """A clause -> the Korean verb that leads on to the next clause, by `and` (고) or `but` (지만)."""
    ending: Literal["고", "지만"] = "고" if conjunction == "and" else "지만"
    before, verb, about = _korean_verb(clause)
    *inner, last = _ending(connective_form(verb, tense=clause.moment.tense, ending=ending), clause, about)
    return (*before, *inner, last._replace(about=last.about | {"joint"}))


def _ending(form: str, clause: Clause, about: frozenset[str]) -> tuple[Word, ...]:
    """A verb form of one word (about action and tense) or of two (about the one, then the other)."""
    first, *rest = form.split()
    tense = frozenset({f"tense{clause.name}"})
    return (Word(first, about), Word(rest[0], tense)) if rest else (Word(first, about | tense),)
