"""Whole spans and the texts in them: what is gone through together, and what is remembered of it."""
