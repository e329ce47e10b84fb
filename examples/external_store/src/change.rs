//! Changes of the data, and their form in the journal: one line of JSON for each transaction.

use std::time::Duration;

use retain::{
    BoxError, Event, Json, Result,
    session::{Origin, SessionKey},
    state::JsonMap,
    store::{Lease, PendingWork, StateOwner, duration_us},
};

use crate::tables::{Entry, SessionLog};

/// One change. All decisions are already made, so replaying it needs no clock and no rules.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Stores a complete session. A create, a fork and an import write this change.
    Put {
        key: SessionKey,
        log: Box<SessionLog>,
    },
    /// Deletes a session.
    Delete { key: SessionKey },
    /// Appends events to a session.
    Append {
        key: SessionKey,
        entries: Vec<Entry>,
        now_us: i64,
    },
    /// Sets state keys of an app or a user, and keeps the other keys.
    SetShared { owner: StateOwner, keys: JsonMap },
    /// Stores the lease of a session.
    SetLease { key: SessionKey, lease: Lease },
    /// Stores the work that must follow the events of a session up to a position.
    SetPending {
        key: SessionKey,
        work: PendingWork,
        position: u64,
    },
    /// Stores the lease of a periodic task.
    SetTaskLease {
        task: String,
        holder: String,
        until_us: i64,
    },
    /// Adds a ticket to the queue for a lease, or extends it.
    Queue {
        key: SessionKey,
        ticket: String,
        now_us: i64,
    },
    /// Removes a ticket.
    Withdraw { key: SessionKey, ticket: String },
}

/// Returns the line of a transaction.
pub(crate) fn encode(transaction: &[Change]) -> String {
    let changes: Vec<Json> = transaction.iter().map(encode_change).collect();
    format!("{}\n", Json::from(changes))
}

/// Parses the line of a transaction.
pub(crate) fn decode(line: &str) -> Result<Vec<Change>, BoxError> {
    let line = Json::parse(line)?;
    let changes = line.as_array().ok_or("the line is not a list of changes")?;
    changes.iter().map(decode_change).collect()
}

fn encode_change(change: &Change) -> Json {
    let (kind, key, fields) = match change {
        Change::Put { key, log } => ("put", encode_key(key), vec![("log", encode_log(log))]),
        Change::Delete { key } => ("delete", encode_key(key), vec![]),
        Change::Append {
            key,
            entries,
            now_us,
        } => {
            let entries: Vec<Json> = entries.iter().map(encode_entry).collect();
            let fields = vec![("entries", entries.into()), ("now_us", (*now_us).into())];
            ("append", encode_key(key), fields)
        }
        Change::SetShared { owner, keys } => {
            let key = vec![owner.app.as_str().into(), owner.user.clone().into()];
            ("set_shared", key.into(), vec![("keys", encode_map(keys))])
        }
        Change::SetLease { key, lease } => ("set_lease", encode_key(key), encode_lease(lease)),
        Change::SetPending {
            key,
            work,
            position,
        } => {
            let fields = encode_pending((*work, *position));
            ("set_pending", encode_key(key), fields)
        }
        Change::SetTaskLease {
            task,
            holder,
            until_us,
        } => {
            let key = vec![task.as_str().into(), holder.as_str().into()];
            let fields = vec![("until_us", (*until_us).into())];
            ("set_task_lease", key.into(), fields)
        }
        Change::Queue {
            key,
            ticket,
            now_us,
        } => {
            let fields = vec![
                ("ticket", ticket.as_str().into()),
                ("now_us", (*now_us).into()),
            ];
            ("queue", encode_key(key), fields)
        }
        Change::Withdraw { key, ticket } => {
            let fields = vec![("ticket", ticket.as_str().into())];
            ("withdraw", encode_key(key), fields)
        }
    };
    let start = [("change", Json::from(kind)), ("key", key)];
    start.into_iter().chain(fields).collect::<JsonMap>().into()
}

