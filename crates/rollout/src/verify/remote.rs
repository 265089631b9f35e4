// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a measurement on a customer's machine, as this machine speaks to it.
//! What it says is bounded, and believed only of what it was ordered.

use crate::end::{Answer, Arrived, Order, Sending, Trip};
use crate::ssh::{MOST_BESIDE, Ssh, all_of};
use crate::transport::Wanted;
use anyhow::{Context as _, bail, ensure};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_units::{Inserted as _, PeerText};

/// How long an end is waited for, beside what it takes to send. Round trips of
/// ten lost echoes for each of its services are in it.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The most bytes of a line that an end says.
const LONGEST: u64 = 1 << 20;

/// How long it takes what an end wrote to standard error to come after it has ended.
const SETTLED: Duration = Duration::from_secs(1);

/// One end, on its customer's machine.
pub struct End {
    child: Child,
    /// Lines, for a thread that waits until they are read.
    input: Sender<String>,
    replies: Replies,
    at: SocketAddr,
    /// Ports of services that have one of their own; none where it is taken.
    ports: BTreeMap<usize, Option<u16>>,
    /// Numbers of flows that it is to hear.
    hears: BTreeMap<u32, u64>,
}

impl End {
    /// Starts it, and has it listen.
    ///
    /// # Errors
    /// Why it does not, in words.
    pub fn start(ssh: &Ssh, host: &str, wanted: &Wanted) -> anyhow::Result<Self> {
        let address = wanted.address;
        let mut child = ssh
            .start(host, &["domain", "end"])
            .with_context(|| format!("reach {host}"))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            bail!("{host} cannot be spoken to");
        };
        let mut end = Self {
            child,
            input: written(input),
            replies: Replies::of(output, errors),
            at: SocketAddr::new(address, 0),
            ports: BTreeMap::new(),
            hears: wanted.numbers.clone(),
        };
        end.tell(&Order::Listen {
            address,
            numbers: wanted.numbers.clone(),
            places: wanted.places.clone(),
        })?;
        match end.replies.next(PATIENCE, Instant::now() + PATIENCE)? {
            Answer::Listening(port, ports) => {
                end.at.set_port(port);
                end.ports = wanted.services.iter().copied().zip(ports).inserted();
            }
            other => bail!("{host}: {}", unexpected(&other)),
        }
        Ok(end)
    }

    /// Where packets go that have no place of their own.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Where a service's packets go.
    pub fn place(&self, service: usize) -> Option<SocketAddr> {
        let own = self.ports.get(&service).copied();
        let port = own.unwrap_or(Some(self.at.port()))?;
        Some(SocketAddr::new(self.at.ip(), port))
    }

    fn tell(&self, order: &Order) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        // Of one that has ended, its last words are heard next.
        let _ = self.input.send(line);
        Ok(())
    }
}

/// What an end says.
struct Replies {
    /// Lines; nothing in place of one that is too long.
    output: Receiver<Option<PeerText>>,
    /// What it says beside, when it has ended; nothing where that is too much.
    beside: Receiver<Option<PeerText>>,
}

impl Replies {
    /// Of its standard output and standard error.
    fn of(output: impl Read + Send + 'static, errors: impl Read + Send + 'static) -> Self {
        let (sender, beside) = mpsc::sync_channel(1);
        all_of(errors, MOST_BESIDE, sender, |line| line);
        Self {
            output: lines(output),
            beside,
        }
    }

    /// The next answer, which is waited for until then; `patience` is how long that is.
    fn next(&self, patience: Duration, until: Instant) -> anyhow::Result<Answer> {
        let rest = until.saturating_duration_since(Instant::now());
        let line = match self.output.recv_timeout(rest) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                bail!("it sent nothing for {} s", patience.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => match self.beside.recv_timeout(SETTLED) {
                Ok(Some(line)) if !line.is_blank() => bail!("it ended: {line}"),
                _ => bail!("it ended"),
            },
        };
        ensure!(
            self.beside.try_recv() != Ok(None),
            "it wrote more than {MOST_BESIDE} bytes beside its answers"
        );
        answer(line)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // An end of its own process; one that is gone has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes lines to be written to an end, which need not read them.
fn written(mut input: ChildStdin) -> Sender<String> {
    let (sender, receiver) = mpsc::channel::<String>();
    // It ends when either end does.
    thread::spawn(move || {
        for line in receiver {
            let sent = input
                .write_all(line.as_bytes())
                .and_then(|()| input.flush());
            if sent.is_err() {
                return;
            }
        }
    });
    sender
}

/// The lines that an end says, as they come. It is read no further than it is heard.
fn lines(output: impl Read + Send + 'static) -> Receiver<Option<PeerText>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    // It ends when the end does.
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let Some(line) = line(&mut output) else {
                return;
            };
            let last = line.is_none();
            if sender.send(line).is_err() || last {
                return;
            }
        }
    });
    receiver
}

