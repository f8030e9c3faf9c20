"""From a value to its leaves and back: JSON, bodies, streams, and every other byte stays as it was."""
