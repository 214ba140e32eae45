"""Looking into a prediction: which edge got which weight, as table, graph, matrix, file and page; sums over a corpus.

What is computed from weights and gradients to explain a prediction lies in ``models/inspection/attributions``,
pictures and commands one floor above.
"""

from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.attention_map import AttentionMap
from graphattn.models.inspection.comparison import compare_summaries
from graphattn.models.inspection.summary import AttentionSummary, summarise

__all__ = ["Attention", "AttentionMap", "AttentionSummary", "compare_summaries", "summarise"]
