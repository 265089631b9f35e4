// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of `weirgate top`. They need no colour and fit 80 columns.

use crate::policy::show::human;
use crate::whole::top::circuits::circuits;
use crate::whole::top::connections as passed;
use crate::whole::top::details as inside;
use crate::whole::top::format::{bits, cut, ms, of, second};
use std::cmp::Reverse;
use std::collections::VecDeque;
use weirgate_history::Event;
use weirgate_units::Arrange as _;
use weirgate_watch::{By, Change, Legend, Number, Promise, Sort, Step};

/// The selected view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// Some lines of every part.
    #[default]
    All,
    /// All classes.
    Classes,
    /// All hosts.
    Hosts,
    /// All devices, and their circuits that have counters.
    Devices,
    /// The flows with most traffic.
    Flows,
    /// Queues with the numbers of their management, cake's tins, conditioners, and receive windows.
    Queues,
    /// Connections, by destination service.
    Services,
    /// Rules and their counters.
    Rules,
    /// Events.
    Events,
}

/// The order of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The rate of both directions together.
    #[default]
    Rate,
    /// The rate to the host.
    Down,
    /// The rate from the host.
    Up,
    /// The longer of the two round trips.
    RoundTrip,
    /// The address.
    Name,
}

impl Order {
    /// Returns the next order.
    pub fn next(self) -> Self {
        match self {
            Self::Rate => Self::Down,
            Self::Down => Self::Up,
            Self::Up => Self::RoundTrip,
            Self::RoundTrip => Self::Name,
            Self::Name => Self::Rate,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Down => "down",
            Self::Up => "up",
            Self::RoundTrip => "round trip",
            Self::Name => "address",
        }
    }
}

/// The view and its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct View {
    /// The selected view.
    pub part: Part,
    /// The order of hosts.
    pub order: Order,
}

/// The data on the screen.
#[derive(Debug)]
pub struct Look {
    /// The changes since the previous sample.
    pub step: Step,
    /// The reason why packets are not measured, if they are not.
    pub blind: Option<String>,
    /// The events since the start, the latest last.
    pub events: VecDeque<Event>,
}

/// The words for a broken promise: of the rate, and of the wait.
pub const BROKEN: [&str; 2] = ["RATE LOW", "WAIT LONG"];

/// The most hosts and devices in the view of everything, and the most flows.
const FEW: usize = 8;
const FEW_FLOWS: usize = 4;

/// Returns the lines of a sample, at most `width` columns each.
pub fn lines(look: &Look, legend: &Legend, view: View, width: usize) -> Vec<String> {
    let (step, blind) = (&look.step, look.blind.as_deref());
    let shown = |part| view.part == Part::All || view.part == part;
    let most = if view.part == Part::All {
        FEW
    } else {
        usize::MAX
    };
    let mut lines = links(step, legend);
    let mut add = |more: Vec<String>| {
        if !lines.is_empty() && !more.is_empty() {
            lines.push(String::new());
        }
        lines.extend(more);
    };
    if shown(Part::Classes) {
        let all = shown_classes(step);
        add(classes(&all, step, legend));
        if view.part == Part::Classes {
            add(inside::classes(&all, step, legend));
        }
    }
    match view.part {
        Part::Queues => {
            add(inside::queues(step, legend));
            add(passed::tins(step, legend));
            add(passed::conditioners(step));
            add(passed::windows(step));
        }
        Part::Services => add(passed::services(step)),
        Part::Rules => add(inside::rules(step, legend)),
        Part::Events => add(inside::events(step, look.events.iter())),
        _ => {}
    }
    if shown(Part::Hosts) {
        let (hosts, lines) = hosts(step, blind, view, most);
        add(lines);
        if view.part == Part::Hosts {
            add(inside::hosts(&hosts, step));
        }
    }
    if shown(Part::Flows) {
        let few = if view.part == Part::All {
            FEW_FLOWS
        } else {
            most
        };
        add(passed::alerts(step));
        add(passed::flows(step, few, width));
    }
    if shown(Part::Devices) {
        add(circuits(step, most));
        add(devices(step, most));
    }
    if view.part == Part::All {
        add(probes(step));
    }
    lines.into_iter().map(|line| cut(&line, width)).collect()
}

