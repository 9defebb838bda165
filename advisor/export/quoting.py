"""Quotes texts for each kind of file: one function each, and exports use no other way.

Whatever a text holds, it stays a word, a value, a comment or a cell.
"""

import html
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

import yaml

from advisor.foundation.names import FORMULA, visible

_CELL: Final = (*FORMULA, "\t", "\r", "\n")
"""First characters that make a spreadsheet compute a cell (OWASP ASVS 5.0, 1.2.10, read
2026-11-22)."""
_MARKDOWN: Final = re.compile(r"[\\`*\[\]<>|]|&(?=#?\w+;)|(?<![^\W_])[_~]|[_~](?![^\W_])")
"""Characters that start code, emphasis, a link, a tag, an entity or a cell. ``_`` between letters
does not."""
_IN_ADDRESSES: Final = "%/:?#[]@!$&'()*+,;=-._~"
_EXPANDED: Final = re.compile(r"\$(?=[$(])")


def shell_word(text: str) -> str:
    """Return a text as one word of a shell command.

    >>> shell_word("$(touch p)")
    "'$(touch p)'"
    """
    return shlex.quote(text)


def here_document(content: str) -> list[str]:
    """Return the lines of a here-document that pass a text unchanged to a command.

    Its end marker is a line that the text does not contain.
    """
    lines = content.removesuffix("\n").split("\n")
    end = "END"
    while end in lines:
        end += "_"
    return [f"<<'{end}'", *lines, end]


def comments(lines: Iterable[str]) -> list[str]:
    r"""Return each text as one comment line of a shell script or of YAML.

    >>> comments(["a model\ntouch p"])
    ['# a model\\x0atouch p']
    """
    return [f"# {visible(line)}" for line in lines]


def yaml_text(content: Mapping[str, object]) -> str:
    """Return a mapping as YAML, with multi-line texts as blocks."""
    return yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, width=10_000)


def yaml_file(notes: Iterable[str], *documents: Mapping[str, object]) -> str:
    """Return a YAML file with notes above its documents."""
    head = "".join(f"{line}\n" for line in comments(notes))
    return head + "---\n".join(map(yaml_text, documents))


def json_text(content: object) -> str:
    """Return a mapping or a list as JSON."""
    return json.dumps(content, indent=2) + "\n"


def python_constants(values: Mapping[str, object]) -> list[str]:
    r"""Return one line of Python for each constant: numbers, switches, texts and lists of texts.

    >>> python_constants({"MODEL": 'a"b', "STEPS": 3})
    ['MODEL = \'a"b\'', 'STEPS = 3']
    """
    return [f"{name} = {value!a}" for name, value in values.items()]


def kubernetes_text(script: str) -> str:
    """Return a script as an argument of a container.

    Kubernetes replaces ``$(NAME)`` by the value of a variable and reads ``$$`` as ``$``
    (field ``command`` of its API's Container, read 2026-11-22).
    """
    return _EXPANDED.sub("$$", script)


def compose_text(script: str) -> str:
    """Return a text that Docker Compose passes on unchanged.

    Compose replaces ``$NAME`` and ``${NAME}`` and reads ``$$`` as ``$`` (Compose specification,
    Interpolation, read 2026-11-22).
    """
    return script.replace("$", "$$")


def markdown_text(text: str) -> str:
    r"""Return a text escaped for Markdown, in a paragraph, a heading or a cell.

    >>> print(markdown_text("<b> [x](y) bf16_mixed"))
    \<b\> \[x\](y) bf16_mixed
    """
    return _MARKDOWN.sub(lambda found: "\\" + found[0], visible(text))


def markdown_link(address: str) -> str:
    """Return an address as a Markdown link.

    >>> markdown_link("https://example.org/?a=x_-y&b=<i>")
    '<https://example.org/?a=x_-y&b=%3Ci%3E>'
    """
    return f"<{quote(address, safe=_IN_ADDRESSES)}>"


def html_text(text: str) -> str:
    """Return a text escaped for HTML, in an element or a quoted attribute."""
    return html.escape(visible(text))


def csv_cell(value: object) -> object:
    """Return a cell that no spreadsheet computes: numbers unchanged, formulas as text.

    >>> csv_cell("=1+1"), csv_cell(-1.5)
    ("'=1+1", -1.5)
    """
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown.lstrip().startswith(_CELL) else shown


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as blocks, and no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _block)
