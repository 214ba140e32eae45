"""The paths of a served model: answers are those of the model, errors are one line of JSON."""

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from graphattn import TextClassifier, load
from graphattn.exceptions import DataError
from graphattn.experiments._serving.requests import Limits
from graphattn.experiments._serving.served_model import ServedModel
from graphattn.experiments.papers._settings import MINILM
from graphattn.models import MSTransOptions, TrainingOptions
from graphattn.models.inspection.attributions import word_attributions
from graphattn.models.pretrained import SentenceEncoder

pytest.importorskip("fastapi")
make_service = pytest.importorskip("graphattn.experiments._serving.service").make_service

LIMITS = Limits(characters=200, tokens=20, waiting=50)
TEXTS = ["a good film", "a bad film of 3 scenes", "", "Ada saw Rome"]


def ask(port, method, path, body=None, kind="application/json"):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, content, {"Content-Type": kind})
        response = connection.getresponse()
        return response, response.read().decode()


def post(port, path, body):
    response, text = ask(port, "POST", path, body)
    assert response.status == 200, text
    return json.loads(text)


@pytest.fixture(scope="module")
def estimator(classifier):
    return load(classifier)


@pytest.fixture(scope="module")
def port(estimator, serve_app):
    with serve_app(make_service(ServedModel("films", estimator), LIMITS), LIMITS) as port:
        yield port


def test_predictions_are_the_rows_of_predict(port, estimator):
    assert post(port, "/predict", {"texts": TEXTS}) == {"predictions": estimator.predict_rows(TEXTS)}
    expected = {"predictions": estimator.predict_rows(TEXTS, probabilities=True)}
    assert post(port, "/predict", {"texts": TEXTS, "probabilities": True}) == expected


def test_labels_are_named_as_in_probabilities():
    encoder, training = MSTransOptions(hidden=8, heads=2, layers=1), TrainingOptions(epochs=1, dev_fraction=0)
    model = ServedModel("yes", TextClassifier(encoder, training=training).fit(["a", "b"] * 4, [True, False] * 4))
    (row,) = model.predict_with_probabilities([["a"]])[0]
    assert model.describe()["labels"] == list(row["probabilities"]) == ["false", "true"]


def test_vectors_are_those_of_encode(port, estimator):
    vectors = post(port, "/encode", {"texts": TEXTS})["vectors"]
    np.testing.assert_array_equal(np.array(vectors, np.float32), estimator.sentence_vectors(TEXTS))


def test_an_explanation(port, estimator):
    text = "a good film of 3 scenes"
    answer = post(port, "/explain", {"text": text, "edges": 3, "attributions": True})
    attention, words = estimator.attention(text), word_attributions(estimator, text)
    assert answer["prediction"]["label"] == attention.prediction
    assert answer["tokens"]["text"] == attention.to_page()["tokens"]["text"]
    top = attention.top(3)
    assert [edge["source"] for edge in answer["edges"]] == top.source.tolist()
    np.testing.assert_allclose([edge["weight"] for edge in answer["edges"]], top.weight, atol=1e-6)
    attributions = [row["attribution"] for row in answer["attributions"]["words"]]
    np.testing.assert_allclose(attributions, words.table.attribution, atol=1e-6)
    assert answer["attributions"]["explains"] == words.explains
    assert "attributions" not in post(port, "/explain", {"text": text})


def test_many_clients_get_their_own_answers(port, estimator):
    texts = [f"a {'good' if number % 3 else 'bad'} film of {number} scenes" for number in range(40)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda text: post(port, "/predict", {"texts": [text]}), texts))
    assert answers == [{"predictions": [row]} for row in estimator.predict_rows(texts)]


