"""Running figures of an instance: read from its chain as it grows, in a thread of their own."""
