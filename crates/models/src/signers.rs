//! Determines which provider signed a thought. Providers reject each other's signed thoughts, so a
//! session that switches providers continues without its earlier thoughts.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::openai::reasoning_details;

/// Minimum length of a Claude signature. Shorter base64 texts do not count as signatures.
const CLAUDE_SIGNATURE_MIN: usize = 24;

/// Returns the signature as text if Claude may have made it.
pub(crate) fn may_be_claudes(signature: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(signature).ok()?;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=-_".contains(c);
    (!text.is_empty() && text.chars().all(is_base64)).then_some(text)
}

/// Whether a signature cannot be Gemini's. Gemini's are raw bytes; Claude's are base64,
/// and those of OpenAI-compatible servers are JSON.
pub(crate) fn is_not_geminis(signature: &[u8]) -> bool {
    let is_claudes = signature.len() >= CLAUDE_SIGNATURE_MIN && STANDARD.decode(signature).is_ok();
    is_claudes || !reasoning_details(signature).is_empty()
}

/// Whether a signature cannot be an OpenAI-compatible server's.
pub(crate) fn is_not_openais(signature: &[u8]) -> bool {
    !signature.is_empty() && reasoning_details(signature).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortened real signatures of Claude, Gemini and OpenRouter.
    const CLAUDES: &[u8] = b"EqQBCgIYAhIM1gbcDa9GJwZA2b3h";
    const GEMINIS: &[u8] = &[0x0a, 0xc3, 0x28, 0x01, 0xfe, 0x12, 0x99, 0x80, 0x77];
    const OPENROUTERS: &[u8] = br#"[{"type":"reasoning.encrypted","data":"gAAAA"}]"#;

    #[test]
    fn signature_is_accepted_only_by_its_provider() {
        for (signature, claudes, geminis, openais) in [
            (CLAUDES, true, false, false),
            (GEMINIS, false, true, false),
            (OPENROUTERS, false, false, true),
            // Google documents this value for calls that Gemini did not make.
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
