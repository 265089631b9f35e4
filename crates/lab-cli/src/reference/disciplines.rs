// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of each discipline, `disciplines/NAME.md` below the reference, also as a manual page.
//! The prose of a page, up to [`MARK`], is written by hand. The rest is generated from the
//! discipline's own tables.

use anyhow::Context as _;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use weirgate_aqm::{Discipline, Row, SLOT_BYTES};
use weirgate_console::exit::Failure;

/// How many qdiscs of one kind its maps can hold (`INSTANCES`, bpf/qdisc/qdisc.bpf.h).
const INSTANCES: usize = 16;

/// What the kernel's host stores for a packet: a slot and a pointer (`struct aqm_queued_skb` there).
const QUEUED_BYTES: usize = SLOT_BYTES + 8;

/// The end of a page's prose.
const MARK: &str = "<!-- Below: written by `weirgate reference docs/reference`, from the \
                    discipline's tables. -->";

/// Returns every page: its path below the reference, and its text.
///
/// # Errors
///
/// Fails if the reference in `folder` has no page for a discipline.
pub fn pages(folder: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut pages = Vec::new();
    for discipline in Discipline::every() {
        let name = discipline.name();
        let place = format!("disciplines/{name}.md");
        let page = folder.join(&place);
        let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let text = words(&page);
        pages.push((format!("man/weirgate-{name}.7"), roff(discipline, text)));
        pages.push((place, markdown(discipline, text)));
    }
    Ok(pages)
}

/// Returns the prose of a page: the text between its title, if it has one, and the generated part.
fn words(page: &str) -> &str {
    let above = page.split(MARK).next().unwrap_or(page);
    above.find("## ").map_or("", |start| &above[start..])
}

/// Returns the tables of a discipline: their headings and rows.
fn tables(discipline: Discipline) -> [(&'static str, Vec<Row>); 3] {
    let mut counted = Discipline::counters();
    counted.extend(discipline.stats());
    [
        ("Parameters", discipline.params()),
        ("State", discipline.vars()),
        ("Statistics", counted),
    ]
}

fn markdown(discipline: Discipline, text: &str) -> String {
    let name = discipline.name();
    let mut page = format!("# {name}\n\n{}.\n\n", discipline.summary());
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{}\n\n{MARK}", text.trim_end());
    for (heading, rows) in tables(discipline) {
        let _ = write!(page, "\n## {heading}\n\n");
        let parameters = heading == "Parameters";
        page.push_str(if parameters {
            "| name | what | otherwise | range |\n|---|---|---|---|\n"
        } else {
            "| name | what | unit |\n|---|---|---|\n"
        });
        for row in rows {
            let _ = if parameters {
                let usual = row.format(row.default);
                let range = row.expected();
                writeln!(
                    page,
                    "| `{}` | {} | {usual} | {range} |",
                    row.name, row.help
                )
            } else {
                let unit = row.unit.replace('|', ", ");
                writeln!(page, "| `{}` | {} | {unit} |", row.name, row.help)
            };
        }
    }
    let mut presets = discipline.presets().peekable();
    if presets.peek().is_some() {
        page.push_str("\n## Presets\n\n| name | what | settings |\n|---|---|---|\n");
    }
    for preset in presets {
        let set: Vec<String> = preset
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | `{}` |",
            preset.name,
            preset.help,
            set.join(" ")
        );
    }
    let _ = write!(page, "\n## Memory\n\n{}\n", memory(discipline));
    page
}

/// Returns the page in the format of man(7).
fn roff(discipline: Discipline, text: &str) -> String {
    let name = discipline.name();
    let mut page = format!(
        ".TH \"weirgate-{name}\" 7 \"\" \"weirgate\" \"Queueing disciplines\"\n.SH NAME\n\
         weirgate\\-{} \\- {}\n.SH SYNOPSIS\n\\fBweirgate aqm load {}\\fR DEVICE \
         [NAME=VALUE]... [\\-\\-rate RATE] [\\-\\-link LAYER]\n",
        escaped(name),
        escaped(discipline.summary()),
        escaped(name),
    );
    page.push_str(&body(text));
    for (heading, rows) in tables(discipline) {
        let _ = writeln!(page, ".SH {}", heading.to_uppercase());
        for row in rows {
            let _ = write!(
                page,
                ".TP\n\\fB{}\\fR\n{}",
                escaped(row.name),
                escaped(row.help)
            );
            let _ = if heading == "Parameters" {
                let (range, usual) = (row.expected(), row.format(row.default));
                writeln!(page, ": {}; otherwise {}", escaped(&range), escaped(&usual))
            } else {
                writeln!(page, " ({})", escaped(row.unit))
            };
        }
    }
    let mut presets = discipline.presets().peekable();
    if presets.peek().is_some() {
        page.push_str(".SH PRESETS\n");
    }
    for preset in presets {
        let (name, help) = (escaped(preset.name), escaped(preset.help));
        let _ = write!(page, ".TP\n\\fBpreset={name}\\fR\n{help}\n");
    }
    let _ = write!(page, ".SH MEMORY\n.PP\n{}\n", escaped(&memory(discipline)));
    page.push_str(".SH SEE ALSO\n\\fBweirgate\\-aqm\\fR(1), docs/aqm.md\n");
    page
}

