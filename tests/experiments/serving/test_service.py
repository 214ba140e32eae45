"""The paths of a served model: answers are those of the model, errors are one line of JSON."""

import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from graphattn import PairClassifier, TextClassifier, load
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
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
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


@pytest.mark.slow
def test_predictions_are_the_rows_of_predict(port, estimator):
    assert post(port, "/predict", {"texts": TEXTS}) == {"predictions": estimator.predict_rows(TEXTS)}
    expected = {"predictions": estimator.predict_rows(TEXTS, probabilities=True)}
    assert post(port, "/predict", {"texts": TEXTS, "probabilities": True}) == expected


def test_labels_are_named_as_in_probabilities():
    encoder, training = MSTransOptions(hidden=8, heads=2, layers=1), TrainingOptions(epochs=1, dev_fraction=0)
    model = ServedModel("yes", TextClassifier(encoder, training=training).fit(["a", "b"] * 4, [True, False] * 4))
    (row,) = model.predict([["a"]], probabilities=True)[0]
    assert model.describe()["labels"] == list(row["probabilities"]) == ["false", "true"]


def test_fields_are_the_options_of_predict_rows(port, estimator):
    """Also those of one text, and of requests that are computed together."""
    name = str(estimator.classes_[0])
    above = {"threshold": {name: 0.01}}
    for options in ({"top_k": 1}, {"min_confidence": 0.9}, above, {"top_k": 2, **above}):
        expected = {"predictions": estimator.predict_rows(TEXTS, **options)}
        assert post(port, "/predict", {"texts": TEXTS, **options}) == expected
    assert post(port, "/predict", {"text": TEXTS[0]}) == {"predictions": estimator.predict_rows(TEXTS[:1])}
    one = {"texts": TEXTS[:1], "edges": 1}
    assert post(port, "/explain", one) == post(port, "/explain", {"text": TEXTS[0], "edges": 1})
    with ThreadPoolExecutor(8) as pool:
        bodies = [{"texts": TEXTS[:1], "threshold": {name: number / 16}} for number in range(16)]
        answers = list(pool.map(lambda body: post(port, "/predict", body)["predictions"][0], bodies))
    assert answers == [estimator.predict_rows(TEXTS[:1], threshold=body["threshold"])[0] for body in bodies]


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/explain", {"texts": TEXTS}, 400, "texts: this path takes one text"),
        ("/predict", {"text": "a", "texts": ["b"]}, 400, "text: Extra inputs are not permitted"),
        ("/predict", {"texts": ["a"], "top_k": 0}, 400, "top_k: Input should be greater than or equal to 1"),
        ("/predict", {"texts": ["a"], "min_confidence": 2}, 400, None),
        ("/predict", {"texts": ["a"], "threshold": {"eggs": 0.5}}, 422, None),
        ("/predict", {"texts": ["a"], "top_k": 99}, 422, None),
    ],
)
def test_fields_that_do_not_fit(port, path, body, status, error):
    response, text = ask(port, "POST", path, body)
    message = json.loads(text)["error"]
    assert (response.status, message) == (status, error or message)
    assert "\n" not in message


def test_vectors_are_those_of_encode(port, estimator):
    vectors = post(port, "/encode", {"texts": TEXTS})["vectors"]
    np.testing.assert_array_equal(np.array(vectors, np.float32), estimator.encode(TEXTS))


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
    assert answer["branches"] == attention.branches.to_json()
    assert "attributions" not in post(port, "/explain", {"text": text})


def test_many_clients_get_their_own_answers(port, estimator):
    texts = [f"a {'good' if number % 3 else 'bad'} film of {number} scenes" for number in range(40)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda text: post(port, "/predict", {"texts": [text]}), texts))
    assert answers == [{"predictions": [row]} for row in estimator.predict_rows(texts)]


@pytest.mark.slow
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
            np.testing.assert_array_equal(vectors.reshape(4, -1), estimator.encode(inputs))
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
        np.testing.assert_array_equal(np.array(vectors, np.float32), encoder.encode(TEXTS))
        response, text = ask(port, "POST", "/predict", {"texts": TEXTS})
        error = "a pretrained model without a task has no predictions"
        assert (response.status, json.loads(text)) == (404, {"error": error})
        assert json.loads(ask(port, "GET", "/health")[1]).keys() == {"status", "model", "graphattn"}
        answer = post(port, "/explain", {"text": TEXTS[0], "edges": 3})
        expected = encoder.attention(TEXTS[0]).top(3)
        assert [edge["weight"] for edge in answer["edges"]] == pytest.approx(list(expected["weight"]), abs=1e-6)
        assert answer["branches"] is None
        response, text = ask(port, "POST", "/explain", {"text": TEXTS[0], "attributions": True})
        assert (response.status, "has no prediction to explain" in text) == (422, True)


