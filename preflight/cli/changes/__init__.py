"""Commands that change hosts: plans, questions and results on the terminal."""
