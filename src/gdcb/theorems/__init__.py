"""The paper's four theorems as small experiments: what holds of each, and what does not."""
