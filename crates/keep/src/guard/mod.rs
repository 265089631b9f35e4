// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that takes a change back when its author dies before the change is complete, or when
//! nobody confirms it in time.
//!
//! It is started before anything changes, in a session of its own. It has everything that it needs:
//! the state before the change, and netlink sockets. While it waits for confirmation, its memory is
//! locked. From then on it needs no file, no other process and no terminal. The author of the
//! change talks to it over a socket pair; end of file means that the author died. Others use a
//! named socket.
//!
//! It writes only under the lock, and only while its change is the pending one (`store::head`). So
//! another process may confirm or take back the change without the guard, and only tells it to look
//! at the head.

mod frame;
mod unit;

use crate::clock::{self, Timer};
use crate::error::KeepError;
use crate::links::reroute;
use crate::store::folder::Folders;
use crate::store::head::{Head, Outcome, Pending};
use crate::store::history::History;
use crate::store::memory::Memory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Stream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};
use weirgate_bpf::Pins;
use weirgate_kernel::{Kernel, Scope, locked_pins};
use weirgate_state::{Routing, State, Table};

/// How long a new guard may take to report that it is ready.
const READY: Duration = Duration::from_secs(10);
/// How long a finished guard waits for its parent to exit first.
const LINGER: Duration = Duration::from_secs(2);
/// How long a guard may take to take its change back on request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a guard waits for the lock on pins before it tries again in any case.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a client of the guard's socket may take to send its message.
const VISIT: Duration = Duration::from_millis(100);

/// What a guard receives at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Charge {
    /// The folders of the head and the memory.
    pub folders: Folders,
    /// What the kernel holds before the change.
    pub before: State,
    /// Whether `before` omits its tables because `memory` has them.
    pub remembered: bool,
    /// The state after the change, with its tables emptied: the scope that the
    /// guard observes.
    pub desired: State,
    /// The text of what was stored before the change: read only when it is needed, and sent in a
    /// message of its own.
    #[serde(skip)]
    pub memory: Option<Arc<[u8]>>,
    /// The head, with this change pending.
    pub head: Head,
}

impl Charge {
    /// Returns the fencing number of the change.
    pub(crate) fn number(&self) -> u64 {
        self.head.generation
    }

    /// Returns the former routing over several links, if the change replaces it.
    pub(crate) fn routing(&self) -> Result<Option<Routing>, KeepError> {
        let pending = self.head.pending.as_ref();
        pending.map_or(Ok(None), Pending::former_routing)
    }
}

/// A message to a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Word {
    /// The change is fully applied. With no deadline it is final.
    Applied { deadline: Option<u64> },
    /// There is nothing to take back.
    Dismissed,
    /// The change is settled.
    Settled,
    /// The change is to be taken back now.
    Return,
}

/// An answer of a guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Answer {
    /// It is ready, or has done what was requested.
    Done,
    /// It failed, for this reason.
    Failed(String),
}

impl Answer {
    fn into_result(self) -> Result<(), KeepError> {
        match self {
            Self::Done => Ok(()),
            Self::Failed(why) => Err(KeepError::Guard(why)),
        }
    }
}

/// A guard, as seen by the author of a change. Dropping it without a message has the same effect as
/// the author's death: the guard takes the change back.
pub struct Guard(Stream);

impl Guard {
    /// Starts a guard. `program` is run with the argument `guard`, which must call [`serve`] with
    /// its standard input. With `lasts`, the guard outlives its parent and the parent's session.
    pub fn start(program: &Path, lasts: bool) -> Result<Starting, KeepError> {
        let failed = |error: std::io::Error| KeepError::Guard(error.to_string());
        let (own, its) = Stream::pair().map_err(failed)?;
        let input = Stdio::from(OwnedFd::from(its));
        let (_, in_session) = spawn(program, &["guard".as_ref()], input, lasts).map_err(failed)?;
        own.set_read_timeout(Some(READY)).map_err(failed)?;
        Ok(Starting {
            stream: own,
            in_session,
        })
    }

