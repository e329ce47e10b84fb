//! Instruction templates: `{key}` is replaced by a state value, `{artifact.name}` by an artifact.
//!
//! A template is parsed once and rendered for every request. Braces around anything but a name stay
//! unchanged, so that an instruction can contain JSON and code: `{"a": 1}`, `${HOME}`, `\{x}`.

use std::{borrow::Cow, collections::HashMap};

use retain_core::{
    Part, State, StateScope,
    python_text::{python_str, python_strip},
};

use crate::artifact_parts::{describe_artifact, is_media, is_textual, normalize_mime_type};

/// An instruction with placeholders.
///
/// ```
/// use retain_core::State;
/// use retain_runtime::template::Template;
/// let mut state = State::new();
/// state.set("user:name", "Ada");
/// let template = Template::parse("You help {user:name}. {hint?}Answer as {\"a\": 1}.");
/// let text = template.render(&state, None).unwrap();
/// assert_eq!(text, "You help Ada. Answer as {\"a\": 1}.");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Placeholder(Placeholder),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Placeholder {
    kind: Kind,
    /// The state key, or the artifact name.
    name: String,
    /// Whether the value may be missing.
    is_optional: bool,
    /// The placeholder as written in the template.
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    State,
    Artifact,
}

/// Why a template could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The state has no such key.
    #[error("placeholder {placeholder}: the state has no key `{key}`")]
    MissingKey {
        /// The key.
        key: String,
        /// The placeholder as written in the template.
        placeholder: String,
    },
    /// The instruction names an artifact, but there is no artifact service.
    #[error(
        "placeholder {placeholder}: no artifact service is configured; set one with \
         `artifact_service` of the runner builder"
    )]
    NoArtifactService {
        /// The artifact name.
        name: String,
        /// The placeholder as written in the template.
        placeholder: String,
    },
    /// The artifact cannot be loaded.
    #[error("cannot load artifact `{name}` for the instruction: {reason}")]
    UnreadableArtifact {
        /// The artifact name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The artifact does not exist.
    #[error(
        "placeholder {placeholder}: artifact `{name}` not found; save it before the run, or \
         write the name with `?` to make it optional"
    )]
    MissingArtifact {
        /// The artifact name.
        name: String,
        /// The placeholder as written in the template.
        placeholder: String,
    },
}

impl Template {
    /// Parses a template. Any text is valid.
    pub fn parse(text: &str) -> Template {
        let mut pieces = Vec::new();
        let mut text_from = 0;
        for (start, end) in braced_ranges(text) {
            if let Some(placeholder) = Placeholder::parse(&text[start..end]) {
                push_text(&mut pieces, &text[text_from..start]);
                pieces.push(Piece::Placeholder(placeholder));
                text_from = end;
            }
        }
        push_text(&mut pieces, &text[text_from..]);
        Template { pieces }
    }

    /// Returns the names of the artifacts that rendering needs, in order.
    pub fn artifact_names(&self) -> impl Iterator<Item = &str> {
        let placeholders = self.placeholders();
        let artifacts = placeholders.filter(|placeholder| placeholder.kind == Kind::Artifact);
        artifacts.map(|placeholder| placeholder.name.as_str())
    }

    /// Renders the template. A value of `null` becomes an empty text.
    ///
    /// `artifacts` holds those of [`artifact_names`](Self::artifact_names) that exist; `None` if
    /// there is no artifact service.
    pub fn render(
        &self,
        state: &State,
        artifacts: Option<&HashMap<String, Part>>,
    ) -> Result<String, TemplateError> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Placeholder(it) if it.kind == Kind::State => {
                    out += &it.state_value(state)?
                }
                Piece::Placeholder(it) => out += &it.artifact_value(artifacts)?,
            }
        }
        Ok(out)
    }

    fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder(placeholder) => Some(placeholder),
            Piece::Text(_) => None,
        })
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Returns the byte ranges in braces, from the first of consecutive opening braces to the last of
/// consecutive closing ones. Skips braces after a `$` or a backslash.
fn braced_ranges(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let run_end = |from: usize, brace: u8| {
        let run = bytes[from..].iter().take_while(|byte| **byte == brace);
        from + run.count()
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find('{') {
        let start = at + next;
        let name = run_end(start, b'{');
        at = name;
        if start > 0 && matches!(bytes[start - 1], b'$' | b'\\') {
            continue;
        }
        let Some(length) = text[name..].find(['{', '}']) else {
            break;
        };
        at = run_end(name + length, b'}');
        if at > name + length {
            ranges.push((start, at));
        }
    }
    ranges
}

impl Placeholder {
    /// Parses a placeholder; `None` if the braces do not contain a name.
    fn parse(text: &str) -> Option<Placeholder> {
        let inner = text.trim_start_matches('{').trim_end_matches('}');
        let inner = python_strip(inner);
        let (name, is_optional) = match inner.strip_suffix('?') {
            Some(name) => (name, true),
            None => (inner, false),
        };
        let (kind, name) = match name.strip_prefix("artifact.") {
            Some(name) => (Kind::Artifact, name),
            None if is_state_name(name) => (Kind::State, name),
            None => return None,
        };
        Some(Placeholder {
            kind,
            name: name.to_owned(),
            is_optional,
            text: text.to_owned(),
        })
    }

    fn state_value(&self, state: &State) -> Result<String, TemplateError> {
        match state.get(&self.name) {
            Some(value) if value.is_null() => Ok(String::new()),
            Some(value) => Ok(python_str(value)),
            None if self.is_optional => Ok(String::new()),
            None => Err(TemplateError::MissingKey {
                key: self.name.clone(),
                placeholder: self.text.clone(),
            }),
        }
    }

    fn artifact_value(
        &self,
        artifacts: Option<&HashMap<String, Part>>,
    ) -> Result<String, TemplateError> {
        let (name, placeholder) = (self.name.clone(), self.text.clone());
        let Some(artifacts) = artifacts else {
            return Err(TemplateError::NoArtifactService { name, placeholder });
        };
        match artifacts.get(&self.name) {
            Some(part) => Ok(artifact_text(part, &self.name).into_owned()),
            None if self.is_optional => Ok(String::new()),
            None => Err(TemplateError::MissingArtifact { name, placeholder }),
        }
    }
}

/// Whether the name is a Python identifier, alone or after `app:`, `user:` or `temp:`.
fn is_state_name(name: &str) -> bool {
    match name.split_once(':') {
        None => is_identifier(name),
        Some((_, identifier)) => {
            StateScope::of(name) != StateScope::Session && is_identifier(identifier)
        }
    }
}

/// Whether Python's `str.isidentifier` accepts the name.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let starts = |c: char| c == '_' || unicode_ident::is_xid_start(c);
    chars.next().is_some_and(starts) && chars.all(unicode_ident::is_xid_continue)
}

