"""Output of a tool on a host, as the collector sends it."""

from dataclasses import dataclass


@dataclass
class ToolOutput:
    """Output and exit code of a tool. `trouble`: why it did not run to its end."""

    out: str
    err: str
    code: int
    trouble: str = ""

    @property
    def text(self) -> str:
        return self.out + "\n" + self.err if self.err.strip() else self.out
