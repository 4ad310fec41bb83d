"""Tiny models of transformers saved with a tokenizer, and small runs that the tests of conversions share."""

from __future__ import annotations

import json
import warnings

import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.training import recipe as recipes
from regard.training.train import train

warnings.filterwarnings("ignore", module="transformers")
WORDS = ["the", "a", "cook", "dog", "reads", "book", "##s", "buys", "two", "apples", "."]


def wordpiece(path, special_tokens):
    """Write a tokenizer.json as BERT's, special tokens first -> its number of tokens."""
    names = {name: index for index, name in enumerate([*special_tokens, *WORDS])}
    engine = tokenizers.Tokenizer(models.WordPiece(names, unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer()
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.add_special_tokens(list(special_tokens))
    engine.save(str(path))
    return len(names)


def bytes_bpe(path):
    """Write a tokenizer.json as GPT-2's, whose only special token is the last -> its number of tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = {name: index for index, name in enumerate([*alphabet, "th", "Ġth", "<|endoftext|>"])}
    engine = tokenizers.Tokenizer(models.BPE(names, [("t", "h"), ("Ġ", "th")]))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.save(str(path))
    return len(names)


def unigram(path):
    """Write a tokenizer.json with the vocabulary of Marian, </s> first, <pad> last -> its number of tokens."""
    pieces = [("</s>", 0.0), ("<unk>", 0.0), ("▁the", -2.0), ("▁cook", -2.5), ("s", -3.0), ("▁reads", -2.2)]
    pieces += [(f"▁{character}", -5.0) for character in "abcdefghijklmnopqrtuvwxyz"]
    pieces += [(character, -6.0) for character in "abcdefghijklmnopqrtuvwxyz.▁"] + [("<pad>", 0.0)]
    engine = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=1))
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.decoder = decoders.Metaspace()
    engine.save(str(path))
    return len(pieces)


@pytest.fixture(scope="session")
def library():
    """The module transformers, without warnings and progress bars."""
    transformers = pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def save(model, folder):
    """Save a model with weights large enough for logits to differ -> the folder."""
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
def trained(tmp_path_factory):
    """A function: task and settings -> the folder of such a run, trained once; tests must not change it."""
    folders = {}

    def train_once(task, *settings):
        key = (task, *settings)
        if key not in folders:
            folders[key] = train(recipes.read(task, settings=settings), tmp_path_factory.mktemp("runs") / "run")
        return folders[key]

    return train_once


@pytest.fixture(scope="session")
def saved_model(library, tmp_path_factory):
    """A function: architecture and settings -> a folder with such a model of transformers."""
    root = tmp_path_factory.mktemp("transformers")

    def create(architecture, **settings):
        folder = root / f"{architecture}-{len(list(root.iterdir()))}"
        folder.mkdir()
        model = BUILDERS[architecture](library, folder, **settings)
        return save(model, folder)

    return create


def _bert(library, folder, *, pairs=False, segments=2, **settings):
    size = wordpiece(folder / "tokenizer.json", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    config = library.BertConfig(
        vocab_size=size + 3, max_position_embeddings=20, type_vocab_size=segments, **shape, **settings
    )  # more rows than tokens, as in many models
    return (library.BertForPreTraining if pairs else library.BertForMaskedLM)(config)


def _roberta_prelayernorm(library, folder, *, segments=1, **settings):
    size = wordpiece(folder / "tokenizer.json", ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"])
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    special_tokens = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = library.RobertaPreLayerNormConfig(
        vocab_size=size, max_position_embeddings=22, type_vocab_size=segments, **special_tokens, **shape, **settings
    )
    return library.RobertaPreLayerNormForMaskedLM(config)


def _roberta(library, folder, *, segments=1, **settings):
    size = wordpiece(folder / "tokenizer.json", ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"])
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    special_tokens = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = library.RobertaConfig(
        vocab_size=size, max_position_embeddings=22, type_vocab_size=segments, **special_tokens, **shape, **settings
    )
    return library.RobertaForMaskedLM(config)


def _albert(library, folder, **settings):
    size = wordpiece(folder / "tokenizer.json", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    shape = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
    config = library.AlbertConfig(
        vocab_size=size, embedding_size=8, max_position_embeddings=20, **shape, **{"hidden_act": "gelu_new"} | settings
    )
    return library.AlbertForMaskedLM(config)


def _xlnet(library, folder, **settings):
    size = wordpiece(folder / "tokenizer.json", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    special_tokens = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    config = library.XLNetConfig(
        vocab_size=size, d_model=16, n_layer=2, n_head=2, d_inner=24, **special_tokens, **settings
    )
    return library.XLNetLMHeadModel(config)


def _gpt2(library, folder, *, classifier=False, **settings):
    size = bytes_bpe(folder / "tokenizer.json")
    ends = {"bos_token_id": size - 1, "eos_token_id": size - 1}
    config = library.GPT2Config(vocab_size=size, n_positions=24, n_embd=16, n_layer=2, n_head=2, **ends, **settings)
    return (library.GPT2ForSequenceClassification if classifier else library.GPT2LMHeadModel)(config)


def _marian(library, folder, **settings):
    return _seq2seq(library.MarianMTModel, library.MarianConfig, folder, **settings)


def _pegasus(library, folder, **settings):
    return _seq2seq(library.PegasusForConditionalGeneration, library.PegasusConfig, folder, **settings)


def _seq2seq(model_class, config_class, folder, **settings):
    size = unigram(folder / "tokenizer.json")
    layers = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
              (("layers", 2), ("attention_heads", 2), ("ffn_dim", 24))}  # fmt: skip
    config = config_class(
        vocab_size=size, d_model=16, max_position_embeddings=32, pad_token_id=size - 1, eos_token_id=0,
        decoder_start_token_id=size - 1, forced_eos_token_id=None, **layers,
        **{"activation_function": "swish", "scale_embedding": True} | settings,
    )  # fmt: skip
    model = model_class(config)
    model.final_logits_bias.normal_()
    return model


def _vit(library, folder, *, processor=None, **settings):
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    labels = {"id2label": {0: "cat", 1: "dog", 2: "bird"}, "label2id": {"cat": 0, "dog": 1, "bird": 2}}
    table = {"image_processor_type": "ViTImageProcessor", "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    table |= {"size": {"height": 8, "width": 8}} | (processor or {})
    (folder / "preprocessor_config.json").write_text(json.dumps(table))
    return library.ViTForImageClassification(
        library.ViTConfig(image_size=8, patch_size=4, num_channels=3, **shape, **labels, **settings)
    )


BUILDERS = {
    "albert": _albert,
    "bert": _bert,
    "gpt2": _gpt2,
    "marian": _marian,
    "pegasus": _pegasus,
    "roberta": _roberta,
    "roberta_prelayernorm": _roberta_prelayernorm,
    "vit": _vit,
    "xlnet": _xlnet,
}
