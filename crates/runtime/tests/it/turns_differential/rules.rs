//! The allowed differences between both sides, each as a named rule. An unused rule fails the test.

use std::collections::{HashMap, HashSet};

use retain_core::{Json, JsonMap};

use crate::turns_differential::{parallel_agents::ParallelAgents, resuming};

/// The number of uses of each rule.
#[derive(Debug, Default)]
pub(crate) struct RuleUses {
    /// The number of compared scripts.
    pub(crate) scripts: usize,
    /// In ADK an agent that fails to transfer, or fails below an agent without a model, leaves no
    /// event. In Retain the log records every failure.
    pub(crate) failures_are_stored: usize,
    /// Retain stores parallel agents' events in the order in which they were emitted. They are
    /// compared branch by branch, both in events and in later requests that quote them.
    pub(crate) order_is_by_branch: usize,
    /// In ADK, a failure before an agent's first event carries the name of the agent's parent.
    pub(crate) failures_name_their_agent: usize,
    /// A message is rejected if it answers an unknown call or calls of several runs, or mixes text
    /// with an answer. ADK rejects it only if the root has a model. Nothing is compared from that
    /// turn on.
    pub(crate) invalid_answers_are_rejected: usize,
    /// If a call that needs approval is made together with a transfer, ADK never requests the
    /// approval. Nothing is compared from that turn on.
    pub(crate) approval_comes_first: usize,
    /// In ADK an answer for a parallel agent below an agent with a model finds no branch, and an
    /// approved call does not run. Nothing is compared from that turn on.
    pub(crate) answers_find_their_branch: usize,
    /// In ADK, events after parallel agents below an agent with a model stay on the branch of the
    /// last of them. Nothing is compared from that turn on.
    pub(crate) branches_end_with_their_agents: usize,
    /// A parallel agent that fails or escalates ends the others, at any point. The common prefix of
    /// each branch is compared, and nothing after it.
    pub(crate) siblings_are_cut_short: usize,
    /// ADK stores a message that answers calls of several branches on the branch of the first,
    /// hidden from the others; in Retain each branch gets its own answers. Nothing is compared from
    /// that turn on.
    pub(crate) branches_get_their_answers: usize,
    /// In a resumed run with another pending call, ADK skips the waiting agent or marks it as done.
    /// Nothing is compared from that turn on.
    pub(crate) open_calls_are_awaited: usize,
    /// In a resumed run, ADK continues only the answered agent if other agents run it below an
    /// agent with a model; Retain continues all of them. Nothing is compared from that turn on.
    pub(crate) workflows_continue: usize,
    /// In a resumed run, ADK reruns an agent that had ended if a callback emitted an event after
    /// that. Nothing is compared from that turn on.
    pub(crate) ended_agents_stay_ended: usize,
    /// In a resumable run, ADK marks the target of a transfer from a waiting agent as done without
    /// running it, or while the call is pending. Nothing is compared from that turn on.
    pub(crate) waiting_agent_is_not_done: usize,
    /// In a resumable run, ADK records the end of an agent whose transfer target does not exist.
    pub(crate) failed_agent_is_not_done: usize,
}

impl RuleUses {
    /// Fails if a rule was not used.
    pub(crate) fn assert_all_used(&self) {
        let rules = [
            self.failures_are_stored,
            self.order_is_by_branch,
            self.failures_name_their_agent,
            self.invalid_answers_are_rejected,
            self.approval_comes_first,
            self.answers_find_their_branch,
            self.branches_end_with_their_agents,
            self.siblings_are_cut_short,
            self.branches_get_their_answers,
        ];
        assert!(rules.iter().all(|uses| *uses > 0), "{self:?}");
    }

    /// Like [`assert_all_used`](Self::assert_all_used), for the rules of resumable runs.
    pub(crate) fn assert_resumable_used(&self) {
        let rules = [
            self.open_calls_are_awaited,
            self.workflows_continue,
            self.ended_agents_stay_ended,
            self.waiting_agent_is_not_done,
            self.failed_agent_is_not_done,
        ];
        assert!(rules.iter().all(|uses| *uses > 0), "{self:?}");
    }

