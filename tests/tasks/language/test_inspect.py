import pytest
import torch

from regard.core.data_specs import LanguageSpec, SpecialTokens
from regard.data.text import byte_bpe
from regard.data.text import tokenizer as tokenizers
from regard.models import gpt
from regard.tasks import language
from regard.tasks._shared.tokens import raw_text
from regard.tasks.language.generate import Continuation, empty_source
from regard.tasks.language.inspect import build_inspectable

TEXTS = ["the cat sat on the mat,\n\tand a dog  sat too"] * 3


def tokenizer(level):
    return byte_bpe.train(TEXTS, size=300) if level == "bytes" else tokenizers.train(TEXTS, level=level, size=60)


@pytest.mark.parametrize("level", ["char", "word", "bpe", "unigram", "bytes"])
def test_raw_texts_join_to_the_text(level):
    trained = tokenizer(level)
    (row,) = trained.encode(["the cat  sat,\n\tand a mat"])
    assert "".join(raw_text(token, trained) for token in row).removeprefix(" ") == "the cat  sat,\n\tand a mat"
    assert raw_text(SpecialTokens.eos, trained) == ""


@pytest.fixture
def inspectable():
    torch.manual_seed(0)
    chars = tokenizer("char")
    model = gpt.build(gpt.Config(layers=1, dim=16, heads=2), LanguageSpec(chars.vocab_size, max_length=16)).eval()
    prompt = (SpecialTokens.bos, *chars.encode(["the "])[0])
    text = Continuation(0, tuple(chars.encode(["cat"])[0]), 0, finished=True)
    with torch.no_grad():
        return build_inspectable(
            model,
            prompt,
            text,
            tokenizer=chars,
            special_tokens=SpecialTokens(),
            source=empty_source(1, torch.device("cpu")),
        )


def test_every_token_has_its_alternatives(inspectable):
    (output,) = inspectable.outputs
    assert output.text == "the cat" and [token.text for token in output.tokens[:4]] == ["t", "h", "e", "␣"]
    scores = inspectable.replay().detach().log_softmax(dim=-1)
    for position, token in enumerate(output.tokens):
        assert token.score == pytest.approx(float(scores[position, inspectable.predicted_ids[position]]), abs=1e-5)
        assert token.alternatives[0][1] == pytest.approx(float(scores[position].max()), abs=1e-5)
    assert output.score == pytest.approx(sum(token.score for token in output.tokens[4:]), abs=1e-4)


def test_axes_agree_with_the_inputs(inspectable):
    assert len(inspectable.axes["output"].items) == len(inspectable.predicted_ids) == 8
    assert inspectable.inputs["read"].shape == (1, 8) and len(inspectable.axes["read"].items) == 8
    assert inspectable.axes["output"].items[-1].special
    assert inspectable.extra["next_token"]["given"] == 4
    assert "".join(inspectable.extra["next_token"]["pieces"]) == "the cat"


def test_tokens_are_ablated_by_the_unknown_token(inspectable):
    ablated = inspectable.ablations["read"]()
    plain = inspectable.replay()
    assert ablated.shape == (8, *plain.shape)
    torch.testing.assert_close(ablated[3][:3], plain[:3])  # earlier predictions do not change
    assert not torch.allclose(ablated[3][3:], plain[3:])


def test_unknown_characters_of_the_prompt_are_kept(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("the cat sat on the mat\n" * 200, encoding="utf-8")
    task = language.build(language.Config(paths=(file,), tokenizer="char", context=32))
    torch.manual_seed(0)
    model = gpt.build(gpt.Config(layers=1, dim=16, heads=2), task.spec).eval()
    result = task.inspect(model, "the 고양이", language.Options(tokens=2), None)
    assert result.title == "the 고양이"
    assert [item.text for item in result.axes["output"].items[4:7]] == ["고", "양", "이"]
    assert result.outputs[0].text.startswith("the 고양이")
