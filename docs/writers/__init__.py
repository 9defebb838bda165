"""Writers of the pages and schemas that repeat data or code; they are not in the package."""
