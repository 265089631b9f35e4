// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of `weirgate top` about connections, cake's tins, and devices without a queue. Lines
//! fit 80 columns.

use crate::policy::show::human;
use crate::whole::top::details::queue_name;
use crate::whole::top::format::{bits, cut, ms, of, second};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use weirgate_units::Arrange as _;
use weirgate_watch::{Change, Flow, HostAlert, Legend, Number, Sort, Step};

/// The columns of a flow besides its ends: the protocol, the kind and two rates.
const BESIDE: usize = 6 + 10 + 12 + 12;
/// The fewest columns of an end. With twenty for each, all fit 80.
const END: usize = 19;

/// The largest number of alerts that are shown.
const MOST_ALERTS: usize = 4;

/// Returns the lines for the flows with most traffic, or none if the connection table is not known.
///
/// The ends get the columns that the terminal has. If one end needs more, every remote end gets a
/// line of its own.
pub fn flows(step: &Step, most: usize, width: usize) -> Vec<String> {
    if step.flows.is_empty() {
        return Vec::new();
    }
    let end = |address: IpAddr, port: u16| match port {
        0 => address.to_string(),
        port => SocketAddr::new(address, port).to_string(),
    };
    let ends = |flow: &Flow| {
        let host = end(flow.host, flow.host_port);
        (host, end(flow.remote, flow.remote_port))
    };
    let shown = || step.flows.iter().take(most);
    let longest = |one: &(String, String)| one.0.len().max(one.1.len());
    let needed = shown().map(|flow| longest(&ends(flow)) + 1).max();
    let needed = needed.unwrap_or(0).max(END);
    let together = 2 * needed + BESIDE <= width;
    let line = |words: [&str; 6]| {
        let [protocol, kind, host, remote, down, up] = words;
        if together {
            vec![format!(
                "{protocol:<6}{kind:<10}{host:<needed$}{remote:<needed$}{down:>12}{up:>12}"
            )]
        } else {
            let room = needed.max(50);
            let second = needed.max(END);
            vec![
                format!("{protocol:<6}{host:<room$}{down:>12}{up:>12}"),
                format!("{:6}{remote:<second$}{kind}", "")
                    .trim_end()
                    .to_owned(),
            ]
        }
    };
    let mut lines = line(["flow", "kind", "host", "remote", "down", "up"]);
    lines.extend(shown().flat_map(|flow| {
        let (host, remote) = ends(flow);
        let (down, up) = (human(flow.down as f64), human(flow.up as f64));
        let kind = flow.kind.unwrap_or("-");
        line([&flow.protocol, kind, &host, &remote, &down, &up])
    }));
    lines
}

/// Returns the lines for the alerts in force: what inside hosts do.
pub fn alerts(step: &Step) -> Vec<String> {
    let line = |one: &HostAlert| {
        let text = format!("alert: {} {}, for {} s", one.host, one.text, one.seconds);
        cut(&text, 80)
    };
    step.alerts.iter().take(MOST_ALERTS).map(line).collect()
}

/// Returns the lines for connections: how many there are, and to which services.
pub fn services(step: &Step) -> Vec<String> {
    let Some(whole) = of(step, Sort::Connections).next() else {
        return vec![String::from(
            "connections may not be read (CAP_NET_ADMIN), or none are tracked",
        )];
    };
    let number = |one: &Change, number| one.value(number).unwrap_or(0);
    let mut lines = vec![format!(
        "{} connections are tracked, {} without an answer",
        number(whole, Number::ConnectionsTracked),
        number(whole, Number::ConnectionsUnanswered)
    )];
    if let Some(limit) = whole.value(Number::ConnectionsLimit) {
        lines.push(format!("there may be {limit}"));
    }
    let unsorted = number(whole, Number::ConnectionsUnsorted);
    if unsorted > 0 {
        lines.push(format!("the classes of {unsorted} are not found yet"));
    }
    lines.push(String::new());
    lines.push(format!(
        "{:<22} {:>12} {:>18}",
        "service", "connections", "without an answer"
    ));
    let mut services: Vec<&Change> = of(step, Sort::Service).collect();
    services.arrange_by_key(|one| std::cmp::Reverse(number(one, Number::ServiceConnections)));
    lines.extend(services.into_iter().map(|one| {
        let name = format!(
            "{} {}",
            one.object.label("protocol"),
            one.object.label("port")
        );
        format!(
            "{:<22} {:>12} {:>18}",
            cut(name.trim_end(), 22),
            number(one, Number::ServiceConnections),
            number(one, Number::ServiceUnanswered)
        )
    }));
    lines
}

