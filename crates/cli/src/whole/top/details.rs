// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The detailed views of `weirgate top`: more about classes, queues, rules and events. Lines fit 80
//! columns.

use crate::policy::show::human;
use crate::whole::top::format::{bits, cut, ms, of, second};
use weirgate_history::Event;
use weirgate_units::Arrange as _;
use weirgate_watch::{Change, Legend, Number, Object, Sort, Step};

/// Returns a fraction in percent, or a dash if it is not known.
fn percent(part: Option<f64>) -> String {
    part.map_or(String::from("-"), |part| format!("{:.0}", part * 100.0))
}

/// Returns a fraction of a whole, or `None` if the whole is zero or unknown.
fn part(some: Option<i64>, whole: Option<i64>) -> Option<f64> {
    let whole = whole.filter(|whole| *whole > 0)?;
    Some((some? as f64 / whole as f64).min(1.0))
}

/// Returns the second table of classes: measured waits, round trips, marks, the borrowed share, and
/// the overhead of the link layer.
pub fn classes(all: &[&Change], step: &Step, legend: &Legend) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<22} {:>8} {:>8} {:>8} {:>8} {:>7} {:>5} {:>5}",
        "class", "waited", "95 %", "rtt out", "rtt in", "marks/s", "borr%", "link%"
    )];
    lines.extend(all.iter().map(|one| {
        let number = |number| one.value(number);
        let marks = number(Number::ClassMarks);
        // The mean lengths of packets, in IP bytes and on the wire.
        let ip = part_of_packets(one, Number::ClassIpBytes, Number::ClassTimed);
        let wire = part_of_packets(one, Number::ClassSentBytes, Number::ClassSentPackets);
        let layer = ip.zip(wire).map(|(ip, wire)| (1.0 - ip / wire).max(0.0));
        format!(
            "{:<22} {:>8} {:>8} {:>8} {:>8} {:>7} {:>5} {:>5}",
            cut(&class_name(&one.object, legend), 22),
            ms(number(Number::ClassMeanWait)),
            ms(number(Number::ClassHighWait)),
            ms(number(Number::ClassBeyond)),
            ms(number(Number::ClassHere)),
            marks.map_or(String::from("-"), |marks| {
                format!("{:.0}", second(marks, step.interval))
            }),
            percent(part(
                number(Number::ClassBorrowed),
                number(Number::ClassSentPackets)
            )),
            percent(layer),
        )
    }));
    lines
}

/// Returns the lines for waits, drops and marks of packets to hosts, if they are known.
pub fn hosts(all: &[&Change], step: &Step) -> Vec<String> {
    let known = |one: &&&Change| one.value(Number::HostDrops).is_some();
    if all.is_empty() || !all.iter().any(|one| known(&one)) {
        return vec![
            String::from("waits, drops and marks of hosts are not known: packets to them are not"),
            String::from("shaped at the device that leads to them"),
        ];
    }
    let mut lines = vec![format!(
        "{:<39} {:>8} {:>8} {:>9} {:>9}",
        "host", "wait ms", "waiting", "drop/s", "mark/s"
    )];
    lines.extend(all.iter().filter(known).map(|one| {
        let each = |number| {
            let value = one.value(number);
            value.map_or(String::from("not known"), |value| {
                format!("{:.0}", second(value, step.interval))
            })
        };
        let backlog = one.value(Number::HostBacklog).unwrap_or(0);
        format!(
            "{:<39} {:>8} {:>8.1} {:>9} {:>9}",
            cut(one.object.label("host"), 39),
            ms(one.value(Number::HostWait)),
            backlog as f64 / 1000.0,
            each(Number::HostDrops),
            each(Number::HostMarks),
        )
    }));
    lines
}

fn part_of_packets(one: &Change, bytes: Number, packets: Number) -> Option<f64> {
    let packets = one.value(packets).filter(|packets| *packets > 0)?;
    Some(one.value(bytes)? as f64 / packets as f64)
}

