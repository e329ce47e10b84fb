//! A proxy between a server and its PostgreSQL that cuts connections at the worst moments: before a
//! write reaches the database, halfway through it, and after the commit but before its answer.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// When to cut the next connection that writes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The write does not reach the database.
    Before,
    /// Half of the write reaches it.
    Within,
    /// The whole write reaches it, but the answer is lost.
    After,
}

/// Timeout for the database's answer; after it, there is none.
const ANSWER: Duration = Duration::from_millis(500);

/// The proxy. Its threads end with the process.
pub(super) struct Proxy {
    pub(super) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    /// The bytes by which a write is recognized.
    mark: Vec<u8>,
    next: Mutex<Option<Cut>>,
    cuts: AtomicUsize,
    /// Number of cuts after which the database had committed.
    committed: AtomicUsize,
}

impl Proxy {
    /// Listen for connections and forward them to the database at `port`.
    pub(super) fn start(port: u16, mark: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            mark: mark.as_bytes().to_vec(),
            next: Mutex::new(None),
            cuts: AtomicUsize::new(0),
            committed: AtomicUsize::new(0),
        });
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(database) = TcpStream::connect(("127.0.0.1", port)) {
                    pass_on(client, database, &shared);
                }
            }
        });
        proxy
    }

    /// Cut the next connection that writes an event.
    pub(super) fn cut(&self, cut: Cut) {
        *self.shared.next.lock().unwrap() = Some(cut);
    }

    /// Number of connections cut, and how many of them had committed without an answer.
    pub(super) fn cuts(&self) -> (usize, usize) {
        let shared = &self.shared;
        let committed = shared.committed.load(Ordering::SeqCst);
        (shared.cuts.load(Ordering::SeqCst), committed)
    }
}

/// Forward both directions, each in its own thread.
fn pass_on(client: TcpStream, database: TcpStream, shared: &Arc<Shared>) {
    let _ = (client.set_nodelay(true), database.set_nodelay(true));
    let swallow = Arc::new(AtomicBool::new(false));
    let (from, to) = (client.try_clone().unwrap(), database.try_clone().unwrap());
    let (both, deaf) = (Arc::clone(shared), Arc::clone(&swallow));
    std::thread::spawn(move || requests(from, to, &both, &deaf));
    let shared = Arc::clone(shared);
    std::thread::spawn(move || answers(database, client, &shared, &swallow));
}

fn end(one: &TcpStream, other: &TcpStream) {
    let _ = (one.shutdown(Shutdown::Both), other.shutdown(Shutdown::Both));
}

fn requests(mut client: TcpStream, mut database: TcpStream, shared: &Shared, deaf: &AtomicBool) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..count];
        let writes = bytes
            .windows(shared.mark.len())
            .any(|found| found == shared.mark);
        let cut = match writes {
            true => shared.next.lock().unwrap().take(),
            false => None,
        };
        let passed = match cut {
            None => bytes,
            Some(Cut::Before) => &[],
            Some(Cut::Within) => &bytes[..count / 2],
            Some(Cut::After) => {
                deaf.store(true, Ordering::SeqCst);
                bytes
            }
        };
        if database.write_all(passed).is_err() {
            break;
        }
        match cut {
            None => {}
            // The other thread cuts it when the answer arrives.
            Some(Cut::After) => return,
            Some(Cut::Before | Cut::Within) => {
                shared.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
    }
    end(&client, &database);
}

fn answers(mut database: TcpStream, mut client: TcpStream, shared: &Shared, deaf: &AtomicBool) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = database.read(&mut buffer) {
        if deaf.load(Ordering::SeqCst) {
            let mut answer = buffer[..count].to_vec();
            database.set_read_timeout(Some(ANSWER)).unwrap();
            while !is_idle(&answer)
                && let Ok(count @ 1..) = database.read(&mut buffer)
            {
                answer.extend_from_slice(&buffer[..count]);
            }
            shared.cuts.fetch_add(1, Ordering::SeqCst);
            let committed = usize::from(is_idle(&answer));
            shared.committed.fetch_add(committed, Ordering::SeqCst);
            break;
        }
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    end(&client, &database);
}

/// Whether an answer ends with ReadyForQuery outside a transaction: the command is complete.
fn is_idle(answer: &[u8]) -> bool {
    answer.ends_with(b"Z\0\0\0\x05I")
}
