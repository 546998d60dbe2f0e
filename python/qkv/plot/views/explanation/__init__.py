"""One forward pass as a page to scroll and to click through."""
