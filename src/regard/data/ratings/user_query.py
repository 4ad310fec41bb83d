"""What somebody asks for in words - a user, a profile, films seen - and what it means in a collection."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import NamedTuple

from regard.core.errors import DataError, did_you_mean
from regard.data.ratings.dataset import EntityTable, RatingsCollection
from regard.data.ratings.tables import normalize_ids

ARTICLE = re.compile(r"^(the|a|an)\s+(.*?)(\s*\(\d{4}\))?$", re.IGNORECASE)
YEAR = re.compile(r"\s*\(\d{4}\)\s*$")


class UserQuery(NamedTuple):
    """A user to recommend something to: a known one, or one who is told of."""

    user: int | None  # the place of a known user
    profile: Mapping[str, str]  # cells by column
    history: tuple[int, ...]  # places of items, oldest first; of a known user None means as in the data
    uses_stored_history: bool  # the history is that of the data
    remarks: tuple[str, ...] = ()


def parse(text: str) -> tuple[str, str, str]:
    """'42', or 'age=30, occupation=artist | Alien (1979); Blade Runner (1982)' -> user, profile, history as texts."""
    profile, bar, history = text.partition("|")
    if not bar and "=" not in profile:
        return text.strip(), "", ""
    return "", profile.strip(), history.strip()


def resolve(collection: RatingsCollection, *, user: str, profile: str, history: str) -> UserQuery:
    """Texts -> who is asked for; what is not known is an error or a remark, with the nearest that there is."""
    place = _user(collection.users, user) if user else None
    told, remarks = _profile(collection.users, profile)
    cells = {} if place is None else collection.users.profile(place)
    items = tuple(parse_items(history, collection.items)) if history else ()
    missing = [field.name for field in collection.users.fields if not {**cells, **told}.get(field.name, "")]
    if missing and (profile or place is not None):
        remarks.append(f"not told: {', '.join(missing)}")
    return UserQuery(place, {**cells, **told}, items, place is not None and not history, tuple(remarks))


def _user(users: EntityTable, name: str) -> int:
    name = name if name in users.index_by_id else normalize_ids([name])[0]
    if name not in users.index_by_id:
        count = f"there are {len(users.ids)}, from {users.ids[0]!r} to {users.ids[-1]!r}"
        raise DataError(f"no user {name!r} in the data ({count}); a new one is told by profile=… and history=…")
    return users.index_by_id[name]


def _profile(users: EntityTable, text: str) -> tuple[dict[str, str], list[str]]:
    """'age=30, occupation=artist' -> the cells that are known, and remarks on those that are not."""
    cells: dict[str, str] = {}
    remarks: list[str] = []
    fields = {field.name: field for field in users.fields}
    for part in _assignments(text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise DataError(f"profile: {part!r} is not of the form name=value, for example age=30")
        if name not in fields:
            raise DataError(
                f"profile: users have no {name!r}; {did_you_mean(name, fields) if fields else 'they have none'}"
            )
        wrong = fields[name].unknown_value_message(value)
        if wrong and "," in value:
            raise DataError(
                f"profile: {value.split(',')[1].strip()!r} is not of the form name=value, for example age=30"
            )
        remarks += [wrong] if wrong else []
        cells |= {} if wrong else {name: value}
    return cells, remarks


def _assignments(text: str) -> list[str]:
    """'age=30, city=Seoul, Korea' -> 'age=30' and 'city=Seoul, Korea': a value may have commas itself."""
    parts: list[str] = []
    for line in re.split(r"[;\n]", text):
        first = len(parts)
        for part in filter(str.strip, line.split(",")):
            if "=" in part or len(parts) == first:
                parts.append(part)
            else:
                parts[-1] += f",{part}"
    return [part.strip() for part in parts]


def parse_items(text: str, items: EntityTable) -> list[int]:
    """Titles or ids with commas, semicolons or line ends between them; a title may have commas itself, or stand in
    quotation marks."""
    index = _index(items)
    found: list[int] = []
    for chunk in filter(str.strip, re.split(r"[;\n]", text)):
        pieces = chunk.split(",")
        while pieces:
            sizes = range(len(pieces), 0, -1)
            named = ((n, place) for n in sizes if (place := _named(",".join(pieces[:n]), index)) is not None)
            size, place = next(named, (0, 0))
            if not size:
                raise DataError(_unknown(pieces, items, index))
            found.append(place)
            pieces = pieces[size:]
    return list(dict.fromkeys(found))


def _named(text: str, index: Mapping[str, int]) -> int | None:
    """The place of an item that is called so, as it is written or as CSV writes it, in quotation marks."""
    bare = text.strip()
    quoted = len(bare) > 1 and bare[0] == bare[-1] == '"'
    return index.get(_key(text), index.get(_key(bare[1:-1].replace('""', '"'))) if quoted else None)


def _index(items: EntityTable) -> dict[str, int]:
    """Ways to name an item -> its place: the title, the title without its year where only one has it, the id."""
    index: dict[str, int] = {}
    short: dict[str, list[int]] = {}
    for place, title in enumerate(items.titles):
        index.setdefault(_key(title), place)
        short.setdefault(_key(YEAR.sub("", title)), []).append(place)
    for key, places in short.items():
        if len(places) == 1:
            index.setdefault(key, places[0])
    return index | {name: place for name, place in items.index_by_id.items() if name not in index}


def _key(title: str) -> str:
    """'The Postman (1997)' and 'Postman, The (1997)' are the same title."""
    text = " ".join(title.split())
    match = ARTICLE.match(text)
    if match:
        text = f"{match[2]}, {match[1]}{match[3] or ''}"
    return text.casefold()


def _unknown(pieces: list[str], items: EntityTable, index: Mapping[str, int]) -> str:
    near = [
        match for text in (",".join(pieces), pieces[0]) for match in difflib.get_close_matches(_key(text), index, 2)
    ]
    close = list(dict.fromkeys(items.titles[index[key]] for key in near))[:3]
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "give a title or an id as in the data"
    return f"no item {pieces[0].strip()!r} in the data; {hint}"
