"""What fleet itself sees of a run, piece by piece, and what that amounts to."""
