"""The supervisor: claims tasks, runs agents, decides what becomes of them."""
