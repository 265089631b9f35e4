// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits apply` and `remove`, and changes of single circuits.

use super::files;
use crate::policy::change::say_mended;
use crate::whole::aqm::offloads;
use serde_json::{Value, json};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::time::Instant;
use weirgate_bpf::CircuitsChange;
use weirgate_circuits::kept::Kept;
use weirgate_circuits::{Asked, One, Plan, Wanted};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{Circuits, CircuitsDone, CircuitsRefused, Folders, OneQueue, Queues};
use weirgate_kernel::Kernel;
use weirgate_state::DeviceName;
use weirgate_units::Inserted as _;

/// Returns the failure, and so the exit status, of a refusal.
pub(super) fn refused(error: CircuitsRefused) -> Failure {
    if error.is_wrong() {
        return wrong(error);
    }
    Failure::Refused(error.to_string())
}

/// Returns a device's name, or an error if it is not valid.
pub(super) fn device(name: &str) -> Result<DeviceName, Failure> {
    DeviceName::new(name)
        .ok_or_else(|| wrong(format!("`{name}` cannot be a network device's name")))
}

/// Opens the kernel, and the folders of this network namespace.
pub(super) fn here(state: &Path) -> Result<(Folders, Kernel), Failure> {
    let folders = Folders::here(state).map_err(crate::policy::apply::refused)?;
    Ok((folders, Kernel::open()?))
}

/// Returns the counts of a change as text.
pub(super) fn summary(change: &CircuitsChange) -> String {
    let entries = if change.written == 1 {
        "entry"
    } else {
        "entries"
    };
    format!(
        "{} added, {} changed, {} removed, {} {entries} written",
        output::count(change.added, "node"),
        change.changed,
        change.removed,
        change.written
    )
}

/// Returns the counts of a change as JSON.
pub(super) fn change_json(change: &CircuitsChange) -> Value {
    let counts = [
        ("added", change.added),
        ("changed", change.changed),
        ("removed", change.removed),
        ("written", change.written),
    ];
    let counts = counts.map(|(name, count)| (name.to_owned(), count.into()));
    Value::Object(counts.into_iter().inserted())
}

/// Notes what was done besides the requested change.
pub(crate) fn say(name: &DeviceName, done: &CircuitsDone) {
    if done.reattached {
        output::note(&format!(
            "{name}: another program had removed a program of the circuits; it is attached again"
        ));
    }
    if done.switched {
        offloads::say_off(name);
    }
    if done.mended {
        say_mended(name);
    }
}

/// Notes what was done to put a list into force, besides the counts of the change.
pub(super) async fn say_done(
    kernel: &Kernel,
    name: &DeviceName,
    done: &CircuitsDone,
) -> Result<(), Failure> {
    say(name, done);
    if let Some(queues) = done.put {
        say_queues(name, queues);
        offloads::warn_of_joined(kernel, name).await?;
    }
    Ok(())
}

/// Notes how many transmit queues of the device send.
fn say_queues(name: &DeviceName, queues: Queues) {
    let why = match queues.one {
        Some(OneQueue::HasOne) => "it has no more".to_owned(),
        Some(OneQueue::OneSite) => "the list has one site below the link".to_owned(),
        Some(OneQueue::ByProcessor) => format!(
            "the kernel selects its queues by processor (XPS); for more, write 0 to each \
             /sys/class/net/{name}/queues/tx-*/xps_cpus and xps_rxqs, and apply again"
        ),
        None if queues.count == 1 => return,
        None => {
            output::note(&format!("{name}: {} queues share the rate", queues.count));
            return;
        }
    };
    output::note(&format!(
        "{name}: one queue, and so one processor, sends: {why}"
    ));
}

