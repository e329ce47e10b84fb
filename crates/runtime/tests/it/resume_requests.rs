//! Requests to resume a run: which are rejected, which are idempotent, and what a paused run waits
//! for.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use retain_core::{Content, Event, FunctionResponse, Json, JsonMap, SessionError, SessionService};
use retain_runtime::{
    Agent, FunctionTool, InvocationContext, LlmAgent, ModelError, RunError, RunRequest, Runner,
    ScriptedModel, ScriptedReply, ToolOutput,
};

use crate::support::{SESSION, USER, call, events_of, runner, services, stored, story};

/// Creates an agent with a tool that returns immediately and a long-running tool.
fn clerk(model: ScriptedModel) -> LlmAgent {
    let look = FunctionTool::untyped("look", "Looks.", None, |_, _| async {
        Ok(Json::from(JsonMap::from([("seen", true)])).into())
    });
    let pay = FunctionTool::untyped("pay", "Pays.", None, |_, _| async {
        Ok(ToolOutput::none())
    });
    let clerk = LlmAgent::builder("clerk").model(model);
    clerk.tool(look).tool(pay.long_running()).build().unwrap()
}

fn resumable_runner(sessions: &Arc<dyn SessionService>, model: ScriptedModel) -> Runner {
    runner(sessions, clerk(model))
        .resumable(true)
        .build()
        .unwrap()
}

/// Starts a run that fails. Returns the runner, whose model then answers `then`, and the run id.
async fn failed_run(sessions: &Arc<dyn SessionService>, then: &'static str) -> (Runner, String) {
    let model = ScriptedModel::new("m").reply(ModelError::new("out of service"));
    let runner = resumable_runner(sessions, model.otherwise(move |_| then));
    let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
    let id = run.invocation_id().to_owned();
    run.collect_events().await.unwrap_err();
    (runner, id)
}

