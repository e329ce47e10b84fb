//! Resumed runs. The promise: wherever a run stops, resuming it produces exactly the session that
//! an uninterrupted run would have produced.

use std::{collections::HashMap, sync::Arc};

use retain_core::{Content, Event, FunctionResponse, Json, JsonMap, SessionService};
use retain_runtime::{
    Agent, FunctionTool, LlmAgent, LoopAgent, ParallelAgent, Runner, ScriptedModel, ScriptedReply,
    SequentialAgent, ToolOutput, exit_loop_tool,
};

use crate::support::{APP, SESSION, USER, call, events_of, runner, services, stored, story};

/// The replies of the models of a team, by agent: text, a `call()`, or `->agent` to transfer.
type Script = &'static [(&'static str, &'static [&'static str])];
/// Builds a team whose models skip the replies already in the session.
type Team = fn(&mut Agents) -> Arc<dyn Agent>;

/// Creates agents that follow the script from the position of the session.
struct Agents {
    script: Script,
    said: HashMap<String, usize>,
}

impl Agents {
    fn agent(&mut self, name: &'static str) -> retain_runtime::LlmAgentBuilder {
        let lines = self.script.iter().filter(|(agent, _)| *agent == name);
        let lines = lines.flat_map(|(_, lines)| lines.iter());
        let said = self.said.get(name).copied().unwrap_or(0);
        let model = ScriptedModel::new("m");
        let model = lines
            .skip(said)
            .map(|line| reply(line))
            .fold(model, ScriptedModel::reply);
        // Two long-running tools: `pay` returns nothing at first, `order` returns its status.
        let pay = FunctionTool::untyped("pay", "Pays.", None, |_, _| async {
            Ok(ToolOutput::none())
        });
        let order = FunctionTool::untyped("order", "Orders.", None, |_, _| async {
            Ok(Json::from(JsonMap::from([("status", "pending")])).into())
        });
        let look = FunctionTool::untyped("look", "Looks.", None, |_, _| async {
            Ok(Json::from(JsonMap::from([("seen", true)])).into())
        });
        LlmAgent::builder(name)
            .description(name)
            .model(model)
            .tool(look)
            .tool(pay.long_running())
            .tool(order.long_running())
            .tool(exit_loop_tool())
    }

    fn done(&mut self, name: &'static str) -> LlmAgent {
        self.agent(name).build().unwrap()
    }
}

