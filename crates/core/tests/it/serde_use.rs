//! Events through serde: serde reads and writes the same text as the reader and writer of `Event`,
//! at any nesting.

use retain_core::{Content, Event, Json, JsonMap, Part};
use serde::{Deserialize, Serialize};

use crate::{
    models::{self, Form},
    recordings,
};

#[test]
fn serde_json_agrees_with_the_exact_reader_and_writer() {
    for recording in recordings::events() {
        let event = Event::from_json(&recording.camel).unwrap();
        for text in [&recording.camel, &recording.snake] {
            if !recording.again.contains_key("camel_from_snake") {
                assert_eq!(serde_json::from_str::<Event>(text).unwrap(), event);
            }
            let from_slice: Event = serde_json::from_slice(text.as_bytes()).unwrap();
            let from_reader: Event = serde_json::from_reader(text.as_bytes()).unwrap();
            assert_eq!(from_slice, from_reader);
            assert_eq!(from_slice, Event::from_json(text).unwrap());
        }
        let text = event.to_json().unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
        assert_eq!(serde_json::to_vec(&event).unwrap(), text.as_bytes());
        let pretty = serde_json::to_string_pretty(&event).unwrap();
        assert_eq!(Event::from_json(&pretty).unwrap(), event);
    }
}

#[test]
fn serde_json_values_agree_for_numbers_that_they_can_represent() {
    for recording in recordings::events() {
        let event = Event::from_json(&recording.camel).unwrap();
        let value = serde_json::to_value(&event).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&event.to_json().unwrap()).unwrap();
        assert_eq!(value, expected, "{}", recording.name);
        let back: Event = serde_json::from_value(value.clone()).unwrap();
        let by_text = Event::from_json(&value.to_string()).unwrap();
        assert_eq!(back, by_text, "{}", recording.name);
        // Of all values in the recordings, a `Value` rounds only integers above 64 bits.
        if !recording.camel.contains("123456789012345678901234567890") {
            assert_eq!(back, event, "{}", recording.name);
        }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    request_id: u32,
    event: Event,
    more_events: Vec<Event>,
    maybe: Option<Event>,
    none: Option<Event>,
    free_map: JsonMap,
    free: Json,
    part: Part,
}

#[test]
fn event_round_trips_as_a_field_of_a_serde_struct() {
    let event_text = models::full_event(Form::Camel).to_string();
    let free = models::user_map().to_string();
    let text = format!(
        concat!(
            r#"{{"requestId":1,"event":{e},"moreEvents":[{e},{e}],"maybe":{e},"none":null,"#,
            r#""freeMap":{f},"free":[{f},1e400],"part":{{"text":"x","new":1.50}}}}"#
        ),
        e = event_text,
        f = free
    );
    let envelope: Envelope = serde_json::from_str(&text).unwrap();
    assert_eq!(envelope.event, Event::from_json(&event_text).unwrap());
    assert_eq!(envelope.more_events.len(), 2);
    assert_eq!(envelope.maybe.as_ref(), Some(&envelope.event));
    assert_eq!(envelope.none, None);
    assert_eq!(serde_json::to_string(&envelope).unwrap(), text);
}

#[test]
fn serde_error_has_the_path_of_the_field() {
    let text = r#"{"requestId":1,"event":{"actions":{"stateDelta":[]}}}"#;
    let error = serde_json::from_str::<Envelope>(text).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("actions.stateDelta: expected an object, found a list"),
        "{message}"
    );
}

#[test]
fn serde_rejects_values_that_json_cannot_represent() {
    let mut event = Event::user_text("x");
    event.actions.state_delta.insert("score", f64::NAN);
    let message = serde_json::to_string(&event).unwrap_err().to_string();
    assert!(message.contains("actions.stateDelta.score"), "{message}");
    assert!(message.contains("NaN"), "{message}");
    let message = serde_json::to_string(&Json::from(f64::INFINITY)).unwrap_err();
    assert!(message.to_string().contains("infinit"), "{message}");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flattened {
    request_id: u32,
    #[serde(flatten)]
    event: Event,
}

/// serde copies flattened fields into a buffer of its own before a type may see them. That buffer
/// rounds large integers, so reading from it is an error.
#[test]
fn flattened_event_can_be_written_but_not_read() {
    let event = Event::from_json(&models::full_event(Form::Camel).to_string()).unwrap();
    let text = event.to_json().unwrap();
    let flattened = Flattened {
        request_id: 1,
        event,
    };
    let flat = serde_json::to_string(&flattened).unwrap();
    assert_eq!(flat, text.replacen('{', r#"{"request_id":1,"#, 1));
    assert!(serde_json::from_str::<Flattened>(&flat).is_err());
}

#[derive(Serialize)]
struct FlattenedMaps {
    #[serde(flatten)]
    map: JsonMap,
    #[serde(flatten)]
    json: Json,
    #[serde(flatten)]
    content: Content,
}

#[test]
fn flattened_maps_are_written_exactly() {
    let flattened = FlattenedMaps {
        map: JsonMap::from([(
            "big",
            Json::parse("123456789012345678901234567890").unwrap(),
        )]),
        json: Json::parse(r#"{"x":1.50,"y":{"z":1e400}}"#).unwrap(),
        content: Content::user("x"),
    };
    assert_eq!(
        serde_json::to_string(&flattened).unwrap(),
        concat!(
            r#"{"big":123456789012345678901234567890,"x":1.50,"y":{"z":1e400},"#,
            r#""parts":[{"text":"x"}],"role":"user"}"#
        )
    );
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct EventAndFlattened {
    event: Event,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

#[test]
fn event_next_to_flattened_fields_round_trips() {
    let text = format!(
        r#"{{"event":{},"other":{{"a":1}}}}"#,
        models::full_event(Form::Camel)
    );
    let read: EventAndFlattened = serde_json::from_str(&text).unwrap();
    assert_eq!(read.rest["other"]["a"], 1);
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Tagged {
    WithEvent { event: Box<Event> },
    WithContent(Content),
}

/// serde copies tagged and untagged enums into the same buffer as flattened fields.
#[test]
fn event_in_a_tagged_enum_can_be_written_but_not_read() {
    let event = Event::user_text("x");
    let text = serde_json::to_string(&Tagged::WithEvent {
        event: Box::new(event.clone()),
    });
    let expected = format!(
        r#"{{"type":"WithEvent","event":{}}}"#,
        event.to_json().unwrap()
    );
    assert_eq!(text.unwrap(), expected);
    assert!(serde_json::from_str::<Tagged>(&expected).is_err());
    let text = serde_json::to_string(&Tagged::WithContent(Content::user("x"))).unwrap();
    assert_eq!(
        text,
        r#"{"type":"WithContent","parts":[{"text":"x"}],"role":"user"}"#
    );
}
