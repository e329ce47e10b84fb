//! Validates a value against ADK's table as pydantic does, with pydantic's error messages.
//!
//! Accepts field names in camelCase and snake_case, and converts values as pydantic does (`"yes"`
//! to true), so that every body that ADK accepts is valid.

use retain_core::{
    Json, JsonMap, Number,
    adk::{ObjectSchema, Presence, UnknownFields, ValueType},
};

/// One validation error of a body or a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// Pydantic's error type.
    pub(super) kind: &'static str,
    /// The path to the value: `body`, then field names and list indexes.
    pub(super) loc: Vec<Json>,
    pub(super) message: String,
    /// The rejected value.
    pub(super) input: Json,
    /// Pydantic's `ctx`: the values that the message mentions.
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

/// Validates a value and collects all errors.
#[derive(Debug, Default)]
pub(super) struct Checker {
    problems: Vec<Problem>,
    loc: Vec<Json>,
    /// Whether to keep unknown fields in objects where ADK rejects them.
    pub(super) keeps_unknown: bool,
}

impl Checker {
    /// A checker of the value at `root`, e.g. `body`.
    pub(super) fn at(root: &str) -> Checker {
        Checker {
            loc: vec![root.into()],
            ..Checker::default()
        }
    }

    /// Adds a name to the path of the checked value.
    pub(super) fn enter(&mut self, name: &str) {
        self.loc.push(name.into());
    }

    /// Returns the converted value, or all of its errors.
    pub(super) fn check(
        mut self,
        expected: &ValueType,
        value: &Json,
    ) -> Result<Json, Vec<Problem>> {
        let value = self.value(expected, value);
        if self.problems.is_empty() {
            Ok(value)
        } else {
            Err(self.problems)
        }
    }

    fn reject(&mut self, kind: &'static str, message: &str, input: &Json) {
        self.problems.push(Problem {
            kind,
            loc: self.loc.clone(),
            message: message.to_owned(),
            input: input.clone(),
            context: None,
        });
    }

    fn at_step<T>(&mut self, step: Json, check: impl FnOnce(&mut Checker) -> T) -> T {
        self.loc.push(step);
        let checked = check(self);
        self.loc.pop();
        checked
    }

    fn value(&mut self, expected: &ValueType, value: &Json) -> Json {
        match (expected, value) {
            (ValueType::Any, _)
            | (ValueType::Text | ValueType::Enum(_), Json::String(_))
            | (ValueType::Dict, Json::Object(_))
            | (ValueType::Bool, Json::Bool(_)) => return value.clone(),
            (ValueType::Literal(values), Json::String(text)) if values.contains(&&**text) => {
                return value.clone();
            }
            (ValueType::Text, _) => {
                self.reject("string_type", "Input should be a valid string", value);
            }
            (ValueType::Bool, _) => return self.bool(value),
            (ValueType::Int, _) => return self.integer(value),
            (ValueType::Float, _) => return self.float(value),
            (ValueType::Bytes, _) => return self.bytes(value),
            (ValueType::Enum(known), _) => self.reject_choice("enum", known.values, value),
            (ValueType::Literal(values), _) => self.reject_choice("literal_error", values, value),
            (ValueType::Map(inner), Json::Object(map)) => return self.map(inner, map).into(),
            (ValueType::Dict | ValueType::Map(_), _) => {
                self.reject("dict_type", "Input should be a valid dictionary", value);
            }
            (ValueType::List(inner), Json::Array(items)) => return self.list(inner, items),
            (ValueType::TextSet, Json::Array(items)) => return self.list(&ValueType::Text, items),
            (ValueType::TextSet, _) => {
                self.reject("set_type", "Input should be a valid set", value);
            }
            (ValueType::List(_), _) => {
                self.reject("list_type", "Input should be a valid list", value);
            }
            (ValueType::Object(object), Json::Object(map)) => {
                return self.object(object, map).into();
            }
            (ValueType::Object(_), _) => {
                let message = "Input should be a valid dictionary or object to extract fields from";
                self.reject("model_attributes_type", message, value);
            }
            (ValueType::Union(members), _) => return self.union(members, value),
            (ValueType::Declared(declared, _), _) => return self.value(declared, value),
        }
        Json::Null
    }

    fn list(&mut self, expected: &ValueType, items: &[Json]) -> Json {
        let items = items.iter().enumerate();
        let items =
            items.map(|(at, item)| self.at_step(at.into(), |this| this.value(expected, item)));
        items.collect::<Vec<Json>>().into()
    }

    fn map(&mut self, expected: &ValueType, map: &JsonMap) -> JsonMap {
        let pairs = map.iter().map(|(key, value)| {
            let value = self.at_step(key.into(), |this| this.value(expected, value));
            (key, value)
        });
        pairs.collect()
    }

    /// Pydantic's smart mode: the member that needs no conversion, or else the first that accepts the
    /// value. If none does, the errors of all members are reported.
    fn union(&mut self, members: &[ValueType], value: &Json) -> Json {
        let (mut converted, mut problems) = (None, Vec::new());
        for member in members {
            let mut checker = Checker {
                problems: Vec::new(),
                loc: self.loc.clone(),
                keeps_unknown: self.keeps_unknown,
            };
            checker.enter(&python_name(member));
            match checker.check(member, value) {
                Ok(checked) if checked == *value => return checked,
                Ok(checked) => drop(converted.get_or_insert(checked)),
                Err(more) => problems.extend(more),
            }
        }
        converted.unwrap_or_else(|| {
            self.problems.extend(problems);
            Json::Null
        })
    }

