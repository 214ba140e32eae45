"""Counts and times of requests, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of seconds."""


@dataclass
class Metrics:
    """What a server counts."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By path and status."""
    seconds: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * (len(_BOUNDS) + 1)))
    """By path, the requests between a bound and the one before, and at the end those above all."""
    total_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    characters: int = 0

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests[path, status] += 1
        self.total_seconds[path] += seconds
        self.seconds[path][bisect_left(_BOUNDS, seconds)] += 1

    def format(self, *, batches: int, waiting: int) -> str:
        """All metrics; ``batches`` were computed and ``waiting`` requests have no answer yet."""
        requests = {f'path="{path}",status="{status}"': count for (path, status), count in self.requests.items()}
        lines = [
            *_format_metric("requests_total", "counter", "Requests that were answered.", requests),
            *_format_metric("characters_total", "counter", "Characters of texts of requests.", {"": self.characters}),
            *_format_metric("batches_total", "counter", "Batches of requests that were computed.", {"": batches}),
            *_format_metric("waiting_requests", "gauge", "Requests without an answer yet.", {"": waiting}),
            *_format_metric("request_seconds", "histogram", "Time from a request to its answer.", {}),
        ]
        for path, total in self.total_seconds.items():
            counts = list(accumulate(self.seconds[path]))
            for bound, count in zip((*map("{:g}".format, _BOUNDS), "+Inf"), counts, strict=True):
                lines.append(f'graphattn_request_seconds_bucket{{path="{path}",le="{bound}"}} {count}')
            lines.append(f'graphattn_request_seconds_sum{{path="{path}"}} {total:.6f}')
            lines.append(f'graphattn_request_seconds_count{{path="{path}"}} {counts[-1]}')
        return "\n".join(lines) + "\n"


def _format_metric(name: str, kind: str, about: str, values: dict[str, int]) -> list[str]:
    name = f"graphattn_{name}"
    rows = [f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in values.items()]
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *rows]
