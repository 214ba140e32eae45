"""Annotators' decisions in JSON Lines: Prodigy keeps what they rejected or ignored, with an ``answer``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from graphattn.exceptions import Hint


class LeftOut:
    """Counts the records of a file that are no examples.

    Parameters
    ----------
    path : the file, for the report
    """

    def __init__(self, path: str):
        self.path = path
        self.records = self.rejected = self.unlabelled = 0

    def rejects(self, record: Mapping[str, Any]) -> bool:
        """Count a record; return whether its answer is ``reject`` or ``ignore``."""
        rejected = record.get("answer") in ("reject", "ignore")
        self.records += 1
        self.rejected += rejected
        return rejected

    def report(self) -> None:
        """Say how many records are left out."""
        reasons = {"their answer is reject or ignore": self.rejected, "they have no annotation": self.unlabelled}
        for reason, count in reasons.items():
            if count:
                warnings.warn(
                    Hint(f"{self.path}: {count:,} of {self.records:,} texts are left out, since {reason}"), stacklevel=3
                )
