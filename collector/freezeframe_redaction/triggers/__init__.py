"""The fast first pass over the bytes of a batch, which finds the places for detectors to check."""
