"""The tables of rules, a TOML file for each family, and what reads and checks them."""
