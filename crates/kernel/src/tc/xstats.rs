// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A qdisc's own statistics (`xstats`, linux/pkt_sched.h), in one form for all kinds.

use crate::netlink::wire::{self, Attrs};

const TCA_CAKE_STATS_MEMORY_USED: u16 = 4;
const TCA_CAKE_STATS_TIN_STATS: u16 = 10;
const TCA_CAKE_TIN_STATS_SENT_PACKETS: u16 = 2;
const TCA_CAKE_TIN_STATS_SENT_BYTES64: u16 = 3;
const TCA_CAKE_TIN_STATS_DROPPED_PACKETS: u16 = 4;
const TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS: u16 = 8;
const TCA_CAKE_TIN_STATS_BACKLOG_PACKETS: u16 = 10;
const TCA_CAKE_TIN_STATS_BACKLOG_BYTES: u16 = 11;
const TCA_CAKE_TIN_STATS_PEAK_DELAY_US: u16 = 18;
const TCA_CAKE_TIN_STATS_AVG_DELAY_US: u16 = 19;
const TCA_CAKE_TIN_STATS_SPARSE_FLOWS: u16 = 21;
const TCA_CAKE_TIN_STATS_BULK_FLOWS: u16 = 22;
const TCA_CAKE_TIN_STATS_UNRESPONSIVE_FLOWS: u16 = 23;
/// The attributes that count a tin's flows.
const FLOWS: [u16; 3] = [
    TCA_CAKE_TIN_STATS_SPARSE_FLOWS,
    TCA_CAKE_TIN_STATS_BULK_FLOWS,
    TCA_CAKE_TIN_STATS_UNRESPONSIVE_FLOWS,
];

/// The inner state of a queue, as far as its kind reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inside {
    /// The delay of the packet that left last, in microseconds, or what the kind reports instead.
    /// For cake it is the mean delay of the tin with the longest one.
    pub delay_us: Option<u32>,
    /// For cake: the longest recent delay, in microseconds.
    pub peak_us: Option<u32>,
    /// The probability with which it drops or marks, in millionths.
    pub probability: Option<u32>,
    /// Whether it drops or marks at present because of delay.
    pub dropping: Option<bool>,
    /// Flows with packets waiting, or with recent packets.
    pub flows: Option<u32>,
    /// How often a flow became new; wraps at 2^32.
    pub new_flows: Option<u32>,
    /// Packets dropped because it was full; wraps at 2^32.
    pub full_drops: Option<u32>,
    /// The memory of its packets, in bytes.
    pub memory: Option<u32>,
}

/// One of cake's queues by priority, called tins. Its 32-bit counters wrap at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tin {
    /// Bytes sent, as the qdisc's size table counts them.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Packets marked with ECN.
    pub marks: u32,
    /// The present backlog in bytes.
    pub backlog_bytes: u32,
    /// The present backlog in packets.
    pub queued_packets: u32,
    /// The recent mean delay, in microseconds.
    pub delay_us: u32,
    /// The recent longest delay, in microseconds.
    pub peak_us: u32,
    /// Flows with packets waiting, or with recent packets.
    pub flows: u32,
}

/// Reads the tins of cake; nothing for other kinds. If there are several, the least urgent comes
/// first (`cake_config_diffserv*`, net/sched/sch_cake.c; `diffserv8` is not reordered).
pub(super) fn tins(kind: &str, app: &[u8]) -> Vec<Tin> {
    if kind != "cake" {
        return Vec::new();
    }
    let all = Attrs::of(app).nest(TCA_CAKE_STATS_TIN_STATS);
    let tin = |tin: Attrs<'_>| {
        let word = |kind| tin.u32(kind).unwrap_or(0);
        let flows = FLOWS.map(word).into_iter().fold(0, u32::saturating_add);
        Tin {
            bytes: tin.u64(TCA_CAKE_TIN_STATS_SENT_BYTES64).unwrap_or(0),
            packets: word(TCA_CAKE_TIN_STATS_SENT_PACKETS),
            drops: word(TCA_CAKE_TIN_STATS_DROPPED_PACKETS),
            marks: word(TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS),
            backlog_bytes: word(TCA_CAKE_TIN_STATS_BACKLOG_BYTES),
            queued_packets: word(TCA_CAKE_TIN_STATS_BACKLOG_PACKETS),
            delay_us: word(TCA_CAKE_TIN_STATS_AVG_DELAY_US),
            peak_us: word(TCA_CAKE_TIN_STATS_PEAK_DELAY_US),
            flows,
        }
    };
    all.nests().map(tin).collect()
}

