#!/usr/bin/env bash
# mlflow.autolog() before the first import of Lightning logs nothing of a Lightning run.
#
# Version:  mlflow-skinny 3.17.2 with lightning 2.6.6 and torch 2.13.0 (CPU), Python 3.11
# Source:   autolog() registers a hook for the import of lightning; the hook imports modules that are half loaded then
# Expected: autolog() may stand at the top of a script, and a later fit is a run
# Observed: importing lightning.pytorch afterwards only warns that autologging for pytorch_lightning could not be
#           enabled, because of a circular import; the fit makes no run. With the import before autolog(), it makes one.
# Way out:  import lightning.pytorch before autolog()
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 lightning==2.6.6 mlflow-skinny==3.17.2 \
    sqlalchemy==2.1.9 alembic==1.20.1 pandas==3.1.1
cat >train.py <<'PYTHON'
import os
import sys

import mlflow

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
mlflow.set_tracking_uri(f"sqlite:///{sys.argv[1]}.db")
if sys.argv[1] == "import_first":
    import lightning.pytorch
mlflow.autolog(log_models=False)
import lightning.pytorch as pl
import torch


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, number):
        (x,) = batch
        loss = (self.layer(x) - x).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 1)), batch_size=4)
trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Line(), loader)
print("runs:", len(mlflow.search_runs(output_format="list", search_all_experiments=True)))
PYTHON
for order in import_first autolog_first; do
    venv/bin/python train.py "$order" >"$order.log" 2>&1
    echo "$order: $(grep '^runs:' "$order.log")"
done
grep -o "Exception raised while enabling autologging for pytorch_lightning.*circular import" autolog_first.log | head -n 1
grep -qx "runs: 1" import_first.log
grep -qx "runs: 0" autolog_first.log
grep -q "autologging for pytorch_lightning.*circular import" autolog_first.log
