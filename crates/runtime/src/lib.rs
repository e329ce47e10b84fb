//! One turn of an agent: from the user's message to the stored events. Knows no database.

pub mod contents;
pub mod python_text;
mod shared_content;
pub mod template;

pub use shared_content::SharedContent;
