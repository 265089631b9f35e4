// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers to receivers that the user named: Prometheus' remote write and OTLP.
//! Each has a queue of bounded size and a task of its own; looking never waits
//! for them.

mod encode;
mod post;

use crate::WatchError;
use crate::differ::Change;
use crate::metrics::Own;
use crate::service::lock;
use crate::tls;
use encode::Labels;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use post::{Failed, post};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Bytes that wait for one receiver, at most; the oldest make room.
const ROOM: usize = 4 << 20;
/// The first pause after a failure; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(2);

/// What a receiver reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Prometheus' remote write 1.0.
    RemoteWrite,
    /// OpenTelemetry's protocol over HTTP, as protocol buffers.
    Otlp,
}

/// Whom to send to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// What it reads.
    pub kind: Kind,
    tls: bool,
    host: String,
    port: u16,
    path: String,
    authorization: Option<PathBuf>,
}

/// What is to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sending {
    /// To whom.
    pub receivers: Vec<Receiver>,
    /// How often.
    pub every: Duration,
    /// Labels that tell this machine's numbers from others'.
    pub labels: Vec<(String, String)>,
    /// Authorities to trust instead of the system's.
    pub authorities: Option<PathBuf>,
}

impl Receiver {
    /// Reads `URL` or `URL,FILE`, where the file holds what to show as
    /// `Authorization`.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}`: {why}");
        let (url, file) = match text.rsplit_once(',') {
            Some((url, file)) if !file.is_empty() => (url, Some(PathBuf::from(file))),
            _ => (text, None),
        };
        let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong("say `https://HOST/PATH`")),
        };
        let (place, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if place.contains('@') {
            return Err(wrong(
                "put what it asks for into a file, and the file's name behind a comma: all can \
                 read a command line",
            ));
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let number = port.parse().ok().filter(|number| *number > 0);
                (host, number.ok_or_else(|| wrong("a port is 1 to 65535"))?)
            }
            _ => (place, if tls { 443 } else { 80 }),
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let named = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
        if host.is_empty() || !host.chars().all(named) {
            return Err(wrong("it names no host"));
        }
        let here = host == "localhost"
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if file.is_some() && !tls && !here {
            return Err(wrong(
                "what it asks for could be read on the way; say `https://`",
            ));
        }
        let path = match (path, kind) {
            ("" | "/", Kind::RemoteWrite) => "/api/v1/write",
            ("" | "/", Kind::Otlp) => "/v1/metrics",
            (path, _) => path,
        };
        if !path.chars().all(|letter| letter.is_ascii_graphic()) || path.contains('#') {
            return Err(wrong("its path has letters that must be percent-encoded"));
        }
        Ok(Self {
            kind,
            tls,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            authorization: file,
        })
    }

    /// Host and port as a URL has them.
    fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// The URL, without what stands behind a question mark: that may be secret.
impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

/// What became of what was sent to one.
#[derive(Debug, Default)]
struct Outcome {
    queue: Mutex<(VecDeque<Bytes>, usize)>,
    wake: Notify,
    delivered: AtomicU64,
    lost: AtomicU64,
    failing: AtomicU64,
    told: Mutex<Vec<String>>,
}

