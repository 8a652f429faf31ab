"""What preflight claims about speed, measured side by side with the tools that users have today."""
