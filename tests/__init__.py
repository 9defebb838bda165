"""The project's tests: a package of its own, so that another's ``tests`` does not hide it."""
