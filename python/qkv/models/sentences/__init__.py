"""Embeddings of texts and of files of texts."""
