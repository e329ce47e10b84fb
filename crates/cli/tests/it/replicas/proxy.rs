//! A proxy between a server and its PostgreSQL that cuts connections at the worst moments: before a
//! write reaches the database, halfway through the write, and after the commit but before its
//! answer.

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
    /// Half of the write reaches the database.
    Within,
    /// The whole write reaches the database, but the answer is lost.
    After,
}

/// Maximum time to wait for the rest of an answer of the database.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// The proxy. Its threads end with the process.
pub(super) struct Proxy {
    pub(super) port: u16,
    shared: Arc<ProxyState>,
}

struct ProxyState {
    /// Bytes that only the write of an event contains.
    mark: Vec<u8>,
    next: Mutex<Option<Cut>>,
    cuts: AtomicUsize,
    /// Number of connections cut after the database had committed.
    committed: AtomicUsize,
}

impl Proxy {
    /// Listens for connections and forwards them to the database at `port`.
    pub(super) fn start(port: u16, mark: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(ProxyState {
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
                    forward(client, database, &shared);
                }
            }
        });
        proxy
    }

    /// Cuts the next connection that writes an event.
    pub(super) fn cut(&self, cut: Cut) {
        *self.shared.next.lock().unwrap() = Some(cut);
    }

    /// Returns how many connections were cut, and how many of them between a commit and its answer.
    pub(super) fn cuts(&self) -> (usize, usize) {
        let shared = &self.shared;
        let committed = shared.committed.load(Ordering::SeqCst);
        (shared.cuts.load(Ordering::SeqCst), committed)
    }
}

/// Forwards both directions, each in its own thread.
fn forward(client: TcpStream, database: TcpStream, shared: &Arc<ProxyState>) {
    let _ = (client.set_nodelay(true), database.set_nodelay(true));
    let drops_answers = Arc::new(AtomicBool::new(false));
    let (from, to) = (client.try_clone().unwrap(), database.try_clone().unwrap());
    let (both, drops) = (Arc::clone(shared), Arc::clone(&drops_answers));
    std::thread::spawn(move || forward_requests(from, to, &both, &drops));
    let shared = Arc::clone(shared);
    std::thread::spawn(move || forward_answers(database, client, &shared, &drops_answers));
}

fn shut_down(one: &TcpStream, other: &TcpStream) {
    let _ = (one.shutdown(Shutdown::Both), other.shutdown(Shutdown::Both));
}

fn forward_requests(
    mut client: TcpStream,
    mut database: TcpStream,
    shared: &ProxyState,
    drops_answers: &AtomicBool,
) {
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
                drops_answers.store(true, Ordering::SeqCst);
                bytes
            }
        };
        if database.write_all(passed).is_err() {
            break;
        }
        match cut {
            None => {}
            // The other thread cuts the connection when the answer arrives.
            Some(Cut::After) => return,
            Some(Cut::Before | Cut::Within) => {
                shared.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
        }
    }
    shut_down(&client, &database);
}

fn forward_answers(
    mut database: TcpStream,
    mut client: TcpStream,
    shared: &ProxyState,
    drops_answers: &AtomicBool,
) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = database.read(&mut buffer) {
        if drops_answers.load(Ordering::SeqCst) {
            let mut answer = buffer[..count].to_vec();
            database.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
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
    shut_down(&client, &database);
}

/// Whether an answer ends with ReadyForQuery outside a transaction: the command is complete.
fn is_idle(answer: &[u8]) -> bool {
    answer.ends_with(b"Z\0\0\0\x05I")
}
