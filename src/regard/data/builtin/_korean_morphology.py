"""Korean morphology: particles by the last syllable, verb forms by tense and speech level, with irregular stems."""

from __future__ import annotations

from typing import Literal, NamedTuple

Register = Literal["polite", "formal", "plain"]  # 해요체, 합니다체, 해라체
Tense = Literal["past", "present", "future"]
# conjugation class; ㄹ, ㅡ and 하 stems are recognized by their last syllable
VerbClass = Literal["", "ㄷ", "ㅂ", "ㅅ", "르", "stative"]

FIRST, VOWELS, TAILS = 0xAC00, 21, 28
TAIL = {"": 0, "ㄴ": 4, "ㄷ": 7, "ㄹ": 8, "ㅂ": 17, "ㅅ": 19, "ㅆ": 20}
BRIGHT = (0, 2, 8)  # ㅏ ㅑ ㅗ take 아, the others 어
MERGED = {8: 9, 13: 14, 20: 6}  # ㅗ+ㅏ=ㅘ, ㅜ+ㅓ=ㅝ, ㅣ+ㅓ=ㅕ
ABSORBING_VOWELS = (0, 1, 4, 5, 6)  # ㅏ ㅐ ㅓ ㅔ ㅕ: no vowel is added
EU = 18


class Verb(NamedTuple):
    """A verb stem: the dictionary form without 다."""

    stem: str
    kind: VerbClass = ""


def decompose_syllable(syllable: str) -> tuple[int, int, int]:
    """Syllable -> the indices of its first consonant, vowel and last consonant (0 if none)."""
    index = ord(syllable) - FIRST
    return index // (VOWELS * TAILS), index // TAILS % VOWELS, index % TAILS


def final_consonant(word: str) -> int:
    """Return the index of a word's last consonant, 0 if it ends in a vowel."""
    return decompose_syllable(word[-1])[2]


def with_tail(word: str, tail: str) -> str:
    """Replace the last consonant of a word: 가 + ㅆ -> 갔."""
    first, vowel, _ = decompose_syllable(word[-1])
    return word[:-1] + _syllable(first, vowel, TAIL[tail])


def _syllable(first: int, vowel: int, tail: int = 0) -> str:
    return chr(FIRST + (first * VOWELS + vowel) * TAILS + tail)


def particle(noun: str, choice: str) -> str:
    """Append a particle; `choice` has the forms after a consonant and a vowel: 은/는, 이/가, 을/를, 과/와, 으로/로."""
    after_consonant, after_vowel = choice.split("/")
    closed = final_consonant(noun) != 0
    if choice == "으로/로":
        closed = final_consonant(noun) not in (0, TAIL["ㄹ"])
    return noun + (after_consonant if closed else after_vowel)


def infinitive(verb: Verb) -> str:
    """Return the 아/어 form: 가, 먹어, 봐, 마셔, 들어, 도와, 써, 골라, 해."""
    stem = verb.stem
    if stem.endswith("하"):
        return stem[:-1] + "해"
    if verb.kind in ("ㄷ", "ㅂ", "ㅅ", "르"):
        return _irregular_infinitive(stem, verb.kind)
    return stem + _by_vowel_harmony(stem[-1], "아", "어") if final_consonant(stem) else _contract(stem)


def _by_vowel_harmony(syllable: str, bright: str, dark: str) -> str:
    return bright if decompose_syllable(syllable)[1] in BRIGHT else dark


def _irregular_infinitive(stem: str, kind: str) -> str:
    if kind == "르":
        return with_tail(stem[:-1], "ㄹ") + _by_vowel_harmony(stem[-2], "라", "러")
    if kind == "ㅂ":
        return with_tail(stem, "") + ("와" if stem[-1] in "돕곱" else "워")
    return with_tail(stem, "ㄹ" if kind == "ㄷ" else "") + _by_vowel_harmony(stem[-1], "아", "어")


def _contract(stem: str) -> str:
    """Merge a stem that ends in a vowel with 아 or 어."""
    first, vowel, _ = decompose_syllable(stem[-1])
    if vowel in ABSORBING_VOWELS:
        return stem
    if vowel == EU:
        return stem[:-1] + _syllable(first, 0 if len(stem) > 1 and decompose_syllable(stem[-2])[1] in BRIGHT else 4)
    if vowel in MERGED:
        return stem[:-1] + _syllable(first, MERGED[vowel])
    return stem + "어"


def before_vowel(verb: Verb) -> str:
    """Return the stem before endings that start with (으): 가, 먹으, 파 (팔다), 들으, 도우, 지으."""
    tail = final_consonant(verb.stem)
    if tail == TAIL["ㄹ"]:
        return with_tail(verb.stem, "")
    if verb.kind == "ㄷ":
        return with_tail(verb.stem, "ㄹ") + "으"
    if verb.kind == "ㅂ":
        return with_tail(verb.stem, "") + "우"
    if verb.kind == "ㅅ":
        return with_tail(verb.stem, "") + "으"
    return verb.stem if tail == 0 else verb.stem + "으"


def sentence_final_form(verb: Verb, *, tense: Tense, register: Register) -> str:
    """Return the verb form that ends a statement; the future has two words."""
    if tense == "past":
        return with_tail(infinitive(verb), "ㅆ") + {"polite": "어요", "formal": "습니다", "plain": "다"}[register]
    if tense == "future":
        return f"{future_modifier(verb)} " + {"polite": "거예요", "formal": "것입니다", "plain": "것이다"}[register]
    if register == "polite":
        return infinitive(verb) + "요"
    if register == "plain" and verb.kind == "stative":
        return verb.stem + "다"
    has_open_stem = final_consonant(verb.stem) in (0, TAIL["ㄹ"])
    if register == "formal":
        return with_tail(verb.stem, "ㅂ") + "니다" if has_open_stem else verb.stem + "습니다"
    return with_tail(verb.stem, "ㄴ") + "다" if has_open_stem else verb.stem + "는다"


def future_modifier(verb: Verb) -> str:
    """Return the form before 것: 갈, 먹을, 팔, 들을, 도울."""
    return with_tail(before_vowel(verb), "ㄹ")


def connective_form(verb: Verb, *, tense: Tense, ending: Literal["고", "지만"]) -> str:
    """Return the verb form that ends a first clause: 먹고, 먹었지만, 먹을 것이고."""
    if tense == "past":
        return with_tail(infinitive(verb), "ㅆ") + ending
    return f"{future_modifier(verb)} 것이{ending}" if tense == "future" else verb.stem + ending


def request(verb: Verb, register: Register) -> str:
    """Return the verb form of a polite request: 읽으세요, 파세요, formally 읽으십시오."""
    return before_vowel(verb) + ("십시오" if register == "formal" else "세요")
