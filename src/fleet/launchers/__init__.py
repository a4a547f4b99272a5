"""Ways to start agents, one file each."""
