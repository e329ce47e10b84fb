//! ADK's models as `testdata/wire/shapes.json` lists them: which object has which fields.
//!
//! The tests learn from here what is a field, what is a map of the user and what is base64. They
//! do not ask the tables of the crate, which are what is tested.

use std::{collections::BTreeMap, fs, sync::LazyLock};

use retain_core::{Json, JsonMap};
use serde::Deserialize;

use crate::recordings;

/// The models that the crate has a struct for; the others are passed on as [`retain_core::Shaped`].
pub(crate) const TYPED: [&str; 14] = [
    "Event",
    "Content",
    "Part",
    "FunctionCall",
    "FunctionResponse",
    "Blob",
    "FileData",
    "ExecutableCode",
    "CodeExecutionResult",
    "VideoMetadata",
    "Transcription",
    "GenerateContentResponseUsageMetadata",
    "EventActions",
    "EventCompaction",
];

/// Base64 as ADK writes it, of bytes for which the two alphabets and paddings differ.
pub(crate) const BASE64: &str = "-__-Pj8AEA==";

/// What stands in a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Free JSON of the user.
    Any,
    /// Base64.
    Bytes,
    /// A text, number or boolean.
    Scalar,
    /// A list of texts without repetition.
    Set,
    /// An object with known fields.
    Model(String),
    /// A list.
    List(Box<Kind>),
    /// A map with the user's keys.
    Map(Box<Kind>),
}

/// One field of a model.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) snake: String,
    pub(crate) camel: String,
    pub(crate) kind: Kind,
    /// Its Python type.
    pub(crate) python: String,
}

impl Field {
    /// The field name in one of the two forms.
    pub(crate) fn name(&self, form: Form) -> &str {
        match form {
            Form::Camel => &self.camel,
            Form::Snake => &self.snake,
        }
    }

    pub(crate) fn has_two_names(&self) -> bool {
        self.camel != self.snake
    }
}

/// Which spelling of the field names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Camel,
    Snake,
}

#[derive(Deserialize)]
struct ShapesFile {
    models: Vec<ShapesModel>,
}

#[derive(Deserialize)]
struct ShapesModel {
    name: String,
    fields: Vec<ShapesField>,
}

#[derive(Deserialize)]
struct ShapesField {
    snake: String,
    camel: String,
    kind: String,
    python: String,
}

static MODELS: LazyLock<BTreeMap<String, Vec<Field>>> = LazyLock::new(load);

/// The fields of a model, in wire order.
pub(crate) fn fields(model: &str) -> &'static [Field] {
    &MODELS[model]
}

/// A map of the user with both names of every field of every model, one of them `null`.
pub(crate) fn map_of_all_names() -> Json {
    let mut map = JsonMap::new();
    for field in MODELS.values().flatten() {
        map.insert(&field.snake, Json::Null);
        map.insert(&field.camel, "+//+Pj8AEA");
    }
    map.into()
}

/// The kind of a whole event.
pub(crate) fn event() -> Kind {
    Kind::Model("Event".to_owned())
}

fn load() -> BTreeMap<String, Vec<Field>> {
    let text = fs::read_to_string(recordings::folder().join("shapes.json")).unwrap();
    let file: ShapesFile = serde_json::from_str(&text).unwrap();
    let mut models: BTreeMap<String, Vec<Field>> = BTreeMap::new();
    let mut unions = Vec::new();
    for model in file.models {
        let fields = model.fields.into_iter().map(|field| Field {
            kind: kind(&field.kind, &mut unions),
            snake: field.snake,
            camel: field.camel,
            python: field.python,
        });
        models.insert(model.name, fields.collect());
    }
    // A union of models is one object that may have the fields of all of them.
    for union in unions {
        let mut merged: Vec<Field> = Vec::new();
        for field in union.split('|').flat_map(|name| models[name].clone()) {
            if !merged.iter().any(|known| known.snake == field.snake) {
                merged.push(field);
            }
        }
        models.insert(union, merged);
    }
    models
}

fn kind(text: &str, unions: &mut Vec<String>) -> Kind {
    let inner = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(model) = text.strip_prefix("model:") {
        return Kind::Model(model.to_owned());
    }
    if let Some(item) = inner("list<", ">") {
        return Kind::List(Box::new(kind(item, unions)));
    }
    if let Some(item) = inner("map<", ">") {
        return Kind::Map(Box::new(kind(item, unions)));
    }
    match text {
        "any" | "union[scalar,list<scalar>]" => Kind::Any,
        "bytes" => Kind::Bytes,
        "scalar" => Kind::Scalar,
        "set<scalar>" => Kind::Set,
        _ => {
            let members = inner("union[", "]").unwrap_or_else(|| panic!("unknown kind {text}"));
            let names = members.replace("model:", "").replace(',', "|");
            unions.push(names.clone());
            Kind::Model(names)
        }
    }
}

