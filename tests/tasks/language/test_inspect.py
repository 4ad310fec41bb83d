import pytest
import torch

from regard.core.data_specs import LanguageSpec, SpecialTokens
from regard.data.text import byte_bpe
from regard.data.text import tokenizer as tokenizers
from regard.models import gpt
from regard.tasks.language.generate import Continuation, empty_source
from regard.tasks.language.inspect import build_inspectable, raw_text

TEXTS = ["the cat sat on the mat,\n\tand a dog  sat too"] * 3


def tokenizer(level):
    return byte_bpe.train(TEXTS, size=300) if level == "bytes" else tokenizers.train(TEXTS, level=level, size=60)


@pytest.mark.parametrize("level", ["char", "word", "bpe", "unigram", "bytes"])
def test_raw_pieces_join_to_the_text(level):
    made = tokenizer(level)
    (row,) = made.encode(["the cat  sat,\n\tand a mat"])
    assert "".join(raw_text(token, made) for token in row).removeprefix(" ") == "the cat  sat,\n\tand a mat"
    assert raw_text(SpecialTokens.eos, made) == ""


@pytest.fixture
def shown():
    torch.manual_seed(0)
    made = tokenizer("char")
    model = gpt.build(gpt.Config(layers=1, dim=16, heads=2), LanguageSpec(made.vocab_size, max_length=16)).eval()
    prompt = tuple(made.encode(["the "])[0])
    text = Continuation(0, tuple(made.encode(["cat"])[0]), 0, finished=True)
    with torch.no_grad():
        return build_inspectable(
            model,
            prompt,
            text,
            tokenizer=made,
            special_tokens=SpecialTokens(),
            source=empty_source(1, torch.device("cpu")),
        )


def test_every_token_has_its_alternatives(shown):
    (output,) = shown.outputs
    assert output.text == "the cat" and [token.text for token in output.tokens[:4]] == ["t", "h", "e", "␣"]
    scores = shown.replay().detach().log_softmax(dim=-1)
    for place, token in enumerate(output.tokens):
        assert token.score == pytest.approx(float(scores[place, shown.chosen[place]]), abs=1e-5)
        assert token.alternatives[0][1] == pytest.approx(float(scores[place].max()), abs=1e-5)
    assert output.score == pytest.approx(sum(token.score for token in output.tokens[4:]), abs=1e-4)


def test_axes_agree_with_what_is_read(shown):
    assert len(shown.axes["output"].items) == len(shown.chosen) == 8
    assert shown.inputs["read"].shape == (1, 8) and len(shown.axes["read"].items) == 8
    assert shown.axes["output"].items[-1].special
    assert shown.extra["next_token"]["given"] == 4
    assert "".join(shown.extra["next_token"]["pieces"]) == "the cat"


def test_a_token_is_taken_away_by_the_unknown_token(shown):
    without = shown.without["read"]()
    plain = shown.replay()
    assert without.shape == (8, *plain.shape)
    torch.testing.assert_close(without[3][:3], plain[:3])  # what came before it cannot change
    assert not torch.allclose(without[3][3:], plain[3:])
