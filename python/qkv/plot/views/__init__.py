"""Interactive pages, which are figures too."""
