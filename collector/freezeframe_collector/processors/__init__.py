"""Processors: pure functions from SpanRecord to SpanRecord. The pipeline calls them; they never call each other."""
