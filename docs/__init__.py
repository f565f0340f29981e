"""The pages, and what makes some of them."""
