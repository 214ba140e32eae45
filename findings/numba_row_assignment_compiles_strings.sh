#!/usr/bin/env bash
# A Numba function that assigns a tuple or a slice to a row of an array compiles functions of strings, for seconds.
#
# Version:  numba 0.68.1 with numpy 2.4.6, Python 3.11
# Source:   numba/np/arrayobj.py: assignment to a part of an array goes through `raise_with_shape_context`, which formats
#           the message of a wrong shape; the reference lists tuples on the right side as supported, at no stated cost
# Expected: `out[i] = a, b, c, d` compiles about as fast as four assignments of numbers: one function, similar code
# Observed: it compiles some forty functions (str, repr and concatenation of texts among them), takes ten times as long,
#           and its LLVM code is ten times as large, although no shape can be wrong. `out[i] = rows[i]` does the same.
# Way out:  in functions compiled at a user's first call, assign numbers one by one, or in a loop over the columns
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet numba==0.68.1 numpy==2.4.6
cat >check.py <<'PYTHON'
import time

import numba
import numpy as np
from numba.core import event

compiled = []


class Listener(event.Listener):
    def on_start(self, started):
        compiled.append(started.data["dispatcher"].py_func.__qualname__)

    def on_end(self, ended):
        pass


event.register("numba:compile", Listener())


def assign_numbers(out):
    for i in range(len(out)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = i, i, i, i


def assign_tuple(out):
    for i in range(len(out)):
        out[i] = i, i, i, i


rows = np.zeros((5, 4), np.int64)
numba.njit(assign_numbers)(rows)  # loads Numba
counts, sizes = [], []
for function in (assign_numbers, assign_tuple):
    compiled.clear()
    start = time.process_time()
    kernel = numba.njit(function)
    kernel(rows)
    seconds = time.process_time() - start
    counts.append(len(compiled))
    sizes.append(len(kernel.inspect_llvm(kernel.signatures[0])))
    print(f"{function.__name__}: {counts[-1]} functions, {sizes[-1]:,} characters of LLVM code, {seconds:.2f} CPU seconds")
assert counts[0] == 1 and counts[1] > 20, counts
assert sizes[1] > 5 * sizes[0], sizes
assert any("str" in name or "repr" in name for name in compiled), compiled
PYTHON
venv/bin/python check.py
