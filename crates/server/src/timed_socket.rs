//! A socket with a write timeout: a client that reads nothing, or too slowly, is disconnected.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stall_timer::StallTimer;

/// A socket with a time budget for writing.
#[derive(Debug)]
pub(crate) struct TimedSocket<S> {
    socket: S,
    /// Runs while the client reads nothing.
    timer: StallTimer,
}

impl<S> TimedSocket<S> {
    /// Wraps a socket. A write fails once the server has waited `budget` for the client; written
    /// bytes restore the budget, one second for each `bytes_per_second` bytes.
    pub(crate) fn new(socket: S, budget: Duration, bytes_per_second: u64) -> TimedSocket<S> {
        TimedSocket {
            socket,
            timer: StallTimer::new(budget, bytes_per_second),
        }
    }

    /// Returns the result of a write, or an error if the client read too little for too long.
    /// `bytes` returns the number of written bytes.
    fn with_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = written {
            self.timer
                .record_progress(written.as_ref().map_or(0, bytes));
            return Poll::Ready(written);
        }
        self.timer.poll_expired(cx).map(|()| {
            let what = "timed out: the client reads nothing, or too slowly";
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.with_timeout(cx, written, |bytes| *bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.with_timeout(cx, written, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.with_timeout(cx, flushed, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::sleep,
    };

    use super::*;

    /// Sends 100,000 bytes, with a budget of one minute, to a client that reads `bytes` at a time
    /// and then pauses for `every`.
    async fn send_to_slow_reader(bytes: usize, every: Duration) -> io::Result<()> {
        let (here, mut there) = duplex(10);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; bytes];
            while there.read_exact(&mut buffer).await.is_ok() {
                sleep(every).await;
            }
        });
        let mut socket = TimedSocket::new(here, Duration::from_secs(60), 100);
        let sent = socket.write_all(&[b' '; 100_000]).await;
        reader.abort();
        sent
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_is_disconnected_and_steady_reader_is_not() {
        let few_bytes = send_to_slow_reader(1, Duration::from_secs(10))
            .await
            .unwrap_err();
        assert_eq!(few_bytes.kind(), io::ErrorKind::TimedOut);
        let too_long_a_pause = send_to_slow_reader(1, Duration::from_secs(61))
            .await
            .unwrap_err();
        assert_eq!(too_long_a_pause.kind(), io::ErrorKind::TimedOut);
        // Slow but steady: takes more than 15 minutes.
        send_to_slow_reader(2000, Duration::from_secs(19))
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn idle_reader_is_not_disconnected() {
        let (here, mut there) = duplex(10);
        let mut socket = TimedSocket::new(here, Duration::from_secs(60), 100);
        let mut byte = [0];
        for _ in 0..100 {
            socket.write_all(b" ").await.unwrap();
            sleep(Duration::from_secs(30)).await;
            there.read_exact(&mut byte).await.unwrap();
        }
    }
}
