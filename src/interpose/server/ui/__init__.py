"""The chat page: talk to the agents of a server in a browser."""

from interpose.server.ui.pages import routes

__all__ = ["routes"]
