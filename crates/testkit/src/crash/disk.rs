//! A folder on a disk: its content now, and its possible contents after a power failure.

use std::{collections::BTreeMap, sync::Arc};

use super::trace::{Action, Moment, Stage};
use crate::random::Random;

/// The number of bytes that a disk writes atomically.
const SECTOR: u64 = 512;

/// The files found after a crash, by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Which of the unsynced changes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything.
    Everything,
    /// Some writes, regardless of their order.
    SomeWrites,
    /// Everything up to a write of which only some sectors survive.
    TornWrite,
    /// Each sector as it was at a random time since its last sync.
    SomeSectors,
}

impl Survival {
    /// Every variant.
    pub const ALL: [Survival; 5] = [
        Survival::Nothing,
        Survival::Everything,
        Survival::SomeWrites,
        Survival::TornWrite,
        Survival::SomeSectors,
    ];

    /// Picks a random variant.
    pub fn any(random: &mut Random) -> Survival {
        Survival::ALL[random.below(Survival::ALL.len() as u64) as usize]
    }
}

/// A folder to which recorded writes, syncs, creations and removals are applied.
#[derive(Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    names: BTreeMap<String, Name>,
    /// Syncs in progress: their begin time, by call.
    syncs: BTreeMap<usize, u64>,
    now: u64,
}

