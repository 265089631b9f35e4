// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collector's side of the web process: starts it, answers its requests, and restarts it
//! when it exits. The web process is not trusted: it gets only data that users may see.

use crate::WatchError;
use crate::channel::{self, Channel};
use crate::serve::answers::answer;
use crate::serve::config::EndWeb;
use crate::serve::shared::Shared;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The largest number of concurrent requests: twice what the web process allows, because the end
/// of some clients is noticed late.
const STREAMS: usize = 64;
/// The first pause before a restart. It doubles with each restart, until a process lives for the
/// longest pause.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

/// The web process, and the sockets on which it accepts connections.
pub(crate) struct WebProcess {
    begin: fn(OwnedFd) -> io::Result<EndWeb>,
    listeners: Vec<OwnedFd>,
    shared: Arc<Shared>,
    running: Option<Running>,
}

struct Running {
    channel: Channel,
    streams: JoinSet<()>,
    end: EndWeb,
}

impl WebProcess {
    pub(crate) fn new(
        begin: fn(OwnedFd) -> io::Result<EndWeb>,
        listeners: Vec<OwnedFd>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            begin,
            listeners,
            shared,
            running: None,
        }
    }

    /// Keeps a web process running until this is dropped. `ready` is called when the first one
    /// can answer; if that exits before, an error is returned.
    pub(crate) async fn run(
        &mut self,
        ready: impl FnOnce(),
        report: impl Fn(&str),
    ) -> Result<Infallible, WatchError> {
        let shared = Arc::clone(&self.shared);
        let mut ready = Some(ready);
        let mut pause = FIRST;
        loop {
            let began = Instant::now();
            let failed = match self.begin().await {
                Ok(running) => {
                    let attended = running.attend(&shared);
                    tokio::pin!(attended);
                    loop {
                        tokio::select! {
                            ended = &mut attended => break ended.err(),
                            () = shared.credentials.taken(), if ready.is_some() => {
                                if let Some(ready) = ready.take() {
                                    ready();
                                }
                            }
                        }
                    }
                }
                Err(error) => Some(error),
            };
            let mut how = self.end().await;
            if let Some(error) = failed {
                how = format!("{error}; {how}");
            }
            if ready.is_some() {
                return Err(WatchError::Web(how));
            }
            if began.elapsed() >= LONGEST {
                pause = FIRST;
            }
            let seconds = pause.as_secs();
            report(&format!(
                "the web process ended ({how}); another begins in {seconds} s"
            ));
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Starts a process, and sends it the sockets.
    async fn begin(&mut self) -> io::Result<&mut Running> {
        let (channel, far) = channel::pair()?;
        let end = (self.begin)(far)?;
        let running = self.running.insert(Running {
            channel,
            streams: JoinSet::new(),
            end,
        });
        let listeners: Vec<_> = self.listeners.iter().map(OwnedFd::as_fd).collect();
        running.channel.hand(&listeners).await?;
        Ok(running)
    }

    /// Ends the process, and describes how it ended.
    pub(crate) async fn end(&mut self) -> String {
        let Some(mut running) = self.running.take() else {
            return String::from("it did not begin");
        };
        drop(running.channel);
        running.streams.shutdown().await;
        let ended = tokio::task::spawn_blocking(running.end);
        ended.await.unwrap_or_default()
    }
}

impl Running {
    /// Answers until the process exits or violates the protocol.
    async fn attend(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        let permits = Arc::new(Semaphore::new(STREAMS));
        let before = shared.refused.load(Ordering::Relaxed);
        loop {
            tokio::select! {
                word = self.channel.hear() => {
                    let Some(word) = word? else { return Ok(()) };
                    let refused = before.saturating_add(word.refused);
                    shared.refused.fetch_max(refused, Ordering::Relaxed);
                    if !word.stream {
                        continue;
                    }
                    let permit = Arc::clone(&permits).acquire_owned().await;
                    let (near, far) = channel::stream()?;
                    self.channel.hand(&[far.as_fd()]).await?;
                    let shared = Arc::clone(shared);
                    self.streams.spawn(async move {
                        let _permit = permit;
                        // The client may be gone.
                        let _ = answer(near, &shared).await;
                    });
                }
                Some(_) = self.streams.join_next() => {}
            }
        }
    }
}
