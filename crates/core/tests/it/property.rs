//! Properties of all JSON values and events, tested with random values.
//!
//! A failure prints the smallest failing input and the seed.

use std::{collections::BTreeSet, fmt::Write as _, sync::LazyLock};

use proptest::{prelude::*, sample::Index};
use retain_core::{Bytes, Event, Json, JsonMap, Part, Session};

use crate::{
    chance::cases,
    models::{self, Field, Form, Kind, TYPED},
    recordings,
};

/// A JSON value, independent of the types under test.
#[derive(Debug, Clone)]
enum Node {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Formatting of a JSON text that does not change its value.
#[derive(Debug, Clone, Copy)]
struct Formatting {
    space: &'static str,
    escape_all: bool,
}

const COMPACT: Formatting = Formatting {
    space: "",
    escape_all: false,
};

impl Node {
    fn write(&self, formatting: Formatting, out: &mut String) {
        let space = formatting.space;
        match self {
            Node::Null => out.push_str("null"),
            Node::Bool(value) => write!(out, "{value}").unwrap(),
            Node::Number(text) => out.push_str(text),
            Node::Text(text) => quote(text, formatting, out),
            Node::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    out.push_str(space);
                    item.write(formatting, out);
                    out.push_str(space);
                }
                out.push(']');
            }
            Node::Map(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    out.push_str(space);
                    quote(key, formatting, out);
                    out.push_str(space);
                    out.push(':');
                    out.push_str(space);
                    value.write(formatting, out);
                    out.push_str(space);
                }
                out.push('}');
            }
        }
    }

    fn text(&self, formatting: Formatting) -> String {
        let mut out = String::new();
        self.write(formatting, &mut out);
        out
    }
}

fn quote(text: &str, formatting: Formatting, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            _ if formatting.escape_all => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}").unwrap();
                }
            }
            '"' | '\\' => out.extend(['\\', letter]),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' => write!(out, "\\u{:04x}", letter as u32).unwrap(),
            _ => out.push(letter),
        }
    }
    out.push('"');
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|int| int.to_string()),
        any::<u64>().prop_map(|int| int.to_string()),
        "-?(0|[1-9][0-9]{0,40})",
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        any::<f64>().prop_filter_map("finite", |float| {
            float.is_finite().then(|| format!("{float:?}"))
        }),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z_]{0,8}",
        "[\\x00-\\x20\"\\\\/\\x7f\u{2028}é😀]{0,6}",
    ]
}

/// Generates keys of user maps; many are also field names of ADK's objects.
fn user_key() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => text(),
        1 => proptest::sample::select(vec![
            "stateDelta", "state_delta", "mimeType", "mime_type", "fooBar", "foo_bar", "type",
            "type_", "app:x", "user:x", "temp:x", "",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Drops entries whose key occurs earlier.
fn without_repeats(entries: Vec<(String, Node)>) -> Vec<(String, Node)> {
    let mut seen = BTreeSet::new();
    let entries = entries.into_iter();
    entries
        .filter(|(key, _)| seen.insert(key.clone()))
        .collect()
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        Just(Node::Null),
        any::<bool>().prop_map(Node::Bool),
        number().prop_map(Node::Number),
        text().prop_map(Node::Text),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Node::List),
            prop::collection::vec((user_key(), inner), 0..6)
                .prop_map(|e| Node::Map(without_repeats(e))),
        ]
    })
}

