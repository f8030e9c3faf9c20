"""The seams of HTTP clients. `adapter` has the life of a call; each module has the peculiarities of its library."""
