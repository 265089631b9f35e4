// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The upstream shaper: its rate, its way of counting, its classes.

/// What a shaper counts for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Bytes on the wire, as the line does, at one gate for all packets.
    Wire,
    /// Bytes on the wire, in a tree whose classes have their own tokens. Rates are exact, but
    /// bursts of several classes may coincide.
    WireTree,
    /// IP bytes and a constant: 14 where it counts the Ethernet header.
    Length {
        /// Bytes added to each packet.
        extra: u32,
        /// The smallest queue of a class, in bytes as the shaper counts them.
        leaf_bytes: Option<u64>,
    },
}

/// A class below the shaper's rate.
#[derive(Debug, Clone, PartialEq)]
pub struct ShaperClass {
    /// Its name in the `class` field of traffic and probes.
    pub name: String,
    /// Its guaranteed rate in bit/s, as the shaper counts.
    pub rate_bits: f64,
    /// The priority: classes with a lower number borrow first.
    pub priority: u32,
}

/// The shaper of the upstream.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaper {
    /// Its rate in bit/s, as the shaper counts.
    pub rate_bits: f64,
    /// What it counts for a packet.
    pub counting: Counting,
    /// Its classes.
    pub classes: Vec<ShaperClass>,
}

/// Linux counts the Ethernet header on egress.
pub(super) const ETHERNET: u32 = 14;

impl Shaper {
    /// Reads `tc` command lines that build an HTB tree on the device `wan`. The class directly
    /// below the qdisc is the shaper; the others are its classes, named by their handles. Returns
    /// `None` if there is no such tree.
    pub fn from_commands(commands: &[Vec<String>]) -> Option<Self> {
        let mut shaper: Option<Self> = None;
        let mut wire = false;
        let mut leaf_bytes: Option<u64> = None;
        for argv in commands {
            let after = |word: &str| {
                let at = argv.iter().position(|argument| argument == word)?;
                argv.get(at + 1).map(String::as_str)
            };
            if argv.first().map(String::as_str) != Some("tc") || after("dev") != Some("wan") {
                continue;
            }
            let has = |word: &str| argv.iter().any(|argument| argument == word);
            if has("atm") || has("adsl") {
                wire = true;
            }
            if has("qdisc") && has("bfifo") {
                let limit = after("limit").and_then(|limit| limit.parse().ok());
                leaf_bytes = [leaf_bytes, limit].into_iter().flatten().min();
            }
            let htb_class = has("class") && has("htb");
            let (Some(parent), Some(rate)) = (after("parent"), after("rate").and_then(bits)) else {
                continue;
            };
            if !htb_class {
                continue;
            }
            // A parent without a minor number is the qdisc itself.
            if parent == "root" || parent.ends_with(':') || parent.ends_with(":0") {
                let ceil = after("ceil").and_then(bits).unwrap_or(rate);
                shaper = Some(Self {
                    rate_bits: ceil,
                    counting: Counting::WireTree,
                    classes: Vec::new(),
                });
            } else if let (Some(shaper), Some(name)) = (&mut shaper, after("classid")) {
                let priority = after("prio")
                    .and_then(|prio| prio.parse().ok())
                    .unwrap_or(0);
                let name = name.to_owned();
                shaper.classes.push(ShaperClass {
                    name,
                    rate_bits: rate,
                    priority,
                });
            }
        }
        let counting = if wire {
            Counting::WireTree
        } else {
            Counting::Length {
                extra: ETHERNET,
                leaf_bytes,
            }
        };
        shaper.map(|shaper| Self { counting, ..shaper })
    }

    /// Returns the class with that name.
    pub(super) fn class(&self, name: &str) -> Option<&ShaperClass> {
        self.classes.iter().find(|class| class.name == name)
    }
}

/// Parses a rate in the syntax of tc(8), in bit/s. `weirgate_units::Rate` reads more forms, but
/// refuses numbers without a unit, which tc accepts.
pub(super) fn bits(text: &str) -> Option<f64> {
    match text.parse::<weirgate_units::Rate>() {
        Ok(rate) => Some(rate.as_bits_per_second() as f64),
        Err(_) => text.parse().ok().filter(|bits: &f64| bits.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_tree_is_read_from_its_commands() {
        let commands = [
            "tc qdisc add dev wan root handle 1: htb r2q 1 default 50",
            "tc class add dev wan parent 1: classid 1:1 htb rate 450kbit ceil 450kbit",
            "tc class add dev wan parent 1:1 classid 1:10 htb rate 90kbit ceil 450kbit prio 0",
            "tc class add dev wan parent 1:1 classid 1:50 htb rate 180kbit ceil 450kbit prio 5",
            "tc qdisc add dev wan parent 1:10 bfifo limit 28125",
        ]
        .map(argv);
        let shaper = Shaper::from_commands(&commands).unwrap();
        assert_eq!(shaper.rate_bits, 450_000.0);
        assert_eq!(
            shaper.counting,
            Counting::Length {
                extra: 14,
                leaf_bytes: Some(28125),
            }
        );
        let names: Vec<&str> = shaper
            .classes
            .iter()
            .map(|class| class.name.as_str())
            .collect();
        assert_eq!(names, ["1:10", "1:50"]);
        assert_eq!(shaper.class("1:50").unwrap().priority, 5);
    }

    #[test]
    fn a_link_layer_makes_it_count_wire_bytes() {
        let commands = [
            "tc qdisc add dev wan root handle 1: stab linklayer atm overhead 14 htb default 50",
            "tc class add dev wan parent 1: classid 1:1 htb rate 512kbit",
        ]
        .map(argv);
        assert_eq!(
            Shaper::from_commands(&commands).unwrap().counting,
            Counting::WireTree
        );
        assert_eq!(
            Shaper::from_commands(&[argv("tc qdisc add dev wan root cake")]),
            None
        );
    }
}