    /// Returns both sides' results without the allowed differences, and counts the rules.
    pub(crate) fn remove_allowed_differences(
        &mut self,
        script: &Json,
        ours: &Json,
        theirs: &Json,
    ) -> (Json, Json) {
        self.scripts += 1;
        let (mut ours, mut theirs) = (without_hidden_ids(ours), without_hidden_ids(theirs));
        if script["resumable"] == true {
            self.drop_false_ends(&mut theirs);
        }
        self.drop_failure_events(&mut ours, &theirs);
        self.rename_failures(&ours, &mut theirs);
        let agents = ParallelAgents::from_tree(&script["tree"]);
        self.drop_incomparable_turns(script, &agents, &mut ours, &mut theirs);
        for result in [&mut ours, &mut theirs] {
            let mut moved = false;
            edit_turns(result, |_, turn| {
                if let Some(events) = turn.get_mut("events") {
                    moved |= sort_by_branch(events);
                }
            });
            let branches = agent_branches(&result["stored"]);
            if let Some(result) = result.as_object_mut() {
                moved |= result.get_mut("stored").is_some_and(sort_by_branch);
                let requests = result.get_mut("requests");
                moved |= requests.is_some_and(|it| sort_quotes_by_branch(it, &branches));
            }
            self.order_is_by_branch += usize::from(moved);
        }
        (ours, theirs)
    }

    /// Drops a failure that only Retain records as an event.
    fn drop_failure_events(&mut self, ours: &mut Json, theirs: &Json) {
        let mut dropped = Vec::new();
        edit_turns(ours, |at, turn| {
            let other = &theirs["turns"].as_array().unwrap_or_default()[at];
            let last = other["events"].as_array().and_then(<[Json]>::last);
            let both_failed = !turn["failed"].is_null() && !other["failed"].is_null();
            let events = turn.get_mut("events").and_then(Json::as_array_mut);
            if let Some(events) = events
                && both_failed
                && !last.is_some_and(is_failure)
                && events.last().is_some_and(is_failure)
            {
                dropped.extend(events.pop().map(|event| event["id"].clone()));
            }
        });
        self.failures_are_stored += dropped.len();
        let stored = ours
            .as_object_mut()
            .and_then(|result| result.get_mut("stored"));
        if let Some(stored) = stored.and_then(Json::as_array_mut) {
            stored.retain(|event| !dropped.contains(&event["id"]));
        }
    }

    /// Drops the end that ADK records for an agent whose transfer failed.
    fn drop_false_ends(&mut self, theirs: &mut Json) {
        let mut dropped = Vec::new();
        edit_turns(theirs, |_, turn| {
            dropped.extend(resuming::drop_false_ends(turn))
        });
        self.failed_agent_is_not_done += dropped.len();
        let stored = theirs
            .as_object_mut()
            .and_then(|result| result.get_mut("stored"));
        if let Some(stored) = stored.and_then(Json::as_array_mut) {
            stored.retain(|event| dropped.iter().all(|dropped| dropped["id"] != event["id"]));
        }
    }

    /// Gives a failure the same author on both sides.
    fn rename_failures(&mut self, ours: &Json, theirs: &mut Json) {
        let all = |result: &Json, at: usize| {
            let turn = &result["turns"].as_array().unwrap_or_default()[at];
            turn["events"].as_array().unwrap_or_default().to_vec()
        };
        let mut renamed = HashMap::new();
        edit_turns(theirs, |at, turn| {
            let ours = all(ours, at);
            let last = turn.get_mut("events").and_then(Json::as_array_mut);
            let last = last.and_then(|events| events.last_mut());
            if let (Some(ours), Some(theirs)) = (ours.last(), last)
                && is_failure(ours)
                && is_failure(theirs)
                && ours["nodeInfo"] == theirs["nodeInfo"]
                && ours["author"] != theirs["author"]
            {
                renamed.insert(theirs["id"].to_string(), ours["author"].clone());
                set_author(theirs, &ours["author"]);
            }
        });
        self.failures_name_their_agent += renamed.len();
        let stored = theirs
            .as_object_mut()
            .and_then(|result| result.get_mut("stored"));
        for event in stored.and_then(Json::as_array_mut).into_iter().flatten() {
            if let Some(author) = renamed.get(&event["id"].to_string()) {
                set_author(event, author);
            }
        }
    }

