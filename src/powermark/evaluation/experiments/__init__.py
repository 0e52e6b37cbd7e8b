"""Experiments on real models: each a table, made by one command and taken up where it stopped."""
