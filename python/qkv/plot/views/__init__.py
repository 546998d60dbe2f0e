"""Pages to play with, which are figures too."""
