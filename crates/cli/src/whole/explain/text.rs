// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The output of `weirgate explain`.

use crate::whole::explain::assumed::assumptions;
use crate::whole::explain::input::Item;
use crate::whole::explain::outcome::{About, Shown};
use crate::whole::explain::path::kernel_path;
use crate::whole::explain::rules::{self, Outcome, RuleLine};
use std::fmt::Write as _;
use weirgate_explain::{ESTABLISHED, INVALID, NEW, RELATED, UNTRACKED};
use weirgate_units::Dscp;

/// Returns the whole answer as text.
pub fn text(about: &About<'_>, shown: &[(Item, Shown)]) -> String {
    let mut out = String::new();
    for (index, (item, one)) in shown.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        item_text(&mut out, about, item, one);
    }
    out.push('\n');
    for line in &about.general {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "note: {line}");
    }
    out
}

fn item_text(out: &mut String, about: &About<'_>, item: &Item, one: &Shown) {
    let direction = item.direction;
    let time = weirgate_units::Span::from_nanos(item.at);
    let _ = writeln!(out, "{}", item.title);
    let Some((fate, class)) = &one.last else {
        return;
    };
    let why = class.why.map(|why| format!(": {why}")).unwrap_or_default();
    let _ = writeln!(out, "  {direction} at {time}: class {}{why}", class.title());
    if one.classes.len() > 1 {
        let each: Vec<String> = one
            .classes
            .iter()
            .map(|(class, count)| format!("{count} in {class}"))
            .collect();
        let _ = writeln!(
            out,
            "  of {} packets {}; what follows is the last one's",
            item.repeat.0,
            each.join(", ")
        );
    }
    if let Some(expected) = &item.expected
        && !fate.waits
        && class.name.as_deref().unwrap_or("-") != expected
    {
        let _ = writeln!(out, "  EXPECTED class {expected}");
    }
    for line in rules::lines(about, item, fate) {
        rule_text(out, about, &line);
    }
    if let Some(connection) = &fate.connection {
        let _ = write!(out, "  connection: {}", state_text(connection.state));
        if connection.id.is_some() {
            let _ = write!(
                out,
                ", packet {}, {} bytes, mark {:#x}",
                connection.packets, connection.bytes, connection.mark
            );
        }
        out.push('\n');
    }
    let (before, after) = (item.packet.dscp(), fate.packet.dscp());
    if before != after {
        let name = |value: Option<u8>| {
            value
                .and_then(Dscp::new)
                .map_or_else(String::new, |dscp| dscp.to_string())
        };
        let _ = writeln!(
            out,
            "  leaves with DSCP {} instead of {}",
            name(after),
            name(before)
        );
    }
    let _ = writeln!(
        out,
        "  path: {}",
        kernel_path(about, item, one, class).join(" -> ")
    );
    for line in assumptions(item, fate) {
        let _ = writeln!(out, "  assumed: {line}");
    }
}

/// Writes a rule in one line. Its text in the policy follows, unless all rules are shown.
fn rule_text(out: &mut String, about: &About<'_>, line: &RuleLine) {
    let word = match line.outcome {
        Outcome::PassedBy if !about.all => return,
        Outcome::Matched if line.detail.is_empty() && !about.all => return,
        Outcome::PassedBy => "not    ",
        Outcome::Matched => "matches",
        Outcome::Decides => "decides",
    };
    let detail = match line.detail.as_str() {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    let _ = writeln!(
        out,
        "    {word}  {}: {}{detail}",
        line.text.name, line.reason
    );
    if let Some(quoted) = &line.text.quoted
        && !about.all
    {
        let _ = writeln!(out, "             | {quoted}");
    }
}

/// Returns the name of a connection's state.
pub fn state_text(state: u32) -> &'static str {
    match state {
        INVALID => "invalid",
        ESTABLISHED => "established",
        RELATED => "related",
        NEW => "new",
        UNTRACKED => "untracked",
        _ => "unknown",
    }
}