/// Returns an artifact as text: its text, or a line that describes it.
///
/// ADK prints some artifacts as Python objects with all their bytes; Retain describes those
/// instead.
pub fn artifact_text<'a>(part: &'a Part, name: &str) -> Cow<'a, str> {
    let blob = part.inline_data.as_ref();
    let mime_type = blob.and_then(|blob| blob.mime_type.as_deref());
    let mime_type = mime_type.map(normalize_mime_type).unwrap_or_default();
    if let Some(text) = &part.text
        && (blob.is_none() || is_media(&mime_type))
    {
        return text.into();
    }
    let data = blob.and_then(|blob| blob.data.as_ref());
    if let Some(data) = data
        && !is_media(&mime_type)
        && is_textual(&mime_type, name)
    {
        return String::from_utf8_lossy(data);
    }
    let file_type = part.file_data.as_ref();
    let file_type = file_type.and_then(|file| file.mime_type.as_deref());
    let mime_type = match (mime_type.is_empty(), file_type) {
        (true, Some(file_type)) => normalize_mime_type(file_type),
        (true, None) => "application/octet-stream".to_owned(),
        (false, _) => mime_type,
    };
    describe_artifact(name, &mime_type, data.map(|data| &data[..])).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use retain_core::Json;

    fn render(template: &str) -> Result<String, TemplateError> {
        let mut state = State::new();
        for (key, value) in [
            ("a", "1"),
            ("app:b", "[1.0, null]"),
            ("n", "null"),
            ("größe", "2"),
        ] {
            state.set(key, Json::parse(value).unwrap());
        }
        Template::parse(template).render(&state, None)
    }

    #[test]
    fn placeholders_are_replaced_and_other_text_is_unchanged() {
        for (template, text) in [
            ("{a}{{a}}{ a }{\n{a}", "111{\n1"),
            ("{app:b} {n}. {größe}", "[1.0, None] . 2"),
            ("{x?}|{ x? }|{a?}", "||1"),
            ("${a} \\{a} $ {a}", "${a} \\{a} $ 1"),
            ("${{a}} {}{a{a}a}", "${{a}} {}{a1a}"),
            (
                "{a b} {1a} {\"a\": 1} {x ?} {foo:a} {app:a:b} {app:}",
                "{a b} {1a} {\"a\": 1} {x ?} {foo:a} {app:a:b} {app:}",
            ),
            ("{{{a}", "1"),
            ("{a}}}", "1"),
            ("{a", "{a"),
            ("a}", "a}"),
        ] {
            assert_eq!(render(template).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn error_quotes_the_placeholder_of_a_missing_value() {
        let error = render("Hi {{ user:x }}").unwrap_err();
        let expected = TemplateError::MissingKey {
            key: "user:x".into(),
            placeholder: "{{ user:x }}".into(),
        };
        assert_eq!(error, expected);
        let error = render("{artifact.a.txt?}").unwrap_err();
        assert!(matches!(error, TemplateError::NoArtifactService { name, .. } if name == "a.txt"));
    }

    #[test]
    fn artifact_placeholder_becomes_its_text_or_a_description() {
        let template = Template::parse("{artifact.a.bin} {artifact.b.txt} {artifact.c?}.");
        assert_eq!(
            template.artifact_names().collect::<Vec<_>>(),
            ["a.bin", "b.txt", "c"]
        );
        let mut artifacts = HashMap::from([
            ("a.bin".to_owned(), Part::bytes(vec![0; 1024], "image/png")),
            ("b.txt".to_owned(), Part::bytes(b"x\xff".to_vec(), "")),
        ]);
        let line = "[Binary artifact: a.bin, type: image/png, size: 1.0 KB. \
                    Content cannot be displayed inline.] x\u{fffd} .";
        let rendered = template.render(&State::new(), Some(&artifacts));
        assert_eq!(rendered.as_deref(), Ok(line));
        artifacts.remove("b.txt");
        let error = template
            .render(&State::new(), Some(&artifacts))
            .unwrap_err();
        assert!(matches!(error, TemplateError::MissingArtifact { name, .. } if name == "b.txt"));
    }
}
