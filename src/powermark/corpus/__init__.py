"""Corpora: files in, one row a document out, at the tokenizer's speed, on one machine or many."""
