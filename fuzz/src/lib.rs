// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is fuzzed: each target is a function of any bytes, which panics where it finds
//! a mistake. [`TARGETS`] has them all.
//!
//! `fuzz_targets/any.rs` gives them to libFuzzer, one at a time; `tests/seeds.rs` runs
//! every seed once through its target.
//!
//! Conntrack's events have no target: nothing here subscribes to them. Its dump is read by
//! `netlink`.

mod applied;
mod capture;
mod circuits;
mod domain;
mod experiment;
mod history;
mod imported;
mod inbound;
mod kept;
mod links;
mod mutate;
mod packet;
mod peer;
mod policy;
mod recording;
mod script;
mod stored;
mod track;
mod tree;
mod uci;

/// Whether what was tried is worth developing further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corpus {
    /// It may lead to more.
    Keep,
    /// It was tried, and is forgotten.
    Reject,
}

/// A target.
#[derive(Debug)]
pub struct Target {
    /// Its name, which its seeds and its dictionary have too.
    pub name: &'static str,
    run: Run,
    mutated: Mutation,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    /// Everything that leads to more is developed.
    Always(fn(&[u8])),
    /// The target says what is.
    Judged(fn(&[u8]) -> Corpus),
}

/// How an input is changed.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    /// Bytes, by libFuzzer.
    Bytes,
    /// Lines of a file.
    Lines,
    /// Words of a line.
    Words,
}

use Mutation::{Bytes, Lines, Words};
use Run::{Always, Judged};

/// All targets.
pub static TARGETS: [Target; 24] = [
    target("answered", Always(peer::answered::run), Bytes),
    target("applied", Always(applied::run), Bytes),
    target("asked", Always(peer::asked::run), Bytes),
    target("capture", Always(capture::run), Bytes),
    target("circuits", Always(circuits::run), Bytes),
    target("domain", Judged(domain::run), Lines),
    target("experiment", Judged(experiment::run), Lines),
    target("history", Always(history::run), Bytes),
    target("imported", Always(imported::run), Bytes),
    target("inbound", Always(inbound::run), Bytes),
    target("kept", Judged(kept::run), Bytes),
    target("links", Judged(links::run), Lines),
    target("message", Always(peer::message::run), Bytes),
    target("netlink", Always(peer::netlink::run), Bytes),
    target("packet", Always(packet::run), Words),
    target("policy", Judged(policy::run), Lines),
    target("recording", Always(recording::run), Bytes),
    target("script", Always(script::run), Words),
    target("session", Always(peer::session::run), Bytes),
    target("stored", Always(stored::run), Bytes),
    target("track", Always(track::run), Words),
    target("tree", Always(tree::run), Bytes),
    target("uci", Always(uci::run), Bytes),
    target("web", Always(peer::web::run), Bytes),
];

const fn target(name: &'static str, run: Run, mutated: Mutation) -> Target {
    Target { name, run, mutated }
}

impl Target {
    /// The target of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Tries an input.
    ///
    /// # Panics
    /// It is a finding.
    #[must_use]
    pub fn run(&self, data: &[u8]) -> Corpus {
        match self.run {
            Always(run) => {
                run(data);
                Corpus::Keep
            }
            Judged(run) => run(data),
        }
    }

    /// An input with another line or word; `None` where libFuzzer should change bytes.
    #[must_use]
    pub fn mutated(
        &self,
        data: &[u8],
        most: usize,
        seed: u32,
        dictionary: &str,
    ) -> Option<Vec<u8>> {
        match self.mutated {
            Bytes => None,
            Lines => mutate::lines::mutated(data, most, seed, dictionary),
            Words => mutate::words::mutated(data, most, seed, dictionary),
        }
    }
}
