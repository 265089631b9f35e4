// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate domain verify`: asks each router whether it is as planned, and measures each service's
//! traffic from end to end.

pub mod record;
pub mod remote;

use crate::audit;
use crate::end::{Arrived, Sending, Trip};
use crate::json::put_verification;
use crate::part::{Parts, has_none};
use crate::ssh::{self, PATIENCE, Ssh};
use crate::transport::{Wanted, by_connection, pairs};
use remote::{End, traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::time::{self, calendar};
use weirgate_domain::{
    Check, Domain, Fate, Found, Measured, Service, Since, Verification, code_point, comparisons,
};
use weirgate_units::{Rate, Span};

/// The settings of a measurement.
pub struct Settings<'a> {
    /// How long each service sends.
    pub time: Duration,
    /// The rate of additional best-effort traffic between each pair of customers.
    pub beside: Option<Rate>,
    /// Whether routers are asked.
    pub ask: bool,
    /// The file that remembers since when each promise is kept or broken.
    pub record: &'a Path,
    /// The file that keeps what each verification found, if one does.
    pub history: Option<&'a Path>,
}

/// The first number of best-effort flows.
const BESIDE: u32 = 1 << 20;

/// The size of their packets.
const FULL: u16 = 1500;

/// Asks, measures and prints. Returns exit status 1 if anything is not as promised.
pub fn run(
    domain: &Domain,
    check: &Check,
    parts: &Parts,
    ssh: &Ssh,
    settings: &Settings<'_>,
    document: &Document,
) -> Outcome {
    let before = record::read(settings.record)?;
    let mut history = settings.history.map(audit::read).transpose()?;
    let routers = if settings.ask {
        asked(domain, parts, ssh)
    } else {
        BTreeMap::new()
    };
    let services = measured(domain, ssh, settings)?;
    let now = time::now();
    if let Some(history) = &mut history {
        history.add(now, domain, &services);
    }
    let mut found = Verification {
        domain,
        check,
        when: calendar(now),
        routers,
        services,
        since: Since::new(),
    };
    found.remember(before);
    put_verification(document, &found);
    if !document.is_wanted() {
        output::data(&found.to_string())?;
    }
    record::write(settings.record, &found.since)?;
    if let Some((path, history)) = settings.history.zip(history) {
        audit::write(path, &history)?;
    }
    Ok(if found.sound() {
        Status::Done
    } else {
        Status::Differs
    })
}

/// Asks each router whether it is as planned, with its policy and its circuits.
fn asked(domain: &Domain, parts: &Parts, ssh: &Ssh) -> BTreeMap<String, Found> {
    let mut routers: BTreeMap<String, Found> = BTreeMap::new();
    for (part, answer) in ssh.ask_all(domain, &["plan", "-"], parts, PATIENCE) {
        let is_none = |text: &String| has_none(text, &answer);
        let own = if parts.get(&part).is_some_and(is_none) {
            Found::AsPlanned
        } else {
            found(&answer)
        };
        let all = match (routers.remove(&part.router), own) {
            (None | Some(Found::AsPlanned), own) => own,
            (Some(Found::Differs(mut steps)), Found::Differs(more)) => {
                steps.extend(more);
                Found::Differs(steps)
            }
            (_, unknown @ Found::Unknown(_)) => unknown,
            (Some(all), _) => all,
        };
        routers.insert(part.router, all);
    }
    routers
}

/// Returns the state of a router, from its answer to `plan`.
pub fn found(answer: &ssh::Answer) -> Found {
    match answer.status {
        Some(0) => Found::AsPlanned,
        Some(1) if !answer.out.is_blank() => {
            Found::Differs(answer.steps().map(|step| step.to_string()).collect())
        }
        // It refuses the policy, or its present state prevents it.
        Some(1..=4) => Found::Differs(answer.why().lines().map(str::to_owned).collect()),
        _ => Found::Unknown(answer.why()),
    }
}

/// Returns sender and receiver of a service's packets: machine and address of both.
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

