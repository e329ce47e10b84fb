//! Simulated power loss: record what a program wrote and synced, then build a disk image as it
//! could look after a power failure at any moment.
//!
//! `trace` runs a program under strace and parses its calls; `disk` models what survives.
//!
//! # The model
//!
//! A call has a beginning and an end, and other threads may act in between.
//!
//! - A write may reach the disk as soon as it begins. It must survive once a sync of its file that
//!   began after the write's end has succeeded. Until then any part of it may be lost.
//! - The disk writes sectors of 512 bytes, each atomically. Of the unsynced writes, these
//!   survive: none, all, some, all up to one that is torn between sectors, or a different number
//!   for each sector, so that the order of writes means nothing.
//! - The surviving writes determine the length of a file. Sometimes the length survives without the
//!   bytes, which then read as zeros. Only a write or a truncation changes the length, and a
//!   truncation survives or not like a write.
//! - A new file has a name once the file or its folder is synced; a removed file loses its name
//!   once the folder is synced. Before that, any prefix of each name's history may survive.
//! - After a failed sync, its writes may be on disk or lost permanently. A later sync does not
//!   help, because the kernel may have marked the pages as clean.
//! - Memory shared between processes (`-shm`) is lost.
//! - The client knows what the program wrote to standard output as soon as that write begins.
//!
//! The model is harsher than most disks, which seldom reorder this much. It is not harsher than
//! what a file system promises, with one exception: sectors are atomic, as SQLite assumes by
//! default.

mod disk;
mod trace;

pub use disk::{Disk, Image, Survival};
pub use trace::{Action, Moment, Recorder, Stage, have_strace, parse};
