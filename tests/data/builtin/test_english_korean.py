import re
import unicodedata

import pytest

from regard.core.errors import DataError
from regard.data.builtin import english_korean as grammar


@pytest.fixture(scope="module")
def examples():
    return grammar.generate("train", 12_000, seed=1)


def test_there_are_more_than_300_000_sentences():
    assert grammar.min_num_statements() > 300_000


def test_examples_are_different(examples):
    assert len({example.source for example in examples}) == len(examples)


def test_one_english_sentence_has_one_translation(examples):
    translations = {example.source: example.target for example in examples}
    shared = [example for example in grammar.generate("train", 6000, seed=2) if example.source in translations]
    assert shared and all(translations[example.source] == example.target for example in shared)


def test_splits_are_disjoint(examples):
    valid, test = (grammar.generate(name, 300, seed=1) for name in ("valid", "test"))
    texts = [{example.source for example in part} for part in (examples, valid, test)]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert all(grammar.split_of(text) == "valid" for text in texts[1])


def test_examples_depend_on_the_seed():
    first, same, different = (grammar.generate("test", 20, seed=seed) for seed in (1, 1, 2))
    assert first == same != different


def test_an_unknown_split_is_an_error():
    with pytest.raises(DataError, match="the built-in data has no split 'dev'; known: train, valid, test"):
        grammar.generate("dev", 1, seed=1)


def test_sentences_are_well_formed(examples):
    for example in examples:
        assert example.source[0].isupper() and "  " not in example.source
        assert example.target.endswith(".") and "  " not in example.target
        assert unicodedata.is_normalized("NFC", example.target)
        assert not any("a" <= character <= "z" for character in example.target.lower())


def test_some_sentences_have_no_full_stop(examples):
    assert 0.02 < sum(not example.source.endswith(".") for example in examples) / len(examples) < 0.1


def test_greetings_pronoun_objects_and_gifts_occur(examples):
    targets = {example.source.removesuffix("."): example.target for example in examples}
    assert any(
        source.startswith("Hello I ") and target.startswith("안녕하세요, 저는") for source, target in targets.items()
    )
    assert any(" love you" in source and "당신을 사랑" in target for source, target in targets.items())
    assert any("my dog Charlie" in source and "개 찰리에게" in target for source, target in targets.items())
    assert any("some food" in source and "음식을 " in target for source, target in targets.items())


def test_alignment_points_at_words(examples):
    for example in examples:
        source, target = len(example.source.split()), len(example.target.split())
        assert all(0 <= i < source and 0 <= j < target for i, j in example.alignment)


def test_every_korean_word_is_aligned(examples):
    for example in examples:
        assert {j for _, j in example.alignment} == set(range(len(example.target.split())))


def test_only_articles_are_unaligned(examples):
    for example in examples:
        words = example.source.split()
        unaligned = set(range(len(words))) - {i for i, _ in example.alignment}
        assert {words[i].lower() for i in unaligned} <= {"a", "an", "the"}


def test_the_verb_moves_to_the_end(examples):
    example = next(e for e in examples if re.fullmatch(r"\S+ ate (the|my|an?) \S+\.", e.source))
    english, korean = example.source.split(), example.target.split()
    links = {(english[i], korean[j]) for i, j in example.alignment}
    subject, _, _, noun = english
    assert [pair[1] for pair in sorted(links, key=lambda pair: example.target.index(pair[1]))][-1] == "먹었어요."
    assert ("ate", "먹었어요.") in links
    assert korean[0] in {target for source, target in links if source == subject}
    assert {target for source, target in links if source == noun} == {korean[-2]}


@pytest.mark.parametrize(
    ("cue", "korean", "endings"),
    [
        ("Sir,", "선생님,", ("니다.", "십시오.")),
        ("Everyone,", "여러분,", ("니다.", "십시오.")),
        ("Note:", "메모:", ("다.",)),
    ],
)
def test_the_cue_selects_the_speech_level(examples, cue, korean, endings):
    with_cue = [example for example in examples if example.source.startswith(cue)]
    assert with_cue
    for example in with_cue:
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
