//! Tests of every store alike.
//!
//! `promises`: each promise of the contract, each store. `model`: random operations against a
//! plain model. `history`: many writers and readers at once, checked afterwards. `stores`: how
//! each store is opened for them. `guard`: that no store is left out. `keys`: API keys.
//! `layout`: the files of each backend.

mod guard;
mod history;
mod keys;
mod layout;
mod model;
mod promises;
mod stores;
