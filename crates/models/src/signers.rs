//! The provider that signed a thought. A provider wants its own signatures back and refuses others', so that a
//! session which changes its model goes on without the thoughts of the other.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::openai::reasoning_details;

/// Claude's are long. Shorter texts may be anything.
const CLAUDES_SHORTEST: usize = 24;

/// Claude's signature as the text that it is; `None` for what certainly is none.
pub(crate) fn may_be_claudes(signature: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(signature).ok()?;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=-_".contains(c);
    (!text.is_empty() && text.chars().all(is_base64)).then_some(text)
}

/// Whether a signature is certainly not Gemini's, whose are bytes and no text: base64 of Claude's,
/// or the JSON that other servers sign with.
pub(crate) fn is_not_geminis(signature: &[u8]) -> bool {
    let is_claudes = signature.len() >= CLAUDES_SHORTEST && STANDARD.decode(signature).is_ok();
    is_claudes || !reasoning_details(signature).is_empty()
}

/// Whether a signature is certainly not of a server that speaks as OpenAI does.
pub(crate) fn is_not_openais(signature: &[u8]) -> bool {
    !signature.is_empty() && reasoning_details(signature).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signatures as their providers give them, shortened: of Claude, of Gemini, of OpenRouter.
    const CLAUDES: &[u8] = b"EqQBCgIYAhIM1gbcDa9GJwZA2b3h";
    const GEMINIS: &[u8] = &[0x0a, 0xc3, 0x28, 0x01, 0xfe, 0x12, 0x99, 0x80, 0x77];
    const OPENROUTERS: &[u8] = br#"[{"type":"reasoning.encrypted","data":"gAAAA"}]"#;

    #[test]
    fn each_knows_its_own() {
        for (signature, claudes, geminis, openais) in [
            (CLAUDES, true, false, false),
            (GEMINIS, false, true, false),
            (OPENROUTERS, false, false, true),
            // What Google documents for calls that it has not made.
            (b"skip_thought_signature_validator", true, true, false),
            (b"", false, true, true),
        ] {
            assert_eq!(
                may_be_claudes(signature).is_some(),
                claudes,
                "{signature:?}"
            );
            assert_eq!(!is_not_geminis(signature), geminis, "{signature:?}");
            assert_eq!(!is_not_openais(signature), openais, "{signature:?}");
        }
    }
}
