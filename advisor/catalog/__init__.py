"""The data files as validated nouns."""

from advisor.catalog.catalog import Catalog, CatalogSource
from advisor.catalog.loader import load_catalog
from advisor.catalog.nodes import node_for

__all__ = ["Catalog", "CatalogSource", "load_catalog", "node_for"]
