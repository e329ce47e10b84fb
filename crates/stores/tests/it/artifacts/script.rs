//! Random operations on artifacts, as JSON that Retain and ADK execute.

use retain_core::{Json, JsonMap};
use retain_testkit::random::Random;

/// The ADK service that a script is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptTarget {
    Memory,
    Folder,
}

const USERS: &[&str] = &[
    "ada", "ada", "ada", "grace", "a b", "x/y", "", "..", "C:x", "/x", "u/Users",
];
const SESSIONS: &[&str] = &[
    "s1",
    "s1",
    "s1",
    "s2",
    "é",
    "x/y",
    "",
    "a/../b",
    "s\\t",
    "x/ſessions",
];

/// Few names in many spellings, so that they often collide.
const FILES: &[&str] = &[
    "a",
    "a",
    "a",
    "b.txt",
    "user:a",
    "user:a",
    "user:b",
    "a/b",
    "a//b",
    "./a/b",
    "a\\b",
    " a ",
    "",
    ".",
    "user:",
    "user:./x",
    "...",
    "é\n",
    "a\u{1f}",
    "/a",
    "..",
    "a/..",
    "a\\..\\b",
    "C:a",
    "user:/a",
    "user:..",
    "metadata.json",
    "x/Metadata.JSON. ",
    "versions",
    "a/versions/0",
    "a/VERSIONſ/b",
    "a/versions/0/a",
    "a\0b",
    "user:user:a",
    "%2e%2e/x",
    "~",
    "con",
    "metadata.json/x",
];

/// Parts that Retain and ADK store, in the form of ADK's HTTP API.
const PARTS: &[&str] = &[
    r#"{"text":"hello"}"#,
    r#"{"text":""}"#,
    r#"{"text":"é\n\u0000\ud83d\ude00"}"#,
    r#"{"inlineData":{"data":"AAEC_w==","mimeType":"image/png"}}"#,
    r#"{"inlineData":{"data":"AAEC_w==","mimeType":"image/png","displayName":"P é.png"}}"#,
    r#"{"inlineData":{"data":"aGk=","mimeType":"text/plain"},"text":"beside"}"#,
    r#"{"inlineData":{"data":"","mimeType":"application/octet-stream"}}"#,
    r#"{"inlineData":{"data":"","mimeType":"application/octet-stream","displayName":"d"}}"#,
    r#"{"inlineData":{"data":"","mimeType":"text/plain"}}"#,
    r#"{"inlineData":{"data":""}}"#,
    r#"{"inlineData":{"data":"eA=="}}"#,
    r#"{"text":"thinking","thought":true}"#,
];

/// Parts that a folder rejects and the in-memory service mostly stores.
const ODD_PARTS: &[&str] = &[
    r#"{}"#,
    r#"{"functionCall":{"name":"f","args":{}}}"#,
    r#"{"inlineData":{"mimeType":"image/png"}}"#,
    r#"{"fileData":{"fileUri":"gs://b/f","mimeType":"image/png"}}"#,
    r#"{"fileData":{"fileUri":"artifact://apps/app/users/ada/sessions/s1/artifacts/a/versions/0"}}"#,
    r#"{"fileData":{"fileUri":"artifact://apps/app/users/ada/sessions/s1/artifacts/b.txt/versions/0"}}"#,
    r#"{"fileData":{"fileUri":"artifact://apps/app/users/ada/artifacts/user:a/versions/0"}}"#,
    r#"{"fileData":{"fileUri":"artifact://apps/app/users/ada/artifacts/a/versions/0"}}"#,
    r#"{"fileData":{"fileUri":"artifact://apps/app/users/grace/artifacts/user:a/versions/0"}}"#,
    r#"{"fileData":{"fileUri":"artifact://apps/b/users/ada/artifacts/user:a/versions/0"}}"#,
    r#"{"fileData":{"fileUri":"artifact://nothing"}}"#,
    r#"{"fileData":{"fileUri":"artifact://apps/app/users/ada/sessions/s1/artifacts/a/versions/1"},"text":"t"}"#,
];

const METADATA: &[&str] = &["null", "{}", r#"{"k":[1,2.5,null],"snake_case":{"a":"é"}}"#];

/// Returns the operations of a seed.
pub(crate) fn generate(seed: u64, target: ScriptTarget) -> Vec<Json> {
    let mut random = Random::new(seed);
    (0..60).map(|_| operation(&mut random, target)).collect()
}

fn operation(random: &mut Random, target: ScriptTarget) -> Json {
    let mostly = |random: &mut Random, usual: &str, all: &[&str]| {
        let chosen = if random.chance(90) {
            usual
        } else {
            random.pick(all)
        };
        chosen.to_owned()
    };
    let app = mostly(random, "app", &["b", "app", "a/apps", " ", "app/x"]);
    let user = mostly(random, "ada", USERS);
    let session = if random.chance(10) {
        Json::Null
    } else {
        mostly(random, "s1", SESSIONS).into()
    };
    let file = if random.chance(60) {
        random.pick(&["a", "a", "user:a", "b.txt", "a/b"])
    } else {
        random.pick(FILES)
    };
    let mut file = file.to_owned();
    let op = random.pick(&[
        "save", "save", "save", "save", "load", "load", "load", "list", "list", "delete",
        "versions", "tell_all", "tell",
    ]);
    let mut fields = JsonMap::from([
        ("op", Json::from(op)),
        ("app", app.into()),
        ("user", user.into()),
    ]);
    fields.insert("session", session);
    if op == "save" {
        // A name that is too long for a file. Only saves use it, because whether ADK fails to load
        // it depends on the folders that exist.
        if random.chance(3) {
            file = "x".repeat(300);
        }
        let odd = random.chance(25);
        if odd && target == ScriptTarget::Folder {
            file = random.pick(&["refused", "user:refused/x"]).to_owned();
        }
        let parts = if odd { ODD_PARTS } else { PARTS };
        fields.insert("part", Json::parse(random.pick(parts)).expect("a part"));
        fields.insert(
            "notes",
            Json::parse(random.pick(METADATA)).expect("metadata"),
        );
    }
    let version = if random.chance(50) {
        Json::Null
    } else {
        Json::from(random.below(3))
    };
    fields.insert("version", version);
    fields.insert("file", file);
    Json::from(fields)
}
