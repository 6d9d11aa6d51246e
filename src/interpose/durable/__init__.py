"""Durable engines: runs of agents that outlive their process, one engine a file."""

__all__: list[str] = []
