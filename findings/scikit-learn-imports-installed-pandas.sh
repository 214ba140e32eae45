#!/usr/bin/env bash
# Importing scikit-learn imports pandas wherever it is installed, used or not.
#
# Version:  scikit-learn 1.9.1 with pandas 3.1.1, numpy 2.4.6, Python 3.11
# Source:   scikit-learn's installation page lists pandas as optional, for examples and tests; `set_output` is documented
#           to import it when it is asked for ("pandas" output)
# Expected: `import sklearn` loads what scikit-learn requires, and pandas with the first frame
# Observed: `import sklearn` loads hundreds of modules of pandas, because `sklearn.utils.fixes` tries to import it. A
#           program that imports scikit-learn in each process, such as a command line, pays for it at every start.
# Way out:  import scikit-learn late, or keep pandas out of the environment of such a program
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet scikit-learn==1.9.1 numpy==2.4.6
cat >check.py <<'PYTHON'
import sys
import time

start = time.process_time()
import sklearn  # noqa: F401

seconds = time.process_time() - start
print(f"{sum(name.partition('.')[0] == 'pandas' for name in sys.modules)} modules of pandas, {seconds:.1f} CPU seconds")
PYTHON
venv/bin/python check.py >/dev/null # compiles the modules
without="$(venv/bin/python check.py)"
venv/bin/pip install --quiet pandas==3.1.1
venv/bin/python check.py >/dev/null
with="$(venv/bin/python check.py)"
echo "without pandas: $without"
echo "with pandas:    $with"
case "$without" in "0 modules"*) ;; *) exit 1 ;; esac
[ "${with%% *}" -gt 100 ]