/// Reads a qdisc's own statistics; empty for kinds without any.
pub(super) fn inside(kind: &str, app: &[u8]) -> Inside {
    let word = |offset| wire::u32_at(app, offset);
    let sum = |one: usize, other: usize| Some(word(one)?.saturating_add(word(other)?));
    match kind {
        // struct tc_fq_codel_xstats: type 0 is the qdisc's.
        "fq_codel" if word(0) == Some(0) => Inside {
            new_flows: word(16),
            flows: sum(20, 24),
            full_drops: word(8),
            memory: word(32),
            ..Inside::default()
        },
        // struct tc_codel_xstats: maxpacket, count, lastcount, ldelay, ...
        "codel" => Inside {
            delay_us: word(12),
            full_drops: word(20),
            dropping: word(28).map(|word| word != 0),
            ..Inside::default()
        },
        // struct tc_pie_xstats: prob of 2^64, delay, ...
        "pie" => Inside {
            probability: wire::u64_at(app, 0).map(millionths),
            delay_us: word(8),
            full_drops: word(28),
            ..Inside::default()
        },
        // struct tc_fq_pie_xstats: packets_in, dropped, overlimit, ...
        "fq_pie" => Inside {
            full_drops: word(8),
            new_flows: word(20),
            flows: sum(24, 28),
            memory: word(32),
            ..Inside::default()
        },
        // struct tc_red_xstats: early, pdrop, ...
        "red" => Inside {
            full_drops: word(4),
            ..Inside::default()
        },
        "cake" => cake(&tins(kind, app), app),
        _ => Inside::default(),
    }
}

/// Converts a part of 2^64 to millionths.
fn millionths(part: u64) -> u32 {
    ((u128::from(part) * 1_000_000) >> 64) as u32
}

fn cake(tins: &[Tin], app: &[u8]) -> Inside {
    let flows = tins.iter().map(|tin| tin.flows);
    Inside {
        delay_us: tins.iter().map(|tin| tin.delay_us).max(),
        peak_us: tins.iter().map(|tin| tin.peak_us).max(),
        flows: flows.reduce(u32::saturating_add),
        memory: Attrs::of(app).u32(TCA_CAKE_STATS_MEMORY_USED),
        ..Inside::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn each_kind_tells_what_it_has() {
        let fq_codel = inside("fq_codel", &words(&[0, 1514, 5, 7, 40, 1, 2, 0, 4096, 0]));
        assert_eq!((fq_codel.flows, fq_codel.new_flows), (Some(3), Some(40)));
        assert_eq!(
            (fq_codel.full_drops, fq_codel.memory),
            (Some(5), Some(4096))
        );
        // The statistics of a class are those of one flow, and not of the queue.
        assert_eq!(inside("fq_codel", &words(&[1, 2, 3, 4])), Inside::default());
        let codel = inside("codel", &words(&[1514, 3, 2, 5200, 9, 6, 0, 1, 0]));
        assert_eq!((codel.delay_us, codel.dropping), (Some(5200), Some(true)));
        let mut pie = (1_u64 << 62).to_ne_bytes().to_vec();
        pie.extend(words(&[15_000, 0, 0, 1, 2, 3, 4, 5]));
        let pie = inside("pie", &pie);
        assert_eq!(
            (pie.probability, pie.delay_us),
            (Some(250_000), Some(15_000))
        );
        assert_eq!(pie.full_drops, Some(3));
        // Truncated, or of a kind without any.
        assert_eq!(inside("codel", &[1, 2]), Inside::default());
        assert_eq!(inside("pfifo", &words(&[1, 2, 3])), Inside::default());
        assert_eq!(inside("cake", &[]), Inside::default());
    }

    /// Returns a netlink attribute, padded to four bytes (linux/netlink.h).
    fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn tins_of_cake_are_told_apart() {
        let tin = |index: u32| {
            let word = |kind, value: u32| attr(kind, &value.to_ne_bytes());
            [
                attr(
                    TCA_CAKE_TIN_STATS_SENT_BYTES64,
                    &(u64::from(index) << 33).to_ne_bytes(),
                ),
                word(TCA_CAKE_TIN_STATS_SENT_PACKETS, 10 + index),
                word(TCA_CAKE_TIN_STATS_DROPPED_PACKETS, 20 + index),
                word(TCA_CAKE_TIN_STATS_BACKLOG_BYTES, 30 + index),
                word(TCA_CAKE_TIN_STATS_AVG_DELAY_US, 40 + index),
                word(TCA_CAKE_TIN_STATS_SPARSE_FLOWS, 1),
                word(TCA_CAKE_TIN_STATS_BULK_FLOWS, index),
            ]
            .concat()
        };
        let all = [1, 2, 3]
            .map(|index| attr(index, &tin(u32::from(index))))
            .concat();
        let app = attr(TCA_CAKE_STATS_TIN_STATS, &all);
        let found = tins("cake", &app);
        assert_eq!(found.len(), 3);
        let last = Tin {
            bytes: 3 << 33,
            packets: 13,
            drops: 23,
            backlog_bytes: 33,
            delay_us: 43,
            flows: 4,
            ..Tin::default()
        };
        assert_eq!(found[2], last);
        let whole = inside("cake", &app);
        assert_eq!((whole.delay_us, whole.flows), (Some(43), Some(9)));
        assert_eq!(tins("fq_codel", &app), []);
    }
}
