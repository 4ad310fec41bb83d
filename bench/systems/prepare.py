"""What all measurements share, made once: `python -m systems.prepare FOLDER`.

sentences.json; the weights of the regard models; the same weights as CTranslate2 models in ct2/; a run folder and its
texts; a Marian to be loaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

from systems import endings, marian, names, ours, texts, work


def main(folder: Path) -> None:
    from regard.engines.ctranslate2.export import export
    from regard.training import checkpoint, tensor_files

    work.prepare(folder / "sentences.json")
    sentences = work.load(folder / "sentences.json")
    models = {name: ours.model(name) for name in work.SHAPES}
    models[names.ENDING] = endings.fit(ours.untied("tiny"), sentences)
    for name, net in models.items():
        tensor_files.write_tensors(names.weights(folder, name), checkpoint.model_weights(net), {})
        export(net, ours.SIZES, names.exported(folder, name))
    texts.prepare(folder, models[names.ENDING], *work.texts())
    marian.model(names.LOADED).save_pretrained(names.loaded(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
