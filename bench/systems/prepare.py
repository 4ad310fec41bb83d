"""Create the shared inputs of all measurements: `python -m systems.prepare FOLDER`.

sentences.json; the weights of the regard models; the same weights as CTranslate2 models in ct2/; a run folder and its
texts; a Marian model to load.
"""

from __future__ import annotations

import sys
from pathlib import Path

from systems import length_matched_model, marian, paths, regard_system, texts, workload


def main(folder: Path) -> None:
    from regard.engines.ctranslate2.export import export
    from regard.training import checkpoint, tensor_files

    workload.prepare(folder / "sentences.json")
    sentences = workload.load(folder / "sentences.json")
    models = {name: regard_system.model(name) for name in workload.SHAPES}
    models[paths.ENDING] = length_matched_model.fit(regard_system.untied("tiny"), sentences)
    for name, net in models.items():
        tensor_files.write_tensors(paths.weights(folder, name), checkpoint.model_weights(net), {})
        export(net, regard_system.SIZES, paths.exported(folder, name))
    texts.prepare(folder, models[paths.ENDING], *workload.texts())
    marian.model(paths.LOADED).save_pretrained(paths.loaded(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
