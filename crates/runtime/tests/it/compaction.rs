//! Compaction: when events are summarized, what the model sees afterwards, and that no event is
//! lost.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use retain_core::{
    BoxError, Clock, Content, Event, FunctionCall, FunctionResponse, GetSessionConfig, LlmResponse,
    Session, SessionKey, SessionService, UsageMetadata,
};
use retain_runtime::{
    Agent, CompactionConfig, EventSummarizer, FunctionTool, InvocationContext, LlmAgent,
    ModelError, RunConfig, RunError, RunRequest, Runner, RunnerBuilder, ScriptedModel,
    ScriptedReply, Summary, ToolContext, ToolError,
};
use tokio::sync::Semaphore;

use crate::support::{APP, SESSION, USER, call, services, stored};
use crate::without_log::WithoutLog;

/// A summarizer that waits for a permit and counts its calls.
#[derive(Debug)]
struct GatedSummarizer {
    calls: AtomicUsize,
    gate: Semaphore,
}

impl GatedSummarizer {
    fn closed() -> Arc<GatedSummarizer> {
        Arc::new(GatedSummarizer {
            calls: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        })
    }

    async fn wait_for_calls(&self, times: usize) {
        while self.calls.load(Ordering::SeqCst) < times {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl EventSummarizer for GatedSummarizer {
    async fn summarize(&self, events: &[Arc<Event>]) -> Result<Option<Summary>, BoxError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        self.gate.acquire().await?.forget();
        Ok(Some(format!("summary {number} of {}", events.len()).into()))
    }
}

/// A clock that advances one second per reading, because a summary needs a time span.
#[derive(Debug, Default)]
struct TickingClock(AtomicI64);

impl Clock for TickingClock {
    fn now_us(&self) -> i64 {
        1_000_000 * (1 + self.0.fetch_add(1, Ordering::SeqCst))
    }
}

fn runner(
    sessions: &Arc<dyn SessionService>,
    clock: &Arc<TickingClock>,
    agent: impl Agent,
) -> RunnerBuilder {
    crate::support::runner(sessions, agent).clock(clock.clone())
}

fn agent(model: &Arc<ScriptedModel>) -> LlmAgent {
    let agent = LlmAgent::builder("assistant").model(Arc::clone(model));
    agent.build().unwrap()
}

fn answers(count: usize) -> Arc<ScriptedModel> {
    let model = ScriptedModel::new("scripted");
    Arc::new((1..=count).fold(model, |model, number| {
        model.reply(format!("This is answer number {number}, at some length."))
    }))
}

async fn turn(runner: &Runner, text: &str) {
    let run = runner.run(USER, Some(SESSION), text).await.unwrap();
    run.collect_events().await.unwrap();
}

/// Returns the texts of the summaries in the log.
fn summaries(session: &Session) -> Vec<String> {
    let events = session.events.iter();
    let compactions = events.filter_map(|event| event.actions.compaction.as_ref());
    compactions
        .map(|compaction| compaction.compacted_content.text_concat())
        .collect()
}

/// Returns the contents of the last request, one line each.
fn last_request_lines(model: &ScriptedModel) -> Vec<String> {
    let requests = model.requests();
    let last = requests.last().unwrap().contents.iter();
    last.map(|content| content.text_concat()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sliding_window_summarizes_after_every_second_run() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let mut summary = LlmResponse::from_content(Content::user("They spoke of colors."));
        summary.usage_metadata = Some(UsageMetadata {
            prompt_token_count: Some(12),
            ..UsageMetadata::default()
        });
        let model = ScriptedModel::new("scripted")
            .reply("Blue is a color that I know a lot about.")
            .reply("Red is a color that I know even more about.")
            .reply(summary)
            .reply("Yes.");
        let model = Arc::new(model);
        let runner = runner(&sessions, &clock, agent(&model))
            .compaction(CompactionConfig::new().with_sliding_window(2, 1))
            .build()
            .unwrap();
        turn(&runner, "Is blue a color?").await;
        turn(&runner, "Is red a color?").await;
        runner.flush_compaction().await;
        let session = stored(&sessions).await;
        assert_eq!(session.events.len(), 5, "{name}: nothing is removed");
        let event = session.events.last().unwrap();
        let compaction = event.actions.compaction.as_ref().unwrap();
        assert_eq!(event.author, "user", "{name}");
        assert!(!event.invocation_id.starts_with("e-"), "{name}");
        assert!(event.content().is_none(), "{name}");
        let usage = event.response.usage_metadata.as_ref().unwrap();
        assert_eq!(usage.prompt_token_count, Some(12), "{name}");
        let content = &compaction.compacted_content;
        assert_eq!(content.role.as_deref(), Some("model"), "{name}");
        let times = [0, 3].map(|at| session.events.get(at).unwrap().timestamp);
        let span = [compaction.start_timestamp, compaction.end_timestamp];
        assert_eq!(span, times, "{name}");
        let calls = last_request_lines(&model)[0].clone();
        let (_, transcript) = calls.split_once("interaction.\n\n").unwrap();
        let lines = [
            "user: Is blue a color?",
            "assistant: Blue is a color that I know a lot about.",
            "user: Is red a color?",
            "assistant: Red is a color that I know even more about.",
        ];
        assert_eq!(transcript, lines.join("\n"), "{name}");

        turn(&runner, "Is that so?").await;
        let seen = ["They spoke of colors.", "Is that so?"];
        assert_eq!(last_request_lines(&model), seen, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_run_does_not_wait_for_a_summary() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let model = answers(3);
        let gated = GatedSummarizer::closed();
        let config = CompactionConfig::new().with_sliding_window(1, 0);
        let runner = runner(&sessions, &clock, agent(&model))
            .compaction(config.with_summarizer(gated.clone()))
            .build()
            .unwrap();
        turn(&runner, "one").await;
        gated.wait_for_calls(1).await;
        // The summary of the first run is appended during the second run.
        let mut run = runner.run(USER, Some(SESSION), "two").await.unwrap();
        gated.gate.add_permits(1);
        while summaries(&stored(&sessions).await).is_empty() {
            tokio::task::yield_now().await;
        }
        while let Some(event) = run.next().await {
            event.unwrap();
        }
        gated.wait_for_calls(2).await;
        gated.gate.add_permits(1);
        runner.close().await.unwrap();
        let session = stored(&sessions).await;
        assert_eq!(session.events.len(), 6, "{name}");
        let expected = ["summary 1 of 2", "summary 2 of 2"];
        assert_eq!(summaries(&session), expected, "{name}");
        turn(&runner, "three").await;
        let seen = ["summary 1 of 2", "summary 2 of 2", "three"];
        assert_eq!(last_request_lines(&model), seen, "{name}");
        gated.gate.add_permits(1);
        runner.flush_compaction().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_works_without_a_session_log() {
    let sessions: Arc<dyn SessionService> = Arc::new(WithoutLog::default());
    let clock = Arc::new(TickingClock::default());
    let model = answers(3);
    let open = GatedSummarizer::closed();
    open.gate.add_permits(9);
    let config = CompactionConfig::new().with_sliding_window(2, 0);
    let runner = runner(&sessions, &clock, agent(&model))
        .compaction(config.with_summarizer(open))
        .build()
        .unwrap();
    for text in ["one", "two"] {
        turn(&runner, text).await;
        runner.flush_compaction().await;
    }
    assert_eq!(summaries(&stored(&sessions).await), ["summary 1 of 4"]);
    turn(&runner, "three").await;
    assert_eq!(last_request_lines(&model), ["summary 1 of 4", "three"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_covers_events_outside_the_loaded_window() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let open = GatedSummarizer::closed();
        open.gate.add_permits(9);
        let config = CompactionConfig::new().with_sliding_window(2, 0);
        let runner = runner(&sessions, &clock, agent(&answers(2)))
            .compaction(config.with_summarizer(open))
            .build()
            .unwrap();
        for text in ["one", "two"] {
            let newest = GetSessionConfig {
                num_recent_events: Some(1),
                ..GetSessionConfig::default()
            };
            let config = RunConfig::default().with_get_session_config(newest);
            let request = RunRequest::new(text).with_config(config);
            let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
            run.collect_events().await.unwrap();
            runner.flush_compaction().await;
        }
        let expected = ["summary 1 of 4"];
        assert_eq!(summaries(&stored(&sessions).await), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_ending_during_compaction_are_summarized_next() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let model = answers(3);
        let gated = GatedSummarizer::closed();
        let config = CompactionConfig::new().with_sliding_window(1, 0);
        let runner = runner(&sessions, &clock, agent(&model))
            .compaction(config.with_summarizer(gated.clone()))
            .build()
            .unwrap();
        turn(&runner, "one").await;
        gated.wait_for_calls(1).await;
        turn(&runner, "two").await;
        turn(&runner, "three").await;
        gated.gate.add_permits(2);
        runner.flush_compaction().await;
        let expected = ["summary 1 of 2", "summary 2 of 4"];
        assert_eq!(summaries(&stored(&sessions).await), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summary_of_rewound_events_is_dropped() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let model = answers(2);
        let gated = GatedSummarizer::closed();
        let config = CompactionConfig::new().with_sliding_window(2, 0);
        let runner = runner(&sessions, &clock, agent(&model))
            .compaction(config.with_summarizer(gated.clone()))
            .build()
            .unwrap();
        turn(&runner, "one").await;
        let run = runner.run(USER, Some(SESSION), "two").await.unwrap();
        let second = run.invocation_id().to_owned();
        run.collect_events().await.unwrap();
        gated.wait_for_calls(1).await;
        runner.rewind(USER, SESSION, &second).await.unwrap();
        gated.gate.add_permits(1);
        runner.flush_compaction().await;
        let session = stored(&sessions).await;
        assert_eq!(summaries(&session), [""; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summary_of_already_summarized_events_is_dropped() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let gated = GatedSummarizer::closed();
        let config = CompactionConfig::new().with_sliding_window(1, 0);
        let slow = runner(&sessions, &clock, agent(&answers(1)))
            .compaction(config.clone().with_summarizer(gated.clone()))
            .build()
            .unwrap();
        turn(&slow, "one").await;
        gated.wait_for_calls(1).await;
        let open = GatedSummarizer::closed();
        open.gate.add_permits(1);
        let quick = runner(&sessions, &clock, agent(&answers(1)))
            .compaction(config.with_summarizer(open))
            .build()
            .unwrap();
        turn(&quick, "two").await;
        quick.flush_compaction().await;
        gated.gate.add_permits(1);
        slow.flush_compaction().await;
        let expected = ["summary 1 of 4"];
        assert_eq!(summaries(&stored(&sessions).await), expected, "{name}");
    }
}

#[derive(Debug)]
enum FaultySummarizer {
    Fails,
    Panics,
    SaysNothing,
}

#[async_trait]
impl EventSummarizer for FaultySummarizer {
    async fn summarize(&self, _events: &[Arc<Event>]) -> Result<Option<Summary>, BoxError> {
        match self {
            FaultySummarizer::Fails => Err(ModelError::new("no network").into()),
            FaultySummarizer::Panics => panic!("a bug"),
            FaultySummarizer::SaysNothing => Ok(Some("".into())),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_summarizer_does_not_fail_runs() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let model = answers(6);
        for broken in [
            FaultySummarizer::Fails,
            FaultySummarizer::Panics,
            FaultySummarizer::SaysNothing,
        ] {
            let config = CompactionConfig::new()
                .with_sliding_window(1, 0)
                .with_token_threshold(1, 0)
                .with_summarizer(Arc::new(broken));
            let runner = runner(&sessions, &clock, agent(&model))
                .compaction(config)
                .build()
                .unwrap();
            turn(&runner, "one").await;
            runner.flush_compaction().await;
        }
        let session = stored(&sessions).await;
        assert_eq!(session.events.len(), 6, "{name}");
        assert_eq!(summaries(&session), [""; 0], "{name}");
    }
}

/// Returns a reply that reports a prompt of `tokens` tokens.
fn reply_with_tokens(text: &str, tokens: i64) -> ScriptedReply {
    let mut response = LlmResponse::from_content(Content::model(text));
    response.usage_metadata = Some(UsageMetadata {
        prompt_token_count: Some(tokens),
        ..UsageMetadata::default()
    });
    response.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_prompt_is_summarized_before_the_model_call() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let model = ScriptedModel::new("scripted")
            .reply(reply_with_tokens(
                "A long answer, but not yet too long.",
                50,
            ))
            .reply(reply_with_tokens(
                "Another long answer, and now too long.",
                100,
            ))
            .reply("Summary.")
            .reply(reply_with_tokens("Short again.", 20));
        let model = Arc::new(model);
        let runner = runner(&sessions, &clock, agent(&model))
            // After the run nothing is compacted, because the newest events are never summarized.
            .compaction(CompactionConfig::new().with_token_threshold(100, 3))
            .build()
            .unwrap();
        turn(&runner, "first question").await;
        // From here on the prompt is too long, but no event is old enough after the run.
        let config = CompactionConfig::new().with_token_threshold(100, 10);
        let other = self::runner(&sessions, &clock, agent(&model));
        let other = other.compaction(config).build().unwrap();
        turn(&other, "second question").await;
        other.flush_compaction().await;
        let run = runner.run(USER, Some(SESSION), "third question").await;
        let events = run.unwrap().collect_events().await.unwrap();
        assert_eq!(events.len(), 1, "{name}: the summary is not streamed");
        runner.flush_compaction().await;
        let session = stored(&sessions).await;
        assert_eq!(summaries(&session), ["Summary."], "{name}");
        let position = session
            .events
            .iter()
            .position(|event| event.actions.compaction.is_some());
        assert_eq!(
            position,
            Some(5),
            "{name}: the summary is stored between the message and the answer"
        );
        let seen = [
            "Summary.",
            "second question",
            "Another long answer, and now too long.",
            "third question",
        ];
        assert_eq!(last_request_lines(&model), seen, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_call_is_not_summarized() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let choice = retain_runtime::get_user_choice_tool();
        let model = ScriptedModel::new("scripted")
            .reply("A first answer, which is long enough to be summed up.")
            .reply(call("get_user_choice", r#"{"options": ["red", "blue"]}"#));
        let agent = LlmAgent::builder("assistant").model(model).tool(choice);
        let open = GatedSummarizer::closed();
        open.gate.add_permits(9);
        let config = CompactionConfig::new().with_sliding_window(2, 0);
        let runner = runner(&sessions, &clock, agent.build().unwrap())
            .compaction(config.with_summarizer(open))
            .build()
            .unwrap();
        turn(&runner, "one").await;
        turn(&runner, "two").await;
        runner.flush_compaction().await;
        let session = stored(&sessions).await;
        // The summary covers the first run and the second run's message.
        assert_eq!(summaries(&session), ["summary 1 of 3"], "{name}");
    }
}

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct NoArgs {}

/// Appends an event with two calls to the session: one waits for the user, the other never ran.
async fn append_open_calls(sessions: &Arc<dyn SessionService>) {
    let in_run = |run: &str, event: Event| Event {
        invocation_id: run.to_owned(),
        ..event
    };
    let calls = [("c1", "get_user_choice"), ("c2", "weather")];
    let calls = calls.map(|(id, name)| {
        let call = FunctionCall {
            id: Some(id.to_owned()),
            ..call(name, "{}")
        };
        call.into()
    });
    let calls = LlmResponse::from_content(Content::new("model", calls.to_vec()));
    let mut calls = Event::new("assistant", calls);
    calls.long_running_tool_ids = Some(["c1"].into_iter().collect());
    let events = [
        in_run("e-1", Event::user_text("What a long old question this is!")),
        in_run(
            "e-1",
            Event::model_text("assistant", "And a long old answer."),
        ),
        in_run("e-2", Event::user_text("A drink, please.")),
        in_run("e-2", calls),
    ];
    let created = sessions.create_session(APP, USER, None, Some(SESSION));
    let mut session = created.await.unwrap();
    for (time, event) in (1..).zip(events) {
        let event = Event {
            timestamp: f64::from(time),
            ..event
        };
        sessions.append_event(&mut session, event).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summary_does_not_hide_the_pending_calls_of_a_resumed_run() {
    for (name, sessions) in services().await {
        append_open_calls(&sessions).await;
        let clock = Arc::new(TickingClock::default());
        clock.0.store(100, Ordering::SeqCst);
        let model = Arc::new(ScriptedModel::new("scripted").reply("Tea, in the sun."));
        let weather = FunctionTool::new("weather", "Says it.", |_: ToolContext, _: NoArgs| async {
            Ok::<_, ToolError>(serde_json::json!({"sky": "blue"}))
        });
        let agent = LlmAgent::builder("assistant")
            .model(Arc::clone(&model))
            .tool(retain_runtime::get_user_choice_tool())
            .tool(weather);
        let open = GatedSummarizer::closed();
        open.gate.add_permits(9);
        let config = CompactionConfig::new().with_token_threshold(1, 3);
        let runner = runner(&sessions, &clock, agent.build().unwrap())
            .compaction(config.with_summarizer(open))
            .build()
            .unwrap();
        let answer = [("choice", "tea")].into();
        let answer = FunctionResponse::new("c1", "get_user_choice", answer);
        let answer = Content::new("user", vec![answer.into()]);
        let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
        let events = run.collect_events().await.unwrap();
        assert_eq!(events.len(), 2, "{name}");
        let first = events[0].function_responses();
        assert_eq!(first[0].name.as_deref(), Some("weather"), "{name}");
        runner.flush_compaction().await;
        let summaries = summaries(&stored(&sessions).await);
        assert_eq!(summaries[0], "summary 1 of 2", "{name}");
    }
}

/// A custom agent, which has no model for summaries.
#[derive(Debug)]
struct SilentAgent;

#[async_trait]
impl Agent for SilentAgent {
    fn name(&self) -> &str {
        "silent"
    }

    async fn run(&self, _ctx: &InvocationContext) -> Result<(), RunError> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_compaction_config_is_rejected() {
    let clock = Arc::new(TickingClock::default());
    let sessions: Arc<dyn SessionService> = Arc::new(retain_stores::InMemorySessionService::new());
    let refused = |agent: bool, config: CompactionConfig| {
        let runner = match agent {
            true => runner(&sessions, &clock, scripted_agent()),
            false => runner(&sessions, &clock, SilentAgent),
        };
        runner.compaction(config).build().unwrap_err().to_string()
    };
    let config = CompactionConfig::new;
    assert!(refused(true, config()).contains("no trigger"));
    assert!(refused(true, config().with_sliding_window(0, 1)).contains("interval of 0"));
    assert!(refused(true, config().with_token_threshold(0, 1)).contains("0 tokens"));
    assert!(refused(false, config().with_sliding_window(1, 1)).contains("`with_summarizer`"));
    let own = config()
        .with_sliding_window(1, 1)
        .with_summarizer(Arc::new(FaultySummarizer::Fails));
    assert!(
        runner(&sessions, &clock, SilentAgent)
            .compaction(own)
            .build()
            .is_ok()
    );
}

fn scripted_agent() -> LlmAgent {
    agent(&answers(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summary_of_a_deleted_session_is_dropped() {
    for (name, sessions) in services().await {
        let clock = Arc::new(TickingClock::default());
        let gated = GatedSummarizer::closed();
        let config = CompactionConfig::new().with_sliding_window(1, 0);
        let runner = runner(&sessions, &clock, agent(&answers(1)))
            .compaction(config.with_summarizer(gated.clone()))
            .build()
            .unwrap();
        turn(&runner, "one").await;
        gated.wait_for_calls(1).await;
        sessions.delete_session(APP, USER, SESSION).await.unwrap();
        let key = SessionKey::new(APP, USER, SESSION);
        let made = sessions.create_session(APP, USER, None, Some(SESSION));
        assert_eq!(made.await.unwrap().key(), key);
        gated.gate.add_permits(1);
        runner.flush_compaction().await;
        assert_eq!(stored(&sessions).await.events.len(), 0, "{name}");
    }
}
