"""Texts as numbers: tokenizers, chats, masked words."""
