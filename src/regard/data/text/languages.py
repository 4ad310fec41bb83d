"""Languages by code: their names in column headers, and their scripts."""

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
SOURCE_COLUMNS = ("source", "src", "원문", "원본", "출발어")  # common names of the source column
TARGET_COLUMNS = ("target", "tgt", "translation", "번역", "번역문", "도착어")
SCRIPTS = {"ko": "HANGUL", "ja": "JAPANESE", "zh": "CJK", "ru": "CYRILLIC"}
LATIN_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "vi")


def language_names(code: str) -> tuple[str, ...]:
    """Language code (or any column name) -> the code and the other names of the language, in lower case."""
    plain = code.strip().casefold()
    return (plain, *LANGUAGE_NAMES.get(plain.partition("-")[0].partition("_")[0], ()))


def matches_name(cell: str, names: tuple[str, ...]) -> bool:
    """Return True if a column name equals one of the names or contains it as a word: `영어 번역문`, `text_en`."""
    plain = cell.strip().casefold()
    return plain in names or (len(plain) <= 30 and any(word in names for word in re.split(r"[\W_]+", plain)))


def script_of(text: str) -> str | None:
    """Return the most frequent script of a text's alphabetic characters, or None if it has none."""
    counts = Counter(map(_script, filter(str.isalpha, text)))
    if counts["JAPANESE"]:  # Japanese also uses Chinese characters
        counts["JAPANESE"] += counts.pop("CJK", 0)
    return counts.most_common(1)[0][0] if counts else None


def has_script(text: str, script: str) -> bool:
    """Return True if a text contains a character of a script."""
    return any(_script(character) == script for character in filter(str.isalpha, text))


def script_of_language(code: str) -> str | None:
    """Return the script of a language, or None if it is not in the table."""
    plain = code.strip().casefold().partition("-")[0].partition("_")[0]
    return "LATIN" if plain in LATIN_LANGUAGES else SCRIPTS.get(plain)


def _script(character: str) -> str:
    word = unicodedata.name(character, "").partition(" ")[0].partition("-")[0]
    return "JAPANESE" if word in ("HIRAGANA", "KATAKANA") else word
