// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The campaign's page: a table for each line and load.

use super::figures::Run;
use super::list::CampaignLine;
use std::fmt::Write as _;

const HEAD: &str = "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
    <!-- Made by `cargo xtask inbound-campaign`; do not edit. -->\n\
    # Ways to hold what arrives, measured\n\n\
    Interactive delay against throughput given up, for every way of `inbound.md` and for \
    rivals, over several lines and loads. Each run is one seed of the lab (`lab.md`), 5 to 28 \
    virtual seconds of it looked at; figures of one run differ from another seed's by some \
    milliseconds and some tenths of a percent.\n\n\
    Given up is what the receivers of the downloads got less than full packets could carry of \
    payload on the line as it was in that time, acknowledgements, probes, short flows and calls \
    not counted. Beside datagrams at half the line those count as received; of a flood, which \
    nobody asked for, nothing counts, so what is given up is what the flood took. Delay is the \
    round trip of echoes between an inside host and the provider, sent every 50 ms.\n\n\
    ![delay against throughput given up](inbound-campaign.svg)\n\n\
    | arm | what it is |\n|---|---|\n\
    | `none` | nothing: the modem and the provider alone |\n\
    | `ifb` | `inbound = \"ifb\"`, `margin-down = \"3%\"`, two classes, the ICMP probe in the more urgent one |\n\
    | `auto` | `inbound = \"auto\"`, `margin-down = \"3%\"`, the same classes |\n\
    | `filter` | `inbound = \"filter\"`, 2.5 % |\n\
    | `police` | `inbound = \"police\"`, 3 % |\n\
    | `receive` | `[receive]` at 97.5 %, nothing beside it |\n\
    | `ifb-receive`, `filter-receive` | both: `[receive]` at 96 and 97.5 % |\n\
    | `ifb-bucket`, `filter-bucket` | with `[receive.udp]`, a bucket of a quarter of the line for each stream |\n\
    | `track` | `ifb` with `[track]`, from a tenth to one and a half of the line |\n\
    | `track-receive`, `track-filter` | the same with `[receive]`, and with the filter |\n\
    | `cake-N` | cake `ingress` at N % of the line on the LAN device, cake at 98 % upstream |\n\
    | `autorate` | cake `autorate-ingress` there |\n\
    | `sqm` | what sqm-scripts' `simplest.qos` makes: HTB at 90 %, fq_codel, no link layer |\n\n\
    QUIC is not among these loads: datagrams at an even rate stand for a sender that does not \
    slow down within the run.\n";

/// Returns the page of these runs.
pub fn text(lines: &[CampaignLine], runs: &[Run<'_>]) -> String {
    let mut text = HEAD.to_owned();
    let made = runs.iter().filter(|run| run.figures.is_some()).count();
    let _ = write!(text, "\n{made} of {} runs have been made.", runs.len());
    if made < runs.len() {
        text.push_str(" The others are missing here; the tables say which.");
    }
    text.push('\n');
    for line in lines {
        let mut of_line = runs
            .iter()
            .filter(|run| run.line.name == line.name)
            .peekable();
        if of_line.peek().is_none() {
            continue;
        }
        let _ = write!(text, "\n## {}\n", line.about);
        let mut load = "";
        for run in of_line {
            if run.load.name != load {
                load = &run.load.name;
                let _ = write!(
                    text,
                    "\n**{}**\n\n| | given up | delay, mean | 95 % | longest | short flows, mean |\n\
                     |---|---|---|---|---|---|\n",
                    run.load.about
                );
            }
            text.push_str(&row(run));
        }
    }
    text
}

fn row(run: &Run<'_>) -> String {
    let Some(figures) = run.figures else {
        return format!("| `{}` | not run | | | | |\n", run.arm);
    };
    let [mean, late, _, longest] = figures.delay;
    let mice = figures
        .mice
        .map_or_else(String::new, |mice| format!("{mice:.2} s"));
    format!(
        "| `{}` | {:.1} % | {mean:.1} ms | {late:.1} ms | {longest:.1} ms | {mice} |\n",
        run.arm,
        (1.0 - figures.kept) * 100.0
    )
}
