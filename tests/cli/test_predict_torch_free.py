"""`regard translate` without torch: the same lines as with it, in order, and nothing heavy is imported."""

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
HEAVY = "sorted({'torch', 'numpy', 'transformers', 'rich'} & set(sys.modules)), file=sys.stderr"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned one thing: every translation is one word long, so that its searches end."""
    root = tmp_path_factory.mktemp("runs")
    rows = [f"{left} {right}.\t{left[0]}{right[-1]}" for left in WORDS for right in WORDS]
    (root / "pairs.tsv").write_text("\n".join(rows * 4) + "\n", encoding="utf-8")
    small = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", f"data.path={root / 'pairs.tsv'}"]
    short = ["training.steps=80", "training.evaluation.every=80", "training.optimizer.lr=0.01", "decoding=greedy"]
    more = [
        "data.tokenizer=word",
        "data.vocab_size=300",
        "data.header=false",
        "model.dropout=0",
        "data.max_batch_tokens=512",
    ]
    call("train", "translation", *small, *short, *more, "--out", root / "trained")
    return root / "trained"


def in_a_process(*words, given=None):
    code = f"import sys\nfrom regard.cli.main import main\ntry: main()\nfinally: print({HEAVY})"
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_the_second_command_does_not_import_torch(trained):
    _, first = in_a_process("translate", trained, TEXTS[0])
    lines, second = in_a_process("translate", trained, TEXTS[0])
    native, third = in_a_process("translate", trained, TEXTS[0], "--engine", "native")
    assert "torch" in first[-1] and "torch" in third[-1]
    assert second == ["[]"]
    assert lines == native and len(lines) == 1
    piped, said = in_a_process("translate", trained, given="\n".join(TEXTS))
    assert "torch" not in said[-1] and len(piped) == 4 and piped[0] == lines[0] and piped[1] == ""


def test_json_and_numbers_are_as_with_torch(trained, capsys):
    rows = []
    for engine in ("native", "auto", "auto"):
        call("translate", trained, *TEXTS, "--json", "--engine", engine)
        rows.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    for other in rows[1:]:
        assert [row["source"] for row in other] == TEXTS
        texts = [[answer["text"] for answer in row["translations"]] for row in other]
        assert texts == [[answer["text"] for answer in row["translations"]] for row in rows[0]]


def test_a_line_that_is_too_long_is_named_and_the_others_are_answered(trained, capsys):
    call("translate", trained, "--engine", "auto", TEXTS[0])
    capsys.readouterr()
    call("translate", trained, TEXTS[0], "cook " * 400, TEXTS[2], "--on-error", "blank")
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3 and out.splitlines()[1] == ""
    assert "tokens with the end mark; the model was trained for at most 256" in err


def test_many_pieces_keep_their_order(trained, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("regard.cli.predict_loop.LINES_PER_PROCESS", 2)
    monkeypatch.setattr("regard.cli.predict_loop.MAX_LINES_PER_PROCESS", 4)
    call("translate", trained, TEXTS[0])
    capsys.readouterr()
    many = [f"{left} {right}." for left in WORDS for right in WORDS[:4]]
    call("translate", trained, *many)
    found = capsys.readouterr().out.splitlines()
    call("translate", trained, *many, "--engine", "native")
    assert found == capsys.readouterr().out.splitlines()


def test_another_verb_engine_or_folder_has_no_quick_answers(trained, tmp_path):
    call("translate", trained, TEXTS[0])

    def ask(name, engine):
        how = PredictOptions(engine=engine)
        return predict_torch_free.find_torch_free(trained, [], verb=Verb(name), predict_options=how, few_inputs=True)

    assert ask("translate", "auto") is not None and ask(None, "ctranslate2") is not None
    assert ask("caption", "auto") is None and ask("translate", "native") is None
    assert (
        predict_torch_free.find_torch_free(
            tmp_path, [], verb=Verb("translate"), predict_options=PredictOptions(), few_inputs=True
        )
        is None
    )
