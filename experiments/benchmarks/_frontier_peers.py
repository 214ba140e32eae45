"""Train and run other libraries, as a script: ``python _frontier_peers.py fit NAME DATA MODEL [PRETRAINED]``.

It imports nothing of GraphAttn, so that a process pays for one library only. ``DATA`` has ``train``, ``dev`` and
``test``, as ``.jsonl`` (text, perhaps second, and label) or ``.conll`` (a word, a tab and a tag of IOB2 on each line).
``fit`` writes the folder ``MODEL`` and prints the versions of the library; ``predict`` writes ``predictions.json``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

TRAIN, DEV, TEST = "train", "dev", "test"
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Inverse strengths of regularization among which the dev set chooses."""
LARGEST_RATE, EPOCHS, BATCH = 5e-5, 3, 16
"""Of transformers' Trainer: its own rate and epochs, and the batches of its guides."""
_IGNORED = -100
"""Label that the loss of transformers leaves out."""
_FAST_TEXT_MODEL, _SKLEARN_MODEL, _CRF_MODEL = "model.bin", "model.joblib", "model.crfsuite"
_TRAINED = "trained"


@dataclass(frozen=True)
class Labelled:
    """Texts, pairs of texts, or lists of words, with a label each or a list of tags each."""

    texts: list[Any]
    labels: list[Any]
    is_tagged: bool

    @property
    def has_pairs(self) -> bool:
        """Whether a text is a pair."""
        return isinstance(self.texts[0], tuple)


def read_split(data: Path, name: str) -> Labelled:
    """Read the file of a split."""
    path = data / f"{name}.jsonl"
    if path.is_file():
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        texts = [(row["text"], row["second"]) if "second" in row else row["text"] for row in rows]
        return Labelled(texts, [row["label"] for row in rows], is_tagged=False)
    blocks = path.with_suffix(".conll").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    sentences = [[line.split("\t") for line in block.split("\n")] for block in blocks]
    words, tags = ([[row[column] for row in sentence] for sentence in sentences] for column in (0, 1))
    return Labelled(words, tags, is_tagged=True)


def fit_tfidf(data: Path, model: Path, pretrained: str, strengths: Sequence[float]) -> None:
    """Logistic regression on words and pairs of words; the dev set chooses the strength if there are several."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    train, dev = read_split(data, TRAIN), read_split(data, DEV)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    vectorizer.fit([text for pair in train.texts for text in pair] if train.has_pairs else train.texts)
    classifier = _fit_logistic_regression(
        _tfidf_features(vectorizer, train), train.labels, _tfidf_features(vectorizer, dev), dev.labels, strengths
    )
    import_module("joblib").dump((vectorizer, classifier), model / _SKLEARN_MODEL)


def predict_tfidf(test: Labelled, model: Path, pretrained: str) -> list[Any]:
    """Labels of texts or pairs."""
    vectorizer, classifier = import_module("joblib").load(model / _SKLEARN_MODEL)
    return classifier.predict(_tfidf_features(vectorizer, test)).tolist()


def _tfidf_features(vectorizer: Any, split: Labelled) -> Any:
    """(S, F) features of texts; of pairs both texts', their absolute difference and product."""
    if not split.has_pairs:
        return vectorizer.transform(split.texts)
    from scipy.sparse import hstack

    first, second = (vectorizer.transform(texts) for texts in zip(*split.texts, strict=True))
    return hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()


def _fit_logistic_regression(train: Any, labels: Any, dev: Any, dev_labels: Any, strengths: Sequence[float]) -> Any:
    from sklearn.linear_model import LogisticRegression

    models = [LogisticRegression(C=strength, max_iter=1000).fit(train, labels) for strength in strengths]
    return models[0] if len(models) == 1 else max(models, key=lambda model: model.score(dev, dev_labels))


