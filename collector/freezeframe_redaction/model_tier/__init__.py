"""The optional model that reads prose for what rules cannot find."""
