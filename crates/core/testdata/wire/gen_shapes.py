"""Print the Rust table of wire shapes made from shapes.json.

Run with any Python 3:

    python gen_shapes.py > shapes.rs

The output holds one static per model that an Event or a Session can contain.
A union of models becomes one shape with the fields of all of them. It is
written the way rustfmt writes it and is the same on every run.
"""

import json
import os
import re
import sys

# Short static names for unions of models, by their first member.
UNION_NAMES = {"APIKey": "AUTH_SCHEME"}

SPECIAL = {"OAuth": "Oauth", "OpenId": "Openid"}


def constant(name):
    """GroundingChunkWeb gives GROUNDING_CHUNK_WEB."""
    for old, new in SPECIAL.items():
        name = name.replace(old, new)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    name = re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return name.upper()


def split_top(text):
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[<":
            depth += 1
        elif letter in "]>":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return parts + [text[start:]]


class Table:
    def __init__(self, whole):
        self.models = {model["name"]: model for model in whole["models"]}
        self.shapes = {}
        for root in whole["roots"]:
            self.add(constant(root), [root])

    def add(self, static, names):
        """Add a shape with the fields of the named models."""
        if static in self.shapes:
            if self.shapes[static][0] != names:
                sys.exit(f"two shapes want the name {static}")
            return
        fields = {}
        self.shapes[static] = (names, fields)
        for name in names:
            for field in self.models[name]["fields"]:
                row = (field["camel"], field["kind"])
                if fields.setdefault(field["snake"], row) != row:
                    sys.exit(f"{field['snake']} differs inside {'|'.join(names)}")
        camels = [camel for camel, _ in fields.values()]
        if len(set(camels)) != len(camels):
            sys.exit(f"two fields of {static} share a camel name")
        for _, kind in fields.values():
            self.rust(kind)

    def rust(self, kind):
        """The Rust expression of a kind. Adds the shapes it needs."""
        if kind == "any":
            return "Kind::Any"
        if kind == "bytes":
            return "Kind::Bytes"
        if kind == "scalar":
            return "Kind::Scalar"
        if kind.startswith("model:"):
            return self.model([kind[6:]])
        inner = kind[kind.find("<") + 1 : -1]
        if kind.startswith("list<"):
            return f"Kind::List(&{self.rust(inner)})"
        if kind.startswith("map<"):
            return f"Kind::Map(&{self.rust(inner)})"
        if kind == "set<scalar>":
            return "Kind::Set"
        if kind.startswith("union["):
            members = split_top(kind[6:-1])
            if all(one.startswith("model:") for one in members):
                return self.model([one[6:] for one in members])
            if not any("model:" in one or "bytes" in one for one in members):
                return "Kind::Any"
        sys.exit(f"no Rust kind for {kind}")

    def model(self, names):
        static = constant(names[0]) if len(names) == 1 else UNION_NAMES[names[0]]
        self.add(static, names)
        return f"Kind::Model(&{static})"

    def source(self, whole):
        lines = [
            "//! The fields of every model inside an ADK event or session, in wire order.",
            f"//! @generated from google-adk {whole['google-adk']} by"
            " `testdata/wire/gen_shapes.py`. Do not edit.",
            "",
            "use super::{Field, Kind, Shape};",
            "",
            "const fn f(snake: &'static str, camel: &'static str, kind: Kind) -> Field {",
            "    Field { snake, camel, kind }",
            "}",
        ]
        for static, (names, fields) in self.shapes.items():
            lines += ["", f"pub(crate) static {static}: Shape = Shape {{"]
            if len(names) > 1:
                title = "".join(word.capitalize() for word in static.split("_"))
                lines.insert(-1, f"// One of {len(names)} models:")
                lines.insert(-1, f"// {', '.join(names)}.")
            else:
                title = names[0]
            lines.append(f'    name: "{title}",')
            rows = [
                self.row(snake, camel, kind) for snake, (camel, kind) in fields.items()
            ]
            lines += array(rows)
            lines.append("};")
        return "\n".join(lines) + "\n"

    def row(self, snake, camel, kind):
        return [json.dumps(snake), json.dumps(camel), self.rust(kind)]


def array(rows):
    """The fields line, laid out by the rules of rustfmt."""
    if len(rows) == 1:
        return call("    fields: &[", rows[0], "],")
    lines = ["    fields: &["]
    for row in rows:
        lines += call("        ", row, ",")
    return lines + ["    ],"]


def call(before, row, after):
    """One call of f, on one line if its arguments take at most 60 letters."""
    line = ", ".join(row)
    if len(line) <= 60:
        return [f"{before}f({line}){after}"]
    indent = " " * (len(before) - len(before.lstrip()))
    lines = [before + "f("]
    for part in row:
        lines += argument(indent + "    ", part)
    return lines + [f"{indent}){after}"]


def argument(indent, part):
    opening = "Kind::List(&Kind::Model("
    inner = part[part.find("(") + 1 : -1]
    if len(inner) <= 60 or not part.startswith(opening):
        return [f"{indent}{part},"]
    name = part[len(opening) : -2]
    return [indent + opening, f"{indent}    {name},", indent + ")),"]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "shapes.json"), encoding="utf-8") as f:
        whole = json.load(f)
    sys.stdout.write(Table(whole).source(whole))


main()
