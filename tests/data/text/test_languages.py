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
    assert "한국어" in languages.names_of("ko") and "korean" in languages.names_of("ko-KR")
    assert languages.names_of("sent_a") == ("sent_a",)
    assert languages.usual_script("en") == "LATIN" and languages.usual_script("ko_KR") == "HANGUL"
    assert languages.usual_script("x") is None
    assert languages.is_called("영어 번역문", languages.names_of("en"))
    assert not languages.is_called("I speak English and many other languages.", languages.names_of("en"))
