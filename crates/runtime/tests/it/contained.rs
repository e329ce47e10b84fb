//! Hanging or panicking code is contained: it fails its own call or its own run, and nothing else.

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

/// The timeout of hanging code in these tests.
const SHORT: Duration = Duration::from_millis(5);

fn hanging() -> FunctionTool {
    FunctionTool::untyped("hang", "", None, |ctx: ToolContext, _| async move {
        ctx.state().set("begun", true);
        std::future::pending().await
    })
}

fn noting() -> FunctionTool {
    FunctionTool::untyped("note", "", None, |ctx: ToolContext, _| async move {
        ctx.state().set("noted", true);
        Ok(JsonMap::from([("ok", true)]).into())
    })
}

/// An agent that calls `hang` and `note` in parallel, and then says `Done.`
fn patient() -> LlmAgentBuilder {
    let calls = vec![call("hang", "{}"), call("note", "{}")];
    let model = ScriptedModel::new("m").reply(calls);
    LlmAgent::builder("a").model(model.otherwise(|_| "Done."))
}

async fn told(runner: &Runner, request: RunRequest) -> Vec<String> {
    let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
    let events = run.collect_events().await.unwrap();
    story(events.into_iter().map(Arc::new))
}

#[tokio::test]
async fn hanging_tool_times_out_and_the_turn_continues() {
    for (name, sessions) in services().await {
        let agent = patient().tool(hanging()).tool(noting()).build().unwrap();
        let runner = runner(&sessions, agent).tool_time_limit(SHORT);
        let told = told(&runner.build().unwrap(), RunRequest::new("Hi")).await;
        let why = "Invoking `hang()` failed as it did not finish within its time limit of 5ms";
        assert!(told[1].contains(why), "{name}: {}", told[1]);
        assert!(
            told[1].ends_with(r#"note -> {"ok":true}"#),
            "{name}: {told:?}"
        );
        assert_eq!(told[2], "a: Done.", "{name}");
        // The effects of the call before the timeout are kept.
        let session = stored(&sessions).await;
        assert_eq!(session.state["begun"], true, "{name}");
        assert_eq!(session.state["noted"], true, "{name}");
    }
}

#[tokio::test]
async fn tool_timeout_can_be_set_per_run_or_per_tool() {
    for (name, sessions) in services().await {
        let agent = patient().tool(hanging()).tool(noting()).build().unwrap();
        let of_run = runner(&sessions, agent).build().unwrap();
        let config = RunConfig::default().with_tool_time_limit(SHORT);
        let said = told(&of_run, RunRequest::new("Hi").with_config(config)).await;
        assert!(said[1].contains("time limit of 5ms"), "{name}: {}", said[1]);

        let tool = hanging().with_time_limit(SHORT * 2);
        let agent = patient().tool(tool).tool(noting()).build().unwrap();
        let of_tool = runner(&sessions, agent).build().unwrap();
        let said = told(&of_tool, RunRequest::new("Hi")).await;
        assert!(
            said[1].contains("time limit of 10ms"),
            "{name}: {}",
            said[1]
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
        let agent = patient().tool(tool).tool(noting()).build().unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let told = told(&runner, RunRequest::new("Hi")).await;
        let is_slow = told[1].contains(r#"hang -> {"result":"slow"}"#);
        assert_eq!(is_slow, in_time, "case {number}: {told:?}");
    }
}

#[tokio::test]
async fn callback_answers_for_a_timed_out_tool() {
    for (name, sessions) in services().await {
        let agent = patient().tool(hanging()).tool(noting());
        let agent = agent.on_tool_error(|_, call, error| async move {
            let code = error.code.clone().unwrap_or_default();
            Ok(Some(format!("{}: {code}", call.name).into()))
        });
        let runner = runner(&sessions, agent.build().unwrap()).tool_time_limit(SHORT);
        let told = told(&runner.build().unwrap(), RunRequest::new("Hi")).await;
        let answered = r#"a: hang -> {"result":"hang: TOOL_TIME_LIMIT"}"#;
        assert!(told[1].starts_with(answered), "{name}: {}", told[1]);
    }
}

#[tokio::test]
async fn tool_timeout_applies_inside_an_agent_tool_but_not_to_it() {
    for (name, sessions) in services().await {
        let inner = patient().tool(hanging()).tool(noting()).build().unwrap();
        let model = ScriptedModel::new("m").reply(call("a", r#"{"request": "?"}"#));
        let outer = LlmAgent::builder("outer").model(model.reply("Over."));
        let outer = outer.tool(AgentTool::new(inner)).build().unwrap();
        let runner = runner(&sessions, outer).tool_time_limit(SHORT);
        let told = told(&runner.build().unwrap(), RunRequest::new("Hi")).await;
        // The agent tool has no timeout, its inner tool has one.
        let expected = [r#"outer: a -> {"result":"Done."}"#, "outer: Over."];
        assert_eq!(told[1..], expected, "{name}");
    }
}

/// A tool that blocks its thread does not block runs on other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_tool_does_not_block_other_runs() {
    for (name, sessions) in services().await {
        let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let block = FunctionTool::untyped("hang", "", None, move |_, _| {
            let (began, released) = (began.clone(), Arc::clone(&released));
            async move {
                began.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
                Ok("let go".into())
            }
        });
        let agent = patient().tool(block).tool(noting()).build().unwrap();
        let blocked = runner(&sessions, agent).build().unwrap();
        let run = tokio::spawn(async move { told(&blocked, RunRequest::new("Hi")).await });
        begun.recv().await.unwrap();

        let model = ScriptedModel::new("m").reply("Hello!");
        let agent = LlmAgent::builder("b").model(model).build().unwrap();
        let other = runner(&sessions, agent).build().unwrap();
        let answer = other.run(USER, Some("s2"), "Hi").await.unwrap();
        assert_eq!(answer.answer().await.unwrap(), "Hello!", "{name}");

        release.send(()).unwrap();
        let told = run.await.unwrap();
        // The tool returned before the timeout could be checked.
        assert!(told[1].contains("let go"), "{name}: {told:?}");
    }
}

/// Runs an agent whose tool blocks the only thread of the runtime while `meanwhile` uses the same
/// runner on another thread. In a run that `meanwhile` starts, the tool hangs.
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
    let agent = agent.tool(block).tool(noting()).build().unwrap();
    let runner = runner.agent(agent).build().unwrap();
    slot.set(runner.clone()).unwrap();
    let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
    run.collect_events().await
}

fn new_thread_runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// Starts another run of the session without waiting for the lease, with a runner of its own, as
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
async fn tool_blocking_the_only_thread_keeps_its_lease() {
    let clock = LeaseClock::default();
    for (name, sessions) in clock.services().await {
        let (clock, elsewhere) = (clock.clone(), Arc::clone(&sessions));
        let runner = Runner::builder().app_name(APP).session_service(sessions);
        let ran = run_blocking_tool(runner.auto_create_session(true), move |_| {
            new_thread_runtime().block_on(clock.outlive_ttl());
            let refused = run_elsewhere(elsewhere).unwrap_err();
            let is_busy = matches!(&refused, RunError::Session(SessionError::RunBusy { .. }));
            assert!(is_busy, "{refused}");
        });
        let events = ran.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let told = story(events.into_iter().map(Arc::new));
        assert!(
            told[1].contains(r#"hang -> {"result":true}"#),
            "{name}: {told:?}"
        );
    }
}

#[tokio::test]
async fn tool_blocking_its_thread_beyond_the_idle_limit_loses_its_lease() {
    let clock = LeaseClock::default();
    for (name, sessions) in clock.services().await {
        let (clock, elsewhere) = (clock.clone(), Arc::clone(&sessions));
        let runner = Runner::builder().app_name(APP);
        let runner = runner.session_service(Arc::clone(&sessions));
        let runner = runner.idle_limit(Duration::ZERO).auto_create_session(true);
        let ran = run_blocking_tool(runner, move |runner| {
            new_thread_runtime().block_on(async {
                // The tool of this run does not block its thread, so its lease is renewed.
                let hanging = runner.run(USER, Some("hanging"), "Hi").await.unwrap();
                tokio::select! {
                    events = hanging.collect_events() => panic!("the run ended: {events:?}"),
                    () = clock.outlive_ttl() => {}
                }
            });
            assert_eq!(run_elsewhere(elsewhere).unwrap(), "Mine.");
        });
        let error = ran.await.unwrap_err();
        assert!(
            error.to_string().contains("a later run has taken over"),
            "{name}: {error}"
        );
        let told = story(events_of(&stored(&sessions).await));
        let expected = ["user: Hi", "a: hang({}) + note({})", "user: x", "b: Mine."];
        assert_eq!(told, expected, "{name}");
    }
}

/// A toolset that hangs or panics when it lists its tools.
#[derive(Debug)]
struct BadSet {
    hangs: bool,
}

#[async_trait]
impl Toolset for BadSet {
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
            let set: Arc<dyn Toolset> = Arc::new(BadSet { hangs });
            let model = ScriptedModel::new("m").reply(call("note", "{}"));
            let agent = LlmAgent::builder("a")
                .model(model.reply("Done."))
                .tool(ToolSource::Set(set))
                .tool(noting());
            let runner = runner(&sessions, agent.build().unwrap()).tool_time_limit(SHORT);
            let told = told(&runner.build().unwrap(), RunRequest::new("Hi")).await;
            let expected = ["a: note({})", r#"a: note -> {"ok":true}"#, "a: Done."];
            assert_eq!(told, expected, "{name}, hangs: {hangs}");
        }
    }
}

/// A toolset that counts its closes, and may hang while closing.
#[derive(Debug, Default)]
struct ClosingSet {
    hangs: bool,
    closed: AtomicUsize,
}

#[async_trait]
impl Toolset for ClosingSet {
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
    let hanging = Arc::new(ClosingSet {
        hangs: true,
        ..ClosingSet::default()
    });
    let shared = Arc::new(ClosingSet::default());
    let source = |set: &Arc<ClosingSet>| ToolSource::Set(Arc::clone(set) as Arc<dyn Toolset>);
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
    let set = Arc::new(ClosingSet::default());
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

/// How a tool or toolset fails when it processes a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    Hangs,
    Panics,
    Fails,
}

impl Trouble {
    async fn happens(self) -> Result<(), ToolError> {
        match self {
            Trouble::Hangs => std::future::pending().await,
            Trouble::Panics => panic!("bad day"),
            Trouble::Fails => Err(ToolError::new("bad day")),
        }
    }
}

/// A tool, or a toolset with one tool, that fails to process a request.
#[derive(Debug, Clone, Copy)]
struct BadAddition(Trouble);

#[async_trait]
impl Tool for BadAddition {
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
        self.0.happens().await
    }
}

#[async_trait]
impl Toolset for BadAddition {
    fn name(&self) -> &str {
        "bad set"
    }

    async fn tools(&self, _: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        Ok(vec![Arc::new(*self)])
    }

    async fn process_request(&self, _: &ToolContext, _: &mut LlmRequest) -> Result<(), ToolError> {
        self.0.happens().await
    }
}

/// Run an agent with the failing tool or toolset and one good tool. The model answers with the
/// names of the tools in its request.
async fn run_with_addition(
    sessions: &Arc<dyn SessionService>,
    source: ToolSource,
) -> Result<String, RunError> {
    let model = ScriptedModel::new("m").otherwise(|request| {
        let names: Vec<&str> = request.tools.names().collect();
        ScriptedReply::from(names.join(" "))
    });
    let agent = LlmAgent::builder("a").model(model).tool(source);
    let agent = agent.tool(noting()).build().unwrap();
    let runner = runner(sessions, agent).tool_time_limit(SHORT);
    let runner = runner.build().unwrap();
    runner.run(USER, Some(SESSION), "Hi").await?.answer().await
}

#[tokio::test]
async fn toolset_failing_to_process_a_request_is_skipped() {
    for (name, sessions) in services().await {
        for trouble in [Trouble::Hangs, Trouble::Panics, Trouble::Fails] {
            let set: Arc<dyn Toolset> = Arc::new(BadAddition(trouble));
            let answer = run_with_addition(&sessions, ToolSource::Set(set)).await;
            assert_eq!(answer.unwrap(), "note", "{name}, {trouble:?}");
        }
    }
}

#[tokio::test]
async fn tool_that_hangs_while_processing_a_request_is_skipped() {
    for (name, sessions) in services().await {
        let answer = run_with_addition(&sessions, BadAddition(Trouble::Hangs).into()).await;
        assert_eq!(answer.unwrap(), "bad note", "{name}");
    }
}

#[tokio::test]
async fn tool_that_fails_to_process_a_request_fails_the_run_and_is_named() {
    for (name, sessions) in services().await {
        for (trouble, why) in [
            (Trouble::Panics, "panicked: bad day"),
            (Trouble::Fails, "bad day"),
        ] {
            let error = run_with_addition(&sessions, BadAddition(trouble).into()).await;
            let RunError::Tool { tool, source } = error.unwrap_err() else {
                panic!("{name}, {trouble:?}: the run did not fail by the tool");
            };
            assert_eq!(
                (tool.as_str(), source.to_string().as_str()),
                ("bad", why),
                "{name}"
            );
            let again = run_with_addition(&sessions, noting().into()).await;
            assert_eq!(again.unwrap(), "note", "{name}: the session is free");
        }
    }
}

fn panicking<T>() -> Result<T, BoxError> {
    panic!("bad day")
}

#[tokio::test]
async fn panicking_callback_is_named_in_the_error_and_releases_the_session() {
    type Add = fn(LlmAgentBuilder) -> LlmAgentBuilder;
    let cases: [(&str, Add); 6] = [
        ("before_agent", |a| {
            a.before_agent(|_| async { panicking::<Option<Content>>() })
        }),
        ("after_agent", |a| {
            a.after_agent(|_| async { panicking::<Option<Content>>() })
        }),
        ("before_model", |a| {
            a.before_model(|_, _| async { panicking::<BeforeModel>() })
        }),
        ("after_model", |a| {
            a.after_model(|_, _| async { panicking::<Option<LlmResponse>>() })
        }),
        ("before_tool", |a| {
            a.before_tool(|_, _| async { panicking::<BeforeTool>() })
        }),
        ("after_tool", |a| a.after_tool(|_, _| async { panicking() })),
    ];
    for (name, sessions) in services().await {
        for (callback, add) in cases {
            let model = ScriptedModel::new("m")
                .reply(call("note", "{}"))
                .reply("Done.");
            let agent = add(LlmAgent::builder("a").model(model).tool(noting()));
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
struct Panicking;

#[async_trait]
impl Agent for Panicking {
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
        let agent = agent.tool(AgentTool::new(Panicking)).build().unwrap();
        let as_tool = runner(&sessions, agent).build().unwrap();
        let run = as_tool.run(USER, Some(SESSION), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err().to_string();
        let expected = "tool p failed: panicked: bad day";
        assert_eq!(error, expected, "{name}");

        let calm = LlmAgent::builder("calm").model(ScriptedModel::new("m").reply("Om."));
        let both = ParallelAgent::builder("both");
        let both = both.sub_agent(calm.build().unwrap()).sub_agent(Panicking);
        let beside = runner(&sessions, both.build().unwrap()).build().unwrap();
        let run = beside.run(USER, Some(SESSION), "Hi").await.unwrap();
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
async fn hanging_summarizer_times_out_and_the_next_turn_retries() {
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