    /// Drops the first turn in which both sides are known to differ, and all turns after it.
    fn drop_incomparable_turns(
        &mut self,
        script: &Json,
        agents: &ParallelAgents,
        ours: &mut Json,
        theirs: &mut Json,
    ) {
        let turns = |result: &Json| result["turns"].as_array().unwrap_or_default().to_vec();
        for (at, (one, other)) in turns(ours).iter().zip(&turns(theirs)).enumerate() {
            let either = |is: fn(&Json, usize) -> bool| is(ours, at) || is(theirs, at);
            let rule = match script["resumable"] == true {
                true if either(resuming::transfers_while_waiting) => {
                    Some(&mut self.waiting_agent_is_not_done)
                }
                true if either(resuming::has_another_open_call) => {
                    Some(&mut self.open_calls_are_awaited)
                }
                true if either(resuming::has_event_after_agent_end) => {
                    Some(&mut self.ended_agents_stay_ended)
                }
                true if either(resuming::resumes_nested_agent) => {
                    Some(&mut self.workflows_continue)
                }
                _ => None,
            };
            if let Some(rule) = rule {
                *rule += 1;
                return [ours, theirs]
                    .into_iter()
                    .for_each(|result| keep_turns(result, at));
            }
            if let Some(rule) = self.rule_of_incomparable_turn(script, at, one, other) {
                *rule += 1;
                return [ours, theirs]
                    .into_iter()
                    .for_each(|result| keep_turns(result, at));
            }
            if agents.ends_others(one) || agents.ends_others(other) {
                self.siblings_are_cut_short += 1;
                let is_same_end = one["failed"] == other["failed"];
                let compared = at + usize::from(is_same_end);
                let lengths = agents.common(events(one), events(other));
                for result in [ours, theirs] {
                    keep_turns(result, compared);
                    edit_turns(result, |number, turn| {
                        if number == at {
                            agents.shorten(turn, &lengths);
                        }
                    });
                }
                return;
            }
        }
    }

    /// Returns the rule that ends the comparison at this turn, if any.
    fn rule_of_incomparable_turn(
        &mut self,
        script: &Json,
        at: usize,
        ours: &Json,
        theirs: &Json,
    ) -> Option<&mut usize> {
        let message = &script["turns"].as_array().unwrap_or_default()[at];
        let answers = !message["answers"].is_null();
        let asks_model = script["tree"].is_null() || script["tree"]["kind"] == "llm";
        let is_refused = ours["failed"] == "ValueError" && events(ours).is_empty();
        if answers && !asks_model && is_refused {
            return Some(&mut self.invalid_answers_are_rejected);
        }
        if ours["messages"].as_i64() > Some(1) {
            return Some(&mut self.branches_get_their_answers);
        }
        let (first, other) = (events(ours).first(), events(theirs).first());
        let has_branch = |event: Option<&Json>| event.is_some_and(|it| !branch(it).is_empty());
        if answers && asks_model && has_branch(first) && !has_branch(other) {
            return Some(&mut self.answers_find_their_branch);
        }
        let parallel_authors = |turn: &Json| {
            let events = events(turn).iter();
            let parallel = events.filter(|event| !branch(event).is_empty());
            parallel
                .map(|event| event["author"].to_string())
                .collect::<HashSet<_>>()
        };
        if !parallel_authors(theirs).is_subset(&parallel_authors(ours))
            && events(ours).len() == events(theirs).len()
        {
            return Some(&mut self.branches_end_with_their_agents);
        }
        let transfers = events(ours).iter().any(transfers_with_approval);
        transfers.then_some(&mut self.approval_comes_first)
    }
}

fn set_author(event: &mut Json, author: &Json) {
    if let Some(event) = event.as_object_mut() {
        event.insert("author", author.clone());
    }
}

