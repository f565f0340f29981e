"""The pages' routes: forms in, pages out; what they do is what the API does."""
