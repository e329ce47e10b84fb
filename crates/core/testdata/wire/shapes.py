"""Write shapes.json: the models that google-adk events and sessions are made of.

Run inside a virtual environment with google-adk 2.13.0:

    python shapes.py [OUTFILE]

OUTFILE is shapes.json beside this script unless given. The script walks the
pydantic models that can be reached from Event and Session. It then fills each
model with sample values, lets the package write them in both forms, and stops
with an error if a name, the order of the fields, or a kind is not as claimed.

Kinds:
  scalar        text, number, bool or enum
  bytes         base64 text, url-safe alphabet, padded
  any           free JSON, its keys are never changed
  model:<Name>  another model of this file
  list<kind>, map<kind>, set<kind>   the keys of a map are free text
  union[...]    one of several kinds
"""

import datetime
import enum
import json
import os
import sys
import types
import typing
import warnings

warnings.simplefilter("ignore")

from importlib.metadata import version as package_version

from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from pydantic import BaseModel

# Declared as Any to avoid an import cycle in the package, but the values are
# AuthConfig objects: the reader turns each map into one. See check_auth().
REAL_TYPE = {(EventActions, "requested_auth_configs"): dict[str, AuthConfig]}

SAMPLE_BYTES = b"\xfb\xff"
SAMPLE_BYTES_TEXT = "-_8="
SAMPLE_ANY = {"fooBar": None, "foo_bar": [{"someKey": 1.0, "some_key": None}]}


def strip(annotation):
    """Take off Annotated."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def union_members(annotation):
    """The members of a union without None, or None if it is not a union."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return None
    members = []
    for one in typing.get_args(annotation):
        one = strip(one)
        if one is type(None):
            continue
        members += union_members(one) or [one]
    return members


def kind_of(annotation):
    annotation = strip(annotation)
    members = union_members(annotation)
    if members is not None:
        kinds = list(dict.fromkeys(kind_of(one) for one in members))
        return kinds[0] if len(kinds) == 1 else f"union[{','.join(kinds)}]"
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is typing.Any:
        return "any"
    if origin is typing.Literal:
        return "scalar"
    if origin is list:
        return f"list<{kind_of(args[0])}>"
    if origin is set:
        return f"set<{kind_of(args[0])}>"
    if origin is dict:
        value = kind_of(args[1])
        return "any" if value == "any" else f"map<{value}>"
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return f"model:{annotation.__name__}"
        if issubclass(annotation, bytes):
            return "bytes"
        if issubclass(annotation, (str, int, float, enum.Enum)):
            return "scalar"
        if issubclass(annotation, (datetime.datetime, datetime.date)):
            return "scalar"
    raise TypeError(f"no kind for {annotation!r}")


