"""One line of a table of figures, with what was to be reached."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line of the table; *target* is None where none was set."""

    what: str
    value: float
    unit: str
    target: float | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f"under {self.target:g}"
        verdict = "" if self.target is None else "yes" if self.value < self.target else "NO"
        return f"{self.what:<72} {self.value:>9.2f} {self.unit:<8} {target:<10} {verdict}"
