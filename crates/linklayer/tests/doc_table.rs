// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page agrees with the code.

use std::fmt::Write;
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};

const PAGE: &str = include_str!("../../../docs/link-layer.md");

/// Returns the current table of `docs/link-layer.md`.
fn table() -> String {
    let mut text = String::from(
        "| name | link | overhead | mpu | framing | on Ethernet | HTB | 40 B | 1500 B | ceiling |\n\
         |---|---|--:|--:|---|--:|---|--:|--:|--:|\n",
    );
    for ((name, description), layer) in LinkLayer::names().zip(LinkLayer::all()) {
        let framing = match layer.framing() {
            Framing::None => "-",
            Framing::Atm => "cells",
            Framing::Ptm => "64/65",
        };
        let on_ethernet = layer.overhead_on(DeviceKind::Ethernet);
        let htb = if on_ethernet >= 0 && layer.framing() != Framing::Ptm {
            "yes"
        } else {
            "no"
        };
        writeln!(
            text,
            "| `{name}` | {description} | {} | {} | {framing} | {on_ethernet} | {htb} | {} | {} | {:.1} % |",
            layer.overhead(),
            layer.mpu(),
            layer.wire_bytes(40),
            layer.wire_bytes(1_500),
            100.0 * layer.efficiency(1_500),
        )
        .expect("a String takes any text");
    }
    text
}

#[test]
fn the_page_shows_the_table_of_the_code() {
    weirgate_testing::golden_part("docs/link-layer.md", "layers", &table());
}

#[test]
fn the_page_names_what_the_code_has() {
    // "that rules out": overheads that HTB's unsigned field cannot express on Ethernet.
    let negative: Vec<&str> = LinkLayer::all()
        .filter(|layer| layer.framing() == Framing::Atm)
        .filter(|layer| layer.overhead_on(DeviceKind::Ethernet) < 0)
        .map(|layer| layer.name())
        .collect();
    assert_eq!(negative, ["adsl:pppoa-vc", "adsl:routed-vc"]);
    for device in DeviceKind::ALL {
        assert!(
            PAGE.contains(&format!(" | {} | ", device.counted())),
            "{device:?}"
        );
    }
    // "those fit in 32 cells": PPPoE's 1492 bytes.
    let mut adsl = LinkLayer::all().filter(|layer| layer.framing() == Framing::Atm);
    assert!(adsl.all(|layer| layer.wire_bytes(1_492) == 32 * 53));
    // "at most one cell a packet too much": the largest against the smallest.
    let largest = LinkLayer::named("adsl:pppoe-llc-fcs").expect("a name");
    for layer in LinkLayer::all().filter(|layer| layer.framing() == Framing::Atm) {
        for ip_len in 20..=1_500 {
            let more = largest
                .wire_bytes(ip_len)
                .checked_sub(layer.wire_bytes(ip_len));
            assert!(more.is_some_and(|more| more <= 53), "{layer} {ip_len}");
        }
    }
    // The example of GSO: one look-up of a long packet against eight packets.
    let pppoa = LinkLayer::named("adsl:pppoa-vc").expect("a name");
    let at_once = pppoa.stab(DeviceKind::Ethernet).charge(8 * 1_000 + 28 + 14);
    assert!(PAGE.contains(&format!("cost {} bytes", 8 * pppoa.wire_bytes(1_028))));
    assert!(PAGE.contains(&format!("were charged {at_once}")));
}

/// "at most 4.5 % above it for a named layer up to 9000 bytes".
#[test]
fn long_packets_cost_little_more() {
    for layer in LinkLayer::all() {
        let stab = layer.stab(DeviceKind::Tun);
        for ip_len in 2_111..=9_000 {
            let over = f64::from(stab.charge(ip_len)) / f64::from(layer.wire_bytes(ip_len));
            assert!(
                over <= 1.045,
                "{layer}: {ip_len} bytes are charged {over}-fold"
            );
        }
    }
}
