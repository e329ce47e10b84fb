//! Settings of the C library's heap, so that freed memory returns to the system.
//!
//! glibc keeps up to 64 MB of freed memory in each of many arenas once a program has freed large
//! blocks, and a server under attack frees many. It reads its settings from the environment when a
//! program starts, so the server starts itself again with them, once.

/// Large blocks and the free end of an arena return to the system; few arenas exist.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "4"),
    ("MALLOC_MMAP_THRESHOLD_", "1048576"),
    ("MALLOC_TRIM_THRESHOLD_", "4194304"),
];

/// Starts the program again with these settings, unless the environment has settings of its own. The
/// process keeps its id, its arguments and its open files.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn return_freed_memory() {
    use std::os::unix::process::CommandExt as _;

    let is_set = |name: &str| std::env::var_os(name).is_some();
    if is_set("GLIBC_TUNABLES") || SETTINGS.iter().any(|(name, _)| is_set(name)) {
        return;
    }
    let mut arguments = std::env::args_os();
    if let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) {
        // If this fails, the server runs without the settings and needs more memory.
        let mut command = std::process::Command::new(program);
        let _ = command.arg0(name).args(arguments).envs(SETTINGS).exec();
    }
}

/// Does nothing: other C libraries return freed memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn return_freed_memory() {}