@pytest.mark.parametrize("kind", ["pair_classifier", "tagger"])
def test_other_tasks(kind, request, serve_app):
    estimator = load(request.getfixturevalue(kind))
    pairs = [["a good film", "the film"], ["a bad film", "the film"]]
    texts = pairs if kind == "pair_classifier" else ["Ada saw Rome", "the film ended"]
    with serve_app(make_service(ServedModel(kind, estimator), LIMITS), LIMITS) as port:
        inputs = [tuple(pair) for pair in texts] if kind == "pair_classifier" else texts
        assert post(port, "/predict", {"texts": texts}) == json.loads(
            json.dumps({"predictions": estimator.predict_rows(inputs)})
        )
        assert len(post(port, "/explain", {"text": texts[0]})["tokens"]) == (2 if kind == "pair_classifier" else 1)
        response, text = ask(port, "POST", "/encode", {"texts": texts})
        if kind == "pair_classifier":
            vectors = np.array(json.loads(text)["vectors"], np.float32)
            np.testing.assert_array_equal(vectors.reshape(4, -1), estimator.sentence_vectors(inputs))
            response, text = ask(port, "POST", "/predict", {"texts": ["one text"]})
            assert (response.status, json.loads(text)) == (400, {"error": "texts.0: Input should be a valid array"})
        else:
            error = "a model that tags words has no sentence vectors; use a classifier"
            assert (response.status, json.loads(text)) == (404, {"error": error})
            assert "/encode" not in json.loads(ask(port, "GET", "/openapi.json")[1])["paths"]


def test_a_pretrained_model_has_vectors_and_attention(folder, serve_app):
    encoder = SentenceEncoder(folder / MINILM).fit()
    with serve_app(make_service(ServedModel("mini", encoder), LIMITS), LIMITS) as port:
        vectors = post(port, "/encode", {"texts": TEXTS})["vectors"]
        np.testing.assert_array_equal(np.array(vectors, np.float32), encoder.sentence_vectors(TEXTS))
        response, text = ask(port, "POST", "/predict", {"texts": TEXTS})
        error = "a pretrained model without a task has no predictions"
        assert (response.status, json.loads(text)) == (404, {"error": error})
        assert json.loads(ask(port, "GET", "/health")[1]).keys() == {"status", "model", "graphattn"}
        answer = post(port, "/explain", {"text": TEXTS[0], "edges": 3})
        expected = encoder.attention(TEXTS[0]).top(3)
        assert [edge["weight"] for edge in answer["edges"]] == pytest.approx(list(expected["weight"]), abs=1e-6)
        response, text = ask(port, "POST", "/explain", {"text": TEXTS[0], "attributions": True})
        assert (response.status, "has no prediction to explain" in text) == (422, True)


PATHS = (
    "There is POST /predict, POST /encode, POST /explain, GET /health, GET /metrics, and GET /docs, which describes "
    "them."
)
TOO_LONG = "The request is too long: its texts may have 200 characters together."


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/predict", b"{", 400, "Invalid JSON: EOF while parsing an object at line 1 column 1"),
        ("/predict", b"\xff", 400, "Invalid JSON: expected value at line 1 column 1"),
        ("/predict", ["a"], 400, "Input should be an object"),
        ("/predict", {}, 400, "texts: Field required"),
        ("/predict", {"texts": []}, 400, "texts: List should have at least 1 item after validation, not 0"),
        ("/predict", {"texts": ["a", 7]}, 400, "texts.1: Input should be a valid string"),
        ("/predict", {"texts": ["a"], "top": 3}, 400, "top: Extra inputs are not permitted"),
        ("/predict", {"texts": ["a"], "probabilities": "no"}, 400, "probabilities: Input should be a valid boolean"),
        ("/explain", {"text": "a", "edges": 0}, 400, "edges: Input should be greater than or equal to 1"),
        ("/predict", {"texts": ["a" * 9999]}, 413, TOO_LONG),
        ("/predict", {"texts": ["a" * 150, "a" * 51]}, 413, TOO_LONG),
        ("/predict", {"texts": ["a " * 50]}, 413, "A text has 51 tokens; this takes up to 20."),
        ("/encode", {"texts": ["b", "a " * 50]}, 413, "A text has 51 tokens; this takes up to 20."),
        ("/nowhere", {}, 404, PATHS),
        ("/health", {}, 405, PATHS),
    ],
)
def test_errors_are_one_line(port, path, body, status, error):
    response, text = ask(port, "POST", path, body)
    assert (response.status, json.loads(text)) == (status, {"error": error})