/// Visits `value` and everything in it that a model describes, the innermost first.
pub(crate) fn walk(value: &mut Json, kind: &Kind, visit: &mut dyn FnMut(&mut Json, &Kind)) {
    match kind {
        Kind::Model(model) => {
            if let Some(map) = value.as_object_mut() {
                for field in fields(model) {
                    for name in [&field.camel, &field.snake] {
                        if let Some(inner) = map.get_mut(name) {
                            walk(inner, &field.kind, visit);
                        }
                        if !field.has_two_names() {
                            break;
                        }
                    }
                }
            }
        }
        Kind::List(item) => {
            let items = value.as_array_mut().into_iter().flatten();
            items.for_each(|inner| walk(inner, item, visit));
        }
        Kind::Map(item) => {
            if let Some(map) = value.as_object_mut() {
                let keys: Vec<String> = map.keys().map(str::to_owned).collect();
                for key in keys {
                    walk(map.get_mut(&key).unwrap(), item, visit);
                }
            }
        }
        _ => {}
    }
    visit(value, kind);
}

/// A map of the user in which every name is one that a careless writer would re-case.
pub(crate) fn user_map() -> Json {
    Json::parse(concat!(
        r#"{"fooBar":1,"foo_bar":1.0,"stateDelta":null,"state_delta":{"mimeType":[],"mime_type":"#,
        r#"{}},"":"","z":-0,"a":123456789012345678901234567890,"e":1e400,"#,
        r#""list":[null,{"functionCall":1,"function_call":2},1.50,-0.0]}"#
    ))
    .unwrap()
}

/// A value with every field of every model set. `form` says how a field is spelled.
pub(crate) fn full(kind: &Kind, python: &str, form: &mut dyn FnMut(&Field) -> Form) -> Json {
    match kind {
        Kind::Any => user_map(),
        Kind::Bytes => BASE64.into(),
        Kind::Set => vec![Json::from("b"), Json::from("a"), Json::from("é")].into(),
        Kind::Scalar => scalar(python),
        Kind::Model(model) => {
            let mut map = JsonMap::new();
            for field in fields(model) {
                let value = full(&field.kind, &field.python, form);
                map.insert(field.name(form(field)), value);
            }
            map.into()
        }
        Kind::List(item) => {
            let item_type = python.strip_prefix("list[").unwrap_or(python);
            vec![full(item, item_type, form), full(item, item_type, form)].into()
        }
        Kind::Map(item) => {
            let item_type = python.strip_prefix("dict[str, ").unwrap_or(python);
            JsonMap::from([
                ("userKey", full(item, item_type, form)),
                ("user_key", full(item, item_type, form)),
            ])
            .into()
        }
    }
}

/// An event with every field set, all names in one form.
pub(crate) fn full_event(form: Form) -> Json {
    full(&event(), "", &mut |_| form)
}

fn scalar(python: &str) -> Json {
    match python {
        _ if python.starts_with("bool") => true.into(),
        _ if python.starts_with("int") => 7.into(),
        _ if python.starts_with("float") => 1.5.into(),
        _ => "é \"\\ \n\u{1} text".into(),
    }
}

/// One way from an event to an object inside it.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) model: String,
    /// Field names as the errors print them, list places, and keys of user maps.
    pub(crate) path: Vec<String>,
    before: String,
    after: String,
}

impl Route {
    /// The text of an event with `text` at the end of the route, and the byte at which it stands.
    pub(crate) fn text(&self, text: &str) -> (String, usize) {
        let whole = format!("{}{text}{}", self.before, self.after);
        (whole, self.before.len())
    }

    /// The path of `key` in the object at the end of the route.
    pub(crate) fn path_of(&self, key: &str) -> String {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        path.join(".")
    }

    /// What stands at the end of the route in `event`.
    pub(crate) fn find<'a>(&self, event: &'a Json) -> &'a Json {
        self.path.iter().fold(event, |value, step| match value {
            Json::Array(items) => &items[step.parse::<usize>().unwrap()],
            _ => &value[step.as_str()],
        })
    }
}

/// Every way from an event to an object of a model.
pub(crate) fn routes() -> Vec<Route> {
    let start = Route {
        model: "Event".to_owned(),
        path: Vec::new(),
        before: String::new(),
        after: String::new(),
    };
    let mut found = Vec::new();
    add_routes(start, &event(), &mut found);
    found
}

fn add_routes(route: Route, kind: &Kind, found: &mut Vec<Route>) {
    let step = |name: &str, before: &str, after: &str| {
        let mut next = route.clone();
        next.path.push(name.to_owned());
        next.before.push_str(before);
        next.after.insert_str(0, after);
        next
    };
    match kind {
        Kind::Model(model) => {
            let mut here = route.clone();
            here.model = model.clone();
            found.push(here);
            for field in fields(model) {
                let before = format!("{{ \"{}\" : ", field.camel);
                add_routes(step(&field.camel, &before, "}"), &field.kind, found);
            }
        }
        Kind::List(item) => add_routes(step("0", "[ ", "]"), item, found),
        Kind::Map(item) => add_routes(step("call_1", "{\"call_1\": ", "}"), item, found),
        _ => {}
    }
}
