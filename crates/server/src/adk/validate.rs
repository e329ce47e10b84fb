//! Validates a value against ADK's table as pydantic does, with pydantic's error messages.
//!
//! Accepts field names in camelCase and snake_case, and converts values as pydantic does (`"yes"`
//! to true), so that every body that ADK accepts is valid.

use retain_core::{
    Json, JsonMap, Number,
    adk::{ObjectSchema, Presence, UnknownFields, ValueType},
};

/// Maximum number of problems of one value. Pydantic reports all of them, so that a small body with
/// many wrong elements gets a large response.
const PROBLEMS_MAX: usize = 50;

/// Approximate maximum size of a rejected value in a problem, in bytes of JSON.
const INPUT_MAX: usize = 4096;

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
    /// Creates a checker of the value at `root`, e.g. `body`.
    pub(super) fn new(root: &str) -> Checker {
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

    /// Whether the maximum number of problems is reached, so that checking the rest is useless.
    fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    fn reject(&mut self, kind: &'static str, message: &str, input: &Json) {
        self.reject_with(kind, message, input, None);
    }

    fn reject_with(
        &mut self,
        kind: &'static str,
        message: &str,
        input: &Json,
        context: Option<JsonMap>,
    ) {
        if self.is_full() {
            return;
        }
        self.problems.push(Problem {
            kind,
            loc: self.loc.iter().map(shorten).collect(),
            message: message.to_owned(),
            input: shorten(input),
            context,
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
        let mut checked = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if self.is_full() {
                break;
            }
            checked.push(self.at_step(at.into(), |this| this.value(expected, item)));
        }
        checked.into()
    }

    fn map(&mut self, expected: &ValueType, map: &JsonMap) -> JsonMap {
        let mut checked = JsonMap::new();
        for (key, value) in map.iter() {
            if self.is_full() {
                break;
            }
            let value = self.at_step(key.into(), |this| this.value(expected, value));
            checked.insert(key, value);
        }
        checked
    }

    /// Checks a union in pydantic's smart mode: takes the member that needs no conversion, or else
    /// the first that accepts the value. If none does, reports the errors of all members.
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
            self.problems.truncate(PROBLEMS_MAX);
            Json::Null
        })
    }

    fn object(&mut self, object: &ObjectSchema, map: &JsonMap) -> JsonMap {
        let mut checked = JsonMap::new();
        for field in object.fields {
            let names = [field.camel, field.snake];
            let Some(name) = names.into_iter().find(|name| map.contains_key(name)) else {
                if field.presence == Presence::Required && !self.is_full() {
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
            if self.is_full() {
                break;
            }
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
                let error = "it has an invalid character or wrong padding";
                let message = format!("Data should be valid base64: {error}");
                let context = [("encoding", "base64"), ("encoding_error", error)];
                self.reject_with(
                    "bytes_invalid_encoding",
                    &message,
                    value,
                    Some(context.into()),
                );
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
        let message = format!("Input should be {expected}");
        self.reject_with(kind, &message, value, Some([("expected", expected)].into()));
    }
}

/// Returns the value itself if it is small, or else its beginning or its number of elements.
pub(super) fn shorten(input: &Json) -> Json {
    if fits(input, &mut { INPUT_MAX }) {
        return input.clone();
    }
    match input {
        Json::String(text) => {
            let beginning: String = text.chars().take(200).collect();
            format!("{beginning}…").into()
        }
        Json::Array(items) => format!("a list of {} elements", items.len()).into(),
        Json::Object(map) => format!("an object of {} fields", map.len()).into(),
        Json::Number(_) => "a long number".into(),
        Json::Null | Json::Bool(_) => input.clone(),
    }
}

/// Subtracts the size of the value from `budget`; returns false as soon as the budget is exceeded.
fn fits(value: &Json, budget: &mut usize) -> bool {
    let own = match value {
        Json::String(text) => text.len(),
        Json::Number(number) => Json::from(number.clone()).to_string().len(),
        _ => 0,
    };
    let Some(rest) = budget.checked_sub(own + 1) else {
        return false;
    };
    *budget = rest;
    match value {
        Json::Array(items) => items.iter().all(|item| fits(item, budget)),
        Json::Object(map) => map.iter().all(|(key, value)| {
            let rest = budget.checked_sub(key.len());
            *budget = rest.unwrap_or_default();
            rest.is_some() && fits(value, budget)
        }),
        _ => true,
    }
}

/// Returns pydantic's name of a type, for the path of an error.
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

/// Reads a boolean as pydantic does.
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

/// Reads an integer as pydantic does: spaces around it, a sign, `_` between digits and `.0` are
/// allowed.
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

/// Returns the number if it is an integer; `2.0` counts as `2`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_fifty_problems_are_reported_with_short_inputs() {
        let expected = ValueType::List(&ValueType::Text);
        let long = Json::from(vec![Json::from("x".repeat(1000)); 1000]);
        let mut items = vec![Json::from(1); 100_000];
        items[0] = long;
        let problems = Checker::new("body").check(&expected, &items.into());
        let problems = problems.unwrap_err();
        assert_eq!(problems.len(), PROBLEMS_MAX);
        assert_eq!(problems[0].input, Json::from("a list of 1000 elements"));
        assert_eq!(problems[1].input, Json::from(1));
    }

    #[test]
    fn shorten_keeps_small_values_and_the_beginning_of_long_texts() {
        let small = Json::parse(r#"{"a":[1,"two",null]}"#).unwrap();
        assert_eq!(shorten(&small), small);
        let text = "ü".repeat(INPUT_MAX);
        let Json::String(short) = shorten(&text.into()) else {
            panic!("a text stays a text");
        };
        assert_eq!(short.chars().count(), 201);
        let many = vec![Json::Null; 2 * INPUT_MAX];
        assert_eq!(shorten(&many.into()), Json::from("a list of 8192 elements"));
    }
}
