"""``graphattn evaluate``: metrics as JSON, and labels that the model has never seen."""

import csv
import json
import shutil

import pytest

from graphattn import TextClassifier, load
from graphattn.models import MSTransOptions, TrainingOptions


def test_metrics_are_json_on_standard_output(graphattn, classifier, corpora_folder):
    answer = graphattn("evaluate", classifier, corpora_folder / "reviews.tsv")
    assert answer.code == 0
    assert "macro average" in answer.err
    rows = [line.split("\t") for line in (corpora_folder / "reviews.tsv").read_text().splitlines()[1:]]
    labels, texts = zip(*rows, strict=True)
    report = load(classifier).report(texts, labels)
    assert json.loads(answer.out) == report.summary
    assert answer.err == f"{report}\n"


def test_quiet_leaves_the_json(graphattn, classifier, corpora_folder):
    loud, quiet = (
        graphattn("evaluate", classifier, corpora_folder / "reviews.tsv", "--by", "length", *flags)
        for flags in ([], ["--quiet"])
    )
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "")


def test_metrics_go_to_a_file_too(graphattn, tagger, corpora_folder, tmp_path):
    answer = graphattn("evaluate", tagger, corpora_folder / "tags.conll", "--out", tmp_path / "metrics.json")
    assert sorted(json.loads(answer.out)) == ["accuracy", "confidence_interval", "f1", "precision", "recall"]
    written = json.loads((tmp_path / "metrics.json").read_text())
    assert {"macro", "weighted"} <= set(written.pop("averages")) <= {"macro", "micro", "weighted"}
    assert sorted(written.pop("classes")) == ["LOC", "PER"]
    assert written == json.loads(answer.out)


def test_results_go_into_the_model_card(graphattn, classifier, corpora_folder, tmp_path):
    model = shutil.copytree(classifier, tmp_path / "model")
    card = (model / "README.md").read_text()
    assert graphattn("evaluate", model, corpora_folder / "reviews.tsv").code == 0
    assert (model / "README.md").read_text() == card, "nothing is written unless asked for"
    answer = graphattn("evaluate", model, corpora_folder / "reviews.tsv", corpora_folder / "pairs.tsv", "--card")
    metrics = json.loads(answer.out)[str(corpora_folder / "reviews.tsv")]
    section = (model / "README.md").read_text().split("## Results on reviews.tsv\n")[1]
    assert f"| accuracy | {metrics['accuracy']:.2f} | {metrics['confidence_interval']['low']:.2f} to " in section
    assert section.index("| neg | ") < section.index("## Results on pairs.tsv\n")
    assert graphattn("info", model, "--check").out.endswith("all checksums match\n")


@pytest.mark.parametrize("name", ["mistakes.tsv", "mistakes.jsonl"])
def test_mistakes_and_confusion_matrix(graphattn, classifier, tmp_path, name):
    corpus = tmp_path / "strange.tsv"
    corpus.write_text('label\ttext\npos\ta\u2028film\nodd\ta "play"\nodd\ta song\n')
    flags = ["--unknown", "wrong", "--mistakes", tmp_path / name, "--picture", tmp_path / "confusion.png"]
    assert graphattn("evaluate", classifier, corpus, *flags).code == 0
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
    with open(tmp_path / name, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, dialect="excel-tab")) if name.endswith("tsv") else list(map(json.loads, file))
    assert {(row["text"], row["gold"]) for row in rows} >= {('a "play"', "odd"), ("a song", "odd")}
    confidences = [float(row["confidence"]) for row in rows]
    assert confidences == sorted(confidences, reverse=True)


def test_mistakes_keep_all_columns(graphattn, classifier, tmp_path):
    """As predictions do; a column that is called like an added one has a prefix."""
    corpus, out = tmp_path / "a.csv", tmp_path / "mistakes.csv"
    lines = ["id,gold,text,label,source", *(f"{n},x,a film {n},odd,{'web' if n % 2 else 'mail'}" for n in range(4))]
    corpus.write_text("\n".join([*lines, "4,x,a film,pos,web"]) + "\n")
    flags = ["--drop-label", "pos", "--unknown", "wrong", "--mistakes", out]
    assert graphattn("evaluate", classifier, corpus, *flags).code == 0
    with open(out, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "input_gold", "text", "label", "source", "gold", "predicted", "confidence"]
    assert {(row["id"], row["text"], row["source"]) for row in rows} == {
        (str(n), f"a film {n}", "web" if n % 2 else "mail") for n in range(4)
    }


