"""Measuring, and the paper's figures and tables."""
