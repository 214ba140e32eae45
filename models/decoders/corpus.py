"""Sources with their targets as a corpus, from which batches are gathered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.builders.layout import Ints
from graphattn.models.corpus import Corpus
from graphattn.models.decoders.model import EOS


class ParallelCorpus(Corpus):
    """A corpus whose targets are texts; a pair is as long as its source and target together."""

    @classmethod
    def of(
        cls,
        builder: TextGraphBuilder,
        sources: Sequence[Sentence],
        targets: Sequence[npt.NDArray[np.integer]] | None = None,
    ) -> ParallelCorpus:
        """Turn pairs into columns once.

        Parameters
        ----------
        builder : with a vocabulary
        sources : texts of marked words
        targets : ids of each target's tokens, to which the border is added; None when they are to be written
        """
        layouts = [builder.layout(sources)]
        if targets is None:
            return cls(builder, layouts)
        counts = np.fromiter((len(ids) + 1 for ids in targets), np.int64, len(targets))
        flat = np.concatenate([part for ids in targets for part in (ids, [EOS])]).astype(np.int64)
        return cls(builder, layouts, targets=(flat, counts))

    @property
    def lengths(self) -> Ints:
        """(S,) tokens of each source, and of its target if there is one."""
        return super().lengths + (self.targets[1] if isinstance(self.targets, tuple) else 0)
