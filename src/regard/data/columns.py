"""Which columns of a table hold the two sides of sentence pairs, and whether its first line is a header.

What cannot be known is asked, not guessed: a first line that looks like a header but names neither language, and
columns whose script says that they stand the other way round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import ConfigError, DataError
from regard.data import languages as known
from regard.data.languages import SOURCES, TARGETS, is_called, names_of, script_of, usual_script
from regard.data.tables import seems_header

LOOKED_AT = 100  # records by which the first is judged


class Languages(NamedTuple):
    """Which language is translated to which, and how tables say it."""

    source: str  # a language's code, or a column's name or number
    target: str
    columns: tuple[str, ...] = ()  # the columns of tables without a header, in order; none: source, target
    header: bool | None = None  # whether tables begin with a line of names; none: it is found out, or asked

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of a table without a header."""
        return self.columns or (self.source, self.target)


class Places(NamedTuple):
    """Where the sides of a pair stand in a record, and whether the first record is a header."""

    source: int
    target: int
    header: bool


def places(top: Sequence[str], others: Sequence[Sequence[str]], languages: Languages, path: Path) -> Places:
    """The first record of a table and some others -> the columns, or an error that says what to say."""
    numbered = languages.source.isdigit() and languages.target.isdigit()
    if numbered:
        source, target = (int(code) - 1 for code in languages[:2])
        named = languages.header if languages.header is not None else _names_languages(top)
        if named is None and seems_header(top, others):
            raise DataError(f"{_question(top, path)} if it is: data.header=true; if it is a pair: data.header=false")
        return Places(source, target, bool(named))
    found = None if languages.header is False else by_name(top, languages)
    if found is not None:
        if not _has_codes(top, languages):
            _check_scripts([record for record in others if record], found, languages, path)
        return found
    if languages.header is None and seems_header(top, others):
        a, b = (cell.strip() for cell in [*top, "", ""][:2])
        raise DataError(
            f"{_question(top, path)} It does not name {languages.source} and {languages.target}. If it is: "
            f"data.source='{a}' data.target='{b}', or data.header=true data.columns={','.join(languages.order)} "
            "(what its columns are, in order); if it is a pair: data.header=false"
        )
    source, target = (_column(code, languages.order, path) for code in languages[:2])
    placed = Places(source, target, bool(languages.header))
    _check_scripts([*([] if placed.header else [top]), *others], placed, languages, path)
    return placed


def _question(top: Sequence[str], path: Path) -> str:
    shown = ", ".join(repr(cell[:40]) for cell in top[:6])
    return f"{path}: is its first line, {shown}, a header?"


def by_name(top: Sequence[str], languages: Languages) -> Places | None:
    """The columns that a header names: by the codes, by what the languages are called, or as source and target."""
    plain = [cell.strip() for cell in top]
    for sides in (
        [[code.strip().casefold()] for code in languages[:2]],
        [names_of(code) for code in languages[:2]],
        [SOURCES, TARGETS],
    ):
        found = [_first(plain, tuple(names)) for names in sides]
        if None not in found and found[0] != found[1]:
            return Places(found[0] or 0, found[1] or 0, header=True)
    return None


def _first(cells: Sequence[str], names: tuple[str, ...]) -> int | None:
    """The column with one of the names: the whole name first, then one that has it among its words."""
    exact = next((i for i, cell in enumerate(cells) if cell.casefold() in names), None)
    return exact if exact is not None else next((i for i, cell in enumerate(cells) if is_called(cell, names)), None)


def _has_codes(top: Sequence[str], languages: Languages) -> bool:
    return all(_first([cell.strip() for cell in top], names_of(code)) is not None for code in languages[:2])


def _names_languages(top: Sequence[str]) -> bool | None:
    """True where the first record names two languages, or source and target; None where that is not known."""
    return True if guess(top) is not None else None


def guess(top: Sequence[str]) -> Languages | None:
    """The languages that a header names, in its order; None where it names fewer than two."""
    plain = [cell.strip() for cell in top]
    codes = [next((code for code in known.NAMES if is_called(cell, names_of(code))), None) for cell in plain]
    two = list(dict.fromkeys(code for code in codes if code is not None))
    if len(two) >= 2:
        return Languages(two[0], two[1])
    roles = [_first(plain, names) for names in (SOURCES, TARGETS)]
    return None if None in roles or roles[0] == roles[1] else Languages(plain[roles[0] or 0], plain[roles[1] or 0])


def _column(code: str, names: tuple[str, ...], path: Path) -> int:
    if code.isdigit() and int(code) >= 1:
        return int(code) - 1
    if code in names:
        return names.index(code)
    raise ConfigError(
        f"{path}: no language {code!r} among its columns {', '.join(names)}; "
        "give its number (data.source=1) or name the columns in order (data.columns=en,ko)"
    )


def _check_scripts(records: Sequence[Sequence[str]], found: Places, languages: Languages, path: Path) -> None:
    """Refuse columns of which each is written in the script of the other's language."""
    usual = [usual_script(code) for code in languages[:2]]
    if None in usual or usual[0] == usual[1]:
        return
    columns = [[r[i] for r in records if len(r) > max(found[:2])] for i in found[:2]]
    scripts = [Counter(script_of(cell) for cell in column).most_common(1)[:1] for column in columns]
    own = [count[0][0] if count else None for count in scripts]
    if own == usual[::-1]:
        turned = f"data.source={languages.target} data.target={languages.source}"
        remedy = turned if found.header else f"data.columns={languages.target},{languages.source}, or {turned}"
        first = " / ".join(repr(column[0][:30]) for column in columns)
        raise DataError(
            f"{path}: its columns seem to stand the other way round: {first} is read as {languages.source} / "
            f"{languages.target}; say {remedy}"
        )


def of_record(record: Mapping[str, object], languages: Languages) -> tuple[str, str]:
    """The keys of both sides in a record of names and texts, by the same names as columns."""
    if languages.source in record and languages.target in record:
        return languages.source, languages.target
    names = list(record)
    found = by_name(names, languages)
    return (languages.source, languages.target) if found is None else (names[found.source], names[found.target])
