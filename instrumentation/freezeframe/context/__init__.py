"""The run and lane of a piece of work, and its program and environment."""