@pytest.fixture(scope="module")
def small_port(estimator, serve_app):
    limits = Limits(texts=40, numbers=300, characters=2000, tokens=50)
    with serve_app(make_service(ServedModel("films", estimator), limits), limits) as port:
        yield port


@pytest.mark.parametrize(
    ("path", "body", "count", "most"),
    [
        ("/predict", {"texts": [""] * 41}, 41, 40),
        ("/predict", {"texts": ["a"] * 41, "probabilities": True}, 41, 40),
        ("/encode", {"texts": ["a"] * 41}, 41, 18),
        ("/encode", {"texts": ["a"] * 19}, 19, 18),
    ],
)
def test_the_number_of_texts_and_the_size_of_an_answer_are_limited(small_port, path, body, count, most):
    response, text = ask(small_port, "POST", path, body)
    error = f"The request has {count} texts; this takes up to {most} at once."
    assert (response.status, json.loads(text)) == (413, {"error": error})


def test_a_long_answer_is_the_same(port, estimator, serve_app):
    limits = Limits(characters=100_000, texts=500)
    texts = [f"a {'good' if number % 3 else 'bad'} film of {number} scenes" for number in range(300)]
    with serve_app(make_service(ServedModel("films", estimator), limits), limits) as port:
        response, answer = ask(port, "POST", "/predict", {"texts": texts})
        assert "Content-Length" not in response.headers, "it is sent in parts"
        assert json.loads(answer) == {"predictions": estimator.predict_rows(texts)}
        vectors = np.array(post(port, "/encode", {"texts": texts})["vectors"], np.float32)
        np.testing.assert_allclose(vectors, estimator.encode(texts), atol=1e-6)


def test_probabilities_of_words_are_limited(tagger, serve_app):
    limits = Limits(numbers=100)
    with serve_app(make_service(ServedModel("tagger", load(tagger)), limits), limits) as port:
        assert ask(port, "POST", "/predict", {"texts": ["Ada saw Rome"], "probabilities": True})[0].status == 200
        assert ask(port, "POST", "/predict", {"texts": ["Ada " * 100]})[0].status == 200
        response, text = ask(port, "POST", "/predict", {"texts": ["Ada " * 100], "probabilities": True})
        assert (response.status, "leave out probabilities" in text) == (413, True)


@pytest.mark.parametrize("kind", ["Application/JSON", "application/json; charset=utf-8", "APPLICATION/JSON;x=y"])
def test_media_types(port, kind):
    assert ask(port, "POST", "/predict", {"texts": ["a"]}, kind=kind)[0].status == 200


@pytest.mark.parametrize("path", ["/health", "/metrics", "/docs", "/openapi.json"])
def test_head_and_options(port, path):
    response, text = ask(port, "HEAD", path)
    assert (response.status, text) == (200, "")
    assert response.headers["Content-Type"] == ask(port, "GET", path)[0].headers["Content-Type"]


def test_the_methods_of_a_path(port):
    for path, methods in (("/health", "GET, HEAD, OPTIONS"), ("/predict", "OPTIONS, POST")):
        response, text = ask(port, "OPTIONS", path)
        assert (response.status, response.headers["Allow"], text) == (204, methods, "")
        assert "Access-Control-Allow-Origin" not in response.headers
        response, text = ask(port, "DELETE", path)
        assert (response.status, response.headers["Allow"], json.loads(text)) == (405, methods, {"error": PATHS})
    assert ask(port, "OPTIONS", "/nowhere")[0].status == 404


def ask_host(port, host):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        connection.request("GET", "/health", headers={"Host": host})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def test_other_hosts_are_rejected(port, estimator, serve_app):
    for host in ("localhost", f"127.0.0.1:{port}", "[::1]:80", "10.1.2.3", "LocalHost:1"):
        assert ask_host(port, host)[0] == 200
    for host in ("films.example", "films.example:80", "localhost.films.example", "127.0.0.1.films.example"):
        name = host.partition(":")[0]
        error = (
            f"This server does not answer for the host {name}; start it with --allow-host NAME to permit another one."
        )
        assert ask_host(port, host) == (400, {"error": error})
    for hosts, allowed in ((["Films.example"], True), (["*"], True), (["other.example"], False)):
        with serve_app(make_service(ServedModel("films", estimator), LIMITS, hosts=hosts), LIMITS) as other:
            assert (ask_host(other, "films.example:99")[0] == 200) == allowed


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", 0, 400), ("1.1", 1, 200), ("1.1", 2, 400), ("1.0", 0, 200), ("1.0", 2, 400)],
)
def test_the_number_of_headers_host(port, version, hosts, status):
    with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
        head = f"GET /health HTTP/{version}\r\nConnection: close\r\n" + "Host: localhost\r\n" * hosts
        client.sendall(head.encode() + b"\r\n")
        assert client.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


