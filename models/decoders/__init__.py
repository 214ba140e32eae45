"""Models that write text: a decoder for any encoder, and searching with it.

Here belong sub-modules for targets: embeddings that are shared, decoders, losses, search and sampling. Encoders lie
beside in ``encoders``, what turns texts into corpora and outputs into texts in ``estimators``.
"""
