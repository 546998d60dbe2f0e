"""How models write: searches, the steps of whole models, rules of what may follow."""
