"""Tokenizers of the page give the tokens, offsets and texts of Python's, for every kind that regard trains."""

from __future__ import annotations

import json
import random
import unicodedata

import pytest

from regard.data.builtin import english_korean
from regard.data.text import byte_bpe, tagged_corpus
from regard.data.text import tokenizer as tokenizers
from regard.data.text.word_units import word_spans

NUM_TEXTS = 10_000
PIECES = [
    *(
        "the dog's",
        "Zoë",
        "DON'T",
        "naïve café",
        "3.14",
        "Ⅷ²½",
        "İstanbul ẞ ΣΑΣ",
        "x_1",
        "http://a.kr/?q=1",
        "@me #tag",
    ),
    *(
        "오늘은",
        "맛있는 사과 세 개를",
        "ㅋㅋㅋ",
        "봤다.",
        unicodedata.normalize("NFD", "한국어는"),
        "각\u11a8",
        "漢字カナ",
    ),
    *(
        "🍎",
        "👩‍👩‍👧‍👦",
        "🇰🇷",
        "👍🏽",
        "e\u0301\u0323",
        "a\u0345\u0334\u0301",
        "\u0301",
        "ﬁ",
        "Å",
        "क्षि",
        "שלום",
        "مرحبا",
    ),
    *(
        "<pad> ",
        "<unknown> ",
        "<start>",
        "<end> x",
        "\t",
        "\n\n",
        "\r\n",
        "\x00",
        "\x07",
        "\x1c",
        "\x85",
        "\xa0",
        "\u3000",
    ),
    *(
        "\ufeff",
        "\u200b",
        "\u2028",
        "\U0001f9ff",
        "\U000e0041",
        "\uffff",
        "“quoted”…",
        "!?!",
        "a" * 120,
        " ",
        "  ",
        ".",
    ),
]


def make_texts():
    """Random texts of English, Korean, emoji, decomposed syllables, marks, and control characters."""
    generator = random.Random(1)
    return ["".join(generator.choice(PIECES) + generator.choice(["", " "]) for _ in range(generator.randint(0, 5)))
            for _ in range(NUM_TEXTS)]  # fmt: skip


@pytest.fixture(scope="module")
def texts():
    return make_texts()


@pytest.fixture(scope="module")
def corpus():
    """Sentences in both languages, and some of the texts, so that vocabularies have their characters."""
    examples = english_korean.generate("train", 200, seed=1)
    return [*(sentence for example in examples for sentence in example[:2]), *make_texts()[:40]]


def units(sentences):
    return [text[start:stop] for text in sentences for start, stop in word_spans(text)]


KINDS = {
    "bpe": lambda corpus: tokenizers.train(corpus, level="bpe", size=400),
    "unigram": lambda corpus: tokenizers.train(corpus, level="unigram", size=400),
    "word": lambda corpus: tokenizers.train(corpus, level="word", size=200, lowercase=True),
    "char": lambda corpus: tokenizers.train(corpus, level="char", size=600),
    "bytes": lambda corpus: byte_bpe.train(corpus, size=400, lowercase=True),
    "units": lambda corpus: tagged_corpus.train_word_tokenizer(units(corpus), size=200, lowercase=True, minimum=1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_equal(engine, corpus, texts, kind):
    tokenizer = KINDS[kind](corpus)
    state = json.loads(tokenizer.engine.to_str())
    engine.evaluate("state => { globalThis.tokenizer = regard.tokenizer(state); }", state)
    rows = tokenizer.encode(texts)
    found = engine.evaluate("texts => texts.map((text) => tokenizer.encode(text))", texts)
    assert [(text, mine, theirs) for text, mine, theirs in zip(texts, rows, found, strict=True) if mine != theirs] == []
    decoded = engine.evaluate("rows => rows.map((row) => tokenizer.decode(row))", rows)
    assert [pair for pair in zip(tokenizer.decode(rows), decoded, strict=True) if pair[0] != pair[1]] == []
    names = engine.evaluate(
        "size => Array.from({ length: size }, (_, i) => tokenizer.tokenText(i))", tokenizer.vocab_size
    )
    assert names == [tokenizer.token_text(token) for token in range(tokenizer.vocab_size)]
    script = "texts => texts.map((text) => tokenizer.encodeWithOffsets(text).map((piece) => Object.values(piece)))"
    offsets = engine.evaluate(script, texts[:500])
    assert offsets == [[list(piece) for piece in tokenizer.encode_with_offsets(text)] for text in texts[:500]]
