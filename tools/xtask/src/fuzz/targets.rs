// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The targets, and how the common program is told which of them to run.

use std::path::Path;
use std::process::Command;

/// The name of the common target for libFuzzer; the environment selects the actual one.
pub const ANY: &str = "any";

/// A target of `fuzz/src/lib.rs`.
pub struct Target {
    pub name: &'static str,
    /// Its input, for the page.
    pub reads: &'static str,
    /// The smallest number of branches that a run must cover. Those of targets that are older than
    /// the common program were measured in separate programs; 1 means not measured yet. `tree`
    /// mostly calls C, whose branches the fuzzer does not see.
    pub floor: u32,
}

const fn target(name: &'static str, floor: u32, reads: &'static str) -> Target {
    Target { name, reads, floor }
}

pub const TARGETS: [Target; 24] = [
    target(
        "answered",
        11_300,
        "answers of a domain's routers and ends, packets at its ends; answers of receivers of \
         metrics (OTLP, remote write), of web servers",
    ),
    target(
        "applied",
        12_000,
        "what a kernel answers while a plan is carried out",
    ),
    target(
        "asked",
        630,
        "queries of `watch`, wishes of `probe`, lists of who may look, URLs",
    ),
    target("capture", 840, "captures, pcap and pcapng"),
    target("circuits", 2_800, "lists of circuits"),
    target("domain", 4_700, "domain files"),
    target("experiment", 3_300, "experiment files"),
    target("history", 1_150, "the history's file, damaged"),
    target("imported", 4_000, "files of sqm-scripts and of LibreQoS"),
    target("inbound", 690, "packets at the programs for what arrives"),
    target("kept", 2_400, "states kept on disk"),
    target("links", 5_200, "files of links"),
    target(
        "message",
        140,
        "single messages of `probe`, iperf3 and irtt",
    ),
    target(
        "netlink",
        9_300,
        "a kernel's answers: dumps, errors, conntrack, word of devices",
    ),
    target("packet", 1_400, "packets of `explain`"),
    target("policy", 4_400, "policies"),
    target("recording", 430, "recordings and files of disciplines"),
    target("script", 600, "scripts of disciplines"),
    target(
        "session",
        4_200,
        "whole conversations of `probe`, its serving ends, iperf3, irtt and sequences with a \
         hostile peer",
    ),
    target(
        "stored",
        1,
        "files that `apply`, `keep` and `circuits` read again",
    ),
    target("track", 850, "records of rate tracking"),
    target("tree", 1_600, "calls of the engine"),
    target("uci", 3_500, "OpenWrt's configuration"),
    target("web", 8_200, "bytes at the web service"),
];

/// Makes a command run this target.
pub fn environment<'c>(command: &'c mut Command, root: &Path, target: &str) -> &'c mut Command {
    let dictionary = root.join(format!("fuzz/dictionaries/{target}.dict"));
    command
        .env("WEIRGATE_FUZZ_TARGET", target)
        .env("WEIRGATE_FUZZ_DICTIONARY", dictionary)
}
