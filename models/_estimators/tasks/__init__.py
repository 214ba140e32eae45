"""Tasks: labels and targets, heads, metrics, reports and rows of output, one file for each."""
