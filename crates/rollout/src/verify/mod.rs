// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain verify`: each router asked whether it is as planned, and
//! each service's traffic sent from end to end and measured.

use crate::apply::Texts;
use crate::end::{Answer, Arrived, Order, Sending, Trip};
use crate::ssh::{self, PATIENCE, Ssh};
use crate::transport::{Wanted, by_connection, pairs};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::time::calendar;
use weirgate_domain::{
    Check, Domain, Fate, Found, Measured, Quantity, Service, Since, State, Verification,
    code_point, comparisons,
};
use weirgate_units::Inserted as _;
use weirgate_units::{Rate, Span};

/// How it is measured.
pub struct Settings<'a> {
    /// For how long each service sends.
    pub time: Duration,
    /// Best-effort traffic from and to each pair of customers beside it.
    pub beside: Option<Rate>,
    /// Whether the routers are asked.
    pub ask: bool,
    /// Where it is remembered since when things are as they are.
    pub record: &'a Path,
}

/// How long an end is waited for, beside what it takes to send. Round trips of
/// ten lost echoes for each of its services are in it.
const END_PATIENCE: Duration = Duration::from_mins(2);

/// Flows of best-effort traffic are counted from here.
const BESIDE: u32 = 1 << 20;

/// The size of their packets.
const FULL: u16 = 1500;

/// Asks, measures and prints: exit status 1 if anything is not as promised.
pub fn run(
    domain: &Domain,
    check: &Check,
    texts: &Texts,
    ssh: &Ssh,
    settings: &Settings<'_>,
) -> Outcome {
    let before = read(settings.record)?;
    let routers = if settings.ask {
        asked(domain, texts, ssh)
    } else {
        BTreeMap::new()
    };
    let services = measured(domain, ssh, settings)?;
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut found = Verification {
        domain,
        check,
        when: calendar(time.unwrap_or_default().as_secs()),
        routers,
        services,
        since: Since::new(),
    };
    found.remember(before);
    output::data(&found.to_string())?;
    write(settings.record, &found.since)?;
    Ok(if found.sound() {
        Status::Done
    } else {
        Status::Differs
    })
}

/// Whether each router is as planned.
fn asked(domain: &Domain, texts: &Texts, ssh: &Ssh) -> BTreeMap<String, Found> {
    let answers = ssh.ask_all(domain, &["plan", "-"], texts, PATIENCE);
    let found = |answer: &ssh::Answer| match answer.status {
        Some(0) => Found::AsPlanned,
        Some(1) if !answer.out.trim().is_empty() => {
            let steps = answer.out.lines().take_while(|line| !line.is_empty());
            Found::Differs(steps.map(str::to_owned).collect())
        }
        // It refuses the policy, or what is there stands in its way.
        Some(1..=4) => Found::Differs(answer.why().lines().map(str::to_owned).collect()),
        _ => Found::Unknown(answer.why()),
    };
    answers
        .iter()
        .map(|(name, answer)| (name.clone(), found(answer)))
        .inserted()
}

/// One end, on its customer's machine.
struct End {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
    at: SocketAddr,
    /// Ports of services that have one of their own; none where it is taken.
    ports: BTreeMap<usize, Option<u16>>,
}

impl End {
    fn start(ssh: &Ssh, host: &str, wanted: &Wanted, number: u64) -> anyhow::Result<Self> {
        let address = wanted.address;
        let mut child = ssh
            .start(host, &["domain", "end"])
            .with_context(|| format!("reach {host}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{host} cannot be spoken to");
        };
        let mut end = Self {
            child,
            input,
            output: lines(output),
            at: SocketAddr::new(address, 0),
            ports: BTreeMap::new(),
        };
        end.tell(&Order::Listen {
            address,
            number,
            places: wanted.places.clone(),
        })?;
        match end.hear(END_PATIENCE)? {
            Answer::Listening(port, ports) => {
                end.at.set_port(port);
                end.ports = wanted.services.iter().copied().zip(ports).inserted();
            }
            other => bail!("{host}: {}", unexpected(&other)),
        }
        Ok(end)
    }

    /// Where a service's packets go.
    fn place(&self, service: usize) -> Option<SocketAddr> {
        let own = self.ports.get(&service).copied();
        let port = own.unwrap_or(Some(self.at.port()))?;
        Some(SocketAddr::new(self.at.ip(), port))
    }

