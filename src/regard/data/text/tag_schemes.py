"""Entity tags in the schemes BIO (IOB2), IOB1 and IOBES: detection, validation and conversion.

Conversion goes through entities: tags -> entities by the rules of one scheme, entities -> tags by those of another.
BILOU (L for E, U for S) and BMES (M for I) are read as IOBES with other prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from regard.core.data_specs import TagTransitions
from regard.core.errors import DataError

Scheme = Literal["bio", "iob1", "iobes"]
SEQEVAL_NAMES = {"bio": "IOB2", "iob1": "IOB1", "iobes": "IOBES"}  # names of the schemes in seqeval
SCHEME_PREFIXES = {"bio": "BI", "iob1": "BI", "iobes": "BIES"}
PREFIX_ALIASES = {"L": "E", "U": "S", "M": "I"}  # prefixes of BILOU and BMES
OUTSIDE = "O"
CONTINUES_NOTHING = "continues an entity that has not started"  # problem of an I or E tag without an open entity


class Entity(NamedTuple):
    """An entity: the units start … stop - 1, and its type."""

    start: int
    stop: int
    type: str


class TagError(NamedTuple):
    """The invalid tag of a unit."""

    unit: int
    problem: str


@lru_cache(maxsize=4096)  # a corpus has few different tags
def parse(tag: str) -> tuple[str, str]:
    """Tag ("B-person" or "B_PS") -> its prefix and type; ("O", "") outside, ("I", "") for a bare I."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, entity_type = tag[:1], tag[2:]
    prefix = PREFIX_ALIASES.get(prefix, prefix)
    if prefix not in ("B", "I", "E", "S") or (len(tag) > 1 and (tag[1] not in "-_" or not entity_type)):
        raise DataError(f"{tag!r} is not a tag; expected O, or B- and I- with a type such as B-person")
    return prefix, entity_type


def parse_tags(tags: Sequence[str]) -> list[tuple[str, str]]:
    """Tags -> prefixes and types; a bare I takes the type of the previous tag (as in the KLP data)."""
    parsed: list[tuple[str, str]] = []
    for tag in tags:
        prefix, entity_type = parse(tag)
        if prefix != OUTSIDE and not entity_type:
            entity_type = parsed[-1][1] if parsed else ""
        parsed.append((prefix, entity_type))
    return parsed


def may_follow(before: tuple[str, str], after: tuple[str, str], scheme: Scheme) -> bool:
    """Return True if one tag may follow another, both as prefix and type. The first tag of a sentence follows O."""
    same_type = before[1] == after[1]
    is_open = before[0] in ("B", "I")
    if scheme == "bio":
        return after[0] != "I" or (is_open and same_type)
    if scheme == "iob1":
        return after[0] != "B" or (is_open and same_type)
    return (after[0] in ("I", "E") and same_type) if is_open else after[0] not in ("I", "E")


def find_tag_error(tags: Sequence[str], scheme: Scheme) -> TagError | None:
    """Return the first tag that violates a scheme, or None if all tags are valid."""
    parsed = [(OUTSIDE, ""), *parse_tags(tags)]
    for i, (before, after) in enumerate(pairwise(parsed)):
        if after[0] != OUTSIDE and after[0] not in SCHEME_PREFIXES[scheme]:
            return TagError(i, f"{tags[i]!r} is not a tag of {SEQEVAL_NAMES[scheme]}")
        if after[0] != OUTSIDE and not after[1]:
            return TagError(i, f"{tags[i]!r} {CONTINUES_NOTHING}")
        if not may_follow(before, after, scheme):
            return TagError(i, _problem(tags, i, scheme))
    if scheme == "iobes" and parsed[-1][0] in ("B", "I"):
        return TagError(len(tags) - 1, f"{tags[-1]!r} has no end: the sentence ends")
    return None


