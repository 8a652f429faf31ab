"""What is wrong with a start script that somebody wrote. Pure; nothing of it is ever executed."""
