"""Floor 3: command line, demo, paper tables, benchmarks."""
