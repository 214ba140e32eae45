"""The commands, one module each. A module loads quickly: what needs PyTorch is imported when the command runs."""
