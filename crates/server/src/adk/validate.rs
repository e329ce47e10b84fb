//! Checks a body against a table of fields as pydantic does, and says what is wrong in its words.
//!
//! Both spellings of a name are taken. What pydantic takes for something else (`"yes"` for true) is
//! taken here too, so that a body that ADK accepts is accepted.

use retain_core::{Json, JsonMap, Number};

/// One thing that is wrong with a body or a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// Pydantic's name for it.
    pub(super) kind: &'static str,
    /// Where: `body`, then names and places in lists.
    pub(super) loc: Vec<Json>,
    pub(super) message: String,
    /// What was found.
    pub(super) input: Json,
    /// What the message is made of, where pydantic tells it.
    pub(super) context: Option<JsonMap>,
}

impl Problem {
    pub(super) fn into_json(self) -> Json {
        let mut object = JsonMap::new();
        object.insert("type", self.kind);
        object.insert("loc", self.loc);
        object.insert("msg", self.message);
        object.insert("input", self.input);
        if let Some(context) = self.context {
            object.insert("ctx", context);
        }
        object.into()
    }
}

/// An object with known fields.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) fields: &'static [Field],
    /// Whether other fields are refused, and not just overlooked.
    pub(super) is_closed: bool,
}

/// A field of a [`Model`].
#[derive(Debug)]
pub(super) struct Field {
    pub(super) camel: &'static str,
    pub(super) snake: &'static str,
    pub(super) kind: Kind,
    pub(super) needed: Needed,
}

/// Whether a field must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// It must.
    Yes,
    /// It may be missing, and if it is there it is not null.
    No,
    /// It may be missing or null.
    Nullable,
}

/// What a value must be.
#[derive(Debug)]
pub(super) enum Kind {
    Any,
    Text,
    Bool,
    Integer,
    Float,
    /// Base64, in either alphabet.
    Bytes,
    /// One of these words; ADK takes others too, for they may be of a newer version.
    Word(&'static [&'static str]),
    /// A map with any values.
    Map,
    List(&'static Kind),
    /// A list of texts whose order says nothing.
    Set,
    Model(&'static Model),
    /// Either this word or any text: a union that tells both ways in which a value is wrong.
    WordOrText(&'static str, &'static [&'static str]),
}

/// Checks values and collects what is wrong with them.
#[derive(Debug, Default)]
pub(super) struct Checker {
    problems: Vec<Problem>,
    loc: Vec<Json>,
    /// Whether closed models take unknown fields nevertheless, and keep them.
    pub(super) keeps_unknown: bool,
}

impl Checker {
    /// Checks what stands at this place, e.g. `body`.
    pub(super) fn at(place: &str) -> Checker {
        Checker {
            loc: vec![place.into()],
            ..Checker::default()
        }
    }

    /// Goes down to a name.
    pub(super) fn enter(&mut self, name: &str) {
        self.loc.push(name.into());
    }

    /// The value as checked, or everything that is wrong with it.
    pub(super) fn check(mut self, kind: &Kind, value: &Json) -> Result<Json, Vec<Problem>> {
        let value = self.value(kind, value);
        match self.problems.is_empty() {
            true => Ok(value),
            false => Err(self.problems),
        }
    }

    fn wrong(&mut self, kind: &'static str, message: &str, input: &Json) {
        self.problems.push(Problem {
            kind,
            loc: self.loc.clone(),
            message: message.to_owned(),
            input: input.clone(),
            context: None,
        });
    }

    fn inside<T>(&mut self, place: Json, check: impl FnOnce(&mut Checker) -> T) -> T {
        self.loc.push(place);
        let checked = check(self);
        self.loc.pop();
        checked
    }

    fn value(&mut self, kind: &Kind, value: &Json) -> Json {
        match (kind, value) {
            (Kind::Any, _)
            | (Kind::Text | Kind::Word(_) | Kind::WordOrText(..), Json::String(_))
            | (Kind::Map, Json::Object(_))
            | (Kind::Bool, Json::Bool(_)) => return value.clone(),
            (Kind::Text, _) => self.wrong("string_type", "Input should be a valid string", value),
            (Kind::Map, _) => self.wrong("dict_type", "Input should be a valid dictionary", value),
            (Kind::Bool, _) => return self.bool(value),
            (Kind::Integer, _) => return self.integer(value),
            (Kind::Float, _) => return self.float(value),
            (Kind::Bytes, _) => return self.bytes(value),
            (Kind::Word(words), _) => self.word(words, value),
            (Kind::WordOrText(name, words), _) => {
                self.inside((*name).into(), |this| this.word(words, value));
                self.inside("str".into(), |this| drop(this.value(&Kind::Text, value)));
            }
            (Kind::List(kind), Json::Array(items)) => {
                let items = items.iter().enumerate();
                let items =
                    items.map(|(at, item)| self.inside(at.into(), |this| this.value(kind, item)));
                return items.collect::<Vec<Json>>().into();
            }
            (Kind::Set, Json::Array(_)) => return self.value(&Kind::List(&Kind::Text), value),
            (Kind::Set, _) => self.wrong("set_type", "Input should be a valid set", value),
            (Kind::List(_), _) => self.wrong("list_type", "Input should be a valid list", value),
            (Kind::Model(model), Json::Object(map)) => return self.model(model, map).into(),
            (Kind::Model(_), _) => {
                let message = "Input should be a valid dictionary or object to extract fields from";
                self.wrong("model_attributes_type", message, value);
            }
        }
        Json::Null
    }

    fn model(&mut self, model: &Model, map: &JsonMap) -> JsonMap {
        let mut checked = JsonMap::new();
        for field in model.fields {
            let found = [field.camel, field.snake];
            let found = found.into_iter().find(|name| map.contains_key(name));
            let Some(name) = found else {
                if field.needed == Needed::Yes {
                    let input = Json::from(map.clone());
                    self.inside(field.camel.into(), |this| {
                        this.wrong("missing", "Field required", &input)
                    });
                }
                continue;
            };
            let value = &map[name];
            if value.is_null() && field.needed == Needed::Nullable {
                continue;
            }
            let value = self.inside(name.into(), |this| this.value(&field.kind, value));
            checked.insert(field.camel, value);
        }
        self.unknown(model, map, &mut checked);
        checked
    }

    fn unknown(&mut self, model: &Model, map: &JsonMap, checked: &mut JsonMap) {
        let is_known = |key: &str| {
            let mut fields = model.fields.iter();
            fields.any(|field| field.camel == key || field.snake == key)
        };
        for (key, value) in map.iter().filter(|(key, _)| !is_known(key)) {
            if model.is_closed && !self.keeps_unknown {
                let message = "Extra inputs are not permitted";
                self.inside(key.into(), |this| {
                    this.wrong("extra_forbidden", message, value)
                });
            } else {
                checked.insert(key, value.clone());
            }
        }
    }

    fn bool(&mut self, value: &Json) -> Json {
        match read_bool(value) {
            Some(read) => return read.into(),
            None if may_be_bool(value) => self.wrong(
                "bool_parsing",
                "Input should be a valid boolean, unable to interpret input",
                value,
            ),
            None => self.wrong("bool_type", "Input should be a valid boolean", value),
        }
        Json::Null
    }

    fn integer(&mut self, value: &Json) -> Json {
        let message = "Input should be a valid integer";
        match value {
            Json::Bool(value) => return i64::from(*value).into(),
            Json::Number(number) => match whole(number) {
                Some(number) => return number,
                None => {
                    let message = "Input should be a valid integer, got a number with a fractional \
                                   part";
                    self.wrong("int_from_float", message, value);
                }
            },
            Json::String(text) => match read_integer(text) {
                Some(read) => return read,
                None => {
                    let message =
                        "Input should be a valid integer, unable to parse string as an integer";
                    self.wrong("int_parsing", message, value);
                }
            },
            _ => self.wrong("int_type", message, value),
        }
        Json::Null
    }

    fn float(&mut self, value: &Json) -> Json {
        match value {
            Json::Number(_) => return value.clone(),
            Json::Bool(value) => return f64::from(u8::from(*value)).into(),
            Json::String(text) => match text.trim().parse::<f64>() {
                Ok(read) if read.is_finite() => return read.into(),
                _ => {
                    let message =
                        "Input should be a valid number, unable to parse string as a number";
                    self.wrong("float_parsing", message, value);
                }
            },
            _ => self.wrong("float_type", "Input should be a valid number", value),
        }
        Json::Null
    }

    fn bytes(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) if retain_core::Bytes::from_base64(text).is_some() => {
                return value.clone();
            }
            Json::String(_) => {
                let error = "it is not base64";
                let message = format!("Data should be valid base64: {error}");
                self.wrong("bytes_invalid_encoding", &message, value);
                let context = [("encoding", "base64"), ("encoding_error", error)];
                self.explain(context.into());
            }
            _ => self.wrong("bytes_type", "Input should be a valid bytes", value),
        }
        Json::Null
    }

    fn word(&mut self, words: &[&str], value: &Json) {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let expected = match quoted.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, before)) => format!("{} or {last}", before.join(", ")),
            None => String::new(),
        };
        self.wrong("enum", &format!("Input should be {expected}"), value);
        self.explain([("expected", expected)].into());
    }

    fn explain(&mut self, context: JsonMap) {
        if let Some(problem) = self.problems.last_mut() {
            problem.context = Some(context);
        }
    }
}

