// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions of high priority that programs announce to `weirgate keep`.
//!
//! A program connects to a socket below `/run/weirgate`. The session lasts as long as the
//! connection is open, so the death of the program ends it. The program receives one line: `ok`, or
//! `no` with the reason. What it sends is discarded. During a session, the programs that choose
//! receive windows are notified again and again. So all sessions end within [`LEASE`] if the
//! service dies.

use crate::clock::{self, Timer};
use crate::error::KeepError;
use crate::site::Site;
use crate::store::folder::Folders;
use std::fs::{self, Permissions};
use std::future::poll_fn;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use weirgate_state::DeviceName;

/// A session ends in the kernel after this time unless it is renewed.
const LEASE: Duration = Duration::from_secs(5);
/// The interval of renewals, in nanoseconds.
const AGAIN: u64 = 2_000_000_000;
/// The most sessions at a time; further ones are refused.
const MOST: usize = 256;
/// Whoever may write to the socket may announce sessions: root and the group.
const MODE: u32 = 0o660;

/// The sessions that are open now.
pub(crate) struct Sessions {
    listener: UnixListener,
    path: PathBuf,
    open: Vec<UnixStream>,
    again: Timer,
    /// The number of sessions at the last call of [`Self::changed`].
    counted: usize,
    /// What failed at the last renewal.
    failed: Option<String>,
}

/// What happened to sessions.
pub(crate) enum Event {
    /// A program connected.
    New(UnixStream),
    /// A session ended.
    Ended,
    /// The sessions have to be renewed in the kernel.
    Again,
}

impl Sessions {
    /// Listens for root and for the group with this number. A socket that a former service left is
    /// replaced.
    pub(crate) fn open(folders: &Folders, group: Option<u32>) -> Result<Self, KeepError> {
        Folders::passable(group.is_some())?;
        let path = folders.announcements();
        // A service that ended in order has removed its socket.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(KeepError::file(&path))?;
        chown(&path, None, group).map_err(KeepError::file(&path))?;
        fs::set_permissions(&path, Permissions::from_mode(MODE)).map_err(KeepError::file(&path))?;
        Ok(Self {
            listener,
            path,
            open: Vec::new(),
            again: Timer::new()?,
            counted: 0,
            failed: None,
        })
    }

    /// Waits for an event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Event, KeepError> {
        let path = &self.path;
        let open = &mut self.open;
        tokio::select! {
            new = self.listener.accept() => {
                let (stream, _) = new.map_err(KeepError::file(path))?;
                Ok(Event::New(stream))
            }
            index = poll_fn(|cx| ended(open, cx)) => {
                open.swap_remove(index);
                Ok(Event::Ended)
            }
            over = self.again.over() => over.map(|()| Event::Again),
        }
    }

    /// Handles an event: updates the kernel and answers the program. An error that is the same as
    /// at the last renewal is not returned again.
    pub(crate) async fn act(&mut self, site: &Site, event: Event) -> Result<(), KeepError> {
        let told = match event {
            Event::New(stream) => {
                let answer = self.admitted(site).await;
                self.answer(stream, &answer).await;
                // The program has received the reason; the service need not report it.
                if answer.is_err() {
                    return Ok(());
                }
                answer
            }
            Event::Ended if self.open.is_empty() => self.tell(site, Duration::ZERO).await,
            Event::Again if !self.open.is_empty() => self.tell(site, LEASE).await,
            Event::Ended => return Ok(()),
            Event::Again => Ok(()),
        };
        // The timer stays expired until it is set. So set it first, whatever has failed.
        self.go_on()?;
        let failed = told.as_ref().err().map(ToString::to_string);
        let is_known = failed.is_some() && failed == self.failed;
        self.failed = failed;
        if is_known { Ok(()) } else { told }
    }

    /// Sets the time of the next renewal, if any session is open.
    fn go_on(&self) -> Result<(), KeepError> {
        if self.open.is_empty() {
            self.again.stop()
        } else {
            self.again.set(clock::now() + AGAIN)
        }
    }

    /// Begins one more session in the kernel.
    async fn admitted(&self, site: &Site) -> Result<(), KeepError> {
        if self.open.len() >= MOST {
            return Err(KeepError::Nothing(format!(
                "{MOST} sessions are already announced"
            )));
        }
        self.tell(site, LEASE).await
    }

    /// Returns the number of open sessions if it has changed since the last call.
    pub(crate) fn changed(&mut self) -> Option<usize> {
        let now = self.open.len();
        let before = std::mem::replace(&mut self.counted, now);
        Some(now).filter(|now| *now != before)
    }

    async fn answer(&mut self, mut stream: UnixStream, answer: &Result<(), KeepError>) {
        let line = match answer {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => format!("no: {error}\n"),
        };
        // A program that has disconnected already gets no session.
        if stream.write_all(line.as_bytes()).await.is_ok() && answer.is_ok() {
            self.open.push(stream);
        }
    }

    /// Sets the lease on every device whose programs heed announcements. Returns the first error;
    /// the other devices are told all the same.
    async fn tell(&self, site: &Site, lease: Duration) -> Result<(), KeepError> {
        let (mut announced, mut failed) = (false, Ok(()));
        for device in heeding(site)? {
            match site.kernel.announce(&device, lease).await {
                Ok(there) => announced |= there,
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed?;
        if announced || lease.is_zero() {
            return Ok(());
        }
        Err(KeepError::Nothing(
            "no policy in force has a table `[receive.announced]`".to_owned(),
        ))
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // Remove the socket file, because nobody listens any more. Open sessions end with their
        // lease.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the devices whose policy makes room for sessions.
fn heeding(site: &Site) -> Result<Vec<DeviceName>, KeepError> {
    let Some(entry) = site.confirmed()? else {
        return Ok(Vec::new());
    };
    let arriving = &entry.desired.hooks;
    let heeds = arriving.iter().filter(|(_, hooks)| {
        let windows = hooks.windows.as_deref();
        windows.is_some_and(weirgate_state::Windows::heeds_announcements)
    });
    Ok(heeds.map(|(device, _)| device.clone()).collect())
}

/// Finds the first stream whose peer has closed it. Discards whatever peers sent.
fn ended(open: &[UnixStream], cx: &mut Context<'_>) -> Poll<usize> {
    for (index, stream) in open.iter().enumerate() {
        while stream.poll_read_ready(cx).is_ready() {
            match stream.try_read(&mut [0; 256]) {
                Ok(0) => return Poll::Ready(index),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(index),
            }
        }
    }
    Poll::Pending
}
