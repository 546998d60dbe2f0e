"""Folders and GGUF files of models: read, checked, written."""
