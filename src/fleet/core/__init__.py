"""The nouns of fleet: frozen data and pure rules. Imports nothing else of fleet."""
