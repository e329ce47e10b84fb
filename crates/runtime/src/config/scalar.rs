//! Parses plain YAML scalars by YAML 1.1, as ADK's YAML parser does.
//!
//! `yes` is true, `012` is ten, `1e5` is a string. Dates and base-60 numbers stay strings.

use retain_core::Json;

/// Returns the value of an unquoted scalar.
pub(super) fn parse_plain(text: &str) -> Json {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Json::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return true.into();
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    if let Some(number) = integer(text) {
        return number.into();
    }
    // Infinity, which JSON cannot represent, stays a string.
    match float(text) {
        Some(number) if number.is_finite() => number.into(),
        _ => text.into(),
    }
}

fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) if text.starts_with('-') => ("-", digits),
        Some(digits) => ("", digits),
        None => ("", text),
    };
    let (radix, digits) = match digits {
        "0" => (10, digits),
        _ => match digits.strip_prefix("0x") {
            Some(digits) => (16, digits),
            None => match digits.strip_prefix("0b") {
                Some(digits) => (2, digits),
                None => match digits.strip_prefix('0') {
                    Some(digits) => (8, digits),
                    None if digits.starts_with('_') => return None,
                    None => (10, digits),
                },
            },
        },
    };
    let digits = digits.replace('_', "");
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

/// Parses a float. It must have a decimal point, and its exponent, if any, must have a sign.
fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, part) = mantissa.split_once('.')?;
    let is_digits = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '_');
    let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_mantissa =
        is_digits(whole) && is_digits(part) && (begins(whole) || whole.is_empty() && begins(part));
    let is_exponent = exponent.is_none_or(|exponent| {
        exponent.strip_prefix(['-', '+']).is_some_and(|digits| {
            !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit())
        })
    });
    if !is_mantissa || !is_exponent {
        return None;
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_parse_as_in_python() {
        let cases = [
            ("", "null"),
            ("~", "null"),
            ("Yes", "true"),
            ("off", "false"),
            ("y", "\"y\""),
            ("yES", "\"yES\""),
            ("0", "0"),
            ("-7", "-7"),
            ("+7", "7"),
            ("1_000", "1000"),
            ("012", "10"),
            ("09", "\"09\""),
            ("0x1F", "31"),
            ("0b101", "5"),
            ("_1", "\"_1\""),
            ("1.5", "1.5"),
            ("-.5", "-0.5"),
            ("20.0", "20.0"),
            ("1.", "1.0"),
            ("1.5e+3", "1500.0"),
            ("1e5", "\"1e5\""),
            ("1.5e3", "\"1.5e3\""),
            (".", "\".\""),
            (".inf", "\".inf\""),
            ("1.2.3", "\"1.2.3\""),
            ("12:30", "\"12:30\""),
            ("-", "\"-\""),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_plain(text).to_string(), expected, "{text:?}");
        }
    }
}