#[derive(Debug, Default)]
struct File {
    /// The content that survives every power failure.
    base: Vec<u8>,
    /// Later changes, in the order of their calls.
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Change {
    call: usize,
    operation: Operation,
    durability: Durability,
}

#[derive(Debug, Clone)]
enum Operation {
    Write { offset: u64, bytes: Arc<[u8]> },
    Resize(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Durability {
    /// The call is in progress.
    Running,
    /// Not synced; the call ended at this time.
    Cached(u64),
    /// A sync after the write failed, so the write may be lost permanently.
    Doubtful,
    /// On the disk.
    Synced,
}

/// The file that a name refers to.
#[derive(Debug, Default)]
struct Name {
    durable: Option<usize>,
    /// Files that the name referred to later, each with the time of the change.
    since: Vec<(u64, Option<usize>)>,
}

impl Name {
    fn file(&self) -> Option<usize> {
        self.since.last().map_or(self.durable, |(_, file)| *file)
    }

    /// Marks the first `count` changes as synced.
    fn settle(&mut self, count: usize) {
        if let Some((_, file)) = self.since.drain(..count).next_back() {
            self.durable = file;
        }
    }
}

impl Disk {
    /// Applies a recorded moment.
    pub fn apply(&mut self, moment: &Moment) -> Result<(), String> {
        self.now += 1;
        match (&*moment.action, moment.stage) {
            (
                Action::Write {
                    file,
                    offset,
                    bytes,
                },
                Stage::Begin,
            ) => {
                let (offset, bytes) = (*offset, Arc::clone(bytes));
                self.begin_change(moment.call, file, Operation::Write { offset, bytes })?;
            }
            (Action::Resize { file, length }, Stage::Begin) => {
                self.begin_change(moment.call, file, Operation::Resize(*length))?;
            }
            (Action::Write { .. } | Action::Resize { .. }, Stage::End(result)) => {
                self.end_change(moment.call, result)?;
            }
            (Action::Sync { .. } | Action::SyncFolder, Stage::Begin) => {
                self.syncs.insert(moment.call, self.now);
            }
            (Action::Sync { file }, Stage::End(result)) => self.end_sync(moment, file, result)?,
            (Action::SyncFolder, Stage::End(result)) => self.end_folder_sync(moment, result)?,
            (Action::Open { file, truncate, .. }, Stage::End(0..)) => {
                self.end_open(moment.call, file, *truncate);
            }
            (Action::Remove { file }, Stage::End(0)) => self.rename(file, None),
            (Action::Open { .. } | Action::Remove { .. } | Action::Tell { .. }, _) => {}
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize, String> {
        let file = self.names.get(name).and_then(Name::file);
        file.ok_or_else(|| format!("{name} was never created"))
    }

    fn rename(&mut self, name: &str, file: Option<usize>) {
        let name = self.names.entry(name.to_owned()).or_default();
        name.since.push((self.now, file));
    }

    fn end_open(&mut self, call: usize, name: &str, truncate: bool) {
        match self.find(name) {
            Ok(file) if truncate => self.files[file].changes.push(Change {
                call,
                operation: Operation::Resize(0),
                durability: Durability::Cached(self.now),
            }),
            Ok(_) => {}
            Err(_) => {
                self.files.push(File::default());
                self.rename(name, Some(self.files.len() - 1));
            }
        }
    }

    fn begin_change(
        &mut self,
        call: usize,
        name: &str,
        operation: Operation,
    ) -> Result<(), String> {
        let (file, durability) = (self.find(name)?, Durability::Running);
        self.files[file].changes.push(Change {
            call,
            operation,
            durability,
        });
        Ok(())
    }

    /// Ends a write or truncation. A short write has written only its first bytes.
    fn end_change(&mut self, call: usize, result: i64) -> Result<(), String> {
        for file in &mut self.files {
            let Some(place) = file.changes.iter().rposition(|change| change.call == call) else {
                continue;
            };
            let Ok(done) = usize::try_from(result) else {
                file.changes.remove(place);
                return Ok(());
            };
            let change = &mut file.changes[place];
            change.durability = Durability::Cached(self.now);
            if let Operation::Write { bytes, .. } = &mut change.operation {
                *bytes = bytes[..done].into();
            }
            return Ok(());
        }
        Err("a write ended without a start".to_owned())
    }

    fn end_sync(&mut self, moment: &Moment, name: &str, result: i64) -> Result<(), String> {
        let began = self.take_sync_start(moment)?;
        let number = self.find(name)?;
        let durability = match result {
            0 => Durability::Synced,
            _ => Durability::Doubtful,
        };
        self.files[number].settle(began, durability);
        if result == 0 {
            let name = self.names.entry(name.to_owned()).or_default();
            let made = name
                .since
                .iter()
                .rposition(|change| change.1 == Some(number));
            name.settle(made.map_or(0, |made| made + 1));
        }
        Ok(())
    }

    fn end_folder_sync(&mut self, moment: &Moment, result: i64) -> Result<(), String> {
        let began = self.take_sync_start(moment)?;
        if result == 0 {
            for name in self.names.values_mut() {
                let before = name.since.iter().filter(|(time, _)| *time < began);
                name.settle(before.count());
            }
        }
        Ok(())
    }

    fn take_sync_start(&mut self, moment: &Moment) -> Result<u64, String> {
        let began = self.syncs.remove(&moment.call);
        began.ok_or_else(|| "a sync ended without a start".to_owned())
    }

    /// Returns the folder as it could be after a power failure at this moment.
    pub fn crash(&self, survival: Survival, random: &mut Random) -> Image {
        let mut image = Image::new();
        for (name, known) in &self.names {
            let kept = match survival {
                Survival::Nothing => 0,
                Survival::Everything => known.since.len(),
                _ => random.below(known.since.len() as u64 + 1) as usize,
            };
            let file = match kept {
                0 => known.durable,
                _ => known.since[kept - 1].1,
            };
            if let Some(file) = file {
                let file = &self.files[file];
                image.insert(name.clone(), file.crash(survival, random));
            }
        }
        image
    }
}

impl File {
    /// Sets the durability of the changes that had ended when the sync began.
    fn settle(&mut self, began: u64, durability: Durability) {
        for change in &mut self.changes {
            if matches!(change.durability, Durability::Cached(ended) if ended < began) {
                change.durability = durability;
            }
        }
        let settled = self
            .changes
            .iter()
            .take_while(|c| c.durability == Durability::Synced);
        for change in self.changes.drain(..settled.count()).collect::<Vec<_>>() {
            change.operation.apply(&mut self.base, |_| true);
        }
    }

    fn crash(&self, survival: Survival, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.base.clone();
        let last = random.below(self.changes.len() as u64 + 1);
        let seed = random.next_u64();
        let lengths_survive = survival != Survival::Nothing && random.chance(25);
        for (index, change) in (0..).zip(&self.changes) {
            let coin = random.chance(50);
            let survives = |sector: u64| match (change.durability, survival) {
                (Durability::Synced, _) => true,
                // After a failed sync the outcome is random, regardless of later changes.
                (Durability::Doubtful, _) | (_, Survival::SomeWrites) => coin,
                (_, Survival::Nothing) => false,
                (_, Survival::Everything) => true,
                (_, Survival::TornWrite) => {
                    index < last || index == last && sector_random(seed, sector, 2) == 0
                }
                (_, Survival::SomeSectors) => {
                    index < sector_random(seed, sector, self.changes.len() as u64 + 1)
                }
            };
            change.operation.apply(&mut bytes, survives);
            if lengths_survive
                && let Operation::Write {
                    offset,
                    bytes: written,
                } = &change.operation
            {
                let end = *offset as usize + written.len();
                bytes.resize(bytes.len().max(end), 0);
            }
        }
        bytes
    }
}

/// Returns a random number below `end` that depends only on the seed and the sector.
fn sector_random(seed: u64, sector: u64, end: u64) -> u64 {
    Random::new(seed ^ sector.wrapping_mul(0x9E37_79B9_7F4A_7C15)).below(end)
}

impl Operation {
    /// Applies the change to the sectors that `survives` accepts. A truncation is atomic and is
    /// identified by the new end.
    fn apply(&self, file: &mut Vec<u8>, survives: impl Fn(u64) -> bool) {
        let (offset, bytes) = match self {
            Operation::Resize(length) => {
                if survives(*length / SECTOR) {
                    file.resize(*length as usize, 0);
                }
                return;
            }
            Operation::Write { offset, bytes } => (*offset, bytes),
        };
        let mut done = 0;
        while done < bytes.len() {
            let place = offset + done as u64;
            let room = (SECTOR - place % SECTOR) as usize;
            let count = room.min(bytes.len() - done);
            if survives(place / SECTOR) {
                let place = place as usize;
                file.resize(file.len().max(place + count), 0);
                file[place..place + count].copy_from_slice(&bytes[done..done + count]);
            }
            done += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds moments by hand, one call after the other.
    #[derive(Default)]
    struct MomentBuilder(Disk, usize);

    impl MomentBuilder {
        fn begin(&mut self, action: Action) -> Moment {
            self.1 += 1;
            let (call, action) = (self.1, Arc::new(action));
            let moment = Moment {
                call,
                action,
                stage: Stage::Begin,
            };
            self.0.apply(&moment).unwrap();
            moment
        }

        fn end(&mut self, moment: Moment, result: i64) {
            let stage = Stage::End(result);
            self.0.apply(&Moment { stage, ..moment }).unwrap();
        }

        fn run(&mut self, action: Action, result: i64) {
            let moment = self.begin(action);
            self.end(moment, result);
        }

        fn make(&mut self, file: &str) {
            let (file, create, truncate) = (file.to_owned(), true, false);
            self.run(
                Action::Open {
                    file,
                    create,
                    truncate,
                },
                3,
            );
        }

        fn write(&mut self, file: &str, offset: u64, bytes: &[u8]) {
            self.run(write(file, offset, bytes), bytes.len() as i64);
        }

        fn sync(&mut self, file: &str) {
            self.run(Action::Sync { file: file.into() }, 0);
        }

        /// Returns every content that the file has after many crashes; `None` if it is missing.
        fn contents_after_crashes(&self, file: &str) -> Vec<Option<String>> {
            let mut found = Vec::new();
            for seed in 0..200 {
                let mut random = Random::new(seed);
                let survival = Survival::any(&mut random);
                let image = self.0.crash(survival, &mut random);
                found.push(
                    image
                        .get(file)
                        .map(|b| String::from_utf8_lossy(b).into_owned()),
                );
            }
            found.sort();
            found.dedup();
            found
        }
    }

    fn write(file: &str, offset: u64, bytes: &[u8]) -> Action {
        let (file, bytes) = (file.to_owned(), bytes.into());
        Action::Write {
            file,
            offset,
            bytes,
        }
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn synced_write_survives_and_unsynced_write_may_be_lost() {
        let mut disk = MomentBuilder::default();
        disk.make("x");
        disk.write("x", 0, b"old");
        assert!(disk.contents_after_crashes("x").contains(&None));
        disk.sync("x");
        assert_eq!(disk.contents_after_crashes("x"), some(&["old"]));
        disk.write("x", 0, b"new");
        assert_eq!(disk.contents_after_crashes("x"), some(&["new", "old"]));
    }

    #[test]
    fn sync_covers_only_writes_that_ended_before_it_began() {
        let mut disk = MomentBuilder::default();
        disk.make("x");
        disk.write("x", 0, b"a");
        let sync = disk.begin(Action::Sync { file: "x".into() });
        disk.write("x", 0, b"b");
        disk.end(sync, 0);
        assert_eq!(disk.contents_after_crashes("x"), some(&["a", "b"]));
        let write = disk.begin(write("x", 0, b"c"));
        disk.sync("x");
        disk.end(write, 1);
        assert_eq!(disk.contents_after_crashes("x"), some(&["b", "c"]));
    }

    #[test]
    fn write_is_torn_only_between_sectors() {
        let mut disk = MomentBuilder::default();
        disk.make("x");
        disk.write("x", 0, &[b'a'; 1536]);
        disk.sync("x");
        disk.write("x", 0, &[b'b'; 1536]);
        let found = disk.contents_after_crashes("x");
        for content in found.iter().flatten() {
            for sector in content.as_bytes().chunks(512) {
                assert!(sector.iter().all(|byte| *byte == sector[0]));
            }
        }
        assert_eq!(found.len(), 8);
    }

    #[test]
    fn file_length_may_survive_a_crash_without_its_bytes() {
        let mut disk = MomentBuilder::default();
        disk.make("x");
        disk.sync("x");
        disk.write("x", 0, b"ab");
        assert_eq!(disk.contents_after_crashes("x"), some(&["", "\0\0", "ab"]));
        disk.run(
            Action::Resize {
                file: "x".into(),
                length: 1,
            },
            0,
        );
        disk.sync("x");
        assert_eq!(disk.contents_after_crashes("x"), some(&["a"]));
    }

    #[test]
    fn writes_before_a_failed_sync_stay_uncertain() {
        let mut disk = MomentBuilder::default();
        disk.make("x");
        disk.write("x", 0, b"a");
        disk.sync("x");
        disk.write("x", 0, b"b");
        disk.run(Action::Sync { file: "x".into() }, -1);
        disk.write("x", 600, b"c");
        disk.sync("x");
        let first = |found: Vec<Option<String>>| -> Vec<String> {
            found
                .into_iter()
                .flatten()
                .map(|text| text[..1].to_owned())
                .collect()
        };
        assert_eq!(first(disk.contents_after_crashes("x")), ["a", "b"]);
        disk.write("x", 0, b"d");
        disk.sync("x");
        assert_eq!(first(disk.contents_after_crashes("x")), ["d"]);
    }

    #[test]
    fn removed_file_may_reappear_until_the_folder_is_synced() {
        let mut disk = MomentBuilder::default();
        disk.make("x");
        disk.write("x", 0, b"1");
        disk.sync("x");
        disk.run(Action::Remove { file: "x".into() }, 0);
        assert_eq!(disk.contents_after_crashes("x"), [None, Some("1".into())]);
        disk.make("x");
        disk.write("x", 0, b"2");
        disk.sync("x");
        assert_eq!(disk.contents_after_crashes("x"), some(&["2"]));
        disk.run(Action::Remove { file: "x".into() }, 0);
        disk.run(Action::SyncFolder, 0);
        assert_eq!(disk.contents_after_crashes("x"), [None]);
    }
}
