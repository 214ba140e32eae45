"""Stores are recognized without Arrow; see also test_store.py."""

import subprocess
import sys


def test_other_texts_load_no_arrow():
    code = "from graphattn.builders._stored import is_stored; import sys"
    code = f"{code}; print(is_stored(['a']), 'pyarrow' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False False\n"
