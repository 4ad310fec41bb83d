"""`regard translate` without torch: the same lines as with it, in order, and no large package is imported."""

import json
import subprocess
import sys

import pytest
from run_cli import call

from regard.cli import predict_torch_free
from regard.cli.predict_command import PredictOptions, Verb

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
WORDS = ["cook", "book", "apple", "teacher", "dog", "tree", "house", "sun"]
TEXTS = ["cook dog.", "", "tree sun.", "apple house."]
MODULES = {"torch", "numpy", "transformers", "rich", "multiprocessing"}
HEAVY = f"sorted({MODULES} & set(sys.modules)), file=sys.stderr"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned that every translation is one word long, so that its searches end."""
    root = tmp_path_factory.mktemp("runs")
    rows = [f"{left} {right}.\t{left[0]}{right[-1]}" for left in WORDS for right in WORDS]
    (root / "pairs.tsv").write_text("\n".join(rows * 4) + "\n", encoding="utf-8")
    small = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", f"data.path={root / 'pairs.tsv'}"]
    short = ["training.steps=80", "training.evaluation.every=80", "training.optimizer.lr=0.01", "decoding=greedy"]
    word_level = [
        "data.tokenizer=word",
        "data.vocab_size=300",
        "data.header=false",
        "model.dropout=0",
        "data.max_batch_tokens=512",
    ]
    call("train", "translation", *small, *short, *word_level, "--out", root / "trained")
    return root / "trained"


def in_a_process(*args, stdin=None):
    """Run the command line in another process -> lines of standard output, and of standard error with the imports."""
    code = f"import sys\nfrom regard.cli.main import main\ntry: main()\nfinally: print({HEAVY})"
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_the_second_command_does_not_import_torch(trained, capsys):
    _, first = in_a_process("translate", trained, TEXTS[0])
    lines, second = in_a_process("translate", trained, TEXTS[0])
    assert "torch" in first[-1] and second == ["[]"]
    call("translate", trained, TEXTS[0], "--engine", "native")
    assert lines == capsys.readouterr().out.splitlines() and len(lines) == 1
    piped, imports = in_a_process("translate", trained, stdin="\n".join(TEXTS))
    assert "torch" not in imports[-1] and len(piped) == 4 and piped[0] == lines[0] and piped[1] == ""


def test_json_is_the_same_as_with_torch(trained, capsys):
    rows = []
    for engine in ("native", "auto", "auto"):
        call("translate", trained, *TEXTS, "--json", "--engine", engine)
        rows.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    native, *torch_free = ([[item["text"] for item in row["predictions"]] for row in table] for table in rows)
    assert all([row["input"] for row in table] == TEXTS for table in rows)
    assert torch_free == [native, native]


def test_a_line_that_is_too_long_is_named_and_the_others_are_translated(trained, capsys):
    call("translate", trained, "--engine", "auto", TEXTS[0])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        call("translate", trained, TEXTS[0], "cook " * 400, TEXTS[2], "--on-error", "blank")
    assert stop.value.code == 3
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3 and out.splitlines()[1] == ""
    assert "tokens including EOS; the model was trained for at most 256" in err


def test_many_chunks_keep_their_order(trained, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("regard.cli.predict_loop.LINES_PER_PROCESS", 2)
    monkeypatch.setattr("regard.cli.predict_loop.MAX_LINES_PER_PROCESS", 4)
    call("translate", trained, TEXTS[0])
    capsys.readouterr()
    many = [f"{left} {right}." for left in WORDS for right in WORDS[:4]]
    call("translate", trained, *many)
    lines = capsys.readouterr().out.splitlines()
    call("translate", trained, *many, "--engine", "native")
    assert lines == capsys.readouterr().out.splitlines()


def test_another_verb_engine_or_folder_needs_torch(trained, tmp_path):
    call("translate", trained, TEXTS[0])

    def find(name, engine="auto", folder=trained):
        options = PredictOptions(engine=engine)
        return predict_torch_free.find_torch_free(folder, [], verb=Verb(name), predict_options=options, few_inputs=True)

    assert find("translate") is not None and find(None, "ctranslate2") is not None
    assert find("caption") is None and find("translate", "native") is None
    assert find("translate", folder=tmp_path) is None
