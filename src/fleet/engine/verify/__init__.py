"""The parts of a verification: which of a branch's changes judge it, and what its command's output says."""
