"""One table per model type: options of the C++ bodies, and Hugging Face's names."""