fn decode_change(json: &Json) -> Result<Change, BoxError> {
    let kind = text(json, "change")?;
    if kind == "set_shared" {
        let owner = StateOwner {
            app: json["key"][0]
                .as_str()
                .ok_or("app is not a string")?
                .to_owned(),
            user: json["key"][1].as_str().map(str::to_owned),
        };
        let keys = decode_map(&json["keys"])?;
        return Ok(Change::SetShared { owner, keys });
    }
    if kind == "set_task_lease" {
        let part = |at: usize| json["key"][at].as_str().ok_or("a task is not a string");
        return Ok(Change::SetTaskLease {
            task: part(0)?.to_owned(),
            holder: part(1)?.to_owned(),
            until_us: signed(json, "until_us")?,
        });
    }
    let key = decode_key(&json["key"])?;
    Ok(match kind.as_str() {
        "set_pending" => {
            let (work, position) = decode_pending(json)?;
            Change::SetPending {
                key,
                work,
                position,
            }
        }
        "put" => Change::Put {
            key,
            log: Box::new(decode_log(&json["log"])?),
        },
        "delete" => Change::Delete { key },
        "append" => Change::Append {
            key,
            entries: list(json, "entries")?
                .map(decode_entry)
                .collect::<Result<_, _>>()?,
            now_us: signed(json, "now_us")?,
        },
        "set_lease" => Change::SetLease {
            key,
            lease: decode_lease(json)?,
        },
        "queue" => Change::Queue {
            key,
            ticket: text(json, "ticket")?,
            now_us: signed(json, "now_us")?,
        },
        "withdraw" => Change::Withdraw {
            key,
            ticket: text(json, "ticket")?,
        },
        other => return Err(format!("unknown change {other:?}").into()),
    })
}

fn encode_log(log: &SessionLog) -> Json {
    let origin = log.origin.as_ref().map(|origin| {
        let parts = vec![origin.session_id.as_str().into(), origin.position.into()];
        Json::from(parts)
    });
    let entries: Vec<Json> = log.entries.iter().map(encode_entry).collect();
    let fields = [
        ("incarnation", log.incarnation.into()),
        ("initial", encode_map(&log.initial)),
        ("create_time", log.create_time.into()),
        ("last_update_time", log.last_update_time.into()),
        ("ttl_us", log.ttl.map(duration_us).into()),
        ("touched_us", log.touched_us.into()),
        ("origin", origin.into()),
        ("entries", entries.into()),
    ];
    let fields = fields.into_iter().chain(encode_lease(&log.lease));
    let fields = fields.chain(encode_pending(log.pending));
    fields.collect::<JsonMap>().into()
}

fn decode_log(json: &Json) -> Result<SessionLog, BoxError> {
    let mut log = SessionLog::new(
        unsigned(json, "incarnation")?,
        decode_map(&json["initial"])?,
    );
    for entry in list(json, "entries")? {
        log.push(decode_entry(entry)?);
    }
    log.create_time = float(json, "create_time")?;
    log.last_update_time = float(json, "last_update_time")?;
    let ttl_us = json["ttl_us"].as_u64();
    log.ttl = ttl_us.map(Duration::from_micros);
    log.touched_us = signed(json, "touched_us")?;
    log.lease = decode_lease(json)?;
    log.pending = decode_pending(json)?;
    log.origin = match &json["origin"] {
        Json::Null => None,
        origin => Some(Origin {
            session_id: origin[0].as_str().ok_or("origin has no id")?.to_owned(),
            position: origin[1].as_u64().ok_or("origin has no position")?,
        }),
    };
    Ok(log)
}

fn encode_entry(entry: &Entry) -> Json {
    let keys = entry.keys.iter().map(|(key, value)| {
        let value = value.as_ref().map(Json::to_string);
        Json::from(vec![key.as_str().into(), value.into()])
    });
    let keys: Vec<Json> = keys.collect();
    let fields = [
        ("event", Json::from(entry.body.as_str())),
        ("keys", keys.into()),
    ];
    JsonMap::from(fields).into()
}