fn formatting() -> impl Strategy<Value = Formatting> {
    let space = proptest::sample::select(vec!["", " ", "\n", "\t\r\n  "]);
    (space, any::<bool>()).prop_map(|(space, escape_all)| Formatting { space, escape_all })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn compact_json_round_trips(node in node()) {
        let text = node.text(COMPACT);
        let value = Json::parse(&text).unwrap();
        prop_assert_eq!(value.to_json().unwrap(), text.as_str());
        prop_assert_eq!(value.to_string(), text.as_str());
        prop_assert_eq!(&Json::parse(&value.to_string()).unwrap(), &value);
        prop_assert_eq!(serde_json::to_string(&value).unwrap(), text.as_str());
        prop_assert_eq!(&serde_json::from_str::<Json>(&text).unwrap(), &value);
    }

    #[test]
    fn white_space_and_escapes_do_not_change_the_value(node in node(), formatting in formatting()) {
        let value = Json::parse(&node.text(formatting)).unwrap();
        prop_assert_eq!(&value, &Json::parse(&node.text(COMPACT)).unwrap());
        prop_assert_eq!(value.to_string(), node.text(COMPACT));
    }

    #[test]
    fn reader_accepts_the_same_texts_as_serde_json(text in "[\\[\\]{}:,\"\\\\0-9eE.+\\-tfnu a]{0,12}") {
        let ours = Json::parse(&text);
        match serde_json::from_str::<serde_json::Value>(&text) {
            // Compare as serde_json values, because serde_json reads `-0` and large integers as
            // floats.
            Ok(value) => prop_assert_eq!(serde_json::Value::from(ours.unwrap()), value),
            // Only Retain's reader accepts numbers that are too large for a float.
            Err(error) if error.to_string().contains("number out of range") => {}
            Err(_) => prop_assert!(ours.is_err(), "{:?} was read", text),
        }
    }

    #[test]
    fn numbers_are_equal_by_value_and_kind(int in any::<i32>(), zeros in 0usize..5) {
        let number = |text: String| Json::parse(&text).unwrap();
        let plain = number(format!("{int}.5"));
        let padded = number(format!("{int}.5{}", "0".repeat(zeros)));
        prop_assert_eq!(&plain, &padded);
        let shifted = number(format!("{int}5{}e-{}", "0".repeat(zeros), zeros + 1));
        prop_assert_eq!(&plain, &shifted);
        prop_assert_ne!(number(int.to_string()), number(format!("{int}.0")));
        prop_assert_ne!(plain, number(format!("{int}.50000000000000000000000000001")));
    }

    #[test]
    fn floats_from_rust_read_back_to_the_same_float(bits in any::<u64>()) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        let text = Json::from(float).to_json().unwrap();
        let value = Json::parse(&text).unwrap();
        prop_assert_eq!(value.as_f64().unwrap().to_bits(), bits);
        prop_assert!(text.contains(['.', 'e']), "{} is an integer", text);
    }

    #[test]
    fn bytes_are_read_in_either_alphabet_with_or_without_padding(
        bytes in prop::collection::vec(prop_oneof![Just(0xfbu8), Just(0xff), any::<u8>()], 0..12),
    ) {
        let bytes = Bytes::from(bytes);
        let url_safe = bytes.to_base64();
        let standard = url_safe.replace('-', "+").replace('_', "/");
        prop_assert_eq!(url_safe.len() % 4, 0);
        for text in [&url_safe, &standard] {
            prop_assert_eq!(Bytes::from_base64(text), Some(bytes.clone()));
            let bare = text.trim_end_matches('=');
            prop_assert_eq!(Bytes::from_base64(bare), Some(bytes.clone()));
            let text = format!(r#"{{"thoughtSignature":"{text}"}}"#);
            let part = Part::from_json(&text).unwrap();
            prop_assert_eq!(part.thought_signature.as_ref(), Some(&bytes));
            let written = format!(r#"{{"thought_signature":"{url_safe}"}}"#);
            prop_assert_eq!(part.to_snake_json().unwrap(), written);
        }
    }

    #[test]
    fn map_insert_and_remove_behave_as_in_python(ops in prop::collection::vec((0u8..40, 0u8..4, 0i64..9), 0..120)) {
        let mut map = JsonMap::new();
        let mut model: Vec<(String, i64)> = Vec::new();
        for (key, op, value) in ops {
            let key = format!("k{key}");
            let index = model.iter().position(|(name, _)| *name == key);
            match (op, index) {
                (0, Some(index)) => {
                    let (_, old) = model.remove(index);
                    prop_assert_eq!(map.remove(&key), Some(old.into()));
                }
                (0, None) => prop_assert_eq!(map.remove(&key), None),
                (_, Some(index)) => {
                    let old = std::mem::replace(&mut model[index].1, value);
                    prop_assert_eq!(map.insert(key, value), Some(old.into()));
                }
                (_, None) => {
                    model.push((key.clone(), value));
                    prop_assert_eq!(map.insert(key, value), None);
                }
            }
        }
        prop_assert_eq!(map.len(), model.len());
        for ((key, value), (name, expected)) in map.iter().zip(&model) {
            prop_assert_eq!(key, name.as_str());
            prop_assert_eq!(value.as_i64(), Some(*expected));
            prop_assert_eq!(map.get(name), Some(value));
        }
    }
}

/// Generates a random value of a field. Each key of its objects has a random spelling.
fn value_of(kind: &Kind, python: &str) -> BoxedStrategy<Node> {
    let list = |item: BoxedStrategy<Node>| prop::collection::vec(item, 0..3);
    match kind {
        Kind::Any if python.starts_with("dict") => user_map(node()).boxed(),
        Kind::Any => node().boxed(),
        Kind::Bytes => bytes().boxed(),
        Kind::Scalar => scalar(python),
        Kind::Set => {
            let ids = prop::collection::vec("[a-c]{0,2}".prop_map(Node::Text), 0..6);
            ids.prop_map(Node::List).boxed()
        }
        Kind::Model(model) => object_of(model),
        Kind::List(item) => {
            let item_type = python.strip_prefix("list[").unwrap_or(python);
            list(value_of(item, item_type)).prop_map(Node::List).boxed()
        }
        Kind::Map(item) => {
            let item_type = python.strip_prefix("dict[str, ").unwrap_or(python);
            user_map(value_of(item, item_type)).boxed()
        }
    }
}

fn user_map(item: impl Strategy<Value = Node> + 'static) -> impl Strategy<Value = Node> {
    let entries = prop::collection::vec((user_key(), item), 0..4);
    entries.prop_map(|entries| Node::Map(without_repeats(entries)))
}

/// Generates base64 in either alphabet, with or without padding.
fn bytes() -> impl Strategy<Value = Node> {
    let bytes = prop::collection::vec(any::<u8>(), 0..8);
    (bytes, any::<bool>(), any::<bool>()).prop_map(|(bytes, standard, padded)| {
        let mut text = Bytes::from(bytes).to_base64();
        if standard {
            text = text.replace('-', "+").replace('_', "/");
        }
        if !padded {
            text = text.trim_end_matches('=').to_owned();
        }
        Node::Text(text)
    })
}

fn scalar(python: &str) -> BoxedStrategy<Node> {
    match python {
        _ if python.starts_with("bool") => any::<bool>().prop_map(Node::Bool).boxed(),
        _ if python.starts_with("int") => {
            let int = any::<i64>().prop_map(|int| Node::Number(int.to_string()));
            int.boxed()
        }
        _ if python.starts_with("float") => {
            "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,9})?(e[+-]?[0-9]{1,2})?"
                .prop_map(Node::Number)
                .boxed()
        }
        _ => text().prop_map(Node::Text).boxed(),
    }
}

fn object_of(model: &str) -> BoxedStrategy<Node> {
    let declared = models::fields(model);
    let mut fields: Vec<BoxedStrategy<Option<(String, Node)>>> = Vec::new();
    for field in declared {
        let names = [field.camel.clone(), field.snake.clone()];
        let value = prop_oneof![
            9 => value_of(&field.kind, &field.python),
            1 => Just(Node::Null),
        ];
        let spelled = (proptest::sample::select(names.to_vec()), value);
        // Set more fields of small objects, so that deeply nested objects occur.
        let chance = (2.0 / declared.len() as f64).clamp(0.12, 0.6);
        fields.push(prop::option::weighted(chance, spelled).boxed());
    }
    let unknown = prop::option::weighted(0.2, (unknown_key(model), node()));
    fields.push(unknown.boxed());
    fields
        .prop_map(|fields| fields.into_iter().flatten().collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|entries| Node::Map(without_repeats(entries)))
        .boxed()
}

/// Generates a key that is not a field of `model`.
fn unknown_key(model: &str) -> BoxedStrategy<String> {
    let declared = models::fields(model);
    let is_unknown = move |key: &String| {
        let mut names = declared
            .iter()
            .flat_map(|field| [&field.camel, &field.snake]);
        !names.any(|name| name == key)
    };
    user_key().prop_filter("unknown", is_unknown).boxed()
}

/// Returns the value that the writer must write in `form` after reading `node`. Derived only from
/// the list of models.
fn expected(node: &Node, kind: &Kind, form: Form, in_struct: Option<&Field>) -> Json {
    let unchanged = || Json::parse(&node.text(COMPACT)).unwrap();
    match (kind, node) {
        (Kind::Model(model), Node::Map(entries)) => {
            let mut map = JsonMap::new();
            let is_typed = TYPED.contains(&model.as_str());
            for (key, value) in entries {
                let field = models::fields(model)
                    .iter()
                    .find(|field| field.camel == *key || field.snake == *key);
                match field {
                    None => drop(map.insert(key, expected(value, &Kind::Any, form, None))),
                    Some(_) if matches!(value, Node::Null) => {}
                    Some(field) => {
                        let in_struct = is_typed.then_some(field);
                        let value = expected(value, &field.kind, form, in_struct);
                        map.insert(field.name(form), value);
                    }
                }
            }
            add_always_written(model, form, &mut map);
            map.into()
        }
        (Kind::List(item), Node::List(items)) => {
            let items = items.iter().map(|node| expected(node, item, form, None));
            items.collect::<Vec<_>>().into()
        }
        (Kind::Map(item), Node::Map(entries)) => entries
            .iter()
            .map(|(key, node)| (key, expected(node, item, form, None)))
            .collect::<JsonMap>()
            .into(),
        (Kind::Bytes, Node::Text(text)) => {
            let url_safe = text.replace('+', "-").replace('/', "_");
            let padding = "=".repeat((4 - url_safe.trim_end_matches('=').len() % 4) % 4);
            format!("{}{padding}", url_safe.trim_end_matches('=')).into()
        }
        (Kind::Set, Node::List(_)) => {
            let mut ids: Vec<Json> = Vec::new();
            for id in unchanged().as_array().unwrap() {
                if !ids.contains(id) {
                    ids.push(id.clone());
                }
            }
            ids.into()
        }
        (Kind::Scalar, Node::Number(text))
            if in_struct.is_some_and(|field| field.python.starts_with("float")) =>
        {
            text.parse::<f64>().unwrap().into()
        }
        _ => unchanged(),
    }
}

/// Adds the fields that ADK writes even if they were not set.
fn add_always_written(model: &str, form: Form, map: &mut JsonMap) {
    let always: &[&str] = match model {
        "Event" => &["invocation_id", "author", "actions", "id", "timestamp"],
        "EventActions" => &[
            "state_delta",
            "artifact_delta",
            "requested_auth_configs",
            "requested_tool_confirmations",
        ],
        "EventCompaction" => &["start_timestamp", "end_timestamp", "compacted_content"],
        _ => &[],
    };
    for field in models::fields(model) {
        let name = field.name(form);
        if !always.contains(&field.snake.as_str()) || map.contains_key(name) {
            continue;
        }
        let value = match (&field.kind, field.python.as_str()) {
            (Kind::Scalar, "float") => 0.0.into(),
            (Kind::Scalar, _) => "".into(),
            (kind, _) => expected(&Node::Map(Vec::new()), kind, form, None),
        };
        map.insert(name, value);
    }
}

/// Asserts that the event, written in either form, reads back equal.
fn assert_round_trips(event: &Event) -> Result<(), TestCaseError> {
    let (camel, snake) = (event.to_json().unwrap(), event.to_snake_json().unwrap());
    for text in [&camel, &snake] {
        let back = Event::from_json(text).unwrap();
        prop_assert_eq!(&back, event);
        prop_assert_eq!(&back.to_json().unwrap(), &camel);
        prop_assert_eq!(&back.to_snake_json().unwrap(), &snake);
    }
    prop_assert_eq!(&serde_json::to_string(event).unwrap(), &camel);
    prop_assert_eq!(&serde_json::from_str::<Event>(&snake).unwrap(), event);
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn random_events_are_written_as_adks_models_define(node in object_of("Event"), formatting in formatting()) {
        let event = Event::from_json(&node.text(formatting)).unwrap();
        for (form, written) in [
            (Form::Camel, event.to_json().unwrap()),
            (Form::Snake, event.to_snake_json().unwrap()),
        ] {
            let written = Json::parse(&written).unwrap();
            prop_assert_eq!(written, expected(&node, &models::event(), form, None));
        }
        assert_round_trips(&event)?;
    }

    #[test]
    fn random_sessions_round_trip(
        events in prop::collection::vec(object_of("Event"), 0..3),
        state in user_map(node()),
        snake in any::<bool>(),
    ) {
        let names = match snake {
            true => ["app_name", "user_id", "last_update_time"],
            false => ["appName", "userId", "lastUpdateTime"],
        };
        let entries = vec![
            ("id".to_owned(), Node::Text("s".to_owned())),
            (names[0].to_owned(), Node::Text("a".to_owned())),
            (names[1].to_owned(), Node::Text("u".to_owned())),
            ("state".to_owned(), state.clone()),
            ("events".to_owned(), Node::List(events)),
            (names[2].to_owned(), Node::Number("1.5".to_owned())),
        ];
        let session = Session::from_json(&Node::Map(entries).text(COMPACT)).unwrap();
        let (camel, snake) = (session.to_json().unwrap(), session.to_snake_json().unwrap());
        for text in [&camel, &snake] {
            prop_assert!(text.contains(&state.text(COMPACT)));
            let back = Session::from_json(text).unwrap();
            prop_assert_eq!(&back, &session);
            prop_assert_eq!(&back.to_json().unwrap(), &camel);
            prop_assert_eq!(&back.to_snake_json().unwrap(), &snake);
        }
    }
}

static RECORDED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let recordings = recordings::events().into_iter();
    recordings.flat_map(|r| [r.camel, r.snake]).collect()
});

