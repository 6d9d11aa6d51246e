"""The engine: one file a station of a run. Nothing here is public."""
