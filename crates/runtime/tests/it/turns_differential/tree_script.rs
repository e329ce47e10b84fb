//! Random scripts with several agents: the agent tree, transfers, and calls that wait for the user.
//!
//! ```text
//! state, turns     as in a script of one agent; answers: see `turns.rs`
//! tree             an agent
//! agent            {kind: llm, sequential, loop, parallel; name, below, hooks, maxIterations,
//!                   and of one with a model: ownModel, replies, instruction, outputKey,
//!                   includeContents, notToParent, notToPeers, helper (an agent that is a tool),
//!                   hasInputSchema, hasOutputSchema}
//! ```
//!
//! Parallel agents write only their own state keys and read none, so their events do not depend on
//! timing. If one of them fails, it ends the others; `rules.rs` says what is compared then.

use retain_core::Json;
use retain_testkit::random::Random;
use serde_json::{Value, json};

use crate::turns_differential::script::value;

const NAMES: [&str; 8] = ["ann", "bob", "cid", "dot", "eve", "fay", "gus", "hal"];
const DEPTH: usize = 4;

/// Returns the script for a seed.
pub(crate) fn script(seed: u64) -> Json {
    let mut maker = TreeGenerator {
        random: Random::new(seed),
        created: 0,
        agents_max: 2 + (seed % 7) as usize,
    };
    let tree = maker.agent(AgentPosition::default());
    let turns = 2 + maker.random.below(4);
    let turns: Vec<Value> = (0..turns).map(|_| maker.turn()).collect();
    Json::from(json!({"state": {"a": 1}, "turns": turns, "tree": tree}))
}

/// Returns the script for a seed and a resumable runner.
pub(crate) fn resumable_script(seed: u64) -> Json {
    let mut script = script(seed);
    if let Some(script) = script.as_object_mut() {
        script.insert("resumable", true);
    }
    script
}

/// The position of an agent in the tree.
#[derive(Debug, Clone, Copy, Default)]
struct AgentPosition {
    depth: usize,
    /// Whether the agent runs in parallel with others.
    is_parallel: bool,
    /// Whether an ancestor has a model.
    below_model: bool,
    /// Whether the agent itself is called as a tool.
    is_helper: bool,
    /// Whether the agent runs inside an agent that is called as a tool.
    in_helper: bool,
}

struct TreeGenerator {
    random: Random,
    created: usize,
    agents_max: usize,
}

impl TreeGenerator {
    fn agent(&mut self, place: AgentPosition) -> Value {
        let name = NAMES[self.created];
        self.created += 1;
        let is_leaf = place.depth + 1 >= DEPTH || self.created >= self.agents_max;
        let kind = match self.random.below(100) {
            _ if is_leaf => "llm",
            0..55 => "llm",
            55..70 => "sequential",
            70..85 => "loop",
            _ => "parallel",
        };
        let mut agent = match kind {
            "llm" => self.llm(name, place),
            _ => json!({"maxIterations": 1 + self.random.below(3)}),
        };
        let wanted = match kind {
            // With more agents, timing would decide which text is last and becomes the tool's
            // result.
            "parallel" if place.in_helper => 1,
            _ => 1 + self.random.below(3),
        };
        let inside = AgentPosition {
            depth: place.depth + 1,
            is_parallel: place.is_parallel || (kind == "parallel" && wanted > 1),
            below_model: place.below_model || kind == "llm",
            is_helper: false,
            in_helper: place.in_helper,
        };
        let mut below = Vec::new();
        while !is_leaf && self.created < self.agents_max && (below.len() as u64) < wanted {
            below.push(self.agent(inside));
        }
        agent["name"] = json!(name);
        agent["kind"] = json!(kind);
        agent["below"] = json!(below);
        agent["hooks"] = json!({
            "before_agent": self.plan(name, place),
            "after_agent": self.plan(name, place),
        });
        agent
    }

    fn llm(&mut self, name: &str, place: AgentPosition) -> Value {
        let inherits = place.below_model && !place.is_parallel && !place.is_helper;
        let helper = self.helper(place);
        let has_output_schema = place.is_helper && self.random.chance(25);
        let output_key = self.random.chance(50).then(|| format!("answer_of_{name}"));
        let replies = 1 + self.random.below(6);
        let replies: Vec<Value> = (0..replies)
            .map(|_| match has_output_schema && self.random.chance(70) {
                true => structured_reply(self.random.below(100)),
                false => self.reply(name, place, &helper),
            })
            .collect();
        let instruction = match place.is_parallel {
            true => format!("I am {name}."),
            false => format!(
                "I am {name}. a={{a?}} ann={{answer_of_ann?}} bob={{answer_of_bob?}} cid={{answer_of_cid?}}"
            ),
        };
        json!({
            "ownModel": !(inherits && self.random.chance(30)),
            "replies": replies,
            "instruction": instruction,
            "outputKey": output_key,
            "includeContents": if self.random.chance(20) { "none" } else { "default" },
            "notToParent": self.random.chance(20),
            "notToPeers": self.random.chance(20),
            "hasInputSchema": place.is_helper && self.random.chance(25),
            "hasOutputSchema": has_output_schema,
            "helper": helper,
        })
    }

