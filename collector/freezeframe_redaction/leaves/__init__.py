"""From a value to its leaves and back: JSON, bodies, streams; every other byte stays unchanged."""
