"""What hosts agents: web servers, gRPC servers and workers, whose requests and tasks are runs with nothing marked."""
