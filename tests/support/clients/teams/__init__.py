"""Teams of agents: each module has a `TEAM`, and imports nothing of freezeframe."""
