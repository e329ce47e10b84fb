//! Tests that every store must pass.
//!
//! `promises`: each promise of the contract for each store. `model`: random operations against a
//! plain model. `history`: concurrent writers and readers. `stores`: opens each store. `guard`: no
//! store is left out. `keys`: API keys. `layout`: the files of each backend.

mod guard;
mod history;
mod keys;
mod layout;
mod model;
mod promises;
mod stores;
