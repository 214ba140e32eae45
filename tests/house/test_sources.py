"""Sources have docstrings, unpickle nothing, and name no machine or registry."""

import ast
import re
import subprocess

import pytest

UNPICKLING_MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
UNPICKLING_CALLS = {"read_pickle", "load_from_checkpoint", "unsafe_load", "full_load", "yaml.load", "load_info"}
# Calls that unpickle without this keyword.
SAFE_WITH = {"torch.load": ("weights_only", True)}
FORBIDDEN_ARGUMENTS = {("allow_pickle", True), ("weights_only", False)}

MACHINE_PATH = re.compile(r"(?<![\w.~$}/*-])/(?:work|home|root|Users|mnt|opt)\b")
HOST = re.compile(
    r"https?://([\w.-]+\.[a-z]\w*)|(?<![\w@/:.-])((?:[a-z0-9-]+\.)+(?:com|net|org))(?![\w(-]|\.\w)", re.ASCII
)
# Hosts that README, docs and docstrings cite. Package registries are configured on each machine, never here.
CITED_HOSTS = {
    "aclanthology.org",
    "arxiv.org",
    "docs.ray.io",
    "doi.org",
    "evil.example",
    "example.org",
    "fasttext.cc",
    "git-lfs.github.com",
    "keepachangelog.com",
    "lightning.ai",
    "networkx.org",
    "nlp.stanford.edu",
    "semver.org",
    "stanfordnlp.github.io",
    "www.apache.org",
    "www.dgl.ai",
    "www.w3.org",
    "x.y",
}
INDEX_OPTION = re.compile(r"--(?:(?:extra-)?index-url|find-links)")
TEXT_FILES = {"", ".cfg", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}


def find_unpickling(tree):
    """Lines that could run code from a data file, and the calls or modules there."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            lines += [(node.lineno, name) for name in names if name.split(".")[0] in UNPICKLING_MODULES]
        elif isinstance(node, ast.Call):
            lines += [(node.lineno, name) for name in find_unpickling_calls(node)]
    return lines


def find_unpickling_calls(node):
    called = ast.unparse(node.func)
    keywords = {(k.arg, k.value.value) for k in node.keywords if isinstance(k.value, ast.Constant)}
    if called in SAFE_WITH and SAFE_WITH[called] not in keywords:
        return [called]
    if any(called == name or called.endswith(f".{name}") for name in UNPICKLING_CALLS):
        return [called]
    # Lightning passes weights_only to torch.load, whose default was False up to torch 2.5.
    if any(k.arg == "ckpt_path" for k in node.keywords) and ("weights_only", True) not in keywords:
        return [f"{called}(ckpt_path=...)"]
    return [f"{called}({name}={value})" for name, value in sorted(keywords & FORBIDDEN_ARGUMENTS)]


def list_public_definitions(module):
    """The module and its public classes, functions and methods: (name, line, docstring)."""
    yield module.name, 1, ast.get_docstring(module.tree)
    yield from _list_public(module.tree, module.name)


def _list_public(parent, prefix):
    for node in parent.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            undocumented = ("overload", "override", ".setter")
            if not any(name in ast.unparse(d) for d in node.decorator_list for name in undocumented):
                yield f"{prefix}.{node.name}", node.lineno, ast.get_docstring(node)
            if isinstance(node, ast.ClassDef):
                yield from _list_public(node, f"{prefix}.{node.name}")


def starts_with_a_sentence(docstring):
    """Whether the first paragraph is a sentence; it may start with a name such as ``attend`` or :meth:`build`."""
    if not docstring:
        return False
    opening = re.split(r"\n\s*\n", docstring.strip())[0].strip()
    return bool(re.match(r"[A-Z0-9`\"'(\[]|:\w+:`", opening)) and opening.rstrip("`)\"'").endswith((".", ":", "?", "!"))


@pytest.fixture(scope="module")
def repository_texts(root):
    """The text of every file that git tracks or would add."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    lines = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=False).stdout.split("\n")
    paths = [root / line for line in lines if line and (root / line).suffix in TEXT_FILES]
    if not paths:
        pytest.skip("not a git clone")
    return {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in paths if p.is_file()}


def test_public_docstrings_start_with_a_sentence(modules):
    wrong = [
        f"{module.path.name}:{line} {name}"
        for module in modules.values()
        for name, line, docstring in list_public_definitions(module)
        if not starts_with_a_sentence(docstring)
    ]
    assert wrong == []


def test_nothing_unpickles(modules):
    assert [f"{m.name}:{line} {name}" for m in modules.values() for line, name in find_unpickling(m.tree)] == []


def find_uncited_hosts(text):
    """Hosts in a text that are not cited sources."""
    hosts = {match[1] or match[2] for match in HOST.finditer(text)}
    return sorted(hosts - CITED_HOSTS)


def test_no_machine_or_registry_is_named(repository_texts):
    names = [
        f"{name}:{number} {match}"
        for name, text in repository_texts.items()
        for number, line in enumerate(text.split("\n"), start=1)
        for match in [*MACHINE_PATH.findall(line), *INDEX_OPTION.findall(line), *find_uncited_hosts(line)]
        if name != "LICENSE"
    ]
    assert names == []


def test_nothing_is_unfinished(modules):
    markers = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    assert [f"{m.name}: {match.group()}" for m in modules.values() for match in markers.finditer(m.text)] == []


def names_machine(text):
    return bool(MACHINE_PATH.search(text) or find_uncited_hosts(text))


def unpickles(line):
    return bool(find_unpickling(ast.parse(line)))


@pytest.mark.parametrize(
    ("rule", "texts", "expected"),
    [
        (
            unpickles,
            [
                "import pickle",
                "from joblib import load",
                "torch.load(path)",
                "torch.load(path, weights_only=False)",
                "numpy.load(path, allow_pickle=True)",
                "yaml.load(text)",
                "trainer.fit(model, ckpt_path=path)",
                "Model.load_from_checkpoint(path)",
            ],
            True,
        ),
        (
            unpickles,
            [
                "torch.load(path, weights_only=True)",
                "numpy.load(path)",
                "yaml.safe_load(text)",
                "trainer.fit(model, ckpt_path=path, weights_only=True)",
                "safetensors.torch.load_file(path)",
            ],
            False,
        ),
        (names_machine, [f'open("/{folder}")' for folder in ("home/someone", "root", "work/data", "opt/x")], True),
        (
            names_machine,
            [
                f"{start}somewhere.{end}"
                for start in ("see registry.", "://".join(["https", "files."]))
                for end in ("com", "net", "org", "org/simple", "net.")
            ],
            True,
        ),
        (
            names_machine,
            ["https://arxiv.org/abs/2206.09337", "torch.nn", "np.net(x)", "file.org_mode", "a.com.txt"],
            False,
        ),
        (names_machine, ["builders/work", "../shared/data", "and/or", "N/16", "https://example.org/home"], False),
        (
            starts_with_a_sentence,
            [
                "Spread the heads over the scales.\n\nParameters\n----------\n",
                "``attend`` on one relation: the reference.",
                ":meth:`build` for each sentence.",
                "Two lines that\nmake one sentence.",
            ],
            True,
        ),
        (starts_with_a_sentence, ["spread the heads.", "Spread the heads", "", None], False),
    ],
)
def test_rules(rule, texts, expected):
    assert [text for text in texts if rule(text) is not expected] == []