/// Returns the lines for cake's tins, or none if no cake has several.
pub fn tins(step: &Step, legend: &Legend) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<21} {:<12} {:>8} {:>6} {:>8} {:>6} {:>6} {:>6}",
        "tin of cake in", "tin", "rate", "waits", "delay ms", "flows", "drop/s", "mark/s"
    )];
    lines.extend(of(step, Sort::Tin).map(|one| {
        let number = |number| one.value(number).unwrap_or(0);
        format!(
            "{:<21} {:<12} {:>8} {:>6} {:>8} {:>6} {:>6.0} {:>6.0}",
            cut(&queue_name(&one.object, legend), 21),
            cut(one.object.label("tin"), 12),
            short(bits(number(Number::TinSentBytes), step.interval)),
            number(Number::TinBacklogPackets),
            ms(one.value(Number::TinDelay)),
            number(Number::TinFlows),
            second(number(Number::TinDrops), step.interval),
            second(number(Number::TinMarks), step.interval),
        )
    }));
    or_nothing(lines)
}

/// Returns a line for each conditioner, from the objects of its colours.
pub fn conditioners(step: &Step) -> Vec<String> {
    let mut all: BTreeMap<[&str; 3], BTreeMap<&str, String>> = BTreeMap::new();
    for one in of(step, Sort::Conditioner) {
        let key = ["conditioner", "at", "device"].map(|label| one.object.label(label));
        let bytes = one.value(Number::ConditionerBytes);
        let rate = bytes.map_or(String::from("-"), |bytes| human(bits(bytes, step.interval)));
        let colours = all.entry(key).or_default();
        colours.insert(one.object.label("colour"), rate);
    }
    let mut lines = vec![format!(
        "{:<24} {:<18} {:>11} {:>11} {:>11}",
        "conditioner", "at", "green", "yellow", "red"
    )];
    lines.extend(all.iter().map(|([name, at, device], colours)| {
        let colour = |name| colours.get(name).map_or("-", |rate| rate);
        format!(
            "{:<24} {:<18} {:>11} {:>11} {:>11}",
            cut(name, 24),
            cut(&format!("{at} {device}"), 18),
            colour("green"),
            colour("yellow"),
            colour("red")
        )
    }));
    or_nothing(lines)
}

/// Returns the lines for devices where receive windows limit senders.
pub fn windows(step: &Step) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<22} {:>11} {:>12} {:>13} {:>14}",
        "receive windows", "changed/s", "ACKs held/s", "no SYN seen/s", "shares in use"
    )];
    lines.extend(of(step, Sort::Receive).map(|one| {
        let each = |number| second(one.value(number).unwrap_or(0), step.interval);
        format!(
            "{:<22} {:>11.0} {:>12.0} {:>13.0} {:>14}",
            cut(one.object.label("device"), 22),
            each(Number::ReceiveRewritten),
            each(Number::ReceiveHeld),
            each(Number::ReceiveUnknown),
            one.value(Number::ReceiveActive).unwrap_or(0)
        )
    }));
    or_nothing(lines)
}

/// Returns no lines if there are only the column heads.
fn or_nothing(lines: Vec<String>) -> Vec<String> {
    if lines.len() > 1 { lines } else { Vec::new() }
}