fn links(step: &Step, legend: &Legend) -> Vec<String> {
    let line = |(direction, device, gate): &(_, String, u64)| {
        let own = |one: &&Change| {
            one.object.label("device") == device && !one.object.label("direction").is_empty()
        };
        let classes = of(step, Sort::Class).filter(own);
        // The classes of BPF qdiscs are in maps that only root may read.
        let sent = classes.filter_map(|one| one.value(Number::ClassSentBytes));
        let rate = sent.reduce(|all, one| all + one);
        let rate = rate.map(|sent| bits(sent, step.interval));
        let mut links = of(step, Sort::Link);
        let link = links.find(|one| one.object.label("device") == device);
        let now = link.and_then(|link| link.object.number(Number::LinkRate));
        let gate = now.unwrap_or(*gate);
        let tracked = link.and_then(|link| link.object.number(Number::LinkLine));
        let tracked = tracked.map_or_else(String::new, |rate| {
            format!(", the line has {}", human(rate as f64))
        });
        let share = rate.filter(|_| gate > 0).map_or_else(String::new, |rate| {
            format!(" ({:.0} %)", rate * 100.0 / gate as f64)
        });
        format!(
            "{direction:<5} {device}: {} of {}{share}{tracked}",
            rate.map_or_else(|| String::from("-"), human),
            human(gate as f64)
        )
    };
    legend.links.iter().map(line).collect()
}

/// Returns the classes of the policy, or all classes without a policy. The classes above those of
/// the policy would count the same bytes again.
fn shown_classes(step: &Step) -> Vec<&Change> {
    let named = |one: &Change| !one.object.label("direction").is_empty();
    let any = of(step, Sort::Class).any(named);
    let all = of(step, Sort::Class);
    all.filter(|one| !any || named(one)).collect()
}

fn classes(all: &[&Change], step: &Step, legend: &Legend) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<22} {:>9} {:>8} {:>7} {:>7} {:>8} {:>10}",
        "class", "rate", "pkt/s", "drop/s", "waits", "wait ms", "promise"
    )];
    lines.extend(all.iter().map(|one| class_line(one, step, legend)));
    let estimated = |one: &&Change| {
        let wait = one.value(Number::ClassMeanWait);
        wait.or(one.value(Number::ClassWait).filter(|wait| *wait == 0))
            .is_none()
    };
    if all.iter().any(estimated) {
        lines.push(String::from(
            "~ is estimated, not measured packet by packet",
        ));
    }
    lines
}

/// Returns the hosts in the selected order, and their lines: the rates to and from them, and the
/// round trips of their TCP on either side of this machine.
fn hosts<'a>(
    step: &'a Step,
    blind: Option<&str>,
    view: View,
    most: usize,
) -> (Vec<&'a Change>, Vec<String>) {
    let mut hosts: Vec<&Change> = of(step, Sort::Host).collect();
    if hosts.is_empty() {
        let lines = match (blind, view.part) {
            (Some(why), _) => vec![format!("hosts: {why}")],
            (None, Part::Hosts) => vec![String::from("no host was seen")],
            (None, _) => Vec::new(),
        };
        return (hosts, lines);
    }
    let value = |one: &Change, number| one.value(number).unwrap_or(0);
    let down = |one: &Change| value(one, Number::HostReceivedBytes);
    let up = |one: &Change| value(one, Number::HostSentBytes);
    let trip = |one: &Change| value(one, Number::HostHere).max(value(one, Number::HostBeyond));
    hosts.arrange_by_key(|one| {
        let by = match view.order {
            Order::Rate => up(one) + down(one),
            Order::Down => down(one),
            Order::Up => up(one),
            Order::RoundTrip => trip(one),
            Order::Name => 0,
        };
        let address: Option<std::net::IpAddr> = one.object.label("host").parse().ok();
        (Reverse(by), address)
    });
    let mut lines = vec![format!(
        "{:<39} {:>11} {:>11} {:>7} {:>7}",
        format!(
            "host ({} of {}, by {})",
            most.min(hosts.len()),
            hosts.len(),
            view.order.word()
        ),
        "down",
        "up",
        "ms in",
        "ms out"
    )];
    lines.extend(hosts.iter().take(most).map(|one| {
        format!(
            "{:<39} {:>11} {:>11} {:>7} {:>7}",
            cut(one.object.label("host"), 39),
            human(bits(down(one), step.interval)),
            human(bits(up(one), step.interval)),
            ms(one.value(Number::HostHere)),
            ms(one.value(Number::HostBeyond))
        )
    }));
    (hosts, lines)
}

