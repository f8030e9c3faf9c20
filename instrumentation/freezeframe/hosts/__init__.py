"""Hosts of agents: web servers, gRPC servers and workers, whose requests and tasks are runs without marked functions."""
