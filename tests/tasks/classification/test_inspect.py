from regard.data.text.document_corpus import TokenizedDocument
from regard.tasks.classification import inspect


class Tokens:
    """Cuts at spaces."""

    @staticmethod
    def pieces(text):
        from regard.data.text.tokenizer import TokenSpan

        found, place = [], 0
        for word in text.split(" "):
            found.append(TokenSpan(5, word, place, place + len(word)))
            place += len(word) + 1
        return found


def test_words_of_a_sentence_that_was_cut_keep_their_places():
    text = "ab cd ef. gh"
    cut = TokenizedDocument([[5, 5], [5], [5]], [(0, 9), (0, 9), (10, 12)], 4)
    rows = inspect.locate_words(text, cut, Tokens())
    assert [[text[slice(*word.item.span)] for word in row] for row in rows] == [["ab", "cd"], ["ef."], ["gh"]]
    assert [word.item.word for row in rows for word in row] == [0, 1, 2, 3]


def test_places_that_touch():
    assert inspect.overlaps_any((2, 4), [(3, 9)]) and not inspect.overlaps_any((2, 3), [(3, 9)])
    assert not inspect.overlaps_any(None, [(0, 9)])