fn devices(step: &Step, most: usize) -> Vec<String> {
    let mut devices: Vec<&Change> = of(step, Sort::Device).collect();
    devices.arrange_by_key(|one| {
        let number = |number| one.value(number).unwrap_or(0);
        Reverse(number(Number::DeviceSentBytes) + number(Number::DeviceReceivedBytes))
    });
    let mut lines = vec![format!(
        "{:<22} {:>12} {:>12} {:>9}",
        "device", "received", "sent", "drop/s"
    )];
    lines.extend(devices.into_iter().take(most).map(|one| {
        let rate = |number| human(bits(one.value(number).unwrap_or(0), step.interval));
        let drops = one.value(Number::DeviceSentDrops).unwrap_or(0);
        format!(
            "{:<22} {:>12} {:>12} {:>9.0}",
            cut(one.object.label("device"), 22),
            rate(Number::DeviceReceivedBytes),
            rate(Number::DeviceSentBytes),
            second(drops, step.interval)
        )
    }));
    lines
}

fn probes(step: &Step) -> Vec<String> {
    let line = |one: &Change| {
        let rtt = one.value(Number::ProbeRtt);
        let rtt = rtt.map_or(String::from("no answer"), |rtt| {
            format!("{:.1} ms", rtt as f64 / 1000.0)
        });
        let number = |number| one.object.number(number).unwrap_or(0);
        format!(
            "probe {} to {}: {rtt}, {} of {} lost",
            cut(one.object.label("probe"), 20),
            one.object.label("host"),
            number(Number::ProbeLost),
            number(Number::ProbeSent)
        )
    };
    of(step, Sort::Probe).map(line).collect()
}