/// Returns the short form of the stored events.
async fn stored_lines(sessions: &Arc<dyn SessionService>) -> Vec<String> {
    story(events_of(&stored(sessions).await))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_run_is_resumed_once() {
    for (name, sessions) in services().await {
        let (runner, id) = failed_run(&sessions, "Here.").await;
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Here.", "{name}");
        let before = stored_lines(&sessions).await;
        assert_eq!(before[2..], ["clerk: Here.", "clerk: done"], "{name}");
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        assert!(run.collect_events().await.unwrap().is_empty(), "{name}");
        assert_eq!(
            stored_lines(&sessions).await,
            before,
            "{name}: a second resume does nothing"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_resumes_of_a_run_execute_it_once() {
    for (name, sessions) in services().await {
        let (runner, id) = failed_run(&sessions, "Here.").await;
        let resume = || async {
            let run = runner.resume(USER, SESSION, &id).await.unwrap();
            run.collect_events().await.unwrap().len()
        };
        let (one, other) = tokio::join!(resume(), resume());
        assert_eq!((one.min(other), one.max(other)), (0, 2), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_resume_is_rejected_and_releases_the_session() {
    for (name, sessions) in services().await {
        let (runner, id) = failed_run(&sessions, "Here.").await;
        let before = stored_lines(&sessions).await;
        let error = runner.resume(USER, SESSION, "e-unknown").await.unwrap_err();
        let is_unknown = matches!(&error, RunError::Session(SessionError::InvocationNotFound { invocation_id, .. })
                if invocation_id == "e-unknown");
        assert!(is_unknown, "{name}: {error}");

        let plain = crate::support::runner(&sessions, clerk(ScriptedModel::new("m")));
        let plain = plain.build().unwrap();
        let error = plain.resume(USER, SESSION, &id).await.unwrap_err();
        assert!(
            matches!(error, RunError::NotResumable { .. }),
            "{name}: {error}"
        );
        assert!(error.to_string().contains("resumable(true)"), "{error}");

        let mut nothing = RunRequest::new("");
        nothing.message = None;
        let error = runner
            .run_with(USER, Some(SESSION), nothing)
            .await
            .unwrap_err();
        assert!(
            matches!(error, RunError::InvalidMessage { .. }),
            "{name}: {error}"
        );
        assert_eq!(stored_lines(&sessions).await, before, "{name}");

        // A rewound run no longer exists.
        runner.rewind(USER, SESSION, &id).await.unwrap();
        let error = runner.resume(USER, SESSION, &id).await.unwrap_err();
        assert!(matches!(error, RunError::Session(_)), "{name}: {error}");

        let run = runner.run(USER, Some(SESSION), "next").await.unwrap();
        assert_eq!(
            run.answer().await.unwrap(),
            "Here.",
            "{name}: the session is free"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_with_an_id_is_idempotent() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").reply(ModelError::new("out of service"));
        let runner = resumable_runner(&sessions, model.otherwise(|_| "Here."));
        let request = || RunRequest::new("go").with_invocation_id("e-mine");
        let run = runner
            .run_with(USER, Some(SESSION), request())
            .await
            .unwrap();
        assert_eq!(run.invocation_id(), "e-mine", "{name}");
        run.collect_events().await.unwrap_err();
        let run = runner
            .run_with(USER, Some(SESSION), request())
            .await
            .unwrap();
        assert_eq!(run.answer().await.unwrap(), "Here.", "{name}");
        let before = stored_lines(&sessions).await;
        let messages = before.iter().filter(|line| line.starts_with("user:"));
        assert_eq!(messages.count(), 1, "{name}: {before:?}");

        let other = RunRequest::new("something else").with_invocation_id("e-mine");
        let error = runner
            .run_with(USER, Some(SESSION), other)
            .await
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("differs from the message that started run"),
            "{name}: {error}"
        );
        assert_eq!(stored_lines(&sessions).await, before, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_delta_of_a_resume_is_stored_first() {
    for (name, sessions) in services().await {
        let (runner, id) = failed_run(&sessions, "Here.").await;
        let delta = || [("order", "42")].into();
        let unknown = RunRequest::resume("e-unknown").with_state_delta(delta());
        runner
            .run_with(USER, Some(SESSION), unknown)
            .await
            .unwrap_err();
        assert!(
            !stored(&sessions).await.state.contains_key("order"),
            "{name}"
        );
        let request = RunRequest::resume(&id).with_state_delta(delta());
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        run.collect_events().await.unwrap();
        let session = stored(&sessions).await;
        assert_eq!(session.state["order"].as_str(), Some("42"), "{name}");
        let lines = story(events_of(&session));
        assert_eq!(
            lines[2..],
            ["user: ", "clerk: Here.", "clerk: done"],
            "{name}"
        );
    }
}

fn answer(event: &Event, name: &str) -> Content {
    let calls = event.function_calls();
    let call = calls.iter().find(|call| call.name.as_deref() == Some(name));
    let response = FunctionResponse {
        id: call.unwrap().id.clone(),
        name: Some(name.to_owned()),
        response: Some([("paid", true)].into()),
        ..FunctionResponse::default()
    };
    Content::new("user", vec![response.into()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumable_run_calls_the_model_only_when_no_call_is_pending() {
    for (name, sessions) in services().await {
        let both = Content::new(
            "model",
            vec![call("look", "{}").into(), call("pay", "{}").into()],
        );
        let model = ScriptedModel::new("m").reply(ScriptedReply::from(both));
        let runner = resumable_runner(&sessions, model.reply("Paid."));
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let id = run.invocation_id().to_owned();
        let events = run.collect_events().await.unwrap();
        let expected = [
            "clerk: look({}) + pay({})",
            r#"clerk: look -> {"seen":true}"#,
        ];
        assert_eq!(
            story(events.iter().cloned().map(Arc::new)),
            expected,
            "{name}"
        );
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        assert!(
            run.collect_events().await.unwrap().is_empty(),
            "{name}: the run waits for the answer"
        );
        let answer = answer(&events[0], "pay");
        let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
        assert_eq!(run.invocation_id(), id, "{name}");
        let events = run.collect_events().await.unwrap();
        let expected = ["clerk: Paid.", "clerk: done"];
        assert_eq!(story(events.into_iter().map(Arc::new)), expected, "{name}");
    }
}

/// Runs three steps and saves a checkpoint after each. The first run fails at the second step.
#[derive(Debug)]
struct StepAgent;

#[async_trait]
impl Agent for StepAgent {
    fn name(&self) -> &str {
        "steps"
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        let state = ctx.agent_state().unwrap_or_default();
        let done = state.get("done").and_then(Json::as_i64).unwrap_or(0);
        for step in done..3 {
            if step == 1 && done == 0 {
                return Err(RunError::Agent {
                    agent: "steps".to_owned(),
                    source: "fails once".into(),
                });
            }
            ctx.emit(Event::model_text("steps", format!("step {step}")))
                .await?;
            ctx.save_agent_state(JsonMap::from([("done", step + 1)]))
                .await?;
        }
        ctx.record_agent_end().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_agent_resumes_from_its_checkpoint() {
    for (name, sessions) in services().await {
        let runner = runner(&sessions, StepAgent)
            .resumable(true)
            .build()
            .unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let id = run.invocation_id().to_owned();
        run.collect_events().await.unwrap_err();
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        run.collect_events().await.unwrap();
        let lines = stored_lines(&sessions).await;
        let steps: Vec<_> = lines.iter().filter(|line| line.contains("step ")).collect();
        let expected = ["steps: step 0", "steps: step 1", "steps: step 2"];
        assert_eq!(steps, expected, "{name}");
        assert_eq!(lines.last().unwrap(), "steps: done", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_call_can_be_answered_by_another_process() {
    let folder = retain_testkit::scratch::folder();
    let uri = format!("sqlite:///{}/s.db", folder.path().display());
    let open = || async {
        let sessions = retain_stores::SqliteSessionService::connect(&uri)
            .await
            .unwrap();
        Arc::new(sessions.with_run_ttl(Duration::from_secs(5))) as Arc<dyn SessionService>
    };
    let call_event = {
        let model = ScriptedModel::new("m").reply(call("pay", "{}"));
        let runner = resumable_runner(&open().await, model);
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let events = run.collect_events().await.unwrap();
        runner.close().await.unwrap();
        events[0].clone()
    };
    let sessions = open().await;
    let runner = resumable_runner(&sessions, ScriptedModel::new("m").reply("Paid."));
    let answer = answer(&call_event, "pay");
    let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
    assert_eq!(run.invocation_id(), call_event.invocation_id);
    assert_eq!(run.answer().await.unwrap(), "Paid.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_reruns_only_the_interrupted_call() {
    for (name, sessions) in services().await {
        let calls = Arc::new(std::sync::Mutex::new(Vec::new()));
        let tool = |name: &'static str, fails_first: bool| {
            let calls = Arc::clone(&calls);
            FunctionTool::untyped(name, "Works.", None, move |_, _| {
                let mut calls = calls.lock().unwrap();
                calls.push(name);
                let is_first = calls.iter().filter(|it| **it == name).count() == 1;
                let result = match fails_first && is_first {
                    true => Err(retain_runtime::ToolError::new("out of order")),
                    false => Ok(Json::from(JsonMap::from([("ok", true)])).into()),
                };
                async move { result }
            })
        };
        let both = vec![call("good", "{}"), call("bad", "{}")];
        let model = ScriptedModel::new("m").reply(both).reply("Done.");
        let agent = LlmAgent::builder("clerk").model(model);
        let agent = agent.tool(tool("good", false)).tool(tool("bad", true));
        let runner = runner(&sessions, agent.build().unwrap());
        let runner = runner.resumable(true).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let id = run.invocation_id().to_owned();
        run.collect_events().await.unwrap_err();
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Done.", "{name}");
        assert_eq!(*calls.lock().unwrap(), ["good", "bad", "bad"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_answers_several_parallel_agents() {
    for (name, sessions) in services().await {
        let paying_agent = |agent: &'static str| {
            let model = ScriptedModel::new("m").reply(call("pay", "{}"));
            let model = model.reply(format!("{agent} is paid."));
            let pay = FunctionTool::untyped("pay", "Pays.", None, |_, _| async {
                Ok(ToolOutput::none())
            });
            let asking = LlmAgent::builder(agent).model(model);
            asking.tool(pay.long_running()).build().unwrap()
        };
        let both = retain_runtime::ParallelAgent::builder("both").sub_agent(paying_agent("left"));
        let both = both.sub_agent(paying_agent("right")).build().unwrap();
        let runner = runner(&sessions, both).resumable(true).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let events = run.collect_events().await.unwrap();
        let call_events = events.iter().filter(|it| !it.function_calls().is_empty());
        let parts = call_events.flat_map(|event| answer(event, "pay").parts().to_vec());
        let answers = Content::new("user", parts.collect());
        let run = runner.run(USER, Some(SESSION), answers).await.unwrap();
        run.collect_events().await.unwrap();
        let mut lines = stored_lines(&sessions).await;
        assert_eq!(
            lines.pop().as_deref(),
            Some("both: done"),
            "{name}: {lines:?}"
        );
        for agent in ["left", "right"] {
            let paid = format!("{agent}: {agent} is paid.");
            assert!(lines.contains(&paid), "{name}: {lines:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_reruns_the_failed_tool() {
    for (name, sessions) in services().await {
        let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = Arc::clone(&calls);
        let tool = FunctionTool::untyped("work", "Works.", None, move |_, _| {
            let is_first = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            async move {
                match is_first {
                    true => Err(retain_runtime::ToolError::new("out of order")),
                    false => Ok(Json::from(JsonMap::from([("ok", true)])).into()),
                }
            }
        });
        let model = ScriptedModel::new("m")
            .reply(call("work", "{}"))
            .reply("Done.");
        let agent = LlmAgent::builder("clerk").model(model).tool(tool).build();
        let runner = runner(&sessions, agent.unwrap())
            .resumable(true)
            .build()
            .unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let id = run.invocation_id().to_owned();
        run.collect_events().await.unwrap_err();
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Done.", "{name}");
        assert_eq!(
            calls.load(std::sync::atomic::Ordering::Relaxed),
            2,
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_reruns_a_cancelled_agent() {
    for (name, sessions) in services().await {
        let first = ScriptedModel::new("m")
            .reply(call("look", "{}"))
            .reply("A.");
        let second = LlmAgent::builder("second").model(ScriptedModel::new("m").reply("B."));
        let row = retain_runtime::SequentialAgent::builder("row").sub_agent(clerk(first));
        let row = row.sub_agent(second.build().unwrap()).build().unwrap();
        let runner = runner(&sessions, row).resumable(true).build().unwrap();
        let mut run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let id = run.invocation_id().to_owned();
        // Cancel while the call is pending. The cancellation answers the call.
        while let Some(event) = futures_util::StreamExt::next(&mut run).await {
            if !event.unwrap().function_calls().is_empty() {
                run.handle().cancel();
            }
        }
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        run.collect_events().await.unwrap();
        let lines = stored_lines(&sessions).await;
        let own: Vec<_> = lines.iter().filter(|line| line.ends_with('.')).collect();
        assert_eq!(own, ["clerk: A.", "second: B."], "{name}: {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_request_changes_nothing_and_calls_no_model() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m")
            .reply(call("pay", "{}"))
            .reply("Paid.");
        let runner = resumable_runner(&sessions, model);
        let request = || {
            let request = RunRequest::new("go").with_invocation_id("e-mine");
            request.with_state_delta([("k", 1)].into())
        };
        let run = runner
            .run_with(USER, Some(SESSION), request())
            .await
            .unwrap();
        let events = run.collect_events().await.unwrap();
        let answer = || RunRequest::new(answer(&events[0], "pay")).with_invocation_id("e-mine");
        let run = runner
            .run_with(USER, Some(SESSION), answer())
            .await
            .unwrap();
        run.collect_events().await.unwrap();
        let before = stored_lines(&sessions).await;
        for again in [request(), answer()] {
            let run = runner.run_with(USER, Some(SESSION), again).await.unwrap();
            assert!(run.collect_events().await.unwrap().is_empty(), "{name}");
        }
        assert_eq!(stored_lines(&sessions).await, before, "{name}");
        let empty = RunRequest::new("go").with_invocation_id("");
        let error = runner
            .run_with(USER, Some(SESSION), empty)
            .await
            .unwrap_err();
        assert!(
            matches!(error, RunError::InvalidMessage { .. }),
            "{name}: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_identical_requests_are_one_run() {
    for (name, sessions) in services().await {
        let runner = resumable_runner(&sessions, ScriptedModel::new("m").otherwise(|_| "Here."));
        for round in 0..10 {
            let id = format!("e-{round}");
            let send = || async {
                let request = RunRequest::new("go").with_invocation_id(&id);
                let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
                run.collect_events().await.unwrap().len()
            };
            let (one, other) = tokio::join!(send(), send());
            assert_eq!(one + other, 2, "{name}: only one request runs the agent");
        }
    }
}

/// A plugin that adds a word to the user's message.
#[derive(Debug)]
struct PolitePlugin;

#[async_trait]
impl retain_runtime::Plugin for PolitePlugin {
    fn name(&self) -> &str {
        "polite"
    }

    async fn on_user_message(
        &self,
        read: &retain_runtime::ReadMessage<'_>,
    ) -> Result<Option<Content>, retain_core::BoxError> {
        Ok(Some(Content::user(format!(
            "{}, please",
            read.message.text_concat()
        ))))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_changed_by_a_plugin_is_idempotent() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").otherwise(|_| "Here.");
        let runner = runner(&sessions, clerk(model)).resumable(true);
        let runner = runner.plugin(Arc::new(PolitePlugin)).build().unwrap();
        for new_events in [2, 0] {
            let request = RunRequest::new("go").with_invocation_id("e-mine");
            let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
            assert_eq!(
                run.collect_events().await.unwrap().len(),
                new_events,
                "{name}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resume_finds_checkpoints_outside_the_loaded_window() {
    for (name, sessions) in services().await {
        let first = clerk(ScriptedModel::new("m").reply(call("pay", "{}")).reply("A."));
        let second = LlmAgent::builder("second").model(ScriptedModel::new("m").reply("B."));
        let row = retain_runtime::SequentialAgent::builder("row").sub_agent(first);
        let row = row.sub_agent(second.build().unwrap()).build().unwrap();
        let runner = runner(&sessions, row).resumable(true).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let events = run.collect_events().await.unwrap();
        let call_event = events
            .iter()
            .find(|it| !it.function_calls().is_empty())
            .unwrap();
        let config = retain_runtime::RunConfig::default().with_get_session_config(
            retain_core::GetSessionConfig {
                num_recent_events: Some(1),
                ..Default::default()
            },
        );
        let request = RunRequest::new(answer(call_event, "pay")).with_config(config);
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        run.collect_events().await.unwrap();
        let lines = stored_lines(&sessions).await;
        assert_eq!(lines.last().unwrap(), "row: done", "{name}: {lines:?}");
        let answers = lines
            .iter()
            .filter(|line| line.ends_with("A.") || line.ends_with("B."));
        assert_eq!(answers.count(), 2, "{name}: {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_call_can_be_answered_after_the_stream_is_dropped() {
    for (name, sessions) in services().await {
        for is_resumable in [false, true] {
            let model = ScriptedModel::new("m")
                .reply(call("pay", "{}"))
                .reply("Paid.");
            let runner = runner(&sessions, clerk(model)).resumable(is_resumable);
            let runner = runner.build().unwrap();
            let mut run = runner.run(USER, Some(SESSION), "go").await.unwrap();
            let call_event = futures_util::StreamExt::next(&mut run)
                .await
                .unwrap()
                .unwrap();
            drop(run);
            let answer = answer(&call_event, "pay");
            let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
            assert_eq!(run.answer().await.unwrap(), "Paid.", "{name}");
        }
    }
}

/// A custom agent that emits a text and does not record its end.
#[derive(Debug)]
struct SpeakingAgent;

#[async_trait]
impl Agent for SpeakingAgent {
    fn name(&self) -> &str {
        "speaker"
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        ctx.emit(Event::model_text("speaker", "Hello.")).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_agent_that_returned_is_not_run_on_resume() {
    for (name, sessions) in services().await {
        let both = retain_runtime::ParallelAgent::builder("both").sub_agent(SpeakingAgent);
        let both = both.build().unwrap();
        let runner = runner(&sessions, both).resumable(true).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let id = run.invocation_id().to_owned();
        run.collect_events().await.unwrap();
        let before = stored_lines(&sessions).await;
        assert_eq!(
            before[2..],
            ["speaker: Hello.", "speaker: done", "both: done"],
            "{name}"
        );
        let run = runner.resume(USER, SESSION, &id).await.unwrap();
        assert!(run.collect_events().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_appended_after_an_approval_does_not_undo_the_approval() {
    for (name, sessions) in services().await {
        let paid = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = Arc::clone(&paid);
        let pay = FunctionTool::untyped("pay", "Pays.", None, move |_, _| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async { Ok(Json::from(JsonMap::from([("paid", true)])).into()) }
        });
        let model = ScriptedModel::new("m")
            .reply(call("pay", "{}"))
            .reply("Paid.");
        let agent = LlmAgent::builder("clerk")
            .model(model)
            .tool(pay.require_confirmation());
        let agent = agent.build().unwrap();
        let runner = runner(&sessions, agent).resumable(true).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let id = run.invocation_id().to_owned();
        let events = run.collect_events().await.unwrap();
        let is_question = |event: &&Event| {
            let calls = event.function_calls();
            calls
                .iter()
                .any(|it| it.name.as_deref() == Some("adk_request_confirmation"))
        };
        let question = events.iter().find(is_question).unwrap();
        let response = FunctionResponse {
            id: question.function_calls()[0].id.clone(),
            name: Some("adk_request_confirmation".to_owned()),
            response: Some([("confirmed", true)].into()),
            ..FunctionResponse::default()
        };
        // The process crashes after storing the approval.
        let mut session = stored(&sessions).await;
        let mut approval = Event::user_text("");
        approval.invocation_id = id.clone();
        approval.response.content = Some(Content::new("user", vec![response.into()]));
        sessions.append_event(&mut session, approval).await.unwrap();
        let request = RunRequest::resume(&id).with_state_delta([("k", 1)].into());
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Paid.", "{name}");
        assert_eq!(paid.load(std::sync::atomic::Ordering::Relaxed), 1, "{name}");
    }
}
