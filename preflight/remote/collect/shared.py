"""The part of the request that is the same for all hosts. The controller sends this module with its own text."""

REQUEST = {}
