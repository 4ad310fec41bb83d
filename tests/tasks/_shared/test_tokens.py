"""Token names and vocabulary samples."""

from regard.data.text import tokenizer as tokenizers
from regard.tasks._shared.tokens import MAX_VOCABULARY_POINTS, token_name, vocabulary_sample


def test_whitespace_has_a_visible_name():
    tokenizer = tokenizers.train(["a b\n\tc"], level="char", size=20)
    names = {tokenizer.decode([[token]])[0]: token_name(token, tokenizer) for token in range(4, tokenizer.vocab_size)}
    assert names == {"a": "a", "b": "b", "c": "c", " ": "␣", "\n": "↵", "\t": "⇥"}


def test_a_sample_has_the_first_tokens_then_others_at_even_steps():
    tokenizer = tokenizers.train([" ".join(f"w{i}" for i in range(500))], level="word", size=600)
    sample = vocabulary_sample(tokenizer, [400, 2, 400, 5])
    assert sample.tokens[:4] == (400, 5, 4, 8) and len(sample.tokens) == MAX_VOCABULARY_POINTS
    assert (sample.name, sample.size) == ("text", tokenizer.vocab_size)
    assert sample.labels == tuple(tokenizer.token_text(token) for token in sample.tokens)


def test_a_sample_of_word_starts_has_no_other_tokens_if_there_are_any():
    text = "read reading reader write writing writer, now and then!"
    words = vocabulary_sample(tokenizers.train([text] * 5, level="bpe", size=60), [], name="source", word_starts=True)
    assert words.labels and all(len(label) > 1 and label.isalpha() for label in words.labels)
    characters = tokenizers.train([text], level="char", size=60)
    assert len(vocabulary_sample(characters, [], word_starts=True).tokens) == characters.vocab_size - 4
