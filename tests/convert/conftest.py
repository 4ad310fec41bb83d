"""Tiny models of transformers, made from a configuration and saved with a tokenizer, as people bring them."""

from __future__ import annotations

import json
import warnings

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers

warnings.filterwarnings("ignore", module="transformers")
WORDS = ["the", "a", "cook", "dog", "reads", "book", "##s", "buys", "two", "apples", "."]


def wordpiece(path, marks):
    """A tokenizer.json as BERT's, its marks first."""
    names = {name: number for number, name in enumerate([*marks, *WORDS])}
    engine = tokenizers.Tokenizer(models.WordPiece(names, unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer()
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.add_special_tokens(list(marks))
    engine.save(str(path))
    return len(names)


def bytes_bpe(path):
    """A tokenizer.json as GPT-2's: its only mark comes last."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = {name: number for number, name in enumerate([*alphabet, "th", "Ġth", "<|endoftext|>"])}
    engine = tokenizers.Tokenizer(models.BPE(names, [("t", "h"), ("Ġ", "th")]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.save(str(path))
    return len(names)


def unigram(path):
    """A tokenizer.json as one of Marian's vocabulary: </s> first, <pad> last."""
    pieces = [("</s>", 0.0), ("<unk>", 0.0), ("▁the", -2.0), ("▁cook", -2.5), ("s", -3.0), ("▁reads", -2.2)]
    pieces += [(f"▁{letter}", -5.0) for letter in "abcdefghijklmnopqrtuvwxyz"]
    pieces += [(letter, -6.0) for letter in "abcdefghijklmnopqrtuvwxyz.▁"] + [("<pad>", 0.0)]
    engine = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=1))
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.decoder = decoders.Metaspace()
    engine.save(str(path))
    return len(pieces)


@pytest.fixture(scope="session")
def library():
    """transformers, quietly; its weights drawn wide enough for logits to differ."""
    found = pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found


def saved(model, folder):
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name and weight.dim() > 1:
                weight.normal_(std=0.3)
            elif "embed_positions" not in name:
                weight.add_(torch.randn_like(weight) * 0.1)
    model.tie_weights()
    model.eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def brought(library, tmp_path_factory):
    """A function: the name of a layout -> a folder with such a model."""
    root = tmp_path_factory.mktemp("theirs")

    def make(kind, **more):
        folder = root / f"{kind}-{len(list(root.iterdir()))}"
        folder.mkdir()
        model = MAKERS[kind](library, folder, **more)
        return saved(model, folder)

    return make


def _bert(library, folder, *, pairs=False, segments=2, **more):
    size = wordpiece(folder / "tokenizer.json", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    config = library.BertConfig(
        vocab_size=size + 3, max_position_embeddings=20, type_vocab_size=segments, **shape, **more
    )  # more rows than tokens, as many models have
    return (library.BertForPreTraining if pairs else library.BertForMaskedLM)(config)


def _roberta_prelayernorm(library, folder, *, segments=1, **more):
    size = wordpiece(folder / "tokenizer.json", ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"])
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    marks = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = library.RobertaPreLayerNormConfig(
        vocab_size=size, max_position_embeddings=22, type_vocab_size=segments, **marks, **shape, **more
    )
    return library.RobertaPreLayerNormForMaskedLM(config)


def _gpt2(library, folder, **more):
    size = bytes_bpe(folder / "tokenizer.json")
    ends = {"bos_token_id": size - 1, "eos_token_id": size - 1}
    config = library.GPT2Config(vocab_size=size, n_positions=24, n_embd=16, n_layer=2, n_head=2, **ends, **more)
    return library.GPT2LMHeadModel(config)


def _marian(library, folder, **more):
    return _seq2seq(library.MarianMTModel, library.MarianConfig, folder, **more)


def _pegasus(library, folder, **more):
    return _seq2seq(library.PegasusForConditionalGeneration, library.PegasusConfig, folder, **more)


def _seq2seq(kind, settings, folder, **more):
    size = unigram(folder / "tokenizer.json")
    layers = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
              (("layers", 2), ("attention_heads", 2), ("ffn_dim", 24))}  # fmt: skip
    config = settings(
        vocab_size=size, d_model=16, max_position_embeddings=32, pad_token_id=size - 1, eos_token_id=0,
        decoder_start_token_id=size - 1, forced_eos_token_id=None, **layers,
        **{"activation_function": "swish", "scale_embedding": True} | more,
    )  # fmt: skip
    model = kind(config)
    model.final_logits_bias.normal_()
    return model


def _vit(library, folder, **more):
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    labels = {"id2label": {0: "cat", 1: "dog", 2: "bird"}, "label2id": {"cat": 0, "dog": 1, "bird": 2}}
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    return library.ViTForImageClassification(
        library.ViTConfig(image_size=8, patch_size=4, num_channels=3, **shape, **labels, **more)
    )


MAKERS = {
    "bert": _bert,
    "gpt2": _gpt2,
    "marian": _marian,
    "pegasus": _pegasus,
    "roberta_prelayernorm": _roberta_prelayernorm,
    "vit": _vit,
}