def fit_fast_text(data: Path, model: Path, pretrained: str) -> None:
    """The supervised model of fastText's tutorial, on text that is prepared as there."""
    train = read_split(data, TRAIN)
    classes = sorted(set(train.labels))
    numbers = {label: number for number, label in enumerate(classes)}  # labels may have blanks
    lines = [
        f"__label__{numbers[label]} {_prepare_for_fast_text(text)}\n"
        for text, label in zip(train.texts, train.labels, strict=True)
    ]
    (model / "train.txt").write_text("".join(lines), encoding="utf-8")
    trained = import_module("fasttext").train_supervised(
        str(model / "train.txt"), lr=1.0, epoch=25, wordNgrams=2, bucket=200_000, dim=50, thread=1, verbose=0
    )
    trained.save_model(str(model / _FAST_TEXT_MODEL))
    (model / "classes.json").write_text(json.dumps(classes), encoding="utf-8")


def predict_fast_text(test: Labelled, model: Path, pretrained: str) -> list[Any]:
    """Labels of texts."""
    trained = import_module("fasttext").load_model(str(model / _FAST_TEXT_MODEL))
    classes = json.loads((model / "classes.json").read_text(encoding="utf-8"))
    decided, _ = trained.predict([_prepare_for_fast_text(text) for text in test.texts])
    return [classes[int(labels[0].removeprefix("__label__"))] if labels else classes[0] for labels in decided]


def _prepare_for_fast_text(text: str) -> str:
    """Lower case, and blanks around punctuation, as the tutorial has it."""
    return " ".join(re.sub(r"([.!?,'/()])", r" \1 ", text.lower()).split())


def fit_spacy(data: Path, model: Path, pretrained: str, component: str, optimize: str) -> None:
    """The pipeline of ``spacy init config``, trained by ``spacy train``, without static vectors."""
    spacy = _import_spacy()
    init_config, train_pipeline = import_module("spacy.cli.init_config"), import_module("spacy.cli.train")
    config = init_config.init_config(lang="en", pipeline=[component], optimize=optimize, gpu=False)
    config["initialize"]["vectors"] = None
    for values in config["components"].values():
        embedding = values.get("model", {}).get("embed", {})
        if "include_static_vectors" in embedding:
            embedding["include_static_vectors"] = False
    config.to_disk(model / "config.cfg")
    train = read_split(data, TRAIN)
    for name, split in ((TRAIN, train), (DEV, read_split(data, DEV))):
        classes = sorted(set(train.labels)) if not train.is_tagged else []
        _write_spacy_documents(spacy.blank("en"), split, classes, model / f"{name}.spacy")
    paths = {f"paths.{name}": str(model / f"{name}.spacy") for name in (TRAIN, DEV)}
    train_pipeline.train(model / "config.cfg", model / _TRAINED, overrides=paths)


def predict_spacy(test: Labelled, model: Path, pretrained: str) -> list[Any]:
    """Labels of texts, or tags of words."""
    spacy = _import_spacy()
    pipeline = spacy.load(model / _TRAINED / "model-best")
    if not test.is_tagged:
        return [max(document.cats, key=document.cats.get) for document in pipeline.pipe(test.texts)]
    documents = pipeline.pipe(import_module("spacy.tokens").Doc(pipeline.vocab, words=words) for words in test.texts)
    return [
        ["-".join(filter(None, (word.ent_iob_ or "O", word.ent_type_))) for word in document] for document in documents
    ]


