"""What peers need before they can be timed: their own forms of a model."""