impl Outcome {
    fn push(&self, batch: Bytes) {
        let mut queue = lock(&self.queue);
        queue.1 += batch.len();
        queue.0.push_back(batch);
        while queue.1 > ROOM && queue.0.len() > 1 {
            let Some(oldest) = queue.0.pop_front() else {
                break;
            };
            queue.1 -= oldest.len();
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        drop(queue);
        self.wake.notify_one();
    }

    async fn next(&self) -> Bytes {
        loop {
            {
                let mut queue = lock(&self.queue);
                if let Some(batch) = queue.0.pop_front() {
                    queue.1 -= batch.len();
                    return batch;
                }
            }
            self.wake.notified().await;
        }
    }

    fn waiting(&self) -> u64 {
        lock(&self.queue).0.len() as u64
    }
}

/// A receiver and its task.
struct Outlet {
    receiver: Receiver,
    outcome: Arc<Outcome>,
    series: Vec<Labels>,
    task: JoinHandle<()>,
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All receivers.
pub(crate) struct Outlets {
    all: Vec<Outlet>,
    every: Duration,
    labels: Vec<(String, String)>,
    last: Option<Instant>,
}

impl Outlets {
    /// Needs a tokio runtime.
    pub(crate) fn open(sending: &Sending) -> Result<Self, WatchError> {
        let tls = sending.receivers.iter().any(|one| one.tls);
        let tls = tls.then(|| tls::client(sending.authorities.as_deref()));
        let tls = tls.transpose()?;
        let open = |receiver: &Receiver| {
            let outcome = Arc::new(Outcome::default());
            let work = deliver(receiver.clone(), tls.clone(), Arc::clone(&outcome));
            Outlet {
                receiver: receiver.clone(),
                outcome,
                series: Vec::new(),
                task: tokio::spawn(work),
            }
        };
        Ok(Self {
            all: sending.receivers.iter().map(open).collect(),
            every: sending.every,
            labels: sending.labels.clone(),
            last: None,
        })
    }

    /// Whether something is to be sent now.
    pub(crate) fn due(&self, now: Instant) -> bool {
        let passed = |last: Instant| now.saturating_duration_since(last);
        !self.all.is_empty() && self.last.is_none_or(|last| passed(last) >= self.every)
    }

    /// Queues what was seen at a time, in milliseconds of Unix time. Never waits.
    pub(crate) fn offer(&mut self, now: Instant, time: i64, changes: &[Change], own: &[Own]) {
        self.last = Some(now);
        let families = encode::families(changes, own);
        let resource = self.resource();
        for outlet in &mut self.all {
            let batch = match outlet.receiver.kind {
                Kind::RemoteWrite => {
                    let before = std::mem::take(&mut outlet.series);
                    let (message, series) =
                        encode::write_request(&families, time, &self.labels, &before);
                    outlet.series = series;
                    snap::raw::Encoder::new().compress_vec(&message).ok()
                }
                Kind::Otlp => {
                    let message = encode::export_request(&families, time, &resource);
                    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
                    let written = packed.write_all(&message);
                    written.and_then(|()| packed.finish()).ok()
                }
            };
            // Neither fails in memory, below the four gigabytes of Snappy's format.
            if let Some(batch) = batch {
                outlet.outcome.push(Bytes::from(batch));
            }
        }
    }

    /// The labels by OpenTelemetry's names.
    fn resource(&self) -> Labels {
        let named = |(name, value): &(String, String)| {
            let name = match &**name {
                "job" => "service.name",
                "instance" => "service.instance.id",
                other => other,
            };
            (name.to_owned(), value.clone())
        };
        self.labels.iter().map(named).collect()
    }

    /// What an administrator should know since this was called last.
    pub(crate) fn told(&self) -> Vec<String> {
        let of = |outlet: &Outlet| std::mem::take(&mut *lock(&outlet.outcome.told));
        self.all.iter().flat_map(of).collect()
    }

