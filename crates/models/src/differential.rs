//! Compares Retain's requests with those that Google's ADK passes to Anthropic's library and to
//! LiteLLM. Only differences that `docs/differences-from-adk.md` documents are allowed; a part of
//! its row identifies each.

use retain_core::{Content, GenerateContentConfig, Json, JsonMap};
use retain_runtime::{LlmRequest, ModelError};
use retain_testkit::oracle::{Oracle, Reference};

fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

/// A comparison of all requests in `testdata/requests.json`, with the known differences.
pub(crate) struct Comparison<'a> {
    /// `claude` or `openai`: the provider's name in `testdata/oracle.py`.
    pub(crate) provider: &'a str,
    /// The model name for ADK.
    pub(crate) model: &'a str,
    /// Builds Retain's request.
    pub(crate) ours: &'a dyn Fn(&LlmRequest) -> Result<Json, ModelError>,
    /// Rewrites both requests so that parts with the same meaning become equal. Gets Retain's
    /// request first, then ADK's.
    pub(crate) normalize: &'a dyn Fn(&mut Json, &mut Json),
    /// Names of requests that differ, each with a part of the row that documents the difference.
    pub(crate) known_differences: &'a [(&'a str, &'a str)],
}

impl Comparison<'_> {
    pub(crate) fn run(&self) {
        let cases = cases(self.provider, self.model);
        let Some(answers) = ask(self.provider, &cases) else {
            return;
        };
        let documented = include_str!("../../../docs/differences-from-adk.md");
        let mut problems = Vec::new();
        for (case, theirs) in cases.iter().zip(answers) {
            let name = case["name"].as_str().unwrap_or_default();
            let known = self
                .known_differences
                .iter()
                .find(|(known, _)| *known == name);
            let difference = self.difference(case, theirs);
            match (difference, known) {
                (None, None) => {}
                (None, Some(_)) => problems.push(format!("{name}: no longer differs")),
                (Some(difference), None) => problems.push(format!("{name}: {difference}")),
                (Some(_), Some((_, row))) if documented.contains(row) => {}
                (Some(_), Some((_, row))) => {
                    problems.push(format!("{name}: not documented: {row}"))
                }
            }
        }
        for (name, _) in self.known_differences {
            let exists = cases.iter().any(|case| case["name"] == **name);
            assert!(exists, "there is no request {name:?}");
        }
        assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    }

    fn difference(&self, case: &Json, mut theirs: Json) -> Option<String> {
        let mut request = LlmRequest::default();
        let contents = case["contents"].as_array().expect("a list").iter();
        let content = |it: &Json| {
            Content::from_json(&it.to_string())
                .expect("a content")
                .into()
        };
        request.contents = contents.map(content).collect();
        let config = GenerateContentConfig::from_json(&case["config"].to_string());
        request.config = config.expect("settings");
        let mut ours = match (self.ours)(&request) {
            Ok(ours) => ours,
            Err(error) => return Some(format!("we reject it ({error}), ADK sends {theirs}")),
        };
        if let Some(error) = theirs.get("error") {
            return Some(format!("ADK fails ({error}), we send {ours}"));
        }
        (self.normalize)(&mut ours, &mut theirs);
        (!is_same(&ours, &theirs)).then(|| format!("\nours   {ours}\ntheirs {theirs}"))
    }
}

fn cases(provider: &str, model: &str) -> Vec<Json> {
    let cases = json(include_str!("../testdata/requests.json"));
    let case = |case: &Json| {
        let mut case = case.as_object().expect("an object").clone();
        let hi = json(r#"[{"role":"user","parts":[{"text":"Hi"}]}]"#);
        let contents = case.get("contents").cloned();
        case.insert("contents", contents.unwrap_or(hi));
        let config = case.get("config").cloned();
        case.insert("config", config.unwrap_or_else(|| JsonMap::new().into()));
        case.insert("provider", provider);
        case.insert("model", model);
        Json::from(case)
    };
    cases.as_array().expect("a list").iter().map(case).collect()
}

/// Returns ADK's answers to all cases.
fn ask(provider: &str, cases: &[Json]) -> Option<Vec<Json>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/oracle.py");
    let mut oracle = Oracle::start(
        Reference::AdkModels,
        &format!("{provider} requests"),
        script,
    )?;
    let answers = oracle.ask_all(cases);
    oracle.stop();
    Some(answers)
}

/// Compares two values. Ignores field order and number formatting, also in strings that hold JSON.
fn is_same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::String(a), Json::String(b)) if a != b => {
            let (a, b) = (Json::parse(a), Json::parse(b));
            matches!((a, b), (Ok(a @ Json::Object(_)), Ok(b)) if is_same(&a, &b))
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let is_in_b = |(key, a): (&str, &Json)| b.get(key).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(is_in_b)
        }
        _ => ours == theirs,
    }
}
