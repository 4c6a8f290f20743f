#!/usr/bin/env python3
"""Puts the page, its style and its script into one C++ source.

    embed.py OUTPUT

What the page may run and load is its own: the policy names its style and its script by digest.
"""

import base64
import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Of one string literal, in bytes; compilers have limits.
LITERAL = 8000


def source_of(text: str) -> str:
    """Gives the digest by which a policy lets `text` through."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def literal_of(text: str) -> str:
    """Gives a C++ string literal, in pieces, cut between characters."""
    pieces = [text[begin : begin + LITERAL] for begin in range(0, len(text), LITERAL)]
    return "\n".join(f'R"~~~({piece})~~~"' for piece in pieces) or '""'


def main() -> None:
    """Writes the source."""
    style = (HERE / "map_page.css").read_text(encoding="utf-8")
    script = (HERE / "map_page.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src {source_of(style)}; script-src {source_of(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = (HERE / "map_page.html").read_text(encoding="utf-8")
    for name, text in (("@POLICY@", policy), ("@STYLE@", style), ("@SCRIPT@", script)):
        if page.count(name) != 1:
            sys.exit(f"map_page.html: {name} is to be there once")
        page = page.replace(name, text)
    before, after = page.split("@SNAPSHOT@")
    parts = {"kPolicy": policy, "kBeforeSnapshot": before, "kAfterSnapshot": after}
    code = '#include "proto/map_page/map_page_text.h"\n\nnamespace tenure::map_page {\n\n'
    for name, text in parts.items():
        code += f"const char {name}[] =\n{literal_of(text)};\n\n"
    Path(sys.argv[1]).write_text(code + "}  // namespace tenure::map_page\n", encoding="utf-8")


main()
