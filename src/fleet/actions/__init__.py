"""What a user can do, whatever face they use."""
