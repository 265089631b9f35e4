// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits status`.

use super::files;
use super::live::{change_json, here, refused, summary};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weirgate_circuits::Direction;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_console::time::calendar;
use weirgate_keep::{Circuits, CircuitsNow, InForce, ListNow, WaitingNow, hours_now};
use weirgate_state::DeviceName;
use weirgate_units::Rate;

/// The most plans with hours that the text shows.
const MOST: usize = 12;

/// Returns the text for what is in force, and how it differs from the list.
fn in_force(now: &CircuitsNow) -> String {
    match &now.in_force {
        InForce::NoDevice => "not in force: the device is not there".to_owned(),
        InForce::Missing(what) => format!("not completely in force: {what}"),
        InForce::NotKept => "in force, but no list is stored: `weirgate circuits apply` stores \
                             one, `remove --all` removes the circuits"
            .to_owned(),
        InForce::Rows(_) if now.is_whole() => {
            "in force: every row and key is as the list says".to_owned()
        }
        InForce::Rows(change) => format!(
            "in force with differences: the list wants {}",
            summary(change)
        ),
    }
}

/// Returns the text for a list: its contents, and when it was applied.
fn list(list: &ListNow) -> String {
    let kept = &list.kept;
    let direction = match kept.direction {
        Direction::Down => "to subscribers",
        Direction::Up => "from subscribers",
    };
    let mut text = format!(
        "{}, {}; {direction}",
        files::summary(&kept.list),
        output::count(kept.list.plans.len(), "plan")
    );
    if let Some(rate) = kept.link {
        let _ = write!(text, ", {rate} in all");
    }
    let _ = write!(text, "\n  list {}", list.digest);
    if let Some(time) = list.applied {
        let _ = write!(text, ", applied {}", calendar(time));
    }
    if let Some((time, count)) = list.changed {
        let changes = output::count(count, "change");
        let _ = write!(
            text,
            ", then {changes} of single circuits, the last {}",
            calendar(time)
        );
    }
    if let Some(why) = &list.damaged {
        let _ = write!(
            text,
            "\n  its file is damaged ({why}): this is what is sound of it"
        );
    }
    text
}

/// Returns the text for the plans: which hours and quotas apply now.
fn plans(list: &ListNow) -> String {
    let mut text = String::new();
    let timed = list
        .kept
        .list
        .plans
        .iter()
        .filter(|plan| !plan.times.is_empty());
    for (number, plan) in timed.enumerate() {
        if number == MOST {
            text.push_str("\n  ... and more plans, which --json has");
            break;
        }
        let _ = match hours_now(plan) {
            Some(hours) => write!(text, "\n  plan {}: the terms for {hours} apply", plan.name),
            None => write!(
                text,
                "\n  plan {}: the terms for other hours apply",
                plan.name
            ),
        };
    }
    if list.until < u64::MAX {
        let _ = write!(
            text,
            "\n  no plan changes its terms before {}",
            calendar(list.until)
        );
    }
    let [metered, up] = list.quotas;
    if metered > 0 {
        let _ = write!(
            text,
            "\n  quotas: {up} of {} that have one have used it up this month",
            output::count(metered, "circuit")
        );
    }
    text
}

/// Returns the text for a change that waits for confirmation, or that can be undone.
fn waits(waiting: &WaitingNow, at: u64) -> String {
    let names: Vec<&str> = waiting
        .devices
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let names = names.join(", ");
    match waiting.seconds {
        None => format!(
            "{names}: confirmed; `weirgate circuits rollback` goes back to the former lists"
        ),
        Some(0) => format!(
            "{names}: not confirmed in time; `weirgate keep` or the next command that changes \
             circuits restores the former lists"
        ),
        Some(left) => format!(
            "{names}: waits for `weirgate circuits confirm` until {}; {left} s are left",
            calendar(at + left)
        ),
    }
}