/// Returns the name of a class.
pub fn class_name(object: &Object, legend: &Legend) -> String {
    let [device, direction, class] =
        ["device", "direction", "class"].map(|label| object.label(label));
    legend.class_name(device, direction, class)
}

/// Returns the class of a queue, or its device and parent if the policy does not name it.
pub fn queue_name(object: &Object, legend: &Legend) -> String {
    let parent = object.label("parent");
    let own = parent.parse().ok();
    let own = own.and_then(|handle| legend.class(object.label("device"), handle));
    match own {
        Some(class) => legend.class_name(&class.device, &class.direction, &class.name),
        None => format!("{} {parent}", object.label("device")),
    }
}

/// Returns the lines for queues, with the numbers of their queue management.
pub fn queues(step: &Step, legend: &Legend) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<22} {:<16} {:>7} {:>9} {:>8} {:>5} {:>7}",
        "queue", "kind", "waits", "delay ms", "drops by", "flows", "drop/s"
    )];
    let shown = of(step, Sort::Qdisc).filter(|one| one.object.label("kind") != "noqueue");
    let known = |value: Option<i64>| value.map_or(String::from("-"), |value| value.to_string());
    lines.extend(shown.map(|one| {
        let object = &one.object;
        let name = queue_name(object, legend);
        let probability = one.value(Number::QdiscProbability);
        let by = match (probability, one.value(Number::QdiscDropping)) {
            (Some(part), _) => format!("{:.2} %", part as f64 / 1e4),
            (None, Some(0)) => String::from("no"),
            (None, Some(_)) => String::from("yes"),
            (None, None) => String::from("-"),
        };
        format!(
            "{:<22} {:<16} {:>7} {:>9} {by:>8} {:>5} {:>7.0}",
            cut(&name, 22),
            cut(object.label("kind"), 16),
            known(one.value(Number::QdiscBacklogPackets)),
            ms(one.value(Number::QdiscDelay)),
            known(one.value(Number::QdiscFlows)),
            second(one.value(Number::QdiscDrops).unwrap_or(0), step.interval),
        )
    }));
    lines
}

/// Returns the lines for rules with their counters, in the policy's order.
pub fn rules(step: &Step, legend: &Legend) -> Vec<String> {
    let mut rules: Vec<_> = of(step, Sort::Rule)
        .map(|one| {
            let counter = one.object.label("rule");
            let mut known = legend.rules.iter();
            let rule = known.find(|rule| rule.counter == counter);
            let (line, why) = rule.map_or((0, ""), |rule| (rule.line, &*rule.reason));
            let words = format!("{counter}: {why}");
            (line, words, one)
        })
        .collect();
    if rules.is_empty() {
        return vec![String::from(
            "no rule counts, or the counters may not be read (CAP_NET_ADMIN)",
        )];
    }
    rules.arrange_by_key(|(line, words, _)| (*line, words.clone()));
    let mut lines = vec![format!(
        "{:>5} {:<50} {:>9} {:>12}",
        "line", "rule", "pkt/s", "rate"
    )];
    lines.extend(rules.into_iter().map(|(line, words, one)| {
        let value = |number| one.value(number).unwrap_or(0);
        format!(
            "{line:>5} {:<50} {:>9.0} {:>12}",
            cut(&words, 50),
            second(value(Number::RulePackets), step.interval),
            human(bits(value(Number::RuleBytes), step.interval)),
        )
    }));
    lines
}

/// Returns the lines for the events since the start, the latest first, with their age.
pub fn events<'a>(step: &Step, events: impl DoubleEndedIterator<Item = &'a Event>) -> Vec<String> {
    let line = |event: &Event| {
        let ago = (step.time - event.time).max(0) / 1000;
        format!("{ago:>7} s ago  {:<7} {}", event.kind, event.text)
    };
    let lines: Vec<String> = events.rev().map(line).collect();
    if lines.is_empty() {
        return vec![String::from("nothing has happened yet")];
    }
    lines
}
