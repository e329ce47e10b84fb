//! The position and message of a JSON error as Python's `json` module reports them.

/// Returns the position in characters and the message of Python 3.11's error. `None` if Python
/// accepts the text, or if the text is nested too deeply for this scanner.
pub(super) fn python_error(text: &str) -> Option<(usize, String)> {
    let mut scanner = Scanner {
        chars: text.chars().collect(),
        at: 0,
    };
    scanner.skip_space();
    match scanner.value(0) {
        Err(ScanError::Syntax(position, message)) => return Some((position, message.to_owned())),
        Err(ScanError::TooDeep) => return None,
        Ok(()) => {}
    }
    scanner.skip_space();
    let is_at_end = scanner.at == scanner.chars.len();
    (!is_at_end).then(|| (scanner.at, "Extra data".to_owned()))
}

/// Maximum nesting depth: deeper than `Json::parse` accepts, and safe for the stack.
const DEPTH_MAX: usize = 200;

enum ScanError {
    Syntax(usize, &'static str),
    TooDeep,
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
}

type ScanResult = Result<(), ScanError>;

impl Scanner {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn error(&self, message: &'static str) -> ScanResult {
        Err(ScanError::Syntax(self.at, message))
    }

    fn value(&mut self, depth: usize) -> ScanResult {
        if depth > DEPTH_MAX {
            return Err(ScanError::TooDeep);
        }
        match self.peek() {
            Some('"') => self.text(),
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            _ => {
                let words = ["null", "true", "false", "NaN", "Infinity", "-Infinity"];
                match words.iter().any(|word| self.word(word)) {
                    true => Ok(()),
                    false => self.number(),
                }
            }
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = &self.chars[self.at..];
        let is_next = word.chars().count() <= rest.len()
            && word
                .chars()
                .zip(rest)
                .all(|(wanted, found)| wanted == *found);
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn number(&mut self) -> ScanResult {
        let start = self.at;
        self.take('-');
        if !self.take('0') && self.digits() == 0 {
            self.at = start;
            return self.error("Expecting value");
        }
        let whole = self.at;
        if !self.take('.') || self.digits() == 0 {
            self.at = whole;
        }
        let mantissa = self.at;
        if self.take('e') || self.take('E') {
            let _ = self.take('+') || self.take('-');
            if self.digits() == 0 {
                self.at = mantissa;
            }
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn object(&mut self, depth: usize) -> ScanResult {
        self.at += 1;
        self.skip_space();
        if self.take('}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some('"') {
                return self.error("Expecting property name enclosed in double quotes");
            }
            self.text()?;
            self.skip_space();
            if !self.take(':') {
                return self.error("Expecting ':' delimiter");
            }
            self.skip_space();
            self.value(depth + 1)?;
            self.skip_space();
            if self.take('}') {
                return Ok(());
            }
            if !self.take(',') {
                return self.error("Expecting ',' delimiter");
            }
            self.skip_space();
        }
    }

    fn array(&mut self, depth: usize) -> ScanResult {
        self.at += 1;
        self.skip_space();
        if self.take(']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.skip_space();
            if self.take(']') {
                return Ok(());
            }
            if !self.take(',') {
                return self.error("Expecting ',' delimiter");
            }
            self.skip_space();
        }
    }

    fn text(&mut self) -> ScanResult {
        let start = self.at;
        let unterminated = Err(ScanError::Syntax(start, "Unterminated string starting at"));
        self.at += 1;
        loop {
            match self.peek() {
                None => return unterminated,
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(c) if (c as u32) < 0x20 => return self.error("Invalid control character at"),
                Some('\\') => {
                    self.at += 1;
                    match self.peek() {
                        None => return unterminated,
                        Some('u') => self.unicode_escape()?,
                        Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => self.at += 1,
                        Some(_) => return Err(ScanError::Syntax(self.at - 1, "Invalid \\escape")),
                    }
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn unicode_escape(&mut self) -> ScanResult {
        let digits = self.chars.get(self.at + 1..self.at + 5);
        if !digits.is_some_and(|digits| digits.iter().all(char::is_ascii_hexdigit)) {
            return Err(ScanError::Syntax(self.at, "Invalid \\uXXXX escape"));
        }
        self.at += 5;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::python_error;

    #[test]
    fn json_error_position_matches_python() {
        // The messages of Python 3.11.
        let cases = [
            ("", 0, "Expecting value"),
            ("{", 1, "Expecting property name enclosed in double quotes"),
            ("{\"a\" 1}", 5, "Expecting ':' delimiter"),
            ("{\"a\":1 \"b\":2}", 7, "Expecting ',' delimiter"),
            (
                "{\"a\":1,}",
                7,
                "Expecting property name enclosed in double quotes",
            ),
            ("[1,]", 3, "Expecting value"),
            ("[1", 2, "Expecting ',' delimiter"),
            ("{} x", 3, "Extra data"),
            ("\"é", 0, "Unterminated string starting at"),
            ("[\"\\x\"]", 2, "Invalid \\escape"),
            ("\"a\nb\"", 2, "Invalid control character at"),
            ("01", 1, "Extra data"),
            ("-", 0, "Expecting value"),
        ];
        for (text, position, message) in cases {
            let found = python_error(text).expect(text);
            assert_eq!((found.0, found.1.as_str()), (position, message), "{text}");
        }
        assert_eq!(python_error("{\"a\": [1.5e3, null, NaN]}"), None);
        assert_eq!(python_error(&"[".repeat(100_000)), None);
    }
}
