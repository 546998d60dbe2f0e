"""The modules of `qkv.torch.d2l`, written with the names of PyTorch alone."""
