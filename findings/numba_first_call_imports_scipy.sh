#!/usr/bin/env bash
# The first call of any Numba function, also of one that is cached on disk, imports scipy.linalg if SciPy is installed.
#
# Version:  numba 0.68.1, scipy 1.17.1, Python 3.11
# Source:   numba/np/arraymath.py asks at import whether there is a BLAS, and numba/np/linalg.py answers by importing
#           scipy.linalg.cython_blas; the module is imported when the first function is typed or loaded
# Expected: a function without arrays or linear algebra, loaded from the cache, needs no SciPy
# Observed: scipy.linalg and about eighty other modules of SciPy are imported by the first call; in an environment
#           without SciPy the same call works
# Way out:  none in Numba; count it in the start-up time of a command (about a tenth of a second on our machine)
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet numba==0.68.1 numpy==2.4.6
cat >call.py <<'PYTHON'
import sys

from numba import njit


@njit(cache=True)
def add_one(number):
    return number + 1


assert "scipy.linalg" not in sys.modules
assert add_one(1) == 2
print("scipy.linalg" in sys.modules, sum(name.startswith("scipy") for name in sys.modules))
PYTHON
export NUMBA_CACHE_DIR="$folder/cache"
without="$(venv/bin/python call.py)"
venv/bin/pip install --quiet scipy==1.17.1
venv/bin/python call.py >/dev/null
cached="$(venv/bin/python call.py)"
echo "scipy.linalg imported, modules of SciPy: without SciPy $without, from the cache $cached"
[ "$without" = "False 0" ] && [ "${cached% *}" = "True" ] && [ "${cached#* }" -gt 50 ]
