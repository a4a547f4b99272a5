"""The queue's port and its adapters, one file each."""
