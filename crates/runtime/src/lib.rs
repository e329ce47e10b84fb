//! One turn of an agent: from the user's message to the stored events. Knows no database.

mod shared_content;

pub use shared_content::SharedContent;
