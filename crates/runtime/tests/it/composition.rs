//! Agents with sub-agents: which agents run, in which order, and which events each agent sees.

use std::sync::Arc;

use retain_core::{Content, Event, FunctionResponse};
use retain_runtime::{
    Agent, AgentTool, FunctionTool, InvocationContext, LlmAgent, LlmAgentBuilder, LlmRequest,
    LoopAgent, ParallelAgent, RunConfig, RunError, RunRequest, Runner, ScriptedModel,
    ScriptedReply, SequentialAgent, ToolError, ToolOutput, exit_loop_tool,
};

use crate::support::{SESSION, USER, call, events_of, runner, services, stored, story};

fn agent(name: &str, replies: Vec<ScriptedReply>) -> LlmAgentBuilder {
    let model = ScriptedModel::new(name);
    let model = replies.into_iter().fold(model, ScriptedModel::reply);
    LlmAgent::builder(name)
        .model(model)
        .description(format!("Is {name}."))
}

fn answering_agent(name: &str) -> LlmAgent {
    let text = format!("{name} answers");
    let model = ScriptedModel::new("m").otherwise(move |_| text.clone());
    LlmAgent::builder(name).model(model).build().unwrap()
}

/// Returns a call that transfers to this agent.
fn transfer_to(name: &str) -> ScriptedReply {
    call(
        "transfer_to_agent",
        &format!(r#"{{"agent_name": "{name}"}}"#),
    )
    .into()
}

async fn turn(runner: &Runner, message: &str) -> Vec<String> {
    let run = runner.run(USER, Some(SESSION), message).await.unwrap();
    let events = run.collect_events().await.unwrap();
    story(events.into_iter().map(Arc::new))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_run_starts_at_the_agent_transferred_to() {
    for (name, sessions) in services().await {
        let billing = agent(
            "billing",
            vec!["Which bill?".into(), transfer_to("desk"), "Bye.".into()],
        );
        let desk = agent("desk", vec![transfer_to("billing"), "Good bye.".into()]);
        let desk = desk.sub_agent(billing.build().unwrap()).build().unwrap();
        let runner = runner(&sessions, desk).build().unwrap();
        let lines = turn(&runner, "My bill, please").await;
        assert_eq!(lines.len(), 3, "{name}: {lines:?}");
        assert_eq!(lines[2], "billing: Which bill?", "{name}");
        let lines = turn(&runner, "Never mind").await;
        let expected = [
            r#"billing: transfer_to_agent({"agent_name":"desk"})"#,
            r#"billing: transfer_to_agent -> {"result":null}"#,
            "desk: Good bye.",
        ];
        assert_eq!(lines, expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_transfer_fails_and_the_next_run_works() {
    for (name, sessions) in services().await {
        for (target, reason) in [
            ("nobody", "does not exist"),
            ("desk", "to itself"),
            ("far", "not allowed"),
        ] {
            let far = answering_agent("far");
            let near = agent("near", vec![]).sub_agent(far).build().unwrap();
            let desk = agent("desk", vec![transfer_to(target), "Here.".into()]).sub_agent(near);
            let runner = runner(&sessions, desk.build().unwrap()).build().unwrap();
            let run = runner.run(USER, Some(SESSION), "Go").await.unwrap();
            let error = run.collect_events().await.unwrap_err();
            assert!(matches!(error, RunError::Agent { .. }), "{name}: {error}");
            assert!(error.to_string().contains(reason), "{name}: {error}");
            assert_eq!(turn(&runner, "And now?").await, ["desk: Here."], "{name}");
        }
    }
}

#[test]
fn invalid_agent_trees_are_rejected_with_a_reason() {
    let sessions: Arc<dyn retain_core::SessionService> =
        Arc::new(retain_stores::InMemorySessionService::new());
    let refused = |root: SequentialAgent| {
        let error = runner(&sessions, root).build().unwrap_err();
        error.to_string()
    };
    let seq = || SequentialAgent::builder("seq");
    let twins = seq()
        .sub_agent(answering_agent("a"))
        .sub_agent(answering_agent("a"))
        .build()
        .unwrap();
    assert!(refused(twins).contains("a unique name"));
    let shared: Arc<dyn Agent> = Arc::new(answering_agent("a"));
    let twice = seq()
        .sub_agent(Arc::clone(&shared))
        .sub_agent(shared)
        .build()
        .unwrap();
    assert!(refused(twice).contains("has one parent"));
    let modelless = LlmAgent::builder("a").build().unwrap();
    let modelless = seq().sub_agent(modelless).build().unwrap();
    assert!(refused(modelless).contains("has no model"));
    assert!(SequentialAgent::builder("user").build().is_err());
    let mut deep: Arc<dyn Agent> = Arc::new(answering_agent("deep"));
    for level in 0..64 {
        let above = SequentialAgent::builder(format!("level_{level}")).sub_agent(deep);
        deep = Arc::new(above.build().unwrap());
    }
    let deep = SequentialAgent::builder("top")
        .sub_agent(deep)
        .build()
        .unwrap();
    assert!(refused(deep).contains("64 levels"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_nested_agents_run() {
    for (name, sessions) in services().await {
        let mut deep: Arc<dyn Agent> = Arc::new(answering_agent("deep"));
        for level in 0..49 {
            let above = SequentialAgent::builder(format!("level_{level}")).sub_agent(deep);
            deep = Arc::new(above.build().unwrap());
        }
        let runner = runner(
            &sessions,
            SequentialAgent::builder("top")
                .sub_agent(deep)
                .build()
                .unwrap(),
        );
        let runner = runner.build().unwrap();
        assert_eq!(turn(&runner, "Hi").await, ["deep: deep answers"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_parallel_agents_answer_once_and_see_only_their_branch() {
    for (name, sessions) in services().await {
        let model = Arc::new(ScriptedModel::new("m").otherwise(|_| "here"));
        let mut crowd = ParallelAgent::builder("crowd");
        for n in 0..1000 {
            let one = LlmAgent::builder(format!("one_{n}")).model(Arc::clone(&model));
            crowd = crowd.sub_agent(one.build().unwrap());
        }
        let runner = runner(&sessions, crowd.build().unwrap()).build().unwrap();
        let config = RunConfig::default().with_max_llm_calls(None);
        let request = RunRequest::new("Who is there?").with_config(config);
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        let events = run.collect_events().await.unwrap();
        assert_eq!(events.len(), 1000, "{name}");
        let authors: std::collections::HashSet<_> = events.iter().map(|e| &e.author).collect();
        assert_eq!(authors.len(), 1000, "{name}");
        let alone = |request: &Arc<LlmRequest>| request.contents.len() == 1;
        assert!(model.requests().iter().all(alone), "{name}");
        assert_eq!(
            events[7].branch.as_deref(),
            Some("crowd.one_7"),
            "{name}: the answers are in listed order"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn escalating_agent_ends_its_parallel_siblings() {
    for (name, sessions) in services().await {
        let quick = agent("quick", vec![call("exit_loop", "{}").into()]).tool(exit_loop_tool());
        let slow = LlmAgent::builder("slow")
            .model(ScriptedModel::new("m").reply("unused"))
            .before_model(|_, _| async { std::future::pending().await });
        let both = ParallelAgent::builder("both")
            .sub_agent(slow.build().unwrap())
            .sub_agent(quick.build().unwrap());
        let both = SequentialAgent::builder("all")
            .sub_agent(both.build().unwrap())
            .sub_agent(answering_agent("after"));
        let runner = runner(&sessions, both.build().unwrap()).build().unwrap();
        let lines = turn(&runner, "Go").await;
        assert_eq!(lines.last().unwrap(), "after: after answers", "{name}");
        assert!(
            lines.iter().all(|line| !line.starts_with("slow")),
            "{name}: {lines:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_branch_fails_the_run_and_releases_the_session() {
    for (name, sessions) in services().await {
        let bad = agent("bad", vec![retain_runtime::ModelError::new("down").into()]);
        let both = ParallelAgent::builder("both")
            .sub_agent(answering_agent("good"))
            .sub_agent(bad.build().unwrap());
        let broken = runner(&sessions, both.build().unwrap()).build().unwrap();
        let run = broken.run(USER, Some(SESSION), "Go").await.unwrap();
        assert!(run.collect_events().await.is_err(), "{name}");
        let next = runner(&sessions, answering_agent("next")).build().unwrap();
        assert_eq!(
            turn(&next, "And now?").await,
            ["next: next answers"],
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_call_pauses_a_sequence_until_its_agent_is_answered() {
    for (name, sessions) in services().await {
        let ask = FunctionTool::untyped("ask", "Asks the boss.", None, |_, _| async {
            Ok(ToolOutput::none())
        });
        let clerk = agent("clerk", vec![call("ask", "{}").into(), "Approved.".into()]);
        let clerk = clerk.tool(ask.long_running()).build().unwrap();
        let seq = SequentialAgent::builder("seq")
            .sub_agent(clerk)
            .sub_agent(answering_agent("printer"));
        let runner = runner(&sessions, seq.build().unwrap()).build().unwrap();
        let lines = turn(&runner, "May I?").await;
        assert_eq!(lines, ["clerk: ask({})"], "{name}: the sequence pauses");
        let session = stored(&sessions).await;
        let events = events_of(&session);
        let id = events.last().unwrap().function_calls()[0]
            .id
            .clone()
            .unwrap();
        let answer = FunctionResponse::new(id, "ask", [("ok", true)].into());
        let answer = Content::new("user", vec![answer.into()]);
        let run = runner.run(USER, Some(SESSION), answer).await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Approved.", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loop_ends_at_max_iterations_or_on_escalation() {
    for (name, sessions) in services().await {
        let rounds = LoopAgent::builder("rounds")
            .max_iterations(3)
            .sub_agent(answering_agent("ticker"));
        let three = runner(&sessions, rounds.build().unwrap()).build().unwrap();
        assert_eq!(turn(&three, "Go").await.len(), 3, "{name}");
        let none = LoopAgent::builder("none")
            .max_iterations(0)
            .sub_agent(answering_agent("ticker"));
        let none = runner(&sessions, none.build().unwrap()).build().unwrap();
        assert!(turn(&none, "Go").await.is_empty(), "{name}");
        let critic = agent(
            "critic",
            vec!["Not yet.".into(), call("exit_loop", "{}").into()],
        );
        let critic = critic.tool(exit_loop_tool()).build().unwrap();
        let refine = LoopAgent::builder("refine")
            .sub_agent(answering_agent("writer"))
            .sub_agent(critic);
        let refine = runner(
            &sessions,
            refine
                .sub_agent(answering_agent("polisher"))
                .build()
                .unwrap(),
        );
        let lines = turn(&refine.build().unwrap(), "Go").await;
        assert_eq!(
            lines.len(),
            6,
            "{name}: the agent after the exit is skipped: {lines:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_tool_answers_and_returns_its_state() {
    for (name, sessions) in services().await {
        let translator = agent("translator", vec!["chat".into(), "chien".into()])
            .output_key("last_word")
            .instruction("Translate for {user:name?}.");
        let ask = |word: &str| {
            ScriptedReply::from(call("translator", &format!(r#"{{"request": "{word}"}}"#)))
        };
        let manager = agent(
            "manager",
            vec![ask("cat"), ask("dog"), "chat, chien".into()],
        );
        let manager = manager.tool(AgentTool::new(translator.build().unwrap()));
        let runner = runner(&sessions, manager.build().unwrap()).build().unwrap();
        let lines = turn(&runner, "cat and dog?").await;
        assert_eq!(
            lines[1], r#"manager: translator -> {"result":"chat"}"#,
            "{name}"
        );
        assert_eq!(lines[4], "manager: chat, chien", "{name}");
        let session = stored(&sessions).await;
        assert_eq!(session.state["last_word"], "chien", "{name}");
        assert_eq!(
            session.events.len(),
            6,
            "{name}: the events of the agent tool are not stored"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_without_a_model_inherits_its_parents_model() {
    for (name, sessions) in services().await {
        let model = Arc::new(
            ScriptedModel::new("shared")
                .reply(transfer_to("kid"))
                .reply("kid here"),
        );
        let kid = LlmAgent::builder("kid").build().unwrap();
        let root = LlmAgent::builder("root")
            .model(Arc::clone(&model))
            .sub_agent(kid);
        let runner = runner(&sessions, root.build().unwrap()).build().unwrap();
        assert_eq!(turn(&runner, "Hi").await[2], "kid: kid here", "{name}");
        assert_eq!(model.requests()[1].model, "shared", "{name}");
    }
}

/// A custom agent that runs another agent.
#[derive(Debug)]
struct RepeatingAgent(Vec<Arc<dyn Agent>>);

#[async_trait::async_trait]
impl Agent for RepeatingAgent {
    fn name(&self) -> &str {
        "twice"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &self.0
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        for _ in 0..2 {
            ctx.run_agent(&self.0[0]).await?;
        }
        ctx.emit(Event::model_text("twice", "That was it.")).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_agent_runs_a_sub_agent() {
    for (name, sessions) in services().await {
        let twice = RepeatingAgent(vec![Arc::new(answering_agent("inner"))]);
        let runner = runner(&sessions, twice).build().unwrap();
        let lines = turn(&runner, "Go").await;
        let expected = [
            "inner: inner answers",
            "inner: inner answers",
            "twice: That was it.",
        ];
        assert_eq!(lines, expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failure_event_names_the_failing_agent() {
    for (name, sessions) in services().await {
        let kid = agent("kid", vec![retain_runtime::ModelError::new("down").into()]);
        let root = agent("root", vec![transfer_to("kid")]).sub_agent(kid.build().unwrap());
        let runner = runner(&sessions, root.build().unwrap()).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Go").await.unwrap();
        run.collect_events().await.unwrap_err();
        let lines = story(events_of(&stored(&sessions).await));
        assert_eq!(lines.last().unwrap(), "kid: [ModelError]", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfer_continues_after_a_pending_call_is_answered() {
    for (name, sessions) in services().await {
        let billing = agent("billing", vec!["Which bill?".into()]);
        let ask = FunctionTool::untyped("ask", "Asks.", None, |_, _| async {
            Ok(serde_json::json!({"status": "pending"}).into())
        });
        let asks: ScriptedReply = call("ask", "{}").into();
        let desk = agent("desk", vec![asks, transfer_to("billing"), "Not me.".into()]);
        let desk = desk
            .tool(ask.long_running())
            .after_agent(|_| async { Ok(Some(Content::model("After."))) })
            .sub_agent(billing.build().unwrap());
        let runner = runner(&sessions, desk.build().unwrap()).build().unwrap();
        let lines = turn(&runner, "My bill, please").await;
        assert_eq!(lines.len(), 4, "{name}: {lines:?}");
        let session = stored(&sessions).await;
        let events = events_of(&session);
        let mut calls = events.iter().flat_map(|event| event.function_calls());
        let id = calls.next().unwrap().id.clone().unwrap();
        let answer = FunctionResponse::new(id, "ask", [("said", "yes")].into());
        let message = Content::new("user", vec![answer.into()]);
        let run = runner.run(USER, Some(SESSION), message).await.unwrap();
        let lines = story(
            run.collect_events()
                .await
                .unwrap()
                .into_iter()
                .map(Arc::new),
        );
        assert_eq!(lines, ["billing: Which bill?"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_tool_fails_with_the_message_of_the_inner_error() {
    for (name, sessions) in services().await {
        let breaks = FunctionTool::untyped("breaks", "Breaks.", None, |_, _| async {
            Err(ToolError::new("no ink").with_code("ValueError"))
        });
        let helper = agent("helper", vec![call("breaks", "{}").into()]).tool(breaks);
        let asks: ScriptedReply = call("helper", r#"{"request": "Help!"}"#).into();
        let desk = agent("desk", vec![asks]).tool(AgentTool::new(helper.build().unwrap()));
        let runner = runner(&sessions, desk.build().unwrap()).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Print").await.unwrap();
        run.collect_events().await.unwrap_err();
        let session = stored(&sessions).await;
        let last = events_of(&session).pop().unwrap();
        let message = last.response.error_message.as_deref();
        assert_eq!(message, Some("no ink"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_agent_that_exits_does_not_run_its_after_agent_callback() {
    for (name, sessions) in services().await {
        let leaves = agent("leaves", vec![call("exit_loop", "{}").into()])
            .tool(exit_loop_tool())
            .after_agent(|_| async { Ok(Some(Content::model("After."))) });
        let team = ParallelAgent::builder("team").sub_agent(leaves.build().unwrap());
        let both = SequentialAgent::builder("both")
            .sub_agent(team.build().unwrap())
            .sub_agent(answering_agent("next"));
        let runner = runner(&sessions, both.build().unwrap()).build().unwrap();
        let lines = turn(&runner, "Go").await;
        let expected = [
            "leaves: exit_loop({})",
            r#"leaves: exit_loop -> {"result":null}"#,
            "next: next answers",
        ];
        assert_eq!(lines, expected, "{name}");
    }
}

#[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
struct Order {
    topic: String,
    count: Option<i64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_tool_receives_arguments_matching_its_input_schema() {
    for (name, sessions) in services().await {
        let echo = ScriptedModel::new("m").otherwise(|request: &LlmRequest| {
            let last = request.contents.last().unwrap();
            last.parts()[0].text.clone().unwrap()
        });
        let helper = LlmAgent::builder("helper")
            .model(echo)
            .input_schema::<Order>();
        let full: ScriptedReply =
            call("helper", r#"{"more": 1, "count": null, "topic": "ink"}"#).into();
        let incomplete: ScriptedReply = call("helper", r#"{"count": 1}"#).into();
        let desk = agent("desk", vec![full, "Done.".into(), incomplete]);
        let desk = desk.tool(AgentTool::new(helper.build().unwrap()));
        let runner = runner(&sessions, desk.build().unwrap()).build().unwrap();
        let lines = turn(&runner, "Order").await;
        let expected = r#"desk: helper -> {"result":"{\"topic\":\"ink\"}"}"#;
        assert_eq!(lines[1], expected, "{name}");
        let run = runner.run(USER, Some(SESSION), "Again").await.unwrap();
        let error = run.collect_events().await.unwrap_err();
        assert_eq!(error.code(), "ValidationError", "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_tool_runs_on_its_own_stack() {
    for (name, sessions) in services().await {
        let again = (0..7).map(|_| transfer_to("again")).chain(["Done.".into()]);
        let other = answering_agent("other");
        let again = agent("again", again.collect()).sub_agent(other);
        let inner = SequentialAgent::builder("inner").sub_agent(again.build().unwrap());
        let ask: ScriptedReply = call("inner", r#"{"request": "Go"}"#).into();
        let desk = agent("desk", vec![ask, "Back.".into()]);
        let desk = desk.tool(AgentTool::new(inner.build().unwrap()));
        let outer = (0..6).fold(
            desk.build().map(Arc::new).unwrap() as Arc<dyn Agent>,
            |all, at| {
                let outer = SequentialAgent::builder(format!("outer{at}")).sub_agent(all);
                Arc::new(outer.build().unwrap())
            },
        );
        let outer = SequentialAgent::builder("top")
            .sub_agent(outer)
            .build()
            .unwrap();
        let runner = runner(&sessions, outer).build().unwrap();
        let lines = turn(&runner, "Go").await;
        assert_eq!(lines[1], r#"desk: inner -> {"result":"Done."}"#, "{name}");
        assert_eq!(lines[2], "desk: Back.", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_transferring_to_itself_in_a_workflow_keeps_its_output() {
    for (name, sessions) in services().await {
        let first: ScriptedReply =
            vec![call("transfer_to_agent", r#"{"agent_name": "talks"}"#)].into();
        let talks = agent("talks", vec![first, "One.".into()])
            .output_key("output")
            .after_agent(|_| async { Ok(Some(Content::model("After."))) })
            .sub_agent(answering_agent("other"));
        let both = SequentialAgent::builder("both").sub_agent(talks.build().unwrap());
        let runner = runner(&sessions, both.build().unwrap()).build().unwrap();
        turn(&runner, "Go").await;
        let session = stored(&sessions).await;
        let output = session
            .state
            .get("output")
            .and_then(|output| output.as_str());
        assert_eq!(output, Some("One.After."), "{name}");
    }
}
