//! Compares Retain's requests to Gemini with ADK's, and the answers that both parse from the same
//! responses.

use retain_core::JsonMap;
use retain_testkit::oracle::{Oracle, Reference};

use super::{streams::responses, *};

/// Returns ADK's answers to all cases.
fn ask(test: &str, cases: &[Json]) -> Option<Vec<Json>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/gemini/tests/oracle.py");
    let mut oracle = Oracle::start(Reference::Adk, &format!("gemini {test}"), script)?;
    let answers = oracle.ask_all(cases);
    oracle.stop();
    Some(answers)
}

fn gemini_on(is_vertex: bool) -> GeminiWire {
    match is_vertex {
        true => vertex(),
        false => api(),
    }
}

/// Returns every case in `requests.json`, for both services.
fn cases() -> Vec<Json> {
    let cases = json(include_str!("requests.json"));
    let mut out = Vec::new();
    for case in cases.as_array().expect("a list") {
        for is_vertex in [false, true] {
            let mut case = case.as_object().expect("an object").clone();
            let contents = case.get("contents").cloned();
            let hi = json(r#"[{"role":"user","parts":[{"text":"Hi"}]}]"#);
            case.insert("contents", contents.unwrap_or(hi));
            let config = case.get("config").cloned();
            case.insert("config", config.unwrap_or_else(|| JsonMap::new().into()));
            let model = case.get("model").cloned();
            case.insert("model", model.unwrap_or_else(|| "gemini-2.5-flash".into()));
            case.insert("vertex", is_vertex);
            case.insert("kind", "request");
            out.push(case.into());
        }
    }
    out
}

/// Compares base64 in either alphabet as bytes, and treats 1 and 1.0 as equal.
fn is_same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::String(a), Json::String(b)) => {
            a == b || a.replace('-', "+").replace('_', "/") == b.replace('-', "+").replace('_', "/")
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

#[test]
fn gemini_request_matches_adk() {
    let cases = cases();
    let Some(answers) = ask("requests", &cases) else {
        return;
    };
    let mut rejected = 0;
    let mut differences = Vec::new();
    for (case, theirs) in cases.iter().zip(&answers) {
        let mut request = request(&case["contents"], &case["config"]);
        request.model = case["model"].as_str().unwrap_or_default().to_owned();
        let gemini = gemini_on(case["vertex"] == true);
        let name = format!(
            "{} on {}",
            case["name"],
            if case["vertex"] == true {
                "Vertex AI"
            } else {
                "the API"
            }
        );
        match (gemini.call(&request, false), theirs.get("error")) {
            (Ok(call), None) => {
                assert_eq!(
                    call.url,
                    theirs["url"].as_str().unwrap_or_default(),
                    "{name}"
                );
                let ours = json(&call.body);
                let mut theirs = theirs["body"].clone();
                // An empty object means the same as a missing one.
                if theirs["generationConfig"]
                    .as_object()
                    .is_some_and(JsonMap::is_empty)
                {
                    theirs
                        .as_object_mut()
                        .expect("an object")
                        .remove("generationConfig");
                }
                if !is_same(&ours, &theirs) {
                    differences.push(format!("{name}\nours   {ours}\ntheirs {theirs}"));
                }
            }
            (Err(_), Some(_)) => rejected += 1,
            (Ok(call), Some(error)) => {
                let body = call.body;
                differences.push(format!("{name}: ADK rejects it ({error}), we send {body}"));
            }
            (Err(error), None) => {
                differences.push(format!(
                    "{name}: we reject it ({error}), ADK sends {theirs}"
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(
        rejected > 20,
        "only {rejected} rejected requests were compared"
    );
}

#[test]
fn gemini_response_matches_adk() {
    let mut cases = Vec::new();
    for (name, responses) in responses() {
        for is_vertex in [false, true] {
            // Vertex AI has another name for citations.
            if is_vertex
                && Json::from(responses.clone())
                    .to_string()
                    .contains("citationSources")
            {
                continue;
            }
            let case = JsonMap::from([
                ("name", Json::from(name)),
                ("kind", "stream".into()),
                ("vertex", is_vertex.into()),
                ("responses", responses.clone().into()),
            ]);
            cases.push(Json::from(case.clone()));
            for response in &responses {
                let mut case = case.clone();
                case.insert("kind", "whole");
                case.insert("response", response.clone());
                cases.push(case.into());
            }
        }
    }
    let Some(answers) = ask("answers", &cases) else {
        return;
    };
    for (case, theirs) in cases.iter().zip(&answers) {
        let gemini = gemini_on(case["vertex"] == true);
        let ours: Vec<String> = match case["kind"].as_str() {
            Some("stream") => {
                let events = case["responses"].as_array().unwrap_or_default().iter();
                let stream: String = events.map(|event| format!("data: {event}\n\n")).collect();
                read(&gemini, stream.as_bytes(), &[]).expect("answers")
            }
            _ => vec![answer_text(
                &gemini
                    .read_answer(&case["response"].to_string())
                    .expect("an answer"),
            )],
        };
        let mut ours: Vec<Json> = ours.iter().map(|it| json(it)).collect();
        // Google's library drops the Gemini API's finish message. Retain keeps it as the error
        // message.
        let has_finish_message =
            case.to_string().contains("finishMessage") && case["vertex"] == false;
        for answer in ours.iter_mut().filter(|_| has_finish_message) {
            answer
                .as_object_mut()
                .expect("an object")
                .remove("errorMessage");
        }
        let ours = Json::from(ours);
        let theirs = json(&without_ids(&theirs["answers"].to_string()));
        assert!(
            is_same(&ours, &theirs),
            "{case}\nours   {ours}\ntheirs {theirs}"
        );
    }
}
