//! A recorded case, read from its files.

use std::{fs, path::PathBuf};

use retain_core::Json;
use retain_runtime::StreamingMode;

/// One case: the user's messages, and the recording of each streaming mode.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// `category/name`.
    pub(crate) name: String,
    /// The app to run, the initial state and the user's messages.
    pub(crate) spec: Json,
    /// The past sessions that the memory service holds.
    pub(crate) seed: Option<Json>,
    none: CaseRecording,
    sse: CaseRecording,
}

/// The recording of one streaming mode.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CaseRecording {
    /// Model and tool calls, in order.
    pub(crate) recordings: Vec<Json>,
    /// The final session.
    pub(crate) session: Json,
}

impl Case {
    /// Returns every case, sorted by name.
    pub(crate) fn all() -> Vec<Case> {
        let tests = root().join("tests");
        let mut names = Vec::new();
        for category in entries(&tests) {
            for name in entries(&tests.join(&category)) {
                names.push(format!("{category}/{name}"));
            }
        }
        names.into_iter().map(Case::read).collect()
    }

    fn read(name: String) -> Case {
        let at = format!("tests/{name}");
        let seed = root().join(&at).join("seed.json");
        let recorded = |suffix| CaseRecording {
            recordings: list(
                &yaml(&format!("{at}/generated-recordings{suffix}.yaml"))["recordings"],
            ),
            session: yaml(&format!("{at}/generated-session{suffix}.yaml")),
        };
        Case {
            spec: yaml(&format!("{at}/spec.yaml")),
            seed: seed.exists().then(|| {
                let text = fs::read_to_string(&seed).expect("the seed must be readable");
                Json::parse(&text).expect("the seed must be JSON")
            }),
            none: recorded(""),
            sse: recorded("-sse"),
            name,
        }
    }

    /// Returns the text of the recordings file.
    pub(crate) fn recordings_text(&self, mode: StreamingMode) -> String {
        let suffix = match mode {
            StreamingMode::None => "",
            StreamingMode::Sse => "-sse",
        };
        let name = format!("tests/{}/generated-recordings{suffix}.yaml", self.name);
        fs::read_to_string(root().join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn app(&self) -> &str {
        self.spec["agent"]
            .as_str()
            .expect("the case must name its app")
    }

    pub(crate) fn messages(&self) -> Vec<Json> {
        list(&self.spec["user_messages"])
    }

    pub(crate) fn recorded(&self, mode: StreamingMode) -> &CaseRecording {
        match mode {
            StreamingMode::None => &self.none,
            StreamingMode::Sse => &self.sse,
        }
    }
}

/// Returns the folder with the agents and cases.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/conformance")
}

fn entries(dir: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the folder of cases must be readable");
    let names = entries.map(|entry| {
        entry
            .expect("the folder entry must be readable")
            .file_name()
    });
    let mut names: Vec<String> = names
        .map(|name| {
            name.into_string()
                .expect("the name of a case must be UTF-8")
        })
        .collect();
    names.sort();
    names
}

/// Reads a YAML file in the folder of the cases.
pub(crate) fn yaml(path: &str) -> Json {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    // As in Python, a plain `y` is a string.
    let options = serde_saphyr::options! { strict_booleans: true };
    let value: serde_json::Value = serde_saphyr::from_str_with_options(&text, options)
        .unwrap_or_else(|e| panic!("{path}: {e}"));
    value.into()
}

/// Returns the items of a list; empty if the value is not a list.
pub(crate) fn list(value: &Json) -> Vec<Json> {
    value.as_array().map(<[Json]>::to_vec).unwrap_or_default()
}
