"""Speeds that are promised, measured."""