/// `weirgate circuits apply`.
pub(super) fn apply(
    state: &Path,
    (name, kept): (DeviceName, Kept),
    adopt: bool,
    document: &Document,
) -> Outcome {
    in_runtime(async {
        let (folders, kernel) = here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        let began = Instant::now();
        // Do not free the list: the process ends soon anyway, and freeing a hundred thousand
        // circuits takes longer than its end.
        let mut kept = ManuallyDrop::new(kept);
        let list = files::summary(&kept.list);
        let counts = document.is_wanted().then(|| files::counts(&kept.list));
        let done = circuits
            .apply(&name, &mut kept, adopt)
            .await
            .map_err(refused)?;
        say_done(&kernel, &name, &done).await?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        put_list(document, &name, counts, &done.change);
        document.note(&format!(
            "{name}: {list}; {}, in {took:.0} ms",
            summary(&done.change)
        ));
        Ok(Status::Done)
    })
}

/// Returns the circuit after `add` (`comes` is true) or `change`.
pub(super) fn becomes(
    (wanted, asked): (&Wanted, &Asked),
    comes: bool,
    old: Option<&One>,
    plans: &[Plan],
) -> Result<Option<One>, String> {
    let (name, id) = (&wanted.device, &wanted.circuit);
    if !comes && old.is_none() {
        return Err(format!(
            "there is no circuit `{id}` on {name}; `weirgate circuits add` makes one"
        ));
    }
    // A circuit that is added takes over no fields of an existing one.
    let one = asked.of(id, old.filter(|_| !comes), plans)?;
    match old {
        Some(old) if comes && *old != one => Err(format!(
            "{name} already has a different circuit `{id}`; `weirgate circuits change` changes \
             it"
        )),
        _ => Ok(Some(one)),
    }
}

/// `weirgate circuits add` and `change`.
pub(super) fn put(state: &Path, wanted: &Wanted, comes: bool, document: &Document) -> Outcome {
    let asked = wanted.asked().map_err(wrong)?;
    let (device, circuit) = (&wanted.device, &*wanted.circuit);
    let becomes = |old: Option<&One>, plans: &[Plan]| becomes((wanted, &asked), comes, old, plans);
    changed(state, device, &[circuit], &becomes, document)
}

/// `weirgate circuits remove` with circuits. A circuit that does not exist is no error.
pub(super) fn take(state: &Path, name: &str, ids: &[String], document: &Document) -> Outcome {
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    changed(state, name, &ids, &|_, _| Ok(None), document)
}

/// Returns what a circuit becomes, if it stays, by what it is and by the plans of its list.
type Wanting<'w> = &'w dyn Fn(Option<&One>, &[Plan]) -> Result<Option<One>, String>;

fn changed(
    state: &Path,
    name: &str,
    ids: &[&str],
    wanted: Wanting<'_>,
    document: &Document,
) -> Outcome {
    in_runtime(async {
        let name = device(name)?;
        let (folders, kernel) = here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        for id in ids {
            let began = Instant::now();
            let done = circuits.change(&name, id, &wanted).await.map_err(refused)?;
            say(&name, &done);
            let change = change_json(&done.change);
            let change = json!({ "device": name.as_str(), "circuit": id, "entries": change });
            document.add("changes", change);
            document.note(&format!(
                "{name}: circuit {id}: {}, in {:.1} ms",
                summary(&done.change),
                began.elapsed().as_secs_f64() * 1e3
            ));
        }
        Ok(Status::Done)
    })
}

/// Puts a device with a new list into the document.
pub(super) fn put_list(
    document: &Document,
    name: &DeviceName,
    list: Option<Value>,
    change: &CircuitsChange,
) {
    let mut change = json!({ "device": name.as_str(), "entries": change_json(change) });
    change["list"] = list.into();
    document.add("changes", change);
}

/// Puts a device that lost its list into the document.
pub(super) fn gone(name: &DeviceName, document: &Document) {
    let change = json!({ "device": name.as_str(), "list": null });
    document.add("changes", change);
}

/// `weirgate circuits remove --all`.
pub(super) fn remove(state: &Path, name: &str, document: &Document) -> Outcome {
    in_runtime(async {
        let name = device(name)?;
        let (folders, kernel) = here(state)?;
        let _later = output::later();
        let circuits = Circuits::open(&folders, &kernel).map_err(refused)?;
        circuits.remove(&name).await.map_err(refused)?;
        gone(&name, document);
        Ok(Status::Done)
    })
}