def test_what_is_no_http(port):
    for line in (b"hello\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\nno header\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
            client.sendall(line)
            head, _, body = b"".join(iter(lambda: client.recv(10_000), b"")).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body).keys() == {"error"}


def test_objects_with_the_columns_of_the_training_corpus(tmp_path, serve_app):
    rows = [("offer", "buy now", "spam"), ("plan", "see you", "ham")] * 4
    (tmp_path / "mail.csv").write_text("".join(f"{','.join(row)}\n" for row in [("subject", "body", "class"), *rows]))
    training = TrainingOptions(epochs=1, dev_fraction=0)
    encoder, columns = MSTransOptions(hidden=8, heads=2, layers=1), {"subject": "offer", "body": "see you"}
    one = TextClassifier(encoder, training=training)
    one.fit(*one.read([tmp_path / "mail.csv"], text=["subject", "body"], label="class"))
    two = PairClassifier(encoder, training=training)
    two.fit(*two.read([tmp_path / "mail.csv"], text="subject", second="body", label="class"))
    for model, item in ((one, "offer see you"), (two, ["offer", "see you"])):
        with serve_app(make_service(ServedModel("mail", model), LIMITS), LIMITS) as port:
            for path in ("/predict", "/encode"):
                assert post(port, path, {"texts": [columns, item]}) == post(port, path, {"texts": [item, item]})
            assert post(port, "/explain", {"text": columns}) == post(port, "/explain", {"text": item})
            response, text = ask(port, "POST", "/predict", {"texts": [{"subject": "offer"}]})
            assert response.status == 422
            assert "no column 'body'" in json.loads(text)["error"]
            assert "X[name]" not in text  # which is advice for Python
            assert ask(port, "POST", "/predict", {"texts": [{"subject": 3, "body": "a"}]})[0].status == 422
            schema = json.loads(ask(port, "GET", "/openapi.json")[1])["paths"]["/predict"]["post"]["requestBody"]
            items = schema["content"]["application/json"]["schema"]["properties"]["texts"]["items"]
            assert items["anyOf"][1]["required"] == ["subject", "body"]


def test_objects_with_columns_beside_the_text(serve_app):
    rows = [
        {"text": "offer", "level": level, "size": size} for level in ("high", "low") for size in (1.0, 2.0, None)
    ] * 2
    training, columns = TrainingOptions(epochs=0, dev_fraction=0), ("level:category", "size:number")
    model = TextClassifier(MSTransOptions(hidden=8, heads=2, layers=1), training=training, feature_columns=columns)
    model.fit(rows, [row["level"] for row in rows])
    with serve_app(make_service(ServedModel("mail", model), LIMITS), LIMITS) as port:
        new = {"text": "an offer", "level": "high", "size": None}
        answer = post(port, "/predict", {"texts": [new, {**new, "level": "low", "size": 3}]})
        assert [row["label"] for row in answer["predictions"]] == ["high", "low"]
        assert "level=high" in post(port, "/explain", {"text": new})["branches"]["scores"]
        for text, error in (("an offer", "has no 'level'"), ({"text": "a", "level": "low"}, "no column 'size'")):
            response, content = ask(port, "POST", "/predict", {"texts": [text]})
            assert response.status == 422
            assert error in json.loads(content)["error"]
        schema = json.loads(ask(port, "GET", "/openapi.json")[1])["paths"]["/predict"]["post"]["requestBody"]
        texts = schema["content"]["application/json"]["schema"]["properties"]["texts"]
        assert texts["items"]["required"] == ["text", "level", "size"]
        assert texts["examples"] == [[{"text": "a text", "level": "high", "size": 1.5}]]


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


def test_other_requests_are_answered_while_a_client_waits_and_nothing_is_computed_after_it_left(estimator, serve_app):
    model = SlowModel(estimator)
    limits = Limits(characters=100_000, texts=1_000, tokens=60, waiting=3)
    texts = ["good film " * 20] * 400  # several batches
    with serve_app(make_service(model, limits), limits) as port:
        body = json.dumps({"texts": texts}).encode()
        head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}"
        with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
            client.sendall(head.encode() + b"\r\n\r\n" + body)
            assert model.started.wait(30)
            assert ask(port, "GET", "/health")[0].status == 200
        while "graphattn_waiting_requests 0" not in ask(port, "GET", "/metrics")[1]:
            pass
        model.release.set()
        assert post(port, "/predict", {"texts": ["a good film"]}) == {
            "predictions": estimator.predict_rows(["a good film"])
        }
        lines = ask(port, "GET", "/metrics")[1].splitlines()
    assert "graphattn_batches_total 2" in lines
    assert 'graphattn_requests_total{path="/predict",status="499"} 1' in lines
