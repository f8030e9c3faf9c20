"""The fast first pass over the bytes of a batch: where a detector has to look at all."""
