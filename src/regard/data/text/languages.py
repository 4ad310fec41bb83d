"""Languages by their codes: what people call them at the top of a column, and the script they are written in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

LANGUAGE_NAMES = {
    "en": ("english", "eng", "영어", "영문"),
    "ko": ("korean", "kor", "한국어", "한글", "국문", "한국말"),
    "ja": ("japanese", "jpn", "일본어", "日本語"),
    "zh": ("chinese", "zho", "chi", "중국어", "中文", "汉语"),
    "de": ("german", "deu", "ger", "deutsch", "독일어"),
    "fr": ("french", "fra", "fre", "français", "프랑스어", "불어"),
    "es": ("spanish", "spa", "español", "스페인어"),
    "ru": ("russian", "rus", "русский", "러시아어"),
    "vi": ("vietnamese", "vie", "베트남어"),
    "it": ("italian", "ita", "italiano", "이탈리아어"),
    "pt": ("portuguese", "por", "português", "포르투갈어"),
}
SOURCE_COLUMNS = ("source", "src", "원문", "원본", "출발어")  # what the column to translate from is called
TARGET_COLUMNS = ("target", "tgt", "translation", "번역", "번역문", "도착어")
SCRIPTS = {"ko": "HANGUL", "ja": "JAPANESE", "zh": "CJK", "ru": "CYRILLIC"}
LATIN_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "vi")


def language_names(code: str) -> tuple[str, ...]:
    """A language's code (or any name of a column) -> itself and what else it is called, in small letters."""
    plain = code.strip().casefold()
    return (plain, *LANGUAGE_NAMES.get(plain.partition("-")[0].partition("_")[0], ()))


def matches_name(cell: str, names: tuple[str, ...]) -> bool:
    """Whether a column's name is one of these names, or has one among its words: `영어 번역문`, `text_en`."""
    plain = cell.strip().casefold()
    return plain in names or (len(plain) <= 30 and any(word in names for word in re.split(r"[\W_]+", plain)))


def script_of(text: str) -> str | None:
    """The script of most letters of a text; None where it has no letters."""
    counts = Counter(map(_script, filter(str.isalpha, text)))
    if counts["JAPANESE"]:  # which is written with Chinese characters too
        counts["JAPANESE"] += counts.pop("CJK", 0)
    return counts.most_common(1)[0][0] if counts else None


def has_script(text: str, script: str) -> bool:
    """Whether a text has a letter of a script."""
    return any(_script(letter) == script for letter in filter(str.isalpha, text))


def _script(letter: str) -> str:
    word = unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]
    return "JAPANESE" if word in ("HIRAGANA", "KATAKANA") else word


def script_of_language(code: str) -> str | None:
    """The script a language is written in, where that is known."""
    plain = code.strip().casefold().partition("-")[0].partition("_")[0]
    return "LATIN" if plain in LATIN_LANGUAGES else SCRIPTS.get(plain)
