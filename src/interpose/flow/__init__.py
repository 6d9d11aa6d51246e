"""A live local page of what runs do: their nodes as a graph and as a waterfall, served by the app itself."""

from interpose.flow.middleware import Flow

__all__ = ["Flow"]
