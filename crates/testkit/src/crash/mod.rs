//! Power loss, played back: what a program wrote and synced is recorded, and a disk is made of it
//! as it could have been found after the power failed at any moment.
//!
//! `trace` runs a program under strace and reads what it did; `disk` is the model of what survives.
//!
//! # The model
//!
//! A call has a beginning and an end, and other threads may act in between.
//!
//! - A write may reach the disk from its beginning on. It must be there when a sync of its file that
//!   began after the write's end has ended well. Until then any of it may be there or not.
//! - The disk writes sectors of 512 bytes, each as a whole. Of writes that are not synced survive:
//!   none, all, some, all up to one that is torn between sectors, or for every sector as many as it
//!   likes, so that the order of writes means nothing.
//! - The length of a file is what its surviving writes make of it. Sometimes the length survives
//!   where the bytes did not; they read as zeros then. A file is never cut or grown but by a write or
//!   a truncation, and a truncation survives or not like a write.
//! - A new file has a name once the file or its folder is synced, a removed one has none once its
//!   folder is synced. Before that, for every name, as much of its history survives as it likes.
//! - After a sync that failed nothing is known about the writes it was for: they may be there or not
//!   for good. A later sync does not help, because the system may have forgotten that they are due.
//! - What is shared between processes through memory (`-shm`) is gone.
//! - The program has told its client what it wrote to its standard output from the beginning of that
//!   write on.
//!
//! It is harsher than most disks: real ones seldom reorder this much. It is not harsher than what a
//! file system promises, with one leniency, that a sector is whole: SQLite assumes it by default.

mod disk;
mod trace;

pub use disk::{Disk, Image, Survival};
pub use trace::{Action, Moment, Recorder, Stage, have_strace, parse};
