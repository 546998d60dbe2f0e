"""The words of errors: what arrived, what was meant, what others call it. Read when a call has failed."""