def test_compare_with_models_and_predictions(graphattn, classifier, pair_classifier, corpora_folder, tmp_path):
    reviews, table, lines = corpora_folder / "reviews.tsv", tmp_path / "theirs.csv", tmp_path / "lines.txt"
    rows = [line.split("\t") for line in reviews.read_text().splitlines()[1:]]
    labels, texts = (list(side) for side in zip(*rows, strict=True))
    predicted = load(classifier).predict(texts).tolist()
    worse = ["neg" if number < 6 else name for number, name in enumerate(predicted)]
    lines.write_text("".join(f"{name}\n" for name in worse))
    assert graphattn("predict", classifier, reviews, "--out", table).code == 0
    differ = tmp_path / "differ.jsonl"
    flags = ["--compare", classifier, "--compare", table, "--compare", lines, "--disagreements", differ]
    answer = graphattn("evaluate", classifier, reviews, *flags)
    assert answer.code == 0, answer.err
    compared = json.loads(answer.out)["compared"]["accuracy"]
    expected = load(classifier).report(texts, labels, others={"worse": worse}).comparisons["worse"]
    assert list(compared) == ["model", str(classifier), str(table), str(lines)]
    assert compared[str(classifier)]["p_value"] == compared[str(table)]["p_value"] == 1
    of_worse = compared[str(lines)]
    assert of_worse["adjusted_p_value"] == pytest.approx(min(1, 3 * of_worse["p_value"]))
    assert of_worse | {"adjusted_p_value": of_worse["p_value"]} == expected.to_row()
    assert f"of {lines}: +" in answer.err
    written = list(map(json.loads, differ.read_text().splitlines()))
    both = zip(texts, predicted, worse, strict=True)
    assert [row["text"] for row in written] == [text for text, ours, theirs in both if ours != theirs]
    assert all(row["predicted"] == row[str(table)] != row[str(lines)] for row in written)
    assert all(row["gold"] == row["label"] for row in written)
    assert graphattn("evaluate", classifier, reviews, "--disagreements", differ).error == (
        "--disagreements needs another model: --compare"
    )
    assert "give --compare a model that classifies texts" in (
        graphattn("evaluate", classifier, reviews, "--compare", pair_classifier).error
    )
    lines.write_text("pos\n")
    assert (
        f"1 predictions for {len(texts)} texts" in graphattn("evaluate", classifier, reviews, "--compare", lines).error
    )
    shuffled = table.read_text().splitlines()
    table.write_text("\n".join([shuffled[0], *reversed(shuffled[1:])]) + "\n")
    assert "the prediction is of " in graphattn("evaluate", classifier, reviews, "--compare", table).error
    rows = [f'"{text}",{label},neg,{name}' for text, label, name in zip(texts, labels, predicted, strict=True)]
    table.write_text("\n".join(["text,label,predicted_label,predicted_predicted_label", *rows]) + "\n")
    again = json.loads(graphattn("evaluate", classifier, reviews, "--compare", table).out)["compared"]["accuracy"]
    assert again[str(table)]["p_value"] == 1  # of the column that was added last
    table.write_text("text,other\na,b\n")
    assert "there is no column predicted_label or label" in (
        graphattn("evaluate", classifier, reviews, "--compare", table).error
    )


def test_compare_taggers(graphattn, tagger, corpora_folder, tmp_path):
    corpus, differ = corpora_folder / "tags.conll", tmp_path / "differ.tsv"
    predicted, other = tmp_path / "predicted.jsonl", tmp_path / "other.conll"
    assert graphattn("predict", tagger, corpus, "--out", predicted).code == 0
    rows = list(map(json.loads, predicted.read_text().splitlines()))
    other.write_text("\n".join("".join(f"{word}\tO\n" for word in row["words"]) for row in rows))
    flags = ["--compare", predicted, "--compare", other, "--disagreements", differ]
    answer = graphattn("evaluate", tagger, corpus, *flags)
    assert answer.code == 0, answer.err
    compared = json.loads(answer.out)["compared"]["f1"]
    assert compared[str(predicted)]["p_value"] == 1
    assert compared[str(other)]["score"] == 0
    assert compared[str(other)]["test"] == "approximate randomization"
    with open(differ, encoding="utf-8", newline="") as file:
        places = list(csv.DictReader(file, dialect="excel-tab"))
    assert places
    assert all(place["predicted"] == place[str(predicted)] and not place[str(other)] for place in places)