def detect_scheme(sentences: Iterable[Sequence[str]]) -> Scheme:
    """Tags of many sentences -> the scheme that all of them follow; BIO if several match."""
    counts: dict[Scheme, int] = dict.fromkeys(get_args(Scheme), 0)
    total = 0
    for tags in sentences:
        total += 1
        for scheme in counts:
            counts[scheme] += find_tag_error(tags, scheme) is None
    best = max(counts, key=lambda scheme: counts[scheme])  # the first of equal ones: BIO
    if counts[best] < total:
        raise DataError(
            f"the tags follow no scheme: {total - counts[best]} of {total} sentences violate {SEQEVAL_NAMES[best]}, "
            "which fits best; correct these sentences"
        )
    return best


def tags_to_entities(tags: Sequence[str], scheme: Scheme) -> list[Entity]:
    """Valid tags of a scheme -> their entities, in order."""
    parsed = parse_tags(tags)
    starts = [i for i, (prefix, _) in enumerate(parsed) if prefix in ("B", "S") or _starts_with_i(parsed, i, scheme)]
    start_set = set(starts)
    entities: list[Entity] = []
    for start in starts:
        stop = start + 1
        while stop < len(parsed) and stop not in start_set and parsed[stop][0] in ("I", "E"):
            stop += 1
        entities.append(Entity(start, stop, parsed[start][1]))
    return entities


def entities_to_tags(entity_list: Iterable[Entity], length: int, scheme: Scheme) -> list[str]:
    """Entities among `length` units -> their tags in a scheme."""
    tags = [OUTSIDE] * length
    before = Entity(0, 0, "")
    for entity in sorted(entity_list):
        if entity.start < before.stop:
            raise DataError(f"two entities overlap: {before} and {entity}")
        prefixes = _prefixes(entity, before, scheme)
        tags[entity.start : entity.stop] = [f"{prefix}-{entity.type}" for prefix in prefixes]
        before = entity
    return tags


def convert(tags: Sequence[str], source_scheme: Scheme, target_scheme: Scheme) -> list[str]:
    """Tags of one scheme -> the tags of another scheme for the same entities."""
    return entities_to_tags(tags_to_entities(tags, source_scheme), len(tags), target_scheme)


def tag_transitions(tags: Sequence[str], scheme: Scheme) -> TagTransitions:
    """Tag vocabulary -> the tag sequences that are valid in the scheme."""
    parsed = [parse(tag) for tag in tags]
    first = tuple(may_follow((OUTSIDE, ""), tag, scheme) for tag in parsed)
    follows = tuple(tuple(may_follow(before, after, scheme) for after in parsed) for before in parsed)
    last = tuple(not (scheme == "iobes" and prefix in ("B", "I")) for prefix, _ in parsed)
    return TagTransitions(first, follows, last)


def tag_vocabulary(entity_types: Iterable[str], scheme: Scheme) -> list[str]:
    """Entity types -> all tags of a scheme, O first."""
    types = sorted(set(entity_types))
    return [OUTSIDE, *(f"{prefix}-{entity_type}" for entity_type in types for prefix in SCHEME_PREFIXES[scheme])]


def _problem(tags: Sequence[str], i: int, scheme: Scheme) -> str:
    prefix = parse(tags[i])[0]
    if scheme == "iob1":
        return f"{tags[i]!r} starts an entity where IOB1 has I: no entity of its type precedes it"
    if prefix in ("I", "E"):
        return f"{tags[i]!r} {CONTINUES_NOTHING}"
    return f"{tags[i - 1]!r} has no end: {tags[i]!r} follows"


def _starts_with_i(parsed: Sequence[tuple[str, str]], i: int, scheme: Scheme) -> bool:
    if scheme != "iob1" or parsed[i][0] != "I":
        return False
    return i == 0 or parsed[i - 1][0] == OUTSIDE or parsed[i - 1][1] != parsed[i][1]


def _prefixes(entity: Entity, before: Entity, scheme: Scheme) -> str:
    length = entity.stop - entity.start
    if scheme == "iobes":
        return "S" if length == 1 else "B" + "I" * (length - 2) + "E"
    touches = entity.start == before.stop and entity.type == before.type and before.stop > 0
    return ("B" if scheme == "bio" or touches else "I") + "I" * (length - 1)
