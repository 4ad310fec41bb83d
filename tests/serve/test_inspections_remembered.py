"""Looks by name: in one process, or in a folder where another process finds them; the oldest go."""

from __future__ import annotations

import pytest

from regard.inspection.interventions import NO_INTERVENTIONS, Interventions
from regard.serve.inspections import MAX_STORED_REQUESTS, MAX_STORED_UPLOADS, InFolder, InMemory, InspectionRequest

CHANGED = Interventions((("encoder.self_attn", 1),), (("source", 2),), 0.5)
FILE = {"file": "AAAA", "name": "a.png"}


@pytest.fixture(params=["memory", "folder"])
def remembered(request, tmp_path):
    return InMemory() if request.param == "memory" else InFolder(tmp_path / "looks")


@pytest.mark.parametrize(
    "asked", [InspectionRequest("They sleep.\0", NO_INTERVENTIONS), InspectionRequest("a.png", CHANGED, FILE)]
)
def test_what_was_asked_is_found_by_its_name(remembered, asked):
    name = remembered.put(asked)
    assert remembered.get(name) == asked and remembered.put(asked) != name


@pytest.mark.parametrize("name", ["", "0", "../0", "x" * 300, "0" * 16, "\0"])
def test_other_names_are_none(remembered, name):
    remembered.put(InspectionRequest("a", NO_INTERVENTIONS))
    assert remembered.get(name) is None


def test_another_process_finds_it(tmp_path):
    name = InFolder(tmp_path).put(InspectionRequest("a", CHANGED))
    assert InFolder(tmp_path).get(name) == InspectionRequest("a", CHANGED)


def test_the_oldest_go_and_few_files_are_kept(remembered):
    names = [
        (remembered.put(InspectionRequest(str(number), NO_INTERVENTIONS, FILE if number % 2 else None)), number)
        for number in range(2 * MAX_STORED_REQUESTS)
    ]
    kept = [number for name, number in names if remembered.get(name) is not None]
    assert len(kept) <= MAX_STORED_REQUESTS and [number for number in kept if number % 2] == [
        2 * MAX_STORED_REQUESTS - k for k in (7, 5, 3, 1)
    ]
    assert MAX_STORED_UPLOADS == 4 and kept[-1] == 2 * MAX_STORED_REQUESTS - 1 and kept == sorted(kept)
