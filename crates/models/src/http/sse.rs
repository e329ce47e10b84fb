//! Server-sent events out of bytes, however those are cut.
//!
//! Follows the WHATWG rules for lines, fields and comments. Two things are stricter or laxer: text
//! that is not UTF-8 is an error, so that nothing changes silently, and an event that the
//! stream ends in is given, as some servers leave out the last empty line.

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Its kind, where the server says it.
    pub(crate) event: Option<String>,
    /// Its data; several lines are joined by `\n`.
    pub(crate) data: String,
}

/// What cannot be read as events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SseError {
    /// A line is not valid UTF-8.
    NotUtf8,
    /// An event has more than [`EVENT_MAX`] bytes.
    TooLarge,
}

impl SseError {
    pub(crate) fn message(self) -> &'static str {
        match self {
            SseError::NotUtf8 => "the stream is not UTF-8",
            SseError::TooLarge => "an event of the stream is too large",
        }
    }
}

/// No event of a provider is larger: pictures come in base64, and the largest are some 30 MB.
pub(crate) const EVENT_MAX: usize = 128 << 20;

/// Puts events together.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    /// Bytes of the line that is not ended yet.
    line: Vec<u8>,
    /// The last byte was `\r`: a `\n` that follows belongs to the same end of line.
    after_cr: bool,
    /// The first line may begin with a byte order mark.
    begun: bool,
    event: Option<String>,
    data: Option<String>,
    error: Option<SseError>,
}

impl Sse {
    /// Adds bytes; returns the events that they complete, including those before an error,
    /// and nothing is read behind it.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if self.error.is_none() {
            self.error = self.read(bytes, &mut events).err();
        }
        events
    }

    /// The stream is over: gives the event that it ended in.
    pub(crate) fn finish(&mut self) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if self.error.is_none() && !self.line.is_empty() {
            self.error = self.end_line(&mut events).err();
        }
        if self.error.is_none() {
            events.extend(self.dispatch());
        }
        events
    }

    /// What could not be read.
    pub(crate) fn error(&self) -> Option<SseError> {
        self.error
    }

    fn read(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let mut rest = bytes;
        if self.after_cr && rest.first() == Some(&b'\n') {
            rest = &rest[1..];
        }
        if !bytes.is_empty() {
            self.after_cr = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            self.line.extend_from_slice(&rest[..end]);
            self.end_line(events)?;
            let next = match rest[end..] {
                [b'\r', b'\n', ..] => end + 2,
                [b'\r'] => {
                    self.after_cr = true;
                    end + 1
                }
                _ => end + 1,
            };
            rest = &rest[next..];
        }
        self.line.extend_from_slice(rest);
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held > EVENT_MAX {
            return Err(SseError::TooLarge);
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8(line).map_err(|_| SseError::NotUtf8)?;
        if !std::mem::replace(&mut self.begun, true) && line.starts_with('\u{feff}') {
            line.remove(0);
        }
        if line.is_empty() {
            events.extend(self.dispatch());
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.event = Some(value.to_owned()),
            // Comments keep the line alive; ids and retry times are for those who reconnect.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = self.event.take();
        let data = self.data.take()?;
        Some(SseEvent { event, data })
    }
}