fn reply(line: &str) -> ScriptedReply {
    if let Some(agent) = line.strip_prefix("->") {
        let args = format!(r#"{{"agent_name": "{agent}"}}"#);
        return call("transfer_to_agent", &args).into();
    }
    match line.strip_suffix("()") {
        Some(tool) => call(tool, "{}").into(),
        None => line.into(),
    }
}

fn sequence(name: &str, first: impl Agent, second: impl Agent) -> SequentialAgent {
    let agent = SequentialAgent::builder(name).sub_agent(first);
    agent.sub_agent(second).build().unwrap()
}

/// The teams, each with its script. A team with a pending call gets one answer.
fn teams() -> Vec<(&'static str, Team, Script)> {
    let alone: Team = |all| Arc::new(all.done("a"));
    let desk: Team = |all| {
        let clerk = all.done("clerk");
        Arc::new(all.agent("desk").sub_agent(clerk).build().unwrap())
    };
    let row: Team = |all| Arc::new(sequence("row", all.done("a"), all.done("b")));
    let round: Team = |all| {
        let agent = LoopAgent::builder("round").max_iterations(3);
        let agent = agent.sub_agent(all.done("a")).sub_agent(all.done("b"));
        Arc::new(agent.build().unwrap())
    };
    let handing: Team = |all| {
        let clerk = all.done("clerk");
        let first = all.agent("a").sub_agent(clerk).build().unwrap();
        Arc::new(sequence("row", first, all.done("b")))
    };
    let desk_with_row: Team = |all| {
        let row = sequence("row", all.done("a"), all.done("b"));
        Arc::new(all.agent("desk").sub_agent(row).build().unwrap())
    };
    let row_in_round: Team = |all| {
        let row = sequence("row", all.done("a"), all.done("b"));
        let agent = LoopAgent::builder("round").max_iterations(2).sub_agent(row);
        Arc::new(sequence("all", agent.build().unwrap(), all.done("c")))
    };
    let peers: Team = |all| {
        let (x, y) = (all.done("x"), all.done("y"));
        let first = all.agent("a").sub_agent(x).sub_agent(y).build().unwrap();
        Arc::new(sequence("row", first, all.done("b")))
    };
    let keyed: Team = |all| {
        let first = all.agent("a").output_key("out").build().unwrap();
        Arc::new(sequence("row", first, all.done("b")))
    };
    let deep: Team = |all| {
        let deep = all.done("deep");
        let clerk = all.agent("clerk").sub_agent(deep).build().unwrap();
        Arc::new(all.agent("desk").sub_agent(clerk).build().unwrap())
    };
    let rounds: Team = |all| {
        let inner = LoopAgent::builder("inner").max_iterations(2);
        let inner = inner.sub_agent(all.done("a")).build().unwrap();
        let outer = LoopAgent::builder("outer").max_iterations(2);
        let outer = outer.sub_agent(inner).sub_agent(all.done("b"));
        Arc::new(outer.build().unwrap())
    };
    vec![
        (
            "handing back in a row",
            handing,
            &[
                ("a", &["->clerk", "A."]),
                ("clerk", &["look()", "->a"]),
                ("b", &["B."]),
            ],
        ),
        (
            "handing back and over in a row",
            handing,
            &[
                ("a", &["->clerk", "->clerk"]),
                ("clerk", &["->a", "C."]),
                ("b", &["B."]),
            ],
        ),
        (
            "handing back in a row, waiting",
            handing,
            &[
                ("a", &["->clerk", "pay()", "A."]),
                ("clerk", &["look()", "->a"]),
                ("b", &["B."]),
            ],
        ),
        (
            "handing on in a row, waiting",
            peers,
            &[
                ("a", &["->x"]),
                ("x", &["->y"]),
                ("y", &["pay()", "Y."]),
                ("b", &["B."]),
            ],
        ),
        (
            "handing on and back in a row",
            peers,
            &[
                ("a", &["->x"]),
                ("x", &["->y", "X."]),
                ("y", &["->x"]),
                ("b", &["B."]),
            ],
        ),
        (
            "row with a key",
            keyed,
            &[("a", &["look()", "A."]), ("b", &["B."])],
        ),
        (
            "deep desk, there and back",
            deep,
            &[
                ("desk", &["->clerk", "->clerk"]),
                ("clerk", &["->desk", "->deep"]),
                ("deep", &["look()", "X."]),
            ],
        ),
        (
            "rounds in rounds, waiting",
            rounds,
            &[
                ("a", &["A1.", "A2.", "A3.", "A4."]),
                ("b", &["pay()", "B1.", "B2."]),
            ],
        ),
        (
            "rounds in rounds, left",
            rounds,
            &[("a", &["A1.", "exit_loop()"]), ("b", &["B1.", "B2."])],
        ),
        (
            "alone, going on after waiting",
            alone,
            &[("a", &["order()", "Wait.", "look()", "A."])],
        ),
        ("alone", alone, &[("a", &["look()", "A."])]),
        ("alone, waiting", alone, &[("a", &["pay()", "A."])]),
        (
            "alone, waiting with a word",
            alone,
            &[("a", &["order()", "Wait.", "A."])],
        ),
        (
            "desk",
            desk,
            &[("desk", &["->clerk"]), ("clerk", &["look()", "C."])],
        ),
        (
            "desk and back",
            desk,
            &[
                ("desk", &["->clerk", "D."]),
                ("clerk", &["look()", "->desk"]),
            ],
        ),
        (
            "desk, waiting",
            desk,
            &[("desk", &["->clerk"]), ("clerk", &["pay()", "C."])],
        ),
        ("row", row, &[("a", &["look()", "A."]), ("b", &["B."])]),
        (
            "row, waiting",
            row,
            &[("a", &["pay()", "A."]), ("b", &["B."])],
        ),
        (
            "row, waiting with a word",
            row,
            &[("a", &["order()", "Wait.", "A."]), ("b", &["B."])],
        ),
        (
            "round, left",
            round,
            &[("a", &["A1.", "A2."]), ("b", &["B1.", "exit_loop()"])],
        ),
        (
            "round, waiting",
            round,
            &[
                ("a", &["A1.", "A2.", "A3."]),
                ("b", &["pay()", "B1.", "B2.", "B3."]),
            ],
        ),
        (
            "handing over in a row",
            handing,
            &[
                ("a", &["->clerk"]),
                ("clerk", &["look()", "C."]),
                ("b", &["B."]),
            ],
        ),
        (
            "handing over in a row, waiting",
            handing,
            &[
                ("a", &["->clerk"]),
                ("clerk", &["pay()", "C."]),
                ("b", &["B."]),
            ],
        ),
        (
            "desk with a row",
            desk_with_row,
            &[
                ("desk", &["->row"]),
                ("a", &["look()", "A."]),
                ("b", &["B."]),
            ],
        ),
        (
            "desk with a row, waiting",
            desk_with_row,
            &[
                ("desk", &["->row"]),
                ("a", &["pay()", "A."]),
                ("b", &["B."]),
            ],
        ),
        (
            "a row in a round, waiting",
            row_in_round,
            &[
                ("a", &["A1.", "pay()", "A2."]),
                ("b", &["look()", "B1.", "B2."]),
                ("c", &["C."]),
            ],
        ),
    ]
}

/// A runner that continues after these events.
fn runner_after(
    sessions: &Arc<dyn SessionService>,
    team: Team,
    script: Script,
    events: &[Arc<Event>],
) -> Runner {
    let mut said = HashMap::new();
    for event in events {
        let role = event.content().and_then(|content| content.role.as_deref());
        if role == Some("model") {
            *said.entry(event.author.clone()).or_default() += 1;
        }
    }
    let mut agents = Agents { script, said };
    let root = team(&mut agents);
    let unused = Agents {
        script: &[],
        said: HashMap::new(),
    }
    .done("unused");
    let runner = runner(sessions, unused).agent(root).resumable(true);
    runner.build().unwrap()
}

/// Return the answer to the pending call, if there is one.
fn awaited(events: &[Arc<Event>]) -> Option<Content> {
    let answered = |id: &str| {
        let said = events.iter().filter(|event| event.author == "user");
        let mut responses = said.flat_map(|event| event.function_responses());
        responses.any(|response| response.id.as_deref() == Some(id))
    };
    let calls = events.iter().flat_map(|event| event.function_calls());
    let mut open = calls.filter(|call| {
        let name = call.name.as_deref().unwrap_or_default();
        ["pay", "order"].contains(&name) && !answered(call.id.as_deref().unwrap_or_default())
    });
    let call = open.next()?;
    let response = FunctionResponse {
        id: call.id.clone(),
        name: call.name.clone(),
        response: Some([("paid", true)].into()),
        ..FunctionResponse::default()
    };
    Some(Content::new("user", vec![response.into()]))
}

/// Run to the end without interruption, answering pending calls; return the stored events.
async fn whole(sessions: &Arc<dyn SessionService>, team: Team, script: Script) -> Vec<Arc<Event>> {
    let runner = runner_after(sessions, team, script, &[]);
    let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
    run.collect_events().await.unwrap();
    let events = events_of(&stored(sessions).await);
    if let Some(answer) = awaited(&events) {
        let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
        run.collect_events().await.unwrap();
    }
    events_of(&stored(sessions).await)
}

/// Create a session with only these events.
async fn cut_off(sessions: &Arc<dyn SessionService>, events: &[Arc<Event>]) {
    let _ = sessions.delete_session(APP, USER, SESSION).await;
    let created = sessions
        .create_session(APP, USER, None, Some(SESSION))
        .await;
    let mut session = created.unwrap();
    for event in events {
        let stored = sessions.append_event(&mut session, Event::clone(event));
        stored.await.unwrap();
    }
}

/// Resume the run and return its new events.
async fn resumed(
    sessions: &Arc<dyn SessionService>,
    team: Team,
    script: Script,
    events: &[Arc<Event>],
) -> Vec<Event> {
    cut_off(sessions, events).await;
    let runner = runner_after(sessions, team, script, events);
    let id = &events[0].invocation_id;
    let run = runner.resume(USER, SESSION, id).await.unwrap();
    let came = run.collect_events().await;
    came.unwrap_or_else(|error| panic!("{error}, after {:#?}", story(events)))
}

/// Whether a run stopped where the log cannot show if a long-running tool has started: the tool is
/// not started twice, and the run waits for its answer.
fn is_just_begun(last: &Event, next: Option<&Arc<Event>>) -> bool {
    let is_order = |name: &Option<String>| name.as_deref() == Some("order");
    let calls = last.function_calls();
    let answers = next
        .map(|next| next.function_responses())
        .unwrap_or_default();
    calls.iter().any(|call| is_order(&call.name)) && answers.iter().any(|it| is_order(&it.name))
}

/// Resume the run, answer its pending call, and return the stored events.
async fn resumed_after(
    sessions: &Arc<dyn SessionService>,
    team: Team,
    script: Script,
    events: &[Arc<Event>],
) -> Vec<Arc<Event>> {
    resumed(sessions, team, script, events).await;
    let events = events_of(&stored(sessions).await);
    let runner = runner_after(sessions, team, script, &events);
    if let Some(answer) = awaited(&events) {
        let id = &events[0].invocation_id;
        let run = runner.resume(USER, SESSION, id).await.unwrap();
        let again = run.collect_events().await.unwrap();
        assert!(again.is_empty(), "it waits: {again:?}");
        let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
        run.collect_events().await.unwrap();
    }
    events_of(&stored(sessions).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_run_ends_as_if_never_interrupted() {
    for (store, sessions) in services().await {
        for (name, team, script) in teams() {
            let whole = whole(&sessions, team, script).await;
            let expected = story(&whole);
            for stop in 1..=whole.len() {
                if is_just_begun(&whole[stop - 1], whole.get(stop)) {
                    let events = resumed(&sessions, team, script, &whole[..stop]).await;
                    assert!(events.is_empty(), "{store}, {name}, {stop}: {events:?}");
                    continue;
                }
                let events = resumed_after(&sessions, team, script, &whole[..stop]).await;
                let mut told = story(&events);
                let mut expected = expected.clone();
                if name.contains("back") {
                    // An agent nested in itself resumes alone: fewer ends are recorded, nothing
                    // else differs.
                    told.retain(|line| !line.ends_with(": done"));
                    expected.retain(|line| !line.ends_with(": done"));
                }
                let before = told[..stop.min(told.len())].join("\n  ");
                assert_eq!(told, expected, "{store}, {name}, stopped after\n  {before}");
                let places = |events: &[Arc<Event>]| -> Vec<_> {
                    let places = events.iter().map(|event| {
                        let path = event.node_info.as_ref();
                        (event.branch.clone(), path.map(|path| path.to_string()))
                    });
                    places.collect()
                };
                if !name.contains("back") {
                    assert_eq!(places(&events), places(&whole), "{store}, {name}, {stop}");
                }
            }
            let _ = sessions.delete_session(APP, USER, SESSION).await;
        }
    }
}

/// Two parallel agents, one of which waits, and one agent after them.
fn side_by_side(all: &mut Agents) -> Arc<dyn Agent> {
    let both = ParallelAgent::builder("both").sub_agent(all.done("a"));
    let both = both.sub_agent(all.done("b")).build().unwrap();
    Arc::new(sequence("row", both, all.done("c")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_agents_resume_from_their_own_checkpoints() {
    let script: Script = &[
        ("a", &["pay()", "A."]),
        ("b", &["look()", "B."]),
        ("c", &["C."]),
    ];
    // Events of parallel agents are ordered only per agent.
    let by_agent = |events: &[Arc<Event>]| {
        let mut stories: HashMap<String, Vec<String>> = HashMap::new();
        for event in events {
            let told = story([event]).remove(0);
            stories.entry(event.author.clone()).or_default().push(told);
        }
        stories
    };
    for (store, sessions) in services().await {
        let whole = whole(&sessions, side_by_side, script).await;
        let last = story(&whole).pop();
        assert_eq!(last.as_deref(), Some("row: done"), "{store}");
        for stop in 1..=whole.len() {
            let events = resumed_after(&sessions, side_by_side, script, &whole[..stop]).await;
            assert_eq!(by_agent(&events), by_agent(&whole), "{store}, after {stop}");
        }
        let _ = sessions.delete_session(APP, USER, SESSION).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_match_adk() {
    let script: Script = &[("a", &["A1.", "A2."]), ("b", &["B1.", "exit_loop()"])];
    let round: Team = |all| {
        let agent = LoopAgent::builder("round").max_iterations(3);
        let agent = agent.sub_agent(all.done("a")).sub_agent(all.done("b"));
        Arc::new(agent.build().unwrap())
    };
    for (store, sessions) in services().await {
        let events = whole(&sessions, round, script).await;
        let expected = [
            "user: go",
            r#"round: at {"current_sub_agent":"a","times_looped":0}"#,
            "a: A1.",
            "a: done",
            r#"round: at {"current_sub_agent":"b","times_looped":0}"#,
            "b: B1.",
            "b: done",
            r#"round: at {"current_sub_agent":"a","times_looped":1}"#,
            "a: A2.",
            "a: done",
            r#"round: at {"current_sub_agent":"b","times_looped":1}"#,
            "b: exit_loop({})",
            r#"b: exit_loop -> {"result":null}"#,
            "b: done",
            "round: done",
        ];
        assert_eq!(story(&events), expected, "{store}");
    }
}

/// Two agents in sequence, the first with a callback that answers before or after it.
fn with_callback(all: &mut Agents, is_before: bool) -> Arc<dyn Agent> {
    let answer = |_| async { Ok(Some(Content::model("Called."))) };
    let first = match is_before {
        true => all.agent("a").before_agent(answer),
        false => all.agent("a").after_agent(answer),
    };
    Arc::new(sequence("row", first.build().unwrap(), all.done("b")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_responses_are_not_repeated_on_resume() {
    let script: Script = &[("a", &["A."]), ("b", &["B."])];
    let before: Team = |all| with_callback(all, true);
    let after: Team = |all| with_callback(all, false);
    for (store, sessions) in services().await {
        for (name, team) in [("before", before), ("after", after)] {
            let whole = whole(&sessions, team, script).await;
            for stop in 1..=whole.len() {
                let events = resumed_after(&sessions, team, script, &whole[..stop]).await;
                let mut told = story(&events);
                let times = |line: &str| told.iter().filter(|it| *it == line).count();
                // The log cannot show whether the after-callback ran after the end of the agent.
                let is_called = stop != 4 || name == "before";
                assert_eq!(
                    times("a: Called."),
                    usize::from(is_called),
                    "{store}, {stop}"
                );
                assert_eq!(times("b: B."), 1, "{store}, {name}, after {stop}: {told:?}");
                assert_eq!(
                    told.pop().as_deref(),
                    Some("row: done"),
                    "{store}, {name}, {stop}"
                );
            }
            let _ = sessions.delete_session(APP, USER, SESSION).await;
        }
    }
}

/// Resume does not run a call that was imported into the history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imported_call_is_not_run_on_resume() {
    const SCRIPT: Script = &[("a", &["look()", "I have seen it."])];
    let team: Team = |agents| Arc::new(agents.done("a"));
    for (name, sessions) in services().await {
        let events = whole(&sessions, team, SCRIPT).await;
        let is_call = |event: &Arc<Event>| !event.function_calls().is_empty();
        let called = events.iter().position(is_call).expect("a call");
        for is_imported in [false, true] {
            let mut begun: Vec<Arc<Event>> = events[..=called].to_vec();
            if is_imported {
                let mut call = Event::clone(&begun[called]);
                let mark = [("__adk_internal_restored_event", true)];
                call.response.custom_metadata = Some(mark.into());
                begun[called] = Arc::new(call);
            }
            let came = resumed(&sessions, team, SCRIPT, &begun).await;
            let ran = came.iter().any(|it| !it.function_responses().is_empty());
            assert_eq!(
                ran,
                !is_imported,
                "{name}: {:?}",
                story(came.iter().cloned().map(Arc::new))
            );
        }
    }
}