def test_metrics_by_column_and_by_length(graphattn, classifier, tmp_path):
    corpus = tmp_path / "a.csv"
    rows = [
        f"a {word} film{' again' * (n % 9)},{label},{source}"
        for n in range(20)
        for word, label, source in (("good", "pos", "web"), ("bad", "neg", "web"), ("good", "neg", "mail"))
    ]
    corpus.write_text("\n".join(["text,label,source", *rows]) + "\n")
    answer = graphattn("evaluate", classifier, corpus, "--by", "source", "--by", "length")
    assert answer.code == 0, answer.err
    groups = json.loads(answer.out)["by"]
    assert list(groups["source"]) == ["web", "mail"]
    assert groups["source"]["web"]["support"] == 40
    assert groups["source"]["mail"]["differs"]
    texts, labels = zip(*((row.split(",")[0], row.split(",")[1]) for row in rows if row.endswith("mail")), strict=True)
    expected = load(classifier).report(texts, labels)
    assert all(groups["source"]["mail"][name] == expected[name] for name in ("accuracy", "macro_f1"))
    assert groups["source"]["mail"]["low"] == expected["confidence_interval"]["low"]
    assert sum(row["support"] for row in groups["length"].values()) == 60
    assert "by source\n" in answer.err
    assert "* differs from all other texts" in answer.err
    answer = graphattn("evaluate", classifier, corpus, "--by", "none")
    assert answer.error == (
        "--by is 'none', which the corpus does not have; its columns are 'text', 'label', 'source', length"
    )
    answer = graphattn("evaluate", classifier, corpus, "--by", "source,length")
    assert answer.error.endswith("length. Repeat --by for several columns")


def test_details_need_one_corpus_and_a_known_suffix(graphattn, classifier, corpora_folder, tmp_path):
    reviews, other = corpora_folder / "reviews.tsv", corpora_folder / "pairs.tsv"
    answer = graphattn("evaluate", classifier, reviews, other, "--picture", tmp_path / "a.png")
    assert answer.error == "--picture is of one corpus; give one"
    answer = graphattn("evaluate", classifier, reviews, "--mistakes", "a.doc")
    assert answer.error == "--mistakes is 'a.doc'; the name must end in .tsv, .csv or .jsonl"
    answer = graphattn("evaluate", classifier, reviews, "--coverage", "a.txt")
    assert answer.error == "--coverage is 'a.txt'; the name must end in .png, .svg, .pdf, .tsv, .csv or .jsonl"


def test_each_file_has_its_metrics(graphattn, tagger, corpora_folder, tmp_path):
    other = tmp_path / "other.conll"
    other.write_text("Rome B-PER\nended O\n\n")
    files = [corpora_folder / "tags.conll", other]
    answer = graphattn("evaluate", tagger, *files)
    single = {str(file): json.loads(graphattn("evaluate", tagger, file).out) for file in files}
    assert json.loads(answer.out) == single
    other.write_text("Rome B-CAT\n")
    assert graphattn("evaluate", tagger, *files, "--unknown", "error").err.startswith(f"error: {other}: ")


def test_pairs_are_read_as_pairs(graphattn, pair_classifier, corpora_folder):
    assert graphattn("evaluate", pair_classifier, corpora_folder / "pairs.tsv").code == 0


@pytest.mark.parametrize("scheme", ["IOB1", "BIOES"])
def test_tags_can_have_another_scheme(graphattn, tagger, tmp_path, scheme):
    """The tagger was trained on IOB2."""
    same, other = tmp_path / "same.conll", tmp_path / "other.conll"
    words = ["Ada", "Ada", "Rome", "saw"]
    tags = {"IOB2": "B-PER I-PER B-PER O", "IOB1": "I-PER I-PER B-PER O", "BIOES": "B-PER E-PER S-PER O"}
    for path, tag_line in ((same, tags["IOB2"]), (other, tags[scheme])):
        path.write_text("".join(f"{word} {tag}\n" for word, tag in zip(words, tag_line.split(), strict=True)))
    answers = [graphattn("evaluate", tagger, path) for path in (same, other)]
    assert answers[0] == answers[1]
    assert answers[0].code == 0


@pytest.fixture
def strange_tags(tmp_path):
    """Half of the tags are new to the tagger."""
    path = tmp_path / "strange.conll"
    path.write_text("Ada B-CAT\nsaw B-PER\n\n")
    return path


def test_unknown_tags_can_be_an_error(graphattn, tagger, strange_tags):
    answer = graphattn("evaluate", tagger, strange_tags, "--unknown", "error")
    assert (answer.code, answer.out) == (1, "")
    message = "the evaluation set has entities of type 'CAT', which the training set lacks. Known: "
    assert answer.err.startswith(f"error: {strange_tags}: {message}")
    assert answer.err.endswith(
        ". Give --tags or --tag-column if training read other tags. Without --unknown error they count as wrong.\n"
    )


