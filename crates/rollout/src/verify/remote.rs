// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connection to an end of a measurement on a customer's machine. The amount of its output is
//! bounded, and it is believed only about the flows that it was ordered to handle.

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

/// How long to wait for an end, in addition to the time of sending. This includes ten lost echoes
/// for each of its services.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The maximum length of a line from an end, in bytes.
const LONGEST: u64 = 1 << 20;

/// How long standard error may take to arrive after an end has exited.
const SETTLED: Duration = Duration::from_secs(1);

/// One end, on its customer's machine.
pub struct End {
    child: Child,
    /// Lines for the thread that writes them, which waits until they are read.
    input: Sender<String>,
    replies: Replies,
    at: SocketAddr,
    /// The ports of services that have one of their own; `None` if it is taken.
    ports: BTreeMap<usize, Option<u16>>,
    /// The numbers of the flows that it receives.
    hears: BTreeMap<u32, u64>,
}

impl End {
    /// Starts the end, and makes it listen.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn start(ssh: &Ssh, host: &str, wanted: &Wanted) -> anyhow::Result<Self> {
        let address = wanted.address;
        let mut child = ssh
            .start(host, &["domain", "end"])
            .with_context(|| format!("reach {host}"))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            bail!("the pipes to {host} are missing");
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

    /// Returns the destination of packets without a place of their own.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Returns the destination of a service's packets.
    pub fn place(&self, service: usize) -> Option<SocketAddr> {
        let own = self.ports.get(&service).copied();
        let port = own.unwrap_or(Some(self.at.port()))?;
        Some(SocketAddr::new(self.at.ip(), port))
    }

    fn tell(&self, order: &Order) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        // Ignore errors: if the end has exited, its last output is read next.
        let _ = self.input.send(line);
        Ok(())
    }
}

/// The output of an end.
struct Replies {
    /// Its lines; `None` for a line that is too long.
    output: Receiver<Option<PeerText>>,
    /// Its standard error, after it has exited; `None` if that is too long.
    beside: Receiver<Option<PeerText>>,
}

impl Replies {
    /// Reads its standard output and standard error.
    fn of(output: impl Read + Send + 'static, errors: impl Read + Send + 'static) -> Self {
        let (sender, beside) = mpsc::sync_channel(1);
        all_of(errors, MOST_BESIDE, sender, |line| line);
        Self {
            output: lines(output),
            beside,
        }
    }

    /// Returns the next answer, and waits for it until `until`; `patience` is how long that is, for
    /// the message.
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
        // Ignore errors: it may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a thread that writes lines to an end, which may be slow to read them.
fn written(mut input: ChildStdin) -> Sender<String> {
    let (sender, receiver) = mpsc::channel::<String>();
    // The thread ends when either side does.
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

/// Returns the lines of an end as they arrive. Lines are read only as fast as they are received.
fn lines(output: impl Read + Send + 'static) -> Receiver<Option<PeerText>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    // The thread ends when the end does.
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

/// Reads the next line of an end; an inner `None` means a line that is too long. Returns `None` if
/// the end has exited, possibly in the middle of a line.
pub fn line(output: &mut impl BufRead) -> Option<Option<PeerText>> {
    let mut line = String::new();
    match output.take(LONGEST).read_line(&mut line) {
        Ok(1..) if line.ends_with('\n') => Some(Some(PeerText::new(line))),
        Ok(bytes) if bytes as u64 == LONGEST => Some(None),
        Ok(_) | Err(_) => None,
    }
}

/// Parses an answer.
///
/// # Errors
/// If the line is not an answer.
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

/// The reports of all ends.
#[derive(Default)]
pub struct Answers {
    /// By machine: why it is not asked any more.
    pub failed: BTreeMap<String, String>,
    /// By flow: the shortest round trip; `None` if no echo arrived.
    pub trips: BTreeMap<u32, Option<Trip>>,
    /// By flow: packets that were sent, and for how long, in nanoseconds.
    pub sent: BTreeMap<u32, (u64, u64)>,
    /// By flow: what arrived.
    pub arrived: BTreeMap<u32, Arrived>,
}

impl Answers {
    /// Takes an answer of one end. It may only report flows that it was ordered to send or receive;
    /// otherwise nothing of it is believed.
    ///
    /// # Errors
    /// If it reports other flows, or the answer is of another kind.
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

/// Measures round trips first, then sends everything at once, then collects what arrived.
pub fn traffic(
    open: &mut BTreeMap<&str, End>,
    orders: &BTreeMap<&str, Vec<Sending>>,
    patience: Duration,
) -> Answers {
    let mut answers = Answers::default();
    let prepare = |sends: &[Sending]| Order::Prepare(sends.to_vec());
    each(open, &mut answers, orders, patience, &prepare);
    each(open, &mut answers, orders, patience, &|_| Order::Send);
    // Wait until the queues in front of the last packets have drained.
    thread::sleep(Duration::from_millis(300));
    each(open, &mut answers, orders, patience, &|_| Order::Tell);
    answers
}

/// Sends an order to every end, and collects the answers.
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
    // This is the time limit for all ends together.
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
