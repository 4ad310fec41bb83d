import base64

import numpy as np
import torch

from regard.core.data_specs import EmbeddingSpec
from regard.models import skipgram
from regard.tasks.embeddings import inspect
from regard.tasks.embeddings.word_space import Term, WordSpace


def model_and_space(count=30):
    torch.manual_seed(0)
    model = skipgram.build(skipgram.TINY, EmbeddingSpec(count + 4))
    return model, WordSpace([f"w{i}" for i in range(count)], model.vectors.weight.detach().numpy()[4:])


def test_the_inspection_agrees_with_the_nearest_words():
    model, space = model_and_space()
    terms = [Term("w3", 1), Term("w4", -1)]
    inspectable = inspect.build_inspectable(model, space, "w3 - w4", terms, count=5, first_id=4)
    near = space.nearest(terms, 5)
    assert [output.text for output in inspectable.outputs] == [neighbour.word for neighbour in near]
    cosines = inspectable.replay().detach()
    assert (
        cosines.shape == (1, 30)
        and int(cosines.argmax()) == int(inspectable.predicted_ids[0]) == space.index[near[0].word]
    )
    np.testing.assert_allclose(float(cosines.max()), near[0].cosine, rtol=1e-4)
    assert inspectable.views == ("vectors",) and [item.text for item in inspectable.axes["words"].items] == ["w3", "w4"]


def test_the_page_gets_points_and_vectors_in_8_bits():
    model, space = model_and_space()
    inspectable = inspect.build_inspectable(model, space, "w3", [Term("w3", 1)], count=5, first_id=4)
    data = inspectable.extra["vectors"]
    assert data["words"][0] == "w3" and data["asked"] == 1 and len(data["words"]) == 30
    assert set(data["points"]) == {"PCA", "t-SNE"} and all(len(points) == 30 for points in data["points"].values())
    vectors = np.frombuffer(base64.b64decode(data["vectors"]), dtype=np.int8).reshape(30, data["width"])
    np.testing.assert_allclose(vectors[0] / 127, space.unit_vectors[3], atol=0.01)
