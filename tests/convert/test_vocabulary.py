"""A vocabulary of others with our marks: the same texts in the same pieces, under other numbers."""

import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers

from regard.convert import vocabulary
from regard.core.errors import CheckpointError, DataError
from regard.data.text.masking import MASK_TOKEN
from regard.data.text.tokenizer import SPECIAL_TOKENS


@pytest.fixture
def path(tmp_path):
    names = ["a", "[UNK]", "b", "[PAD]", "c", "[MASK]", "[EOS]"]
    engine = tokenizers.Tokenizer(
        models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="[UNK]")
    )
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


KNOWN = {"pad": None, "start": 6, "end": 6}


def test_marks_come_first_and_the_mask_last(path):
    found = vocabulary.read_vocabulary(path, size=9, special_token_ids=KNOWN, mask=True)
    spelt = [found.tokenizer.engine.id_to_token(number) for number in range(found.tokenizer.vocab_size)]
    assert spelt == [*SPECIAL_TOKENS, "a", "b", "c", "<unused 7> ", "<unused 8> ", MASK_TOKEN]
    assert found.source_ids.tolist() == [3, 1, 6, 6, 0, 2, 4, 7, 8, 5]
    assert found.missing_special_tokens == (2,)  # the start is the end's row: only the end is foretold
    (row,) = found.tokenizer.encode(["a b c nothing"])
    assert (
        found.to_source_ids(torch.tensor(row)).tolist()
        == tokenizers.Tokenizer.from_file(str(path)).encode("a b c nothing").ids
    )


def test_tables_follow_and_what_is_not_there_is_never_foretold(path):
    found = vocabulary.read_vocabulary(path, size=7, special_token_ids=KNOWN | {"pad": None})
    table = torch.arange(7.0)[:, None] + 1
    assert found.select_rows(table)[:, 0].tolist() == [4, 2, 7, 7, 1, 3, 5, 6]
    assert found.suppress_missing(torch.zeros(8)).tolist() == [0, 0, vocabulary.MASKED_LOGIT, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("told", [50256, -1, [], None])
def test_a_mark_beyond_the_tables_is_looked_for_by_its_name(path, told):
    found = vocabulary.read_vocabulary(path, size=7, special_token_ids={"pad": told, "start": told, "end": told})
    assert found.source_ids.tolist() == [3, 1, -1, -1, 0, 2, 4, 5, 6] and found.missing_special_tokens == (2, 3)
    assert found.select_rows(torch.arange(7.0)[:, None]).shape == (9, 1)


def test_of_several_ends_the_first_is_taken(path):
    assert vocabulary.read_vocabulary(path, size=7, special_token_ids={"end": [6, 2]}).source_ids[3] == 6


def test_what_is_wrong_is_one_line(path):
    with pytest.raises(CheckpointError, match="7 tokens, but the model has 5; the tokenizer belongs to another model"):
        vocabulary.read_vocabulary(path, size=5, special_token_ids=KNOWN)
    path.write_text(path.read_text().replace("[MASK]", "[OTHER]"))
    with pytest.raises(DataError, match=r"no mask token \(\[MASK\] or <mask>\)"):
        vocabulary.read_vocabulary(path, size=7, special_token_ids=KNOWN, mask=True)
    path.write_text("{")
    with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer file"):
        vocabulary.read_vocabulary(path, size=7, special_token_ids=KNOWN)
