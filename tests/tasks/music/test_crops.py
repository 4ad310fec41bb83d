"""Crops: every number says its crop, every token is trained on, and evaluation counts every token once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.music import crops as music_crops
from regard.tasks.music.crops import Crop, CropSpec

SHAPE = CropSpec(
    length=32, bar=8, batch_size=3, transpose=4, tempo=0.1, conditions=("key", "mode"), condition_dropout=0.5
)

crops = st.builds(
    Crop,
    piece=st.integers(0, 10**6),
    place=st.integers(0, music_crops.PLACES - 1),
    shift=st.integers(-100, 100),
    tempo=st.integers(0, music_crops.TEMPO_STEPS - 1),
    dropped=st.integers(0, 15),
)


@given(crops)
def test_a_number_says_its_crop(crop):
    number = music_crops.pack(crop)
    assert 0 <= number < 2**63
    assert music_crops.unpack(number) == crop


@given(st.lists(st.integers(1, 150), min_size=1, max_size=8), st.integers(0, 9))
def test_every_token_is_in_a_crop(lengths, epoch):
    rooms = [(-2, 3)] * len(lengths)
    plan = music_crops.crop_batches(lengths, rooms, spec=SHAPE, seed=1, epoch=epoch)
    assert all(1 <= len(batch) <= SHAPE.batch_size for batch in plan)
    seen = [np.zeros(length, dtype=bool) for length in lengths]
    for batch in plan:
        for number in batch:
            crop = music_crops.unpack(int(number))
            assert crop.start % SHAPE.bar == 0
            assert crop.start < lengths[crop.piece]
            assert -2 <= crop.shift <= 3
            seen[crop.piece][crop.start : crop.start + SHAPE.length] = True
    assert all(row.all() for row in seen)


def test_a_plan_hangs_on_seed_and_epoch_alone():
    lengths, rooms = [100, 70, 20], [(-9, 9)] * 3
    one, same, later, other = (
        [batch.tolist() for batch in music_crops.crop_batches(lengths, rooms, spec=SHAPE, seed=seed, epoch=epoch)]
        for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert one == same
    assert one != later
    assert one != other


def test_augmentation_keeps_to_what_is_asked_for():
    plain = SHAPE._replace(transpose=0, tempo=False, drop=0.0)
    found = [
        music_crops.unpack(int(n))
        for b in music_crops.crop_batches([300], [(-9, 9)], spec=plain, seed=1, epoch=0)
        for n in b
    ]
    assert {(crop.shift, crop.tempo, crop.dropped_conditions) for crop in found} == {
        (0, music_crops.TEMPO_STEPS // 2, 0)
    }
    several = [
        music_crops.unpack(int(n))
        for b in music_crops.crop_batches([900], [(-9, 9)], spec=SHAPE, seed=1, epoch=0)
        for n in b
    ]
    assert {crop.shift for crop in several} > {-4, 4}
    assert max(abs(crop.shift) for crop in several) == 4
    assert {crop.dropped_conditions for crop in several} == {0, 1, 2, 3}


@given(st.integers(1, 300), st.sampled_from([8, 16, 40, 64, 1000]))
def test_windows_count_every_token_once(length, size):
    found = music_crops.excerpts(length, size, 8)
    counted = [place for part in found for place in range(part.score_start, part.end)]
    assert counted == list(range(length))
    for part in found:
        assert part.start % 8 == 0
        assert part.end - part.start <= max(size, 8)
        assert part.start == 0 or part.score_start - part.start >= size - max(8, size // 2)


def test_tempi_lie_around_the_piece_own():
    factors = [music_crops.tempo_factor(step, 0.1) for step in range(music_crops.TEMPO_STEPS)]
    assert factors == pytest.approx([0.9, 0.95, 1.0, 1.05, 1.1])
