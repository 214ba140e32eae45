import pytest

from graphattn.exceptions import DataError


@pytest.fixture
def corpus(tmp_path):
    """Write lines, each with a newline, to a file of that name."""

    def write(name, *lines):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
        return path

    return write


@pytest.fixture
def broken():
    """Assert that reading a file fails at a line; return the error's options."""

    def read_until(items, path, line):
        with pytest.raises(DataError) as caught:
            list(items)
        assert (caught.value.path, caught.value.line) == (str(path), line)
        return caught.value.options

    return read_until
