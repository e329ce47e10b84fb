//! Google's own server (google-adk 2.13) and Retain's return the same responses to the same
//! requests.
//!
//! Intended differences are explained by a [`Rule`]. A difference without a rule fails the test,
//! and so does a rule without a difference. `RETAIN_SHOW=1` prints all differences.

mod cases;
mod echo;
mod normal;
mod openapi;
mod rules;
mod table;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use axum::{body::Body, http::Request};
use cases::Case;
use normal::Answer;
use retain_core::{Json, JsonMap};
use retain_memory::InMemoryMemoryService;
use retain_runtime::{AgentsDir, ConfigRegistry};
use retain_server::{Apps, Server, Services};
use retain_stores::{InMemoryArtifactService, InMemorySessionService};
use retain_testkit::oracle::{Oracle, Reference, setting};
use rules::Rule;
use tower::ServiceExt as _;

fn test_file(path: &str) -> PathBuf {
    let folder = [
        env!("CARGO_MANIFEST_DIR"),
        "tests/it",
        "adk_differential",
        path,
    ];
    folder.iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_adk() {
    let cases = cases::all();
    println!("{} requests", cases.len());
    assert!(cases.len() > 1000);
    let Some(used) = compare(&cases, None).await else {
        return;
    };
    for (rule, count) in &used {
        println!("{count:6} {rule:?}");
    }
    let unused = |rule: &&Rule| !used.contains_key(rule);
    let unused: Vec<&Rule> = Rule::ALL.iter().filter(unused).collect();
    assert!(
        unused.is_empty(),
        "rules that explain no difference: {unused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_for_the_default_app_match_adk() {
    compare(&cases::without_app(), Some("plain")).await;
}

/// Sends the requests to both servers and fails for differences without a rule. Returns how often
/// each rule was used; `None` if Google's server is not installed.
async fn compare(cases: &[Case], default_app: Option<&str>) -> Option<BTreeMap<Rule, usize>> {
    let mut google = start_google(default_app)?;
    let server = retain_server(default_app);
    let mut used: BTreeMap<Rule, usize> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for case in cases {
        let theirs = ask_google(&mut google, case);
        let ours = ask(&server, case).await;
        if !theirs.differs_from(&ours) {
            continue;
        }
        let explains = |rule: &&Rule| rule.explains(case, &ours, &theirs);
        let rule = Rule::ALL.iter().find(explains);
        let shown = format!("{case:?}\n  google {theirs:?}\n  ours   {ours:?}");
        if setting("RETAIN_SHOW").is_some() {
            println!("{rule:?} {shown}");
        }
        match rule {
            Some(rule) => *used.entry(*rule).or_default() += 1,
            None => unexplained.push(shown),
        }
    }
    google.stop();
    let count = unexplained.len();
    unexplained.truncate(20);
    assert_eq!(
        count,
        0,
        "differences without a rule:\n{}",
        unexplained.join("\n")
    );
    Some(used)
}

#[test]
fn every_difference_rule_is_documented() {
    let docs: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs"]
        .iter()
        .collect();
    let text = std::fs::read_to_string(docs.join("differences-from-adk.md"));
    let text = text.expect("the differences are documented");
    for rule in Rule::ALL {
        assert!(text.contains(&format!("| {rule:?} |")), "{rule:?}");
    }
}

fn retain_server(default_app: Option<&str>) -> Arc<Server> {
    let services = Services::new(
        Arc::new(InMemorySessionService::new()),
        Arc::new(InMemoryMemoryService::new()),
        Arc::new(InMemoryArtifactService::new()),
    );
    let registry = ConfigRegistry::new().with_model_resolver(|_, _| Ok(Arc::new(echo::Echo)));
    let dir = AgentsDir::open(test_file("agents"), registry).expect("agents");
    let mut apps = Apps::new(services.clone()).with_dir(dir);
    if let Some(app) = default_app {
        apps = apps.with_default_app(app);
    }
    Arc::new(Server::new(services, apps))
}

async fn ask(server: &Arc<Server>, case: &Case) -> Answer {
    let request = Request::builder()
        .method(case.method)
        .uri(&case.path)
        .header("host", "127.0.0.1:8000");
    let request = match case.kind {
        "" => request,
        kind => request.header("content-type", kind),
    };
    let request = request
        .body(Body::from(case.body.clone()))
        .expect("a request");
    let answer = server.router().oneshot(request).await;
    let answer = answer.unwrap_or_else(|never| match never {});
    let header = |name: &str| {
        let value = answer.headers().get(name);
        value
            .map(|value| value.to_str().expect("text").to_owned())
            .unwrap_or_default()
    };
    let (status, kind, location) = (
        answer.status().as_u16(),
        header("content-type"),
        header("location"),
    );
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX)
        .await
        .expect("a body");
    let text = String::from_utf8(body.to_vec()).expect("text");
    Answer::new(status, &kind, &location, &text)
}

/// Starts Google's server in its own process.
fn start_google(default_app: Option<&str>) -> Option<Oracle> {
    let script = test_file("oracle.py");
    Oracle::start_with(Reference::Adk, "adk_differential", script, |command| {
        command
            .env("ADK_DEFAULT_APP_NAME", default_app.unwrap_or_default())
            .arg(test_file("agents"));
    })
}

fn ask_google(google: &mut Oracle, case: &Case) -> Answer {
    let request = JsonMap::from([
        ("method", Json::from(case.method)),
        ("path", case.path.as_str().into()),
        ("kind", case.kind.into()),
        ("body", case.body.as_str().into()),
    ]);
    let answer = google.ask(&request.into());
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let status = answer["status"].as_u64();
    let status = status.and_then(|status| u16::try_from(status).ok());
    Answer::new(
        status.unwrap_or(0),
        &text("kind"),
        &text("location"),
        &text("text"),
    )
}
