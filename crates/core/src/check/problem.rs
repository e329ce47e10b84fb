//! One problem in stored data: where it is, what it is, and what to do.

use std::fmt;

use crate::{
    artifacts::ArtifactAddress, memory::MemoryScope, session::SessionKey,
    transfer_store::StateOwner,
};

/// Maximum number of problems that a check reports, so that a destroyed database cannot exhaust the
/// memory of the check.
const PROBLEMS_MAX: usize = 10_000;

/// A problem that a check has found. Its text contains no stored content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The record with the problem.
    pub location: Location,
    /// What is wrong with it.
    pub damage: Damage,
    /// Whether a repair can rebuild the record.
    pub is_repairable: bool,
}

/// The record that has a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// The database as a whole.
    Database,
    /// A table, column, index, constraint or trigger.
    Schema {
        /// Its kind and name.
        object: String,
    },
    /// A session.
    Session {
        /// The session.
        key: SessionKey,
    },
    /// An event; position 0 is the initial state.
    Event {
        /// The session.
        key: SessionKey,
        /// The position.
        position: u64,
    },
    /// A state key of a session.
    StateKey {
        /// The session.
        key: SessionKey,
        /// The state key.
        name: String,
    },
    /// State that sessions share.
    SharedState {
        /// The owner of the state.
        owner: StateOwner,
        /// The state key, if only one has the problem.
        name: Option<String>,
    },
    /// A log that is not a session's.
    Log {
        /// Its number.
        number: i64,
    },
    /// The memories of a user.
    Memories {
        /// The app and user.
        scope: MemoryScope,
    },
    /// A memory.
    Memory {
        /// The app and user.
        scope: MemoryScope,
        /// Its number.
        seq: u64,
        /// Its id; empty if it is unreadable.
        id: String,
    },
    /// The memories of a scope that does not exist.
    MemoryRows {
        /// The number of the scope.
        scope: i64,
    },
    /// An artifact, or one of its versions.
    Artifact {
        /// The artifact.
        address: Box<ArtifactAddress>,
        /// The version, if only one has the problem.
        version: Option<u64>,
    },
    /// An API key.
    ApiKey {
        /// Its id.
        id: String,
    },
    /// A row whose address is unreadable.
    Row {
        /// The table and the number of the row.
        row: String,
    },
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The database itself reports damage.
    Storage {
        /// Its message.
        message: String,
    },
    /// The record cannot be decoded.
    Unreadable {
        /// The reason.
        cause: String,
    },
    /// A part of the record is missing.
    Missing {
        /// The missing part.
        what: String,
    },
    /// A value differs from the one that the log or the rows give.
    Differs {
        /// The value.
        what: String,
        /// The stored value and the derived one, if they contain no content.
        values: Option<(String, String)>,
    },
    /// The record refers to something that does not exist.
    Orphaned {
        /// What does not exist.
        missing: String,
    },
    /// The schema differs from the one that the migrations create.
    Schema {
        /// The difference.
        what: String,
        /// What an operator can do.
        advice: String,
    },
}

impl Problem {
    /// Creates a problem.
    pub fn new(location: Location, damage: Damage, is_repairable: bool) -> Problem {
        Problem {
            location,
            damage,
            is_repairable,
        }
    }

    /// Creates a problem that a repair can solve.
    pub fn repairable(location: Location, damage: Damage) -> Problem {
        Problem::new(location, damage, true)
    }

    /// Creates a problem that only a backup can solve.
    pub fn permanent(location: Location, damage: Damage) -> Problem {
        Problem::new(location, damage, false)
    }

    /// Creates the problem of a record that cannot be decoded.
    pub fn unreadable(location: Location, cause: impl fmt::Display) -> Problem {
        let cause = cause.to_string();
        Problem::permanent(location, Damage::Unreadable { cause })
    }

    /// What to do about the problem.
    pub fn advice(&self) -> &str {
        match (&self.damage, self.is_repairable) {
            (_, true) => "run `retain check --repair`",
            (Damage::Schema { advice, .. }, false) => advice,
            (_, false) => "restore it from a backup",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem {
            location, damage, ..
        } = self;
        write!(f, "{location}: {damage}; {}", self.advice())
    }
}

impl Location {
    /// Names a session, or one of its events.
    pub fn of_event(key: &SessionKey, position: u64) -> Location {
        Location::Event {
            key: key.clone(),
            position,
        }
    }

