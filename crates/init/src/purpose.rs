// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a line is for, in users' words, with the class that goes first.

/// What matters most on a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Its word in options.
    pub key: &'static str,
    /// It in words.
    pub words: &'static str,
    /// The percentage of the line that what goes first is guaranteed.
    pub(crate) share: u8,
    /// What goes first: services of the library.
    pub(crate) services: &'static [&'static str],
    /// Whether ports of a server here go first too.
    pub serves: bool,
}

/// The service that asks connection tracking, which bridged packets do not pass.
pub(crate) const TRACKED: &str = "voice";

/// Ports of a server that nobody named: ssh and the web.
pub const USUAL_PORTS: [u16; 3] = [22, 80, 443];

/// All of them, the most usual first.
pub const PURPOSES: [Purpose; 3] = [
    Purpose {
        key: "calls",
        words: "calls and games go first",
        share: 20,
        services: &["dns", "ping", "voice", "video-call", "games", "ssh-small"],
        serves: false,
    },
    Purpose {
        key: "fairness",
        words: "everybody gets an equal part",
        share: 5,
        services: &["dns", "ping"],
        serves: false,
    },
    Purpose {
        key: "server",
        words: "a server here answers first",
        share: 50,
        services: &["dns", "ping"],
        serves: true,
    },
];

impl Purpose {
    /// The purpose with this key.
    #[must_use]
    pub fn named(word: &str) -> Option<&'static Self> {
        PURPOSES.iter().find(|one| one.key == word)
    }
}
