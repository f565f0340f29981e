"""The HTTP API: thin routes over the commands of the desks."""