def test_unknown_tags_count_as_wrong(graphattn, tagger, strange_tags):
    answer = graphattn("evaluate", tagger, strange_tags)
    assert answer.code == 0
    assert json.loads(answer.out)["accuracy"] <= 50
    assert answer.err.startswith(
        "warning: the evaluation set has entities of type 'CAT', which the training set lacks (1 in all); these count "
        "as wrong. --unknown error rejects them\n"
    )


def test_unknown_labels_count_as_wrong(graphattn, classifier, tmp_path):
    corpus, out = tmp_path / "strange.tsv", tmp_path / "metrics.json"
    corpus.write_text("label\ttext\nodd\ta film\nodd\ta play\n")
    assert graphattn("evaluate", classifier, corpus, "--unknown", "error").err == (
        f"error: {corpus}: the evaluation set has label 'odd', which the training set lacks. "
        "Known: neg, pos. Without --unknown error they count as wrong.\n"
    )
    assert graphattn("evaluate", classifier, corpus).err == (
        f"error: {corpus}: the evaluation set has label 'odd', which the training set lacks. "
        "Known: neg, pos. No label here is known; --unknown wrong counts all as wrong.\n"
    )
    answer = graphattn("evaluate", classifier, corpus, "--unknown", "wrong", "--out", out)
    assert json.loads(answer.out)["accuracy"] == 0
    assert "'odd', which the training set lacks (2 in all); these count as wrong." in answer.err
    assert json.loads(out.read_text())["classes"]["odd"]["support"] == 2


def test_several_labels_need_a_multilabel_model(graphattn, classifier, tmp_path):
    corpus = tmp_path / "several.txt"
    corpus.write_text("__label__good a film\n__label__good __label__bad a play\n")
    assert graphattn("evaluate", classifier, corpus).err == (
        f"error: {corpus}, line 2: 2 labels where one is expected. The model gives each text one label; train one "
        "with --multilabel for this corpus.\n"
    )


def test_a_text_without_a_label_is_reported_with_its_file(graphattn, classifier, tagger, tmp_path):
    corpus = tmp_path / "trees.jsonl"
    corpus.write_text('{"tokens": ["a"], "label": "good"}\n{"tokens": ["b"]}\n')
    for model, number, field in ((classifier, 2, "label"), (tagger, 1, "tags")):
        assert graphattn("evaluate", model, corpus).err == (
            f"error: {corpus}: text {number} has no {field}. Label every text, or delete those without labels.\n"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "multilabel"),
    [([0, 1], False), ([True, False], False), ([1, 2.0], False), ([(0, 1), (1,)], True)],
)
def test_labels_that_were_numbers_in_python(graphattn, tmp_path, labels, multilabel):
    training = TrainingOptions(epochs=1, progress=False, dev_fraction=0)
    texts = ["a calm day", "no day"] * 8
    small = MSTransOptions(hidden=20, heads=5, layers=1)
    model = TextClassifier(small, training=training, multilabel=multilabel).fit(texts, labels * 8)
    model.save(tmp_path / "model")
    corpus = tmp_path / "numbers.jsonl"
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, labels * 8, strict=True)]
    corpus.write_text("\n".join(lines))
    answer = graphattn("evaluate", tmp_path / "model", corpus)
    model = load(tmp_path / "model", packed=True)  # as evaluate loads it
    assert json.loads(answer.out) == model.report(texts, labels * 8).summary
    answer = graphattn("predict", tmp_path / "model", "--probabilities", stdin="a day\n")
    row = json.loads(answer.out)
    if not multilabel:
        assert row["probabilities"][json.dumps(row["label"])] == max(row["probabilities"].values())


def test_invalid_choices_are_usage_errors(graphattn, classifier, corpora_folder):
    assert graphattn("evaluate", classifier, corpora_folder / "reviews.tsv", "--unknown", "right").code == 2


def test_an_unwritable_file_is_reported_before_evaluation(graphattn, classifier, corpora_folder, tmp_path):
    answer = graphattn("evaluate", classifier, corpora_folder / "reviews.tsv", "--out", tmp_path / "no" / "m.json")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        f"error: {tmp_path / 'no' / 'm.json'}: cannot be written (No such file or directory). "
        "Check the folder and the space on the disk.\n"
    )


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_the_model_is_not_overwritten(graphattn, classifier, tmp_path, command):
    corpus = tmp_path / "a.tsv"
    corpus.write_text("label\ttext\npos\ta film\nneg\ta play\n")
    weights = classifier / "model.safetensors"
    before = weights.read_bytes()
    answer = graphattn(command, classifier, corpus, "--out", weights)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"error: {weights}: would be written over what is read. Choose another file.\n"
    assert weights.read_bytes() == before