fn decode_entry(json: &Json) -> Result<Entry, BoxError> {
    let body = text(json, "event")?;
    let keys = list(json, "keys")?.map(|pair| {
        let key = pair[0].as_str().ok_or("a state key is not a string")?;
        let value = pair[1].as_str().map(Json::parse).transpose()?;
        Ok::<_, BoxError>((key.to_owned(), value))
    });
    Ok(Entry {
        keys: keys.collect::<Result<_, _>>()?,
        event: Event::shared_from_json(&body)?,
        body,
    })
}

/// Encodes each state value as a string of JSON. A value may be nested as deeply as JSON may be, so
/// inside the JSON of a line it would be nested too deeply.
fn encode_map(map: &JsonMap) -> Json {
    let texts = map
        .iter()
        .map(|(key, value)| (key, Json::from(value.to_string())));
    texts.collect::<JsonMap>().into()
}

fn decode_map(json: &Json) -> Result<JsonMap, BoxError> {
    let mut map = JsonMap::new();
    for (key, text) in json.as_object().ok_or("a state is not an object")?.iter() {
        let text = text.as_str().ok_or("a state value is not a string")?;
        map.insert(key, Json::parse(text)?);
    }
    Ok(map)
}

fn encode_key(key: &SessionKey) -> Json {
    let parts = [&key.app, &key.user, &key.id];
    let parts: Vec<Json> = parts.iter().map(|part| part.as_str().into()).collect();
    parts.into()
}

fn decode_key(json: &Json) -> Result<SessionKey, BoxError> {
    let part = |at: usize| {
        json[at]
            .as_str()
            .ok_or("a session key is not a list of three strings")
    };
    Ok(SessionKey::new(part(0)?, part(1)?, part(2)?))
}

fn encode_lease(lease: &Lease) -> Vec<(&'static str, Json)> {
    vec![
        ("token", lease.token.into()),
        ("until_us", lease.until_us.into()),
    ]
}

fn decode_lease(json: &Json) -> Result<Lease, BoxError> {
    Ok(Lease {
        token: unsigned(json, "token")?,
        until_us: signed(json, "until_us")?,
    })
}

fn encode_pending((work, position): (PendingWork, u64)) -> Vec<(&'static str, Json)> {
    vec![
        ("pending_work", u64::from(work.bits()).into()),
        ("pending_to", position.into()),
    ]
}

fn decode_pending(json: &Json) -> Result<(PendingWork, u64), BoxError> {
    let bits = u8::try_from(unsigned(json, "pending_work")?)?;
    let position = unsigned(json, "pending_to")?;
    Ok((PendingWork::from_bits(bits), position))
}

fn text(json: &Json, field: &str) -> Result<String, BoxError> {
    let found = json[field].as_str().map(str::to_owned);
    found.ok_or_else(|| format!("{field} is not a string").into())
}

fn unsigned(json: &Json, field: &str) -> Result<u64, BoxError> {
    let found = json[field].as_u64();
    found.ok_or_else(|| format!("{field} is not a non-negative integer").into())
}

fn signed(json: &Json, field: &str) -> Result<i64, BoxError> {
    let found = json[field].as_i64();
    found.ok_or_else(|| format!("{field} is not an integer").into())
}

fn float(json: &Json, field: &str) -> Result<f64, BoxError> {
    let found = json[field].as_f64();
    found.ok_or_else(|| format!("{field} is not a number").into())
}

fn list<'a>(json: &'a Json, field: &str) -> Result<std::slice::Iter<'a, Json>, BoxError> {
    let found = json[field].as_array();
    let found = found.ok_or_else(|| format!("{field} is not a list"))?;
    Ok(found.iter())
}
