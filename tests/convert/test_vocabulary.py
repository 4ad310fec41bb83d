"""Import of a tokenizer.json: texts have the same tokens with other ids, and the special tokens of regard."""

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
        models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="[UNK]")
    )
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


CONFIGURED = {"pad": None, "start": 6, "end": 6}


def test_special_tokens_come_first_and_the_mask_last(path):
    imported = vocabulary.read_vocabulary(path, size=9, special_token_ids=CONFIGURED, mask=True)
    names = [imported.tokenizer.engine.id_to_token(token) for token in range(imported.tokenizer.vocab_size)]
    assert names == [*SPECIAL_TOKENS, "a", "b", "c", "<unused 7> ", "<unused 8> ", MASK_TOKEN]
    assert imported.source_ids.tolist() == [3, 1, 6, 6, 0, 2, 4, 7, 8, 5]
    assert imported.missing_special_tokens == (2,)  # BOS has the row of EOS: only EOS is predicted
    (row,) = imported.tokenizer.encode(["a b c nothing"])
    original = tokenizers.Tokenizer.from_file(str(path)).encode("a b c nothing").ids
    assert imported.to_source_ids(torch.tensor(row)).tolist() == original


def test_tables_are_reordered_and_missing_tokens_are_never_predicted(path):
    imported = vocabulary.read_vocabulary(path, size=7, special_token_ids=CONFIGURED)
    table = torch.arange(7.0)[:, None] + 1
    assert imported.select_rows(table)[:, 0].tolist() == [4, 2, 7, 7, 1, 3, 5, 6]
    assert imported.suppress_missing(torch.zeros(8)).tolist() == [0, 0, vocabulary.MASKED_LOGIT, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("token_id", [50256, -1, [], None])
def test_a_special_token_beyond_the_tables_is_searched_by_name(path, token_id):
    imported = vocabulary.read_vocabulary(
        path, size=7, special_token_ids=dict.fromkeys(("pad", "start", "end"), token_id)
    )
    assert imported.source_ids.tolist() == [3, 1, -1, -1, 0, 2, 4, 5, 6] and imported.missing_special_tokens == (2, 3)
    assert imported.select_rows(torch.arange(7.0)[:, None]).shape == (9, 1)


def test_the_first_of_several_eos_tokens_is_used(path):
    assert vocabulary.read_vocabulary(path, size=7, special_token_ids={"end": [6, 2]}).source_ids[3] == 6


def test_invalid_files_are_one_line_errors(path):
    with pytest.raises(CheckpointError, match="7 tokens, but the model has 5; the tokenizer belongs to another model"):
        vocabulary.read_vocabulary(path, size=5, special_token_ids=CONFIGURED)
    path.write_text(path.read_text().replace("[MASK]", "[OTHER]"))
    with pytest.raises(DataError, match=r"no mask token \(\[MASK\] or <mask>\)"):
        vocabulary.read_vocabulary(path, size=7, special_token_ids=CONFIGURED, mask=True)
    path.write_text("{")
    with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer file"):
        vocabulary.read_vocabulary(path, size=7, special_token_ids=CONFIGURED)
