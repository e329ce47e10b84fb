//! The structs have the fields that ADK has, by the tables that were made from the real package.

use std::collections::{BTreeMap, BTreeSet};

use super::{FieldName, Kind, Shape, shapes};
use crate::{
    actions::{EventActions, EventCompaction},
    content::{
        Blob, CodeExecutionResult, Content, ExecutableCode, FileData, FunctionCall,
        FunctionResponse, Part, Transcription, VideoMetadata,
    },
    event::Event,
    json::Json,
    response::{LlmResponse, UsageMetadata},
    session::WireSession,
};

/// The structs and their tables. An event is two structs, one flat beside the other.
fn typed() -> Vec<(&'static Shape, Vec<&'static [FieldName]>)> {
    vec![
        (&shapes::EVENT, vec![LlmResponse::FIELDS, Event::FIELDS]),
        (&shapes::EVENT_ACTIONS, vec![EventActions::FIELDS]),
        (&shapes::EVENT_COMPACTION, vec![EventCompaction::FIELDS]),
        (&shapes::CONTENT, vec![Content::FIELDS]),
        (&shapes::PART, vec![Part::FIELDS]),
        (&shapes::FUNCTION_CALL, vec![FunctionCall::FIELDS]),
        (&shapes::FUNCTION_RESPONSE, vec![FunctionResponse::FIELDS]),
        (&shapes::BLOB, vec![Blob::FIELDS]),
        (&shapes::FILE_DATA, vec![FileData::FIELDS]),
        (&shapes::EXECUTABLE_CODE, vec![ExecutableCode::FIELDS]),
        (
            &shapes::CODE_EXECUTION_RESULT,
            vec![CodeExecutionResult::FIELDS],
        ),
        (&shapes::VIDEO_METADATA, vec![VideoMetadata::FIELDS]),
        (&shapes::TRANSCRIPTION, vec![Transcription::FIELDS]),
        (
            &shapes::GENERATE_CONTENT_RESPONSE_USAGE_METADATA,
            vec![UsageMetadata::FIELDS],
        ),
        (&shapes::SESSION, vec![WireSession::FIELDS]),
    ]
}

/// Every table inside an event or a session, by the name of its model.
fn reachable() -> BTreeMap<&'static str, &'static Shape> {
    fn add(shape: &'static Shape, found: &mut BTreeMap<&'static str, &'static Shape>) {
        if found.insert(shape.name, shape).is_none() {
            for field in shape.fields {
                let mut kind = &field.kind;
                while let Kind::List(inner) | Kind::Map(inner) = kind {
                    kind = inner;
                }
                if let Kind::Model(inner) = kind {
                    add(inner, found);
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    add(&shapes::SESSION, &mut found);
    found
}

#[test]
fn structs_have_the_fields_of_their_tables_in_order() {
    for (shape, parts) in typed() {
        let ours: Vec<_> = parts.into_iter().flatten().collect();
        let ours: Vec<_> = ours
            .iter()
            .map(|field| (field.snake, field.camel))
            .collect();
        let table = shape.fields.iter();
        let table: Vec<_> = table.map(|field| (field.snake, field.camel)).collect();
        assert_eq!(ours, table, "{}", shape.name);
    }
}

/// The reader marks the fields it has seen in the bits of a `u64`.
#[test]
fn no_struct_has_more_fields_than_bits() {
    for (shape, parts) in typed() {
        assert!(
            parts.iter().all(|fields| fields.len() <= 64),
            "{}",
            shape.name
        );
    }
}

#[test]
fn no_name_stands_for_two_fields_of_one_object() {
    for shape in reachable().values() {
        let mut names = BTreeSet::new();
        for field in shape.fields {
            let is_new = names.insert(field.snake);
            let is_new = (field.camel == field.snake || names.insert(field.camel)) && is_new;
            assert!(is_new, "{}: {}", shape.name, field.snake);
        }
    }
}

#[test]
fn the_tables_are_those_of_the_recorded_package() {
    let recorded = Json::parse(include_str!("../../testdata/wire/shapes.json")).unwrap();
    let models = recorded["models"].as_array().unwrap();
    let names = |model: &str| -> Vec<(String, String)> {
        let model = models.iter().find(|known| known["name"] == model).unwrap();
        let fields = model["fields"].as_array().unwrap().iter();
        let name = |field: &Json, form: &str| field[form].as_str().unwrap().to_owned();
        fields
            .map(|field| (name(field, "snake"), name(field, "camel")))
            .collect()
    };
    let mut covered = BTreeSet::new();
    for shape in reachable().values() {
        // A union of models is one table with the fields of all of them.
        let mut expected: Vec<(String, String)> = Vec::new();
        for model in shape.name.split('|') {
            covered.insert(model);
            for field in names(model) {
                if !expected.iter().any(|(snake, _)| *snake == field.0) {
                    expected.push(field);
                }
            }
        }
        let table = shape.fields.iter();
        let table: Vec<_> = table
            .map(|field| (field.snake.to_owned(), field.camel.to_owned()))
            .collect();
        assert_eq!(table, expected, "{}", shape.name);
    }
    assert_eq!(covered.len(), models.len());
}
