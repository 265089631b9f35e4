// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's own disciplines, for comparison with the kit's.

use super::devices::{CLASSES, MAJOR, MINOR, origin, qdisc};
use weirgate_state::{
    Cake, CakeAckFilter, CakeFlowMode, CakeTins, FqCodel, Htb, HtbClass, Pfifo, QdiscKind, Red, Sfq,
};
use weirgate_units::{Handle, Rate, Size, Span};

/// Returns one of the kernel's own disciplines, with the defaults of tc if it has any.
pub(super) fn rival(name: &str, rate: Rate) -> Option<QdiscKind> {
    Some(match name {
        "kernel-pfifo" => QdiscKind::Pfifo(Pfifo { limit: 1_000 }),
        "kernel-fq_codel" => QdiscKind::FqCodel(fq_codel()),
        "kernel-red" => QdiscKind::Red(Red {
            limit: Size::bytes(1 << 20),
            min: Size::bytes(60_000),
            max: Size::bytes(180_000),
            probability_millionths: 20_000,
            wlog: 7,
            plog: 23,
            scell_log: 10,
            ecn: false,
            adaptive: false,
            bandwidth: rate,
            avpkt: 1_000,
        }),
        "kernel-sfq" => QdiscKind::Sfq(Sfq {
            limit: 127,
            perturb: 0,
            quantum: 1_514,
        }),
        "kernel-cake" => QdiscKind::Cake(cake(rate, CakeTins::BestEffort)),
        "kernel-cake+tins" => QdiscKind::Cake(cake(rate, CakeTins::Diffserv4)),
        "kernel-htb+fq_codel" => QdiscKind::Htb(htb(rate)),
        _ => return None,
    })
}

/// The leaf of a circuit's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    FqCodel,
    Cake,
}

/// An HTB tree: a root without a limit, sites, and circuits that are distributed round-robin over
/// the sites. Ranges are minor numbers of classes.
#[derive(Debug, Clone)]
pub(super) struct Circuits {
    pub(super) sites: std::ops::Range<u16>,
    pub(super) leaves: std::ops::Range<u16>,
    /// The ceilings of a site and of a circuit, and the guarantee of a circuit.
    pub(super) site: Rate,
    pub(super) circuit: Rate,
    pub(super) own: Rate,
    pub(super) leaf: Leaf,
}

/// Returns HTB with that tree.
pub(super) fn circuits(tree: &Circuits) -> QdiscKind {
    let sites = tree.sites.len();
    let class = |minor: u16, parent: u16, (rate, ceil): (Rate, Rate), leaf| HtbClass {
        id: Handle::new(MAJOR, minor),
        parent: Handle::new(MAJOR, parent),
        rate,
        ceil,
        buffer: Span::from_millis(1),
        cbuffer: Span::from_millis(1),
        prio: 0,
        quantum: 1_514,
        leaf,
        origin: origin(),
    };
    let kind = || match tree.leaf {
        Leaf::FqCodel => QdiscKind::FqCodel(fq_codel()),
        Leaf::Cake => QdiscKind::Cake(Cake {
            bandwidth: None,
            ..cake(tree.circuit, CakeTins::BestEffort)
        }),
    };
    let most = Rate::kbit(100_000_000);
    let mut classes = vec![class(1, 0, (most, most), None)];
    let site = |minor| class(minor, 1, (tree.site, tree.site), None);
    classes.extend(tree.sites.clone().map(site));
    classes.extend(tree.leaves.clone().enumerate().map(|(number, minor)| {
        let site = tree.sites.start + (number % sites) as u16;
        let queue = qdisc(Handle::new(minor, 0), kind());
        class(minor, site, (tree.own, tree.circuit), Some(Box::new(queue)))
    }));
    QdiscKind::Htb(Htb {
        default_minor: tree.leaves.start,
        r2q: 10,
        direct: Some(0),
        classes,
    })
}

fn cake(rate: Rate, tins: CakeTins) -> Cake {
    Cake {
        bandwidth: Some(rate),
        rtt: Span::from_nanos(100_000_000),
        flow_mode: CakeFlowMode::Triple,
        nat: false,
        ack_filter: CakeAckFilter::No,
        ingress: false,
        split_gso: true,
        memory_limit: 4 << 20,
        tins,
        wire: None,
    }
}

fn fq_codel() -> FqCodel {
    FqCodel {
        limit: 10_240,
        flows: 1_024,
        target: Span::from_nanos(5_000_000),
        interval: Span::from_nanos(100_000_000),
        quantum: 1_514,
        ecn: true,
        memory_limit: 32 << 20,
        ce_threshold: None,
    }
}

/// Returns a root class with the line's rate, and four classes below it with an `fq_codel` each.
fn htb(rate: Rate) -> Htb {
    let root = Handle::new(MAJOR, 1);
    let class = |minor: u16, parent, own: u64, leaf| HtbClass {
        id: Handle::new(MAJOR, minor),
        parent,
        rate: Rate::bits_per_second(own),
        ceil: rate,
        buffer: Span::from_millis(1),
        cbuffer: Span::from_millis(1),
        prio: (minor % MINOR) as u8,
        quantum: 1_514,
        leaf,
        origin: origin(),
    };
    let leaf = |minor: u16| {
        let queue = qdisc(Handle::new(minor, 0), QdiscKind::FqCodel(fq_codel()));
        let share = rate.as_bits_per_second() / u64::from(CLASSES) / 2;
        class(minor, root, share, Some(Box::new(queue)))
    };
    let mut classes = vec![class(
        1,
        Handle::new(MAJOR, 0),
        rate.as_bits_per_second(),
        None,
    )];
    classes.extend((0..CLASSES).map(|number| leaf(MINOR + number)));
    Htb {
        default_minor: MINOR,
        r2q: 10,
        direct: Some(0),
        classes,
    }
}
