"""The paper's experiments, and its system beside ours: cells, what they show, figures, a page."""
