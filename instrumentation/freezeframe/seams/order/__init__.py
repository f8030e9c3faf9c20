"""The order in which threads and tasks got their turn: recorded, and kept in a replay."""
