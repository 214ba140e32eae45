"""Former module names import the new modules."""

import sys
from importlib import import_module

import pytest

from graphattn.moved_modules import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_former_names_import_the_new_module(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=MOVED[old]):
        former = import_module(old)
    present = import_module(MOVED[old])
    public = [name for name in vars(present) if not name.startswith("__")]
    assert public
    assert all(getattr(former, name) is getattr(present, name) for name in public)