fn json(name: &DeviceName, now: &CircuitsNow) -> Value {
    let mut value = Map::new();
    let mut put = |name: &str, one: Value| value.insert(name.to_owned(), one);
    put("device", name.as_str().into());
    put("whole", now.is_whole().into());
    put("in_force", in_force(now).into());
    if let InForce::Rows(change) = &now.in_force {
        put("differs", change_json(change));
    }
    if let Some(own) = &now.list {
        let kept = &own.kept;
        put("circuits", kept.list.circuits.len().into());
        put("sites", kept.list.sites.len().into());
        put("plans", kept.list.plans.len().into());
        put("up", (kept.direction == Direction::Up).into());
        put(
            "rate_bits_s",
            kept.link.map(Rate::as_bits_per_second).into(),
        );
        put("digest", own.digest.as_str().into());
        put("applied", own.applied.into());
        put("changed", own.changed.map(|(time, _)| time).into());
        put("changes", own.changed.map_or(0, |(_, count)| count).into());
        put(
            "plans_until",
            Some(own.until).filter(|end| *end < u64::MAX).into(),
        );
        let timed = kept.list.plans.iter().filter(|plan| !plan.times.is_empty());
        let hours = timed.map(|plan| (plan.name.clone(), Value::from(hours_now(plan))));
        put("hours", hours.collect::<Value>());
        put("with_quota", own.quotas[0].into());
        put("used_up", own.quotas[1].into());
    }
    value.into()
}

/// `weirgate circuits status`. The exit status is 1 if a device's circuits differ from the stored
/// list.
pub(super) fn status(state: &Path, as_json: bool) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let held = Circuits::are_held(&folders);
        let mut all: Vec<(DeviceName, CircuitsNow)> = Vec::new();
        let mut waiting = None;
        // Without circuits, the answer needs no privilege.
        if Circuits::are_there(&folders) {
            let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
            waiting = circuits.waiting().map_err(refused)?;
            for name in circuits.beside(&[]).await.map_err(refused)? {
                let now = circuits.status(&name).await.map_err(refused)?;
                all.push((name, now));
            }
        }
        if as_json {
            show_json(&all, waiting.as_ref(), held)?;
        } else {
            show(&all, waiting.as_ref(), held)?;
        }
        let is_whole = all.iter().all(|(_, now)| now.is_whole());
        Ok(if is_whole {
            Status::Done
        } else {
            Status::Differs
        })
    })
}

fn show_json(
    all: &[(DeviceName, CircuitsNow)],
    waiting: Option<&WaitingNow>,
    held: bool,
) -> Result<(), Failure> {
    let devices = all.iter().map(|(name, now)| json(name, now));
    let mut value = Map::new();
    value.insert("devices".to_owned(), devices.collect::<Value>());
    value.insert("held".to_owned(), held.into());
    if let Some(waiting) = waiting {
        let names = waiting.devices.iter().map(|(name, _)| name.as_str());
        let mut own = Map::new();
        own.insert("devices".to_owned(), names.collect::<Value>());
        own.insert("confirmed".to_owned(), waiting.seconds.is_none().into());
        own.insert("seconds".to_owned(), waiting.seconds.into());
        value.insert("change".to_owned(), own.into());
    }
    output::data(&format!("{}\n", Value::from(value)))?;
    Ok(())
}

fn show(
    all: &[(DeviceName, CircuitsNow)],
    waiting: Option<&WaitingNow>,
    held: bool,
) -> Result<(), Failure> {
    let mut text = String::new();
    for (name, now) in all {
        let own = now.list.as_ref();
        let _ = writeln!(
            text,
            "{name}: {}\n  {}{}",
            own.map_or_else(|| "no list is stored".to_owned(), list),
            in_force(now),
            own.map(plans).unwrap_or_default()
        );
    }
    if all.is_empty() {
        text.push_str("no device has circuits\n");
    }
    if let Some(waiting) = waiting {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let _ = writeln!(
            text,
            "{}",
            waits(waiting, time.unwrap_or_default().as_secs())
        );
    }
    if !all.is_empty() {
        text.push_str(if held {
            "`weirgate keep` runs: lists stay in force, hours and quotas are followed\n"
        } else {
            "`weirgate keep` does not run: lost circuits are not restored, and hours and quotas \
             are not followed\n"
        });
    }
    output::lines(&text)?;
    Ok(())
}
