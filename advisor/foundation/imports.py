"""Names of a module that are imported on first use, so that a process starts fast."""


def later(file: str) -> dict[str, str]:
    """Return the module of each name that a source file imports for the type checker alone.

    Such a line is indented, and imports the name as itself: it is written once, for both.
    """
    with open(file, encoding="utf-8") as source:  # noqa: PTH123 - pathlib takes long to import
        found = [line.split() for line in source if line.startswith("    from advisor.")]
    return {words[3]: words[1] for words in found if words[3:] == [words[3], "as", words[3]]}
