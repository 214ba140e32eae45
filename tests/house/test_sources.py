"""Every source explains itself, unpickles nothing and knows no particular machine."""

import ast
import re
import subprocess

import pytest

UNPICKLING_MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
UNPICKLING_CALLS = {"read_pickle", "load_from_checkpoint", "unsafe_load", "full_load", "yaml.load", "load_info"}
# Calls that unpickle unless this keyword says otherwise.
TAMED_BY = {"torch.load": ("weights_only", True)}
FORBIDDEN_ARGUMENTS = {("allow_pickle", True), ("weights_only", False)}

MACHINE_PATH = re.compile(r"(?<![\w.~$}/*-])/(?:work|home|root|Users|mnt|opt)\b")
HOST = re.compile(
    r"https?://([\w.-]+\.[a-z]\w*)|(?<![\w@/:.-])((?:[a-z0-9-]+\.)+(?:com|net|org))(?![\w(-]|\.\w)", re.ASCII
)
# Hosts that README, docs and docstrings cite. Package registries are configured on each machine, never here.
CITED_HOSTS = {
    "aclanthology.org",
    "arxiv.org",
    "captum.ai",
    "docs.ray.io",
    "doi.org",
    "evil.example",
    "example.org",
    "keepachangelog.com",
    "lightning.ai",
    "networkx.org",
    "semver.org",
    "stanfordnlp.github.io",
    "www.apache.org",
    "www.dgl.ai",
    "www.w3.org",
    "x.y",
}
INDEX_OPTION = re.compile(r"--(?:(?:extra-)?index-url|find-links)")
TEXT_FILES = {"", ".cfg", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}


def unpickling(tree):
    """The lines of a syntax tree that could run code from a data file, each with what it uses."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [(node.lineno, name) for name in names if name.split(".")[0] in UNPICKLING_MODULES]
        elif isinstance(node, ast.Call):
            found += [(node.lineno, name) for name in unpickling_call(node)]
    return found


def unpickling_call(node):
    called = ast.unparse(node.func)
    keywords = {(k.arg, k.value.value) for k in node.keywords if isinstance(k.value, ast.Constant)}
    if called in TAMED_BY and TAMED_BY[called] not in keywords:
        return [called]
    if any(called == name or called.endswith(f".{name}") for name in UNPICKLING_CALLS):
        return [called]
    # Lightning hands weights_only to torch.load, whose default was False up to torch 2.5.
    if any(k.arg == "ckpt_path" for k in node.keywords) and ("weights_only", True) not in keywords:
        return [f"{called}(ckpt_path=...)"]
    return [f"{called}({name}={value})" for name, value in sorted(keywords & FORBIDDEN_ARGUMENTS)]


def public_definitions(module):
    """The module itself and every public class, function and method in it, as (name, line, docstring)."""
    yield module.name, 1, ast.get_docstring(module.tree)
    yield from _public_inside(module.tree, module.name)


def _public_inside(parent, prefix):
    for node in parent.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            undocumented = ("overload", "override", ".setter")
            if not any(name in ast.unparse(d) for d in node.decorator_list for name in undocumented):
                yield f"{prefix}.{node.name}", node.lineno, ast.get_docstring(node)
            if isinstance(node, ast.ClassDef):
                yield from _public_inside(node, f"{prefix}.{node.name}")


def starts_with_a_sentence(docstring):
    """Whether the first paragraph starts like a sentence and ends like one.

    A name may open it: ``attend`` or :meth:`build`.
    """
    if not docstring:
        return False
    opening = re.split(r"\n\s*\n", docstring.strip())[0].strip()
    return bool(re.match(r"[A-Z0-9`\"'(\[]|:\w+:`", opening)) and opening.rstrip("`)\"'").endswith((".", ":", "?", "!"))


@pytest.fixture(scope="module")
def tracked_texts(root):
    """The text of every file in the repository's history or about to enter it."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=False).stdout.split("\n")
    paths = [root / line for line in listed if line and (root / line).suffix in TEXT_FILES]
    if not paths:
        pytest.skip("not a git checkout: nothing says which files belong to it")
    return {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in paths if p.is_file()}


def test_public_things_start_with_a_sentence(modules):
    poor = [
        f"{module.path.name}:{line} {name}"
        for module in modules.values()
        for name, line, docstring in public_definitions(module)
        if not starts_with_a_sentence(docstring)
    ]
    assert poor == []


def test_nothing_unpickles(modules):
    found = [f"{m.name}:{line} {what}" for m in modules.values() for line, what in unpickling(m.tree)]
    assert found == []


def uncited_hosts(text):
    """The hosts in a text that nothing here has a reason to name."""
    hosts = {match[1] or match[2] for match in HOST.finditer(text)}
    return sorted(hosts - CITED_HOSTS)


def test_no_machine_is_named(tracked_texts):
    named = [
        f"{name}:{number} {match}"
        for name, text in tracked_texts.items()
        for number, line in enumerate(text.split("\n"), start=1)
        for match in [*MACHINE_PATH.findall(line), *INDEX_OPTION.findall(line), *uncited_hosts(line)]
        if name != "LICENSE"
    ]
    assert named == []


def test_nothing_is_left_for_later(modules):
    markers = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    found = [f"{m.name}: {match.group()}" for m in modules.values() for match in markers.finditer(m.text)]
    assert found == []


@pytest.mark.parametrize(
    "line",
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
)
def test_unpickling_is_seen(line):
    assert unpickling(ast.parse(line))


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(path, weights_only=True)",
        "numpy.load(path)",
        "yaml.safe_load(text)",
        "trainer.fit(model, ckpt_path=path, weights_only=True)",
        "safetensors.torch.load_file(path)",
    ],
)
def test_safe_loading_is_not(line):
    assert unpickling(ast.parse(line)) == []


@pytest.mark.parametrize("folder", ["home/someone", "root", "work/data", "opt/x"])
def test_machine_paths_are_seen(folder):
    assert MACHINE_PATH.search(f'open("/{folder}")')


@pytest.mark.parametrize("suffix", ["com", "net", "org", "org/simple", "net."])
def test_other_hosts_are_seen(suffix):
    assert uncited_hosts(f"see registry.somewhere.{suffix}")
    assert uncited_hosts("://".join(["https", f"files.somewhere.{suffix}"]))


@pytest.mark.parametrize(
    "text", ["https://arxiv.org/abs/2206.09337", "torch.nn", "np.net(x)", "file.org_mode", "a.com.txt"]
)
def test_cited_hosts_and_dotted_names_are_not(text):
    assert uncited_hosts(text) == []


@pytest.mark.parametrize("text", ["builders/work", "../shared/data", "and/or", "N/16", "https://example.org/home"])
def test_other_slashes_are_not(text):
    assert not MACHINE_PATH.search(text)


@pytest.mark.parametrize(
    ("docstring", "good"),
    [
        ("Spread the heads over the scales.\n\nParameters\n----------\n", True),
        ("``attend`` on one relation: the reference.", True),
        (":meth:`build` for each sentence.", True),
        ("Two lines that\nmake one sentence.", True),
        ("spread the heads.", False),
        ("Spread the heads", False),
        ("", False),
        (None, False),
    ],
)
def test_sentences_are_told_from_scraps(docstring, good):
    assert starts_with_a_sentence(docstring) is good