/// Converts headings, paragraphs and an example to man(7).
pub fn body(text: &str) -> String {
    let mut page = String::new();
    for block in text.split("\n\n") {
        let block = block.trim();
        // Writing to a String cannot fail.
        if let Some(heading) = block.strip_prefix("## ") {
            let _ = writeln!(page, ".SH {}", heading.to_uppercase());
        } else if let Some(lines) = block.strip_prefix("```sh\n") {
            let lines = lines.trim_end_matches("\n```");
            let _ = write!(page, ".nf\n{}\n.fi\n", escaped(lines));
        } else if !block.is_empty() {
            let _ = write!(page, ".PP\n{}\n", escaped(block));
        }
    }
    page
}

/// Describes the memory of an instance.
fn memory(discipline: Discipline) -> String {
    let own = discipline.layout().size;
    let packets = discipline.packets() as usize;
    let native = own + packets * SLOT_BYTES;
    let kernel = own + packets * QUEUED_BYTES;
    format!(
        "State, parameters and counters of an instance are {own} bytes; for each packet that it \
         can hold, {packets} at most, {SLOT_BYTES} bytes are kept beside the packet in the native \
         host and {QUEUED_BYTES} in the kernel: {native} and {kernel} bytes together. The kernel's \
         maps have room for {INSTANCES} instances from the start: {} kB for the kind while it is \
         loaded, however many devices use it. A packet that comes when the room is used up is \
         dropped with the reason `room`, and one is counted as `evicted` where it makes room for \
         another.",
        (INSTANCES * kernel).div_ceil(1_000)
    )
}

