//! What agents know beyond one conversation: memory services over what sessions said.
