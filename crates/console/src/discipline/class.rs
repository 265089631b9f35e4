// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of a shaper's class: its place behind the gate and its queue.

use super::{discipline, set};
use crate::exit::{Failure, wrong};
use weirgate_aqm::{Settings, ShaperRule};
use weirgate_bpf::Class;
use weirgate_units::{Handle, Rate};

/// The largest weight and priority.
const MOST_WEIGHT: u64 = 1 << 20;
const LAST_PRIORITY: u64 = 7;

/// Parses the number of a class in tc's form: `1:10`.
pub fn class_id(text: &str) -> Result<u32, Failure> {
    let handle: Result<Handle, _> = text.parse();
    handle
        .map(Handle::as_u32)
        .map_err(|error| wrong(format!("`{text}` names no class: {error}")))
}

/// Parses `1:10,priority=0,guarantee=102kbit,queue=codel,target_ns=5ms`. `queue` is the default
/// discipline with its parameters.
pub fn class(text: &str, queue: &Settings) -> Result<Class, Failure> {
    let mut words = text.split(',').map(str::trim);
    let mut class = Class {
        rule: ShaperRule {
            classid: class_id(words.next().unwrap_or_default())?,
            weight: 1,
            ..ShaperRule::default()
        },
        settings: queue.clone(),
    };
    let mut rest = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some(("queue", name)) => class.settings = Settings::new(discipline(name)?),
            _ => rest.push(word.to_owned()),
        }
    }
    configure(&mut class, &rest).map_err(|failure| about(text, failure))?;
    Ok(class)
}

/// Changes the configuration of an existing class, and keeps its backlog.
pub fn change(class: &mut Class, words: &[String]) -> Result<(), Failure> {
    if words.iter().any(|word| word.starts_with("queue=")) {
        return Err(wrong(
            "another discipline empties the queue, and `change` never does; load again with \
             --replace",
        ));
    }
    configure(class, words)
}

/// Sets the class's own fields, then its queue's parameters. Reports every mistake in the
/// parameters.
fn configure(class: &mut Class, words: &[String]) -> Result<(), Failure> {
    let mut params = Vec::new();
    let rule = &mut class.rule;
    for word in words {
        match word.split_once('=') {
            Some(("guarantee", value)) => rule.guarantee_bytes_s = rate("guarantee", value)?,
            Some(("ceiling", value)) => rule.ceiling_bytes_s = rate("ceiling", value)?,
            Some(("weight", value)) => rule.weight = number("weight", value, 1, MOST_WEIGHT)?,
            Some(("priority", value)) => {
                rule.priority = number("priority", value, 0, LAST_PRIORITY)? as u32;
            }
            // A parameter with the same name as one of these fields.
            Some(("queue.weight", value)) => params.push(format!("weight={value}")),
            _ => params.push(word.clone()),
        }
    }
    set(&mut class.settings, &params)
}

fn rate(name: &str, value: &str) -> Result<u64, Failure> {
    let rate: Result<Rate, _> = value.parse();
    rate.map(Rate::as_bytes_per_second)
        .map_err(|error| wrong(format!("{name} is `{value}`: {error}")))
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Result<u64, Failure> {
    let number: Option<u64> = value.parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| wrong(format!("{name} is `{value}`; write {least} to {most}")))
}

/// Adds the class to a failure's message.
fn about(text: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Input(message) => Failure::Input(format!("{message}\n  in --class {text}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_aqm::Discipline;

    fn red() -> Settings {
        Settings::new(Discipline::named("red").expect("red"))
    }

    #[test]
    fn a_change_keeps_what_is_not_named() {
        let text = "1:10,weight=3,guarantee=80kbit,queue.weight=0.25,limit_bytes=30kB";
        let mut own = class(text, &red()).expect("a class");
        let before = own.settings.clone();
        let words = ["weight=5", "priority=2"].map(str::to_owned);
        change(&mut own, &words).expect("a change");
        assert_eq!(
            (
                own.rule.weight,
                own.rule.priority,
                own.rule.guarantee_bytes_s
            ),
            (5, 2, 10_000)
        );
        assert_eq!(own.settings, before);
    }

    #[test]
    fn mistakes_are_reported_and_what_is_right() {
        let refusal = |text: &str| match class(text, &red()) {
            Err(Failure::Input(message)) => message,
            _ => panic!("{text}"),
        };
        assert!(refusal("1:10,weight=0").contains("write 1 to 1048576"));
        assert!(refusal("1:10,priority=8").contains("in --class 1:10,priority=8"));
        assert!(refusal("1:10,guarantee=fast").contains("guarantee is `fast`"));
        let mut own = class("1:10", &red()).expect("a class");
        assert!(change(&mut own, &["queue=codel".to_owned()]).is_err());
    }
}