/// A random corruption of a text.
#[derive(Debug, Clone)]
enum Change {
    Set(Index, u8),
    Remove(Index, u8),
    Insert(Index, &'static str),
    /// Copies some bytes to another offset.
    Copy(Index, u8, Index),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let pieces = vec![
        "null",
        "true",
        "NaN",
        "-Infinity",
        "1e400",
        "1.0",
        "-0",
        "\"",
        "\\",
        "\\u",
        "\\ud800",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "{}",
        "[]",
        "\"x\":1,",
        "\"content\":null,",
        "\"state_delta\":{},",
        "\"stateDelta\":{},",
        "\"type_\":\"a\",",
        "\"type\":\"b\",",
        "\"id\":\"c\",",
        "é",
        "\0",
        " ",
        "123456789012345678901234567890",
    ];
    prop_oneof![
        3 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        3 => (any::<Index>(), 1u8..30).prop_map(|(at, n)| Change::Remove(at, n)),
        4 => (any::<Index>(), proptest::sample::select(pieces)).prop_map(|(at, p)| Change::Insert(at, p)),
        3 => (any::<Index>(), 1u8..60, any::<Index>()).prop_map(|(a, n, b)| Change::Copy(a, n, b)),
        1 => any::<Index>().prop_map(Change::Cut),
    ]
}

fn apply(change: &Change, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match change {
        Change::Set(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Remove(at, n) => {
            let at = at.index(bytes.len());
            bytes.drain(at..bytes.len().min(at + usize::from(*n)));
        }
        Change::Insert(at, piece) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, piece.bytes());
        }
        Change::Copy(from, n, to) => {
            let from = from.index(bytes.len());
            let copied = bytes[from..bytes.len().min(from + usize::from(*n))].to_vec();
            let to = to.index(bytes.len());
            bytes.splice(to..to, copied);
        }
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
}

/// Returns the offsets in a text where a field could start: after `{` and `,`.
fn field_offsets(text: &str) -> Vec<usize> {
    let separators = text.char_indices();
    let separators = separators.filter(|(_, letter)| matches!(letter, '{' | ','));
    separators.map(|(at, _)| at + 1).collect()
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn corrupt_event_is_rejected_or_round_trips(
        recording in any::<Index>(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let mut bytes = recording.get(&RECORDED).clone().into_bytes();
        changes.iter().for_each(|change| apply(change, &mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        // The offset of an error must lie within the text.
        match Event::from_json(&text) {
            Ok(event) => assert_round_trips(&event)?,
            Err(error) => prop_assert!(error.offset() <= text.len(), "{}", error),
        }
        let _ = Session::from_json(&text);
        let _ = Json::parse(&text);
    }

    /// Complements the test above: a corrupt event is usually unreadable, but an event with an
    /// inserted field usually stays readable.
    #[test]
    fn event_with_an_inserted_field_is_rejected_or_keeps_it(
        recording in any::<Index>(),
        offset in any::<Index>(),
        name in 0..4usize,
        field in any::<Index>(),
        value in node(),
    ) {
        let text = recording.get(&RECORDED);
        let at = *offset.get(&field_offsets(text));
        let all: Vec<&Field> = ["Event", "Part", "AuthCredential", "GroundingChunkWeb"]
            .iter()
            .flat_map(|model| models::fields(model))
            .collect();
        let field = field.get(&all);
        let name = [field.camel.as_str(), field.snake.as_str(), "newField", "new_field"][name];
        let value = value.text(COMPACT);
        let text = format!("{}\"{name}\":{value},{}", &text[..at], &text[at..]);
        if let Ok(event) = Event::from_json(&text) {
            assert_round_trips(&event)?;
            if name.starts_with("new") && Json::parse(&text).is_ok() && !text[..at].ends_with("[") {
                let entry = format!("\"{name}\":{value}");
                prop_assert!(event.to_json().unwrap().contains(&entry));
                prop_assert!(event.to_snake_json().unwrap().contains(&entry));
            }
        }
    }
}

/// Inserts a field at every offset of every recording where a field could start, and counts the
/// events that stay readable.
#[test]
fn unknown_field_is_kept_in_every_object() {
    let mut read = 0;
    for text in RECORDED.iter() {
        for at in field_offsets(text) {
            let (before, after) = text.split_at(at);
            let text = format!("{before}\"newField\":1.50,{after}");
            if let Ok(event) = Event::from_json(&text) {
                read += 1;
                for written in [event.to_json().unwrap(), event.to_snake_json().unwrap()] {
                    assert!(written.contains("\"newField\":1.50"), "{text}\n{written}");
                }
            }
        }
    }
    assert!(read > 5000, "only {read} events");
}
