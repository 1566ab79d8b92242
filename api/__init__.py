"""The command line, and later the service and its client."""