def test_other_formats_and_methods(port):
    response, text = ask(port, "POST", "/predict", {"texts": ["a"]}, kind="text/plain")
    error = "Send JSON, with the header Content-Type: application/json."
    assert (response.status, json.loads(text)) == (415, {"error": error})
    response, text = ask(port, "GET", "/predict")
    assert (response.status, json.loads(text)) == (405, {"error": PATHS})


def test_health_and_the_description_of_the_paths(port):
    health = json.loads(ask(port, "GET", "/health")[1])
    assert (health["status"], health["model"], health["labels"]) == ("ok", "films", ["neg", "pos"])
    description = json.loads(ask(port, "GET", "/openapi.json")[1])
    assert description["paths"].keys() == {"/predict", "/encode", "/explain", "/health", "/metrics"}
    schema = description["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"]["texts"]["items"] == {"type": "string"}
    assert "swagger" in ask(port, "GET", "/docs")[1]


class SlowModel(ServedModel):
    """Waits, and fails on some texts."""

    def __init__(self, estimator):
        self.started, self.release = threading.Event(), threading.Event()
        self.release.set()  # for the trials of the constructor
        super().__init__("slow", estimator)
        self.started.clear()
        self.release.clear()

    def predict(self, requests):
        self.started.set()
        assert self.release.wait(30)
        if any("tree" in text for texts in requests for text in texts):
            raise DataError("no tree\nfor the sentence", hint="Give one.")
        if any("defect" in text for texts in requests for text in texts):
            raise RuntimeError("a defect")
        return super().predict(requests)


def test_busy_servers_defects_and_metrics(estimator, serve_app):
    model = SlowModel(estimator)
    limits = Limits(characters=200, tokens=20, waiting=3)
    with serve_app(make_service(model, limits), limits) as port, ThreadPoolExecutor(8) as pool:
        texts = ["a good film", "no tree", "a defect", "a bad film"]
        first = pool.submit(ask, port, "POST", "/predict", {"texts": texts[:1]})
        assert model.started.wait(30)
        others = [pool.submit(ask, port, "POST", "/predict", {"texts": [text]}) for text in texts[1:]]
        while "graphattn_waiting_requests 4" not in ask(port, "GET", "/metrics")[1]:
            pass
        response, text = ask(port, "POST", "/predict", {"texts": ["too many"]})
        assert (response.status, response.headers["Retry-After"]) == (429, "1")
        assert json.loads(text) == {"error": "The server is busy with other texts; try again in a moment."}
        model.release.set()
        answers = [each.result() for each in (first, *others)]
        assert [response.status for response, _ in answers] == [200, 422, 500, 200]
        assert json.loads(answers[1][1]) == {"error": "no tree for the sentence. Give one."}
        assert json.loads(answers[2][1]) == {"error": "The server failed; its log has the reason."}
        assert json.loads(answers[3][1]) == {"predictions": estimator.predict_rows(["a bad film"])}
        lines = ask(port, "GET", "/metrics")[1].splitlines()
    for status, count in ((200, 2), (422, 1), (429, 1), (500, 1)):
        assert f'graphattn_requests_total{{path="/predict",status="{status}"}} {count}' in lines
    assert "graphattn_batches_total 2" in lines
    assert 'graphattn_request_seconds_bucket{path="/predict",le="+Inf"} 5' in lines
    assert 'graphattn_request_seconds_count{path="/predict"} 5' in lines
