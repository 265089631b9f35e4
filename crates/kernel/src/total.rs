// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Property: no bytes from a kernel make a decoder panic or hang.

use crate::link;
use crate::nft::decode;
use crate::nft::sets::ConstantSet;
use crate::tc::decode::{Entry, tree};
use crate::tc::stats::counters;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Attributes that nest to some depth, with names that decoders look for,
/// correct lengths most of the time, and any content.
fn attributes() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"htb\0".to_vec()),
        Just(b"fq_codel\0".to_vec()),
        Just(b"sfq\0".to_vec()),
        Just(b"red\0".to_vec()),
        Just(b"cake\0".to_vec()),
        Just(b"pfifo\0".to_vec()),
        Just(b"t\0".to_vec()),
        Just(b"payload\0".to_vec()),
        Just(b"immediate\0".to_vec()),
        Just(b"bitwise\0".to_vec()),
        vec(any::<u8>(), 0..60),
    ];
    word.prop_recursive(4, 60, 8, |inner| {
        vec(
            (
                0_u16..20,
                inner,
                prop_oneof![9 => Just(0_u16), 1 => any::<u16>()],
            ),
            0..8,
        )
        .prop_map(|items| {
            let mut bytes = Vec::new();
            for (kind, payload, wrong) in items {
                let length = (payload.len() as u16 + 4).wrapping_add(wrong);
                bytes.extend(length.to_ne_bytes());
                bytes.extend(kind.to_ne_bytes());
                bytes.extend(&payload);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        })
    })
}

/// A message after its netlink header, with a small header of its own.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let header = prop_oneof![
        Just(vec![0; 4]),
        Just(vec![0; 16]),
        (0_u32..3, 0_u32..3).prop_map(|(handle, parent)| {
            let mut header = vec![0; 8];
            header.extend((handle << 16).to_ne_bytes());
            let parent = if parent == 0 { u32::MAX } else { parent << 16 };
            header.extend(parent.to_ne_bytes());
            header.extend([0; 4]);
            header
        }),
        vec(any::<u8>(), 0..24),
    ];
    (header, attributes()).prop_map(|(header, rest)| [header, rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn decoders_are_total(messages in vec(message(), 1..6), raw in vec(any::<u8>(), 0..200)) {
        let mut all = messages;
        all.push(raw);
        let entries = || -> Vec<Entry<'_>> { all.iter().filter_map(|m| Entry::of(m)).collect() };
        let _ = tree(&entries(), &entries(), &[]);
        for entry in entries() {
            let _ = counters(&entry);
        }
        for payload in &all {
            let _ = link::read(payload);
        }
        let _ = decode::elements(&all);
        let sets: BTreeSet<ConstantSet> = ConstantSet::ALL.into_iter().collect();
        for netdev in [false, true] {
            let _ = decode::table(netdev, "t", &all, &all, &sets, |_| None);
        }
    }
}