    fn object(&mut self, object: &ObjectSchema, map: &JsonMap) -> JsonMap {
        let mut checked = JsonMap::new();
        for field in object.fields {
            let names = [field.camel, field.snake];
            let Some(name) = names.into_iter().find(|name| map.contains_key(name)) else {
                if field.presence == Presence::Required {
                    let input = Json::from(map.clone());
                    self.at_step(field.camel.into(), |this| {
                        this.reject("missing", "Field required", &input)
                    });
                }
                continue;
            };
            let value = &map[name];
            if value.is_null() && field.presence == Presence::Nullable {
                continue;
            }
            let value = self.at_step(name.into(), |this| this.value(&field.value, value));
            checked.insert(field.camel, value);
        }
        self.unknown_fields(object, map, &mut checked);
        checked
    }

    fn unknown_fields(&mut self, object: &ObjectSchema, map: &JsonMap, checked: &mut JsonMap) {
        let is_rejected = object.unknown == UnknownFields::Reject && !self.keeps_unknown;
        for (key, value) in map.iter().filter(|(key, _)| object.field(key).is_none()) {
            if is_rejected {
                let message = "Extra inputs are not permitted";
                self.at_step(key.into(), |this| {
                    this.reject("extra_forbidden", message, value)
                });
            } else {
                checked.insert(key, value.clone());
            }
        }
    }

    fn bool(&mut self, value: &Json) -> Json {
        match read_bool(value) {
            Some(read) => return read.into(),
            None if may_be_bool(value) => self.reject(
                "bool_parsing",
                "Input should be a valid boolean, unable to interpret input",
                value,
            ),
            None => self.reject("bool_type", "Input should be a valid boolean", value),
        }
        Json::Null
    }

    fn integer(&mut self, value: &Json) -> Json {
        let message = "Input should be a valid integer";
        match value {
            Json::Bool(value) => return i64::from(*value).into(),
            Json::Number(number) => match integral(number) {
                Some(number) => return number,
                None => {
                    let message = "Input should be a valid integer, got a number with a fractional \
                                   part";
                    self.reject("int_from_float", message, value);
                }
            },
            Json::String(text) => match read_integer(text) {
                Some(read) => return read,
                None => {
                    let message =
                        "Input should be a valid integer, unable to parse string as an integer";
                    self.reject("int_parsing", message, value);
                }
            },
            _ => self.reject("int_type", message, value),
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
                    self.reject("float_parsing", message, value);
                }
            },
            _ => self.reject("float_type", "Input should be a valid number", value),
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
                self.reject("bytes_invalid_encoding", &message, value);
                let context = [("encoding", "base64"), ("encoding_error", error)];
                self.set_context(context.into());
            }
            _ => self.reject("bytes_type", "Input should be a valid bytes", value),
        }
        Json::Null
    }

    fn reject_choice(&mut self, kind: &'static str, choices: &[&str], value: &Json) {
        let quoted: Vec<String> = choices.iter().map(|choice| format!("'{choice}'")).collect();
        let expected = match quoted.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, before)) => format!("{} or {last}", before.join(", ")),
            None => String::new(),
        };
        self.reject(kind, &format!("Input should be {expected}"), value);
        self.set_context([("expected", expected)].into());
    }

    fn set_context(&mut self, context: JsonMap) {
        if let Some(problem) = self.problems.last_mut() {
            problem.context = Some(context);
        }
    }
}

/// Pydantic's name of a type in the path of an error.
fn python_name(value: &ValueType) -> String {
    match value {
        ValueType::Any => "any".to_owned(),
        ValueType::Dict => "dict[str,any]".to_owned(),
        ValueType::Text => "str".to_owned(),
        ValueType::Bool => "bool".to_owned(),
        ValueType::Int => "int".to_owned(),
        ValueType::Float => "float".to_owned(),
        ValueType::Bytes => "bytes".to_owned(),
        ValueType::TextSet => "set[str]".to_owned(),
        ValueType::Enum(known) => format!("str-enum[{}]", known.name),
        ValueType::Literal(values) => format!("literal['{}']", values.join("','")),
        ValueType::List(inner) => format!("list[{}]", python_name(inner)),
        ValueType::Map(inner) => format!("dict[str,{}]", python_name(inner)),
        ValueType::Object(object) => object.name.to_owned(),
        ValueType::Union(members) => {
            let names: Vec<String> = members.iter().map(python_name).collect();
            format!("union[{}]", names.join(","))
        }
        ValueType::Declared(declared, _) => python_name(declared),
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
        Json::Number(number) => integral(number).is_some_and(|number| number.as_i64().is_some()),
        _ => false,
    }
}

/// An integer as pydantic reads it: spaces around it, a sign, `_` between digits and `.0` are allowed.
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

/// The number if it is an integer; `2.0` counts as `2`.
fn integral(number: &Number) -> Option<Json> {
    let text = Json::from(number.clone()).to_string();
    let is_integer = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if is_integer {
        return Some(number.clone().into());
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    let fits = value.abs() < 2f64.powi(53);
    fits.then(|| Json::from(value as i64))
}
