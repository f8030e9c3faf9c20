"""The order in which threads and tasks ran: recorded, and repeated in a replay."""
