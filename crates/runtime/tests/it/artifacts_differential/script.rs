//! Random scripts: turns with artifacts, as JSON that both sides run.
//!
//! `files` exist before the first turn; each of `turns` contains the parts of a message; `replies`
//! and `helperReplies` are the two models' replies, in order; `rewind` is the number of the turn
//! before which the session is rewound at the end.

use retain_core::{Json, JsonMap};
use retain_testkit::random::Random;

const NAMES: [&str; 8] = [
    "note.txt",
    "photo.png",
    "data.CSV",
    "user:prefs.json",
    "user:portrait",
    "wörd \u{1f600}\u{7f} \"x\"",
    "blob.bin",
    "sub/plan.xml",
];

/// A file saved without a session. `FileArtifactService` assigns it to the user, even without the
/// prefix `user:`.
pub(crate) const SHARED: &str = "shared.txt";

/// More names that a model may request: with and without `user:`, and some that do not exist.
const OTHER_NAMES: [&str; 7] = [
    SHARED,
    "user:shared.txt",
    "prefs.json",
    "portrait",
    "user:photo.png",
    "unknown",
    "../note.txt",
];

const TYPES: [&str; 14] = [
    "text/plain",
    "text/CSV; charset=utf-8",
    "image/png",
    "IMAGE/PNG ; q=1; r=2",
    "image/svg+xml",
    " application/json",
    "application/octet-stream",
    "application/pdf",
    "application/x-tar",
    "audio/wav",
    ";",
    "image/xml",
    "video/mp4",
    "x",
];

/// Data in base64, as on the wire: text, binary data, no data and the start of a ZIP file.
const DATA: [&str; 5] = [
    "aGVsbG8gd8O2cmxk",
    "AAEC__7D",
    "",
    "w-KCwgD_8J-YgA==",
    "UEsDBAoAAAAAAA==",
];

pub(crate) fn script(seed: u64) -> Json {
    let mut random = Random::new(seed);
    let random = &mut random;
    let in_folder = random.chance(40);
    let files = list(random, 4, |random| {
        let name = match in_folder && random.chance(40) {
            true => SHARED,
            false => random.pick(&NAMES),
        };
        let part = part(random, in_folder, name);
        Json::from(JsonMap::from([("name", Json::from(name)), ("part", part)]))
    });
    let turns = 1 + random.below(3);
    let mut fields = JsonMap::from([("folder", Json::from(in_folder)), ("files", files)]);
    let turns = (0..turns).map(|turn| message(random, turn == 0));
    let turns = turns.collect::<Vec<_>>();
    fields.insert("rewind", random.below(turns.len() as u64));
    fields.insert("turns", turns);
    fields.insert("replies", list(random, 10, |random| reply(random, true)));
    let replies = list(random, 6, |random| reply(random, false));
    fields.insert("helperReplies", replies);
    fields.into()
}

fn list(random: &mut Random, end: u64, make: impl Fn(&mut Random) -> Json) -> Json {
    let count = random.below(end) + 1;
    let items = (0..count).map(|_| make(random)).collect::<Vec<_>>();
    items.into()
}

fn text(text: &str) -> Json {
    JsonMap::from([("text", text)]).into()
}

/// Returns a file. The file that instructions quote always contains text; see "Artifacts" in
/// docs/differences-from-adk.md.
fn part(random: &mut Random, in_folder: bool, name: &str) -> Json {
    if name == "note.txt" || random.chance(20) {
        return text("Some wörds.");
    }
    let mut blob = blob(random);
    if !in_folder && random.chance(10) {
        blob.remove("data");
    }
    JsonMap::from([("inlineData", blob)]).into()
}

fn blob(random: &mut Random) -> JsonMap {
    let mut blob = JsonMap::from([("data", random.pick(&DATA))]);
    if random.chance(90) {
        blob.insert("mimeType", random.pick(&TYPES));
    }
    blob
}

/// Returns a message of text and files. A file without a name is named after the run id, and the
/// order of two run ids differs between the sides, so only one message has such files.
fn message(random: &mut Random, may_be_nameless: bool) -> Json {
    let mut parts = vec![text("Look.")];
    for _ in 0..random.below(3) {
        let mut blob = blob(random);
        match random.below(4) {
            0 if may_be_nameless => {}
            1 if may_be_nameless => drop(blob.insert("displayName", "")),
            2 => drop(blob.insert("displayName", "user:portrait")),
            _ => drop(blob.insert("displayName", random.pick(&["photo.png", "blob.bin"]))),
        }
        parts.push(JsonMap::from([("inlineData", blob)]).into());
    }
    parts.into()
}

/// Returns a model's reply: text, or one or two calls. At most one of the calls saves a file,
/// because two concurrent calls run in any order.
fn reply(random: &mut Random, may_call_helper: bool) -> Json {
    let calls = random.below(4).min(2);
    if calls == 0 {
        return vec![text("Well.")].into();
    }
    let mut parts = vec![call(random, may_call_helper)];
    if calls > 1 {
        parts.insert(random.below(2) as usize, load_call(random));
    }
    parts.into()
}

fn call(random: &mut Random, may_call_helper: bool) -> Json {
    let (name, args) = match random.below(10) {
        0..6 => return load_call(random),
        6 if may_call_helper => ("helper", JsonMap::from([("request", "Help!")])),
        _ => {
            let name = random.pick(&["note.txt", "user:portrait", "sub/plan.xml"]);
            let text = match may_call_helper {
                true => "saved",
                false => "saved by the helper",
            };
            ("save", JsonMap::from([("name", name), ("text", text)]))
        }
    };
    function_call(name, args)
}

fn load_call(random: &mut Random) -> Json {
    function_call("load_artifacts", load_args(random))
}

fn function_call(name: &str, args: JsonMap) -> Json {
    let mut call = JsonMap::from([("name", name)]);
    call.insert("args", args);
    JsonMap::from([("functionCall", call)]).into()
}

/// Returns arguments for `load_artifacts`, some of them invalid.
fn load_args(random: &mut Random) -> JsonMap {
    let invalid = match random.below(100) {
        0..3 => Some(Json::from("note.txt")),
        3..6 => Some(vec![Json::from("note.txt"), Json::from(1)].into()),
        6..9 => Some(Json::Null),
        9..12 => return JsonMap::new(),
        _ => None,
    };
    let names = invalid.unwrap_or_else(|| {
        list(random, 4, |random| match random.chance(75) {
            true => random.pick(&NAMES).into(),
            false => random.pick(&OTHER_NAMES).into(),
        })
    });
    JsonMap::from([("artifact_names", names)])
}