    /// Numbers of the receivers.
    pub(crate) fn own(&self) -> Vec<Own> {
        type Read = fn(&Outcome) -> u64;
        let read: [(&'static str, &'static str, bool, Read); 4] = [
            (
                "weirgate_send_delivered",
                "Messages that the receiver took.",
                true,
                |one| one.delivered.load(Ordering::Relaxed),
            ),
            (
                "weirgate_send_lost",
                "Messages that the receiver refused, or that had no room while it took none.",
                true,
                |one| one.lost.load(Ordering::Relaxed),
            ),
            (
                "weirgate_send_waiting",
                "Messages that wait for the receiver.",
                false,
                Outcome::waiting,
            ),
            (
                "weirgate_send_failing",
                "1 while nothing can be delivered.",
                false,
                |one| one.failing.load(Ordering::Relaxed),
            ),
        ];
        let own = read.into_iter().map(|(name, help, counter, read)| Own {
            name,
            help,
            counter,
            values: self
                .all
                .iter()
                .map(|outlet| {
                    let labels = vec![("receiver", outlet.receiver.to_string())];
                    (labels, read(&outlet.outcome))
                })
                .collect(),
        });
        own.filter(|one| !one.values.is_empty()).collect()
    }
}

/// Delivers one batch after the other until it is aborted.
async fn deliver(receiver: Receiver, tls: Option<Arc<ClientConfig>>, outcome: Arc<Outcome>) {
    let tell = |text: String| lock(&outcome.told).push(text);
    loop {
        let batch = outcome.next().await;
        let mut pause = FIRST;
        loop {
            match post(&receiver, tls.as_ref(), batch.clone()).await {
                Ok(()) => {
                    outcome.delivered.fetch_add(1, Ordering::Relaxed);
                    if outcome.failing.swap(0, Ordering::Relaxed) == 1 {
                        tell(format!("{receiver} takes metrics again"));
                    }
                    break;
                }
                Err(Failed::Never(why)) => {
                    outcome.lost.fetch_add(1, Ordering::Relaxed);
                    if outcome.failing.swap(1, Ordering::Relaxed) == 0 {
                        tell(format!("{receiver} refuses metrics: {why}"));
                    }
                    break;
                }
                Err(Failed::Later(why, wait)) => {
                    if outcome.failing.swap(1, Ordering::Relaxed) == 0 {
                        tell(format!("{receiver} takes no metrics: {why}"));
                    }
                    let wait = wait.unwrap_or(pause).clamp(FIRST, LONGEST);
                    tokio::time::sleep(spread(wait)).await;
                    pause = (pause * 2).min(LONGEST);
                }
            }
        }
    }
}

/// A time and up to a quarter more, so that many boxes do not come back at once.
fn spread(wait: Duration) -> Duration {
    let mut byte = [0];
    // Without chance they all come at once; that is no reason not to come.
    let _ = SystemRandom::new().fill(&mut byte);
    wait + wait / 4 * u32::from(byte[0]) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_read_or_refused() {
        let read = |text| Receiver::parse(Kind::RemoteWrite, text);
        let shown = |text| read(text).map(|one| one.to_string());
        for (text, url) in [
            ("https://example.org", "https://example.org/api/v1/write"),
            ("http://[::1]:9090/w?key=1", "http://[::1]:9090/w"),
            ("https://a.example:443/x,/etc/secret", "https://a.example/x"),
            ("http://127.0.0.1:80,token", "http://127.0.0.1/api/v1/write"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(url));
        }
        let otlp = Receiver::parse(Kind::Otlp, "http://localhost:4318/").unwrap();
        assert_eq!(otlp.to_string(), "http://localhost:4318/v1/metrics");
        for wrong in [
            "",
            "example.org",
            "https://",
            "https://:1/",
            "https://a:0/",
            "https://a:b/",
            "https://user:secret@a/",
            "http://a.example/,/etc/secret",
            "https://a b/",
            "https://a/ b",
            "https://a/\r\nx: y",
            "https://a/#b",
            "ftp://a/",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_oldest_make_room() {
        let outcome = Outcome::default();
        for number in 0..5_u8 {
            outcome.push(Bytes::from(vec![number; ROOM / 3]));
        }
        assert_eq!(outcome.waiting(), 3);
        assert_eq!(outcome.lost.load(Ordering::Relaxed), 2);
        assert_eq!(lock(&outcome.queue).0[0][0], 2);
        // One that is larger than all room is kept until another comes.
        outcome.push(Bytes::from(vec![9; 2 * ROOM]));
        assert_eq!(outcome.waiting(), 1);
    }
}