fn events(turn: &Json) -> &[Json] {
    turn["events"].as_array().unwrap_or_default()
}

fn is_failure(event: &Json) -> bool {
    !event["errorCode"].is_null() && event["content"].is_null()
}

/// Whether an event both requests approval and transfers to another agent.
fn transfers_with_approval(event: &Json) -> bool {
    let actions = &event["actions"];
    let waiting = actions["requestedToolConfirmations"].as_object();
    waiting.is_some_and(|waiting| !waiting.is_empty()) && !actions["transferToAgent"].is_null()
}

/// Keeps only the first turns, and drops the overall results.
fn keep_turns(result: &mut Json, turns: usize) {
    if let Some(result) = result.as_object_mut() {
        result.remove("requests");
        result.remove("stored");
        if let Some(all) = result.get_mut("turns").and_then(Json::as_array_mut) {
            all.truncate(turns);
        }
    }
}

fn edit_turns(result: &mut Json, mut edit: impl FnMut(usize, &mut JsonMap)) {
    let turns = result
        .as_object_mut()
        .and_then(|result| result.get_mut("turns"));
    let turns = turns.and_then(Json::as_array_mut).into_iter().flatten();
    for (at, turn) in turns.enumerate() {
        if let Some(turn) = turn.as_object_mut() {
            edit(at, turn);
        }
    }
}

fn branch(event: &Json) -> String {
    event["branch"].as_str().unwrap_or_default().to_owned()
}

/// Sorts the events of parallel agents by branch. Returns whether that changed anything.
fn sort_by_branch(events: &mut Json) -> bool {
    let before = events.clone();
    if let Some(events) = events.as_array_mut() {
        let together = |one: &Json, next: &Json| {
            let is_parallel = |event: &Json| event["author"] != "user" && !branch(event).is_empty();
            is_parallel(one) && is_parallel(next) && one["invocationId"] == next["invocationId"]
        };
        for parallel in events.chunk_by_mut(together) {
            parallel.sort_by_key(branch);
        }
    }
    before != *events
}

/// Returns the branch of each agent's last event.
fn agent_branches(stored: &Json) -> HashMap<String, String> {
    let stored = stored.as_array().unwrap_or_default().iter();
    let parallel = stored.filter(|event| !branch(event).is_empty());
    let author = |event: &Json| event["author"].as_str().unwrap_or_default().to_owned();
    parallel
        .map(|event| (author(event), branch(event)))
        .collect()
}

/// Sorts the quotes of parallel agents in requests. Returns whether that changed anything.
fn sort_quotes_by_branch(requests: &mut Json, branches: &HashMap<String, String>) -> bool {
    let before = requests.clone();
    let quoted = |content: &Json| {
        let text = content["parts"].as_array()?.get(1)?["text"].as_str()?;
        let (name, _) = text.strip_prefix('[')?.split_once(']')?;
        branches.get(name).cloned()
    };
    let together = |one: &Json, next: &Json| quoted(one).is_some() && quoted(next).is_some();
    let Some(models) = requests.as_object_mut() else {
        return false;
    };
    let names: Vec<String> = models.keys().map(ToString::to_string).collect();
    for name in names {
        let requests = models.get_mut(&name).and_then(Json::as_array_mut);
        for request in requests.into_iter().flatten() {
            let contents = request.as_object_mut();
            let contents = contents.and_then(|request| request.get_mut("contents"));
            let contents = contents.and_then(Json::as_array_mut);
            for quotes in contents
                .into_iter()
                .flat_map(|it| it.chunk_by_mut(together))
            {
                quotes.sort_by_key(quoted);
            }
        }
    }
    before != *requests
}

/// Removes the ids of calls inside an agent tool, which appear only in error messages and differ
/// between the sides.
fn without_hidden_ids(result: &Json) -> Json {
    const BEFORE: &str = "(pending call ids: [";
    let text = result.to_string();
    let mut pieces = text.split(BEFORE);
    let mut visible = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(']').unwrap_or(0);
        visible += BEFORE;
        visible += &piece[end..];
    }
    Json::parse(&visible).expect("only ids were removed")
}