    /// Returns an agent that another agent calls as a tool, or null.
    fn helper(&mut self, place: AgentPosition) -> Value {
        if place.in_helper || self.created >= self.agents_max || !self.random.chance(25) {
            return Value::Null;
        }
        self.agent(AgentPosition {
            is_helper: true,
            in_helper: true,
            below_model: false,
            ..place
        })
    }

    /// Returns the reply of an agent's model to one request.
    fn reply(&mut self, name: &str, place: AgentPosition, helper: &Value) -> Value {
        let mut parts = Vec::new();
        let calls = match self.random.below(100) {
            0..35 => 0,
            35..90 => 1,
            _ => 2,
        };
        if calls == 0 || self.random.chance(15) {
            parts.push(json!({"text": format!("{name} says {}.", self.random.below(100))}));
        }
        for _ in 0..calls {
            let call = self.call(name, place, helper);
            // In two concurrent runs of one agent, timing decides which run gets which reply.
            let is_helper = !helper.is_null() && call["name"] == helper["name"];
            let calls = |name: &Value| {
                parts
                    .iter()
                    .any(|part| part["functionCall"]["name"] == *name)
            };
            // Inside an agent tool, the events do not show that an approval precedes a transfer.
            let is_hidden = place.in_helper
                && ((call["name"] == "pay" && calls(&json!("transfer_to_agent")))
                    || (call["name"] == "transfer_to_agent" && calls(&json!("pay"))));
            let is_second = is_helper && calls(&helper["name"]);
            if !is_hidden && !is_second {
                parts.push(json!({"functionCall": call}));
            }
        }
        let whole = json!({"content": {"role": "model", "parts": parts}});
        let piece =
            json!({"content": {"role": "model", "parts": [{"text": "Ye"}]}, "partial": true});
        json!({"responses": [piece, whole]})
    }

    fn call(&mut self, name: &str, place: AgentPosition, helper: &Value) -> Value {
        if !helper.is_null() && self.random.chance(30) {
            let args = match helper["hasInputSchema"] == true {
                true => {
                    json!({"topic": "ink", "count": self.random.pick(&[json!(2), json!(null)])})
                }
                false => json!({"request": "Help!"}),
            };
            return json!({"name": helper["name"], "args": args});
        }
        let key = match place.is_parallel {
            true => format!("of_{name}"),
            false => "a".to_owned(),
        };
        match self.random.below(100) {
            0..36 => self.transfer(),
            36..44 => {
                json!({"name": "note", "args": {"key": key, "value": value(&mut self.random)}})
            }
            44..62 => json!({"name": "pay", "args": {"amount": self.random.below(9)}}),
            62..74 => {
                let result = self
                    .random
                    .pick(&[json!(null), json!({"status": "pending"})]);
                json!({"name": "later", "args": {"result": result}})
            }
            74..80 => json!({"name": "get_user_choice", "args": {"options": ["this", "that"]}}),
            80..86 => json!({"name": "adk_request_input", "args": {"message": "How many?"}}),
            86..94 => json!({"name": "exit_loop", "args": {}}),
            94..96 => json!({"name": "fail", "args": {"message": "broken"}}),
            _ => json!({"name": "say", "args": {"result": {"ok": true}}}),
        }
    }

    fn transfer(&mut self) -> Value {
        let agent = NAMES[self.random.below(self.agents_max as u64) as usize];
        let target = match self.random.chance(12) {
            true => "nobody",
            false => agent,
        };
        json!({"name": "transfer_to_agent", "args": {"agent_name": target}})
    }

    /// Returns a callback's steps, one per call.
    fn plan(&mut self, name: &str, place: AgentPosition) -> Value {
        let key = match place.is_parallel {
            true => format!("of_{name}"),
            false => "a".to_owned(),
        };
        let steps = (0..4).map(|_| {
            if !self.random.chance(15) {
                return Value::Null;
            }
            let mut step = json!({"write": {}});
            if self.random.chance(50) {
                step["write"] = json!({key.as_str(): value(&mut self.random)});
            }
            if self.random.chance(50) {
                step["answer"] = json!("From a callback.");
            } else if self.random.chance(8) {
                step["fail"] = json!(true);
            }
            step
        });
        steps.collect()
    }

    fn turn(&mut self) -> Value {
        let answers = match self.random.below(100) {
            0..15 => json!("later"),
            15..30 => json!("approve"),
            30..41 => json!("reject"),
            41..50 => json!("again"),
            50..56 => json!("newest"),
            56..65 => json!("choice"),
            65..74 => json!("input"),
            74..86 => json!("all"),
            86..88 => json!("unknown"),
            88..90 => json!("with words"),
            _ => json!(null),
        };
        json!({
            "text": self.random.pick(&["Hello?", "And now?", "Why?"]),
            "answers": answers,
            "streaming": self.random.chance(20),
            "maxLlmCalls": null,
            "stateDelta": {},
            "metadata": null,
        })
    }
}

/// Returns an answer that matches a schema.
fn structured_reply(number: u64) -> Value {
    let text = format!("{{\"title\": \"T{number}\"}}");
    json!({"responses": [{"content": {"role": "model", "parts": [{"text": text}]}}]})
}
