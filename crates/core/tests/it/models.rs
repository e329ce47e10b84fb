//! The fields of every object of ADK's table, with their types and sample values.
//!
//! `scripts/generate-adk-tables` compares the table with what google-adk writes.

use std::{collections::BTreeMap, sync::LazyLock};

use retain_core::{
    Json, JsonMap,
    adk::{ObjectSchema, Presence, ValueType, table},
};

/// The objects that have a Rust struct; the others are [`retain_core::Shaped`].
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

/// Base64 as ADK writes it. Its text differs in the other alphabet and without padding.
pub(crate) const BASE64: &str = "-__-Pj8AEA==";

/// The type of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Any JSON value.
    Any,
    /// Base64.
    Bytes,
    /// A string, number or boolean.
    Scalar,
    /// A list of distinct strings.
    Set,
    /// An object with known fields.
    Model(String),
    /// A list.
    List(Box<Kind>),
    /// A map with arbitrary keys.
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
    /// Returns the field name in one of the two forms.
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

/// The spelling of field names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Camel,
    Snake,
}

static MODELS: LazyLock<BTreeMap<String, Vec<Field>>> = LazyLock::new(load);

/// Returns the fields of a model, in wire order.
pub(crate) fn fields(model: &str) -> &'static [Field] {
    &MODELS[model]
}

/// Creates a map with both names of every field of every object. The value of the snake_case name
/// is `null`.
pub(crate) fn map_of_all_names() -> Json {
    let mut map = JsonMap::new();
    for field in MODELS.values().flatten() {
        map.insert(&field.snake, Json::Null);
        map.insert(&field.camel, "+//+Pj8AEA");
    }
    map.into()
}

/// Returns the kind of a whole event.
pub(crate) fn event() -> Kind {
    Kind::Model("Event".to_owned())
}

fn load() -> BTreeMap<String, Vec<Field>> {
    let mut models = BTreeMap::new();
    for object in table::OBJECTS {
        models.insert(object.name.to_owned(), fields_of(&[object]));
        for field in object.fields {
            let objects = field.value.objects();
            if objects.len() > 1 {
                models.insert(name_of(&objects), fields_of(&objects));
            }
        }
    }
    models
}

/// Returns the fields of a value that is one of `objects`.
fn fields_of(objects: &[&ObjectSchema]) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for field in objects.iter().flat_map(|object| object.fields) {
        if !fields.iter().any(|earlier| earlier.snake == field.snake) {
            let nullable = match field.presence {
                Presence::Nullable => " | None",
                _ => "",
            };
            fields.push(Field {
                snake: field.snake.to_owned(),
                camel: field.camel.to_owned(),
                kind: kind(&field.value),
                python: python(&field.value) + nullable,
            });
        }
    }
    fields
}

fn name_of(objects: &[&ObjectSchema]) -> String {
    let names: Vec<&str> = objects.iter().map(|object| object.name).collect();
    names.join("|")
}

fn kind(value: &ValueType) -> Kind {
    match value {
        ValueType::Any | ValueType::Dict => Kind::Any,
        ValueType::Bytes => Kind::Bytes,
        ValueType::TextSet => Kind::Set,
        ValueType::List(item) => Kind::List(Box::new(kind(item))),
        ValueType::Map(item) => Kind::Map(Box::new(kind(item))),
        ValueType::Declared(_, real) => kind(real),
        ValueType::Object(object) => Kind::Model(object.name.to_owned()),
        ValueType::Union(_) => match value.objects().as_slice() {
            [] => Kind::Any,
            objects => Kind::Model(name_of(objects)),
        },
        _ => Kind::Scalar,
    }
}

fn python(value: &ValueType) -> String {
    match value {
        ValueType::Bool => "bool".to_owned(),
        ValueType::Int => "int".to_owned(),
        ValueType::Float => "float".to_owned(),
        ValueType::List(item) => format!("list[{}]", python(item)),
        ValueType::Dict => "dict[str, Any]".to_owned(),
        ValueType::Map(item) => format!("dict[str, {}]", python(item)),
        ValueType::Declared(_, real) => python(real),
        _ => "str".to_owned(),
    }
}

/// Visits `value` and everything in it that a model describes, the innermost values first.
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

/// Creates a map whose keys look like field names.
pub(crate) fn user_map() -> Json {
    Json::parse(concat!(
        r#"{"fooBar":1,"foo_bar":1.0,"stateDelta":null,"state_delta":{"mimeType":[],"mime_type":"#,
        r#"{}},"":"","z":-0,"a":123456789012345678901234567890,"e":1e400,"#,
        r#""list":[null,{"functionCall":1,"function_call":2},1.50,-0.0]}"#
    ))
    .unwrap()
}

/// Creates a value with all fields set. `form` chooses the spelling of each field.
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

/// Creates an event with every field set, all names in one form.
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

/// A path from an event to an object inside it.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) model: String,
    /// Field names as errors print them, list indexes, and keys of user maps.
    pub(crate) path: Vec<String>,
    before: String,
    after: String,
}

impl Route {
    /// Returns the text of an event with `text` at the end of the route, and the byte offset of
    /// `text`.
    pub(crate) fn text(&self, text: &str) -> (String, usize) {
        let whole = format!("{}{text}{}", self.before, self.after);
        (whole, self.before.len())
    }

    /// Returns the path of `key` in the object at the end of the route.
    pub(crate) fn path_of(&self, key: &str) -> String {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        path.join(".")
    }

    /// Returns the value at the end of the route in `event`.
    pub(crate) fn find<'a>(&self, event: &'a Json) -> &'a Json {
        self.path.iter().fold(event, |value, step| match value {
            Json::Array(items) => &items[step.parse::<usize>().unwrap()],
            _ => &value[step.as_str()],
        })
    }
}

/// Returns all paths from an event to an object that a model describes.
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
