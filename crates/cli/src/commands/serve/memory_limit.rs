//! `--memory-limit`: its sizes, and the default from the memory of the machine or its cgroup.

use std::{fs, path::Path, str::FromStr};

use retain::store::ByteBudget;
use serde::Deserialize;

/// The part of the memory that the server uses without `--memory-limit`. The rest is for what the
/// budget does not count: the page cache of the database, fragmentation, and a second server during
/// an upgrade.
const DEFAULT_SHARE: u64 = 2;

/// The smallest limit with which the server can answer requests of the usual sizes.
const LIMIT_MIN: u64 = 32_000_000;

/// Units of sizes, in bytes.
const UNITS: [(&str, u64); 8] = [
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
];

/// A limit in bytes; 0 means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SizeInFile")]
pub(super) struct MemoryLimit(u64);

/// A size in a file: a number of bytes, or a text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeInFile {
    Bytes(u64),
    Text(String),
}

impl TryFrom<SizeInFile> for MemoryLimit {
    type Error = String;

    fn try_from(size: SizeInFile) -> Result<MemoryLimit, String> {
        match size {
            SizeInFile::Bytes(bytes) => bytes.to_string().parse(),
            SizeInFile::Text(text) => text.parse(),
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = text[digits.len()..].trim().to_ascii_uppercase();
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let number = digits.parse::<u64>().ok();
        let bytes = number
            .zip(unit)
            .and_then(|(number, unit)| number.checked_mul(unit.1));
        match bytes {
            None => {
                Err("expected a size such as 512MB, 2GiB or 536870912, or 0 for no limit".into())
            }
            Some(bytes) if bytes > 0 && bytes < LIMIT_MIN => Err(format!(
                "must be at least {}MB, or 0 for no limit",
                LIMIT_MIN / 1_000_000
            )),
            Some(bytes) => Ok(MemoryLimit(bytes)),
        }
    }
}

/// Creates the budget of the server: the given limit, or a share of the memory that the process may
/// use. Unlimited if the system does not tell how much that is.
pub(super) fn budget(given: Option<MemoryLimit>) -> ByteBudget {
    let limit = match given {
        Some(MemoryLimit(bytes)) => Some(bytes).filter(|bytes| *bytes > 0),
        None => {
            available_memory(Path::new("/")).map(|bytes| (bytes / DEFAULT_SHARE).max(LIMIT_MIN))
        }
    };
    limit.map_or_else(ByteBudget::default, |bytes| {
        ByteBudget::new(usize::try_from(bytes).unwrap_or(usize::MAX))
    })
}

/// Returns the memory of the machine, or less if a cgroup of the process limits it.
fn available_memory(root: &Path) -> Option<u64> {
    let machine = machine_memory(root);
    cgroup_limits(root).into_iter().chain(machine).min()
}

fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes = total
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?;
    Some(kilobytes * 1024)
}

/// Returns the limits of the process's cgroup and those around it, in version 1 and 2.
fn cgroup_limits(root: &Path) -> Vec<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (controllers, path) = (fields.nth(1).unwrap_or_default(), fields.next());
        let (folder, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let folder = root.join(folder);
        let group = folder.join(path.unwrap_or_default().trim_start_matches('/'));
        // In a container, the path may be that of the host, where the process sees only the root.
        let groups = group
            .ancestors()
            .take_while(|group| group.starts_with(&folder));
        limits.extend(groups.filter_map(|group| read_limit(&group.join(file))));
    }
    limits
}

/// Reads a limit; `max` is none.
fn read_limit(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limit_is_a_number_with_an_optional_unit() {
        let bytes = |text: &str| text.parse::<MemoryLimit>().map(|limit| limit.0);
        assert_eq!(bytes("512MB"), Ok(512_000_000));
        assert_eq!(bytes("2 GiB"), Ok(2 << 30));
        assert_eq!(bytes("512mib"), Ok(512 << 20));
        assert_eq!(bytes("536870912"), Ok(536_870_912));
        assert_eq!(bytes("0"), Ok(0));
        for text in [
            "",
            "MB",
            "x",
            "1.5GB",
            "-1",
            "512XB",
            "1MB",
            "99999999999999GB",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(budget(bytes("0").ok().map(MemoryLimit)).limit(), None);
        assert_eq!(budget(Some(MemoryLimit(64 << 20))).limit(), Some(64 << 20));
    }

    #[test]
    fn available_memory_is_the_smallest_limit_of_machine_and_cgroups() {
        let root = retain_testkit::scratch::folder();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let available = || available_memory(root.path());
        assert_eq!(available(), None);
        write(
            "proc/meminfo",
            "MemFree: 1 kB\nMemTotal:       8000000 kB\n",
        );
        assert_eq!(available(), Some(8_192_000_000));
        write("proc/self/cgroup", "0::/pod/app\n");
        write("sys/fs/cgroup/pod/app/memory.max", "max\n");
        assert_eq!(available(), Some(8_192_000_000));
        write("sys/fs/cgroup/pod/memory.max", "2000000000\n");
        assert_eq!(available(), Some(2_000_000_000));
        // Version 1; an unlimited group has a huge number.
        write("proc/self/cgroup", "5:cpu:/x\n4:cpuset,memory:/docker/1\n");
        write(
            "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
            "9223372036854771712",
        );
        assert_eq!(available(), Some(8_192_000_000));
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000");
        assert_eq!(available(), Some(1_000_000_000));
    }
}
