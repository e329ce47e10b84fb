//! Hanging or panicking code is contained: it fails its own call or run, and nothing else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use retain_core::{
    BoxError, Content, Event, FunctionDeclaration, JsonMap, LlmResponse, SessionError,
    SessionService,
};
use retain_runtime::{
    Agent, AgentTool, BeforeModel, BeforeTool, CompactionConfig, CompactionError, EventSummarizer,
    FunctionTool, InvocationContext, LlmAgent, LlmAgentBuilder, LlmRequest, ParallelAgent,
    ReadonlyContext, RunConfig, RunError, RunRequest, Runner, RunnerBuilder, ScriptedModel,
    ScriptedReply, Summary, Tool, ToolContext, ToolError, ToolSource, Toolset,
};

use retain_stores::InMemorySessionService;

use crate::support::{
    APP, LeaseClock, SESSION, USER, at_once, call, events_of, runner, services, stored, story,
};

/// The time limit for code that hangs forever.
const SHORT: Duration = Duration::from_millis(5);

fn hanging_tool() -> FunctionTool {
    FunctionTool::untyped("hang", "", None, |ctx: ToolContext, _| async move {
        ctx.state().set("started", true);
        std::future::pending().await
    })
}

fn note_tool() -> FunctionTool {
    FunctionTool::untyped("note", "", None, |ctx: ToolContext, _| async move {
        ctx.state().set("noted", true);
        Ok(JsonMap::from([("ok", true)]).into())
    })
}

/// Creates an agent that calls `hang` and `note` in parallel, and then says `Done.`
fn two_call_agent() -> LlmAgentBuilder {
    let calls = vec![call("hang", "{}"), call("note", "{}")];
    let model = ScriptedModel::new("m").reply(calls);
    LlmAgent::builder("a").model(model.otherwise(|_| "Done."))
}

/// Runs and returns the short form of the events.
async fn run_lines(runner: &Runner, request: RunRequest) -> Vec<String> {
    let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
    let events = run.collect_events().await.unwrap();
    story(events.into_iter().map(Arc::new))
}

#[tokio::test]
async fn hanging_tool_times_out_and_the_turn_continues() {
    for (name, sessions) in services().await {
        let agent = two_call_agent()
            .tool(hanging_tool())
            .tool(note_tool())
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).tool_time_limit(SHORT);
        let lines = run_lines(&runner.build().unwrap(), RunRequest::new("Hi")).await;
        let why = "Invoking `hang()` failed as it did not finish within its time limit of 5ms";
        assert!(lines[1].contains(why), "{name}: {}", lines[1]);
        assert!(
            lines[1].ends_with(r#"note -> {"ok":true}"#),
            "{name}: {lines:?}"
        );
        assert_eq!(lines[2], "a: Done.", "{name}");
        // The state that the call wrote before the timeout is stored anyway.
        let session = stored(&sessions).await;
        assert_eq!(session.state["started"], true, "{name}");
        assert_eq!(session.state["noted"], true, "{name}");
    }
}

