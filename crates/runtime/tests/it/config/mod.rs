//! Agents from ADK's YAML files: what loads, what does not and what is told about it.

mod broken;
mod custom;
mod differential;
mod dir;
mod loads;
mod support;
