"""The pages that commands write: a model is loaded and runs, and views show what it did."""
