"""BERT: parameter counts of the presets, padding, recording, training and invalid settings."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.core.data_specs import MaskedLMSpec, SpecialTokens
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.protocols.masked_lm import MaskedBatch
from regard.core.registry import registered_names
from regard.models import bert

SIZES = MaskedLMSpec(vocab_size=24, max_length=12, special_tokens=SpecialTokens(mask=23))
PAIRS = replace(SIZES, has_pairs=True)


def masked_batch(batch_size=2, length=9, seed=0):
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 23, (batch_size, length), generator=random)
    is_masked = torch.zeros(batch_size, length, dtype=torch.bool)
    is_masked[:, [2, 5]] = True
    input_tokens = tokens.masked_fill(is_masked, 23)
    segments = (torch.arange(length) > 4).long().expand(batch_size, -1)
    return MaskedBatch(input_tokens, tokens, torch.full((batch_size,), length), is_masked, is_masked.long(), segments)


def parameters(config, size, max_length):
    with torch.device("meta"):
        model = bert.build(config, MaskedLMSpec(vocab_size=size, max_length=max_length, has_pairs=config.segments == 2))
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("preset", "size", "max_length", "count"),
    [
        ("bert_base", 30522, 512, 110_106_428),  # same as BertForPreTraining of Hugging Face
        ("roberta_base", 50265, 514, 124_696_665),  # RobertaForMaskedLM has 768 more: a constant segment
        ("albert_base", 30000, 512, 11_813_810),  # AlbertForPreTraining
        ("bert", 8000, 128, 1_875_778),
        ("roberta", 8000, 128, 1_858_752),
        ("albert", 8000, 128, 760_450),
    ],
)
def test_parameter_counts_of_the_presets(preset, size, max_length, count):
    assert parameters(bert.PRESETS[preset], size, max_length) == count


def test_shared_layers_have_the_parameters_of_one():
    shared = replace(bert.TINY, share_layers=True)
    assert parameters(shared, 24, 12) == parameters(replace(shared, layers=7), 24, 12)
    assert parameters(replace(bert.TINY, layers=1), 24, 12) == parameters(shared, 24, 12)


def test_a_narrow_table_is_widened():
    narrow = replace(bert.TINY, embedding=4)
    model = bert.build(narrow, SIZES)
    assert model.encoder.embedding.table.weight.shape == (24, 4)
    assert model.readout.weight is model.encoder.embedding.table.weight
    assert model(masked_batch()).features.shape == (4, 4)


@pytest.mark.parametrize(
    "change",
    [{}, {"norm": "post"}, {"share_layers": True}, {"embedding": 4}, {"segments": 0}]
    + [{"position": name} for name in registered_names("regard.layers.positions")],
    ids=str,
)
def test_padding_has_no_effect_and_attention_is_bidirectional(change):
    model = bert.build(replace(bert.TINY, **change), SIZES).eval()
    batch = masked_batch()
    wider = MaskedBatch(*(torch.nn.functional.pad(part, (0, 2)) if part.dim() == 2 else part for part in batch))
    torch.testing.assert_close(model(wider).features, model(batch).features, atol=2e-5, rtol=1e-4)
    for position in (0, 8):
        changed_batch = batch._replace(input_tokens=batch.input_tokens.index_fill(1, torch.tensor(position), 4))
        changed = (model(changed_batch).features - model(batch).features).abs().amax(dim=1)
        assert (changed > 0).all()


def test_shared_layers_are_recorded_separately():
    model = bert.build(replace(bert.TINY, share_layers=True, position="relative"), SIZES).eval()
    with record(model) as maps:
        model(masked_batch())
    assert list(maps) == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    assert all(recorded.weights.shape == (2, 2, 9, 9) for recorded in maps.values())


def test_every_parameter_learns():
    model = bert.build(bert.TINY, PAIRS)
    batch = masked_batch()
    output = model(batch)
    loss = model.readout.loss(output.features, batch.tokens[batch.prediction_mask])
    (loss + model.pairs.loss(output.cls_features, torch.tensor([0, 1]))).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


def test_sentence_pairs_need_segments():
    model = bert.build(bert.TINY, SIZES)
    assert model.pairs is None and model(masked_batch()).cls_features is None
    with pytest.raises(
        ConfigError, match=r"the data has sentence pairs; set model.segments=2 or data.sentence_pairs='none'"
    ):
        bert.build(replace(bert.TINY, segments=0), PAIRS)


def test_overfits_eight_texts():
    model = bert.build(replace(bert.TINY, dropout=0.0), SIZES)
    batch = masked_batch(batch_size=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        loss = model.readout.loss(model(batch).features, batch.tokens[batch.prediction_mask]) / 16
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


def test_the_encoder_uses_segment_zero_by_default():
    encoder = bert.build(bert.TINY, SIZES).eval().encoder
    text = Padded(masked_batch().tokens, torch.tensor([9, 9]))
    torch.testing.assert_close(encoder(text), encoder(text, torch.zeros_like(text.tokens)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers=0 must be at least 1"),
        ({"dim": 10, "heads": 4}, "dim=10 cannot be divided among heads=4; choose a multiple of 4"),
        ({"segments": 1}, "segments=1 must be 2, or 0 for single texts"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        bert.Config(**change)