#[tokio::test]
async fn tool_timeout_can_be_set_per_run_or_per_tool() {
    for (name, sessions) in services().await {
        let agent = two_call_agent()
            .tool(hanging_tool())
            .tool(note_tool())
            .build()
            .unwrap();
        let of_run = runner(&sessions, agent).build().unwrap();
        let config = RunConfig::default().with_tool_time_limit(SHORT);
        let lines = run_lines(&of_run, RunRequest::new("Hi").with_config(config)).await;
        assert!(
            lines[1].contains("time limit of 5ms"),
            "{name}: {}",
            lines[1]
        );

        let tool = hanging_tool().with_time_limit(SHORT * 2);
        let agent = two_call_agent()
            .tool(tool)
            .tool(note_tool())
            .build()
            .unwrap();
        let of_tool = runner(&sessions, agent).build().unwrap();
        let lines = run_lines(&of_tool, RunRequest::new("Hi")).await;
        assert!(
            lines[1].contains("time limit of 10ms"),
            "{name}: {}",
            lines[1]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn tool_timeout_defaults_to_ten_minutes_unless_the_tool_sets_one() {
    fn slow(minutes: u64) -> FunctionTool {
        FunctionTool::untyped("hang", "", None, move |_, _| async move {
            tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
            Ok("slow".into())
        })
    }
    let (_, sessions) = services().await.swap_remove(0);
    let cases = [
        (slow(9), true),
        (slow(11), false),
        (slow(60 * 24).with_time_limit(Duration::MAX), true),
    ];
    for (number, (tool, in_time)) in cases.into_iter().enumerate() {
        let agent = two_call_agent()
            .tool(tool)
            .tool(note_tool())
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let lines = run_lines(&runner, RunRequest::new("Hi")).await;
        let is_slow = lines[1].contains(r#"hang -> {"result":"slow"}"#);
        assert_eq!(is_slow, in_time, "case {number}: {lines:?}");
    }
}

#[tokio::test]
async fn callback_answers_for_a_timed_out_tool() {
    for (name, sessions) in services().await {
        let agent = two_call_agent().tool(hanging_tool()).tool(note_tool());
        let agent = agent.on_tool_error(|_, call, error| async move {
            let code = error.code.clone().unwrap_or_default();
            Ok(Some(format!("{}: {code}", call.name).into()))
        });
        let runner = runner(&sessions, agent.build().unwrap()).tool_time_limit(SHORT);
        let lines = run_lines(&runner.build().unwrap(), RunRequest::new("Hi")).await;
        let answered = r#"a: hang -> {"result":"hang: TOOL_TIME_LIMIT"}"#;
        assert!(lines[1].starts_with(answered), "{name}: {}", lines[1]);
    }
}

#[tokio::test]
async fn tool_timeout_applies_inside_an_agent_tool_but_not_to_it() {
    for (name, sessions) in services().await {
        let inner = two_call_agent()
            .tool(hanging_tool())
            .tool(note_tool())
            .build()
            .unwrap();
        let model = ScriptedModel::new("m").reply(call("a", r#"{"request": "?"}"#));
        let outer = LlmAgent::builder("outer").model(model.reply("Over."));
        let outer = outer.tool(AgentTool::new(inner)).build().unwrap();
        let runner = runner(&sessions, outer).tool_time_limit(SHORT);
        let lines = run_lines(&runner.build().unwrap(), RunRequest::new("Hi")).await;
        // The agent tool has no timeout, but its inner tool has one.
        let expected = [r#"outer: a -> {"result":"Done."}"#, "outer: Over."];
        assert_eq!(lines[1..], expected, "{name}");
    }
}

/// A tool that blocks its thread must not block runs on other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_tool_does_not_block_other_runs() {
    for (name, sessions) in services().await {
        let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let block = FunctionTool::untyped("hang", "", None, move |_, _| {
            let (starts, released) = (starts.clone(), Arc::clone(&released));
            async move {
                starts.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
                Ok("released".into())
            }
        });
        let agent = two_call_agent()
            .tool(block)
            .tool(note_tool())
            .build()
            .unwrap();
        let blocked = runner(&sessions, agent).build().unwrap();
        let run = tokio::spawn(async move { run_lines(&blocked, RunRequest::new("Hi")).await });
        started.recv().await.unwrap();

        let model = ScriptedModel::new("m").reply("Hello!");
        let agent = LlmAgent::builder("b").model(model).build().unwrap();
        let other = runner(&sessions, agent).build().unwrap();
        let answer = other.run(USER, Some("s2"), "Hi").await.unwrap();
        assert_eq!(answer.answer().await.unwrap(), "Hello!", "{name}");

        release.send(()).unwrap();
        let lines = run.await.unwrap();
        // While the tool blocks its thread, no time limit applies to it.
        assert!(lines[1].contains("released"), "{name}: {lines:?}");
    }
}

/// Runs an agent whose tool blocks the runtime's only thread while `meanwhile` uses the same runner
/// on another thread. In a run that `meanwhile` starts, the tool hangs.
async fn run_blocking_tool(
    runner: RunnerBuilder,
    meanwhile: impl FnOnce(&Runner) + Send + 'static,
) -> Result<Vec<Event>, RunError> {
    let meanwhile = std::sync::Mutex::new(Some(meanwhile));
    let slot: Arc<std::sync::OnceLock<Runner>> = Arc::default();
    let shared = Arc::clone(&slot);
    let block = FunctionTool::untyped("hang", "", None, move |_, _| {
        let (meanwhile, shared) = (meanwhile.lock().unwrap().take(), Arc::clone(&shared));
        async move {
            let Some(meanwhile) = meanwhile else {
                return std::future::pending().await;
            };
            let thread = std::thread::spawn(move || meanwhile(shared.get().unwrap()));
            Ok(thread.join().is_ok().into())
        }
    });
    let model = ScriptedModel::new("m").otherwise(|request: &LlmRequest| {
        let last = request.contents.last().unwrap();
        match last.function_responses().next() {
            Some(_) => ScriptedReply::from("Done."),
            None => vec![call("hang", "{}"), call("note", "{}")].into(),
        }
    });
    let agent = LlmAgent::builder("a").model(model);
    let agent = agent.tool(block).tool(note_tool()).build().unwrap();
    let runner = runner.agent(agent).build().unwrap();
    slot.set(runner.clone()).unwrap();
    let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
    run.collect_events().await
}

fn new_thread_runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// Starts another run of the session without waiting for the lease, with a separate runner, as
/// another process would.
fn run_elsewhere(sessions: Arc<dyn SessionService>) -> Result<String, RunError> {
    let model = ScriptedModel::new("m").reply("Mine.");
    let agent = LlmAgent::builder("b").model(model).build().unwrap();
    let other = Runner::builder().app_name(APP).agent(agent);
    let other = other.session_service(sessions).build().unwrap();
    new_thread_runtime().block_on(async {
        let run = other.run_with(USER, Some(SESSION), at_once("x")).await?;
        run.answer().await
    })
}

#[tokio::test]
async fn run_keeps_its_lease_while_a_tool_blocks_the_only_thread() {
    let clock = LeaseClock::default();
    for (name, sessions) in clock.services().await {
        let (clock, elsewhere) = (clock.clone(), Arc::clone(&sessions));
        let runner = Runner::builder().app_name(APP).session_service(sessions);
        let run = run_blocking_tool(runner.auto_create_session(true), move |_| {
            new_thread_runtime().block_on(clock.outlive_ttl());
            let refused = run_elsewhere(elsewhere).unwrap_err();
            let is_busy = matches!(&refused, RunError::Session(SessionError::RunBusy { .. }));
            assert!(is_busy, "{refused}");
        });
        let events = run.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let lines = story(events.into_iter().map(Arc::new));
        assert!(
            lines[1].contains(r#"hang -> {"result":true}"#),
            "{name}: {lines:?}"
        );
    }
}

#[tokio::test]
async fn run_loses_its_lease_when_a_tool_blocks_beyond_the_idle_limit() {
    let clock = LeaseClock::default();
    for (name, sessions) in clock.services().await {
        let (clock, elsewhere) = (clock.clone(), Arc::clone(&sessions));
        let runner = Runner::builder().app_name(APP);
        let runner = runner.session_service(Arc::clone(&sessions));
        let runner = runner.idle_limit(Duration::ZERO).auto_create_session(true);
        let run = run_blocking_tool(runner, move |runner| {
            new_thread_runtime().block_on(async {
                // This run's tool does not block its thread, so the lease is renewed.
                let hanging = runner.run(USER, Some("hanging"), "Hi").await.unwrap();
                tokio::select! {
                    events = hanging.collect_events() => panic!("the run ended: {events:?}"),
                    () = clock.outlive_ttl() => {}
                }
            });
            assert_eq!(run_elsewhere(elsewhere).unwrap(), "Mine.");
        });
        let error = run.await.unwrap_err();
        assert!(
            error.to_string().contains("a later run has taken over"),
            "{name}: {error}"
        );
        let lines = story(events_of(&stored(&sessions).await));
        let expected = ["user: Hi", "a: hang({}) + note({})", "user: x", "b: Mine."];
        assert_eq!(lines, expected, "{name}");
    }
}

/// A toolset that hangs or panics when it lists its tools.
#[derive(Debug)]
struct FaultyToolset {
    hangs: bool,
}

#[async_trait]
impl Toolset for FaultyToolset {
    fn name(&self) -> &str {
        "bad"
    }

    async fn tools(&self, _: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        match self.hangs {
            true => std::future::pending().await,
            false => panic!("no tools today"),
        }
    }
}

#[tokio::test]
async fn agent_continues_without_a_hanging_or_panicking_toolset() {
    for (name, sessions) in services().await {
        for hangs in [true, false] {
            let set: Arc<dyn Toolset> = Arc::new(FaultyToolset { hangs });
            let model = ScriptedModel::new("m").reply(call("note", "{}"));
            let agent = LlmAgent::builder("a")
                .model(model.reply("Done."))
                .tool(ToolSource::Set(set))
                .tool(note_tool());
            let runner = runner(&sessions, agent.build().unwrap()).tool_time_limit(SHORT);
            let lines = run_lines(&runner.build().unwrap(), RunRequest::new("Hi")).await;
            let expected = ["a: note({})", r#"a: note -> {"ok":true}"#, "a: Done."];
            assert_eq!(lines, expected, "{name}, hangs: {hangs}");
        }
    }
}

/// A toolset that counts its closes, and may hang while closing.
#[derive(Debug, Default)]
struct CountingToolset {
    hangs: bool,
    closed: AtomicUsize,
}

#[async_trait]
impl Toolset for CountingToolset {
    fn name(&self) -> &str {
        "closing"
    }

    async fn tools(&self, _: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        Ok(Vec::new())
    }

    async fn close(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            std::future::pending().await
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_the_runner_closes_each_toolset_once() {
    let hanging = Arc::new(CountingToolset {
        hangs: true,
        ..CountingToolset::default()
    });
    let shared = Arc::new(CountingToolset::default());
    let source = |set: &Arc<CountingToolset>| ToolSource::Set(Arc::clone(set) as Arc<dyn Toolset>);
    let agent = |name: &str| LlmAgent::builder(name).model(ScriptedModel::new("m"));
    let below = agent("below").tool(source(&shared)).build().unwrap();
    let above = agent("above").tool(source(&hanging)).tool(source(&shared));
    let above = above.sub_agent(below).build().unwrap();
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let runner = runner(&sessions, above).build().unwrap();
    runner.close().await.unwrap();
    for set in [hanging, shared] {
        assert_eq!(set.closed.load(Ordering::SeqCst), 1, "{set:?}");
    }
}

#[tokio::test]
async fn closing_the_runner_closes_toolsets_of_agent_tools() {
    let agent = |name: &str| LlmAgent::builder(name).model(ScriptedModel::new("m"));
    let set = Arc::new(CountingToolset::default());
    let innermost = agent("innermost").tool(ToolSource::Set(Arc::clone(&set) as Arc<dyn Toolset>));
    let shared: Arc<dyn Tool> = Arc::new(AgentTool::new(innermost.build().unwrap()));
    let inner = agent("inner").tool(ToolSource::Tool(Arc::clone(&shared)));
    // The toolset belongs to a sub-agent of an agent tool.
    let inner = agent("around").sub_agent(inner.build().unwrap());
    let outer = agent("outer").tool(AgentTool::new(inner.build().unwrap()));
    let outer = outer.tool(ToolSource::Tool(shared)).build().unwrap();
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let runner = runner(&sessions, outer).build().unwrap();
    runner.close().await.unwrap();
    assert_eq!(set.closed.load(Ordering::SeqCst), 1);
}

/// The fault of a tool or toolset that processes a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Hangs,
    Panics,
    Fails,
}

impl Fault {
    async fn trigger(self) -> Result<(), ToolError> {
        match self {
            Fault::Hangs => std::future::pending().await,
            Fault::Panics => panic!("bad day"),
            Fault::Fails => Err(ToolError::new("bad day")),
        }
    }
}

/// A tool, or a toolset with one tool, that fails to process a request.
#[derive(Debug, Clone, Copy)]
struct BadProcessor(Fault);

#[async_trait]
impl Tool for BadProcessor {
    fn name(&self) -> &str {
        "bad"
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        Some(FunctionDeclaration {
            name: Some("bad".to_owned()),
            ..FunctionDeclaration::default()
        })
    }

    async fn process_request(&self, _: &ToolContext, _: &mut LlmRequest) -> Result<(), ToolError> {
        self.0.trigger().await
    }
}

#[async_trait]
impl Toolset for BadProcessor {
    fn name(&self) -> &str {
        "bad set"
    }

    async fn tools(&self, _: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        Ok(vec![Arc::new(*self)])
    }

    async fn process_request(&self, _: &ToolContext, _: &mut LlmRequest) -> Result<(), ToolError> {
        self.0.trigger().await
    }
}

/// Runs an agent with the faulty tool or toolset and one good tool. The model answers with the
/// names of the tools in its request.
async fn run_with_processor(
    sessions: &Arc<dyn SessionService>,
    source: ToolSource,
) -> Result<String, RunError> {
    let model = ScriptedModel::new("m").otherwise(|request| {
        let names: Vec<&str> = request.tools.names().collect();
        ScriptedReply::from(names.join(" "))
    });
    let agent = LlmAgent::builder("a").model(model).tool(source);
    let agent = agent.tool(note_tool()).build().unwrap();
    let runner = runner(sessions, agent).tool_time_limit(SHORT);
    let runner = runner.build().unwrap();
    runner.run(USER, Some(SESSION), "Hi").await?.answer().await
}

#[tokio::test]
async fn toolset_failing_to_process_a_request_is_skipped() {
    for (name, sessions) in services().await {
        for fault in [Fault::Hangs, Fault::Panics, Fault::Fails] {
            let set: Arc<dyn Toolset> = Arc::new(BadProcessor(fault));
            let answer = run_with_processor(&sessions, ToolSource::Set(set)).await;
            assert_eq!(answer.unwrap(), "note", "{name}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn tool_that_hangs_while_processing_a_request_is_skipped() {
    for (name, sessions) in services().await {
        let answer = run_with_processor(&sessions, BadProcessor(Fault::Hangs).into()).await;
        assert_eq!(answer.unwrap(), "bad note", "{name}");
    }
}

#[tokio::test]
async fn tool_that_fails_to_process_a_request_fails_the_run_and_is_named() {
    for (name, sessions) in services().await {
        for (fault, why) in [
            (Fault::Panics, "panicked: bad day"),
            (Fault::Fails, "bad day"),
        ] {
            let error = run_with_processor(&sessions, BadProcessor(fault).into()).await;
            let RunError::Tool { tool, source } = error.unwrap_err() else {
                panic!("{name}, {fault:?}: the run did not fail by the tool");
            };
            assert_eq!(
                (tool.as_str(), source.to_string().as_str()),
                ("bad", why),
                "{name}"
            );
            let again = run_with_processor(&sessions, note_tool().into()).await;
            assert_eq!(again.unwrap(), "note", "{name}: the session is free");
        }
    }
}

fn panic_in_callback<T>() -> Result<T, BoxError> {
    panic!("bad day")
}

#[tokio::test]
async fn panicking_callback_is_named_in_the_error_and_releases_the_session() {
    type AddCallback = fn(LlmAgentBuilder) -> LlmAgentBuilder;
    let cases: [(&str, AddCallback); 6] = [
        ("before_agent", |a| {
            a.before_agent(|_| async { panic_in_callback::<Option<Content>>() })
        }),
        ("after_agent", |a| {
            a.after_agent(|_| async { panic_in_callback::<Option<Content>>() })
        }),
        ("before_model", |a| {
            a.before_model(|_, _| async { panic_in_callback::<BeforeModel>() })
        }),
        ("after_model", |a| {
            a.after_model(|_, _| async { panic_in_callback::<Option<LlmResponse>>() })
        }),
        ("before_tool", |a| {
            a.before_tool(|_, _| async { panic_in_callback::<BeforeTool>() })
        }),
        ("after_tool", |a| {
            a.after_tool(|_, _| async { panic_in_callback() })
        }),
    ];
    for (name, sessions) in services().await {
        for (callback, add) in cases {
            let model = ScriptedModel::new("m")
                .reply(call("note", "{}"))
                .reply("Done.");
            let agent = add(LlmAgent::builder("a").model(model).tool(note_tool()));
            let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
            let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
            let error = run.collect_events().await.unwrap_err();
            let expected = format!("{callback} callback of agent a failed: panicked: bad day");
            assert_eq!(error.to_string(), expected, "{name}");
            let last = story(events_of(&stored(&sessions).await)).pop().unwrap();
            assert_eq!(last, "a: [CallbackError]", "{name}, {callback}");
        }
    }
}

/// An agent that panics.
#[derive(Debug)]
struct PanickingAgent;

#[async_trait]
impl Agent for PanickingAgent {
    fn name(&self) -> &str {
        "p"
    }

    async fn run(&self, _: &InvocationContext) -> Result<(), RunError> {
        panic!("bad day")
    }
}

#[tokio::test]
async fn panic_in_an_agent_tool_or_parallel_sub_agent_is_reported_by_name() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").reply(call("p", r#"{"request": "?"}"#));
        let agent = LlmAgent::builder("a").model(model.otherwise(|_| "Still here."));
        let agent = agent.tool(AgentTool::new(PanickingAgent)).build().unwrap();
        let as_tool = runner(&sessions, agent).build().unwrap();
        let run = as_tool.run(USER, Some(SESSION), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err().to_string();
        let expected = "tool p failed: panicked: bad day";
        assert_eq!(error, expected, "{name}");

        let calm = LlmAgent::builder("calm").model(ScriptedModel::new("m").reply("Om."));
        let both = ParallelAgent::builder("both");
        let both = both
            .sub_agent(calm.build().unwrap())
            .sub_agent(PanickingAgent);
        let parallel = runner(&sessions, both.build().unwrap()).build().unwrap();
        let run = parallel.run(USER, Some(SESSION), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err().to_string();
        assert_eq!(error, "agent p failed: panicked: bad day", "{name}");
        let last = story(events_of(&stored(&sessions).await)).pop().unwrap();
        assert_eq!(last, "p: [AgentError]", "{name}");

        let run = as_tool.run(USER, Some(SESSION), "Alive?").await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Still here.", "{name}");
    }
}

/// A summarizer that hangs on its first summary.
#[derive(Debug, Default)]
struct HangingSummarizer(std::sync::atomic::AtomicBool);

#[async_trait]
impl EventSummarizer for HangingSummarizer {
    async fn summarize(&self, _: &[Arc<Event>]) -> Result<Option<Summary>, BoxError> {
        match self.0.swap(true, std::sync::atomic::Ordering::Relaxed) {
            false => std::future::pending().await,
            true => Ok(Some("It began.".into())),
        }
    }
}

#[tokio::test]
async fn hanging_summarizer_times_out_and_the_next_run_retries() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").otherwise(|_| "Yes.");
        let agent = LlmAgent::builder("a").model(model).build().unwrap();
        let compaction = CompactionConfig::new().with_sliding_window(1, 0);
        let compaction = compaction
            .with_summarizer(Arc::new(HangingSummarizer::default()))
            .with_time_limit(SHORT);
        let runner = runner(&sessions, agent).compaction(compaction);
        let runner = runner.build().unwrap();
        let says = "A long story. ".repeat(200);
        let run = runner
            .run(USER, Some(SESSION), says.as_str())
            .await
            .unwrap();
        run.answer().await.unwrap();
        let failures = runner.flush_compaction().await;
        let [(key, CompactionError::OutOfTime { limit: SHORT })] = failures.as_slice() else {
            panic!("{name}: {failures:?}");
        };
        assert_eq!(key.id, SESSION, "{name}");
        assert_eq!(stored(&sessions).await.events.len(), 2, "{name}");

        let run = runner
            .run(USER, Some(SESSION), says.as_str())
            .await
            .unwrap();
        run.answer().await.unwrap();
        let failures = runner.flush_compaction().await;
        assert!(failures.is_empty(), "{name}: {failures:?}");
        let session = stored(&sessions).await;
        assert_eq!(session.events.len(), 5, "{name}");
        let summaries = session
            .events
            .iter()
            .filter(|it| it.actions.compaction.is_some());
        assert_eq!(summaries.count(), 1, "{name}");
        runner.close().await.unwrap();
    }
}

#[tokio::test]
async fn hanging_summarizer_does_not_block_the_model_call() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").otherwise(|_| "Yes.");
        let agent = LlmAgent::builder("a").model(model).build().unwrap();
        let compaction = CompactionConfig::new().with_token_threshold(1, 0);
        let compaction = compaction
            .with_summarizer(Arc::new(HangingSummarizer::default()))
            .with_time_limit(SHORT);
        let runner = runner(&sessions, agent).compaction(compaction);
        let runner = runner.build().unwrap();
        let says = "A long story. ".repeat(200);
        let run = runner
            .run(USER, Some(SESSION), says.as_str())
            .await
            .unwrap();
        assert_eq!(run.answer().await.unwrap(), "Yes.", "{name}");
        runner.close().await.unwrap();
    }
}
