"""The command line: flags, configuration files, one module per command. Commands import PyTorch only when they run."""