def _import_spacy() -> Any:
    """spaCy without PyTorch and components of other packages, which it would import if they are installed."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    spacy = import_module("spacy")
    spacy.registry._entry_point_factories.entry_points = False
    return spacy


def _write_spacy_documents(pipeline: Any, split: Labelled, classes: Sequence[str], path: Path) -> None:
    tokens = import_module("spacy.tokens")
    documents = tokens.DocBin(store_user_data=False)
    for text, label in zip(split.texts, split.labels, strict=True):
        if split.is_tagged:
            documents.add(tokens.Doc(pipeline.vocab, words=text, ents=label))
            continue
        document = pipeline.make_doc(text)
        document.cats = {name: float(name == label) for name in classes}
        documents.add(document)
    documents.to_disk(path)


def fit_sentence_vectors(data: Path, model: Path, pretrained: str) -> None:
    """Logistic regression on vectors of sentence-transformers."""
    train, dev = read_split(data, TRAIN), read_split(data, DEV)
    encoder = _load_sentence_transformer(pretrained)
    features = _encode_sentences(encoder, train)
    classifier = _fit_logistic_regression(
        features, train.labels, _encode_sentences(encoder, dev), dev.labels, STRENGTHS
    )
    import_module("joblib").dump(classifier, model / _SKLEARN_MODEL)


def predict_sentence_vectors(test: Labelled, model: Path, pretrained: str) -> list[Any]:
    """Labels of texts or pairs."""
    features = _encode_sentences(_load_sentence_transformer(pretrained), test)
    return import_module("joblib").load(model / _SKLEARN_MODEL).predict(features).tolist()


def _load_sentence_transformer(pretrained: str) -> Any:
    return import_module("sentence_transformers").SentenceTransformer(pretrained, device="cpu")


def _encode_sentences(encoder: Any, split: Labelled) -> Any:
    """(S, F) vectors of texts; of pairs both vectors, their absolute difference and their product."""
    import numpy as np

    encode = partial(encoder.encode, show_progress_bar=False)
    if not split.has_pairs:
        return encode(split.texts)
    first, second = (encode(list(texts)) for texts in zip(*split.texts, strict=True))
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def fit_trainer(data: Path, model: Path, pretrained: str) -> None:
    """Fine-tune by the Trainer of transformers, as in its guides on text and token classification."""
    transformers = import_module("transformers")
    transformers.set_seed(0)
    train, dev = read_split(data, TRAIN), read_split(data, DEV)
    tokenizer = transformers.AutoTokenizer.from_pretrained(pretrained)
    kind = "Token" if train.is_tagged else "Sequence"
    classes = sorted({tag for tags in train.labels for tag in tags} if train.is_tagged else set(train.labels))
    network = getattr(transformers, f"AutoModelFor{kind}Classification").from_pretrained(
        pretrained,
        num_labels=len(classes),
        id2label=dict(enumerate(classes)),
        label2id={label: number for number, label in enumerate(classes)},
    )
    collate = getattr(transformers, f"DataCollator{'ForTokenClassification' if train.is_tagged else 'WithPadding'}")
    arguments = transformers.TrainingArguments(
        output_dir=str(model / "checkpoints"),
        learning_rate=LARGEST_RATE,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        weight_decay=0.01,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model=network,
        args=arguments,
        train_dataset=_tokenize(tokenizer, train, classes),
        eval_dataset=_tokenize(tokenizer, dev, classes),
        data_collator=collate(tokenizer),
    )
    trainer.train()
    trainer.save_model(str(model / _TRAINED))
    tokenizer.save_pretrained(str(model / _TRAINED))


def predict_trainer(test: Labelled, model: Path, pretrained: str) -> list[Any]:
    """Labels of texts or pairs, or tags of words; words that were cut off have the tag O."""
    torch, transformers = import_module("torch"), import_module("transformers")
    kind = "Token" if test.is_tagged else "Sequence"
    tokenizer = transformers.AutoTokenizer.from_pretrained(model / _TRAINED)
    network = getattr(transformers, f"AutoModelFor{kind}Classification").from_pretrained(model / _TRAINED).eval()
    decided: list[Any] = []
    with torch.inference_mode():
        for start in range(0, len(test.texts), BATCH):
            texts = test.texts[start : start + BATCH]
            batch = _call_tokenizer(tokenizer, texts, is_tagged=test.is_tagged, padding=True, return_tensors="pt")
            numbers = network(**batch).logits.argmax(-1).tolist()
            if not test.is_tagged:
                decided += [network.config.id2label[number] for number in numbers]
                continue
            for row, (words, of_tokens) in enumerate(zip(texts, numbers, strict=True)):
                first = dict(_first_tokens(batch.word_ids(row)))
                tags = [network.config.id2label[of_tokens[first[n]]] if n in first else "O" for n in range(len(words))]
                decided.append(tags)
    return decided


def _call_tokenizer(tokenizer: Any, texts: list[Any], *, is_tagged: bool, **options: Any) -> Any:
    parts = zip(*texts, strict=True) if isinstance(texts[0], tuple) else (texts,)
    return tokenizer(*map(list, parts), truncation=True, is_split_into_words=is_tagged, **options)


def _tokenize(tokenizer: Any, split: Labelled, classes: Sequence[str]) -> list[dict[str, Any]]:
    """The inputs of each text with its label, or with a label for the first token of each word."""
    numbers = {label: number for number, label in enumerate(classes)}
    batch = _call_tokenizer(tokenizer, split.texts, is_tagged=split.is_tagged)
    rows = []
    for row, label in enumerate(split.labels):
        values = {name: column[row] for name, column in batch.items()}
        if split.is_tagged:
            labels = [_IGNORED] * len(values["input_ids"])
            for word, position in _first_tokens(batch.word_ids(row)):
                labels[position] = numbers.get(label[word], numbers["O"])
            rows.append({**values, "labels": labels})
        else:
            rows.append({**values, "label": numbers[label]})
    return rows


def _first_tokens(words: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Number of each word, and the position of its first token."""
    for position, word in enumerate(words):
        if word is not None and (position == 0 or words[position - 1] != word):
            yield word, position


