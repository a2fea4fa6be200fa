"""The schema, one numbered module per step; found by :mod:`rightlab.store.schema`."""

__all__: list[str] = []
