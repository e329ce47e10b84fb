#!/usr/bin/env python3
"""Marked keys: what they are, and how to look for them in all that was written.

    canary_keys.py env                             NAME=mark, a line for each variable
    canary_keys.py search FOLDER [--with-control]  1 if a mark is in FOLDER or in the working tree

The variables are those that the sources name, so that a new provider's is among them at once. A
control is no key: a test writes it where keys must not be (into what it prints, into a log, into a
database), and a search with `--with-control` fails where it does not find it there. So a search
that looks at the wrong place, or a run whose folders were not kept, is no proof.
"""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTROL_VARIABLE = "RETAIN_CONTROL_MARK"
# No known form of a key: what takes those out of texts must not help here.
BEGINS, ENDS = "retain-canary-", "-5d1c9e-is-told-to-nobody"
CONTROL = "retain-control-7b20af-is-meant-to-be-found"
NAMED = re.compile(r'"([A-Z][A-Z0-9_]*_(?:API_KEY|AUTH_TOKEN))"')
# Its own, which would close the server to the tests.
NOT_MARKED = {"RETAIN_API_KEY"}
# If one of these is missing, the sources are no more as the expression above takes them to be.
USUAL = {"GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
         "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_API_KEY", "OPENROUTER_API_KEY"}
CHUNK = 1 << 24


def variables():
    """Every variable that holds a key of a model."""
    sources = [*ROOT.glob("crates/models/src/**/*.rs"), *ROOT.glob("crates/cli/src/**/*.rs")]
    named = {name for path in sources for name in NAMED.findall(path.read_text("utf-8"))}
    if missing := USUAL - named:
        sys.exit(f"the sources do not name {sorted(missing)}")
    return sorted(named - NOT_MARKED)


def mark(variable):
    return BEGINS + variable.lower().replace("_", "-") + ENDS


def in_base64(text):
    """The text in base64, however the bytes before it shift it."""
    # Without what is shared with the bytes before and after.
    return [base64.b64encode(b"\0" * shift + text)[4:-4] for shift in range(3)]


def needles(*texts):
    """What to look for, with the name to tell."""
    plain = [(text, text.encode()) for text in texts]
    return plain + [(f"{text} in base64", coded) for text, data in plain
                    for coded in in_base64(data)]


def ends_of_marks():
    """The two ends that all marks have: quick to look for, and one of them is whole also where a
    database cuts a text in two between its pages."""
    return needles(BEGINS, ENDS)


def whole_marks():
    return needles(*(mark(variable) for variable in variables()))


def found(looked_for, path):
    """Which of the needles are in a file."""
    overlap = max(len(needle) for _, needle in looked_for)
    names, rest = {}, b""
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        # A process that ends late may tidy up.
        return []
    with file:
        while chunk := file.read(CHUNK):
            data = rest + chunk
            names |= {name: None for name, needle in looked_for if needle in data}
            rest = data[-overlap:]
    return list(names)


def tracked():
    """What git tracks or would track: the snapshots are among it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    paths = [ROOT / name.decode("utf-8", "surrogateescape") for name in out.split(b"\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def leaks(folder):
    """Where marks are: below a folder, and in the working tree, whose scripts name their ends."""
    kept, tree = files_below(folder), tracked()
    ends, whole = ends_of_marks(), whole_marks()
    problems = [f"{path.relative_to(folder)}: holds {found(whole, path) or some}"
                for path in kept if (some := found(ends, path))]
    problems += [f"{path.relative_to(ROOT)}: holds {some}"
                 for path in tree if (some := found(whole, path))]
    size = sum(path.stat().st_size for path in kept if path.exists())
    print(f"canary keys: {len(kept)} files with {size >> 20} MiB and {len(tree)} of the working "
          f"tree searched, {len(problems)} problems")
    return problems


def control_problems(folder):
    """Where the control should have been found and was not."""
    control = [("control", CONTROL.encode())]
    names = [path.name for path in files_below(folder) if found(control, path)]
    places = {"output": "what tests print", "retain.db": "databases", ".log": "logs"}
    if os.environ.get("TEST_POSTGRES_URL"):
        places[".postgres"] = "databases on PostgreSQL"
    return [f"the control is not in {what}: this search proves nothing"
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
