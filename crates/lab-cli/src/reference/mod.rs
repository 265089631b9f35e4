// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference, generated from the tables that the programs use.

mod disciplines;
mod fields;
mod seam;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use weirgate_console::exit::Failure;
use weirgate_console::reference::Pages;
use weirgate_linklayer::LinkLayer;

/// Returns the pages of the reference besides manual pages; `folder` has their handwritten parts.
pub fn pages(folder: &Path) -> Result<Pages, Failure> {
    let mut pages = Pages::new();
    pages.insert("messages.md".to_owned(), messages().into_bytes());
    pages.insert("link-layers.md".to_owned(), link_layers().into_bytes());
    pages.insert("metrics.md".to_owned(), metrics().into_bytes());
    pages.insert("fields.md".to_owned(), fields::page().into_bytes());
    let experiments = fields::of_experiments().into_bytes();
    pages.insert("experiment-fields.md".to_owned(), experiments);
    let domains = fields::of_domains().into_bytes();
    pages.insert("domain-fields.md".to_owned(), domains);
    let manual = fields::manual().into_bytes();
    pages.insert("man/weirgate-policy.5".to_owned(), manual);
    for (name, page) in disciplines::pages(folder)? {
        pages.insert(name, page.into_bytes());
    }
    let (name, page) = seam::page();
    pages.insert(name, page.into_bytes());
    Ok(pages)
}

fn messages() -> String {
    let mut text = String::from(
        "# Messages\n\nEvery problem of a policy, an experiment, a stored result, a domain file, a list of circuits or a file to import has a code that keeps its \
         meaning.\n\n| code | meaning |\n|---|---|\n",
    );
    let policy = weirgate_policy::CODES
        .iter()
        .map(|code| (code.code, code.meaning));
    let compile = weirgate_compile::CODES
        .iter()
        .map(|code| (code.code, code.meaning));
    let plain = weirgate_document::CODES
        .iter()
        .chain(weirgate_experiment::CODES)
        .chain(weirgate_ledger::CODES)
        .chain(weirgate_domain::CODES)
        .chain(weirgate_circuits::CODES)
        .chain(weirgate_links::CODES)
        .chain(weirgate_uci::CODES)
        .chain(weirgate_import::CODES)
        .copied();
    let all: BTreeMap<&str, &str> = policy.chain(compile).chain(plain).collect();
    for (code, meaning) in all {
        let _ = writeln!(text, "| {code} | {meaning} |");
    }
    text
}

fn link_layers() -> String {
    let mut text = String::from(
        "# Link layers\n\nNames for `layer` in a policy. Overhead and least size are bytes \
         beside the IP packet, before framing.\n\n\
         | name | overhead | least | framing | 40 B | 1500 B | what |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, what) in LinkLayer::names() {
        let Ok(layer) = LinkLayer::named(name) else {
            continue;
        };
        let _ = writeln!(
            text,
            "| `{name}` | {} | {} | {:?} | {} | {} | {what} |",
            layer.overhead(),
            layer.mpu(),
            layer.framing(),
            layer.wire_bytes(40),
            layer.wire_bytes(1500),
        );
    }
    text
}

fn metrics() -> String {
    let mut text = String::from(
        "# Metrics\n\nA name is `[PHASE.]QUANTITY.SUBJECT.ENDING`, such as \
         `upload1.rtt.interactive.max_ms`; without a phase it speaks of the whole run. What windows, \
         activity and rounding are stands at the head of `crates/measure/src/lib.rs`.\n\n\
         | quantity | subject | endings | what it is |\n|---|---|---|---|\n",
    );
    for one in weirgate_experiment::grammar() {
        let _ = writeln!(
            text,
            "| `{}` | {} | `{}` | {} |",
            one.word,
            one.subject,
            one.endings.join("` `"),
            one.meaning
        );
    }
    text
}