    /// Reports that the change is complete. With a deadline, the guard stays, and takes the change
    /// back at that time unless it is confirmed.
    pub fn applied(mut self, deadline: Option<u64>) -> Result<Left, KeepError> {
        frame::send(&mut self.0, &Word::Applied { deadline })?;
        frame::receive::<Answer>(&mut self.0)?.into_result()?;
        Ok(Left(self.0))
    }

    /// Dismisses the guard: nothing was changed, or everything is undone already.
    pub fn dismiss(mut self) {
        // Ignore errors: a guard that has exited needs no dismissal.
        let _ = frame::send(&mut self.0, &Word::Dismissed);
    }
}

/// Starts `program` with these arguments. Nobody waits for it: it outlives its parent, or exits by
/// itself. The flag says whether a `lasts` process could not be moved out of its parent's session.
pub(crate) fn spawn(
    program: &Path,
    words: &[&OsStr],
    input: Stdio,
    lasts: bool,
) -> std::io::Result<(Child, bool)> {
    let guard = Command::new(program)
        .arg0("weirgate")
        .args(words)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    let in_session = lasts && !unit::own(guard.id());
    Ok((guard, in_session))
}

/// Detaches this process, so that it survives its parent's session and low memory.
pub(crate) fn stay() {
    // It fails only for the leader of a process group, which a new process is not.
    let _ = rustix::process::setsid();
    // Best effort: without it, the OOM killer may end the guard.
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
}

/// A guard that knows that the change is complete. It waits for its parent to exit, for [`LINGER`]
/// at most.
#[derive(Debug)]
pub struct Left(Stream);

