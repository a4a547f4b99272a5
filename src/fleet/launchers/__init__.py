"""Launchers: the ways to start agents, one file each."""
