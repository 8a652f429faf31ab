"""Commands on jobs: start commands, rank tables and logs."""
