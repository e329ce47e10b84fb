//! Callbacks of one agent, and a plugin that observes every agent of a runner.
//!
//! Run it with `cargo run --example callbacks_and_plugins`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use retain::{
    CallbackContext, Content, Event, InMemorySessionService, LlmAgent, Runner, ScriptedModel,
    agent::{BeforeModel, InvocationContext},
    model::{LlmRequest, LlmResponse},
    runner::{HookResult, Plugin},
};

/// Runs before each model call. Answers questions about passwords itself, without the model.
async fn guard(
    ctx: CallbackContext,
    mut request: LlmRequest,
) -> Result<BeforeModel, retain::BoxError> {
    if ctx.user_content().text_concat().contains("password") {
        return Ok(
            LlmResponse::from_content(Content::model("I do not talk about passwords.")).into(),
        );
    }
    // State that a callback writes is stored with the event of the model's answer.
    ctx.state().update("user:questions", |count| {
        *count = (count.as_i64().unwrap_or(0) + 1).into();
    });
    request.append_instruction("Be brief.");
    Ok(request.into())
}

/// Runs after the agent, and adds a second answer.
async fn sign(ctx: CallbackContext) -> Result<Option<Content>, retain::BoxError> {
    Ok(Some(Content::model(format!(
        "(signed: {})",
        ctx.agent_name()
    ))))
}

/// A plugin that counts model calls. A plugin receives every agent, model call and event of its
/// runner.
#[derive(Debug, Default)]
struct CallCounter {
    model_calls: Arc<AtomicUsize>,
}

#[async_trait]
impl Plugin for CallCounter {
    fn name(&self) -> &str {
        "call_counter"
    }

    async fn before_model(
        &self,
        _ctx: &CallbackContext,
        _request: &mut LlmRequest,
    ) -> HookResult<LlmResponse> {
        self.model_calls.fetch_add(1, Ordering::Relaxed);
        // `None` continues with the agent's own callbacks and then the model.
        Ok(None)
    }

    async fn on_event(&self, _ctx: &InvocationContext, event: &Event) -> HookResult<Event> {
        let text = event.content().map(|content| content.text_concat());
        println!("plugin sees {}: {}", event.author, text.unwrap_or_default());
        Ok(None)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Arc::new(ScriptedModel::new("scripted").reply("Forty-two."));
    let agent = LlmAgent::builder("oracle")
        .model(Arc::clone(&model))
        .before_model(guard)
        .after_agent(sign)
        .build()?;
    let plugin = CallCounter::default();
    let model_calls = Arc::clone(&plugin.model_calls);
    let runner = Runner::builder()
        .app_name("app")
        .agent(agent)
        .session_service(Arc::new(InMemorySessionService::new()))
        .plugin(Arc::new(plugin))
        .auto_create_session(true)
        .build()?;

    let run = runner.run("ada", Some("s1"), "What is the answer?").await?;
    let events = run.collect_events().await?;
    assert_eq!(events[0].actions.state_delta["user:questions"], 1);
    let run = runner
        .run("ada", Some("s1"), "What is my password?")
        .await?;
    run.collect_events().await?;

    // The callback answered the second message, so the model was called once.
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    let instruction = requests[0].config.system_instruction.as_deref();
    assert!(instruction.is_some_and(|text| text.ends_with("Be brief.")));
    assert_eq!(model_calls.load(Ordering::Relaxed), 2);
    println!(
        "the model was called {} time, the plugin was called 2 times",
        requests.len()
    );
    Ok(())
}