def leaves(annotation):
    """The plain types inside an annotation."""
    annotation = strip(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return
    args = typing.get_args(annotation)
    if not args:
        yield annotation
    for one in args:
        yield from leaves(one)


def annotation_of(cls, name):
    return REAL_TYPE.get((cls, name), cls.model_fields[name].annotation)


def reachable(roots):
    """All models in the order in which they are met."""
    found = []

    def walk(cls):
        if cls in found:
            return
        found.append(cls)
        for name in cls.model_fields:
            for leaf in leaves(annotation_of(cls, name)):
                if isinstance(leaf, type) and issubclass(leaf, BaseModel):
                    walk(leaf)

    for root in roots:
        walk(root)
    return found


def sample(annotation, inside):
    """A value of this type, and what it must look like as JSON, per form."""
    annotation = strip(annotation)
    members = union_members(annotation)
    if members is not None:
        return sample(members[0], inside)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is typing.Any:
        return SAMPLE_ANY, SAMPLE_ANY, SAMPLE_ANY
    if origin is typing.Literal:
        return args[0], args[0], args[0]
    if origin in (list, set):
        value, camel, snake = sample(args[0], inside)
        return origin([value]), [camel], [snake]
    if origin is dict:
        if strip(args[1]) is typing.Any:
            return SAMPLE_ANY, SAMPLE_ANY, SAMPLE_ANY
        value, camel, snake = sample(args[1], inside)
        return {"some_key": value}, {"some_key": camel}, {"some_key": snake}
    if issubclass(annotation, BaseModel):
        return sample_model(annotation, inside)
    if issubclass(annotation, bytes):
        return SAMPLE_BYTES, SAMPLE_BYTES_TEXT, SAMPLE_BYTES_TEXT
    if issubclass(annotation, enum.Enum):
        one = list(annotation)[-1]
        return one, one.value, one.value
    if issubclass(annotation, bool):
        return True, True, True
    if issubclass(annotation, int):
        return 7, 7, 7
    if issubclass(annotation, float):
        return 2.0, 2.0, 2.0
    return "text", "text", "text"


def sample_model(cls, inside=()):
    values, camel, snake = {}, {}, {}
    if cls not in inside:
        for name in cls.model_fields:
            value, c, s = sample(annotation_of(cls, name), inside + (cls,))
            values[name] = value
            camel[alias_of(cls, name)] = c
            snake[name] = s
    made = cls.model_construct(_fields_set=None, **values)
    for name in list(made.__dict__):
        if name not in values and cls in inside:
            made.__dict__[name] = None
    return made, camel, snake


def alias_of(cls, name):
    field = cls.model_fields[name]
    return field.serialization_alias or field.alias or name


def check(cls):
    """Compare what the package writes with what shapes.json will claim."""
    made, camel, snake = sample_model(cls)
    for by_alias, wanted in ((True, camel), (False, snake)):
        text = made.model_dump_json(by_alias=by_alias, exclude_none=True, warnings=False)
        # Compare as text so that the order of the keys counts too.
        if json.dumps(json.loads(text)) != json.dumps(wanted):
            sys.exit(f"{cls.__name__} writes\n{text}\nbut expected\n{json.dumps(wanted)}")


def check_auth():
    """requested_auth_configs gives AuthConfig objects when read."""
    scheme = {"type": "http", "scheme": "basic"}
    for config in ({"authScheme": scheme}, {"auth_scheme": scheme}):
        read = Event.model_validate(
            {"author": "a", "actions": {"requestedAuthConfigs": {"c": config}}}
        )
        if type(read.actions.requested_auth_configs["c"]) is not AuthConfig:
            sys.exit("requested_auth_configs is not read as AuthConfig")


def describe(cls):
    fields = []
    for name, field in cls.model_fields.items():
        annotation = annotation_of(cls, name)
        entry = {
            "snake": name,
            "camel": alias_of(cls, name),
            "kind": kind_of(annotation),
            "python": type_text(annotation),
            "default": default_text(field),
        }
        for leaf in leaves(annotation):
            if isinstance(leaf, type) and issubclass(leaf, enum.Enum):
                entry["written"] = f"value of {leaf.__name__}, a string"
                entry["values"] = [one.value for one in leaf]
            elif isinstance(leaf, type) and issubclass(leaf, datetime.date):
                entry["written"] = "ISO 8601 text"
        fields.append(entry)
    return {
        "name": cls.__name__,
        "extra": cls.model_config.get("extra") or "ignore",
        "aliases": "camel" if cls.model_config.get("alias_generator") else "as declared",
        "fields": fields,
    }


def type_text(annotation):
    annotation = strip(annotation)
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        parts = [type_text(one) for one in typing.get_args(annotation)]
        return " | ".join(parts)
    if origin is typing.Literal:
        inner = ", ".join(repr(one) for one in typing.get_args(annotation))
        return f"Literal[{inner}]"
    if origin is not None:
        inner = ", ".join(type_text(one) for one in typing.get_args(annotation))
        return f"{origin.__name__}[{inner}]"
    if annotation is type(None):
        return "None"
    return getattr(annotation, "__name__", str(annotation))


def default_text(field):
    if field.default_factory is not None:
        name = getattr(field.default_factory, "__name__", "factory")
        return "now" if name == "<lambda>" else f"{name}()"
    if field.is_required():
        return "required"
    if isinstance(field.default, enum.Enum):
        return json.dumps(field.default.value)
    return repr(field.default) if field.default is None else json.dumps(field.default)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "shapes.json")
    models = reachable([Event, Session])
    names = [cls.__name__ for cls in models]
    if len(set(names)) != len(names):
        sys.exit("two models share a name")
    for cls in models:
        check(cls)
    check_auth()
    whole = {
        "google-adk": package_version("google-adk"),
        "google-genai": package_version("google-genai"),
        "pydantic": package_version("pydantic"),
        "roots": ["Event", "Session"],
        "models": [describe(cls) for cls in models],
    }
    with open(out, "w", encoding="utf-8", newline="\n") as f:
        json.dump(whole, f, indent=1, ensure_ascii=False)
        f.write("\n")
    print(f"{len(models)} models, {sum(len(m.model_fields) for m in models)} fields")


main()
