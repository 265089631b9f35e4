// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the promises and states of shipped policies with golden texts.

use std::fmt::Write;
use std::fs;
use weirgate_compile::{check_report, compile};
use weirgate_policy::Policy;
use weirgate_state::{Capabilities, Htb, HtbClass, Qdisc, QdiscKind, State};

fn policies() -> Vec<(String, Policy)> {
    let shipped = weirgate_testing::files("policies", "toml");
    let tests = weirgate_testing::files("tests/policy/state", "toml");
    let mut found: Vec<(String, Policy)> = shipped
        .into_iter()
        .chain(tests)
        .map(|path| {
            let source = fs::read_to_string(&path).expect("a policy");
            let (policy, problems) = weirgate_policy::parse(&source);
            let name = path
                .file_stem()
                .and_then(|name| name.to_str())
                .expect("a name");
            (
                name.to_owned(),
                policy.unwrap_or_else(|| panic!("{name}: {problems:#?}")),
            )
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn compare(folder: &str, name: &str, text: &str) {
    weirgate_testing::golden(format!("tests/policy/{folder}/{name}.txt"), text);
}

#[test]
fn promises() {
    for (name, policy) in policies() {
        let report = check_report(&policy);
        let mut text = report.to_string();
        for problem in &report.problems {
            writeln!(text, "\n{}: {}", problem.code, problem.message).expect("a string");
        }
        compare("check", &name, &text);
    }
}

#[test]
fn states() {
    for (name, policy) in policies() {
        let (state, problems) = compile(&policy, &Capabilities::all());
        let mut text = String::new();
        for problem in &problems {
            writeln!(text, "# {}: {}", problem.code, problem.message).expect("a string");
        }
        show(&state.expect("compiles"), &mut text).expect("a string");
        compare("state", &name, &text);
    }
}

/// Writes one object a line, with its reason after `#`.
fn show(state: &State, out: &mut String) -> std::fmt::Result {
    for (name, device) in &state.devices {
        let made = if device.owned_ifb { " (made)" } else { "" };
        writeln!(
            out,
            "device {name}{made} {:?}  # {}",
            device.offloads, device.origin
        )?;
        if let Some(root) = &device.root {
            qdisc(root, "root", 1, out)?;
        }
    }
    for table in &state.tables {
        out.push_str(&table.nft_text());
    }
    for (name, place) in &state.hooks {
        if let Some(windows) = &place.windows {
            writeln!(out, "arriving {name} {windows:?}  # {}", place.origin)?;
        }
        if let Some(datagrams) = &place.datagrams {
            writeln!(out, "arriving {name} {datagrams:?}")?;
        }
        for (direction, all) in [("entering", &place.entering), ("leaving", &place.leaving)] {
            for one in all.iter().flat_map(|all| &all.conditioners) {
                writeln!(out, "{direction} {name} {one:?}")?;
            }
        }
        let Some(filter) = &place.virtual_queue else {
            continue;
        };
        let params = filter.settings.iter();
        let params: Vec<_> = params
            .map(|one| format!("{}={}", one.name, one.value))
            .collect();
        writeln!(
            out,
            "arriving {name} rate {} {:?} mtu {} flows {} {}  # {}",
            filter.rate,
            filter.wire,
            filter.mtu,
            filter.parts,
            params.join(" "),
            place.origin
        )?;
    }
    Ok(())
}

fn qdisc(qdisc: &Qdisc, parent: &str, depth: usize, out: &mut String) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    let stab = qdisc.stab.as_ref().map_or_else(String::new, |stab| {
        format!(
            " stab {} slots, {} for 1514",
            stab.data.len(),
            stab.charge(1514)
        )
    });
    write!(out, "{indent}qdisc {} parent {parent}{stab} ", qdisc.handle)?;
    match &qdisc.kind {
        QdiscKind::Htb(htb) => {
            let Htb {
                default_minor,
                r2q,
                direct,
                classes,
            } = htb;
            writeln!(
                out,
                "htb default {default_minor:x} r2q {r2q} direct_qlen {}  # {}",
                direct.map_or_else(String::new, |packets| packets.to_string()),
                qdisc.origin
            )?;
            for one in classes {
                class(one, depth + 1, out)?;
            }
            Ok(())
        }
        other => writeln!(out, "{other:?}  # {}", qdisc.origin),
    }
}

fn class(class: &HtbClass, depth: usize, out: &mut String) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    let HtbClass {
        id,
        parent,
        rate,
        ceil,
        buffer,
        cbuffer,
        prio,
        quantum,
        leaf,
        origin,
    } = class;
    writeln!(
        out,
        "{indent}class {id} parent {parent} rate {rate} ceil {ceil} buffer {buffer} \
         cbuffer {cbuffer} prio {prio} quantum {quantum}  # {origin}"
    )?;
    match leaf {
        Some(leaf) => qdisc(leaf, &id.to_string(), depth + 1, out),
        None => Ok(()),
    }
}
