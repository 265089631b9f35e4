// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The web process's side of the channel: requests data from the collector and forwards its
//! answers.

use crate::channel::{Channel, PIECE, STALLED, Word, read, write};
use crate::web::answer::{Answer, later, plain, whole};
use http_body_util::Either;
use http_body_util::channel::Channel as Body;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::timeout;

/// How long to wait for the collector, which answers within this time or reports that it is
/// busy.
const PATIENCE: Duration = Duration::from_secs(25);

/// The connection to the collector.
pub(crate) struct Collector {
    channel: Channel,
    /// Serialises requests for streams, so that each gets the next stream that arrives.
    turn: Mutex<()>,
    refused: AtomicU64,
}

impl Collector {
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            channel,
            turn: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    fn word(&self, stream: bool) -> Word {
        Word {
            stream,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Reports how many requests were refused since the start.
    pub(crate) fn refused(&self, count: u64) {
        self.refused.fetch_max(count, Ordering::Relaxed);
        self.channel.try_say(self.word(false));
    }

    /// Requests a stream and sends a request on it. Completes even if the caller is cancelled;
    /// otherwise the next caller would get the wrong stream.
    pub(crate) async fn ask(self: &Arc<Self>, request: String) -> io::Result<UnixStream> {
        let collector = Arc::clone(self);
        let work = tokio::spawn(async move {
            let handed = {
                let _turn = collector.turn.lock().await;
                collector.channel.say(collector.word(true)).await?;
                collector.channel.take().await?
            };
            let [handed] = <[_; 1]>::try_from(handed).map_err(|_| io::ErrorKind::InvalidData)?;
            let stream = std::os::unix::net::UnixStream::from(handed);
            stream.set_nonblocking(true)?;
            let mut stream = UnixStream::from_std(stream)?;
            write(&mut stream, request.as_bytes()).await?;
            Ok(stream)
        });
        work.await.map_err(io::Error::other)?
    }

    /// Returns the answer to a request, of type `kind`. An endless answer holds the permit
    /// `long`. Answers of several pieces are forwarded as they arrive.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: String,
        kind: &'static str,
        long: Option<OwnedSemaphorePermit>,
    ) -> Answer {
        let asked = async {
            let mut stream = self.ask(request).await?;
            let head = read(&mut stream, 2).await?;
            let status = <[u8; 2]>::try_from(head).map_err(|_| io::ErrorKind::InvalidData)?;
            let status = StatusCode::from_u16(u16::from_le_bytes(status));
            let first = match &long {
                Some(_) => Vec::new(),
                None => read(&mut stream, PIECE).await?,
            };
            Ok::<_, io::Error>((stream, status.map_err(io::Error::other)?, first))
        };
        let Ok(Ok((stream, status, first))) = timeout(PATIENCE, asked).await else {
            return later("the collector does not answer; try again later\n", 5);
        };
        match status {
            StatusCode::OK => handed_on(stream, kind, first, long).await,
            StatusCode::SERVICE_UNAVAILABLE => later(&String::from_utf8_lossy(&first), 10),
            other => plain(other, &String::from_utf8_lossy(&first)),
        }
    }
}

/// Returns a complete answer if it has one piece; otherwise forwards the pieces.
async fn handed_on(
    mut stream: UnixStream,
    kind: &'static str,
    first: Vec<u8>,
    long: Option<OwnedSemaphorePermit>,
) -> Answer {
    let mut next = first;
    if long.is_none() {
        let second = match next.len() {
            0 => Ok(Ok(Vec::new())),
            _ => timeout(STALLED, read(&mut stream, PIECE)).await,
        };
        match second {
            Ok(Ok(second)) if second.is_empty() => return whole(StatusCode::OK, kind, next),
            Ok(Ok(second)) => next.extend(second),
            _ => return later("the collector does not answer; try again later\n", 5),
        }
    }
    let (mut send, body) = Body::new(1);
    tokio::spawn(async move {
        let _place = long;
        loop {
            let piece = Bytes::from(std::mem::take(&mut next));
            if !piece.is_empty() && send.send_data(piece).await.is_err() {
                return;
            }
            match read(&mut stream, PIECE).await {
                Ok(piece) if piece.is_empty() => return,
                Ok(piece) => next = piece,
                // Abort the response: a normal end would make a partial answer look complete.
                Err(error) => return send.abort(error),
            }
        }
    });
    let mut answer = Response::new(Either::Right(body));
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}
