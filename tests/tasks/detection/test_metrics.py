"""Average precision against cases computed by hand."""

import numpy as np
import pytest

from regard.tasks.detection.metrics import DetectedObject, GroundTruthObject, average_precision, box_iou

LEFT, RIGHT = (0.0, 0.0, 0.4, 0.4), (0.5, 0.5, 0.9, 0.9)


def test_iou():
    assert box_iou(LEFT, LEFT) == pytest.approx(1) and box_iou(LEFT, RIGHT) == 0
    assert box_iou((0, 0, 2, 2), (1, 1, 3, 3)) == pytest.approx(1 / 7)
    assert box_iou((0, 0, 0, 0), (0, 0, 0, 0)) == 0


def test_all_detected_and_nothing_detected():
    truth = [[GroundTruthObject(0, LEFT), GroundTruthObject(1, RIGHT)]]
    assert average_precision(
        [[DetectedObject(0, 0.9, LEFT), DetectedObject(1, 0.8, RIGHT)]], truth, threshold=0.5
    ) == pytest.approx(1)
    assert average_precision([[]], truth, threshold=0.5) == 0
    assert average_precision([[]], [[]], threshold=0.5) == 0


def test_a_case_by_hand():
    """Two objects of one class in two images. By confidence: correct, wrong, correct. Precision 1, 1/2, 2/3 at recall
    1/2, 1/2, 1: the interpolated precision is 1 up to recall 0.5 (51 of 101 points) and 2/3 beyond (50 points)."""
    truth = [[GroundTruthObject(0, LEFT)], [GroundTruthObject(0, RIGHT)]]
    detections = [[DetectedObject(0, 0.9, LEFT), DetectedObject(0, 0.8, RIGHT)], [DetectedObject(0, 0.7, RIGHT)]]
    assert average_precision(detections, truth, threshold=0.5) == pytest.approx((51 * 1 + 50 * 2 / 3) / 101)


def test_an_object_is_matched_once():
    """The second detection of the same object is wrong; precision is already 1 at recall 1, so AP stays 1."""
    truth = [[GroundTruthObject(0, LEFT)]]
    twice = [[DetectedObject(0, 0.9, LEFT), DetectedObject(0, 0.8, LEFT)]]
    assert average_precision(twice, truth, threshold=0.5) == pytest.approx(1)
    wrong_first = [[DetectedObject(0, 0.9, RIGHT), DetectedObject(0, 0.8, LEFT)]]
    assert average_precision(wrong_first, truth, threshold=0.5) == pytest.approx(0.5)


def test_classes_and_thresholds():
    truth = [[GroundTruthObject(0, LEFT), GroundTruthObject(1, RIGHT)]]
    detections = [[DetectedObject(0, 0.9, LEFT), DetectedObject(0, 0.8, RIGHT)]]  # the second has another class
    assert average_precision(detections, truth, threshold=0.5) == pytest.approx(0.5)
    shifted = [[DetectedObject(0, 0.9, (0.0, 0.0, 0.4, 0.3)), DetectedObject(1, 0.9, RIGHT)]]  # IoU 0.75
    assert average_precision(shifted, truth, threshold=0.7) == pytest.approx(1)
    assert average_precision(shifted, truth, threshold=0.8) == pytest.approx(0.5)


def test_recalls_are_compared_as_pycocotools_does():
    """Recall 0.07 is computed as 7/100, just above the 7th of the 101 points; a tolerance would count it twice.

    pycocotools reads `searchsorted(recall, points, side="left")` without a tolerance.
    """
    boxes = [(index * 2.0, 0.0, index * 2.0 + 1, 1.0) for index in range(100)]
    truth = [[GroundTruthObject(0, box) for box in boxes]]
    detections, hits, wrong = [], 0, (0.0, 5.0, 1.0, 6.0)
    for rank in range(150):
        is_hit = rank % 3 != 2
        detections.append(DetectedObject(0, 1 - rank / 1000, boxes[hits] if is_hit else wrong))
        hits += is_hit
    precision = np.array([sum(d.box != wrong for d in detections[: i + 1]) / (i + 1) for i in range(150)])
    recall = np.array([sum(d.box != wrong for d in detections[: i + 1]) / 100 for i in range(150)])
    points = np.linspace(0.0, 1.0, 101)
    expected = np.mean([max(precision[recall >= point], default=0.0) for point in points])
    assert average_precision([detections], truth, threshold=0.5) == expected