fn class_line(one: &Change, step: &Step, legend: &Legend) -> String {
    let object = &one.object;
    let name = inside::class_name(object, legend);
    let number = |number| one.value(number);
    let known = |text: Option<String>| text.unwrap_or_else(|| String::from("-"));
    // Use the wait that was measured packet by packet, or else the estimate.
    let wait = match (number(Number::ClassMeanWait), number(Number::ClassWait)) {
        (Some(mean), _) => Some(format!("{:.1}", mean as f64 / 1000.0)),
        (None, Some(0)) => Some(String::from("0.0")),
        (None, wait) => wait.map(|wait| format!("~{:.1}", wait as f64 / 1000.0)),
    };
    let rough = match one.verdict.and_then(|verdict| verdict.by) {
        Some(By::Estimated) => "~",
        _ => "",
    };
    let promise = match one.verdict.map(|verdict| verdict.promise) {
        None => "",
        Some(Promise::Idle) => "idle",
        Some(Promise::Kept) => "kept",
        Some(Promise::Rate) => BROKEN[0],
        Some(Promise::Wait) => BROKEN[1],
        Some(Promise::Unknown) => "?",
    };
    let promise = format!("{rough}{promise}");
    let by_second = |value: Option<i64>| {
        known(value.map(|value| format!("{:.0}", second(value, step.interval))))
    };
    format!(
        "{:<22} {:>9} {:>8} {:>7} {:>7} {:>8} {:>10}",
        cut(&name, 22),
        known(number(Number::ClassSentBytes).map(|sent| human(bits(sent, step.interval)))),
        by_second(number(Number::ClassSentPackets)),
        by_second(number(Number::ClassDrops)),
        known(number(Number::ClassBacklogPackets).map(|packets| packets.to_string())),
        known(wait),
        promise
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_watch::Flow;
    use weirgate_watch::Object;

    fn change(sort: Sort, labels: &[(&'static str, &str)], values: Vec<(Number, i64)>) -> Change {
        let owned = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
        Change {
            object: Object {
                sort,
                identity: String::new(),
                begins: false,
                labels: labels.iter().map(owned).collect(),
                numbers: Vec::new(),
            },
            values,
            verdict: None,
        }
    }

    fn host(address: &str, down: i64, up: i64, trip: Option<i64>) -> Change {
        let mut values = vec![(Number::HostReceivedBytes, down)];
        values.push((Number::HostSentBytes, up));
        values.extend(trip.map(|trip| (Number::HostBeyond, trip)));
        change(Sort::Host, &[("device", "lan"), ("host", address)], values)
    }

    fn class(device: &str, sent: Option<i64>) -> Change {
        let labels = [("device", device), ("direction", "up"), ("class", "voice")];
        let values = sent.map(|sent| (Number::ClassSentBytes, sent));
        change(Sort::Class, &labels, values.into_iter().collect())
    }

    /// What cannot be read is no zero, and of several links each class has its device.
    #[test]
    fn links_have_what_is_known_of_their_classes() {
        let mut look = Look {
            step: Step {
                time: 0,
                interval: 1000,
                changes: vec![class("wan", Some(125_000)), class("wan", Some(0))],
                flows: std::sync::Arc::default(),
                alerts: std::sync::Arc::default(),
                links: Vec::new(),
            },
            blind: None,
            events: VecDeque::new(),
        };
        let link = |device: &str| (String::from("up"), device.to_owned(), 10_000_000);
        let mut legend = Legend {
            links: vec![link("wan")],
            ..Legend::default()
        };
        let found = lines(&look, &legend, View::default(), 80);
        assert_eq!(found[0], "up    wan: 1.00 Mbit of 10.00 Mbit (10 %)");
        assert!(found[3].starts_with("up voice  "), "{found:#?}");
        legend.links.push(link("dsl"));
        look.step.changes.push(class("dsl", None));
        let found = lines(&look, &legend, View::default(), 80);
        assert_eq!(found[1], "up    dsl: - of 10.00 Mbit");
        let text = found.join("\n");
        for name in ["\nwan up voice  ", "\ndsl up voice  "] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn hosts_are_ordered_and_fit_eighty_columns() {
        let long = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff";
        let step = Step {
            time: 0,
            interval: 1000,
            links: Vec::new(),
            changes: vec![
                host("192.0.2.7", 1_000, 125_000_000, Some(20_000)),
                host(long, 2_000_000, 5, Some(1_234_567)),
                host("192.0.2.10", 10, 10, None),
            ],
            flows: std::sync::Arc::new(vec![Flow {
                protocol: String::from("tcp"),
                host: long.parse().unwrap(),
                host_port: 40_000,
                remote: long.parse().unwrap(),
                remote_port: 443,
                up_class: None,
                down_class: None,
                up: 1_000,
                down: 12_345_678,
                kind: None,
            }]),
            alerts: std::sync::Arc::default(),
        };
        let view = View {
            part: Part::Flows,
            order: Order::Rate,
        };
        let mut look = Look {
            step,
            blind: None,
            events: VecDeque::new(),
        };
        let found = lines(&look, &Legend::default(), view, 80);
        assert!(
            found[2].contains("12.35 Mbit") && found[2].chars().count() <= 80,
            "{found:?}"
        );
        let order = |order| {
            let view = View {
                part: Part::Hosts,
                order,
            };
            let lines = lines(&look, &Legend::default(), view, 80);
            assert!(
                lines.iter().all(|line| line.chars().count() <= 80),
                "{lines:#?}"
            );
            let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
            lines[1..4].iter().map(first).collect::<Vec<_>>()
        };
        let (seven, ten) = ("192.0.2.7", "192.0.2.10");
        assert_eq!(order(Order::Rate), [seven, long, ten]);
        assert_eq!(order(Order::Down), [long, seven, ten]);
        assert_eq!(order(Order::Up), [seven, ten, long]);
        assert_eq!(order(Order::RoundTrip), [long, seven, ten]);
        assert_eq!(order(Order::Name), [seven, ten, long]);
        let all = lines(&look, &Legend::default(), View::default(), 80).join("\n");
        assert!(all.contains("1.00 Gbit       -    20.0\n"), "{all}");
        look.step.changes.clear();
        look.blind = Some(String::from("not\x1ballowed"));
        let none = lines(&look, &Legend::default(), View::default(), 80);
        assert!(
            none.contains(&String::from("hosts: not?allowed")),
            "{none:?}"
        );
    }
}