@pytest.mark.parametrize(("tag", "scheme"), [("I-PER", "IOB2"), ("E-PER", "BIOES")])
def test_an_invalid_tag_of_any_scheme_is_reported_with_its_line(graphattn, tagger, tmp_path, tag, scheme):
    corpus = tmp_path / "slips.conll"
    corpus.write_text(f"saw O\n\nAda B-LOC\nRome {tag}\nsaw O\n")
    assert graphattn("evaluate", tagger, corpus).err == (
        f"error: {corpus}, line 3, field 'tags': in the sentence that begins here, tag 2 ({tag!r}) does not continue "
        f"a span in {scheme}. Correct the tags, or set --repair-tags, which reads invalid tags as conlleval does.\n"
    )
    assert json.loads(graphattn("evaluate", tagger, corpus, "--repair-tags").out).keys() >= {"f1"}


def test_a_regressor_at_the_command_line(graphattn, tmp_path, tiny):
    corpus = tmp_path / "stars.csv"
    rows = [f"a {word} film {number},{stars}" for number in range(6) for word, stars in (("great", 4.5), ("dull", 1))]
    corpus.write_text("\n".join(["text,stars", *rows]) + "\n")
    column = ["--label-column", "stars"]
    answer = graphattn("train", "regress", corpus, *column, "--test", corpus, "--out", tmp_path / "model", *tiny)
    assert answer.code == 0
    assert "test pearson: " in answer.out
    flags = [*column, "--mistakes", tmp_path / "mistakes.tsv"]
    answer = graphattn("evaluate", tmp_path / "model", corpus, *flags)
    assert json.loads(answer.out).keys() == {"pearson", "spearman", "r2", "mse", "confidence_interval"}
    assert answer.err.split()[:4] == ["gold", "predicted", "mse", "support"]
    header, *rows = (tmp_path / "mistakes.tsv").read_text().splitlines()
    assert (header, len(rows)) == ("text\tstars\tgold\tpredicted\terror", 12)
    predicted = graphattn("predict", tmp_path / "model", stdin="a great film\n").out
    plain = graphattn("predict", tmp_path / "model", "--plain", stdin="a great film\n").out
    assert json.loads(predicted) == {"text": "a great film", "value": float(plain)}
    refused = graphattn("evaluate", tmp_path / "model", corpus, *column, "--picture", tmp_path / "x.png")
    assert "--picture does not apply" in refused.err


def test_flags_win_over_the_columns_of_the_training(graphattn, tmp_path, tiny):
    """Also a flag with its default value."""
    corpus = tmp_path / "a.txt"
    corpus.write_text("dogs NN B-X\nbark VB O\n\n" * 8)
    answer = graphattn("train", "tag", corpus, "--tag-column", 1, "--out", tmp_path / "model", *tiny)
    assert answer.code == 0, answer.err
    assert json.loads(graphattn("evaluate", tmp_path / "model", corpus).out)["accuracy"] >= 0
    answer = graphattn("evaluate", tmp_path / "model", corpus, "--tag-column", -1)
    assert "'B-X'" in answer.err


def test_columns_of_the_usual_names_win_over_those_of_the_training(graphattn, tmp_path):
    (tmp_path / "a.csv").write_text("review,stars,text,label\n" + "fine,up,dull,down\ndull,down,fine,up\n" * 8)
    model, columns = tmp_path / "model", ["--text-column", "review", "--label-column", "stars"]
    graphattn("train", "classify", tmp_path / "a.csv", *columns, "--epochs", 0, "--out", model)
    (tmp_path / "b.csv").write_text("review,stars,text,label\ndull,,fine,up\n")
    usual = ["--text-column", "text", "--label-column", "label"]
    assert json.loads(graphattn("evaluate", model, tmp_path / "b.csv", *usual).out)["accuracy"] == 100
    for command in ("predict", "inspect"):
        assert "fine" in graphattn(command, model, tmp_path / "b.csv", *usual[:2]).out
    answer = graphattn(
        "train", "classify", tmp_path / "b.csv", *usual, "--init-from", model, "--epochs", 0, "--out", tmp_path / "b"
    )
    assert answer.code == 0, answer.err
