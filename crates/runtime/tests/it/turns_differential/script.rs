//! Random scripts: the user's messages, the model's replies, the steps of callbacks.
//!
//! A script is JSON, so that both sides read the same script:
//!
//! ```text
//! state, instruction, staticInstruction,
//! includeContents, outputKey              the session and the agent
//! turns    [{text, answers, streaming, maxLlmCalls, stateDelta, metadata}]
//! replies  [{responses, error?}]          one per model call
//! hooks    {name: [null or step]}         one entry per call of the callback
//! step     {write, change?, answer?, fail?}
//! ```

use retain_core::{Json, JsonMap};
use retain_testkit::random::Random;
use serde_json::{Value, json};

pub(crate) const TOOLS: [&str; 8] = [
    "note", "nest", "add", "say", "fail", "quiet", "later", "leave",
];

/// Returns the script for a seed.
pub(crate) fn script(seed: u64) -> Json {
    let mut random = Random::new(seed);
    let turns = 1 + random.below(4);
    let mut turns: Vec<Value> = (0..turns).map(|_| turn(&mut random)).collect();
    // In ADK, several complete answers to one request share their actions, so an earlier answer
    // contains a later one's writes. Such scripts therefore write nothing.
    let has_several_answers = random.chance(20);
    let replies = 2 + random.below(10);
    let mut replies: Vec<Value> = (0..replies)
        .map(|_| reply(&mut random, has_several_answers))
        .collect();
    if random.chance(15) {
        add_resumption(&mut random, &mut turns, &mut replies);
    }
    let output_key = ["answer", "user:answer", "temp:answer"];
    let output_key = random.chance(50).then(|| random.pick(&output_key));
    let output_key = output_key.filter(|_| !has_several_answers);
    let mut hooks = hooks(&mut random);
    if has_several_answers {
        hooks["after_model"] = json!([]);
    }
    let include = if random.chance(15) { "none" } else { "default" };
    Json::from(json!({
        "state": writes(&mut random),
        "instruction": "a={a?} u={user:u?} t={temp:t?} answer={answer?}",
        "staticInstruction": random.chance(25).then_some("Always. {a}"),
        "includeContents": include,
        "outputKey": output_key,
        "turns": turns,
        "replies": replies,
        "hooks": hooks,
    }))
}

/// Adds a run that fails while a call is pending, and a turn that resumes it with the answer.
fn add_resumption(random: &mut Random, turns: &mut Vec<Value>, replies: &mut [Value]) {
    let open = json!({"functionCall": {"name": "later", "args": {"result": null}}});
    let broken = json!({"functionCall": {"name": "fail", "args": {"message": "broken"}}});
    let mut parts = vec![open, broken];
    if random.chance(40) {
        parts.push(json!({"functionCall": call(random)}));
    }
    if random.chance(50) {
        parts.reverse();
    }
    replies[0] = json!({"responses": [{"content": {"role": "model", "parts": parts}}]});
    let mut answer = turn(random);
    answer["answers"] = json!("later");
    turns.insert(1, answer);
}

fn turn(random: &mut Random) -> Value {
    let limit = random.chance(20).then(|| 1 + random.below(2));
    json!({
        "text": random.pick(&["Hello?", "And now?", "Why?", "東京 ok"]),
        "answers": random.chance(70).then_some("later"),
        "streaming": random.chance(40),
        "maxLlmCalls": limit,
        "stateDelta": if random.chance(30) { writes(random) } else { json!({}) },
        "metadata": if random.chance(20) { json!({"trace": 7}) } else { json!(null) },
    })
}

pub(crate) fn value(random: &mut Random) -> Value {
    let values = [
        json!(1),
        json!(2.5),
        json!("x"),
        json!(""),
        json!(null),
        json!(false),
        json!([1, "two"]),
        json!({}),
        json!({"k": {"m": 1}}),
        json!({"k": {"n": [2]}, "l": "it's"}),
    ];
    random.pick(&values)
}

fn key(random: &mut Random) -> &'static str {
    // Few keys, so that writes collide.
    random.pick(&["a", "a", "a", "a", "b", "user:u", "app:p", "temp:t"])
}

fn writes(random: &mut Random) -> Value {
    let count = random.below(3);
    let writes = (0..count).map(|_| (key(random).to_owned(), value(random)));
    Value::Object(writes.collect())
}

/// Returns the model's reply to one request.
fn reply(random: &mut Random, has_several_answers: bool) -> Value {
    let whole = match random.below(100) {
        0..35 => text_response(random),
        35..75 => call_response(random),
        75..80 => json!({"content": {"role": "model", "parts": []}, "finishReason": "STOP"}),
        80..84 => json!({"finishReason": "STOP"}),
        84..88 => json!({
            "content": {"role": "model", "parts": [{"text": "Hm.", "thought": true}]},
            "finishReason": "STOP",
        }),
        88..92 => json!({"errorCode": "SAFETY", "errorMessage": "No."}),
        92..94 => json!({
            "content": {"role": "model", "parts": [{"text": "Half"}]},
            "finishReason": "MAX_TOKENS", "errorCode": "MAX_TOKENS",
        }),
        _ => return json!({"responses": pieces(random), "error": "no line"}),
    };
    let mut responses = pieces(random);
    if has_several_answers && random.chance(50) {
        responses.push(text_response(random));
    }
    responses.push(with_metadata(random, whole));
    json!({"responses": responses})
}