    fn tell(&mut self, order: &Order) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.input.write_all(line.as_bytes())?;
        Ok(self.input.flush()?)
    }

    fn hear(&mut self, patience: Duration) -> anyhow::Result<Answer> {
        let line = match self.output.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                bail!("it said nothing for {} s", patience.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("it ended"),
        };
        serde_json::from_str(&line).with_context(|| format!("it said `{}`", line.trim_end()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // An end of its own process; one that is gone has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that an end says, as they come.
fn lines(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    // It ends when the end does.
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            // What an end says is short, whoever it is.
            let mut line = String::new();
            let read = output.by_ref().take(1 << 20).read_line(&mut line);
            if !matches!(read, Ok(1..)) || sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn unexpected(answer: &Answer) -> String {
    match answer {
        Answer::Failed(why) => why.clone(),
        other => format!("unexpected answer {other:?}"),
    }
}

/// Who sends a service's packets to whom: machine and address of both.
fn ends<'d>(domain: &'d Domain, service: &Service) -> Result<[(&'d str, IpAddr); 2], String> {
    let end = |name: &String| {
        let customer = domain.customers.get(name);
        let host = customer.and_then(|one| one.host.as_deref());
        let address = customer.and_then(|one| one.address);
        host.zip(address)
            .ok_or_else(|| format!("`{name}` has no `host` and `address` in the domain file"))
    };
    Ok([end(&service.from)?, end(&service.to)?])
}

/// Starts every end at once: those that listen, and why the others do not.
fn start<'d>(
    ssh: &Ssh,
    wanted: &BTreeMap<&'d str, Wanted>,
    number: u64,
) -> (BTreeMap<&'d str, End>, BTreeMap<&'d str, String>) {
    let mut failed: BTreeMap<&str, String> = BTreeMap::new();
    let mut open: BTreeMap<&str, End> = BTreeMap::new();
    let started: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = wanted
            .iter()
            .map(|(host, wanted)| {
                let start = move || End::start(ssh, host, wanted, number);
                (*host, scope.spawn(start))
            })
            .collect();
        let joined = threads.into_iter();
        joined.map(|(host, thread)| (host, thread.join())).collect()
    });
    for (host, end) in started {
        match end {
            Ok(Ok(end)) => {
                open.insert(host, end);
            }
            Ok(Err(error)) => {
                failed.insert(host, format!("{error:#}"));
            }
            Err(_) => {
                failed.insert(host, "it could not be started".to_owned());
            }
        }
    }
    (open, failed)
}

/// Every service's fate.
fn measured(domain: &Domain, ssh: &Ssh, settings: &Settings<'_>) -> Result<Vec<Fate>, Failure> {
    let mut wanted: BTreeMap<&str, Wanted> = BTreeMap::new();
    let parties: Vec<_> = domain
        .services
        .iter()
        .map(|service| ends(domain, service))
        .collect();
    for (at, (service, pair)) in domain.services.iter().zip(&parties).enumerate() {
        let Ok([(from, here), (to, there)]) = pair else {
            continue;
        };
        wanted.entry(from).or_insert_with(|| Wanted::at(*here));
        let receiver = wanted.entry(to).or_insert_with(|| Wanted::at(*there));
        receiver.add(at, service);
    }
    let number = number()?;
    let (mut open, failed) = start(ssh, &wanted, number);
    let mut orders: BTreeMap<&str, Vec<Sending>> = BTreeMap::new();
    let mut beside = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for (at, (service, pair)) in domain.services.iter().zip(&parties).enumerate() {
        let Ok([(from, _), (to, _)]) = pair else {
            continue;
        };
        let Some(end) = open.get(to) else {
            continue;
        };
        let Some(target) = end.place(at) else {
            taken.insert(at);
            continue;
        };
        let point = code_point(domain, service).value();
        let own = orders.entry(from).or_default();
        own.push(Sending {
            flow: flow(at as u32, point),
            to: target,
            tcp: by_connection(service),
            from: pairs(&service.select.from_ports),
            dscp: point,
            packet: u16::try_from(service.packet.as_bytes()).unwrap_or(FULL),
            rate: service.rate.as_bits_per_second(),
            burst: service.burst.as_bytes(),
            milliseconds: settings.time.as_millis() as u64,
        });
        if let Some(rate) = settings.beside.filter(|_| beside.insert((from, to))) {
            own.push(Sending {
                flow: flow(BESIDE + at as u32, 0),
                to: end.at,
                tcp: false,
                from: Vec::new(),
                dscp: 0,
                packet: FULL,
                rate: rate.as_bits_per_second(),
                burst: u64::from(FULL),
                milliseconds: settings.time.as_millis() as u64,
            });
        }
    }
    orders.retain(|host, _| open.contains_key(host));
    let result = traffic(&mut open, &orders, settings.time + END_PATIENCE);
    let fates = domain.services.iter().zip(&parties).enumerate();
    let fate = |(at, (service, pair)): (usize, (&Service, &Result<_, String>))| {
        let [(from, _), (to, _)]: &[(&str, IpAddr); 2] = match pair {
            Ok(pair) => pair,
            Err(why) => return Fate::NotMeasured(why.clone()),
        };
        for host in [from, to] {
            if let Some(why) = failed.get(host).or_else(|| result.failed.get(*host)) {
                return Fate::NotMeasured(format!("{host}: {why}"));
            }
        }
        if taken.contains(&at) {
            return Fate::NotMeasured(format!("{to}: something else has all of its `ports`"));
        }
        let id = flow(at as u32, code_point(domain, service).value());
        let Some((sent, took)) = result.sent.get(&id) else {
            return Fate::NotMeasured(format!("{from} sent nothing"));
        };
        let trip = result.trips.get(&id).copied().flatten();
        let arrived = result.arrived.get(&id).copied();
        Fate::Judged(comparisons(service, &figures(*sent, *took, trip, arrived)))
    };
    Ok(fates.map(fate).collect())
}

fn flow(number: u32, point: u8) -> u32 {
    number << 6 | u32::from(point)
}

fn figures(sent: u64, took: u64, trip: Option<Trip>, arrived: Option<Arrived>) -> Measured {
    let least = [
        trip.map(|one| one.there_ns),
        arrived.map(|one| one.least_ns),
    ];
    let least = least.into_iter().flatten().min();
    let variation = arrived.zip(least).map_or(0, |(arrived, least)| {
        arrived.most_ns.saturating_sub(least).max(0).cast_unsigned()
    });
    Measured {
        sent,
        received: arrived.map_or(0, |arrived| arrived.packets),
        seconds: took as f64 / 1e9,
        round_trip: Span::from_nanos(trip.map_or(0, |trip| trip.round_ns)),
        variation: Span::from_nanos(variation),
    }
}

/// What the ends told.
#[derive(Default)]
struct Answers {
    failed: BTreeMap<String, String>,
    trips: BTreeMap<u32, Option<Trip>>,
    sent: BTreeMap<u32, (u64, u64)>,
    arrived: BTreeMap<u32, Arrived>,
}

/// Round trips first, then everything at once, then what arrived.
fn traffic(
    open: &mut BTreeMap<&str, End>,
    orders: &BTreeMap<&str, Vec<Sending>>,
    patience: Duration,
) -> Answers {
    let mut told = Answers::default();
    let prepare = |host: &str| Order::Prepare(orders.get(host).cloned().unwrap_or_default());
    each(open, &mut told, patience, &prepare);
    each(open, &mut told, patience, &|_| Order::Send);
    // What the last packets wait for is over when all that was sent before is.
    thread::sleep(Duration::from_millis(300));
    each(open, &mut told, patience, &|_| Order::Tell);
    told
}

/// Tells every end something, and hears them all.
fn each(
    open: &mut BTreeMap<&str, End>,
    told: &mut Answers,
    patience: Duration,
    order: &dyn Fn(&str) -> Order,
) {
    let mut gone = Vec::new();
    for (host, end) in open.iter_mut() {
        if let Err(error) = end.tell(&order(host)) {
            gone.push(((*host).to_owned(), format!("{error:#}")));
        }
    }
    for (host, end) in open.iter_mut() {
        if gone.iter().any(|(name, _)| name == host) {
            continue;
        }
        match end.hear(patience) {
            Ok(Answer::Prepared(trips)) => told.trips.extend(trips),
            Ok(Answer::Sent(sent)) => told.sent.extend(sent),
            Ok(Answer::Arrived(arrived)) => told.arrived.extend(arrived),
            Ok(other) => gone.push(((*host).to_owned(), unexpected(&other))),
            Err(error) => gone.push(((*host).to_owned(), format!("{error:#}"))),
        }
    }
    for (host, why) in gone {
        open.remove(host.as_str());
        told.failed.insert(host, why);
    }
}

/// A number that others do not know.
fn number() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// A line of the record.
#[derive(Serialize, Deserialize)]
struct Remembered {
    service: String,
    what: String,
    kept: bool,
    promised: f64,
    since: String,
}

/// The record beside a domain file.
pub fn record(domain: &Path) -> PathBuf {
    domain.with_extension("verified.json")
}

const QUANTITIES: [Quantity; 4] = [
    Quantity::Rate,
    Quantity::Delay,
    Quantity::Jitter,
    Quantity::Loss,
];

fn read(path: &Path) -> Result<Since, Failure> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Since::new()),
        Err(error) => {
            return Err(Failure::Input(format!(
                "weirgate: {}: {error}",
                path.display()
            )));
        }
    };
    let all: Vec<Remembered> = serde_json::from_str(&text).map_err(|error| {
        Failure::Input(format!(
            "weirgate: {}: is no record of `domain verify`: {error}; name another by --record",
            path.display()
        ))
    })?;
    let one = |one: Remembered| {
        let mut known = QUANTITIES.into_iter();
        let what = known.find(|known| known.to_string() == one.what)?;
        let state = State {
            kept: one.kept,
            promised: one.promised,
            when: one.since,
        };
        Some(((one.service, what), state))
    };
    Ok(all.into_iter().filter_map(one).inserted())
}

fn write(path: &Path, since: &Since) -> Result<(), Failure> {
    let all = since.iter().map(|((service, what), state)| Remembered {
        service: service.clone(),
        what: what.to_string(),
        kept: state.kept,
        promised: state.promised,
        since: state.when.clone(),
    });
    let all: Vec<Remembered> = all.collect();
    let text = format!("{}\n", serde_json::to_string_pretty(&all)?);
    fs::write(path, text).map_err(|error| {
        Failure::Other(anyhow::anyhow!(
            "{}: since when this is so cannot be kept: {error}",
            path.display()
        ))
    })
}
