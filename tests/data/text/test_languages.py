import pytest

from regard.data.text import languages


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("abc", "LATIN"),
        ("한국어 abc", "HANGUL"),
        ("漢字かな", "JAPANESE"),
        ("汉字", "CJK"),
        ("Привет", "CYRILLIC"),
        ("12!", None),
    ],
)
def test_scripts(text, script):
    assert languages.script_of(text) == script


def test_languages_have_names_and_scripts():
    assert "한국어" in languages.language_names("ko") and "korean" in languages.language_names("ko-KR")
    assert languages.language_names("sent_a") == ("sent_a",)
    assert languages.script_of_language("en") == "LATIN" and languages.script_of_language("ko_KR") == "HANGUL"
    assert languages.script_of_language("x") is None
    assert languages.matches_name("영어 번역문", languages.language_names("en"))
    assert not languages.matches_name("I speak English and many other languages.", languages.language_names("en"))
