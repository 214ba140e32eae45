"""Errors about packages that cannot be imported."""

import pytest

from graphattn._optional_packages import import_optional
from graphattn.exceptions import MissingPackageError


def test_what_a_package_lacks_is_named(monkeypatch, tmp_path):
    (tmp_path / "broken_peer.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingPackageError) as caught:
        import_optional("broken_peer", "pictures need", "plot")
    assert str(caught.value) == (
        "pictures need broken_peer, which cannot be imported (No module named 'no_such_package'): "
        "pip install 'graphattn[plot]'"
    )
    with pytest.raises(MissingPackageError, match="need no_such_package, which is not installed"):
        import_optional("no_such_package.part", "pictures need", "plot")
