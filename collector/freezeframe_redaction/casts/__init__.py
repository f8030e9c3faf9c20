"""The cast of a run: its private values, and their forms wherever programs made them."""
