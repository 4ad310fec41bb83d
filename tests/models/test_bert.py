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
PAIRS = replace(SIZES, pairs=True)


def gaps(rows=2, length=9, seed=0):
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 23, (rows, length), generator=random)
    chosen = torch.zeros(rows, length, dtype=torch.bool)
    chosen[:, [2, 5]] = True
    seen = tokens.masked_fill(chosen, 23)
    segments = (torch.arange(length) > 4).long().expand(rows, -1)
    return MaskedBatch(seen, tokens, torch.full((rows,), length), chosen, chosen.long(), segments)


def parameters(config, size, longest):
    with torch.device("meta"):
        model = bert.build(config, MaskedLMSpec(vocab_size=size, max_length=longest, has_pairs=config.segments == 2))
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("preset", "size", "longest", "count"),
    [
        ("bert_base", 30522, 512, 110_106_428),  # as BertForPreTraining of Hugging Face counts
        ("roberta_base", 50265, 514, 124_696_665),  # RobertaForMaskedLM has 768 more: a segment that says nothing
        ("albert_base", 30000, 512, 11_813_810),  # AlbertForPreTraining
        ("bert", 8000, 128, 1_875_778),
        ("roberta", 8000, 128, 1_858_752),
        ("albert", 8000, 128, 760_450),
    ],
)
def test_presets_have_the_parameters_they_should_have(preset, size, longest, count):
    assert parameters(bert.PRESETS[preset], size, longest) == count


def test_shared_layers_do_not_grow_with_their_number():
    shared = replace(bert.TINY, share_layers=True)
    assert parameters(shared, 24, 12) == parameters(replace(shared, layers=7), 24, 12)
    assert parameters(replace(bert.TINY, layers=1), 24, 12) == parameters(shared, 24, 12)


def test_a_narrow_table_is_widened():
    narrow = replace(bert.TINY, embedding=4)
    model = bert.build(narrow, SIZES)
    assert model.encoder.embedding.table.weight.shape == (24, 4)
    assert model.readout.weight is model.encoder.embedding.table.weight
    assert model(gaps()).features.shape == (4, 4)


@pytest.mark.parametrize(
    "change",
    [{}, {"norm": "post"}, {"share_layers": True}, {"embedding": 4}, {"segments": 0}]
    + [{"position": name} for name in registered_names("regard.layers.positions")],
    ids=str,
)
def test_padding_changes_nothing_and_gaps_see_both_ways(change):
    model = bert.build(replace(bert.TINY, **change), SIZES).eval()
    given = gaps()
    wider = MaskedBatch(*(torch.nn.functional.pad(part, (0, 2)) if part.dim() == 2 else part for part in given))
    torch.testing.assert_close(model(wider).features, model(given).features, atol=2e-5, rtol=1e-4)
    for place in (0, 8):
        other = given._replace(seen=given.input_tokens.index_fill(1, torch.tensor(place), 4))
        changed = (model(other).features - model(given).features).abs().amax(dim=1)
        assert (changed > 0).all()


def test_every_layer_is_looked_at_by_itself_even_if_weights_are_shared():
    model = bert.build(replace(bert.TINY, share_layers=True, position="relative"), SIZES).eval()
    with record(model) as maps:
        model(gaps())
    assert list(maps) == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    assert all(found.weights.shape == (2, 2, 9, 9) for found in maps.values())


def test_every_parameter_learns():
    model = bert.build(bert.TINY, PAIRS)
    given = gaps()
    foretold = model(given)
    loss = model.readout.loss(foretold.features, given.tokens[given.prediction_mask])
    (loss + model.pairs.loss(foretold.first, torch.tensor([0, 1]))).backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


def test_pairs_are_told_only_where_there_are_any_and_need_segments():
    model = bert.build(bert.TINY, SIZES)
    assert model.pairs is None and model(gaps()).first is None
    with pytest.raises(
        ConfigError, match=r"the rows hold pairs of texts; set model.segments=2, or data.sentence_pairs='none'"
    ):
        bert.build(replace(bert.TINY, segments=0), PAIRS)


def test_it_overfits_eight_texts():
    model = bert.build(replace(bert.TINY, dropout=0.0), SIZES)
    given = gaps(rows=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        loss = model.readout.loss(model(given).features, given.tokens[given.prediction_mask]) / 16
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


def test_the_encoder_alone_reads_texts_as_the_first_of_a_pair():
    encoder = bert.build(bert.TINY, SIZES).eval().encoder
    text = Padded(gaps().tokens, torch.tensor([9, 9]))
    torch.testing.assert_close(encoder(text), encoder(text, torch.zeros_like(text.tokens)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": 0}, "layers, dim, heads and hidden must be at least 1, embedding at least 0"),
        ({"dim": 10, "heads": 4}, "dim=10 cannot be divided among heads=4; choose a multiple of 4"),
        ({"segments": 1}, "segments=1 must be 2, or 0 for texts without pairs"),
        ({"dropout": 1.0}, "dropout=1.0 is not a probability below 1"),
    ],
)
def test_impossible_choices_are_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        bert.Config(**change)