/// Returns a rate in at most eight columns.
fn short(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.1} Mb", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.0} kb", rate / 1e3),
        rate => format!("{rate:.0} b"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weirgate_watch::Object;

    fn change(sort: Sort, labels: &[(&'static str, &str)], values: &[(Number, i64)]) -> Change {
        Change {
            object: Object {
                sort,
                identity: String::new(),
                begins: false,
                labels: labels
                    .iter()
                    .map(|(name, value)| (*name, (*value).to_owned()))
                    .collect(),
                numbers: Vec::new(),
            },
            values: values.to_vec(),
            verdict: None,
        }
    }

    fn step(changes: Vec<Change>, flows: Vec<Flow>) -> Step {
        Step {
            time: 0,
            interval: 1000,
            changes,
            flows: Arc::new(flows),
            alerts: Arc::default(),
            links: Vec::new(),
        }
    }

    fn flow(host: &str, remote: &str) -> Flow {
        Flow {
            protocol: String::from("tcp"),
            host: host.parse().unwrap(),
            host_port: 40_000,
            remote: remote.parse().unwrap(),
            remote_port: 443,
            up_class: None,
            down_class: None,
            up: 1_000,
            down: 12_345_678,
            kind: Some("real-time"),
        }
    }

    #[test]
    fn ends_of_flows_are_whole() {
        let long = "2001:db8:ffff:ffff:ffff:ffff:ffff:fff1";
        let other = "2001:db8:ffff:ffff:ffff:ffff:ffff:fff2";
        let found = step(Vec::new(), vec![flow(long, other)]);
        for (width, count) in [(80, 4), (200, 2)] {
            let lines = flows(&found, 9, width);
            assert_eq!(lines.len(), count, "{lines:#?}");
            assert!(lines.iter().all(|line| line.len() <= width), "{lines:#?}");
            let text = lines.join("\n");
            assert!(text.contains(&format!("[{long}]:40000 ")), "{text}");
            assert!(text.contains(&format!("[{other}]:443")), "{text}");
            assert!(text.contains("12.35 Mbit"), "{text}");
            assert!(text.contains("real-time"), "{text}");
        }
        let found = step(Vec::new(), vec![flow("192.0.2.7", "198.51.100.200")]);
        let lines = flows(&found, 9, 80);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len(), 78);
    }

    #[test]
    fn what_has_no_queue_has_lines() {
        let colour = |name, bytes| {
            let labels = [
                ("device", "wan"),
                ("at", "enter"),
                ("conditioner", "gold"),
                ("colour", name),
            ];
            change(
                Sort::Conditioner,
                &labels,
                &[(Number::ConditionerBytes, bytes)],
            )
        };
        let found = step(
            vec![
                colour("green", 125_000),
                colour("red", 1_000),
                change(
                    Sort::Tin,
                    &[
                        ("device", "wan"),
                        ("parent", "2:10"),
                        ("tin", "best effort"),
                    ],
                    &[
                        (Number::TinSentBytes, 1_250_000),
                        (Number::TinDelay, 5_000),
                        (Number::TinDrops, 3),
                    ],
                ),
                change(
                    Sort::Receive,
                    &[("device", "wan")],
                    &[(Number::ReceiveRewritten, 40), (Number::ReceiveActive, 2)],
                ),
                change(
                    Sort::Connections,
                    &[],
                    &[
                        (Number::ConnectionsTracked, 9),
                        (Number::ConnectionsUnsorted, 4),
                    ],
                ),
                change(
                    Sort::Service,
                    &[("protocol", "tcp"), ("port", "443")],
                    &[(Number::ServiceConnections, 7)],
                ),
                change(
                    Sort::Service,
                    &[("protocol", "udp"), ("port", "53")],
                    &[(Number::ServiceConnections, 8)],
                ),
            ],
            Vec::new(),
        );
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let all = conditioners(&found);
        assert_eq!(words(&all[1]), "gold enter wan 1.00 Mbit - 8.0 kbit");
        let all = tins(&found, &Legend::default());
        assert_eq!(words(&all[1]), "wan 2:10 best effort 10.0 Mb 0 5.0 0 3 0");
        let all = windows(&found);
        assert_eq!(words(&all[1]), "wan 40 0 0 2");
        let all = services(&found);
        assert_eq!(all[1], "the classes of 4 are not found yet");
        assert_eq!(
            (&*words(&all[4]), &*words(&all[5])),
            ("udp 53 8 0", "tcp 443 7 0")
        );
        let nothing = step(Vec::new(), Vec::new());
        assert!(tins(&nothing, &Legend::default()).is_empty());
        assert!(conditioners(&nothing).is_empty() && windows(&nothing).is_empty());
        assert!(services(&nothing)[0].contains("CAP_NET_ADMIN"));
        for line in [
            conditioners(&found),
            tins(&found, &Legend::default()),
            windows(&found),
            services(&found),
        ]
        .concat()
        {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
