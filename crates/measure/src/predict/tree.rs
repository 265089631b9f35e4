// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An HTB tree of two levels with its filters, read from `tc` command lines.
//!
//! It knows the forms that the thesis's scripts use. Anything else makes the tree unknown, so
//! that nothing is predicted from an incomplete tree.

use super::htb::{Account, Bucket};
use super::shaper::{ETHERNET, bits};

/// The fields of a packet that decide its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) ipv6: bool,
    /// IP protocol: 1, 6, 17.
    pub(super) protocol: u32,
    /// The byte that contains the code point.
    pub(super) dsfield: u32,
    pub(super) port: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
enum Match {
    Dsfield,
    Protocol,
    Port,
}

#[derive(Debug)]
struct Filter {
    order: u32,
    matches: Vec<(Match, u32, u32)>,
    class: String,
}

/// A leaf.
#[derive(Debug)]
pub(super) struct Leaf {
    name: String,
    pub(super) account: Account,
    /// The longest queue, in bytes as the kernel counts them.
    pub(super) limit: u64,
}

/// A tree.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Account,
    /// The root's bucket in bytes, for texts.
    pub(super) burst: f64,
    pub(super) leaves: Vec<Leaf>,
    filters: Vec<Filter>,
    default: String,
    overhead: u64,
    atm: bool,
}

impl Tree {
    /// Reads the commands for the device `wan`; returns `None` if one is unknown.
    pub(super) fn from_commands<'a>(commands: impl Iterator<Item = &'a [String]>) -> Option<Self> {
        let mut reading = Reading::default();
        for argv in commands {
            reading.command(argv)?;
        }
        reading.tree()
    }

    /// Returns the bytes that the tree counts for a packet.
    pub(super) fn counted(&self, ip_bytes: u64) -> f64 {
        let bytes = ip_bytes + u64::from(ETHERNET) + self.overhead;
        let counted = if self.atm {
            bytes.div_ceil(48) * 53
        } else {
            bytes
        };
        counted as f64
    }

    /// Returns the leaf of a packet.
    pub(super) fn classify(&self, packet: Packet) -> Option<usize> {
        let hit = |filter: &&Filter| {
            // The filters are `protocol ip`.
            !packet.ipv6
                && filter.matches.iter().all(|&(what, value, mask)| {
                    let field = match what {
                        Match::Dsfield => Some(packet.dsfield),
                        Match::Protocol => Some(packet.protocol),
                        Match::Port => packet.port,
                    };
                    field.is_some_and(|field| field & mask == value)
                })
        };
        let class = self
            .filters
            .iter()
            .find(hit)
            .map_or(&self.default, |filter| &filter.class);
        self.leaves.iter().position(|leaf| leaf.name == *class)
    }
}

#[derive(Default)]
struct Reading {
    handle: Option<String>,
    default: String,
    root: Option<(String, Account, f64)>,
    leaves: Vec<Leaf>,
    filters: Vec<Filter>,
    /// Overhead and ATM, which must be equal for all classes.
    layer: Option<(u64, bool)>,
}

impl Reading {
    fn command(&mut self, argv: &[String]) -> Option<()> {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        let ["tc", object, "add", "dev", "wan", ..] = words.as_slice() else {
            return None;
        };
        match *object {
            "qdisc" => self.qdisc(&words),
            "class" => self.class(&words),
            "filter" => self.filter(&words),
            _ => None,
        }
    }

    fn qdisc(&mut self, words: &[&str]) -> Option<()> {
        if words.contains(&"root") {
            if !words.contains(&"htb") || words.contains(&"stab") {
                return None;
            }
            self.handle = Some(after(words, "handle")?.to_owned());
            after(words, "default")?.clone_into(&mut self.default);
            return Some(());
        }
        let limit = after(words, "limit").filter(|_| words.contains(&"bfifo"))?;
        let parent = after(words, "parent")?;
        let leaf = self.leaves.iter_mut().find(|leaf| leaf.name == parent)?;
        leaf.limit = limit.parse().ok()?;
        Some(())
    }

    fn class(&mut self, words: &[&str]) -> Option<()> {
        let rate = bits(after(words, "rate")?)?;
        let ceil = after(words, "ceil").map_or(Some(rate), bits)?;
        let burst: f64 = after(words, "burst")?.parse().ok()?;
        let ceil_burst: f64 = after(words, "cburst")?.parse().ok()?;
        let priority = after(words, "prio").map_or(Some(0), |prio| prio.parse().ok())?;
        let overhead = after(words, "overhead").map_or(Some(0), |bytes| bytes.parse().ok())?;
        let layer = (overhead, after(words, "linklayer") == Some("atm"));
        if rate <= 0.0 || *self.layer.get_or_insert(layer) != layer {
            return None;
        }
        let account = Account::new(
            Bucket { rate, burst },
            Bucket {
                rate: ceil,
                burst: ceil_burst,
            },
            priority,
        );
        let (parent, name) = (after(words, "parent")?, after(words, "classid")?.to_owned());
        if Some(parent) == self.handle.as_deref() && self.root.is_none() {
            self.root = Some((name, account, burst));
            return Some(());
        }
        let below_root = self.root.as_ref().is_some_and(|root| root.0 == parent);
        // Among equal priorities the quantum decides, which is unknown here.
        let equal = self.leaves.iter().any(|l| l.account.priority == priority);
        if !below_root || equal {
            return None;
        }
        self.leaves.push(Leaf {
            name,
            account,
            limit: 0,
        });
        Some(())
    }

