//! Recorded output of ADK round-trips byte for byte, in both forms.

use retain_core::{Event, Json, JsonError, Session};

use crate::recordings::{self, Recording};

/// Recordings that ADK changes when it reads and writes them again. `again` records that second
/// output, which Retain writes the first time.
const ADK_CHANGES_ON_READING: [(&str, &str); 5] = [
    // ADK renames the fields of a Python model object inside a user's map. After reading, the
    // object is a plain map, which ADK does not rename.
    ("021-function-call-args-python-values", "snake_from_camel"),
    ("021-function-call-args-python-values", "camel_from_snake"),
    ("082-output-model-object", "snake_from_camel"),
    ("082-output-model-object", "camel_from_snake"),
    // ADK writes a NaN in a float field as null; once read, the field is absent and omitted.
    ("062-not-a-number", ""),
];

/// Reads a text and writes it in camelCase and in snake_case.
type BothForms = fn(&str) -> Result<[String; 2], JsonError>;

fn event(text: &str) -> Result<[String; 2], JsonError> {
    let event = Event::from_json(text)?;
    Ok([event.to_json()?, event.to_snake_json()?])
}

fn session(text: &str) -> Result<[String; 2], JsonError> {
    let session = Session::from_json(text)?;
    Ok([session.to_json()?, session.to_snake_json()?])
}

fn changes_on_reading(recording: &Recording, direction: &str) -> bool {
    ADK_CHANGES_ON_READING.iter().any(|(file, only)| {
        recording.name.ends_with(file) && (only.is_empty() || *only == direction)
    })
}

/// Checks the four directions of one recording and returns the number of exceptions.
fn check(recording: &Recording, both_forms: BothForms) -> usize {
    let mut exceptions = 0;
    for (from, text) in [("camel", &recording.camel), ("snake", &recording.snake)] {
        let written = both_forms(text).unwrap_or_else(|e| panic!("{} {from}: {e}", recording.name));
        let recorded = [("camel", &recording.camel), ("snake", &recording.snake)];
        for ((to, recorded), written) in recorded.into_iter().zip(written) {
            let direction = format!("{to}_from_{from}");
            let expected = match changes_on_reading(recording, &direction) {
                true => {
                    exceptions += 1;
                    let again = &recording.again[&direction];
                    assert_ne!(
                        again, recorded,
                        "{}: the second output does not differ",
                        recording.name
                    );
                    again
                }
                false => recorded,
            };
            assert_eq!(&written, expected, "{}: {direction}", recording.name);
        }
    }
    exceptions
}

#[test]
fn recorded_events_are_written_as_in_adk() {
    let events = recordings::events();
    let exceptions: usize = events.iter().map(|recording| check(recording, event)).sum();
    // Two directions of 021 and four of 062 in both versions, two of 082 in the newer one.
    assert_eq!(exceptions, 2 * (2 + 4) + 2);
}

#[test]
fn recorded_sessions_are_written_as_in_adk() {
    let sessions = recordings::sessions();
    let exceptions: usize = sessions.iter().map(|r| check(r, session)).sum();
    assert_eq!(exceptions, 0);
}

#[test]
fn events_that_adk_rewrote_are_read_without_loss() {
    let mut texts = 0;
    for recording in recordings::events() {
        for (direction, text) in &recording.again {
            texts += 1;
            let [camel, snake] = event(text).unwrap();
            // ADK writes a stray `in_` for an API key scheme; Retain writes `in`.
            let (own, text) = match direction.starts_with("camel") {
                true => (&camel, &text.replace("\"in_\":", "\"in\":")),
                false => (&snake, text),
            };
            assert_eq!(own, text, "{}: {direction}", recording.name);
            // The rewritten auth schemes have both `type` and `type_`; a round trip keeps both.
            let [back, _] = event(&snake).unwrap();
            assert_eq!(back, camel, "{}: {direction}", recording.name);
            let [_, back] = event(&camel).unwrap();
            assert_eq!(back, snake, "{}: {direction}", recording.name);
        }
    }
    assert!(texts > 20, "only {texts} texts");
}

#[test]
fn recordings_round_trip_as_plain_json() {
    for recording in recordings::events().iter().chain(&recordings::sessions()) {
        for text in [&recording.camel, &recording.snake] {
            assert_eq!(Json::parse(text).unwrap().to_string(), **text);
        }
    }
}

#[test]
fn session_parses_its_events_like_single_events() {
    for recording in recordings::sessions() {
        let whole = Json::parse(&recording.camel).unwrap();
        let session = Session::from_json(&recording.camel).unwrap();
        let events = whole["events"].as_array().unwrap();
        assert_eq!(session.events.len(), events.len());
        assert_eq!(session.position, events.len() as u64);
        for (read, written) in session.events.iter().zip(events) {
            let alone = Event::from_json(&written.to_string()).unwrap();
            assert_eq!(*read, alone, "{}", recording.name);
        }
        assert_eq!(session, Session::from_json(&recording.snake).unwrap());
    }
}
