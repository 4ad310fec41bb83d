"""Boxes, bipartite matching and the set loss."""

from itertools import permutations

import pytest
import torch

from regard.tasks.detection.matching import (
    LossWeights,
    ObjectTargets,
    box_cxcywh_to_xyxy,
    box_iou_and_giou,
    hungarian_match,
    set_loss,
)


def test_corners_and_overlaps():
    boxes = torch.tensor([[0.5, 0.5, 0.4, 0.2], [0.1, 0.1, 0.2, 0.2]])
    corners = box_cxcywh_to_xyxy(boxes)
    torch.testing.assert_close(corners, torch.tensor([[0.3, 0.4, 0.7, 0.6], [0.0, 0.0, 0.2, 0.2]]))
    iou, giou = box_iou_and_giou(corners, corners)
    torch.testing.assert_close(iou, torch.ones(2))
    torch.testing.assert_close(giou, torch.ones(2))
    iou, giou = box_iou_and_giou(torch.tensor([0.0, 0.0, 1.0, 1.0]), torch.tensor([2.0, 0.0, 3.0, 1.0]))
    assert float(iou) == 0 and float(giou) == pytest.approx(-1 / 3)  # a third of the hull is between them


def test_the_match_has_minimum_cost():
    torch.manual_seed(1)
    weights = LossWeights()
    logits, boxes = torch.randn(4, 3), torch.rand(4, 4) * 0.4 + 0.1
    labels, truth = torch.tensor([0, 1, 1]), torch.rand(3, 4) * 0.4 + 0.1
    probabilities = logits.softmax(dim=-1)[:, labels]
    _, giou = box_iou_and_giou(box_cxcywh_to_xyxy(boxes)[:, None], box_cxcywh_to_xyxy(truth)[None])
    cost = 5 * torch.cdist(boxes, truth, p=1) - probabilities - 2 * giou
    second_image = torch.randn(1, 4, 3), torch.rand(1, 4, 4)  # one of its objects is padding
    both = ObjectTargets(torch.stack([labels, labels]), torch.stack([truth, truth]), torch.tensor([3, 2]))
    rows, queries, objects = hungarian_match(
        torch.cat([logits[None], second_image[0]]), torch.cat([boxes[None], second_image[1]]), both, weights
    )
    assert rows.tolist() == [0, 0, 0, 1, 1] and sorted(objects[3:].tolist()) == [0, 1]
    queries, objects = queries[:3], objects[:3]
    minimum = min(sum(float(cost[q, n]) for n, q in enumerate(order)) for order in permutations(range(4), 3))
    assert float(cost[queries, objects].sum()) == pytest.approx(minimum, abs=1e-5)


def test_perfect_detections_have_no_loss():
    boxes = torch.tensor([[[0.3, 0.3, 0.2, 0.2], [0.7, 0.7, 0.2, 0.2], [0.5, 0.5, 0.1, 0.1]]])
    logits = torch.tensor([[[50.0, 0, 0], [0, 50.0, 0], [0, 0, 50.0]]])
    truth = ObjectTargets(torch.tensor([[1, 0]]), boxes[:, [1, 0]], torch.tensor([2]))
    parts = set_loss(logits, boxes, truth, LossWeights())
    assert set(parts) == {"class", "distance", "overlap"}
    assert sum(part.item() for part in parts.values()) == pytest.approx(0, abs=1e-5)


def test_an_image_without_objects():
    no_objects = ObjectTargets(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 0, 4), torch.tensor([0]))
    parts = set_loss(torch.zeros(1, 2, 3), torch.rand(1, 2, 4), no_objects, LossWeights())
    assert parts["distance"].item() == parts["overlap"].item() == 0 and parts["class"].item() > 0


def test_losses_of_images_add_up():
    torch.manual_seed(0)
    logits, boxes = torch.randn(2, 4, 3), torch.rand(2, 4, 4)
    truth = ObjectTargets(torch.tensor([[0, 1], [1, 0]]), torch.rand(2, 2, 4), torch.tensor([2, 1]))
    total = set_loss(logits, boxes, truth, LossWeights())
    parts = [
        set_loss(logits[i : i + 1], boxes[i : i + 1], ObjectTargets(*(x[i : i + 1] for x in truth)), LossWeights())
        for i in (0, 1)
    ]
    for name, value in total.items():
        torch.testing.assert_close(value, parts[0][name] + parts[1][name])
