// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends a connection whose client stops reading, so that it does not occupy a slot.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that fails once its client has not read for too long.
pub(crate) struct SlowClientTimeout<S> {
    stream: S,
    patience: Duration,
    /// Expires `patience` after the first write that blocked.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> SlowClientTimeout<S> {
    /// Makes writes fail once they have blocked for `patience`.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            waiting: None,
        }
    }

    /// Returns the result of a write, or a timeout.
    fn timed<T>(
        &mut self,
        found: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if found.is_ready() {
            self.waiting = None;
            return found;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowClientTimeout<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SlowClientTimeout<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let found = Pin::new(&mut own.stream).poll_write(context, bytes);
        own.timed(found, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let found = Pin::new(&mut own.stream).poll_flush(context);
        own.timed(found, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let found = Pin::new(&mut own.stream).poll_shutdown(context);
        own.timed(found, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn a_client_that_does_not_read_is_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(100);
            let mut near = SlowClientTimeout::new(near, Duration::from_millis(50));
            // A client that reads late, but in time.
            for _ in 0..3 {
                near.write_all(&[1; 100]).await.expect("room");
                let mut bytes = [0; 100];
                far.read_exact(&mut bytes).await.expect("bytes");
                sleep(Duration::from_millis(30)).await;
            }
            near.write_all(&[1; 100]).await.expect("room");
            let error = near.write_all(&[1; 100]).await.expect_err("no room");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
