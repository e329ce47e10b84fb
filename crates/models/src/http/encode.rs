//! Percent-encoding of names and values in URLs and form bodies.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// Everything except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Encode `text` as a path segment, a query value or a form value.
pub(crate) fn percent_encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}