/// Starts all ends at once. Returns those that listen, and why the others do not.
fn start<'d>(
    ssh: &Ssh,
    wanted: &BTreeMap<&'d str, Wanted>,
) -> (BTreeMap<&'d str, End>, BTreeMap<&'d str, String>) {
    let mut failed: BTreeMap<&str, String> = BTreeMap::new();
    let mut open: BTreeMap<&str, End> = BTreeMap::new();
    let started: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = wanted
            .iter()
            .map(|(host, wanted)| {
                let start = move || End::start(ssh, host, wanted);
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

/// Measures every service.
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
        for flow in [of_service(domain, at, service), flow(BESIDE + at as u32, 0)] {
            receiver.numbers.insert(flow, number()?);
        }
    }
    let (mut open, failed) = start(ssh, &wanted);
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
        let numbers = wanted.get(to).map(|receiver| &receiver.numbers);
        let number = |flow: u32| numbers.and_then(|all| all.get(&flow)).copied();
        let own = orders.entry(from).or_default();
        let id = of_service(domain, at, service);
        own.push(Sending {
            flow: id,
            number: number(id).unwrap_or_default(),
            to: target,
            tcp: by_connection(service),
            from: pairs(&service.select.from_ports),
            dscp: code_point(domain, service).value(),
            packet: u16::try_from(service.packet.as_bytes()).unwrap_or(FULL),
            rate: service.rate.as_bits_per_second(),
            burst: service.burst.as_bytes(),
            milliseconds: settings.time.as_millis() as u64,
        });
        if let Some(rate) = settings.beside.filter(|_| beside.insert((from, to))) {
            let id = flow(BESIDE + at as u32, 0);
            own.push(Sending {
                flow: id,
                number: number(id).unwrap_or_default(),
                to: end.at(),
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
    let result = traffic(&mut open, &orders, settings.time + remote::PATIENCE);
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
        let id = of_service(domain, at, service);
        let Some((sent, took)) = result.sent.get(&id) else {
            return Fate::NotMeasured(format!("{from} sent nothing"));
        };
        let trip = result.trips.get(&id).copied().flatten();
        let arrived = result.arrived.get(&id).copied();
        Fate::Judged(comparisons(service, &figures(*sent, *took, trip, arrived)))
    };
    Ok(fates.map(fate).collect())
}

fn of_service(domain: &Domain, at: usize, service: &Service) -> u32 {
    flow(at as u32, code_point(domain, service).value())
}

fn flow(number: u32, point: u8) -> u32 {
    number << 6 | u32::from(point)
}

/// Computes the figures of a flow. The inputs are its packets, how long they were sent in
/// nanoseconds, the round trip before, and what arrived.
pub fn figures(sent: u64, took: u64, trip: Option<Trip>, arrived: Option<Arrived>) -> Measured {
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

/// Returns a random number for the two ends of a flow.
fn number() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = r#"
version = 1
[class.gold]
behaviour = "AF1"
share = "40%"
[class.rest]
behaviour = "DF"
share = "25%"
[router.west]
role = "boundary"
[customer.alfa]
router = "west"
device = "alfa"
rate = "10mbit"
host = "alfa"
address = "10.1.0.2"
[customer.beta]
router = "west"
device = "beta"
rate = "10mbit"
host = "beta"
address = "10.1.1.2"
[customer.mallory]
router = "west"
device = "mallory"
rate = "10mbit"
host = "mallory"
address = "10.1.2.2"
[[service]]
name = "books"
from = "alfa"
to = "beta"
class = "gold"
rate = "500kbit"
[[service]]
name = "films"
from = "mallory"
to = "beta"
class = "gold"
rate = "500kbit"
"#;

    /// Runs three ends, of which mallory's reports this instead of what arrived there. Each
    /// service's packets are sent, and none arrives.
    fn fates(tells: &str) -> Vec<Fate> {
        let (domain, problems) = weirgate_domain::parse(DOMAIN);
        assert!(problems.is_empty(), "{problems:?}");
        let script = format!(
            r#"while read -r order; do case "$0 $order" in
                *listen*) echo '{{"listening":[9,[]]}}' ;;
                *prepare*) echo '{{"prepared":{{}}}}' ;;
                alfa*send*) echo '{{"sent":{{"10":[100,1000000000]}}}}' ;;
                mallory*send*) echo '{{"sent":{{"74":[100,1000000000]}}}}' ;;
                *send*) echo '{{"sent":{{}}}}' ;;
                mallory*tell*) {tells} ;;
                *) echo '{{"arrived":{{}}}}' ;;
            esac; done"#
        );
        let settings = Settings {
            time: Duration::from_millis(1),
            beside: None,
            ask: false,
            record: Path::new(""),
            history: None,
        };
        let fates = measured(&domain.unwrap(), &Ssh::script(&script), &settings);
        fates.unwrap_or_else(|_| panic!("the ends answer"))
    }

    fn why(fate: &Fate) -> &str {
        match fate {
            Fate::NotMeasured(why) => why,
            Fate::Judged(_) => "judged",
        }
    }

    #[test]
    fn one_customer_cannot_speak_for_another() {
        let forged = r#"echo '{"arrived":{"10":{"packets":100,"least_ns":0,"most_ns":0}}}'"#;
        let found = fates(forged);
        assert!(found[0].broken(), "nothing of it arrived: {found:?}");
        let expected = "mallory: it reported traffic that it neither sends nor receives";
        assert_eq!(why(&found[1]), expected);
        assert!(fates(r#"echo '{"arrived":{}}'"#)[1].broken());
    }

    #[test]
    fn what_an_end_says_is_bounded_and_escaped() {
        for (tells, expected) in [
            (
                "cat /dev/zero",
                "mallory: it sent a line of more than 1048576 bytes",
            ),
            (
                r#"cat /dev/zero | head -c 100000 >&2; sleep 0.3; echo '{"arrived":{}}'"#,
                "mallory: it wrote more than 65536 bytes beside its answers",
            ),
            (
                r"printf '\033[2J\n'",
                r"mallory: it sent what is no answer: expected value at line 1 column 1: \u{1b}[2J",
            ),
            (
                r#"printf '{"failed":"\\u001b[2J"}\n'"#,
                r"mallory: \u{1b}[2J",
            ),
            (
                r"printf '\033[2J' >&2; exit 1",
                r"mallory: it ended: \u{1b}[2J",
            ),
        ] {
            let fates = fates(tells);
            assert!(fates[0].broken(), "{fates:?}");
            assert_eq!(why(&fates[1]), expected);
        }
    }
}
