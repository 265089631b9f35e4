// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream that ends where its other end takes nothing for too long: one who
//! asks and does not read must not keep a place from others.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream with such an end.
pub(crate) struct Impatient<S> {
    stream: S,
    patience: Duration,
    /// Since when nothing is taken.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    /// Ends a stream when nothing of what is written is taken for so long.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            waiting: None,
        }
    }

    /// What a write came to, or that it waited for too long.
    fn judged<T>(
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

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let found = Pin::new(&mut own.stream).poll_write(context, bytes);
        own.judged(found, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let found = Pin::new(&mut own.stream).poll_flush(context);
        own.judged(found, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let found = Pin::new(&mut own.stream).poll_shutdown(context);
        own.judged(found, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn who_does_not_read_is_left() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(100);
            let mut near = Impatient::new(near, Duration::from_millis(50));
            // One who reads late, but within the time.
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
