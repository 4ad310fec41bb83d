"""Tags of entities: BIO (IOB2), IOB1 and IOBES, told apart, checked and converted into each other.

Entities are the common ground: tags -> entities by the rules of one scheme, entities -> tags by those of another.
BILOU (L for E, U for S) and BMES (M for I) are IOBES with other letters and are read as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from regard.core.data_specs import TagTransitions
from regard.core.errors import DataError

Scheme = Literal["bio", "iob1", "iobes"]
SEQEVAL_NAMES = {"bio": "IOB2", "iob1": "IOB1", "iobes": "IOBES"}  # what seqeval calls them
SCHEME_PREFIXES = {"bio": "BI", "iob1": "BI", "iobes": "BIES"}
PREFIX_ALIASES = {"L": "E", "U": "S", "M": "I"}  # other letters for the same thing
OUTSIDE = "O"


class Entity(NamedTuple):
    """An entity: the units first … last - 1, and its type."""

    start: int
    stop: int
    type: str


class TagError(NamedTuple):
    """What is wrong with the tag of one unit."""

    unit: int
    problem: str


@lru_cache(maxsize=4096)  # a corpus has few different tags
def parse(tag: str) -> tuple[str, str]:
    """A tag -> its letter and type: "B-person" or "B_PS"; ("O", "") outside, ("I", "") for a bare I."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, kind = tag[:1], tag[2:]
    letter = PREFIX_ALIASES.get(letter, letter)
    if letter not in ("B", "I", "E", "S") or (len(tag) > 1 and (tag[1] not in "-_" or not kind)):
        raise DataError(f"{tag!r} is no tag; expected O, or B- and I- with a type such as B-person")
    return letter, kind


def parse_tags(tags: Sequence[str]) -> list[tuple[str, str]]:
    """Tags -> letters and types; a bare I has the type of the tag before it (the KLP data is written so)."""
    parsed: list[tuple[str, str]] = []
    for tag in tags:
        letter, kind = parse(tag)
        if letter != OUTSIDE and not kind:
            kind = parsed[-1][1] if parsed else ""
        parsed.append((letter, kind))
    return parsed


def may_follow(before: tuple[str, str], after: tuple[str, str], scheme: Scheme) -> bool:
    """Whether a tag may stand behind another; both as letter and type. O stands before the first tag."""
    same = before[1] == after[1]
    opened = before[0] in ("B", "I")
    if scheme == "bio":
        return after[0] != "I" or (opened and same)
    if scheme == "iob1":
        return after[0] != "B" or (opened and same)
    return (after[0] in ("I", "E") and same) if opened else after[0] not in ("I", "E")


def find_tag_error(tags: Sequence[str], scheme: Scheme) -> TagError | None:
    """The first unit whose tag breaks the rules of a scheme; None where all keep them."""
    parsed = [(OUTSIDE, ""), *parse_tags(tags)]
    for i, (before, after) in enumerate(pairwise(parsed)):
        if after[0] != OUTSIDE and after[0] not in SCHEME_PREFIXES[scheme]:
            return TagError(i, f"{tags[i]!r} is not a tag of {SEQEVAL_NAMES[scheme]}")
        if after[0] != OUTSIDE and not after[1]:
            return TagError(i, f"{tags[i]!r} goes on with an entity that has not begun")
        if not may_follow(before, after, scheme):
            return TagError(i, _problem(tags, i, scheme))
    if scheme == "iobes" and parsed[-1][0] in ("B", "I"):
        return TagError(len(tags) - 1, f"{tags[-1]!r} has no end: the sentence ends")
    return None


def _problem(tags: Sequence[str], i: int, scheme: Scheme) -> str:
    letter = parse(tags[i])[0]
    if scheme == "iob1":
        return f"{tags[i]!r} begins an entity where IOB1 has I: none of its type stands before it"
    if letter in ("I", "E"):
        return f"{tags[i]!r} goes on with an entity that has not begun"
    return f"{tags[i - 1]!r} has no end: {tags[i]!r} follows"


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The tags of many sentences -> the scheme whose rules all keep; BIO where several do. An error names the best."""
    counts: dict[Scheme, int] = dict.fromkeys(get_args(Scheme), 0)
    total = 0
    for tags in sentences:
        total += 1
        for scheme in counts:
            counts[scheme] += find_tag_error(tags, scheme) is None
    best = max(counts, key=lambda scheme: counts[scheme])  # the first of the best: BIO
    if counts[best] < total:
        raise DataError(
            f"the tags keep to no scheme: {total - counts[best]} of {total} sentences break {SEQEVAL_NAMES[best]}, "
            f"which fits best; see: regard data check"
        )
    return best


def tags_to_entities(tags: Sequence[str], scheme: Scheme) -> list[Entity]:
    """Tags that keep a scheme's rules -> the entities they describe, in order."""
    parsed = parse_tags(tags)
    starts = [i for i, (letter, _) in enumerate(parsed) if letter in ("B", "S") or _begins_by_i(parsed, i, scheme)]
    others = set(starts)
    found: list[Entity] = []
    for first in starts:
        last = first + 1
        while last < len(parsed) and last not in others and parsed[last][0] in ("I", "E"):
            last += 1
        found.append(Entity(first, last, parsed[first][1]))
    return found


def _begins_by_i(parsed: Sequence[tuple[str, str]], i: int, scheme: Scheme) -> bool:
    if scheme != "iob1" or parsed[i][0] != "I":
        return False
    return i == 0 or parsed[i - 1][0] == OUTSIDE or parsed[i - 1][1] != parsed[i][1]


def entities_to_tags(entity_list: Iterable[Entity], length: int, scheme: Scheme) -> list[str]:
    """Entities among `length` units -> their tags in a scheme."""
    tags = [OUTSIDE] * length
    before = Entity(0, 0, "")
    for entity in sorted(entity_list):
        if entity.start < before.stop:
            raise DataError(f"two entities overlap: {before} and {entity}")
        letters = _letters(entity, before, scheme)
        tags[entity.start : entity.stop] = [f"{letter}-{entity.type}" for letter in letters]
        before = entity
    return tags


def _letters(entity: Entity, before: Entity, scheme: Scheme) -> str:
    length = entity.stop - entity.start
    if scheme == "iobes":
        return "S" if length == 1 else "B" + "I" * (length - 2) + "E"
    touches = entity.start == before.stop and entity.type == before.type and before.stop > 0
    return ("B" if scheme == "bio" or touches else "I") + "I" * (length - 1)


def convert(tags: Sequence[str], source_scheme: Scheme, target_scheme: Scheme) -> list[str]:
    """Tags of one scheme -> the tags of another for the same entities."""
    return entities_to_tags(tags_to_entities(tags, source_scheme), len(tags), target_scheme)


def tag_transitions(tags: Sequence[str], scheme: Scheme) -> TagTransitions:
    """The tags of a vocabulary -> the sequences of them that keep the scheme's rules."""
    parsed = [parse(tag) for tag in tags]
    first = tuple(may_follow((OUTSIDE, ""), tag, scheme) for tag in parsed)
    follows = tuple(tuple(may_follow(before, after, scheme) for after in parsed) for before in parsed)
    last = tuple(not (scheme == "iobes" and letter in ("B", "I")) for letter, _ in parsed)
    return TagTransitions(first, follows, last)


def tag_vocabulary(entity_types: Iterable[str], scheme: Scheme) -> list[str]:
    """Types of entities -> all tags of a scheme, O first."""
    return [OUTSIDE, *(f"{letter}-{kind}" for kind in sorted(set(entity_types)) for letter in SCHEME_PREFIXES[scheme])]
