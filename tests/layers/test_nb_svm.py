"""NB-SVM: the fitted weights minimize the objective, and log-count ratios follow their definition."""

import torch

from regard.layers import nb_svm
from regard.layers.nb_svm import BinaryFeatures


def example(num_documents=30, num_features=12, seed=0):
    random = torch.Generator().manual_seed(seed)
    dense = torch.rand(num_documents, num_features, generator=random) < 0.4
    documents, features = dense.nonzero(as_tuple=True)
    labels = (torch.rand(num_documents, 2, generator=random) < 0.5).long()
    return dense.float(), BinaryFeatures(documents, features, num_documents, num_features), labels


def test_ratios_follow_their_definition():
    dense, features, labels = example()
    p, q = dense[labels[:, 1] == 1].sum(dim=0) + 1, dense[labels[:, 1] == 0].sum(dim=0) + 1
    expected = ((p / p.sum()) / (q / q.sum())).log()
    torch.testing.assert_close(nb_svm.log_count_ratios(features, labels)[:, 1], expected)


def test_a_feature_of_one_document_has_no_ratio():
    features = BinaryFeatures(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2, 2)
    ratios = nb_svm.log_count_ratios(features, torch.tensor([[1], [0]]))
    assert ratios[0] == 0


def test_the_weights_minimize_the_objective_on_the_chosen_documents():
    dense, features, labels = example()
    chosen, cost = torch.arange(30) % 3 > 0, 0.3
    ratios = nb_svm.log_count_ratios(features.select(chosen), labels)
    fitted = nb_svm.fit(features, labels, chosen, cost)
    raw = (fitted / ratios).requires_grad_()
    margins = (2 * labels - 1) * (dense @ (ratios * raw))
    loss = raw.square().sum() / 2 + cost * (1 - margins)[chosen].clamp_min(0).square().sum()
    loss.backward()
    assert raw.grad.abs().max() < 0.01


def test_the_matrices_are_transposes():
    dense, features, _ = example()
    assert torch.equal(features.matrix().to_dense(), dense)
    assert torch.equal(features.transposed().to_dense(), dense.mT)
