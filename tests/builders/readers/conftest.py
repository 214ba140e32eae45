import pytest


@pytest.fixture
def corpus(tmp_path):
    """Write lines, each ended by a newline, to a file of that name."""

    def write(name, *lines):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
        return path

    return write
