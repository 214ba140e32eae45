"""Models on the Hugging Face hub: a server on this machine that speaks its protocol."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from graphattn import TextClassifier, load
from graphattn.exceptions import MissingPackageError
from graphattn.models import MSTransOptions, TrainingOptions

pytest.importorskip("huggingface_hub")

TEXTS, LABELS = ["a good film", "a bad film"] * 3, ["pos", "neg"] * 3
TOKEN = "hf_secret"
SERVER = """
import json, os, sys, tempfile, traceback
import graphattn
from graphattn.experiments._cli.main import main
graphattn.load(sys.argv[1]).predict(["a text"])  # loads the libraries, for all forks
assert "huggingface_hub" not in sys.modules  # it reads the environment when it is imported
for line in sys.stdin:
    call = json.loads(line)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            code = 1
            os.environ.update(call["environment"])
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = ["graphattn", *call["words"]]
            try:
                exec(call["script"]) if call["script"] else main()
                code = 0
            except SystemExit as ended:
                code = ended.code or 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = [(file.seek(0), file.read())[1] for file in (out, err)]
    print(json.dumps([code, *texts]), flush=True)
"""


class Hub:
    """Repositories: name -> commit -> path -> content; the last commit is that of the main branch."""

    def __init__(self):
        self.repositories, self.private, self.large, self.requests = {}, {}, {}, []

    def commit(self, name, files):
        commits = self.repositories.setdefault(name, {})
        new = {**(list(commits.values())[-1] if commits else {}), **files}
        sha = hashlib.sha1(repr((name, sorted(new.items()))).encode()).hexdigest()
        commits[sha] = new
        return sha

    def find(self, name, revision):
        """The commit of a revision."""
        commits = self.repositories[name]
        return list(commits)[-1] if revision == "main" else revision if revision in commits else None


class Handler(BaseHTTPRequestHandler):
    """The requests of huggingface_hub."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, status, code=""):
        return self.answer({"error": code}, status, **({"X_Error_Code": code} if code else {}))

    def handle_request(self):
        hub, path = self.server.hub, self.path.partition("?")[0]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hub.requests.append(f"{self.command} {path}")
        address = f"http://127.0.0.1:{self.server.server_address[1]}"
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if self.command in ("POST", "PUT") and not is_known and not path.startswith("/lfs/"):
            return self.fail(401)
        if path == "/api/repos/create":
            order = json.loads(body)
            name = f"{order['organization']}/{order['name']}"
            if order["organization"] == "others":
                return self.fail(403)
            known = name in hub.repositories
            if not known:
                hub.private[name] = order.get("private") or order.get("visibility") == "private"  # before, and now
                hub.commit(name, {".gitattributes": b""})
            return self.answer({"url": f"{address}/{name}"}, 409 if known else 200)
        if path == "/api/validate-yaml":
            _, front_matter, _ = json.loads(body)["content"].split("---\n", 2)
            assert yaml.safe_load(front_matter)["library_name"] == "graphattn"
            return self.answer({"warnings": [], "errors": []})
        if match := re.fullmatch(r"/api/models/(.+/.+)/preupload/main", path):
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(body)["files"]
            ]
            return self.answer({"files": modes})
        if re.fullmatch(r"/.+/.+\.git/info/lfs/objects/batch", path):
            objects = [
                {**each, "actions": {"upload": {"href": f"{address}/lfs/{each['oid']}", "header": {}}}}
                for each in json.loads(body)["objects"]
            ]
            return self.answer({"objects": objects, "transfer": "basic"})
        if path.startswith("/lfs/"):
            hub.large[path.removeprefix("/lfs/")] = body
            return self.answer({})
        if match := re.fullmatch(r"/api/models/(.+/.+)/commit/main", path):
            files = {}
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    files[value["path"]] = hub.large[value["oid"]]
            sha = hub.commit(match[1], files)
            return self.answer({"commitUrl": f"{address}/{match[1]}/commit/{sha}", "commitOid": sha})
        match = re.fullmatch(r"/(?:api/models/)?([^/]+/[^/]+)(?:/(revision|tree|resolve)/([^/]+)/?(.*))?", path)
        name, kind, revision, file = match.groups()
        if name not in hub.repositories or (hub.private.get(name) and not is_known):
            return self.fail(404 if is_known else 401, "RepoNotFound")
        sha = hub.find(name, revision or "main")
        if sha is None:
            return self.fail(404, "RevisionNotFound")
        files = hub.repositories[name][sha]
        if kind == "resolve":
            digest = hashlib.sha256(files[file]).hexdigest()
            return self.answer(files[file], X_Repo_Commit=sha, ETag=f'"{digest}"', Accept_Ranges="bytes")
        if kind == "tree":
            rows = [
                {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for path, content in files.items()
            ]
            return self.answer(rows)
        return self.answer({"id": name, "sha": sha, "private": False, "tags": [], "downloads": 0, "siblings": []})

    do_GET = do_HEAD = do_POST = do_PUT = handle_request


@pytest.fixture(scope="module")
def hub():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.hub = Hub()
        server.hub.address = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.hub
        server.shutdown()


@pytest.fixture(scope="module")
def call(hub, model, tmp_path_factory):
    """Run ``graphattn`` or a script with the settings of a user who is logged in: (code, output, errors)."""
    home = tmp_path_factory.mktemp("home")
    settings = {"HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    settings |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(*words, script="", **environment):
            order = {"words": [*map(str, words)], "script": script, "environment": {**settings, **environment}}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    encoder, training = MSTransOptions(hidden=8, heads=2, layers=1), TrainingOptions(epochs=1, dev_fraction=0)
    folder = tmp_path_factory.mktemp("hub") / "model"
    return TextClassifier(encoder, training=training).fit(TEXTS, LABELS).save(folder, notes={"metrics.json": "{}"})


@pytest.fixture(scope="module")
def pushed(call, model):
    code, out, err = call("push", model, "me/films", "--private")
    assert (code, err) == (0, "")
    return out


def test_a_model_is_pushed_with_its_card(hub, model, pushed):
    assert pushed == f"{hub.address}/me/films\n"
    assert hub.private["me/films"]
    *_, files = hub.repositories["me/films"].values()
    assert files.keys() - {".gitattributes"} == {path.name for path in model.iterdir()}
    assert all(files[path.name] == path.read_bytes() for path in model.iterdir() if path.name != "README.md")
    assert 'graphattn.load("me/films")' in files["README.md"].decode()


@pytest.mark.slow
def test_a_model_of_the_hub_is_used_like_a_directory(call, model, pushed):
    expected = load(model).predict_rows(["a good film"])
    code, out, err = call("predict", "me/films", "a good film")
    assert (code, err, [json.loads(out)]) == (0, "", expected)
    code, out, err = call("info", "me/films", "--check")
    assert (code, err, out.splitlines()[-1]) == (0, "", "all checksums match")
    # again without a network, from the copy
    code, out, err = call("predict", "me/films", "a good film", HF_HUB_OFFLINE="1")
    assert (code, err, [json.loads(out)]) == (0, "", expected)


@pytest.mark.slow
def test_in_python_with_a_revision(hub, call, model, pushed):
    first = hub.find("me/films", "main")
    script = f"""
import graphattn
model = graphattn.load("me/films")
print(model.push_to_hub("me/again"))
hub = graphattn.load("me/again", revision="main")
print(hub.predict(["a good film"]).tolist(), graphattn.load("me/films", revision={first!r}).card_ == model.card_)
"""
    code, out, err = call(script=script)
    assert (code, err) == (0, "")
    address, rest = out.splitlines()
    assert (address, hub.private["me/again"]) == (f"{hub.address}/me/again", False)
    assert rest == f"{load(model).predict(['a good film']).tolist()} True"


@pytest.mark.slow
def test_only_files_of_a_model_are_downloaded(hub, call, model):
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    hub.commit("me/dangerous", {**files, "pytorch_model.bin": b"pickle", "code.py": b"raise SystemExit"})
    hub.requests.clear()
    assert call("predict", "me/dangerous", "a good film")[0] == 0
    read = {request.rpartition("/")[2] for request in hub.requests if "/resolve/" in request}
    assert read == files.keys()


LOGIN = "log in with `hf auth login`, or set HF_TOKEN"


@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (
            "predict me/nothing text",
            {},
            "me/nothing is no directory, and it could not be downloaded from the Hugging Face hub (there is no such "
            f"repository, or it is not yours to see: {LOGIN})",
        ),
        (
            "predict me/nothing text",
            {"HF_HUB_OFFLINE": "1"},
            "me/nothing is no directory, and it could not be downloaded from the Hugging Face hub (HF_HUB_OFFLINE is "
            "set, and there is no copy from earlier)",
        ),
        (
            "predict me/nothing text",
            {"HF_ENDPOINT": "http://127.0.0.1:9"},
            "me/nothing is no directory, and it could not be downloaded from the Hugging Face hub (there is no "
            "connection, and no copy from earlier: ConnectError)",
        ),
        (
            "predict me/bert text",
            {},
            "me/bert on the Hugging Face hub is no model of GraphAttn; one of another library is for "
            "`graphattn train --pretrained` and `graphattn encode`",
        ),
        ("push MODEL films", {}, "'films' is no name on the Hugging Face hub; give OWNER/NAME"),
        ("push MODEL me/a--b..c", {}, "me/a--b..c could not be pushed to the Hugging Face hub (Cannot have -- or .. "),
        ("push nowhere me/films", {}, "nowhere is no model directory: it has no config.json. Give one that"),
        (
            "push MODEL others/films",
            {},
            "others/films could not be pushed to the Hugging Face hub (your token has no right to write there)",
        ),
        (
            "push MODEL me/films",
            {"HF_TOKEN": "hf_wrong"},
            "me/films could not be pushed to the Hugging Face hub (there is no such repository, or it is not yours to "
            f"see: {LOGIN})",
        ),
        (
            "push MODEL me/films",
            {"HF_HUB_OFFLINE": "1"},
            "me/films could not be pushed to the Hugging Face hub (HF_HUB_OFFLINE is set",
        ),
    ],
)
def test_bad_input(hub, call, model, words, environment, message):
    hub.commit("me/bert", {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"large"})
    hub.requests.clear()
    code, out, err = call(*words.replace("MODEL", str(model)).split(), **environment)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {message}"), err
    assert err.count("\n") == 1
    assert not any("safetensors" in request for request in hub.requests), "weights are not downloaded in vain"


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingPackageError) as caught:
        load("nobody/nothing")
    assert str(caught.value) == (
        "nobody/nothing is no directory, and downloads from the Hugging Face hub need huggingface_hub, which is not "
        "installed: pip install 'graphattn[hub]'"
    )


@pytest.mark.slow
def test_a_revision_that_does_not_exist(call, pushed):
    code, _, err = call(script='import graphattn; graphattn.load("me/films", revision="v7")')
    assert code == 1
    assert err.splitlines()[-1].endswith("(there is no such revision)")


@pytest.mark.slow
def test_a_typing_error_in_a_path_is_not_looked_up(hub, call, model):
    (model.parent / "models").mkdir()
    script = f"import os, graphattn; os.chdir({str(model.parent)!r}); graphattn.load('models/modle')"
    before = len(hub.requests)
    err = call(script=script)[2]
    assert err.splitlines()[-1].endswith(
        "models/modle is no model directory: it has no config.json. Give one that `save` or `train` wrote"
    )
    for command in ("serve",), ("export", "--onnx", "model.onnx"):  # they take names of other models, too
        words = [command[0], "models/modle", *command[1:]]
        script = f"import os; os.chdir({str(model.parent)!r}); sys.argv[1:] = {words}; main()"
        assert "models/modle is no model directory" in call(script=script)[2]
    assert len(hub.requests) == before