    /// The session that the record belongs to, if it belongs to one.
    pub fn session(&self) -> Option<&SessionKey> {
        match self {
            Location::Session { key }
            | Location::Event { key, .. }
            | Location::StateKey { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The names of the record's parts with their values, for JSON.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let session = |key: &SessionKey| {
            vec![
                ("app", key.app.clone()),
                ("user", key.user.clone()),
                ("session", key.id.clone()),
            ]
        };
        let scope =
            |scope: &MemoryScope| vec![("app", scope.app.clone()), ("user", scope.user.clone())];
        match self {
            Location::Database => Vec::new(),
            Location::Schema { object } => vec![("object", object.clone())],
            Location::Session { key } => session(key),
            Location::Event { key, position } => {
                [session(key), vec![("position", position.to_string())]].concat()
            }
            Location::StateKey { key, name } => {
                [session(key), vec![("stateKey", name.clone())]].concat()
            }
            Location::SharedState { owner, name } => {
                let user = owner.user.clone().map(|user| ("user", user));
                let name = name.clone().map(|name| ("stateKey", name));
                let app = [("app", owner.app.clone())].into_iter();
                app.chain(user).chain(name).collect()
            }
            Location::Log { number } => vec![("log", number.to_string())],
            Location::Memories { scope: owner } => scope(owner),
            Location::Memory {
                scope: owner, id, ..
            } => [scope(owner), vec![("memory", id.clone())]].concat(),
            Location::MemoryRows { scope } => vec![("scope", scope.to_string())],
            Location::Artifact { address, version } => {
                let session = address.session.clone().map(|id| ("session", id));
                let version = version.map(|version| ("version", version.to_string()));
                let owner = vec![("app", address.app.clone()), ("user", address.user.clone())];
                let name = ("artifact", address.name.clone());
                let parts = owner.into_iter().chain(session);
                parts.chain([name]).chain(version).collect()
            }
            Location::ApiKey { id } => vec![("apiKey", id.clone())],
            Location::Row { row } => vec![("row", row.clone())],
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Database => f.write_str("database"),
            Location::Schema { object } => write!(f, "schema, {object}"),
            Location::Session { key } => write!(f, "session {key}"),
            Location::Event { key, position: 0 } => write!(f, "initial state of session {key}"),
            Location::Event { key, position } => write!(f, "event {position} of session {key}"),
            Location::StateKey { key, name } => write!(f, "state key {name:?} of session {key}"),
            Location::SharedState { owner, name: None } => write!(f, "state of {owner}"),
            Location::SharedState {
                owner,
                name: Some(name),
            } => write!(f, "state key {name:?} of {owner}"),
            Location::Log { number } => write!(f, "log {number}"),
            Location::Memories { scope } => write!(f, "memories of {scope}"),
            Location::Memory { scope, seq, id } => {
                write!(f, "memory {id:?} (number {seq}) of {scope}")
            }
            Location::MemoryRows { scope } => write!(f, "memories of scope {scope}"),
            Location::Artifact { address, version } => {
                if let Some(version) = version {
                    write!(f, "version {version} of ")?;
                }
                let ArtifactAddress {
                    app, user, name, ..
                } = &**address;
                match &address.session {
                    Some(id) => {
                        let key = SessionKey::new(app, user, id);
                        write!(f, "artifact {name:?} of session {key}")
                    }
                    None => write!(f, "artifact {name:?} of user {user:?} of app {app:?}"),
                }
            }
            Location::ApiKey { id } => write!(f, "API key {id:?}"),
            Location::Row { row } => f.write_str(row),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Storage { message } => write!(f, "the database reports {message:?}"),
            Damage::Unreadable { cause } => write!(f, "cannot be read: {cause}"),
            Damage::Missing { what } => write!(f, "{what} is missing"),
            Damage::Differs { what, values } => match values {
                Some((stored, derived)) => {
                    write!(f, "{what} is {stored}, but its data gives {derived}")
                }
                None => write!(f, "{what} differs from its data"),
            },
            Damage::Orphaned { missing } => write!(f, "is orphaned: {missing} does not exist"),
            Damage::Schema { what, .. } => f.write_str(what),
        }
    }
}

/// A list of problems with a maximum length.
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    /// Adds a problem, unless the list is full.
    pub fn push(&mut self, problem: Problem) {
        if self.list.len() < PROBLEMS_MAX {
            self.list.push(problem);
        }
    }

    /// Adds problems.
    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Whether no problem was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the problems. The last one says so if the list is full.
    pub fn into_vec(mut self) -> Vec<Problem> {
        if self.list.len() == PROBLEMS_MAX {
            let message = "more problems than fit on this list".to_owned();
            let damage = Damage::Storage { message };
            self.list
                .push(Problem::permanent(Location::Database, damage));
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_names_its_location_and_what_to_do() {
        let key = SessionKey::new("app", "ada", "s1");
        let damage = Damage::Differs {
            what: "the size of the state".to_owned(),
            values: Some(("7".to_owned(), "9".to_owned())),
        };
        let problem = Problem::repairable(Location::Session { key: key.clone() }, damage);
        assert_eq!(
            problem.to_string(),
            "session \"app\"/\"ada\"/\"s1\": the size of the state is 7, but its data gives 9; run \
             `retain check --repair`"
        );
        let cause = "it is not JSON".to_owned();
        let problem = Problem::permanent(Location::of_event(&key, 3), Damage::Unreadable { cause });
        assert_eq!(
            problem.to_string(),
            "event 3 of session \"app\"/\"ada\"/\"s1\": cannot be read: it is not JSON; restore it \
             from a backup"
        );
        let fields = problem.location.fields();
        assert_eq!(
            fields[2..],
            [("session", "s1".to_owned()), ("position", "3".to_owned())]
        );
    }

    #[test]
    fn list_of_problems_is_limited_and_says_so() {
        let damage = || Damage::Missing {
            what: "it".to_owned(),
        };
        let mut problems = Problems::default();
        problems.extend((0..20_000).map(|_| Problem::permanent(Location::Database, damage())));
        let problems = problems.into_vec();
        assert_eq!(problems.len(), PROBLEMS_MAX + 1);
        assert!(problems[PROBLEMS_MAX].to_string().contains("more problems"));
    }
}
