"""Estimators in scikit-learn's conventions, one constructor for each task: texts in, labels or texts out.

An estimator is inputs, an encoder and a task; see :mod:`~graphattn.models._estimators.estimator`. Layers, heads and the
training loop do not belong here.
"""
