"""Design problems on top of the theory: signal models, edits, solvers, plans, frontiers."""
