"""Attention weights of predictions: tables, graphs, matrices, files; statistics over a corpus; attributions."""

from graphattn.models.inspection._attention import Attention
from graphattn.models.inspection._attention_map import AttentionMap
from graphattn.models.inspection._branch_scores import BranchScores
from graphattn.models.inspection._summary import AttentionSummary, compare_summaries, summarise

__all__ = ["Attention", "AttentionMap", "AttentionSummary", "BranchScores", "compare_summaries", "summarise"]
