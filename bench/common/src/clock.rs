//! Clocks: wall time, CPU time of the whole process (user + system), and
//! instructions where the machine can count them.

use serde_json::Value;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The end of a window. Each task gets a copy.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Whether the window has ended, so that no further operation should start.
    pub fn passed(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// Measures one window.
pub struct Meter {
    limit: Option<Duration>,
    started: Option<(Instant, u64, Option<u64>)>,
    wall_us: f64,
    cpu_us: u64,
    instructions: Option<u64>,
}

impl Meter {
    /// Creates a window that ends after `max_ms` milliseconds, or when its work is done.
    pub fn new(max_ms: Option<u64>) -> Self {
        Meter {
            limit: max_ms.map(Duration::from_millis),
            started: None,
            wall_us: 0.0,
            cpu_us: 0,
            instructions: None,
        }
    }

    /// Starts the timing. The work before this call is preparation.
    pub fn start(&mut self) -> Deadline {
        let instructions = instructions();
        let cpu = cpu_us();
        let now = Instant::now();
        self.started = Some((now, cpu, instructions));
        Deadline(self.limit.map(|d| now + d))
    }

    /// Ends the timing. The work after this call checks the results.
    pub fn stop(&mut self) {
        if let Some((wall, cpu, before)) = self.started.take() {
            self.wall_us = wall.elapsed().as_secs_f64() * 1e6;
            self.cpu_us = cpu_us() - cpu;
            self.instructions = before.zip(instructions()).map(|(a, b)| b.saturating_sub(a));
        }
    }

    /// Adds the measurements to an answer.
    pub fn write_to(&self, answer: &mut Value) -> Result<(), String> {
        if self.started.is_some() || self.wall_us == 0.0 {
            return Err("the peer did not start and stop the meter".into());
        }
        answer["wall_us"] = self.wall_us.into();
        answer["cpu_us"] = self.cpu_us.into();
        if let Some(n) = self.instructions {
            answer["instructions"] = n.into();
        }
        Ok(())
    }
}

fn cpu_us() -> u64 {
    // SAFETY: getrusage only writes the struct it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

static COUNTER: OnceLock<Option<i32>> = OnceLock::new();

/// Opens the instruction counter of this process and of threads created later.
pub(crate) fn open_instruction_counter() {
    COUNTER.get_or_init(open_counter);
}

#[cfg(target_os = "linux")]
fn open_counter() -> Option<i32> {
    // struct perf_event_attr, first version, 64 bytes: type and size, config,
    // sample_period, sample_type, read_format, flags, two small fields, config1.
    const HARDWARE_AND_SIZE: u64 = 64 << 32;
    const INSTRUCTIONS: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    const NO_KERNEL: u64 = (1 << 5) | (1 << 6);
    for flags in [INHERIT, INHERIT | NO_KERNEL] {
        let attr: [u64; 8] = [HARDWARE_AND_SIZE, INSTRUCTIONS, 0, 0, 0, flags, 0, 0];
        // SAFETY: the kernel reads 64 bytes from `attr` and returns a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), 0, -1, -1, 0) };
        if fd >= 0 {
            return Some(fd as i32);
        }
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn open_counter() -> Option<i32> {
    None
}

fn instructions() -> Option<u64> {
    let fd = (*COUNTER.get()?)?;
    let mut value = 0u64;
    // SAFETY: reads at most 8 bytes into `value`.
    let n = unsafe { libc::read(fd, (&raw mut value).cast(), 8) };
    (n == 8).then_some(value)
}
