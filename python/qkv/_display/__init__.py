"""How Tensors and modules show themselves, as text and in notebooks."""
