"""How the reference (PyPI `tokenizers`) cuts texts into the word pieces of BERT uncased.

    python word_pieces.py tables > ../src/static_vectors/characters/tables.rs
    python word_pieces.py record < texts > word_pieces.jsonl
    python word_pieces.py answer

Needs `tokenizers==0.23.3`. `tables` prints the Rust tables of code points. `record` reads a JSON
string a line, or a line that it has printed before, and prints the text with its ids: the fixtures.
`answer` reads the same and prints the ids alone. The vocabulary is the one in ../data/static-vectors.bin. Names of special tokens in a text,
such as [MASK], are text like all other.
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
    """The code points beyond ASCII for which it holds, as pairs of the first and the last in a row."""
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
    print("//! What BERT's tokenizer does with code points beyond ASCII, as ranges in order.")
    print("//! @generated from PyPI's tokenizers 0.23.3 by `testdata/word_pieces.py`. Do not edit.")
    print_table("REMOVED", "Left out: controls, formats and what is private.", lambda c: clean(c) == "")
    print_table("SPACE", "Between words.", lambda c: clean(c) == " ")
    print_table("IDEOGRAPH", "A word by itself, whatever is beside it.", lambda c: spaced(c) == f" {c} ")
    print_table("ACCENT", "Marks that take no room: left out once letters are taken apart.", lambda c: stripped(c) == "")
    print_table("PUNCTUATION", "A word by itself, seen after all else.", lambda c: len(split(f"a{c}a")) == 3)


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