/// The next line that an end says, with nothing in place of one that is too long. There is
/// none where it ended, maybe in the middle of a line.
pub fn line(output: &mut impl BufRead) -> Option<Option<PeerText>> {
    let mut line = String::new();
    match output.take(LONGEST).read_line(&mut line) {
        Ok(1..) if line.ends_with('\n') => Some(Some(PeerText::new(line))),
        Ok(bytes) if bytes as u64 == LONGEST => Some(None),
        Ok(_) | Err(_) => None,
    }
}

/// What such a line says.
///
/// # Errors
/// It is no answer.
pub fn answer(line: Option<PeerText>) -> anyhow::Result<Answer> {
    let Some(line) = line else {
        bail!("it sent a line of more than {LONGEST} bytes");
    };
    line.read(|line| serde_json::from_slice(line.as_bytes()))
        .map_err(|error| anyhow::anyhow!("it sent what is no answer: {error}"))
}

fn unexpected(answer: &Answer) -> String {
    match answer {
        Answer::Failed(why) => PeerText::new(why.as_str()).to_string(),
        _ => "it answered something else".to_owned(),
    }
}

/// What the ends reported.
#[derive(Default)]
pub struct Answers {
    /// By machine: why it is asked no more.
    pub failed: BTreeMap<String, String>,
    /// By flow: the shortest round trip; none where no echo came.
    pub trips: BTreeMap<u32, Option<Trip>>,
    /// By flow: packets that were sent, and for how long, in nanoseconds.
    pub sent: BTreeMap<u32, (u64, u64)>,
    /// By flow: what arrived.
    pub arrived: BTreeMap<u32, Arrived>,
}

impl Answers {
    /// Takes an answer of one end: only of flows that it was ordered to send, or to
    /// hear. One that tells of others is not believed at all.
    ///
    /// # Errors
    /// It told of others, or answered something else.
    pub fn take(
        &mut self,
        answer: Answer,
        sends: &[Sending],
        hears: &BTreeMap<u32, u64>,
    ) -> Result<(), String> {
        let sends = |flow: &u32| sends.iter().any(|sending| sending.flow == *flow);
        let own = match &answer {
            Answer::Prepared(trips) => trips.keys().all(sends),
            Answer::Sent(sent) => sent.keys().all(sends),
            Answer::Arrived(arrived) => arrived.keys().all(|flow| hears.contains_key(flow)),
            Answer::Listening(..) | Answer::Failed(_) => return Err(unexpected(&answer)),
        };
        if !own {
            return Err("it reported traffic that it neither sends nor receives".to_owned());
        }
        match answer {
            Answer::Prepared(trips) => self.trips.extend(trips),
            Answer::Sent(sent) => self.sent.extend(sent),
            Answer::Arrived(arrived) => self.arrived.extend(arrived),
            Answer::Listening(..) | Answer::Failed(_) => {}
        }
        Ok(())
    }
}

/// Round trips first, then everything at once, then what arrived.
pub fn traffic(
    open: &mut BTreeMap<&str, End>,
    orders: &BTreeMap<&str, Vec<Sending>>,
    patience: Duration,
) -> Answers {
    let mut answers = Answers::default();
    let prepare = |sends: &[Sending]| Order::Prepare(sends.to_vec());
    each(open, &mut answers, orders, patience, &prepare);
    each(open, &mut answers, orders, patience, &|_| Order::Send);
    // What the last packets wait for is over when all that was sent before is.
    thread::sleep(Duration::from_millis(300));
    each(open, &mut answers, orders, patience, &|_| Order::Tell);
    answers
}

/// Tells every end something, and hears them all.
fn each(
    open: &mut BTreeMap<&str, End>,
    answers: &mut Answers,
    orders: &BTreeMap<&str, Vec<Sending>>,
    patience: Duration,
    order: &dyn Fn(&[Sending]) -> Order,
) {
    let sends = |host: &str| orders.get(host).map_or(&[][..], Vec::as_slice);
    let mut gone = Vec::new();
    for (host, end) in &*open {
        if let Err(error) = end.tell(&order(sends(host))) {
            gone.push(((*host).to_owned(), format!("{error:#}")));
        }
    }
    // All together are waited for so long.
    let until = Instant::now() + patience;
    for (host, end) in &*open {
        if gone.iter().any(|(name, _)| name == host) {
            continue;
        }
        let heard = end.replies.next(patience, until);
        let heard = heard.map_err(|error| format!("{error:#}"));
        let taken = heard.and_then(|answer| answers.take(answer, sends(host), &end.hears));
        if let Err(why) = taken {
            gone.push(((*host).to_owned(), why));
        }
    }
    for (host, why) in gone {
        open.remove(host.as_str());
        answers.failed.insert(host, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, empty};

    #[test]
    fn an_end_may_close_its_standard_error_before_it_answers() {
        let replies = Replies::of(Cursor::new("{\"sent\":{}}\n".repeat(50)), empty());
        for _ in 0..50 {
            let answer = replies.next(PATIENCE, Instant::now() + PATIENCE);
            assert!(matches!(answer, Ok(Answer::Sent(_))), "{:?}", answer.err());
            thread::sleep(Duration::from_millis(1));
        }
    }
}
