"""Attributions: why a model decides; attention weights alone do not explain that.

For edges: gradient times weight, and leaving an edge out. For tokens: rollout, flow, and integrated gradients, which
alone include the linear branch. Sums over words. Their agreement.
"""

from graphattn.models.inspection.attributions._agreement import agreement, edge_agreement, token_agreement
from graphattn.models.inspection.attributions._gradient_times_weight import by_source, by_token, gradient_times_weight
from graphattn.models.inspection.attributions._integrated_gradients import integrated_gradients
from graphattn.models.inspection.attributions._leave_one_out import leave_one_edge_out
from graphattn.models.inspection.attributions._rollout import attention_flow, attention_rollout
from graphattn.models.inspection.attributions._words import WordAttributions, top_words, word_attributions

__all__ = [
    "WordAttributions",
    "agreement",
    "attention_flow",
    "attention_rollout",
    "by_source",
    "by_token",
    "edge_agreement",
    "gradient_times_weight",
    "integrated_gradients",
    "leave_one_edge_out",
    "token_agreement",
    "top_words",
    "word_attributions",
]
