"""Prints the properties of code points that determine the words of a memory.

    python code_points.py tables > ../src/words/tables.rs
    python code_points.py facts
    python code_points.py version

`tables` prints the Rust tables; run it with Python 3.11, because the tables have its Unicode version.
`facts` prints one JSON line with the properties of all code points, using google-adk 2.13 for those
that ADK defines; the tests compare them with Rust's. `version` prints Python's Unicode version.
"""

import json
import sys
import unicodedata
import warnings

warnings.filterwarnings("ignore")

CODE_POINTS = [chr(n) for n in range(0x110000) if not 0xD800 <= n <= 0xDFFF]


def is_word(c):
    return c.isalnum() or c == "_"


def is_latin(c):
    return unicodedata.name(c, "").startswith("LATIN")


def ranges(holds, start=0):
    """Return the ranges of code points from `start` for which `holds` is true, as [first, last] pairs."""
    found = []
    for c in CODE_POINTS[start:]:
        if holds(c):
            n = ord(c)
            if found and found[-1][1] == n - 1:
                found[-1][1] = n
            else:
                found.append([n, n])
    return found


def table(name, meaning, holds):
    pairs = [f"(0x{first:x}, 0x{last:x})," for first, last in ranges(holds, start=128)]
    lines = []
    for pair in pairs:
        if not lines or len(lines[-1]) + 1 + len(pair) > 98:
            lines.append("    " + pair)
        else:
            lines[-1] += " " + pair
    print(f"\n/// {meaning}\n#[rustfmt::skip]")
    print(f"pub(super) const {name}: &[(u32, u32)] = &[")
    print("\n".join(lines))
    print("];")


def print_tables():
    version = unicodedata.unidata_version
    if version != "14.0.0":
        sys.exit(f"the tables need Unicode 14.0.0, but this Python has {version}; use Python 3.11")
    print("//! The code points that form words, and those that are Latin letters, as sorted ranges.")
    print("//! @generated from Python 3.11 (Unicode 14) by `testdata/code_points.py`. Do not edit.")
    table("WORD", "The code points that Python's `\\w` matches.", is_word)
    table("LATIN", "The code points whose Unicode names begin with LATIN.", is_latin)


def print_facts():
    from google.adk.memory import in_memory_memory_service as adk

    def changed_by(change):
        return {c: change(c) for c in CODE_POINTS if change(c) != c}

    facts = {
        "unicode": unicodedata.unidata_version,
        "assigned": ranges(lambda c: unicodedata.category(c) != "Cn"),
        "word": ranges(lambda c: adk._extract_words_lower("\x00" + c) != set()),
        "latin": ranges(adk._is_latin),
        "lower": changed_by(str.lower),
        "nfc": changed_by(lambda c: unicodedata.normalize("NFC", c)),
        # A sigma is final if a cased letter precedes it and none follows; case-ignorable characters are skipped.
        "sigma_final_behind": ranges(lambda c: (c + "\u03a3").lower().endswith("\u03c2")),
        "sigma_final_before": ranges(lambda c: ("A\u03a3" + c).lower()[1] == "\u03c2"),
        "sigma_final_across": ranges(lambda c: ("A" + c + "\u03a3").lower().endswith("\u03c2")),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    commands = {
        "tables": print_tables,
        "facts": print_facts,
        "version": lambda: print(unicodedata.unidata_version),
    }
    commands[sys.argv[1]]()
