"""Queries for recommendations: parse a user id, a profile and a history of titles, and resolve them in a collection."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import NamedTuple

from regard.core.errors import DataError, did_you_mean
from regard.data.ratings.dataset import EntityTable, RatingsCollection
from regard.data.ratings.tables import normalize_ids

ARTICLE = re.compile(r"^(the|a|an)\s+(.*?)(\s*\(\d{4}\))?$", re.IGNORECASE)
TRAILING_ARTICLE = re.compile(r", (the|a|an)(?=( \(\d{4}\))?$)")  # of a title key
YEAR = re.compile(r"\s*\(\d{4}\)\s*$")


class UserQuery(NamedTuple):
    """A user to recommend items to: a user of the data, or a new one described by profile and history."""

    user: int | None  # index of a user of the data
    profile: Mapping[str, str]  # cells by column
    history: tuple[int, ...]  # item indices, oldest first
    uses_stored_history: bool  # use the user's history in the data
    remarks: tuple[str, ...] = ()


def parse(text: str) -> tuple[str, str, str]:
    """'42', or 'age=30, occupation=artist | Alien (1979); Blade Runner (1982)' -> user, profile, history as text."""
    profile, bar, history = text.partition("|")
    if not bar and "=" not in profile:
        return text.strip(), "", ""
    return "", profile.strip(), history.strip()


def resolve(collection: RatingsCollection, *, user: str, profile: str, history: str) -> UserQuery:
    """Resolve user, profile and history texts; unknown names are an error or a remark with the closest match."""
    index = _find_user(collection.users, user) if user else None
    new_cells, remarks = _parse_profile(collection.users, profile)
    cells = {**({} if index is None else collection.users.profile(index)), **new_cells}
    items = tuple(parse_items(history, collection.items)) if history else ()
    missing = [field.name for field in collection.users.fields if not cells.get(field.name, "")]
    if missing and (profile or index is not None):
        remarks.append(f"not specified: {', '.join(missing)}")
    return UserQuery(index, cells, items, index is not None and not history, tuple(remarks))


def _find_user(users: EntityTable, name: str) -> int:
    name = name if name in users.index_by_id else normalize_ids([name])[0]
    if name not in users.index_by_id:
        count = f"there are {len(users.ids)}, from {users.ids[0]!r} to {users.ids[-1]!r}"
        raise DataError(f"no user {name!r} in the data ({count}); describe a new user with profile=… and history=…")
    return users.index_by_id[name]


def _parse_profile(users: EntityTable, text: str) -> tuple[dict[str, str], list[str]]:
    """'age=30, occupation=artist' -> the known cells, and remarks on the unknown ones."""
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
        problem = fields[name].unknown_value_message(value)
        if problem and "," in value:
            raise DataError(
                f"profile: {value.split(',')[1].strip()!r} is not of the form name=value, for example age=30"
            )
        remarks += [problem] if problem else []
        cells |= {} if problem else {name: value}
    return cells, remarks


def _assignments(text: str) -> list[str]:
    """'age=30, city=Seoul, Korea' -> 'age=30' and 'city=Seoul, Korea': a value may contain commas."""
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
    """Parse titles or ids separated by commas, semicolons or line ends; a title may contain commas or be quoted."""
    index_by_name = names_of_items(items)
    result: list[int] = []
    for chunk in filter(str.strip, re.split(r"[;\n]", text)):
        pieces = chunk.split(",")
        while pieces:
            lookups = ((n, _find_item(",".join(pieces[:n]), index_by_name)) for n in range(len(pieces), 0, -1))
            size, item = next(((n, item) for n, item in lookups if item is not None), (0, 0))
            if not size:
                raise DataError(_unknown_item_message(pieces, items, index_by_name))
            result.append(item)
            pieces = pieces[size:]
    return list(dict.fromkeys(result))


def _find_item(text: str, index_by_name: Mapping[str, int]) -> int | None:
    """Return the index of an item by its name, plain or quoted as in CSV."""
    stripped = text.strip()
    is_quoted = len(stripped) > 1 and stripped[0] == stripped[-1] == '"'
    unquoted = index_by_name.get(_title_key(stripped[1:-1].replace('""', '"'))) if is_quoted else None
    return index_by_name.get(_title_key(text), unquoted)


def names_of_items(items: EntityTable) -> dict[str, int]:
    """Map the names of items to indices: the title and the id; if unique, the title without its year or article."""
    index_by_name: dict[str, int] = {}
    shortened: dict[str, list[int]] = {}
    for index, title in enumerate(items.titles):
        index_by_name.setdefault(_title_key(title), index)
        keys = _title_key(title), _title_key(YEAR.sub("", title))
        for name in dict.fromkeys((*keys[1:], *(TRAILING_ARTICLE.sub("", key) for key in keys))):
            shortened.setdefault(name, []).append(index)
    for key, indices in shortened.items():
        if len(indices) == 1:
            index_by_name.setdefault(key, indices[0])
    return index_by_name | {name: index for name, index in items.index_by_id.items() if name not in index_by_name}


def _title_key(title: str) -> str:
    """Normalize a title: 'The Postman (1997)' and 'Postman, The (1997)' have the same key."""
    text = " ".join(title.split())
    match = ARTICLE.match(text)
    if match:
        text = f"{match[2]}, {match[1]}{match[3] or ''}"
    return text.casefold()


def _unknown_item_message(pieces: list[str], items: EntityTable, index_by_name: Mapping[str, int]) -> str:
    keys = [
        key
        for text in (",".join(pieces), pieces[0])
        for key in difflib.get_close_matches(_title_key(text), index_by_name, 2)
    ]
    close = list(dict.fromkeys(items.titles[index_by_name[key]] for key in keys))[:3]
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "give a title or an id as in the data"
    return f"no item {pieces[0].strip()!r} in the data; {hint}"
