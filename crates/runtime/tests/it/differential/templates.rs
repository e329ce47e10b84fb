//! Random templates, each rendered with a random state.

use std::collections::HashMap;

use retain_core::{Json, JsonMap, Part, State};
use retain_runtime::template::{Template, TemplateError};
use retain_testkit::random::Random;

use crate::differential::{
    oracle::{Oracle, cases},
    values,
};

const NAMES: [&str; 16] = [
    "name",
    "_x1",
    "größe",
    "漢字",
    "app:name",
    "user:name",
    "temp:name",
    "ªb",
    "ﬁ",
    "x\u{300}",
    "artifact.notes.txt",
    "artifact.user:report",
    "artifact.",
    "artifact.data.bin",
    "artifact.no",
    "missing",
];

const ODD_NAMES: [&str; 17] = [
    "",
    "1a",
    "a b",
    "a-b",
    "foo:name",
    "app:",
    ":name",
    "app:a:b",
    "\"a\": 1",
    "a.b",
    "name?x",
    "name ",
    "\u{300}x",
    "Artifact.x",
    "app: name",
    "a\u{b7}",
    "½",
];

/// Text between placeholders, much of it almost a placeholder.
const BETWEEN: [&str; 19] = [
    "{", "}", "{{", "}}", "$", "\\", " ", "\n", "\u{1c}", "\u{3000}", "?", "text", "é😀", "${",
    "\\{", "}{", ":", "{}", "\u{200b}",
];

struct Case {
    template: String,
    state: JsonMap,
    artifacts: Option<JsonMap>,
}

impl Case {
    fn generate(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let mut template = String::new();
        for _ in 0..random.below(7) {
            match random.below(4) {
                0 => template += random.pick(&BETWEEN),
                1 => push_placeholder(&mut template, random.pick(&ODD_NAMES), &mut random),
                _ => push_placeholder(&mut template, random.pick(&NAMES), &mut random),
            }
        }
        let mut state = JsonMap::new();
        for name in NAMES.iter().chain(&ODD_NAMES) {
            // A missing value ends the rendering, so it must be rare.
            if *name != "missing" && random.chance(90) {
                state.insert(*name, values::value(&mut random, 2, false));
            }
        }
        let artifacts = random.chance(80).then(|| artifacts(&mut random));
        Case {
            template,
            state,
            artifacts,
        }
    }

    fn to_json(&self) -> Json {
        JsonMap::from([
            ("template", Json::from(self.template.as_str())),
            ("state", self.state.clone().into()),
            (
                "artifacts",
                self.artifacts.clone().map_or(Json::Null, Json::from),
            ),
        ])
        .into()
    }

    fn render(&self) -> Json {
        let state: State = self.state.clone().into();
        let artifacts = self.artifacts.as_ref().map(|artifacts| {
            let parts = artifacts.iter().map(|(name, part)| {
                let part = Part::from_json(&part.to_string()).expect("a part");
                (name.to_owned(), part)
            });
            parts.collect::<HashMap<_, _>>()
        });
        let answer = match Template::parse(&self.template).render(&state, artifacts.as_ref()) {
            Ok(text) => JsonMap::from([("text", text)]),
            Err(TemplateError::MissingKey { key, .. }) => {
                JsonMap::from([("error", "MissingKey".to_owned()), ("name", key)])
            }
            Err(TemplateError::MissingArtifact { name, .. }) => {
                JsonMap::from([("error", "MissingArtifact".to_owned()), ("name", name)])
            }
            Err(TemplateError::NoArtifactService { .. }) => {
                JsonMap::from([("error", "NoArtifactService")])
            }
            Err(other) => panic!("{other}"),
        };
        answer.into()
    }
}

fn push_placeholder(template: &mut String, name: &str, random: &mut Random) {
    let (open, close) = match random.below(8) {
        0 => ("{{", "}}"),
        1 => ("{", "}}"),
        2 => ("{{{", "}"),
        3 => ("{ ", "\n}"),
        4 => ("{\u{1c}\u{a0}", "\u{1f}}"),
        _ => ("{", "}"),
    };
    let optional = random.pick(&["", "", "?", "??", " ?"]);
    template.push_str(open);
    template.push_str(name);
    template.push_str(optional);
    template.push_str(close);
}

/// Generates artifacts that both sides render in the same way: neither media nor documents.
fn artifacts(random: &mut Random) -> JsonMap {
    let mut artifacts = JsonMap::new();
    for name in ["notes.txt", "user:report", "data.bin", ""] {
        let data = random.pick(&["aGVsbG8=", "_w==", "4oI=", "", "8J-YgA=="]);
        let mime = random.pick(&[
            "text/plain",
            " Text/HTML ; charset=utf-8",
            "image/svg+xml",
            "application/json",
            "application/x-thing",
            "",
            "application/octet-stream",
        ]);
        let blob = JsonMap::from([("data", data), ("mimeType", mime)]);
        let part = match random.below(4) {
            0 => JsonMap::from([("text", values::text(random))]),
            1 => JsonMap::from([("inlineData", JsonMap::from([("mimeType", mime)]))]),
            _ => JsonMap::from([("inlineData", blob)]),
        };
        if random.chance(85) {
            artifacts.insert(name, part);
        }
    }
    artifacts
}

pub(crate) fn compare() {
    let seeds = cases(6000);
    let Some(mut oracle) = Oracle::start("templates") else {
        return;
    };
    let mut outcomes: HashMap<String, usize> = HashMap::new();
    for batch in seeds.batches(500) {
        let cases: Vec<Case> = batch.clone().map(Case::generate).collect();
        let answers = oracle.ask("templates", cases.iter().map(Case::to_json));
        for ((seed, case), theirs) in batch.zip(&cases).zip(&answers) {
            let ours = case.render();
            assert_eq!(ours, *theirs, "RETAIN_SEED={seed}: {}", case.to_json());
            let is_same = theirs["text"] == *case.template;
            let outcome = theirs["error"].as_str();
            let outcome = outcome.unwrap_or(if is_same { "unchanged" } else { "filled in" });
            *outcomes.entry(outcome.to_owned()).or_default() += 1;
        }
    }
    oracle.stop();
    if seeds.is_whole_run() {
        println!("{outcomes:?}");
        assert_eq!(outcomes.len(), 5, "{outcomes:?}");
        assert!(outcomes.values().all(|count| *count > 100), "{outcomes:?}");
    }
}
