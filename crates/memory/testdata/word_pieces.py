"""Splits texts into word pieces of BERT uncased with the reference tokenizer, PyPI's `tokenizers`.

    python word_pieces.py tables > ../src/static_vectors/characters/tables.rs
    python word_pieces.py record < texts > word_pieces.jsonl
    python word_pieces.py answer

Needs `tokenizers==0.23.3`. `tables` prints the Rust tables of code points. `record` prints the test
fixtures: it reads one JSON string per line, or a line of its own output, and prints the text with its
ids. `answer` reads the same input and prints only the ids. The vocabulary is that of
../data/static-vectors.bin. Names of special tokens, such as [MASK], are treated as ordinary text.
"""

import json
import struct
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

TABLE = Path(__file__).resolve().parents[1] / "data" / "static-vectors.bin"
CODE_POINTS = [chr(n) for n in range(0x110000) if not 0xD800 <= n <= 0xDFFF]


def read_vocabulary():
    data = TABLE.read_bytes()
    _, _, _, _, size, _ = struct.unpack_from("<8sIIIIQ", data)
    tokens = data[-size:].decode("utf-8").removesuffix("\n").split("\n")
    return {token: row for row, token in enumerate(tokens)}


def reference():
    tokenizer = Tokenizer(models.WordPiece(read_vocabulary(), unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def normalizer(**wanted):
    steps = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**(steps | wanted)).normalize_str


def ranges(holds):
    """Return the ranges of non-ASCII code points for which `holds` is true, as [first, last] pairs."""
    found = []
    for c in CODE_POINTS[128:]:
        if holds(c):
            n = ord(c)
            if found and found[-1][1] == n - 1:
                found[-1][1] = n
            else:
                found.append([n, n])
    return found


def print_table(name, meaning, holds):
    lines = []
    for first, last in ranges(holds):
        pair = f"(0x{first:x}, 0x{last:x}),"
        if not lines or len(lines[-1]) + 1 + len(pair) > 98:
            lines.append("    " + pair)
        else:
            lines[-1] += " " + pair
    print(f"\n/// {meaning}\n#[rustfmt::skip]")
    print(f"pub(super) const {name}: &[(u32, u32)] = &[")
    print("\n".join(lines))
    print("];")


def print_tables():
    clean = normalizer(clean_text=True)
    spaced = normalizer(handle_chinese_chars=True)
    stripped = normalizer(strip_accents=True)
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    print("//! The classes that BERT's tokenizer gives to non-ASCII code points, as sorted ranges.")
    print("//! @generated from PyPI's tokenizers 0.23.3 by `testdata/word_pieces.py`. Do not edit.")
    print_table("REMOVED", "Removed: control, format and private-use characters.", lambda c: clean(c) == "")
    print_table("SPACE", "Characters treated as whitespace.", lambda c: clean(c) == " ")
    print_table("IDEOGRAPH", "Ideographs; each is a word of its own.", lambda c: spaced(c) == f" {c} ")
    print_table("ACCENT", "Nonspacing marks, which are removed after decomposition.", lambda c: stripped(c) == "")
    print_table("PUNCTUATION", "Punctuation, which is split off last; each character is a word of its own.", lambda c: len(split(f"a{c}a")) == 3)


def main(what):
    if what == "tables":
        return print_tables()
    tokenizer = reference()
    for line in sys.stdin:
        text = json.loads(line)
        text = text if isinstance(text, str) else text[0]
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        print(json.dumps([text, ids] if what == "record" else ids, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