def fit_crfsuite(data: Path, model: Path, pretrained: str) -> None:
    """A CRF with the features and settings of sklearn-crfsuite's tutorial, without parts of speech."""
    train = read_split(data, TRAIN)
    trainer = import_module("pycrfsuite").Trainer(verbose=False)
    for words, tags in zip(train.texts, train.labels, strict=True):
        trainer.append(_list_crf_features(words), tags)
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True})
    trainer.train(str(model / _CRF_MODEL))


def predict_crfsuite(test: Labelled, model: Path, pretrained: str) -> list[Any]:
    """Tags of words."""
    tagger = import_module("pycrfsuite").Tagger()
    with tagger.open(str(model / _CRF_MODEL)):
        return [tagger.tag(_list_crf_features(words)) for words in test.texts]


def _list_crf_features(words: Sequence[str]) -> list[list[str]]:
    """The features of each word, and some of the words beside it."""
    features = []
    for position, word in enumerate(words):
        row = ["bias", f"word.lower={word.lower()}", f"word[-3:]={word[-3:]}", f"word[-2:]={word[-2:]}"]
        row += [f"word.isupper={word.isupper()}", f"word.istitle={word.istitle()}", f"word.isdigit={word.isdigit()}"]
        for offset, edge in ((-1, "BOS"), (1, "EOS")):
            if not 0 <= position + offset < len(words):
                row.append(edge)
                continue
            near = words[position + offset]
            row += [f"{offset}:word.lower={near.lower()}", f"{offset}:word.istitle={near.istitle()}"]
            row.append(f"{offset}:word.isupper={near.isupper()}")
        features.append(row)
    return features


