"""Words and templates of the built-in English reviews. The evidence words are between *stars*."""

from __future__ import annotations

GOOD = tuple("great wonderful brilliant funny touching clever beautiful charming thrilling original".split())
BAD = tuple("awful boring terrible dull silly clumsy ugly tedious weak annoying".split())
DEGREES = ("", "very ", "really ", "quite ", "simply ", "rather ")
ASPECTS = tuple(
    f"the {noun}" for noun in "film story acting ending music dialogue direction plot camera script cast humour".split()
)
FILMS = ("The Last Train", "Green Lantern Street", "Seven Winters", "The Clockmaker", "A House by the Sea", "Night Bus")
MOMENTS = ("yesterday", "last week", "on Sunday", "two days ago", "in May", "after work", "on a rainy evening")
COMPANY = ("with my sister", "with two friends", "on my own", "with my parents", "with a colleague", "with my class")
SEATS = ("at the old cinema", "on a long flight", "at home", "in a small theatre", "on my laptop", "at a festival")
PEOPLE = (
    "a young doctor",
    "an old sailor",
    "two brothers",
    "a lonely teacher",
    "a famous singer",
    "a retired policeman",
)
DEEDS = (
    *("looks for a lost letter", "moves to another town", "meets a stranger on a train", "wants to build a boat"),
    *("returns home after ten years", "must sell an old house", "follows a mysterious map", "opens a tiny restaurant"),
)
PLACES = ("Paris", "a village in Norway", "Seoul", "the mountains", "a harbour town", "New York", "a desert", "Lisbon")
FACT_TEMPLATES = (
    "I watched {film} {moment} {company}.",
    "We saw {film} {seat} {moment}.",
    "It is about {person} who {deed}.",
    "The story takes place in {place}.",
    "Most of it was shot in {place}.",
    "The film lasts {number} minutes.",
    "It was made {number} months before the book came out.",
    "{film} is the third film of the director.",
    "The first scene shows {person} in {place}.",
    "There were about {number} people in the room.",
    "Another character {deed}.",
)
OFF_TOPIC_TEMPLATES = (  # an opinion, but not about the film
    "The popcorn was {degree}{word}.",
    "The weather that evening was {degree}{word}.",
    "My seat was {degree}{word}.",
    "The people behind us were {degree}{word}.",
    "The trailer before it was {degree}{word}.",
    "The way home was {degree}{word}.",
)
OPINION_TEMPLATES = (
    "I thought that {aspect} was {degree}*{word}*.",
    "For me {aspect} was {degree}*{word}*.",
    "In my eyes {aspect} was {degree}*{word}*.",
    "What stays is that {aspect} was {degree}*{word}*.",
    "{aspect} was {degree}*{word}*.",
)
NEGATED_TEMPLATES = (  # another word negates the opinion
    "I thought that {aspect} was *not* {degree}*{word}*.",
    "For me {aspect} was *never* {degree}*{word}*.",
    "{aspect} was *not* {degree}*{word}* at all.",
)
