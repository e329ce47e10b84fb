//! An agent with a tool stores the same events on every provider, streamed or not.
//!
//! The providers are local servers that answer as documented; `answers` lists the pages.

mod answers;

use std::sync::Arc;

use crate::support::{self, Server};
use answers::{Provider, Step};
use retain_core::{Event, GetSessionConfig, Json};
use retain_models::{Http, HttpSettings, ModelSettings, Models};
use retain_runtime::{FunctionTool, LlmAgent, ModelRegistry, RunConfig, RunRequest, Runner};
use retain_stores::InMemorySessionService;

/// An API key that must be sent but never printed.
const KEY: &str = "canary-key-5b1c9f";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    city: String,
}

fn runner(models: ModelRegistry, model: &str) -> Runner {
    let weather = FunctionTool::new("get_weather", "The weather.", |_ctx, of: City| async move {
        Ok(format!("rain in {}", of.city))
    });
    let agent = LlmAgent::builder("guide")
        .instruction("Answer in one sentence.")
        .models(models)
        .model(model)
        .tool(weather);
    Runner::builder()
        .app_name("travel")
        .agent(agent.build().unwrap())
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()
        .unwrap()
}

fn models(settings: Vec<(&'static str, String)>) -> Models {
    let mut http = HttpSettings::default();
    http.retries.attempts = 1;
    Models::with_http(
        ModelSettings::from_variables(settings),
        Http::new(http).unwrap(),
    )
}

/// Describes the compared parts of an event: author, content, finish reason and `partial`. Replaces
/// call ids with numbers.
fn describe(event: &Event, ids: &mut Vec<String>) -> String {
    let mut content = Json::parse(&event.content().unwrap().to_json().unwrap()).unwrap();
    let mut parts = content["parts"].as_array().unwrap().to_vec();
    for part in &mut parts {
        let part = part.as_object_mut().unwrap();
        for kind in ["functionCall", "functionResponse"] {
            let Some(call) = part.get_mut(kind).and_then(Json::as_object_mut) else {
                continue;
            };
            let id = call["id"].as_str().expect("an id").to_owned();
            let known = ids.iter().position(|known| *known == id);
            let number = known.unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
            call.insert("id", number);
        }
    }
    content.as_object_mut().unwrap().insert("parts", parts);
    let reason = event.response.finish_reason.as_deref();
    format!(
        "{} {content} {reason:?} {:?}",
        event.author, event.response.partial
    )
}

/// Runs the agent. Returns its complete events, the text of the partial ones, and the server.
async fn events(provider: Provider, stream: bool) -> (Vec<String>, String, Server) {
    let steps = [Step::Calls, Step::Text];
    let server = Server::playing(steps.map(|step| provider.answer(step, stream))).await;
    let models = models(provider.settings(&server.url(), KEY));
    let runner = runner(models.registry(), provider.model());
    let mut request = RunRequest::new("Weather in Oslo and Bergen?");
    if stream {
        request.config = RunConfig::streaming();
    }
    let run = runner.run_with("ada", Some("s1"), request).await.unwrap();
    let events = run.collect_events().await.unwrap();
    let (pieces, whole): (Vec<_>, Vec<_>) = events.iter().partition(|event| event.is_partial());
    let mut ids = Vec::new();
    let whole = whole
        .iter()
        .map(|event| describe(event, &mut ids))
        .collect();
    let pieces = pieces.iter().filter_map(|event| event.content());
    let text = pieces.map(|content| content.text_concat()).collect();
    assert_eq!(ids.len(), 2, "two calls with different ids");
    (whole, text, server)
}

#[tokio::test]
async fn agent_stores_the_same_events_on_all_providers() {
    let (expected, _, _) = events(Provider::Anthropic, false).await;
    let all = expected.join("\n");
    assert_eq!(expected.len(), 3, "calls, results, answer: {all}");
    assert!(
        all.contains("rain in Oslo") && all.contains("rain in Bergen"),
        "{all}"
    );
    assert!(expected[2].contains("It rains in both."), "{all}");
    for provider in Provider::ALL {
        for stream in [false, true] {
            let (texts, pieces, server) = events(provider, stream).await;
            let comparable = |texts: &[String]| texts.join("\n").replace("Some(false)", "None");
            assert_eq!(
                comparable(&texts),
                comparable(&expected),
                "{provider:?} {stream}"
            );
            let streamed = if stream { "It rains in both." } else { "" };
            assert_eq!(pieces, streamed, "{provider:?}");
            let [first, second] = &server.received()[..] else {
                panic!("{provider:?}: {:?}", server.received());
            };
            assert!(
                first.body.contains("Answer in one sentence."),
                "{provider:?}"
            );
            assert!(first.body.contains("get_weather"), "{provider:?}");
            // The tool results are sent back with the provider's own ids.
            for text in ["rain in Oslo", "rain in Bergen"]
                .into_iter()
                .chain(provider.ids().iter().copied())
            {
                assert!(second.body.contains(text), "{provider:?}: {}", second.body);
            }
            let has_key = first.headers.iter().any(|(_, value)| value.contains(KEY));
            assert_eq!(has_key, provider.takes_key(), "{provider:?}");
            assert!(
                !first.line.contains(KEY) && !first.body.contains(KEY),
                "{provider:?}"
            );
        }
    }
}

#[tokio::test]
async fn provider_error_has_its_code_and_no_key() {
    for provider in Provider::ALL {
        for stream in [false, true] {
            let server = Server::playing([provider.error_response(KEY)]).await;
            let models = models(provider.settings(&server.url(), KEY));
            let runner = runner(models.registry(), provider.model());
            let mut request = RunRequest::new("Hi");
            if stream {
                request.config = RunConfig::streaming();
            }
            let run = runner.run_with("ada", Some("s1"), request).await.unwrap();
            let error = run.collect_events().await.unwrap_err();
            let texts = format!("{error} {error:?} {models:?}");
            assert!(texts.contains("quota"), "{provider:?}: {texts}");
            let takes_key = provider.takes_key();
            assert!(!takes_key || !texts.contains(KEY), "{provider:?}: {texts}");
            let stored = runner.session_service();
            let all = GetSessionConfig::default();
            let stored = stored.get_session("travel", "ada", "s1", all).await;
            let stored = stored.unwrap().unwrap();
            let stored = format!("{:?}", stored.events);
            assert!(
                stored.contains(provider.error_code()),
                "{provider:?}: {stored}"
            );
            assert!(
                !takes_key || !stored.contains(KEY),
                "{provider:?}: {stored}"
            );
        }
    }
}

#[tokio::test]
async fn model_without_its_key_fails_when_called() {
    let models = models(vec![("ANTHROPIC_API_KEY", "sk-other-key".to_owned())]);
    for (model, variable) in [
        ("gemini-3.5-flash", "GOOGLE_API_KEY"),
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("azure/mine", "AZURE_OPENAI_ENDPOINT"),
        ("hosted_vllm/mine", "HOSTED_VLLM_API_BASE"),
        ("groq/llama", "GROQ_API_KEY"),
    ] {
        let runner = runner(models.registry(), model);
        let run = runner.run("ada", Some("s1"), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err().to_string();
        assert!(error.contains(variable), "{model}: {error}");
        assert!(
            models
                .model(model)
                .unwrap_err()
                .to_string()
                .contains(variable)
        );
    }
    assert!(models.model("claude-sonnet-5").is_ok());
    assert!(models.model("ollama/llama3.2").is_ok());
    assert!(models.model("offline").is_ok());
    let unknown = models.model("martian-1").unwrap_err().to_string();
    assert!(unknown.contains("martian-1"), "{unknown}");
}

#[tokio::test]
async fn claude_on_vertex_is_called_with_a_machine_token() {
    let token =
        r#"{"access_token":"token-of-the-machine","expires_in":3600,"token_type":"Bearer"}"#;
    let answers = [
        support::answer(token),
        Provider::Anthropic.answer(Step::Text, false),
    ];
    let server = Server::playing(answers).await;
    let host = server.url().replace("http://", "");
    let models = models(vec![
        ("GCE_METADATA_HOST", host),
        ("ANTHROPIC_VERTEX_BASE_URL", format!("{}/v1", server.url())),
        ("GOOGLE_CLOUD_PROJECT", "p".to_owned()),
        ("GOOGLE_CLOUD_LOCATION", "europe-west1".to_owned()),
    ]);
    let runner = runner(models.registry(), "claude-test");
    let run = runner.run("ada", Some("s1"), "Hi").await.unwrap();
    assert_eq!(run.answer().await.unwrap(), "It rains in both.");
    let asked = &server.received()[1];
    let path =
        "/v1/projects/p/locations/europe-west1/publishers/anthropic/models/claude-test:rawPredict";
    assert_eq!(asked.path(), path);
    let token = asked.header("authorization");
    assert_eq!(token, Some("Bearer token-of-the-machine"));
}

#[test]
fn preferred_model_with_an_api_key_is_suggested() {
    let suggested = |variables: &[&'static str]| {
        let settings = variables.iter().map(|name| (*name, "a-key".to_owned()));
        let suggested = models(settings.collect()).suggested();
        suggested.map(|suggested| (suggested.name, suggested.variable))
    };
    assert_eq!(suggested(&[]), None);
    assert_eq!(
        suggested(&["OPENAI_API_KEY"]),
        Some(("gpt-4o", "OPENAI_API_KEY"))
    );
    assert_eq!(suggested(&["OPENAI_API_KEY", "OPENAI_BASE_URL"]), None);
    let both = suggested(&["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]);
    assert_eq!(both, Some(("claude-sonnet-5", "ANTHROPIC_API_KEY")));
    let all = suggested(&["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]);
    assert_eq!(all, Some(("gemini-3.5-flash", "GEMINI_API_KEY")));
}
