// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends metrics to receivers that the user configured, by Prometheus' remote write and OTLP.
//! Each receiver has a bounded queue and its own task; looks never wait for them.

use crate::WatchError;
use crate::export::encode::{self, Labels};
use crate::export::openmetrics::Own;
use crate::export::post::{Failed, post};
use crate::export::receiver::{Kind, Receiver};
use crate::lock::lock;
use crate::step::diff::Change;
use crate::tls;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The largest backlog for one receiver in bytes; the oldest messages are dropped.
const ROOM: usize = 4 << 20;
/// The first pause after a failure; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(2);
/// The longest pause that a receiver can ask for.
const TOLD: Duration = Duration::from_hours(1);

/// The configuration of sending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sending {
    /// The receivers.
    pub receivers: Vec<Receiver>,
    /// The interval between messages.
    pub every: Duration,
    /// Labels that identify this machine.
    pub labels: Vec<(String, String)>,
    /// The certificate authorities to trust instead of those of the system.
    pub authorities: Option<PathBuf>,
}

/// The queue and results for one receiver.
#[derive(Debug, Default)]
struct Outcome {
    queue: Mutex<(VecDeque<Bytes>, usize)>,
    wake: Notify,
    delivered: AtomicU64,
    lost: AtomicU64,
    failing: AtomicU64,
    notes: Mutex<Vec<String>>,
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
    /// Starts the tasks; needs a tokio runtime.
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

    /// Returns whether a message is due.
    pub(crate) fn due(&self, now: Instant) -> bool {
        let passed = |last: Instant| now.saturating_duration_since(last);
        !self.all.is_empty() && self.last.is_none_or(|last| passed(last) >= self.every)
    }

    /// Queues a look with its time in milliseconds of Unix time. It never blocks.
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
            // Neither encoding fails in memory, below the 4 GiB limit of Snappy's format.
            if let Some(batch) = batch {
                outlet.outcome.push(Bytes::from(batch));
            }
        }
    }

    /// Returns the labels with OpenTelemetry's names.
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

    /// Returns the messages for the administrator since the last call.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        let of = |outlet: &Outlet| std::mem::take(&mut *lock(&outlet.outcome.notes));
        self.all.iter().flat_map(of).collect()
    }

    /// Returns metrics of the receivers.
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

/// Delivers batches one after the other until it is aborted.
async fn deliver(receiver: Receiver, tls: Option<Arc<ClientConfig>>, outcome: Arc<Outcome>) {
    let tell = |text: String| lock(&outcome.notes).push(text);
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
                    tokio::time::sleep(spread(wait_of(wait, pause))).await;
                    pause = (pause * 2).min(LONGEST);
                }
            }
        }
    }
}

/// Returns how long to wait: as long as the receiver says, or else the pause of this side.
fn wait_of(told: Option<Duration>, pause: Duration) -> Duration {
    told.map_or(pause, |told| told.clamp(FIRST, TOLD))
}

/// Adds up to a quarter to a pause, so that many machines do not reconnect at the same time.
fn spread(wait: Duration) -> Duration {
    let mut byte = [0];
    // Ignore: without a random number the pause is just not extended.
    let _ = SystemRandom::new().fill(&mut byte);
    wait + wait / 4 * u32::from(byte[0]) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_says_how_long_to_wait() {
        let wait = |told: u64| wait_of(Some(Duration::from_secs(told)), LONGEST).as_secs();
        assert_eq!([0, 1, 600, 86_400].map(wait), [1, 1, 600, 3_600]);
        assert_eq!(wait_of(None, LONGEST), LONGEST);
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
        // A message that exceeds the limit is kept until another arrives.
        outcome.push(Bytes::from(vec![9; 2 * ROOM]));
        assert_eq!(outcome.waiting(), 1);
    }
}
