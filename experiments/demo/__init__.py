"""The demo: a generated corpus, its graphs, two models, a prediction and pictures."""
