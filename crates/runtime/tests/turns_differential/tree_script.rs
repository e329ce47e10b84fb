//! Random scripts with several agents: who is below whom, who hands over to whom, what waits for
//! the user.
//!
//! ```text
//! state, turns     as in a script of one agent; answers: later, approve, reject, again
//! tree             an agent
//! agent            {kind: llm, sequential, loop, parallel; name, below, hooks, maxIterations,
//!                   and of one that asks a model: ownModel, replies, instruction, outputKey,
//!                   includeContents, notToParent, notToPeers, helper (an agent that is a tool)}
//! ```
//!
//! What runs side by side says nothing that depends on who is quicker: it writes to keys of its own,
//! reads none, and does not fail.

use retain_core::Json;
use retain_testkit::random::Random;
use serde_json::{Value, json};

use crate::script::value;

const NAMES: [&str; 6] = ["ann", "bob", "cid", "dot", "eve", "fay"];
const DEPTH: usize = 3;

/// The script of a seed.
pub(crate) fn script(seed: u64) -> Json {
    let mut maker = Maker {
        random: Random::new(seed),
        named: 0,
        names: 2 + (seed % 5) as usize,
    };
    let tree = maker.agent(Place::default());
    let turns = 2 + maker.random.below(4);
    let turns: Vec<Value> = (0..turns).map(|_| maker.turn()).collect();
    Json::from(json!({"state": {"a": 1}, "turns": turns, "tree": tree}))
}

/// Where an agent stands.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    depth: usize,
    /// It runs beside others.
    beside: bool,
    /// An agent above it has a model.
    below_model: bool,
    /// It is a tool, alone in its run.
    is_helper: bool,
}

struct Maker {
    random: Random,
    named: usize,
    names: usize,
}

impl Maker {
    fn agent(&mut self, place: Place) -> Value {
        let name = NAMES[self.named];
        self.named += 1;
        let is_leaf = place.is_helper || place.depth + 1 == DEPTH || self.named >= self.names;
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
        let inside = Place {
            depth: place.depth + 1,
            beside: place.beside || kind == "parallel",
            below_model: place.below_model || kind == "llm",
            is_helper: false,
        };
        let mut below = Vec::new();
        let wanted = 1 + self.random.below(3);
        while !is_leaf && self.named < self.names && (below.len() as u64) < wanted {
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

    fn llm(&mut self, name: &str, place: Place) -> Value {
        let inherits = place.below_model && !place.beside && !place.is_helper;
        let has_helper = !place.is_helper && self.named < self.names && self.random.chance(25);
        let helper = has_helper.then(|| {
            let place = Place {
                is_helper: true,
                ..place
            };
            self.agent(place)
        });
        let replies = 1 + self.random.below(6);
        let called = helper.as_ref().map(|helper| helper["name"].clone());
        let replies: Vec<Value> = (0..replies)
            .map(|_| self.reply(name, place, called.as_ref()))
            .collect();
        let instruction = match place.beside {
            true => format!("I am {name}."),
            false => format!(
                "I am {name}. a={{a?}} ann={{said_ann?}} bob={{said_bob?}} cid={{said_cid?}}"
            ),
        };
        json!({
            "ownModel": !(inherits && self.random.chance(30)),
            "replies": replies,
            "instruction": instruction,
            "outputKey": self.random.chance(50).then(|| format!("said_{name}")),
            "includeContents": if self.random.chance(20) { "none" } else { "default" },
            "notToParent": self.random.chance(20),
            "notToPeers": self.random.chance(20),
            "helper": helper,
        })
    }

    /// What the model of an agent says to one request.
    fn reply(&mut self, name: &str, place: Place, helper: Option<&Value>) -> Value {
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
            parts.push(json!({"functionCall": call}));
        }
        // ADK hands over and never asks about the payment; we ask first. Not comparable from there.
        let calls = |name: &str| {
            parts
                .iter()
                .any(|part| part["functionCall"]["name"] == name)
        };
        if calls("pay") && calls("transfer_to_agent") {
            parts.pop();
        }
        let whole = json!({"content": {"role": "model", "parts": parts}});
        let piece =
            json!({"content": {"role": "model", "parts": [{"text": "Ye"}]}, "partial": true});
        json!({"responses": [piece, whole]})
    }

    fn call(&mut self, name: &str, place: Place, helper: Option<&Value>) -> Value {
        if let Some(helper) = helper
            && self.random.chance(30)
        {
            return json!({"name": helper, "args": {"request": "Help!"}});
        }
        let key = match place.beside {
            true => format!("of_{name}"),
            false => "a".to_owned(),
        };
        match self.random.below(100) {
            // Where agents run side by side, or as a tool, a failure would end the others.
            0..40 if !place.beside => self.transfer(),
            0..54 => {
                json!({"name": "note", "args": {"key": key, "value": value(&mut self.random)}})
            }
            54..77 => json!({"name": "pay", "args": {"amount": self.random.below(9)}}),
            77..87 => {
                let result = self
                    .random
                    .pick(&[json!(null), json!({"status": "pending"})]);
                json!({"name": "later", "args": {"result": result}})
            }
            87..97 if !place.beside => json!({"name": "exit_loop", "args": {}}),
            97..99 if !place.beside => json!({"name": "fail", "args": {"message": "broken"}}),
            _ => json!({"name": "say", "args": {"result": {"ok": true}}}),
        }
    }

    fn transfer(&mut self) -> Value {
        let known = NAMES[self.random.below(self.names as u64) as usize];
        let target = match self.random.chance(12) {
            true => "nobody",
            false => known,
        };
        json!({"name": "transfer_to_agent", "args": {"agent_name": target}})
    }

    /// What a callback does when it is called for the first time, the second time, and so on.
    fn plan(&mut self, name: &str, place: Place) -> Value {
        let key = match place.beside {
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
            } else if !place.beside && self.random.chance(8) {
                step["fail"] = json!(true);
            }
            step
        });
        steps.collect()
    }

    fn turn(&mut self) -> Value {
        let answers = match self.random.below(100) {
            0..25 => json!("later"),
            25..45 => json!("approve"),
            45..62 => json!("reject"),
            62..75 => json!("again"),
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
