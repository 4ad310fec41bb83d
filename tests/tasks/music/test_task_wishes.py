"""Requests: what cannot be, or would change nothing, is refused; the rest is laid over the run's own decoder."""

from pathlib import Path

import pytest

from regard.core.errors import ConfigError
from regard.decoding import strategy
from regard.tasks.music import Options


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"seconds": 0.0}, r"^seconds=0.0: ask for more than 0 seconds and less than a day$"),
        ({"keep": -1.0}, r"^keep=-1.0: keep more than 0 seconds of the prompt and less than a day, or leave it out$"),
        (
            {"keep": 1e308},
            r"^keep=1e\+308: keep more than 0 seconds of the prompt and less than a day, or leave it out$",
        ),
        ({"exactly": True}, r"^exactly: say how long the piece is to be, with seconds=…$"),
        ({"voices": ("alto",)}, r"^voices and bars say what of a file is made anew; give the file: infill=FILE$"),
        ({"infill": Path("x"), "seconds": 3.0}, r"^infill keeps the length of the file; leave seconds out$"),
        ({"harmonise": Path("x"), "exactly": True, "seconds": 3.0}, r"^harmonise is as long as the tune, or at most"),
        ({"temperature": 0.0, "samples": 2}, r"^samples=2: at temperature=0 all would be the same; ask for one$"),
        ({"temperature": 0.0, "seed": 2}, r"^top_k, top_p and seed change nothing at temperature=0; leave them out$"),
    ],
)
def test_requests_that_cannot_be(wish, message):
    with pytest.raises(ConfigError, match=message):
        Options(**wish)


@pytest.mark.parametrize("own", [None, strategy.build("greedy"), strategy.build("sample", samples=4, top_k=2)], ids=str)
def test_the_run_draws_as_it_was_set_unless_asked_otherwise(own):
    drawn = Options(n=2, seed=7).resolve_strategy(own)
    assert drawn.name == "sample" and (drawn.config.samples, drawn.config.seed) == (2, 7)
    assert drawn.config.top_k == (2 if own is not None and own.name == "sample" else 0)
    assert Options().resolve_strategy(own) == (own or strategy.build("sample"))


def test_nothing_is_drawn_at_temperature_0():
    assert Options(temperature=0).resolve_strategy(strategy.build("sample", forbid=(7,))) == strategy.build(
        "greedy", forbid=(7,)
    )


def test_what_changes_nothing_of_what_is_looked_at_is_refused():
    Options().check_inspect_options(file=True)
    Options(seconds=3.0, seed=2).check_inspect_options(file=False)
    with pytest.raises(ConfigError, match=r"^seconds, seed: a file is looked at as it is; make a piece with generate,"):
        Options(seconds=3.0, seed=2).check_inspect_options(file=True)
    with pytest.raises(
        ConfigError, match=r"^harmonise: without a file a short piece from nothing is looked at; make a"
    ):
        Options(harmonise=Path("x")).check_inspect_options(file=False)