impl Left {
    /// Passes the guard a duplicate of a socket, so that its slow last close
    /// happens in the guard. The guard never reads the message, and the kernel
    /// drops the duplicate when the stream closes.
    pub(crate) fn take(&self, socket: &OwnedFd) -> std::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sockets = [socket.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&sockets));
        let byte = [IoSlice::new(&[0])];
        sendmsg(&self.0, &byte, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// A guard that was started and has received nothing yet. Dropping this ends it.
pub struct Starting {
    stream: Stream,
    /// Whether it could not be moved out of the session of its parent.
    pub(crate) in_session: bool,
}

impl Starting {
    /// Sends the guard what it has to guard.
    pub fn charge(mut self, charge: &Charge) -> Result<Charged, KeepError> {
        frame::send(&mut self.stream, charge)?;
        frame::send_raw(
            &mut self.stream,
            charge.memory.as_deref().unwrap_or_default(),
        )?;
        Ok(Charged(self.stream))
    }
}

/// A guard that has received what it has to guard.
pub struct Charged(Stream);

impl Charged {
    /// Waits until the guard is ready.
    pub fn ready(mut self) -> Result<Guard, KeepError> {
        frame::receive::<Answer>(&mut self.0)?.into_result()?;
        Ok(Guard(self.0))
    }
}

fn tell(folders: &Folders, number: u64, word: Word) -> std::io::Result<Stream> {
    let mut stream = Stream::connect(folders.guard(number))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let sent = frame::send(&mut stream, &word);
    sent.map_err(std::io::Error::other)?;
    Ok(stream)
}

/// Tells the guard of a settled change to exit. A guard that is stopped now reads this before it
/// does anything else.
pub(crate) fn relieve(folders: &Folders, number: u64) {
    if tell(folders, number, Word::Settled).is_err() {
        // A guard that was killed leaves its socket file behind.
        let _ = fs::remove_file(folders.guard(number));
    }
}

/// Asks the guard of a change to take it back, and returns the error that prevented it. Returns
/// `Ok` also if there is no guard, or no answer in time: the head has the outcome.
pub(crate) fn give_back(folders: &Folders, number: u64) -> Result<(), KeepError> {
    let answer = tell(folders, number, Word::Return)
        .ok()
        .and_then(|mut stream| frame::receive::<Answer>(&mut stream).ok());
    answer.map_or(Ok(()), Answer::into_result)
}

/// Runs the guard process; `input` is the socket that [`Guard::start`] gave it.
pub async fn serve(input: OwnedFd) -> Result<(), KeepError> {
    let failed = |error: std::io::Error| KeepError::Guard(error.to_string());
    stay();
    let input = Stream::from(input);
    input.set_nonblocking(true).map_err(failed)?;
    let mut parent = UnixStream::from_std(input).map_err(failed)?;
    let Some(mut charge) = frame::next::<Charge>(&mut parent).await? else {
        return Ok(());
    };
    let Some(memory) = frame::next_raw(&mut parent).await? else {
        return Ok(());
    };
    charge.memory = Some(memory.into()).filter(|text: &Arc<[u8]>| !text.is_empty());
    let answer = match Post::take(charge) {
        Ok(post) => {
            answer(&mut parent, &Answer::Done).await;
            return post.watch(parent).await;
        }
        Err(error) => Answer::Failed(error.to_string()),
    };
    self::answer(&mut parent, &answer).await;
    Ok(())
}

async fn answer(stream: &mut UnixStream, answer: &Answer) {
    // Ignore errors: the client may be gone, and the work is done.
    if let Ok(bytes) = frame::bytes(answer) {
        let _ = stream.write_all(&bytes).await;
    }
}

/// A guard that is ready.
struct Post {
    charge: Charge,
    kernel: Kernel,
    listener: UnixListener,
    timer: Timer,
}

impl Drop for Post {
    fn drop(&mut self) {
        let charge = &self.charge;
        let _ = fs::remove_file(charge.folders.guard(charge.number()));
    }
}

impl Post {
    fn take(charge: Charge) -> Result<Self, KeepError> {
        let path = charge.folders.guard(charge.number());
        // Remove a stale socket: numbers start again if the history was deleted.
        let _ = fs::remove_file(&path);
        Ok(Self {
            kernel: Kernel::open()?,
            listener: UnixListener::bind(&path).map_err(KeepError::file(&path))?,
            timer: Timer::new()?,
            charge,
        })
    }

    async fn watch(self, mut parent: UnixStream) -> Result<(), KeepError> {
        match frame::next::<Word>(&mut parent).await? {
            Some(Word::Applied {
                deadline: Some(deadline),
            }) => {
                // Lock all memory. The author may exit now, and the deadline may be far away: by
                // then nothing must depend on reading from a disk.
                let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
                self.before()?;
                self.timer.set(deadline)?;
                answer(&mut parent, &Answer::Done).await;
            }
            Some(Word::Applied { deadline: None }) => {
                answer(&mut parent, &Answer::Done).await;
                self.linger(&parent).await;
                return Ok(());
            }
            Some(_) => return Ok(()),
            None => {
                let _ = self.take_back(None).await;
                return Ok(());
            }
        }
        drop(parent);
        loop {
            // Listen before the timer: a guard that was stopped reads waiting messages before it
            // acts.
            let mut visitor = tokio::select! {
                biased;
                Ok((stream, _)) = self.listener.accept() => stream,
                over = self.timer.over() => {
                    over?;
                    let Some(stream) = self.waiting().await else {
                        let _ = self.take_back(None).await;
                        return Ok(());
                    };
                    stream
                }
            };
            // A client that sends nothing must not delay the guard.
            let word = frame::next::<Word>(&mut visitor);
            match tokio::time::timeout(VISIT, word).await {
                Ok(Ok(Some(Word::Settled))) if self.may_go() => return Ok(()),
                Ok(Ok(Some(Word::Return))) => {}
                _ => continue,
            }
            match self.take_back(Some(Outcome::TakenBack)).await {
                Ok(()) => {
                    answer(&mut visitor, &Answer::Done).await;
                    return Ok(());
                }
                Err(error) => answer(&mut visitor, &Answer::Failed(error.to_string())).await,
            }
        }
    }

    /// Returns a client that has connected without the event loop knowing it yet: it came while the
    /// guard was stopped, before the first wait.
    async fn waiting(&self) -> Option<UnixStream> {
        let mut watched = [PollFd::new(&self.listener, PollFlags::IN)];
        if poll(&mut watched, Some(&Timespec::default())) != Ok(1) {
            return None;
        }
        let visitor = tokio::time::timeout(VISIT, self.listener.accept()).await;
        visitor.ok()?.ok().map(|(stream, _)| stream)
    }

    /// Waits until the parent is gone. The message with the sockets is never read; they are closed
    /// with the stream, by this process.
    async fn linger(self, parent: &UnixStream) {
        // Drop the listener, so that the next guard can use its path.
        drop(self);
        let gone = async {
            while let Ok(ready) = parent.ready(Interest::READABLE).await
                && !ready.is_read_closed()
            {
                // Clear the readiness; else this loop would spin on the unread byte.
                let _ = parent.try_io(Interest::READABLE, || -> std::io::Result<()> {
                    Err(std::io::ErrorKind::WouldBlock.into())
                });
            }
        };
        let _ = tokio::time::timeout(LINGER, gone).await;
    }

    /// Restores the state before the change, whatever the present state is, unless the change is
    /// settled already. Records `outcome`, or by default that the deadline has passed. As long as
    /// another process keeps the lock on pins, it waits for that, and lets others have the lock on
    /// this namespace.
    async fn take_back(&self, outcome: Option<Outcome>) -> Result<(), KeepError> {
        while !self.is_taken_back(outcome.clone()).await? {
            drop(locked_pins(Pins::Policies, AGAIN).await);
        }
        Ok(())
    }

    /// Does so once. Returns false if another process keeps the lock on pins.
    async fn is_taken_back(&self, outcome: Option<Outcome>) -> Result<bool, KeepError> {
        let charge = &self.charge;
        let lock = charge.folders.lock_when_free().await?;
        let Some(mut head) = Head::for_guard(self.found(), &charge.head) else {
            return Ok(true);
        };
        let history = History::of(&charge.folders);
        if head.recall(&charge.folders.boot, clock::now()) {
            history.set_head(&lock, &head)?;
        }
        let scope = Scope::of([&charge.before, &charge.desired]);
        let gone = self.kernel.go_back(&self.before()?, &scope).await;
        let is_locked_out = matches!(&gone, Err(cause) if cause.is_held());
        let mut gone = gone.map_err(|cause| KeepError::Guard(cause.to_string()));
        let rerouted = match charge.routing() {
            Ok(Some(routing)) => reroute(&self.kernel, &routing).await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if is_locked_out {
            return Ok(false);
        }
        gone = gone.and(rerouted);
        match (&gone, outcome) {
            (Err(cause), _) => head.settle(charge.number(), Outcome::Lost(cause.to_string())),
            (Ok(()), Some(outcome)) => head.settle(charge.number(), outcome),
            (Ok(()), None) => head.lapse(),
        }
        Memory::write(&charge.folders, &lock, charge.memory.as_deref())?;
        history.set_head(&lock, &head)?;
        gone.map(|()| true)
    }

    /// Returns the head as it is on disk; `None` if it is damaged.
    fn found(&self) -> Option<Head> {
        History::of(&self.charge.folders).head().ok()
    }

    fn may_go(&self) -> bool {
        Head::let_go(self.found().as_ref(), self.charge.number())
    }

    /// Returns what the kernel held before the change.
    fn before(&self) -> Result<State, KeepError> {
        let mut before = self.charge.before.clone();
        if let Some(text) = self
            .charge
            .memory
            .as_ref()
            .filter(|_| self.charge.remembered)
        {
            let memory: Memory = serde_json::from_slice(text)
                .map_err(|error| KeepError::Guard(error.to_string()))?;
            before.tables = memory.applied.tables;
        }
        Ok(before)
    }
}

/// Returns the state with emptied tables: it still names everything that a guard has to observe.
pub(crate) fn outline(state: &State) -> State {
    State {
        devices: state.devices.clone(),
        tables: state.tables.iter().map(Table::emptied).collect(),
        hooks: state.hooks.clone(),
    }
}

/// Returns the deadline for a change that is made now.
pub(crate) fn deadline(confirm: Duration) -> u64 {
    let nanos = u64::try_from(confirm.as_nanos()).unwrap_or(u64::MAX);
    clock::now().saturating_add(nanos)
}