def fit_flair(data: Path, model: Path, pretrained: str) -> None:
    """A BiLSTM-CRF on vectors of words and characters that are trained with it."""
    flair, datasets = import_module("flair"), import_module("flair.datasets")
    embeddings, models = import_module("flair.embeddings"), import_module("flair.models")
    flair.set_seed(0)
    files = {"train_file": "train.conll", "dev_file": "dev.conll"}
    corpus = datasets.ColumnCorpus(data, {0: "text", 1: "ner"}, sample_missing_splits=False, **files)
    characters = import_module("flair.data").Dictionary()
    for character in sorted(set("".join(word for sentence in read_split(data, TRAIN).texts for word in sentence))):
        characters.add_item(character)
    characters.save(model / "characters")  # flair would download a list
    words = embeddings.OneHotEmbeddings.from_corpus(corpus, field="text", min_freq=2, embedding_length=100)
    tagger = models.SequenceTagger(
        hidden_size=256,
        embeddings=embeddings.StackedEmbeddings([words, embeddings.CharacterEmbeddings(str(model / "characters"))]),
        tag_dictionary=corpus.make_label_dictionary(label_type="ner", add_unk=False),
        tag_type="ner",
        use_crf=True,
    )
    trainer = import_module("flair.trainers").ModelTrainer(tagger, corpus)
    trainer.train(model / _TRAINED, learning_rate=0.1, mini_batch_size=32, max_epochs=10)


def predict_flair(test: Labelled, model: Path, pretrained: str) -> list[Any]:
    """Tags of words."""
    data = import_module("flair.data")
    best, final = (model / _TRAINED / f"{name}-model.pt" for name in ("best", "final"))
    tagger = import_module("flair.models").SequenceTagger.load(best if best.is_file() else final)
    sentences = [data.Sentence(words) for words in test.texts]
    tagger.predict(sentences, mini_batch_size=32)
    decided = []
    for sentence in sentences:
        tags = ["O"] * len(sentence)
        for span in sentence.get_spans("ner"):
            for number, token in enumerate(span):
                tags[token.idx - 1] = f"{'I' if number else 'B'}-{span.get_label('ner').value}"
        decided.append(tags)
    return decided


Fit = Callable[[Path, Path, str], None]
Predict = Callable[[Labelled, Path, str], list[Any]]


class Peer(NamedTuple):
    """How a library is trained and run, and the distributions whose versions are reported."""

    fit: Fit
    predict: Predict
    packages: tuple[str, ...]


def _make_spacy_peer(component: str, optimize: str) -> Peer:
    return Peer(partial(fit_spacy, component=component, optimize=optimize), predict_spacy, ("spacy",))


PEERS: dict[str, Peer] = {
    "tfidf": Peer(partial(fit_tfidf, strengths=STRENGTHS[:1]), predict_tfidf, ("scikit-learn",)),
    "tfidf-tuned": Peer(partial(fit_tfidf, strengths=STRENGTHS), predict_tfidf, ("scikit-learn",)),
    "fasttext": Peer(fit_fast_text, predict_fast_text, ("fasttext", "fasttext-wheel", "fasttext-numpy2")),
    "spacy-bow": _make_spacy_peer("textcat", "efficiency"),
    "spacy-ensemble": _make_spacy_peer("textcat", "accuracy"),
    "spacy-ner": _make_spacy_peer("ner", "efficiency"),
    "sentence-vectors": Peer(fit_sentence_vectors, predict_sentence_vectors, ("sentence-transformers", "scikit-learn")),
    "trainer": Peer(fit_trainer, predict_trainer, ("transformers",)),
    "crfsuite": Peer(fit_crfsuite, predict_crfsuite, ("python-crfsuite",)),
    "flair": Peer(fit_flair, predict_flair, ("flair", "transformers")),
}
"""Name in ``--only`` -> library."""


def main(verb: str, name: str, data: str, model: str, pretrained: str = "") -> None:
    """Fit a model, or predict the test set with one."""
    peer, folder = PEERS[name], Path(model)
    if verb == "fit":
        folder.mkdir(parents=True)
        peer.fit(Path(data), folder, pretrained)
        print(json.dumps(dict(_list_versions(peer.packages))))
        return
    decided = peer.predict(read_split(Path(data), TEST), folder, pretrained)
    (folder / "predictions.json").write_text(json.dumps(decided), encoding="utf-8")


def _list_versions(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    for package in packages:
        try:
            yield package, version(package)
        except ImportError:  # fastText has several distributions
            continue


if __name__ == "__main__":
    main(*sys.argv[1:])
