"""What the benchmarks share: the dataset, processes, turns and tables."""
