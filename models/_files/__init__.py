"""Model directories and what else a model is written as: model cards, ONNX files, repositories of the hub."""
