"""What a prediction rests on, to read beside the weights: attention is no explanation by itself.

Edges: gradient times weight, and the effect of leaving an edge out. Tokens: rollout and flow through the layers,
integrated gradients, and how well all of them agree. Capturing and showing weights belongs to ``models/inspection``.
"""

from graphattn.models.inspection.attributions.agreement import agreement, edge_agreement, token_agreement
from graphattn.models.inspection.attributions.flow import attention_flow
from graphattn.models.inspection.attributions.gradients import by_source, by_token, gradient_times_weight
from graphattn.models.inspection.attributions.integrated_gradients import integrated_gradients
from graphattn.models.inspection.attributions.leave_one_out import leave_one_edge_out
from graphattn.models.inspection.attributions.rollout import attention_rollout

__all__ = [
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
]
