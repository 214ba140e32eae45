"""Every example in README.md and docs/ runs.

The ``python`` and ``console`` blocks of a page run in order, in one namespace and one empty folder. The output of
``>>>`` is compared. ``<!-- not run: reason -->`` directly before a block skips it, ``<!-- needs: package -->`` where
the package is not installed, and ``<!-- tested with: --epochs 1 -->`` adds flags to its commands that train.
``<!-- data: a/b.tsv c.tsv, 200 lines -->`` copies the first lines of files of the data folder; without
``GRAPHATTN_DATA``, the page is skipped.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
import types
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from graphattn._backends import registry
from graphattn.builders.readers._formats import FORMATS
from graphattn.builders.relations._names import RELATION_NAMES
from graphattn.experiments._cli.bench import BENCHMARKS
from graphattn.experiments._cli.main import USER_COMMANDS, app
from graphattn.models import TASKS
from graphattn.models._encoders import ENCODERS
from graphattn.models._options import INPUTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCS = [pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:]]

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<language>[\w-]*)[^`]*$")
MARK = re.compile(r"^\s*<!--\s*not run(?P<reason>.*?)-->\s*$")
NEEDS = re.compile(r"^\s*<!-- needs: (?P<package>\w+) -->\s*$")
TESTED_WITH = re.compile(r"^\s*<!-- tested with: (?P<flags>-.*\S) -->\s*$")
DATA = re.compile(r"^<!-- data: (?P<files>.*), (?P<count>\d+) lines -->$", re.MULTILINE)
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\((?!\w+:|#)(?P<path>[^)#\s]+)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; ``line`` is its first line."""

    language: str
    text: str
    line: int
    skipped: bool
    flags: str = ""

    @property
    def commands(self) -> list[str]:
        """The shell commands of a console block, with continued lines joined, and with its flags where they train."""
        joined = re.sub(r"\\\n(?:> ?)?", " ", self.text)
        commands = [line[2:] for line in joined.split("\n") if line.startswith("$ ")]
        return [f"{line} {self.flags}".rstrip() if line.startswith("graphattn train ") else line for line in commands]

    @property
    def runs(self) -> bool:
        calls_us = any(re.search(r"\bgraphattn ", command) for command in self.commands)
        return not self.skipped and (self.language == "python" or (self.language == "console" and calls_us))


