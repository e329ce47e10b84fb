//! A run: which events are stored, in which order, and which are streamed.

use std::sync::Arc;

use futures_util::StreamExt as _;
use retain_core::{Content, Event, GetSessionConfig, Json, JsonMap, LlmResponse, StateDelta};
use retain_runtime::{
    FunctionTool, LlmAgent, LlmRequest, RunConfig, RunError, RunRequest, ScriptedModel,
    ToolContext, ToolError,
};

use crate::support::{APP, SESSION, USER, call, events_of, runner, services, stored, story};

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct CityQuery {
    city: String,
}

fn weather() -> FunctionTool {
    FunctionTool::new(
        "weather",
        "Says the weather.",
        |ctx: ToolContext, query: CityQuery| async move {
            ctx.state().set("last_city", query.city.as_str());
            Ok::<_, ToolError>(serde_json::json!({"sky": "blue", "city": query.city}))
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_events_equal_the_streamed_events() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("scripted")
            .reply(call("weather", r#"{"city": "Oslo"}"#))
            .reply("Blue sky in Oslo.");
        let model = Arc::new(model);
        let agent = LlmAgent::builder("assistant")
            .model(Arc::clone(&model))
            .instruction("Be kind to {user:name?}.")
            .tool(weather())
            .output_key("answer");
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let run = runner
            .run(USER, Some(SESSION), "Weather in Oslo?")
            .await
            .unwrap();
        let events = run.collect_events().await.unwrap();
        let session = stored(&sessions).await;
        let expected = [
            "user: Weather in Oslo?",
            r#"assistant: weather({"city":"Oslo"})"#,
            r#"assistant: weather -> {"sky":"blue","city":"Oslo"}"#,
            "assistant: Blue sky in Oslo.",
        ];
        assert_eq!(story(events_of(&session)), expected, "{name}");
        assert_eq!(events.len(), 3, "{name}");
        let mut lines = story(events.iter().map(|event| Arc::new(event.clone())));
        lines.insert(0, expected[0].to_owned());
        assert_eq!(lines, expected, "{name}");
        assert_eq!(session.state["last_city"], "Oslo", "{name}");
        assert_eq!(session.state["answer"], "Blue sky in Oslo.", "{name}");
        assert_eq!(model.requests()[1].contents.len(), 3, "{name}");
    }
}

fn agent(model: ScriptedModel) -> LlmAgent {
    LlmAgent::builder("assistant").model(model).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partial_events_are_streamed_but_not_stored() {
    for (name, sessions) in services().await {
        let piece = |text: &str| LlmResponse {
            partial: Some(true),
            ..LlmResponse::from_content(Content::model(text))
        };
        let reply = vec![
            piece("Hel"),
            piece("lo!"),
            LlmResponse::from_content(Content::model("Hello!")),
        ];
        let runner = runner(&sessions, agent(ScriptedModel::new("m").reply(reply)));
        let runner = runner.build().unwrap();
        let request = RunRequest::new("Hi").with_config(RunConfig::streaming());
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        let events = run.collect_events().await.unwrap();
        let partial: Vec<_> = events.iter().map(Event::is_partial).collect();
        assert_eq!(partial, [true, true, false], "{name}");
        assert!(
            events.iter().all(|event| event.id == events[0].id),
            "{name}: the pieces of an answer have the same id"
        );
        assert!(events.iter().all(|event| event.timestamp > 0.0), "{name}");
        let session = stored(&sessions).await;
        assert_eq!(
            story(events_of(&session)),
            ["user: Hi", "assistant: Hello!"],
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_is_stored_before_it_is_streamed() {
    for (name, sessions) in services().await {
        let runner = runner(&sessions, agent(ScriptedModel::new("m").reply("Hello!")));
        let runner = runner.build().unwrap();
        let mut run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        assert!(run.invocation_id().starts_with("e-"), "{name}");
        let invocation_id = run.handle().invocation_id().to_owned();
        let event = run.next().await.unwrap().unwrap();
        assert_eq!(event.invocation_id, invocation_id, "{name}");
        let session = stored(&sessions).await;
        assert_eq!(session.events.last().unwrap(), &event, "{name}");
        assert!(run.next().await.is_none(), "{name}");
        assert!(run.next().await.is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_delta_of_a_request_is_visible_to_the_run() {
    for (name, sessions) in services().await {
        let model = Arc::new(ScriptedModel::new("m").reply("a").reply("b"));
        let agent = LlmAgent::builder("assistant").model(Arc::clone(&model));
        let agent = agent
            .instruction("{temp:mood?}/{user:name?}/{count?}")
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let delta = StateDelta::from([
            ("temp:mood", Json::from("gay")),
            ("user:name", Json::from("Ada")),
            ("count", Json::from(3)),
        ]);
        let request = RunRequest::new("Hi").with_state_delta(delta);
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        run.answer().await.unwrap();
        runner
            .run(USER, Some(SESSION), "Again")
            .await
            .unwrap()
            .answer()
            .await
            .unwrap();
        let texts: Vec<_> = model
            .requests()
            .iter()
            .map(|request| instruction(request))
            .collect();
        assert!(texts[0].starts_with("gay/Ada/3"), "{name}: {texts:?}");
        assert!(
            texts[1].starts_with("/Ada/3"),
            "{name}: `temp:` keys live for one run: {texts:?}"
        );
        let session = stored(&sessions).await;
        assert!(!session.state.contains_key("temp:mood"), "{name}");
        let first = session.events.first().unwrap();
        assert!(
            !first.actions.state_delta.contains_key("temp:mood"),
            "{name}"
        );
    }
}

fn instruction(request: &LlmRequest) -> String {
    request
        .config
        .system_instruction
        .clone()
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temp_state_keys_live_for_one_run() {
    for (name, sessions) in services().await {
        let tool = FunctionTool::untyped("note", "Notes.", None, |ctx, _args| async move {
            ctx.state().set("temp:seen", true);
            ctx.state().set("stored", true);
            Ok(JsonMap::default().into())
        });
        let model = ScriptedModel::new("m")
            .reply(call("note", "{}"))
            .reply("ok")
            .reply("ok");
        let model = Arc::new(model);
        let agent = LlmAgent::builder("a").model(Arc::clone(&model)).tool(tool);
        let agent = agent.instruction("{temp:seen?}|{stored?}").build().unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        for _ in 0..2 {
            runner
                .run(USER, Some(SESSION), "go")
                .await
                .unwrap()
                .answer()
                .await
                .unwrap();
        }
        let texts: Vec<_> = model
            .requests()
            .iter()
            .map(|request| instruction(request))
            .collect();
        let starts: Vec<_> = texts
            .iter()
            .map(|text| text.split('\n').next().unwrap())
            .collect();
        assert_eq!(starts, ["|", "True|True", "|True"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_messages_are_rejected_and_change_nothing() {
    for (name, sessions) in services().await {
        let runner = runner(&sessions, agent(ScriptedModel::new("m").reply("unused")));
        let runner = runner.build().unwrap();
        sessions
            .create_session(APP, USER, None, Some(SESSION))
            .await
            .unwrap();
        let answer = |id: &str| {
            let response = retain_core::FunctionResponse::new(id, "f", JsonMap::default());
            retain_core::Part::from(response)
        };
        let bad = [
            (Content::new("user", vec![]), "has no parts"),
            (
                Content::new("user", vec![call("f", "{}").into()]),
                "contains a function call",
            ),
            (
                Content::new("user", vec![answer("c1")]),
                "not in the session's history",
            ),
            (
                Content::new("user", vec!["text".into(), answer("c1")]),
                "mixes text with a function response",
            ),
            (Content::new("user", vec![answer("")]), "without an id"),
        ];
        for (message, reason) in bad {
            let refused = runner.run(USER, Some(SESSION), message).await.unwrap_err();
            assert!(
                matches!(refused, RunError::InvalidMessage { .. }),
                "{name}: {refused}"
            );
            assert!(refused.to_string().contains(reason), "{name}: {refused}");
        }
        assert!(stored(&sessions).await.events.is_empty(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_session_is_created_only_with_auto_create() {
    for (name, sessions) in services().await {
        let made = |create| {
            let agent = agent(ScriptedModel::new("m").otherwise(|_| "Hello!"));
            runner(&sessions, agent)
                .auto_create_session(create)
                .build()
                .unwrap()
        };
        let refused = made(false)
            .run(USER, Some("nowhere"), "Hi")
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("not found"),
            "{name}: {refused}"
        );
        let refused = made(false).run(USER, None, "Hi").await.unwrap_err();
        assert!(
            refused.to_string().contains("auto_create_session"),
            "{name}: {refused}"
        );
        let run = made(true).run(USER, None, "Hi").await.unwrap();
        let id = run.session_id().to_owned();
        assert_eq!(run.answer().await.unwrap(), "Hello!");
        let config = GetSessionConfig::default();
        let session = sessions
            .get_session(APP, USER, &id, config)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(session.events.len(), 2, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_session_config_limits_the_events_a_run_loads() {
    for (name, sessions) in services().await {
        let model = Arc::new(ScriptedModel::new("m").otherwise(|_| "ok"));
        let agent = LlmAgent::builder("a")
            .model(Arc::clone(&model))
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        for n in 0..5 {
            let message = format!("message {n}");
            runner
                .run(USER, Some(SESSION), message)
                .await
                .unwrap()
                .answer()
                .await
                .unwrap();
        }
        let config = RunConfig::default().with_get_session_config(GetSessionConfig {
            num_recent_events: Some(3),
            ..GetSessionConfig::default()
        });
        let request = RunRequest::new("last").with_config(config);
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        run.answer().await.unwrap();
        let requests = model.requests();
        assert_eq!(requests.last().unwrap().contents.len(), 3, "{name}");
        assert_eq!(requests[4].contents.len(), 9, "{name}");
        assert_eq!(stored(&sessions).await.events.len(), 12, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_metadata_is_added_to_every_event() {
    for (name, sessions) in services().await {
        let runner = runner(&sessions, agent(ScriptedModel::new("m").reply("ok")));
        let runner = runner.build().unwrap();
        let config = RunConfig::default()
            .with_custom_metadata([("ticket", "T1"), ("__adk_internal_x", "no")].into());
        let request = RunRequest::new("Hi")
            .with_config(config)
            .yield_user_message();
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        let events = run.collect_events().await.unwrap();
        assert_eq!(events.len(), 2, "{name}");
        for event in stored(&sessions).await.events.iter() {
            let metadata = event.response.custom_metadata.clone().unwrap();
            assert_eq!(metadata, [("ticket", "T1")].into(), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_tool_response_continues_its_run() {
    for (name, sessions) in services().await {
        let tool = FunctionTool::untyped("approve", "Asks the boss.", None, |_ctx, _args| async {
            Ok(retain_runtime::ToolOutput::none())
        });
        let model = ScriptedModel::new("m")
            .reply(call("approve", "{}"))
            .reply("Approved!");
        let model = Arc::new(model);
        let agent = LlmAgent::builder("a")
            .model(Arc::clone(&model))
            .tool(tool.long_running());
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "May I?").await.unwrap();
        let events = run.collect_events().await.unwrap();
        assert_eq!(events.len(), 1, "{name}: the call is pending");
        let id = events[0].function_calls()[0].id.clone().unwrap();
        assert!(
            events[0]
                .long_running_tool_ids
                .as_ref()
                .unwrap()
                .contains(&id),
            "{name}"
        );
        let answer: JsonMap = [("status", "yes")].into();
        let answer = retain_core::FunctionResponse::new(id, "approve", answer);
        let message = Content::new("user", vec![answer.into()]);
        let run = runner.run(USER, Some(SESSION), message).await.unwrap();
        assert_eq!(
            run.invocation_id(),
            events[0].invocation_id,
            "{name}: the answer continues the run"
        );
        assert_eq!(run.answer().await.unwrap(), "Approved!", "{name}");
        assert_eq!(model.requests()[1].contents.len(), 3, "{name}");
    }
}

#[test]
fn blocking_callers_run_without_a_tokio_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, sessions) in runtime.block_on(services()) {
        let runner = runner(
            &sessions,
            agent(ScriptedModel::new("m").otherwise(|_| "Hello!")),
        );
        let runner = runner.build().unwrap();
        let events: Vec<_> = runner
            .run_blocking(USER, Some(SESSION), "Hi")
            .unwrap()
            .collect();
        assert_eq!(events.len(), 1, "{name}");
        let refused = runner.run_blocking(USER, Some(SESSION), Content::default());
        assert!(
            matches!(refused, Err(RunError::InvalidMessage { .. })),
            "{name}"
        );
        // A blocking run also works inside a runtime.
        runtime.block_on(async {
            let again: Vec<_> = runner
                .run_blocking(USER, Some(SESSION), "Hi")
                .unwrap()
                .collect();
            assert_eq!(again.len(), 1, "{name}");
        });
    }
}

#[tokio::test]
async fn run_completes_on_a_single_threaded_runtime() {
    for (name, sessions) in services().await {
        let runner = runner(&sessions, agent(ScriptedModel::new("m").reply("Hello!")));
        let runner = runner.build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Hello!", "{name}");
    }
}