/// Adds metadata to a model's reply.
fn with_metadata(random: &mut Random, mut response: Value) -> Value {
    if random.chance(15) {
        response["usageMetadata"] = json!({"promptTokenCount": 3, "totalTokenCount": 5});
    }
    if random.chance(8) {
        response["groundingMetadata"] = json!({"webSearchQueries": ["x"]});
    }
    if random.chance(8) {
        response["customMetadata"] = json!({"note": [1]});
    }
    if random.chance(5) {
        response["interrupted"] = json!(true);
    }
    if random.chance(5) {
        response["turnComplete"] = json!(true);
    }
    response
}

/// Returns partial responses that precede the final one, for streaming.
fn pieces(random: &mut Random) -> Vec<Value> {
    let piece = json!({"content": {"role": "model", "parts": [{"text": "Ye"}]}, "partial": true});
    vec![piece; random.below(3) as usize]
}

fn text_response(random: &mut Random) -> Value {
    let mut parts = Vec::new();
    if random.chance(20) {
        parts.push(json!({"text": "Let me see.", "thought": true}));
    }
    parts.push(json!({"text": random.pick(&["Yes.", "No, 東京.", "", "  "])}));
    let mut response = json!({"content": {"role": "model", "parts": parts}});
    if random.chance(50) {
        response["finishReason"] = json!("STOP");
    }
    response
}

fn call_response(random: &mut Random) -> Value {
    let mut parts = Vec::new();
    if random.chance(30) {
        parts.push(json!({"text": "One moment."}));
    }
    let calls = if random.chance(50) {
        1
    } else {
        2 + random.below(2)
    };
    parts.extend((0..calls).map(|_| json!({"functionCall": call(random)})));
    json!({"content": {"role": "model", "parts": parts}})
}

fn call(random: &mut Random) -> Value {
    let (name, args) = match random.below(100) {
        0..12 => ("note", json!({"key": key(random), "value": value(random)})),
        12..36 => {
            let inner = random.pick(&["k", "l"]);
            (
                "nest",
                json!({"key": key(random), "inner": inner, "value": value(random)}),
            )
        }
        36..54 => ("add", json!({"key": key(random), "value": value(random)})),
        54..62 => ("say", json!({"result": value(random)})),
        62..69 => ("fail", json!({"message": "broken"})),
        69..76 => ("quiet", json!({"text": "hush"})),
        76..88 => {
            let result = random.pick(&[json!(null), json!(null), json!({"status": "pending"})]);
            ("later", json!({"result": result}))
        }
        88..94 => ("leave", json!({})),
        _ => ("nope", json!({"x": 1})),
    };
    match random.chance(10) {
        true => json!({"name": name, "args": args, "id": format!("call-{}", random.below(1000))}),
        false => json!({"name": name, "args": args}),
    }
}

const HOOKS: [&str; 8] = [
    "before_agent",
    "after_agent",
    "before_model",
    "after_model",
    "on_model_error",
    "before_tool",
    "after_tool",
    "on_tool_error",
];

fn hooks(random: &mut Random) -> Value {
    let plans = HOOKS.map(|hook| (hook.to_owned(), plan(random, hook)));
    Value::Object(plans.into_iter().collect())
}

/// Returns a callback's steps, one per call.
fn plan(random: &mut Random, hook: &str) -> Value {
    // Error callbacks run rarely, so they act more often.
    let busy = match hook {
        "on_model_error" | "on_tool_error" => 60,
        "before_tool" => 40,
        _ => 20,
    };
    let steps = (0..6).map(|_| match random.chance(busy) {
        true => step(random, hook),
        false => Value::Null,
    });
    steps.collect()
}

fn step(random: &mut Random, hook: &str) -> Value {
    let mut step = json!({"write": writes(random)});
    if random.chance(40) {
        step["change"] = json!(true);
    }
    if random.chance(5) {
        step["fail"] = json!(true);
    } else if random.chance(40) {
        step["answer"] = match hook {
            "before_agent" | "after_agent" => json!("From a callback."),
            "before_tool" | "after_tool" | "on_tool_error" => {
                random.pick(&[json!({"by": "callback"}), json!({})])
            }
            // A partial response that turns into a call would share its actions too.
            _ if hook != "after_model" && random.chance(25) => call_response(random),
            _ => text_response(random),
        };
    }
    step
}

/// Reads a map in a script; null is an empty map.
pub(crate) fn map(value: &Json) -> JsonMap {
    value.as_object().cloned().unwrap_or_default()
}
