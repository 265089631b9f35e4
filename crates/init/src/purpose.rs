// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The purposes of a line in users' words, with the class of highest priority.

/// What is most important on a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Its name in options.
    pub key: &'static str,
    /// A description.
    pub words: &'static str,
    /// What the first class is for.
    pub(crate) urgent: &'static str,
    /// The guarantee of the first class, in per cent of the line.
    pub(crate) share: u8,
    /// The services of the library that are in the first class.
    pub(crate) services: &'static [&'static str],
    /// Whether ports of a local server are in the first class too.
    pub serves: bool,
}

/// The service that needs connection tracking, which bridged packets bypass.
pub(crate) const TRACKED: &str = "voice";

/// The default ports of a server: ssh and the web.
pub const USUAL_PORTS: [u16; 3] = [22, 80, 443];

/// All purposes, the most common first.
pub const PURPOSES: [Purpose; 3] = [
    Purpose {
        key: "calls",
        words: "calls and games go first",
        urgent: "calls and games go first",
        share: 20,
        services: &["dns", "ping", "voice", "video-call", "games", "ssh-small"],
        serves: false,
    },
    Purpose {
        key: "fairness",
        words: "everybody gets an equal part",
        urgent: "name look-ups and pings do not wait",
        share: 5,
        services: &["dns", "ping"],
        serves: false,
    },
    Purpose {
        key: "server",
        words: "a server here answers first",
        urgent: "a server here answers first",
        share: 50,
        services: &["dns", "ping"],
        serves: true,
    },
];

impl Purpose {
    /// Returns the purpose with this key.
    #[must_use]
    pub fn named(word: &str) -> Option<&'static Self> {
        PURPOSES.iter().find(|one| one.key == word)
    }
}
