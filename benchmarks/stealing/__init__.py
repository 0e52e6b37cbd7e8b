"""What it takes to steal, forge and wash out a mark; ``python -m benchmarks.stealing``."""
