//! Agents from ADK's YAML files: which files load, which do not, and with what error.

mod broken;
mod custom;
mod differential;
mod dir;
mod loads;
mod support;