/// Converts text for troff: escapes its special characters, and makes words in backticks bold.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut bold = false;
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '`' => {
                bold = !bold;
                out.push_str(if bold { "\\fB" } else { "\\fR" });
            }
            // A line must not begin with a period or an apostrophe.
            '.' | '\'' if out.is_empty() => {
                out.push_str("\\&");
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::PathBuf;
    use weirgate_aqm::{Link, Packet, Queue, Settings, reasons};

    /// Returns the folder of this project's reference.
    fn reference() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
    }

    /// Returns the prose of every page, with its discipline.
    fn texts() -> Vec<(Discipline, String)> {
        let text = |one: Discipline| {
            let place = format!("disciplines/{}.md", one.name());
            let page = fs::read_to_string(reference().join(place)).expect("a page");
            (one, words(&page).to_owned())
        };
        Discipline::every().into_iter().map(text).collect()
    }

    #[test]
    fn every_discipline_has_a_page_that_says_how_it_works() {
        let pages = pages(&reference()).expect("a page for each discipline");
        assert_eq!(pages.len(), 2 * Discipline::every().len());
        for discipline in Discipline::every() {
            let place = format!("disciplines/{}.md", discipline.name());
            let page = pages.iter().find(|page| page.0 == place);
            let text = &page.unwrap_or_else(|| panic!("{place}")).1;
            for heading in [
                "How it works",
                "What it is for",
                "Setting it",
                "Why it drops",
                "Example",
                "Memory",
            ] {
                assert!(
                    text.contains(&format!("\n## {heading}\n")),
                    "{place}: {heading}"
                );
            }
            for row in discipline.params() {
                assert!(text.contains(&format!("| `{}` |", row.name)), "{place}");
            }
        }
    }

    /// Every parameter that a page names exists, so that pages follow changes of the tables.
    #[test]
    fn pages_name_parameters_that_there_are() {
        for (discipline, text) in texts() {
            let name = discipline.name();
            let rows = discipline.params();
            let (prose, _) = text.split_once("## Example").expect("an example");
            for word in prose.split('`').skip(1).step_by(2) {
                let own = word.split('=').next().unwrap_or(word);
                let parameter = rows.iter().any(|row| row.name == own);
                let preset = discipline.presets().any(|preset| preset.name == own);
                let known = Discipline::every().iter().any(|one| one.name() == own);
                let other = ["preset", "senders", "receivers"];
                let reason = reasons().iter().any(|reason| reason.name == own);
                assert!(
                    parameter || preset || reason || known || other.contains(&own),
                    "{name}: `{word}`"
                );
            }
            let example = text
                .split("## Example\n\n```sh\n")
                .nth(1)
                .expect("an example");
            let mut settings = Settings::new(discipline);
            let words = example.split_whitespace().skip(5);
            for word in words.take_while(|word| !word.starts_with("--")) {
                let (parameter, value) = word.split_once('=').expect("name=value");
                settings.set_text(parameter, value).expect(word);
            }
        }
    }

    /// The reasons on a page are exactly those for which packets are dropped or marked, under all
    /// kinds of settings and loads.
    #[test]
    fn pages_name_every_reason_and_no_other() {
        for (discipline, text) in texts() {
            let name = discipline.name();
            let section = text.split("## Why it drops\n\n").nth(1).expect(name);
            let section = section.split("## ").next().expect(name);
            let named: BTreeSet<&str> = section
                .split("\n\n")
                .filter_map(|line| line.strip_prefix('`')?.split_once("`: "))
                .map(|(reason, _)| reason)
                .collect();
            assert_eq!(seen(discipline), named, "{name}");
        }
    }

    /// Returns the reasons for drops and marks, without the host's own reason.
    fn seen(discipline: Discipline) -> BTreeSet<&'static str> {
        let mut seen = BTreeSet::new();
        let mut word = 1_u64;
        let mut below = |limit: u64| {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (word >> 33) % limit
        };
        for round in 0..300 {
            let mut settings = Settings::new(discipline);
            for row in discipline.params() {
                // A third of the rounds use the defaults.
                if round % 3 > 0 && below(2) == 0 {
                    let span = (row.most - row.least).max(1);
                    let bits = u64::from(64 - span.leading_zeros());
                    let size = below(bits + 1).min(31);
                    let value = row.least + below(1 << size);
                    settings.set(row.name, value.min(row.most)).expect(row.name);
                }
            }
            let link = Link {
                rate_bytes_s: 125_000,
                mtu_bytes: 1_500,
                ..Link::default()
            };
            let mut queue: Queue<()> = Queue::new(&settings, &link);
            let (mut now, gap) = (0, 1 + below(40_000_000));
            for _ in 0..3_000 {
                now += below(gap);
                if below(5) < 3 {
                    // Use few flows: code points of assured and expedited forwarding, or hashes.
                    let assured = (1 + below(4) as u32) * 8 + 2 * (1 + below(3) as u32);
                    let code = if below(8) == 0 { 46 } else { assured };
                    let hash = code.wrapping_mul(0x9e37_79b1);
                    let packet = Packet {
                        arrived_ns: now,
                        len: 40 + below(1_461) as u32,
                        wire: 1_500,
                        flow: if round % 2 == 0 { code } else { hash },
                        ecn: below(4) as u32,
                    };
                    queue.arrive(&packet, below(1 << 31) as u32 * 2, ());
                } else {
                    queue.depart(now);
                }
            }
            for reason in reasons() {
                let count = |of: Option<u64>| of.unwrap_or_default();
                let both = count(queue.drops(reason.name)) + count(queue.marks(reason.name));
                if both > 0 && reason.name != "room" {
                    seen.insert(reason.name);
                }
            }
        }
        seen
    }

    #[test]
    fn memory_is_what_the_programs_ask_for() {
        let host = weirgate_bpf::sources()
            .iter()
            .find(|(path, _)| path.ends_with("qdisc/qdisc.bpf.h"));
        let (_, text) = host.expect("the kernel's host");
        assert!(text.contains(&format!("#define INSTANCES {INSTANCES}\n")));
        assert!(text.contains(
            "struct aqm_queued_skb {\n\tstruct aqm_slot slot;\n\tstruct sk_buff __kptr *skb;\n};"
        ));
    }

    #[test]
    fn troff_reads_it_as_text() {
        assert_eq!(escaped(".a `b-c` \\"), "\\&.a \\fBb\\-c\\fR \\e");
    }
}
