#!/usr/bin/env python3
"""Define canary API keys, the marks, and search for them in everything that tests have written.

    canary_keys.py env                             prints NAME=mark, a line for each variable
    canary_keys.py search FOLDER [--with-control]  fails if a mark is in FOLDER or the working tree

The variables are those that the sources name, which includes the variable of a new provider. The
control mark is not a key. A test writes it to its output, a log and a database, and a search with
`--with-control` fails if it does not find the mark there. So the check fails if it searches the wrong
place or if the folders of a run were not kept.
"""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTROL_VARIABLE = "RETAIN_CONTROL_MARK"
# The marks do not have the format of real keys, because code that redacts those would hide a leak.
PREFIX, SUFFIX = "retain-canary-", "-5d1c9e-is-told-to-nobody"
CONTROL = "retain-control-7b20af-is-meant-to-be-found"
NAMED = re.compile(r'"([A-Z][A-Z0-9_]*_(?:API_KEY|AUTH_TOKEN))"')
# Setting the server's own API key would lock the tests out.
NOT_MARKED = {"RETAIN_API_KEY"}
# If one of these is missing, the expression above no longer matches the sources.
USUAL = {"GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
         "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_API_KEY", "OPENROUTER_API_KEY"}
CHUNK = 1 << 24


def variables():
    """Return every variable that holds a model's API key."""
    sources = [*ROOT.glob("crates/models/src/**/*.rs"), *ROOT.glob("crates/cli/src/**/*.rs")]
    named = {name for path in sources for name in NAMED.findall(path.read_text("utf-8"))}
    if missing := USUAL - named:
        sys.exit(f"the sources do not name {sorted(missing)}")
    return sorted(named - NOT_MARKED)


def mark(variable):
    return PREFIX + variable.lower().replace("_", "-") + SUFFIX


def in_base64(text):
    """Return the text in base64, for each alignment of the text to groups of three bytes."""
    # Drop the characters that also encode bytes before and after.
    return [base64.b64encode(b"\0" * shift + text)[4:-4] for shift in range(3)]


def needles(*texts):
    """Return the strings to search for, each with the name to report."""
    plain = [(text, text.encode()) for text in texts]
    return plain + [(f"{text} in base64", coded) for text, data in plain
                    for coded in in_base64(data)]


def ends_of_marks():
    """Return the prefix and suffix of all marks. They are fast to search for, and one of them stays
    intact if a database splits a text between two pages."""
    return needles(PREFIX, SUFFIX)


def whole_marks():
    return needles(*(mark(variable) for variable in variables()))


def find_needles(wanted, path):
    """Return the needles that a file contains."""
    overlap = max(len(needle) for _, needle in wanted)
    names, rest = {}, b""
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        # A process that exits late may delete the file.
        return []
    with file:
        while chunk := file.read(CHUNK):
            data = rest + chunk
            names |= {name: None for name, needle in wanted if needle in data}
            rest = data[-overlap:]
    return list(names)


def tracked():
    """Return the files that git tracks or would track, including snapshots."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    paths = [ROOT / name.decode("utf-8", "surrogateescape") for name in out.split(b"\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def leaks(folder):
    """Find marks in a folder and in the working tree. The scripts of the tree contain the prefix and
    the suffix, so search the tree for whole marks."""
    kept, tree = files_below(folder), tracked()
    ends, whole = ends_of_marks(), whole_marks()
    problems = [f"{path.relative_to(folder)}: contains {find_needles(whole, path) or some}"
                for path in kept if (some := find_needles(ends, path))]
    problems += [f"{path.relative_to(ROOT)}: contains {some}"
                 for path in tree if (some := find_needles(whole, path))]
    size = sum(path.stat().st_size for path in kept if path.exists())
    print(f"canary keys: {len(kept)} files with {size >> 20} MiB and {len(tree)} of the working "
          f"tree searched, {len(problems)} problems")
    return problems


def control_problems(folder):
    """Return a problem for each place that should contain the control mark and does not."""
    control = [("control", CONTROL.encode())]
    names = [path.name for path in files_below(folder) if find_needles(control, path)]
    places = {"output": "what tests print", "retain.db": "databases", ".log": "logs"}
    if os.environ.get("TEST_POSTGRES_URL"):
        places[".postgres"] = "databases on PostgreSQL"
    return [f"the control mark is not in {what}, so the search proves nothing"
            for end, what in places.items() if not any(end in name for name in names)]


def main(arguments):
    match arguments:
        case ["env"]:
            print(f"{CONTROL_VARIABLE}={CONTROL}")
            for variable in variables():
                print(f"{variable}={mark(variable)}")
            return 0
        case ["search", folder, *options] if options in ([], ["--with-control"]):
            problems = leaks(Path(folder))
            problems += control_problems(Path(folder)) if options else []
            print("\n".join(problems[:100]), end="\n" if problems else "")
            return 1 if problems else 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
