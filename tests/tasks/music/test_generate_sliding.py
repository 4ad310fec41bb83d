"""A memory that slides gives what the model gives as long as nothing is forgotten, and goes on for ever after."""

import torch

from regard.core.data_specs import MusicSpec
from regard.core.protocols import Padded
from regard.models import music_transformer
from regard.tasks.music.generate import SlidingWindowDecoder


def test_it_reads_the_latest_bars_anew_when_the_memory_is_full():
    torch.manual_seed(0)
    model = music_transformer.build(
        music_transformer.TINY, MusicSpec(num_conditions=5, vocab_size=19, max_length=12)
    ).eval()
    none = Padded(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long))
    sliding = SlidingWindowDecoder(model, lambda place: model.start(none), max_length=12, bar=4)
    tokens = torch.randint(4, 19, (1, 40))
    state = sliding.start(tokens)
    with torch.no_grad():
        for place in range(40):
            logits, state = sliding(tokens[:, place : place + 1], state)
            assert state.num_dropped % 4 == 0 and place + 1 - state.num_dropped <= 12
            expected, _ = model(tokens[:, state.num_dropped : place + 1], model.start(none))
            torch.testing.assert_close(logits[:, -1], expected[:, -1], atol=1e-5, rtol=1e-4)
        _, whole = sliding.features(tokens, sliding.start(tokens))
        assert whole.num_dropped == 36 or 40 - whole.num_dropped <= 12
    assert state.tokens.tolist() == tokens.tolist()