def read_blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text."""
    blocks, mark, opening, start, flags = [], None, None, 0, ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if opening is not None:
            if fence and not fence["language"] and len(fence["ticks"]) >= len(opening["ticks"]):
                indent = len(opening["indent"])
                body = "".join(f"{inner[indent:]}\n" for inner in lines[start:number])
                blocks.append(Block(opening["language"], body, start + 1, mark is not None, flags))
                opening, mark, flags = None, None, ""
        elif fence:
            opening, start = fence, number + 1
        elif match := MARK.match(line):
            mark = match
            assert re.match(r":\s*\w", mark["reason"]), f"line {number + 1}: a skipped block needs a reason"
        elif match := NEEDS.match(line):
            mark = None if find_spec(match["package"]) else match
        elif match := TESTED_WITH.match(line):
            flags = match["flags"]
        elif line.strip():
            mark, flags = None, ""
    assert opening is None, f"line {start}: the block is never closed"
    return blocks


def run_python(block: Block, page: Path, namespace: dict) -> None:
    """Run a block; tracebacks name the page and the line."""
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, namespace, page.name, str(page), block.line - 1)
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        report: list[str] = []
        doctest.DocTestRunner(optionflags=options).run(test, out=report.append, clear_globs=False)
        if report:
            pytest.fail("".join(report), pytrace=False)
        namespace.update(test.globs)
    else:
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)


KEEPS_STATE = re.compile(r"\$|\(\) *\{|^\s*(cd|export|source|set|\w+=)\b")
"""Commands that change the shell of those after them, or read what others have set."""


def split_call(command: str) -> tuple[str, list[str], str] | None:
    """What is piped into ``graphattn``, its arguments, and the file of its output; None if the call needs a shell."""
    source, _, call = command.rpartition("| ")
    lexer = shlex.shlex(call, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    name, *arguments = lexer
    file = ""
    if arguments[-2:-1] == [">"]:
        *arguments, _, file = arguments
    needs_shell = "$" in call or any(set(word) <= set("();<>|&") for word in arguments)
    return None if name != "graphattn" or needs_shell or "graphattn" in source else (source, arguments, file)


def run_console(block: Block, page: Path) -> None:
    """Run the commands of a block: calls of ``graphattn`` in this process, others in a shell."""
    groups = [[command] for command in block.commands]
    if any(KEEPS_STATE.search(command) for command in block.commands):
        groups = [block.commands]
    for commands in groups:
        call = split_call(commands[0]) if len(commands) == 1 else None
        code, output = run_in_shell(commands) if call is None else run_here(*call)
        if code:
            pytest.fail(f"{page.name}:{block.line} exits with {code}\n{output}", pytrace=False)


def run_here(source: str, arguments: list[str], file: str) -> tuple[int, str]:
    """Run ``graphattn`` in this process, with the output of a command as its input, and its own in a file."""
    stdin = run_in_shell([source])[1] if source else ""
    result = CliRunner().invoke(app, arguments, input=stdin, prog_name="graphattn")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if file:
        Path(file).write_text(result.stdout, encoding="utf-8")
    return result.exit_code, result.output


def run_in_shell(commands: list[str]) -> tuple[int, str]:
    """Run commands; ``graphattn`` is that of the package under test, installed or not."""
    python = shlex.quote(sys.executable)
    function = f'graphattn () {{ {python} -c "from graphattn.experiments._cli.entry import main; main()" "$@"; }}'
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -euo pipefail", function, "export -f graphattn", *commands])],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    """Run the blocks of a page in order and return their number."""
    # Dataclasses and typing look up the module of a class by name.
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    blocks = [block for block in read_blocks(page.read_text(encoding="utf-8")) if block.runs]
    # Undo what a page registers.
    registries = (
        ENCODERS, FORMATS, INPUTS, TASKS, BENCHMARKS, USER_COMMANDS, RELATION_NAMES, registry.REGISTERED
    )  # fmt: skip
    with ExitStack() as stack:
        for registry_dict in registries:
            stack.enter_context(patch.dict(registry_dict))
        for block in blocks:
            if block.language == "python":
                run_python(block, page, module.__dict__)
            else:
                run_console(block, page)
    for name, module in list(sys.modules.items()):  # of --import
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]
    return len(blocks)


@pytest.mark.parametrize("page", [PAGES[0], *DOCS], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run(page, monkeypatch, tmp_path, request):
    if data := DATA.search(page.read_text(encoding="utf-8")):
        corpora = request.getfixturevalue("corpora")
        for name in data["files"].split():
            with open(corpora / name, encoding="utf-8") as source:
                lines = list(islice(source, int(data["count"])))
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    run_page(page, monkeypatch, tmp_path)


def test_the_pages_have_examples():
    assert any(block.runs for page in PAGES for block in read_blocks(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_all_examples_can_run(page):
    """Examples are ``python``, or ``console`` with ``$`` and the command; other blocks would never run."""
    others = [
        f"{page.name}:{block.line} ({block.language or 'no language'})"
        for block in read_blocks(page.read_text(encoding="utf-8"))
        if not block.skipped and not block.runs
        if block.language in {"py", "python3", "pycon"} or re.search(r"^(?:\$ )?graphattn ", block.text, re.MULTILINE)
    ]
    assert others == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_exist(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = [link["path"] for link in LINK.finditer(text) if not (page.parent / link["path"]).exists()]
    assert broken == []


@pytest.fixture
def write_page(tmp_path):
    def write(*blocks):
        page = tmp_path / "page.md"
        page.write_text("\n\n".join(blocks), encoding="utf-8")
        return page

    return write


@pytest.mark.parametrize("table", ["README.md", "docs/index.md"])
def test_every_page_is_listed(table):
    listed = {Path(link["path"]).name for link in LINK.finditer((ROOT / table).read_text())}
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert pages - listed <= {"index.md", "api.md", "results-runs.md"}  # found from the pages before them


def test_blocks_share_names_and_a_folder(write_page, monkeypatch, tmp_path):
    page = write_page(
        "```python\nfrom pathlib import Path\nPath('a.txt').write_text('one')\n```",
        "```console\n$ graphattn () { cat a.txt; }\n$ graphattn \\\n> > b.txt\none\n```",
        "```python\n>>> Path('b.txt').read_text()\n'one'\n```",
        "1. In a list:\n\n   ```python\n   assert Path('b.txt').exists()\n   ```",
    )
    assert run_page(page, monkeypatch, tmp_path) == 4


def test_a_skipped_block_does_not_run(write_page, monkeypatch, tmp_path):
    page = write_page("<!-- not run: needs a cluster -->\n```python\nraise RuntimeError\n```", "```text\nhello\n```")
    assert run_page(page, monkeypatch, tmp_path) == 0


def test_a_mark_skips_one_block_only(write_page, monkeypatch, tmp_path):
    page = write_page("<!-- not run: slow -->", "Words between.", "```python\nraise RuntimeError('ran')\n```")
    with pytest.raises(RuntimeError, match=r"^ran$") as failure:
        run_page(page, monkeypatch, tmp_path)
    assert (failure.traceback[-1].path, failure.traceback[-1].lineno + 1) == (page, 6)


def test_flags_of_tests_are_added_to_commands_that_train():
    mark = "<!-- tested with: --epochs 1 -->\n"
    blocks = read_blocks(
        f"{mark}```console\n$ head a\n$ graphattn train tag a\n```\n```console\n$ graphattn train b\n```"
    )
    assert [block.commands for block in blocks] == [
        ["head a", "graphattn train tag a --epochs 1"],
        ["graphattn train b"],
    ]


def test_skipping_needs_a_reason():
    with pytest.raises(AssertionError, match="line 1: a skipped block needs a reason"):
        read_blocks("<!-- not run -->\n```python\nx\n```")


def test_a_wrong_output_fails(write_page, monkeypatch, tmp_path):
    with pytest.raises(pytest.fail.Exception, match="Expected:\n    3\nGot:\n    2"):
        run_page(write_page("```python\n>>> 1 + 1\n3\n```"), monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (
            'graphattn show a.txt --relations "star|window:3"',
            ("", ["show", "a.txt", "--relations", "star|window:3"], ""),
        ),
        ("echo a | graphattn predict model", ("echo a ", ["predict", "model"], "")),
        ("echo a | graphattn predict model > out.txt", ("echo a ", ["predict", "model"], "out.txt")),
        ("graphattn predict model < in.txt > out.txt", None),
        ("graphattn train classify $DATA/a.tsv", None),
        ("python -c pass", None),
    ],
)
def test_calls_without_a_shell(command, call):
    assert split_call(command) == call


def test_a_failing_call_fails(write_page, monkeypatch, tmp_path):
    page = write_page("```console\n$ graphattn info missing\n```")
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:2 exits with 1\n(.|\n)*missing"):
        run_page(page, monkeypatch, tmp_path)


def test_a_failing_command_fails(write_page, monkeypatch, tmp_path):
    page = write_page("```console\n$ graphattn () { echo no such file >&2; return 2; }\n$ graphattn train\n```")
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:2 exits with 2\nno such file"):
        run_page(page, monkeypatch, tmp_path)
