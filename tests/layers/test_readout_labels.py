import torch

from regard.layers.readout import MultiLabelReadout, Readout, make_readout


def test_one_label_or_several():
    assert isinstance(make_readout(4, 3, multi_label=False), Readout)
    assert isinstance(make_readout(4, 3, multi_label=True), MultiLabelReadout)


def test_the_loss_is_the_log_probability_of_all_answers():
    layer = MultiLabelReadout(4, 3)
    x, labels = torch.randn(5, 4), torch.randint(0, 2, (5, 3))
    p = torch.sigmoid(layer(x))
    wanted = -torch.where(labels == 1, p, 1 - p).log().sum()
    torch.testing.assert_close(layer.loss(x, labels), wanted)
    assert layer.loss(x, labels, smoothing=0.2) != wanted
