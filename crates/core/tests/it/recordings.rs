//! The recorded wire forms in `testdata/wire`, as the exact bytes that ADK printed.

use std::{collections::HashMap, fs, path::PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

/// The folders of recordings, with the number of events and sessions in each.
pub(crate) const VERSIONS: [(&str, usize, usize); 2] = [("1.21.0", 96, 5), ("2.13.0", 124, 5)];

/// One recorded event or session.
pub(crate) struct Recording {
    /// Folder and file name, without the extension.
    pub(crate) name: String,
    pub(crate) camel: String,
    pub(crate) snake: String,
    /// What ADK wrote after it read one of the two texts, if that differs from the recording; by
    /// direction, e.g. `camel_from_snake`.
    pub(crate) again: HashMap<String, String>,
}

#[derive(Deserialize)]
struct File {
    camel: Box<RawValue>,
    snake: Box<RawValue>,
    #[serde(default)]
    again: HashMap<String, Box<RawValue>>,
}

/// Returns the folder with all recordings.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/wire")
}

/// Returns every recorded event of every version.
pub(crate) fn events() -> Vec<Recording> {
    let events = read(|name| !name.starts_with("session-"));
    let expected = VERSIONS.iter().map(|(_, events, _)| events).sum::<usize>();
    assert_eq!(events.len(), expected, "recorded events are missing or new");
    events
}

/// Returns every recorded session of every version.
pub(crate) fn sessions() -> Vec<Recording> {
    let sessions = read(|name| name.starts_with("session-"));
    let expected = VERSIONS.iter().map(|(_, _, n)| n).sum::<usize>();
    assert_eq!(
        sessions.len(),
        expected,
        "recorded sessions are missing or new"
    );
    sessions
}

fn read(wanted: impl Fn(&str) -> bool) -> Vec<Recording> {
    let mut found = Vec::new();
    for (version, _, _) in VERSIONS {
        for entry in fs::read_dir(folder().join(version)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if path.extension().is_none_or(|ending| ending != "json") || !wanted(&name) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let file: File = serde_json::from_str(&text).unwrap();
            found.push(Recording {
                name: format!("{version}/{name}"),
                camel: file.camel.get().to_owned(),
                snake: file.snake.get().to_owned(),
                again: file
                    .again
                    .into_iter()
                    .map(|(direction, text)| (direction, text.get().to_owned()))
                    .collect(),
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
