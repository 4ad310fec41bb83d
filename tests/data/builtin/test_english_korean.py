import unicodedata

import pytest

from regard.core.errors import DataError
from regard.data.builtin import english_korean as grammar


@pytest.fixture(scope="module")
def examples():
    return grammar.generate("train", 6000, seed=1)


def test_there_are_a_few_hundred_thousand_sentences_and_more():
    assert grammar.min_num_statements() > 300_000


def test_examples_are_different(examples):
    assert len({example.source for example in examples}) == len(examples)


def test_one_english_sentence_has_one_translation(examples):
    other = grammar.generate("train", 6000, seed=2)
    known = {example.source: example.target for example in examples}
    shared = [example for example in other if example.source in known]
    assert shared and all(known[example.source] == example.target for example in shared)


def test_no_split_holds_a_sentence_of_another(examples):
    valid, test = (grammar.generate(name, 300, seed=1) for name in ("valid", "test"))
    texts = [{example.source for example in part} for part in (examples, valid, test)]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert all(grammar.split_of(text) == "valid" for text in texts[1])


def test_the_seed_decides():
    first, again, other = (grammar.generate("test", 20, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_an_unknown_split_is_an_error():
    with pytest.raises(DataError, match="the built-in data has no split 'dev'; known: train, valid, test"):
        grammar.generate("dev", 1, seed=1)


def test_sentences_look_like_sentences(examples):
    for example in examples:
        assert example.source[0].isupper() and example.source.endswith(".") and "  " not in example.source
        assert example.target.endswith(".") and "  " not in example.target
        assert unicodedata.is_normalized("NFC", example.target)
        assert not any("a" <= character <= "z" for character in example.target.lower())


def test_alignment_points_at_words(examples):
    for example in examples:
        source, target = len(example.source.split()), len(example.target.split())
        assert all(0 <= i < source and 0 <= j < target for i, j in example.alignment)


def test_every_korean_word_comes_from_an_english_one(examples):
    for example in examples:
        assert {j for _, j in example.alignment} == set(range(len(example.target.split())))


def test_only_articles_are_without_counterpart(examples):
    for example in examples:
        words = example.source.split()
        loose = set(range(len(words))) - {i for i, _ in example.alignment}
        assert {words[i].lower() for i in loose} <= {"a", "an", "the"}


def aligned(source):
    found = next(e for e in grammar.generate("train", 9000, seed=1) if source(e))
    words = found.source.split(), found.target.split()
    return found, {(words[0][i], words[1][j]) for i, j in found.alignment}


def test_the_order_turns_round():
    def simple(example):
        return "ate the" in example.source and len(example.source.split()) == 4

    found, links = aligned(simple)
    subject, _, _, thing = found.source.split()
    assert [pair[1] for pair in sorted(links, key=lambda pair: found.target.index(pair[1]))][-1] == "먹었어요."
    assert ("ate", "먹었어요.") in links
    assert found.target.split()[0] in {korean for english, korean in links if english == subject}
    assert {korean for english, korean in links if english == thing} == {found.target.split()[-2]}


@pytest.mark.parametrize(
    ("cue", "korean", "endings"),
    [
        ("Sir,", "선생님,", ("니다.", "십시오.")),
        ("Everyone,", "여러분,", ("니다.", "십시오.")),
        ("Note:", "메모:", ("다.",)),
    ],
)
def test_the_cue_decides_how_polite(examples, cue, korean, endings):
    found = [example for example in examples if example.source.startswith(cue)]
    assert found
    for example in found:
        assert example.target.startswith(korean) and example.target.endswith(endings)
        assert not (cue == "Note:" and example.target.endswith("니다."))


def test_without_a_cue_it_is_polite(examples):
    plain = [e for e in examples if not e.source.startswith(("Sir,", "Everyone,", "Note:"))]
    assert len(plain) > len(examples) / 3 and all(e.target.endswith("요.") for e in plain)


def test_a_new_subject_takes_i_or_ga_and_any_other_is_the_topic(examples):
    for example in examples:
        first = example.source.split()[0]
        korean = example.target.split()
        if first in ("A", "An"):
            assert any(word.endswith(("이", "가")) for word in korean)
        if first == "The":
            assert korean[0] == "그" and any(word.endswith(("은", "는")) for word in korean)
