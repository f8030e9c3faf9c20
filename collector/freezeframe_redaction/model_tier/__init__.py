"""The optional model that reads prose for values that rules cannot find."""
