"""Accelerators, offers and fitted constants: data files -> checked nouns with their sources."""

from advisor.catalog.catalog import Catalog, Source
from advisor.catalog.loader import load_catalog
from advisor.catalog.nodes import node_for

__all__ = ["Catalog", "Source", "load_catalog", "node_for"]