/// A boolean as pydantic reads it.
pub(super) fn read_bool(value: &Json) -> Option<bool> {
    match value {
        Json::Bool(value) => Some(*value),
        Json::Number(number) => match number.as_f64() {
            Some(0.0) => Some(false),
            Some(1.0) => Some(true),
            _ => None,
        },
        Json::String(text) => match text.to_ascii_lowercase().as_str() {
            "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
            "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
            _ => None,
        },
        _ => None,
    }
}

/// Whether pydantic tries to read the value as a boolean.
fn may_be_bool(value: &Json) -> bool {
    match value {
        Json::String(_) => true,
        Json::Number(number) => whole(number).is_some_and(|number| number.as_i64().is_some()),
        _ => false,
    }
}

/// A whole number as pydantic reads it: with spaces around it, a sign, `_` between digits, `.0`.
fn read_integer(text: &str) -> Option<Json> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let groups: Vec<&str> = digits.split('_').collect();
    let is_number = |group: &&str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    let is_whole = !fraction.is_empty() && fraction.bytes().all(|b| b == b'0');
    if !is_whole || !groups.iter().all(is_number) {
        return None;
    }
    let digits = groups.concat();
    let digits = match digits.trim_start_matches('0') {
        "" => return Some(0.into()),
        digits => digits,
    };
    Json::parse(&format!("{sign}{digits}")).ok()
}

/// The number if it is a whole one, `2.0` as `2`.
fn whole(number: &Number) -> Option<Json> {
    let text = Json::from(number.clone()).to_string();
    let is_integer = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if is_integer {
        return Some(number.clone().into());
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    let fits = value.abs() < 2f64.powi(53);
    fits.then(|| Json::from(value as i64))
}
