"""Validation of tempo and metres, and bar starts."""

from regard.data.music.metre import Metre, Timing, infer_metre, validate_timing

UPBEAT = Timing(90.0, (Metre(0, 1, 4), Metre(1, 4, 4), Metre(9, 3, 4)))


def test_bar_starts_follow_the_metres():
    assert Timing().bar_starts(9) == [0, 4, 8] and Timing().bar_starts(8) == [0, 4]
    assert Timing(None, (Metre(0, 6, 8),)).bar_starts(6.5) == [0, 3, 6]
    assert UPBEAT.bar_starts(16) == [0, 1, 5, 9, 12, 15]
    assert Timing(None, (Metre(0, 4, 4), Metre(6, 3, 4))).bar_starts(10) == [0, 4, 6, 9]  # an incomplete bar
    assert UPBEAT.bar_starts(0.5) == [0]


def test_an_upbeat_is_a_first_bar_that_is_shorter_than_the_next():
    assert UPBEAT.upbeat == 1
    assert Timing().upbeat == Timing(None, (Metre(0, 1, 4), Metre(2, 4, 4))).upbeat == 0


def test_truncate_drops_later_metres():
    assert UPBEAT.truncate(20) == UPBEAT
    assert UPBEAT.truncate(9).metres == UPBEAT.truncate(0.5).metres == UPBEAT.metres[:2]


def test_implausible_values_are_dropped():
    assert validate_timing(None, []) == validate_timing(0.5, [Metre(0, 0, 4), Metre(2, 3, 5)]) == Timing()
    assert validate_timing(60, [Metre(0, 3, 4), Metre(6, 3, 4), Metre(9, 2, 4)]) == (
        60,
        (Metre(0, 3, 4), Metre(9, 2, 4)),
    )
    # the last of equal starts counts
    assert validate_timing(60, [Metre(4, 3, 4), Metre(4, 2, 4)]).metres == (Metre(), Metre(4, 2, 4))


def test_infer_metre():
    assert [infer_metre(length) for length in (1, 1.5, 0.125, 1 / 3, 0)] == [
        *(Metre(0, 1, 4), Metre(0, 3, 8), Metre(0, 1, 32)),
        *(None, None),
    ]
