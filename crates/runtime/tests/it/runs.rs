//! One run: what is stored, in which order, and what comes out.

use std::sync::Arc;

use retain_core::{FunctionCall, Json, JsonMap};
use retain_runtime::{FunctionTool, LlmAgent, ScriptedModel, ToolContext, ToolError};

use crate::support::{SESSION, USER, events_of, runner, services, stored, story};

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct Place {
    city: String,
}

fn weather() -> FunctionTool {
    FunctionTool::new(
        "weather",
        "Says the weather.",
        |ctx: ToolContext, place: Place| async move {
            ctx.state().set("last_city", place.city.as_str());
            Ok::<_, ToolError>(serde_json::json!({"sky": "blue", "city": place.city}))
        },
    )
}

fn call(name: &str, args: &str) -> FunctionCall {
    FunctionCall::new(name, Json::parse(args).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_stored_as_it_is_told() {
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
        let told = run.collect_events().await.unwrap();
        let session = stored(&sessions).await;
        let expected = [
            "user: Weather in Oslo?",
            r#"assistant: weather({"city":"Oslo"})"#,
            r#"assistant: weather -> {"sky":"blue","city":"Oslo"}"#,
            "assistant: Blue sky in Oslo.",
        ];
        assert_eq!(story(events_of(&session)), expected, "{name}");
        assert_eq!(told.len(), 3, "{name}");
        let mut lines = story(told.iter().map(|event| Arc::new(event.clone())));
        lines.insert(0, expected[0].to_owned());
        assert_eq!(lines, expected, "{name}");
        assert_eq!(session.state["last_city"], "Oslo", "{name}");
        assert_eq!(session.state["answer"], "Blue sky in Oslo.", "{name}");
        assert_eq!(model.requests()[1].contents.len(), 3, "{name}");
        let _: JsonMap = JsonMap::default();
    }
}
