"""The seams of agent frameworks: their tools, retrievers, flags and states."""
