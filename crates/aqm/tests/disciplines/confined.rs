// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flow that does not respond, beside some that do, under each discipline that says it
//! confines one: CHOKe, FRED, AFD and SFB. Under drop tail it takes what it sends.

use crate::bottleneck::{Bottleneck, Sender, Shares};
use crate::support::{MS, S};

/// 10 Mbit/s and a round trip of 40 ms.
const LINE: (u64, u64) = (10_000_000, 40 * MS);

/// Full packets that the link sends in a second.
const LINE_PACKETS: u64 = 833;

/// Runs ten responsive senders and one that sends at `percent` percent of the link's rate. Returns
/// their shares in the second half of a minute.
#[expect(clippy::print_stdout, reason = "the figures are worth reading")]
fn beside(name: &str, percent: u64, params: &[(&str, u64)]) -> Shares {
    let mut senders = vec![Sender::Responsive; 10];
    senders.push(Sender::Constant(LINE_PACKETS * percent / 100));
    let mut line = Bottleneck::new(name, LINE, &senders, params);
    let shares = line.shares(30 * S, 60 * S);
    println!(
        "{name} {percent} %: {:.3} beside {:.3?}, {:.3} used, {:.1} ms",
        shares.of[10],
        &shares.of[..10],
        shares.used,
        shares.wait_ms
    );
    shares
}

/// Returns the smallest share of the ten responsive senders divided by the largest.
fn evenness(shares: &Shares) -> f64 {
    let own = shares.of[..10].iter();
    own.clone().copied().fold(f64::MAX, f64::min) / own.copied().fold(0.0, f64::max)
}

const TAIL: [(&str, u64); 1] = [("limit_packets", 100)];

/// RED's thresholds for a queue long enough for CHOKe to draw from: 40 and 120 packets.
const LONG: [(&str, u64); 2] = [("min_bytes", 60_000), ("max_bytes", 180_000)];

#[test]
fn drop_tail_and_red_confine_nobody() {
    assert!(beside("droptail", 60, &TAIL).of[10] > 0.55);
    assert!(beside("droptail", 150, &TAIL).of[10] > 0.9);
    assert!(beside("red", 60, &LONG).of[10] > 0.5);
    assert!(beside("red", 150, &LONG).of[10] > 0.8);
}

/// CHOKe draws a flow the more often the more it sends. Sending more than the link's rate does not
/// get it more (the paper's section 4).
#[test]
fn choke_holds_a_flood() {
    for percent in [60, 150, 300] {
        let shares = beside("choke", percent, &LONG);
        assert!(shares.of[10] < 0.35, "{percent}: {:.3}", shares.of[10]);
        assert!(evenness(&shares) > 0.6);
        assert!(shares.used > 0.97);
    }
}

/// An equal share is an eleventh, 0.09. A flow that has had strikes may have the mean, and again up
/// to RED's lower threshold whenever its queue was empty.
#[test]
fn fred_holds_a_flood() {
    for percent in [60, 150, 300] {
        let shares = beside("fred", percent, &[]);
        assert!(shares.of[10] < 0.28, "{percent}: {:.3}", shares.of[10]);
        assert!(evenness(&shares) > 0.8);
        assert!(shares.used > 0.97);
    }
}

#[test]
fn afd_gives_a_flood_a_share() {
    for percent in [60, 150, 300] {
        let shares = beside("afd", percent, &[]);
        assert!(shares.of[10] < 0.11, "{percent}: {:.3}", shares.of[10]);
        assert!(evenness(&shares) > 0.75);
        assert!(shares.used > 0.97);
        // A full packet takes 1.2 ms, and the target is 15 ms.
        assert!((10.0..20.0).contains(&shares.wait_ms));
    }
    // A flow below its share keeps what it sends.
    let low = beside("afd", 5, &[]);
    assert!(low.of[10] > 0.047, "{:.3}", low.of[10]);
}

/// SFB lets a flood have as many packets in the queue as any other flow, and no more.
#[test]
fn sfb_gives_a_flood_a_share() {
    for percent in [60, 150, 300] {
        let shares = beside("sfb", percent, &[("limit_packets", 200)]);
        assert!(shares.of[10] < 0.1, "{percent}: {:.3}", shares.of[10]);
        assert!(shares.used > 0.97);
        assert!(evenness(&shares) > 0.6);
    }
    let low = beside("sfb", 5, &[("limit_packets", 200)]);
    assert!(low.of[10] > 0.047, "{:.3}", low.of[10]);
}
