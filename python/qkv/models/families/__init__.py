"""Models by what they do with a table of an architecture."""
