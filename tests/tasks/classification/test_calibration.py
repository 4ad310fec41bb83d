"""Calibration: the error of known confidences, and the fitted temperature."""

import pytest
import torch

from regard.tasks.classification import calibration


def logits_of(probabilities):
    p = torch.tensor(probabilities, dtype=torch.double)
    return torch.stack([1 - p, p], dim=1).log()


def test_confidences_that_are_right_as_often_as_they_say_have_no_error():
    labels = torch.tensor([1] * 8 + [0] * 2)
    scores = calibration.reliability(logits_of([0.8] * 10), labels)
    assert scores["calibration_error"] == pytest.approx(0, abs=1e-9)
    assert scores["reliability.80%.count"] == 10 and scores["reliability.80%.accuracy"] == pytest.approx(0.8)


def test_the_error_is_the_gap_weighted_by_the_documents_of_each_bin():
    labels = torch.tensor([1, 1, 0, 0])
    scores = calibration.reliability(logits_of([0.95, 0.95, 0.75, 0.75]), labels)
    assert scores["calibration_error"] == pytest.approx(0.5 * 0.05 + 0.5 * 0.75)


def test_a_temperature_undoes_a_scale_of_the_logits():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(4000, 3, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    fitted = calibration.fit_temperature(logits, labels)
    assert fitted == pytest.approx(1, abs=0.1)
    assert calibration.fit_temperature(5 * logits, labels) == pytest.approx(5 * fitted, rel=0.01)


def test_extreme_logits_have_a_temperature_within_the_bounds():
    logits, labels = torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 1])
    assert calibration.fit_temperature(logits, labels) == 1  # no error: every lower temperature has a lower loss
    assert 10 < calibration.fit_temperature(logits, labels.flip(0)) < 21
