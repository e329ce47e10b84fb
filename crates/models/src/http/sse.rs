//! Parses server-sent events from bytes, however they are split.
//!
//! Follows the WHATWG rules for lines, fields and comments, with two exceptions. Text that is not
//! UTF-8 is an error, so that no text changes unnoticed. An unterminated last event is returned,
//! because some servers omit the last empty line.

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The event type, if the server sends it.
    pub(crate) event: Option<String>,
    /// The data; several lines are joined by `\n`.
    pub(crate) data: String,
}

/// The reason why a stream is invalid.
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
            SseError::NotUtf8 => "the stream contains a line that is not valid UTF-8",
            SseError::TooLarge => "an event of the stream is larger than 128 MiB",
        }
    }
}

/// Maximum size of an event in bytes. The largest events contain base64 images of about 30 MB.
pub(crate) const EVENT_MAX: usize = 128 << 20;

/// Parses a stream of events.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    /// Bytes of the unfinished line.
    line: Vec<u8>,
    /// Whether the last byte was `\r`. A following `\n` then belongs to the same line break.
    after_cr: bool,
    /// Whether the first line was read. Only that line may start with a byte order mark.
    has_first_line: bool,
    event: Option<String>,
    data: Option<String>,
    error: Option<SseError>,
}

impl Sse {
    /// Adds bytes and returns the events that they complete, including those before an error.
    /// Nothing after an error is parsed.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if self.error.is_none() {
            self.error = self.read(bytes, &mut events).err();
        }
        events
    }

    /// Ends the stream and returns its unterminated last event.
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

    /// Returns the error of an invalid stream.
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
        let buffered = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if buffered > EVENT_MAX {
            return Err(SseError::TooLarge);
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8(line).map_err(|_| SseError::NotUtf8)?;
        if !std::mem::replace(&mut self.has_first_line, true) && line.starts_with('\u{feff}') {
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
            // Comments keep the connection alive; IDs and retry times are only for reconnecting.
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
