// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections to which a choice among links applies.

use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// Connections whose first packet matches all given conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Selector {
    /// The source prefix: address and length.
    pub from: Option<(IpAddr, u8)>,
    /// The destination prefix.
    pub to: Option<(IpAddr, u8)>,
    /// The upper-layer protocol.
    pub transport: Option<Transport>,
}

/// An upper-layer protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Transport {
    /// Its number.
    pub protocol: u8,
    /// The first and the last destination port, for protocols with ports.
    pub to_port: Option<(u16, u16)>,
}

/// The names of protocols that have one here.
const NAMES: [(u8, &str); 2] = [(6, "tcp"), (17, "udp")];

impl Selector {
    /// Parses a selector at the beginning of a line. Returns it with the remaining words.
    pub(super) fn of_words<'w, 'a>(words: &'w [&'a str]) -> Option<(Self, &'w [&'a str])> {
        let mut found = Self::default();
        let mut words = words;
        for (word, net) in [("from", &mut found.from), ("to", &mut found.to)] {
            if let [first, prefix, rest @ ..] = words
                && *first == word
            {
                let (address, length) = prefix.split_once('/')?;
                *net = Some((address.parse().ok()?, length.parse().ok()?));
                words = rest;
            }
        }
        let numbered = |word: &str| match NAMES.iter().find(|(_, name)| *name == word) {
            Some((number, _)) => Some(*number),
            None => word.parse().ok(),
        };
        if let [word, rest @ ..] = words
            && let Some(protocol) = numbered(word)
        {
            words = rest;
            let mut to_port = None;
            if let [ports, rest @ ..] = words
                && let (from, to) = ports.split_once('-').unwrap_or((ports, ports))
                && let (Ok(from), Ok(to)) = (from.parse(), to.parse())
            {
                to_port = Some((from, to));
                words = rest;
            }
            found.transport = Some(Transport { protocol, to_port });
        }
        Some((found, words))
    }
}

/// Writes each part, followed by a space.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, net) in [("from", self.from), ("to", self.to)] {
            if let Some((address, length)) = net {
                write!(f, "{word} {address}/{length} ")?;
            }
        }
        let Some(Transport { protocol, to_port }) = self.transport else {
            return Ok(());
        };
        match NAMES.iter().find(|(number, _)| *number == protocol) {
            Some((_, name)) => write!(f, "{name} ")?,
            None => write!(f, "{protocol} ")?,
        }
        match to_port {
            Some((from, to)) if from == to => write!(f, "{from} "),
            Some((from, to)) => write!(f, "{from}-{to} "),
            None => Ok(()),
        }
    }
}
