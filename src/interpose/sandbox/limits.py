"""What one command in a sandbox may use."""

from dataclasses import dataclass, fields

from interpose.errors import ConfigurationError

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """What one command may use, its whole process tree together; a command that goes beyond is stopped, or fails.

    *timeout_s* is what a command has that asks for no time itself, *max_timeout_s* the most that it may ask for. Of
    what it prints the first and the last of *max_output_bytes* are kept; beyond *max_printed_bytes* it is stopped.
    *max_file_bytes* is the size of any one file that it writes, *max_temp_bytes* that of its `/tmp` (in memory).
    """

    timeout_s: float = 60.0
    max_timeout_s: float = 600.0
    max_output_bytes: int = 30_000
    max_printed_bytes: int = 64 * MIB
    max_processes: int = 128
    max_memory_bytes: int = 2048 * MIB
    max_file_bytes: int = 256 * MIB
    max_open_files: int = 1024
    max_temp_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigurationError(f"CommandLimits: {one.name} must be a number above 0, got {value!r}")
            if not one.name.endswith("_s") and not isinstance(value, int):
                raise ConfigurationError(f"CommandLimits: {one.name} must be a whole number, got {value!r}")
        if self.timeout_s > self.max_timeout_s:
            raise ConfigurationError(
                f"CommandLimits: timeout_s ({self.timeout_s}) is above max_timeout_s ({self.max_timeout_s})"
            )
