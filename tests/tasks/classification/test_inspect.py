"""Positions of words in documents."""

from regard.data.text.document_corpus import TokenizedDocument
from regard.data.text.tokenizer import TokenSpan
from regard.tasks.classification import inspect


class SpaceTokenizer:
    """Splits at spaces."""

    @staticmethod
    def encode_with_offsets(text):
        spans, start = [], 0
        for word in text.split(" "):
            spans.append(TokenSpan(5, word, start, start + len(word)))
            start += len(word) + 1
        return spans


def test_words_of_a_split_sentence_keep_their_spans():
    text = "ab cd ef. gh"
    tokenized = TokenizedDocument([[5, 5], [5], [5]], [(0, 9), (0, 9), (10, 12)], 4)
    rows = inspect.locate_words(text, tokenized, SpaceTokenizer())
    assert [[text[slice(*word.item.span)] for word in row] for row in rows] == [["ab", "cd"], ["ef."], ["gh"]]
    assert [word.item.word for row in rows for word in row] == [0, 1, 2, 3]


def test_spans_overlap_if_they_share_a_character():
    assert inspect.overlaps_any((2, 4), [(3, 9)]) and not inspect.overlaps_any((2, 3), [(3, 9)])
    assert not inspect.overlaps_any(None, [(0, 9)])
