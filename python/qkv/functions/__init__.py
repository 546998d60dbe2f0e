"""The functions of qkv: attention, softmax, elementwise and other functions of arrays, gradients, settings."""
