//! Resumed runs. The promise: whichever event a run stops after, resuming it gives exactly the
//! session of an uninterrupted run.

use std::{collections::HashMap, sync::Arc};

use retain_core::{Content, Event, FunctionResponse, Json, JsonMap, SessionService};
use retain_runtime::{
    Agent, FunctionTool, LlmAgent, LoopAgent, ParallelAgent, Runner, ScriptedModel, ScriptedReply,
    SequentialAgent, ToolOutput, exit_loop_tool,
};

use crate::support::{APP, SESSION, USER, call, events_of, runner, services, stored, story};

/// The models' replies in a team, by agent: text, a `call()`, or `->agent` to transfer.
type Script = &'static [(&'static str, &'static [&'static str])];
/// Builds a team of agents. Their models skip the replies that are already in the session.
type Team = fn(&mut Agents) -> Arc<dyn Agent>;

/// Creates agents that continue the script where the session ends.
struct Agents {
    script: Script,
    /// The number of replies of each agent that are already in the session.
    replies: HashMap<String, usize>,
}

impl Agents {
    fn agent(&mut self, name: &'static str) -> retain_runtime::LlmAgentBuilder {
        let lines = self.script.iter().filter(|(agent, _)| *agent == name);
        let lines = lines.flat_map(|(_, lines)| lines.iter());
        let stored = self.replies.get(name).copied().unwrap_or(0);
        let model = ScriptedModel::new("m");
        let model = lines
            .skip(stored)
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

    fn build(&mut self, name: &'static str) -> LlmAgent {
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

/// Returns the teams, each with its script. The first pending call of each is answered.
fn teams() -> Vec<(&'static str, Team, Script)> {
    let alone: Team = |all| Arc::new(all.build("a"));
    let desk: Team = |all| {
        let clerk = all.build("clerk");
        Arc::new(all.agent("desk").sub_agent(clerk).build().unwrap())
    };
    let row: Team = |all| Arc::new(sequence("row", all.build("a"), all.build("b")));
    let round: Team = |all| {
        let agent = LoopAgent::builder("round").max_iterations(3);
        let agent = agent.sub_agent(all.build("a")).sub_agent(all.build("b"));
        Arc::new(agent.build().unwrap())
    };
    let handing: Team = |all| {
        let clerk = all.build("clerk");
        let first = all.agent("a").sub_agent(clerk).build().unwrap();
        Arc::new(sequence("row", first, all.build("b")))
    };
    let desk_with_row: Team = |all| {
        let row = sequence("row", all.build("a"), all.build("b"));
        Arc::new(all.agent("desk").sub_agent(row).build().unwrap())
    };
    let row_in_round: Team = |all| {
        let row = sequence("row", all.build("a"), all.build("b"));
        let agent = LoopAgent::builder("round").max_iterations(2).sub_agent(row);
        Arc::new(sequence("all", agent.build().unwrap(), all.build("c")))
    };
    let peers: Team = |all| {
        let (x, y) = (all.build("x"), all.build("y"));
        let first = all.agent("a").sub_agent(x).sub_agent(y).build().unwrap();
        Arc::new(sequence("row", first, all.build("b")))
    };
    let keyed: Team = |all| {
        let first = all.agent("a").output_key("out").build().unwrap();
        Arc::new(sequence("row", first, all.build("b")))
    };
    let deep: Team = |all| {
        let deep = all.build("deep");
        let clerk = all.agent("clerk").sub_agent(deep).build().unwrap();
        Arc::new(all.agent("desk").sub_agent(clerk).build().unwrap())
    };
    let rounds: Team = |all| {
        let inner = LoopAgent::builder("inner").max_iterations(2);
        let inner = inner.sub_agent(all.build("a")).build().unwrap();
        let outer = LoopAgent::builder("outer").max_iterations(2);
        let outer = outer.sub_agent(inner).sub_agent(all.build("b"));
        Arc::new(outer.build().unwrap())
    };
    vec![
        (
            "transfer back in a sequence",
            handing,
            &[
                ("a", &["->clerk", "A."]),
                ("clerk", &["look()", "->a"]),
                ("b", &["B."]),
            ],
        ),
        (
            "transfer back and again in a sequence",
            handing,
            &[
                ("a", &["->clerk", "->clerk"]),
                ("clerk", &["->a", "C."]),
                ("b", &["B."]),
            ],
        ),
        (
            "transfer back in a sequence, pending call",
            handing,
            &[
                ("a", &["->clerk", "pay()", "A."]),
                ("clerk", &["look()", "->a"]),
                ("b", &["B."]),
            ],
        ),
        (
            "transfer to a peer in a sequence, pending call",
            peers,
            &[
                ("a", &["->x"]),
                ("x", &["->y"]),
                ("y", &["pay()", "Y."]),
                ("b", &["B."]),
            ],
        ),
        (
            "transfer to a peer and back in a sequence",
            peers,
            &[
                ("a", &["->x"]),
                ("x", &["->y", "X."]),
                ("y", &["->x"]),
                ("b", &["B."]),
            ],
        ),
        (
            "sequence with an output key",
            keyed,
            &[("a", &["look()", "A."]), ("b", &["B."])],
        ),
        (
            "nested transfers there and back",
            deep,
            &[
                ("desk", &["->clerk", "->clerk"]),
                ("clerk", &["->desk", "->deep"]),
                ("deep", &["look()", "X."]),
            ],
        ),
        (
            "nested loops, pending call",
            rounds,
            &[
                ("a", &["A1.", "A2.", "A3.", "A4."]),
                ("b", &["pay()", "B1.", "B2."]),
            ],
        ),
        (
            "nested loops, exit",
            rounds,
            &[("a", &["A1.", "exit_loop()"]), ("b", &["B1.", "B2."])],
        ),
        (
            "one agent, more calls after a pending call",
            alone,
            &[("a", &["order()", "Wait.", "look()", "A."])],
        ),
        ("one agent", alone, &[("a", &["look()", "A."])]),
        ("one agent, pending call", alone, &[("a", &["pay()", "A."])]),
        (
            "one agent, text after a pending call",
            alone,
            &[("a", &["order()", "Wait.", "A."])],
        ),
        (
            "transfer",
            desk,
            &[("desk", &["->clerk"]), ("clerk", &["look()", "C."])],
        ),
        (
            "transfer and back",
            desk,
            &[
                ("desk", &["->clerk", "D."]),
                ("clerk", &["look()", "->desk"]),
            ],
        ),
        (
            "transfer, pending call",
            desk,
            &[("desk", &["->clerk"]), ("clerk", &["pay()", "C."])],
        ),
        ("sequence", row, &[("a", &["look()", "A."]), ("b", &["B."])]),
        (
            "sequence, pending call",
            row,
            &[("a", &["pay()", "A."]), ("b", &["B."])],
        ),
        (
            "sequence, text after a pending call",
            row,
            &[("a", &["order()", "Wait.", "A."]), ("b", &["B."])],
        ),
        (
            "loop, exit",
            round,
            &[("a", &["A1.", "A2."]), ("b", &["B1.", "exit_loop()"])],
        ),
        (
            "loop, pending call",
            round,
            &[
                ("a", &["A1.", "A2.", "A3."]),
                ("b", &["pay()", "B1.", "B2.", "B3."]),
            ],
        ),
        (
            "transfer in a sequence",
            handing,
            &[
                ("a", &["->clerk"]),
                ("clerk", &["look()", "C."]),
                ("b", &["B."]),
            ],
        ),
        (
            "transfer in a sequence, pending call",
            handing,
            &[
                ("a", &["->clerk"]),
                ("clerk", &["pay()", "C."]),
                ("b", &["B."]),
            ],
        ),
        (
            "transfer to a sequence",
            desk_with_row,
            &[
                ("desk", &["->row"]),
                ("a", &["look()", "A."]),
                ("b", &["B."]),
            ],
        ),
        (
            "transfer to a sequence, pending call",
            desk_with_row,
            &[
                ("desk", &["->row"]),
                ("a", &["pay()", "A."]),
                ("b", &["B."]),
            ],
        ),
        (
            "sequence in a loop, pending call",
            row_in_round,
            &[
                ("a", &["A1.", "pay()", "A2."]),
                ("b", &["look()", "B1.", "B2."]),
                ("c", &["C."]),
            ],
        ),
    ]
}

/// Creates a runner that continues after these events.
fn runner_after(
    sessions: &Arc<dyn SessionService>,
    team: Team,
    script: Script,
    events: &[Arc<Event>],
) -> Runner {
    let mut replies = HashMap::new();
    for event in events {
        let role = event.content().and_then(|content| content.role.as_deref());
        if role == Some("model") {
            *replies.entry(event.author.clone()).or_default() += 1;
        }
    }
    let mut agents = Agents { script, replies };
    let root = team(&mut agents);
    let unused = Agents {
        script: &[],
        replies: HashMap::new(),
    }
    .build("unused");
    let runner = runner(sessions, unused).agent(root).resumable(true);
    runner.build().unwrap()
}

/// Returns an answer to the pending call, if there is one.
fn answer_to_pending_call(events: &[Arc<Event>]) -> Option<Content> {
    let answered = |id: &str| {
        let messages = events.iter().filter(|event| event.author == "user");
        let mut responses = messages.flat_map(|event| event.function_responses());
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

/// Runs to the end without interruption, answers the pending call, and returns the stored events.
async fn run_uninterrupted(
    sessions: &Arc<dyn SessionService>,
    team: Team,
    script: Script,
) -> Vec<Arc<Event>> {
    let runner = runner_after(sessions, team, script, &[]);
    let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
    run.collect_events().await.unwrap();
    let events = events_of(&stored(sessions).await);
    if let Some(answer) = answer_to_pending_call(&events) {
        let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
        run.collect_events().await.unwrap();
    }
    events_of(&stored(sessions).await)
}

/// Creates the session with only these events.
async fn create_session_with(sessions: &Arc<dyn SessionService>, events: &[Arc<Event>]) {
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

/// Resumes the run after these events and returns its new events.
async fn resume_after(
    sessions: &Arc<dyn SessionService>,
    team: Team,
    script: Script,
    events: &[Arc<Event>],
) -> Vec<Event> {
    create_session_with(sessions, events).await;
    let runner = runner_after(sessions, team, script, events);
    let id = &events[0].invocation_id;
    let run = runner.resume(USER, SESSION, id).await.unwrap();
    let events_after = run.collect_events().await;
    events_after.unwrap_or_else(|error| panic!("{error}, after {:#?}", story(events)))
}

/// Whether the run stopped between a long-running tool's call and its first response. The log
/// cannot show whether the tool has started, so a resumed run waits and does not start it again.
fn is_before_first_response(last: &Event, next: Option<&Arc<Event>>) -> bool {
    let is_order = |name: &Option<String>| name.as_deref() == Some("order");
    let calls = last.function_calls();
    let answers = next
        .map(|next| next.function_responses())
        .unwrap_or_default();
    calls.iter().any(|call| is_order(&call.name)) && answers.iter().any(|it| is_order(&it.name))
}

/// Resumes the run after these events, answers its pending call, and returns the stored events.
async fn resume_and_answer(
    sessions: &Arc<dyn SessionService>,
    team: Team,
    script: Script,
    events: &[Arc<Event>],
) -> Vec<Arc<Event>> {
    resume_after(sessions, team, script, events).await;
    let events = events_of(&stored(sessions).await);
    let runner = runner_after(sessions, team, script, &events);
    if let Some(answer) = answer_to_pending_call(&events) {
        let id = &events[0].invocation_id;
        let run = runner.resume(USER, SESSION, id).await.unwrap();
        let again = run.collect_events().await.unwrap();
        assert!(again.is_empty(), "the run waits: {again:?}");
        let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
        run.collect_events().await.unwrap();
    }
    events_of(&stored(sessions).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_run_ends_as_if_never_interrupted() {
    for (store, sessions) in services().await {
        for (name, team, script) in teams() {
            let whole = run_uninterrupted(&sessions, team, script).await;
            let expected = story(&whole);
            for stop in 1..=whole.len() {
                if is_before_first_response(&whole[stop - 1], whole.get(stop)) {
                    let events = resume_after(&sessions, team, script, &whole[..stop]).await;
                    assert!(events.is_empty(), "{store}, {name}, {stop}: {events:?}");
                    continue;
                }
                let events = resume_and_answer(&sessions, team, script, &whole[..stop]).await;
                let mut lines = story(&events);
                let mut expected = expected.clone();
                if name.contains("back") {
                    // An agent nested in itself resumes alone, so the log records fewer agent ends.
                    // Nothing else differs.
                    lines.retain(|line| !line.ends_with(": done"));
                    expected.retain(|line| !line.ends_with(": done"));
                }
                let before = lines[..stop.min(lines.len())].join("\n  ");
                assert_eq!(
                    lines, expected,
                    "{store}, {name}, stopped after\n  {before}"
                );
                let paths = |events: &[Arc<Event>]| -> Vec<_> {
                    let paths = events.iter().map(|event| {
                        let path = event.node_info.as_ref();
                        (event.branch.clone(), path.map(|path| path.to_string()))
                    });
                    paths.collect()
                };
                if !name.contains("back") {
                    assert_eq!(paths(&events), paths(&whole), "{store}, {name}, {stop}");
                }
            }
            let _ = sessions.delete_session(APP, USER, SESSION).await;
        }
    }
}

/// Creates two parallel agents, one of which waits, and one agent after them.
fn parallel_team(all: &mut Agents) -> Arc<dyn Agent> {
    let both = ParallelAgent::builder("both").sub_agent(all.build("a"));
    let both = both.sub_agent(all.build("b")).build().unwrap();
    Arc::new(sequence("row", both, all.build("c")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_agents_resume_from_their_own_checkpoints() {
    let script: Script = &[
        ("a", &["pay()", "A."]),
        ("b", &["look()", "B."]),
        ("c", &["C."]),
    ];
    // A resumed run may store parallel agents' events in another order, so compare by agent.
    let by_agent = |events: &[Arc<Event>]| {
        let mut stories: HashMap<String, Vec<String>> = HashMap::new();
        for event in events {
            let line = story([event]).remove(0);
            stories.entry(event.author.clone()).or_default().push(line);
        }
        stories
    };
    for (store, sessions) in services().await {
        let whole = run_uninterrupted(&sessions, parallel_team, script).await;
        let last = story(&whole).pop();
        assert_eq!(last.as_deref(), Some("row: done"), "{store}");
        for stop in 1..=whole.len() {
            let events = resume_and_answer(&sessions, parallel_team, script, &whole[..stop]).await;
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
        let agent = agent.sub_agent(all.build("a")).sub_agent(all.build("b"));
        Arc::new(agent.build().unwrap())
    };
    for (store, sessions) in services().await {
        let events = run_uninterrupted(&sessions, round, script).await;
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

/// Creates two agents in sequence. The first has a callback that answers before or after it.
fn with_callback(all: &mut Agents, is_before: bool) -> Arc<dyn Agent> {
    let answer = |_| async { Ok(Some(Content::model("Called."))) };
    let first = match is_before {
        true => all.agent("a").before_agent(answer),
        false => all.agent("a").after_agent(answer),
    };
    Arc::new(sequence("row", first.build().unwrap(), all.build("b")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_responses_are_not_repeated_on_resume() {
    let script: Script = &[("a", &["A."]), ("b", &["B."])];
    let before: Team = |all| with_callback(all, true);
    let after: Team = |all| with_callback(all, false);
    for (store, sessions) in services().await {
        for (name, team) in [("before", before), ("after", after)] {
            let whole = run_uninterrupted(&sessions, team, script).await;
            for stop in 1..=whole.len() {
                let events = resume_and_answer(&sessions, team, script, &whole[..stop]).await;
                let mut lines = story(&events);
                let times = |line: &str| lines.iter().filter(|it| *it == line).count();
                // After the agent's end, the log cannot show whether the `after_agent` callback has
                // run, so a resumed run does not call it.
                let is_called = stop != 4 || name == "before";
                assert_eq!(
                    times("a: Called."),
                    usize::from(is_called),
                    "{store}, {stop}"
                );
                assert_eq!(
                    times("b: B."),
                    1,
                    "{store}, {name}, after {stop}: {lines:?}"
                );
                assert_eq!(
                    lines.pop().as_deref(),
                    Some("row: done"),
                    "{store}, {name}, {stop}"
                );
            }
            let _ = sessions.delete_session(APP, USER, SESSION).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imported_call_is_not_run_on_resume() {
    const SCRIPT: Script = &[("a", &["look()", "I have seen it."])];
    let team: Team = |agents| Arc::new(agents.build("a"));
    for (name, sessions) in services().await {
        let events = run_uninterrupted(&sessions, team, SCRIPT).await;
        let is_call = |event: &Arc<Event>| !event.function_calls().is_empty();
        let called = events.iter().position(is_call).expect("a call");
        for is_imported in [false, true] {
            let mut history: Vec<Arc<Event>> = events[..=called].to_vec();
            if is_imported {
                let mut call = Event::clone(&history[called]);
                let mark = [("__adk_internal_restored_event", true)];
                call.response.custom_metadata = Some(mark.into());
                history[called] = Arc::new(call);
            }
            let new_events = resume_after(&sessions, team, SCRIPT, &history).await;
            let is_run = new_events
                .iter()
                .any(|it| !it.function_responses().is_empty());
            assert_eq!(
                is_run,
                !is_imported,
                "{name}: {:?}",
                story(new_events.iter().cloned().map(Arc::new))
            );
        }
    }
}
