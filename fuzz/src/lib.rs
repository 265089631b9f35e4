// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fuzz targets: each is a function of any bytes, which panics if it finds a mistake.
//! [`TARGETS`] lists them all.
//!
//! `fuzz_targets/any.rs` gives them to libFuzzer, one at a time; `tests/seeds.rs` runs every seed
//! once through its target.
//!
//! Conntrack's events have no target, because weirgate does not subscribe to them. `netlink` covers
//! conntrack's dump.

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

/// Whether an input is kept in the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corpus {
    /// It may lead to further inputs.
    Keep,
    /// It was tried, and is discarded.
    Reject,
}

/// A target.
#[derive(Debug)]
pub struct Target {
    /// Its name, which is also that of its seeds and its dictionary.
    pub name: &'static str,
    run: Run,
    mutated: Mutation,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    /// Every input may be kept.
    Always(fn(&[u8])),
    /// The target decides.
    Judged(fn(&[u8]) -> Corpus),
}

/// How an input is mutated.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    /// By bytes; libFuzzer does it.
    Bytes,
    /// By lines of a file.
    Lines,
    /// By words of a line.
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
    /// Returns the target with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Runs the target on an input.
    ///
    /// # Panics
    /// Panics if the input is a finding.
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

    /// Returns an input with another line or word; `None` if libFuzzer should change bytes.
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
