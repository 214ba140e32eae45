"""Models and stores of one Python in another one, with and without DGL."""

import os
import subprocess
import sys

import pytest

WRITE = (
    "train classify ../corpus.tsv --out model --hidden 16 --embedding 16 --layers 1 --heads 2 --epochs 2 --quiet",
    "build ../corpus.tsv --out store --relations window:3,all",
)
READ = ("predict model ../texts.txt --probabilities", "info store")


def test_models_and_stores_are_exchanged(tmp_path):
    other = os.environ.get("GRAPHATTN_OTHER_PYTHON")
    if not other:
        pytest.skip("GRAPHATTN_OTHER_PYTHON does not name the Python of a second environment; .ci/run sets it")
    rows = ["good\tthe film was fine", "bad\tthe film was dull"] * 20
    (tmp_path / "corpus.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "texts.txt").write_text("a fine film\nno, dull it was !\n", encoding="utf-8")

    def run(python, folder, command):
        arguments = [python, "-m", "graphattn", *command.split()]
        done = subprocess.run(arguments, cwd=tmp_path / folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    pythons = {"this": sys.executable, "other": other}
    for folder, python in pythons.items():
        (tmp_path / folder).mkdir()
        for command in WRITE:
            run(python, folder, command)
    for command in READ:
        for folder in pythons:
            assert run(sys.executable, folder, command) == run(other, folder, command)
