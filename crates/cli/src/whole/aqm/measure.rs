// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm measure`: tells a discipline at ingress how long packets wait at the far end of the
//! line, so that it decides on that queue (Braithwaite 2006, sections 6.2 and 6.3).
//!
//! The host should be the first behind the line. Its answers pass the queue that it has towards
//! this router. What a round trip takes longer than without a queue is the time that packets wait.
//! Upstream packets should not wait, or their queue counts too.

use crate::whole::aqm::ingress::AtIngress;
use crate::whole::aqm::target::Target;
use clap::Args;
use serde_json::json;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use weirgate_bpf::{FilterMaps, Store};
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::measurement::resolve;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_console::time;
use weirgate_probe::{Answer, Icmp, Reflector as _, RemoteError, Sent};
use weirgate_track::Baseline;
use weirgate_units::{ParseError, Span};

/// The size of a probe as an IP packet in bytes: 60 with the overhead of ADSL are what
/// Braithwaite 6.3 calculates with.
const PROBE: u32 = 60;

/// How long the host may be silent before the queue counts as unknown.
const SILENT: Duration = Duration::from_secs(2);

/// The least time of a wait: a socket takes 0 for no limit.
const LEAST_WAIT: Duration = Duration::from_micros(100);

/// What `weirgate aqm measure` takes.
#[derive(Args)]
pub struct Arguments {
    /// The device, where `weirgate aqm load --ingress` has put a discipline.
    device: String,
    /// The host at the far end of the line: a name or an address that answers ICMP echo requests.
    host: String,
    /// Send this many requests in a round trip, whatever it takes.
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    per_round_trip: u16,
    /// The shortest time between two requests.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = interval)]
    interval: Duration,
    /// End after this time; without it, Ctrl-C ends it.
    #[arg(long = "for", value_name = "TIME", value_parser = time::duration)]
    lasting: Option<Duration>,
    /// Print one JSON document at the end.
    #[arg(long)]
    json: bool,
}

/// Parses the shortest time between two requests.
fn interval(text: &str) -> Result<Duration, String> {
    let span: Span = text
        .parse()
        .map_err(|error: ParseError| error.to_string())?;
    if span < Span::from_millis(1) || span > Span::from_secs(10) {
        return Err("from 1ms to 10s".to_owned());
    }
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// `weirgate aqm measure`.
pub fn run(arguments: &Arguments) -> Outcome {
    let host = resolve(&arguments.host, 0)?.ip();
    in_runtime(async {
        let target = Target::find(&arguments.device).await?;
        // Do not keep the lock: others may change the discipline meanwhile.
        let store = Store::open().map_err(failed)?;
        let maps = AtIngress::required(&target, &store)?.maps;
        measure(arguments, host, &maps)
    })
}

fn measure(arguments: &Arguments, host: IpAddr, maps: &FilterMaps) -> Outcome {
    let wrong = |error: RemoteError| Failure::Input(format!("weirgate: {host}: {error}"));
    let mut icmp = Icmp::open(host).map_err(wrong)?;
    let begin = Instant::now();
    let end = arguments.lasting.map(|lasting| begin + lasting);
    let mut measuring = Measuring::new(host, begin);
    let mut due = begin;
    loop {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            return measuring.report(arguments.json);
        }
        if now >= due {
            // A request that cannot be sent is lost, as one in a full queue.
            if let Sent::Number(_) = icmp.send(PROBE).map_err(wrong)? {
                measuring.sent += 1;
            }
            measuring.is_silent(now);
            due = now + gap(arguments, measuring.last);
            continue;
        }
        let wait = due.saturating_duration_since(now).max(LEAST_WAIT);
        if let Answer::Back(_, took) = icmp.answer(wait).map_err(wrong)? {
            measuring.answered(took, Instant::now(), maps)?;
        }
    }
}

/// Returns the time from one request to the next.
fn gap(arguments: &Arguments, round_trip: Duration) -> Duration {
    let part = round_trip / u32::from(arguments.per_round_trip);
    arguments.interval.max(part)
}

/// What the answers have told so far.
struct Measuring {
    host: IpAddr,
    begin: Instant,
    base: Baseline,
    /// The last round trip.
    last: Duration,
    /// When the last answer came; the beginning before the first.
    heard: Instant,
    silent: bool,
    sent: u64,
    answered: u64,
    sum: Duration,
    longest: Duration,
}

impl Measuring {
    fn new(host: IpAddr, begin: Instant) -> Self {
        Self {
            host,
            begin,
            base: Baseline::default(),
            last: Duration::ZERO,
            heard: begin,
            silent: false,
            sent: 0,
            answered: 0,
            sum: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }

    /// Says so when the host becomes silent. The virtual queue then follows the rate alone.
    fn is_silent(&mut self, now: Instant) {
        if !self.silent && now.duration_since(self.heard) > SILENT {
            self.silent = true;
            output::note(&format!(
                "weirgate: {} does not answer; until it does, the rate alone says what waits",
                self.host
            ));
        }
    }

    fn answered(&mut self, took: Duration, now: Instant, maps: &FilterMaps) -> Result<(), Failure> {
        if self.silent {
            self.silent = false;
            output::note(&format!("weirgate: {} answers again", self.host));
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = nanoseconds(now.duration_since(self.begin));
        let value = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
        let waits = Duration::from_nanos(self.base.delta(at, value, true));
        maps.measure(waits, self.host).map_err(failed)?;
        self.last = took;
        self.heard = now;
        self.answered += 1;
        self.sum += waits;
        self.longest = self.longest.max(waits);
        Ok(())
    }

    fn report(&self, json: bool) -> Outcome {
        if self.answered == 0 {
            return Err(Failure::Refused(format!(
                "{}: none of {} requests was answered",
                self.host, self.sent
            )));
        }
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let mean = milliseconds(self.sum) / self.answered as f64;
        let longest = milliseconds(self.longest);
        if json {
            output::data(&serde_json::to_string_pretty(&json!({
                "version": 1,
                "host": self.host,
                "sent": self.sent,
                "answered": self.answered,
                "waits_mean_ms": mean,
                "waits_longest_ms": longest,
            }))?)?;
        } else {
            output::text(&format!(
                "{}: {} of {} answered; packets waited {mean:.1} ms in the mean, {longest:.1} ms \
                 at most\n",
                self.host, self.answered, self.sent
            ))?;
        }
        Ok(Status::Done)
    }
}
