// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Per-hop behaviours: their code points, and their priority among the classes of a port.

use std::fmt;

/// A per-hop behaviour, or a group of them that shares a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Behaviour {
    /// Expedited forwarding, RFC 3246.
    Ef,
    /// A class selector above the default, 1 to 7, RFC 2474 section 4.2.2.
    ClassSelector(u8),
    /// A class of assured forwarding, 1 to 4, with its three drop precedences,
    /// RFC 2597.
    Af(u8),
    /// A delay class of DRT with its six importance levels, either real-time or not (Mylonas,
    /// section 2.3). It is not defined by an RFC.
    Drt {
        /// Whether it is the real-time class.
        real_time: bool,
    },
    /// The default, RFC 2474 section 4.1.
    Default,
    /// Lower effort, RFC 8622.
    LowerEffort,
}

impl Behaviour {
    /// All behaviours, in the order in which a port serves them.
    pub const ALL: [Self; 16] = [
        Self::Ef,
        Self::ClassSelector(7),
        Self::ClassSelector(6),
        Self::Drt { real_time: true },
        Self::ClassSelector(5),
        Self::Af(4),
        Self::ClassSelector(4),
        Self::Af(3),
        Self::ClassSelector(3),
        Self::Af(2),
        Self::ClassSelector(2),
        Self::Af(1),
        Self::Drt { real_time: false },
        Self::Default,
        Self::ClassSelector(1),
        Self::LowerEffort,
    ];

    /// Returns the behaviour with this name, ignoring case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let upper = name.to_ascii_uppercase();
        Self::ALL.into_iter().find(|one| one.to_string() == upper)
    }

    /// Returns its code points in the notation of policies, starting with that of packets within
    /// their contract.
    #[must_use]
    pub fn code_points(self) -> Vec<String> {
        match self {
            Self::Ef => vec!["EF".to_owned()],
            Self::ClassSelector(number) => vec![format!("CS{number}")],
            Self::Af(class) => (1..=3).map(|drop| format!("AF{class}{drop}")).collect(),
            // The most important level comes first.
            Self::Drt { .. } => {
                let levels = (1..=6).rev();
                levels.map(|level| format!("{self}{level}")).collect()
            }
            Self::Default => vec!["CS0".to_owned()],
            Self::LowerEffort => vec!["LE".to_owned()],
        }
    }

    /// Returns the priority of its packets; 0 is served first.
    ///
    /// Only EF precedes everything else (RFC 3246 section 2). Network control, CS6 and CS7, is
    /// next (RFC 2474 section 4.2.2.2), then the real-time class of DRT. Assured classes, other
    /// selectors and the default share the rest in proportion. CS1 and LE get what is left.
    #[must_use]
    pub const fn priority(self) -> u8 {
        match self {
            Self::Ef => 0,
            Self::ClassSelector(6..) => 1,
            Self::Drt { real_time: true } => 2,
            Self::ClassSelector(1) => 6,
            Self::LowerEffort => 7,
            Self::ClassSelector(_) | Self::Af(_) | Self::Drt { .. } | Self::Default => 4,
        }
    }

    /// Returns the IP precedence (RFC 791 section 3.1) of packets within their contract: the upper
    /// three bits of the code point (RFC 2474 section 4.2.2). Those of DRT have another meaning.
    #[must_use]
    pub const fn precedence(self) -> Option<u8> {
        match self {
            // 101110.
            Self::Ef => Some(5),
            Self::ClassSelector(number) | Self::Af(number) => Some(number),
            Self::Default => Some(0),
            Self::Drt { .. } | Self::LowerEffort => None,
        }
    }

    /// Returns whether its share is also its maximum: true for EF, whose excess a node discards
    /// (RFC 3246 section 2.8).
    #[must_use]
    pub const fn bounded(self) -> bool {
        matches!(self, Self::Ef)
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ef => f.write_str("EF"),
            Self::ClassSelector(number) => write!(f, "CS{number}"),
            Self::Af(class) => write!(f, "AF{class}"),
            Self::Drt { real_time: true } => f.write_str("RT"),
            Self::Drt { .. } => f.write_str("NRT"),
            Self::Default => f.write_str("DF"),
            Self::LowerEffort => f.write_str("LE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The precedence is what a router that knows only RFC 791 finds in the code point.
    #[test]
    fn the_precedence_is_in_the_code_point() {
        for behaviour in Behaviour::ALL {
            let Some(precedence) = behaviour.precedence() else {
                continue;
            };
            for name in behaviour.code_points() {
                let point: weirgate_units::Dscp = name.parse().unwrap();
                assert_eq!(point.value() >> 3, precedence, "{name}");
            }
        }
    }

    /// A higher selector is never served after a lower one. The lowest one, CS1, is served after
    /// the default: RFC 4594 section 4.10 assigns it to low-priority data.
    #[test]
    fn selectors_are_served_in_their_order() {
        let priority = |number| Behaviour::ClassSelector(number).priority();
        for higher in 2..=7 {
            assert!(priority(higher) <= priority(higher - 1), "CS{higher}");
            assert!(priority(higher) <= Behaviour::Default.priority());
        }
        // Network control precedes all others (11x000).
        for control in [6, 7] {
            assert!((1..=5).all(|other| priority(control) < priority(other)));
        }
        assert!(priority(1) > Behaviour::Default.priority());
    }
}
