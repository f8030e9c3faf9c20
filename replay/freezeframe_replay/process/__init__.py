"""The replayed program: its process, its fences, its clock, and the server that plays its provider."""
