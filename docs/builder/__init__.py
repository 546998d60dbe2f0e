"""What ``python docs/build.py`` is made of: pages that are gathered or made, extensions of Sphinx, a check of links."""
