"""``bench corpora``: corpora in the data folder are measured, missing ones are reported."""

import lzma
import random

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks._corpora import measure
from graphattn.experiments.benchmarks._fresh_processes import BuildResult


@pytest.fixture
def build_here(graphattn, monkeypatch):
    """Build stores in this process: test_store.py tests the other one."""

    def build(sources, store, *flags):
        monkeypatch.chdir(store.parent)
        assert graphattn("build", *sources, "--out", store, *flags).code == 0
        return BuildResult(1.0, 0, 0)

    monkeypatch.setattr("graphattn.experiments.benchmarks._corpora.build_in_subprocess", build)


@pytest.mark.usefixtures("build_here")
def test_the_size_of_a_store_beside_xz(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHATTN_DATA", str(tmp_path))
    (tmp_path / "imdb").mkdir()
    words = random.Random(0)
    rows = "".join(f"pos\t9\t1\t{' '.join(f'w{words.randrange(99)}' for _ in range(40))}\n" for _ in range(300))
    for name in ("train", "test"):
        (tmp_path / "imdb" / f"{name}.tsv.xz").write_bytes(lzma.compress(rows.encode()))
    text = measure(1).to_markdown()
    assert "| IMDB | build | " in text
    assert "600 texts, 24,000 tokens; " in text
    assert "times 0.0 MB of xz |" in text
    assert "- EWT by Stanza: " in text


def test_without_corpora_nothing_is_measured(tmp_path, monkeypatch):
    text = measure(1, data=tmp_path).to_markdown()
    assert "- IMDB: there is no imdb/train.tsv.xz in the data folder\n" in text
    monkeypatch.delenv("GRAPHATTN_DATA", raising=False)
    with pytest.raises(ConfigError):
        measure(1)


@pytest.mark.slow
@pytest.mark.usefixtures("build_here")
def test_parses_are_measured_and_scored(corpora, tmp_path):
    pytest.importorskip("stanza", reason="the extra graphattn[stanza] is not installed")
    for name in ("ud_english_ewt", "stanza_en_ewt_small"):
        (tmp_path / name).symlink_to(corpora / name)
    report = measure(1, data=tmp_path, parsed=30)
    steps = ["no cache", "empty cache", "full cache", "attachment", "Stanza alone"]
    assert [row["step"] for row in report.rows] == steps
    assert report.rows[0]["result"].startswith("30 sentences, ")
    ours, stanza = (row["result"] for row in report.rows[-2:])
    assert ours.startswith("UAS ")
    assert ours == stanza
