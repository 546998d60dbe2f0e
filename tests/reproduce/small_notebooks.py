"""Notebooks of a few lines."""

import pytest


def write(folder, name, *cells):
    """Write a notebook; cells are pairs of kind and text."""
    nbformat = pytest.importorskip("nbformat")
    folder.mkdir(exist_ok=True)
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    nbformat.write(nbformat.v4.new_notebook(cells=[make[kind](text) for kind, text in cells]), folder / name)
