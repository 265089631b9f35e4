// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as a file of links: parsing, rendering, and routing for any combination of
//! working links.
//!
//! Besides "no panic", this must hold: links are returned exactly if there is no error, and a
//! rule's mark stays within the bits for links.

use crate::Corpus;
use std::collections::BTreeMap;
use weirgate_document::Severity;
use weirgate_links::{Health, Link, Links, parse, routing};
use weirgate_state::{IpVersion, LinkPath};

/// Texts with more mistakes are tried, but not kept in the corpus.
const MOST_MISTAKES: usize = 1;

pub fn run(data: &[u8]) -> Corpus {
    let Ok(source) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let (links, problems) = parse(source);
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    assert_eq!(links.is_none(), errors > 0);
    // Rendering takes most of the time, so only one problem is rendered.
    if let Some(problem) = problems.get(source.len() % problems.len().max(1)) {
        assert!(problem.render("links.toml", source).contains(problem.code));
    }
    if let Some(links) = links {
        planted(&links);
        routed(&links, source.len());
    }
    if errors > MOST_MISTAKES {
        Corpus::Reject
    } else {
        Corpus::Keep
    }
}

/// Routes by the health of links whose hosts answer at random, and which lose their carrier.
fn routed(links: &Links, mut chance: usize) {
    let new = |_: &Link| Health::new(links.timing, true, true, 0);
    let mut health: Vec<Health> = links.links.iter().map(new).collect();
    let paths: Vec<LinkPath> = links.links.iter().map(path).collect();
    let mut now = 0;
    for _ in 0..16 {
        for one in &mut health {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            now += one.every().as_nanos() << (chance >> 40 & 7);
            match chance >> 60 {
                0 => one.carrier(now, chance >> 50 & 1 == 1),
                1..8 => one.answer(now),
                _ => one.ask(now),
            }
            one.at(now);
            assert!(one.next().is_none_or(|next| next >= now));
        }
        let up: Vec<bool> = health.iter().map(Health::is_up).collect();
        let wanted = routing(links, &up, &paths);
        for rule in &wanted.rules {
            assert!(rule.mark.is_none_or(|(value, mask)| value & !mask == 0));
        }
    }
}

/// Returns a path of the link's device through its gateways, or directly.
fn path(link: &Link) -> LinkPath {
    let hops = link.gateways.iter().map(|one| {
        let version = if one.is_ipv4() {
            IpVersion::V4
        } else {
            IpVersion::V6
        };
        (version, Some(*one))
    });
    let direct = BTreeMap::from([(IpVersion::V4, None)]);
    LinkPath {
        up: true,
        hops: direct.into_iter().chain(hops).collect(),
        ..LinkPath::default()
    }
}

/// The planted mistake: a weight that no seed has.
#[cfg(feature = "planted")]
fn planted(links: &Links) {
    let heavy = links.links.iter().any(|link| link.weight == 97);
    assert!(!heavy, "the planted mistake: a weight of 97");
}

#[cfg(not(feature = "planted"))]
fn planted(_: &Links) {}