    fn filter(&mut self, words: &[&str]) -> Option<()> {
        let order = after(words, "prio")?.parse().ok()?;
        if after(words, "protocol") != Some("ip") || !words.contains(&"u32") {
            return None;
        }
        let mut matches = Vec::new();
        for (at, _) in words
            .iter()
            .enumerate()
            .filter(|(_, word)| **word == "match")
        {
            let ["ip", field, value, mask] = *words.get(at + 1..at + 5)? else {
                return None;
            };
            let field = match field {
                "dsfield" | "tos" => Match::Dsfield,
                "protocol" => Match::Protocol,
                "dport" => Match::Port,
                _ => return None,
            };
            matches.push((field, number(value)?, number(mask)?));
        }
        self.filters.push(Filter {
            order,
            matches,
            class: after(words, "flowid")?.to_owned(),
        });
        Some(())
    }

    fn tree(mut self) -> Option<Tree> {
        let (_, root, burst) = self.root?;
        let (overhead, atm) = self.layer?;
        self.filters.sort_by_key(|filter| filter.order);
        let default = format!("{}{}", self.handle?, self.default);
        let known = |name: &str| self.leaves.iter().any(|leaf| leaf.name == name);
        let all = known(&default) && self.filters.iter().all(|filter| known(&filter.class));
        (all && self.leaves.iter().all(|leaf| leaf.limit > 0)).then_some(Tree {
            root,
            burst,
            leaves: self.leaves,
            filters: self.filters,
            default,
            overhead,
            atm,
        })
    }
}

fn after<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    let at = words.iter().position(|other| *other == word)?;
    words.get(at + 1).copied()
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the tree of Brouer 6.2 with a burst in bytes.
    pub(crate) fn thesis(burst: u32) -> Vec<Vec<String>> {
        let class = |parent: &str, id: &str, rate: u32, prio: u32| {
            format!(
                "tc class add dev wan parent {parent} classid {id} htb prio {prio} rate {rate}kbit \
                 ceil 512kbit burst {burst} cburst {burst} overhead 28 linklayer atm"
            )
        };
        let queue =
            |id: u32| format!("tc qdisc add dev wan parent 1:{id} handle {id}: bfifo limit 28125");
        let filter = |prio: u32, what: &str, id: u32| {
            format!(
                "tc filter add dev wan parent 1: protocol ip prio {prio} u32 match ip {what} flowid 1:{id}"
            )
        };
        [
            "tc qdisc add dev wan root handle 1: htb default 50 r2q 1".to_owned(),
            class("1:", "1:1", 512, 0),
            class("1:1", "1:10", 102, 0),
            class("1:1", "1:30", 204, 4),
            class("1:1", "1:50", 204, 5),
            queue(10),
            queue(30),
            queue(50),
            filter(3, "protocol 6 0xff", 30),
            filter(1, "dsfield 0xb8 0xfc", 10),
        ]
        .iter()
        .map(|line| line.split(' ').map(str::to_owned).collect())
        .collect()
    }

    fn read(commands: &[Vec<String>]) -> Option<Tree> {
        Tree::from_commands(commands.iter().map(Vec::as_slice))
    }

    #[test]
    fn the_thesis_tree_is_read() {
        let tree = read(&thesis(2000)).unwrap();
        // Linux counts 14 bytes more than the thesis assumed: 33 cells, not 32.
        assert_eq!(
            [40, 84, 1500].map(|ip| tree.counted(ip)),
            [106.0, 159.0, 1749.0]
        );
        let packet = Packet {
            ipv6: false,
            protocol: 17,
            dsfield: 0,
            port: Some(9),
        };
        assert_eq!(tree.classify(packet), Some(2));
        assert_eq!(
            tree.classify(Packet {
                protocol: 6,
                ..packet
            }),
            Some(1)
        );
        let marked = Packet {
            protocol: 6,
            dsfield: 0xb8,
            ..packet
        };
        assert_eq!(tree.classify(marked), Some(0));
        assert_eq!(
            tree.classify(Packet {
                ipv6: true,
                ..marked
            }),
            Some(2)
        );
    }

    #[test]
    fn what_is_not_known_makes_the_tree_unknown() {
        for (at, line) in [
            (
                3,
                "tc class add dev wan parent 1:10 classid 1:30 htb prio 4 rate 1kbit burst 1 cburst 1",
            ),
            (
                3,
                "tc class add dev wan parent 1:1 classid 1:30 htb prio 0 rate 1kbit burst 1 cburst 1",
            ),
            (6, "tc qdisc add dev wan parent 1:30 handle 30: fq_codel"),
            (
                8,
                "tc filter add dev wan parent 1: protocol ip prio 1 u32 match u8 0x05 0x0f at 0 flowid 1:30",
            ),
            (
                8,
                "tc filter add dev wan parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff flowid 1:99",
            ),
            (9, "tc qdisc add dev lan root cake bandwidth 1mbit"),
        ] {
            let mut commands = thesis(2000);
            commands[at] = line.split(' ').map(str::to_owned).collect();
            assert!(read(&commands).is_none(), "{line}");
        }
    }
}
