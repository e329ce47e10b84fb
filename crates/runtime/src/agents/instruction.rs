//! Instructions: a text with placeholders, or a function that returns one.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use retain_core::BoxError;

use crate::context::ReadonlyContext;

type ProviderFn = Arc<
    dyn Fn(ReadonlyContext) -> Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>
        + Send
        + Sync,
>;

/// An agent's instruction.
///
/// A text may contain placeholders such as `{user:name}` or `{topic?}`, which the session state
/// fills. The text that a function returns is sent verbatim.
#[derive(Clone)]
pub enum Instruction {
    /// A text with placeholders.
    Text(String),
    /// A function that returns the instruction for each request.
    Provider(InstructionProvider),
}

/// A function that returns an instruction.
#[derive(Clone)]
pub struct InstructionProvider(ProviderFn);

impl InstructionProvider {
    pub(crate) async fn instruction(&self, ctx: ReadonlyContext) -> Result<String, BoxError> {
        (self.0)(ctx).await
    }
}

impl Instruction {
    /// Creates an instruction whose text `provide` returns for each request.
    pub fn provider<F, R>(provide: F) -> Instruction
    where
        F: Fn(ReadonlyContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        Instruction::Provider(InstructionProvider(Arc::new(move |ctx| {
            Box::pin(provide(ctx))
        })))
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Instruction::Text(text) if text.is_empty())
    }
}

impl Default for Instruction {
    fn default() -> Instruction {
        Instruction::Text(String::new())
    }
}

impl From<&str> for Instruction {
    fn from(text: &str) -> Instruction {
        Instruction::Text(text.to_owned())
    }
}

impl From<String> for Instruction {
    fn from(text: String) -> Instruction {
        Instruction::Text(text)
    }
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instruction::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Instruction::Provider(_) => f.write_str("Provider"),
        }
    }
}
