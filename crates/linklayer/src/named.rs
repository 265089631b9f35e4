// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The named link layers with the bytes of each encapsulation, and suggestions for unknown names.

use crate::layer::{Framing, LinkLayer};
use std::fmt;
use thiserror::Error;
use weirgate_units::Arrange as _;

// Bytes that encapsulations are made of. ATM: Brouer 5.1 with RFC 2684 (LLC,
// SNAP, PAD), RFC 2364 (PPPoA), RFC 2516 (PPPoE) and ITU-T I.363.5 (AAL5).
const AAL5: i32 = 8; // CPCS-PDU trailer
const PPP: i32 = 2; // protocol field
const PPPOE: i32 = 6; // version to length
const LLC: i32 = 3;
const NLPID: i32 = 1;
const SNAP: i32 = 5; // OUI 3, PID 2
const PAD: i32 = 2; // aligns a bridged frame
const MAC: i32 = 14; // two addresses, type
const FCS: i32 = 4;
const VLAN: i32 = 4; // one 802.1Q tag
// IEEE 802.3 section 61.3.3: start of frame 1, end of frame 1, TC-CRC 2.
const PTM: i32 = 4;
// IEEE 802.3 section 4.4.2: preamble with start delimiter 8, gap 12.
const ETHERNET_WIRE: i32 = 20;
/// The smallest Ethernet frame, FCS included (IEEE 802.3 section 4.4.2).
const FRAME: i32 = 64;
/// The same with a tag. IEEE 802.1Q lets a bridge that adds the tag pad to 64
/// or leave 68; the larger is charged.
const TAGGED: i32 = FRAME + VLAN;

/// A row of the table: name, overhead, mpu, framing, description.
struct Row(&'static str, i32, i32, Framing, &'static str);

use Framing::{Atm, None as Bytes, Ptm};

#[rustfmt::skip]
const ROWS: [Row; 22] = [
    Row("adsl:pppoa-vc", PPP + AAL5, 0, Atm,
        "ADSL, PPP over ATM, VC multiplexing (VC-MUX)"),
    Row("adsl:pppoa-llc", LLC + NLPID + PPP + AAL5, 0, Atm,
        "ADSL, PPP over ATM, LLC with NLPID"),
    Row("adsl:routed-vc", AAL5, 0, Atm,
        "ADSL, routed IP (IPoA, RFC 2684), VC multiplexing"),
    Row("adsl:routed-llc", LLC + SNAP + AAL5, 0, Atm,
        "ADSL, routed IP (IPoA, RFC 2684), LLC/SNAP"),
    Row("adsl:bridged-vc", PAD + MAC + AAL5, 0, Atm,
        "ADSL, bridged Ethernet (RFC 2684) without FCS, VC multiplexing"),
    Row("adsl:bridged-llc", LLC + SNAP + PAD + MAC + AAL5, 0, Atm,
        "ADSL, bridged Ethernet (RFC 2684) without FCS, LLC/SNAP"),
    Row("adsl:bridged-vc-fcs", PAD + MAC + FCS + AAL5, PAD + FRAME + AAL5, Atm,
        "ADSL, bridged Ethernet (RFC 2684) with FCS, VC multiplexing"),
    Row("adsl:bridged-llc-fcs", LLC + SNAP + PAD + MAC + FCS + AAL5, LLC + SNAP + PAD + FRAME + AAL5, Atm,
        "ADSL, bridged Ethernet (RFC 2684) with FCS, LLC/SNAP"),
    Row("adsl:pppoe-vc", PPP + PPPOE + PAD + MAC + AAL5, 0, Atm,
        "ADSL, PPPoE over bridged Ethernet without FCS, VC multiplexing"),
    Row("adsl:pppoe-llc", PPP + PPPOE + LLC + SNAP + PAD + MAC + AAL5, 0, Atm,
        "ADSL, PPPoE over bridged Ethernet without FCS, LLC/SNAP"),
    Row("adsl:pppoe-vc-fcs", PPP + PPPOE + PAD + MAC + FCS + AAL5, PAD + FRAME + AAL5, Atm,
        "ADSL, PPPoE over bridged Ethernet with FCS, VC multiplexing"),
    Row("adsl:pppoe-llc-fcs", PPP + PPPOE + LLC + SNAP + PAD + MAC + FCS + AAL5, LLC + SNAP + PAD + FRAME + AAL5, Atm,
        "ADSL, PPPoE over bridged Ethernet with FCS, LLC/SNAP"),
    Row("vdsl2", MAC + FCS + PTM, FRAME + PTM, Ptm,
        "VDSL2 in packet mode (PTM, 64/65), IP over Ethernet"),
    Row("vdsl2:pppoe", PPP + PPPOE + MAC + FCS + PTM, FRAME + PTM, Ptm,
        "VDSL2 in packet mode, PPPoE"),
    Row("vdsl2:vlan", MAC + VLAN + FCS + PTM, TAGGED + PTM, Ptm,
        "VDSL2 in packet mode, IP over Ethernet with a VLAN tag"),
    Row("vdsl2:pppoe-vlan", PPP + PPPOE + MAC + VLAN + FCS + PTM, TAGGED + PTM, Ptm,
        "VDSL2 in packet mode, PPPoE with a VLAN tag"),
    Row("docsis", MAC + FCS, FRAME, Bytes,
        "cable (DOCSIS), as the modem's own shaper counts: the Ethernet frame with FCS"),
    Row("ethernet", MAC + FCS + ETHERNET_WIRE, FRAME + ETHERNET_WIRE, Bytes,
        "an Ethernet cable, preamble and gap included"),
    Row("ethernet:vlan", MAC + VLAN + FCS + ETHERNET_WIRE, TAGGED + ETHERNET_WIRE, Bytes,
        "an Ethernet cable, frames with a VLAN tag"),
    Row("ethernet:pppoe", PPP + PPPOE + MAC + FCS + ETHERNET_WIRE, FRAME + ETHERNET_WIRE, Bytes,
        "an Ethernet cable, PPPoE"),
    Row("ethernet:pppoe-vlan", PPP + PPPOE + MAC + VLAN + FCS + ETHERNET_WIRE, TAGGED + ETHERNET_WIRE, Bytes,
        "an Ethernet cable, PPPoE with a VLAN tag"),
    Row("raw", 0, 0, Bytes,
        "IP packets alone, nothing added"),
];

/// Names of the same links in tc-cake(8), tc-stab(8) and common speech. They only serve
/// suggestions; a policy accepts one name for each layer.
#[rustfmt::skip]
const ELSEWHERE: [(&str, &[&str]); 33] = [
    ("pppoa-vcmux", &["adsl:pppoa-vc"]),
    ("pppoa-llc", &["adsl:pppoa-llc"]),
    ("pppoe-vcmux", &["adsl:pppoe-vc"]),
    ("pppoe-llcsnap", &["adsl:pppoe-llc"]),
    ("bridged-vcmux", &["adsl:bridged-vc"]),
    ("bridged-llcsnap", &["adsl:bridged-llc"]),
    ("ipoa-vcmux", &["adsl:routed-vc"]),
    ("ipoa-llcsnap", &["adsl:routed-llc"]),
    ("conservative", &["adsl:pppoe-llc-fcs"]),
    ("atm", &["adsl:pppoa-vc", "adsl:bridged-llc-fcs", "adsl:pppoe-llc-fcs"]),
    ("adsl", &["adsl:pppoa-vc", "adsl:bridged-llc-fcs", "adsl:pppoe-llc-fcs"]),
    ("adsl2", &["adsl:pppoa-vc", "adsl:bridged-llc-fcs", "adsl:pppoe-llc-fcs"]),
    ("pppoe-ptm", &["vdsl2:pppoe"]),
    ("bridged-ptm", &["vdsl2"]),
    ("ptm", &["vdsl2", "vdsl2:pppoe"]),
    ("vdsl", &["vdsl2", "vdsl2:pppoe", "vdsl2:pppoe-vlan"]),
    ("pppoe", &["adsl:pppoe-llc", "vdsl2:pppoe", "ethernet:pppoe"]),
    ("pppoa", &["adsl:pppoa-vc", "adsl:pppoa-llc"]),
    ("ether-vlan", &["ethernet:vlan"]),
    ("cable", &["docsis"]),
    ("fiber", &["ethernet", "ethernet:pppoe"]),
    ("fibre", &["ethernet", "ethernet:pppoe"]),
    ("ftth", &["ethernet", "ethernet:pppoe"]),
    ("gpon", &["ethernet", "ethernet:pppoe"]),
    ("xgs-pon", &["ethernet", "ethernet:pppoe"]),
    ("4g", &["ethernet"]),
    ("5g", &["ethernet"]),
    ("lte", &["ethernet"]),
    ("starlink", &["ethernet"]),
    ("dsl", &["vdsl2", "vdsl2:pppoe", "adsl:pppoe-llc"]),
    ("coax", &["docsis"]),
    ("none", &["raw"]),
    ("ip", &["raw"]),
];

/// The error of a text that is not the name of a link layer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct UnknownLayer {
    /// The text.
    pub name: String,
    /// Names that look similar or mean the same, the nearest first; all names if none is similar.
    pub near: Vec<&'static str>,
}

impl fmt::Display for UnknownLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a link layer; ", self.name)?;
        let all = self.near.len() == ROWS.len();
        f.write_str(if all {
            "write one of "
        } else {
            "did you mean "
        })?;
        for (at, name) in self.near.iter().enumerate() {
            let before = match at {
                0 => "",
                _ if at + 1 == self.near.len() => " or ",
                _ => ", ",
            };
            write!(f, "{before}`{name}`")?;
        }
        f.write_str(if all { "" } else { "?" })
    }
}

impl LinkLayer {
    /// Returns the link layer of this name; [`LinkLayer::names`] lists them.
    pub fn named(name: &str) -> Result<Self, UnknownLayer> {
        ROWS.iter()
            .find(|row| row.0 == name)
            .map(Row::layer)
            .ok_or_else(|| UnknownLayer {
                name: name.to_owned(),
                near: near(name),
            })
    }

    /// Returns every name with its description, ADSL first.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        ROWS.iter().map(|row| (row.0, row.4))
    }

    /// Returns every named layer, in the order of [`LinkLayer::names`].
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(Row::layer)
    }
}

impl Row {
    const fn layer(&self) -> LinkLayer {
        LinkLayer {
            name: self.0,
            overhead: self.1,
            mpu: self.2 as u32,
            framing: self.3,
            oam: false,
        }
    }
}

/// Returns at most four suggestions: the meaning of the text elsewhere, otherwise names by
/// similarity. Names with the same parts in another order come first.
fn near(text: &str) -> Vec<&'static str> {
    let text = text.trim().to_ascii_lowercase().replace('_', "-");
    if let Some(found) = ELSEWHERE.iter().find(|other| other.0 == text) {
        return found.1.to_vec();
    }
    let parts = |name: &str| {
        let mut parts: Vec<String> = name.split([':', '-']).map(str::to_owned).collect();
        parts.arrange();
        parts
    };
    let likeness = |name: &str| {
        if parts(name) == parts(&text) {
            1.0
        } else {
            strsim::jaro_winkler(&text, name)
        }
    };
    // The threshold 0.84 keeps swapped, missing and doubled letters and wrong separators. It
    // excludes names that only share their first two letters.
    let mut scored: Vec<(f64, &'static str)> = ROWS
        .iter()
        .map(|row| (likeness(row.0), row.0))
        .filter(|scored| scored.0 >= 0.84)
        .collect();
    scored.arrange_by(|a, b| b.0.total_cmp(&a.0));
    let mut names: Vec<&'static str> = scored.into_iter().map(|scored| scored.1).take(4).collect();
    if names.is_empty() {
        names = ROWS.iter().map(|row| row.0).collect();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 5.3 of Brouer (experiment ADSL-5.3): overhead at the SSCS, total overhead, and bytes
    /// and cells of a 40-byte packet.
    #[test]
    fn twelve_encapsulations() {
        for (name, sscs, total, bytes, cells) in [
            ("adsl:pppoa-vc", 2, 10, 50, 2),
            ("adsl:pppoa-llc", 6, 14, 54, 2),
            ("adsl:routed-vc", 0, 8, 48, 1),
            ("adsl:routed-llc", 8, 16, 56, 2),
            ("adsl:bridged-vc", 16, 24, 64, 2),
            ("adsl:bridged-llc", 24, 32, 72, 2),
            ("adsl:bridged-vc-fcs", 20, 28, 68, 2),
            ("adsl:bridged-llc-fcs", 28, 36, 76, 2),
            ("adsl:pppoe-vc", 24, 32, 72, 2),
            ("adsl:pppoe-llc", 32, 40, 80, 2),
            ("adsl:pppoe-vc-fcs", 28, 36, 76, 2),
            ("adsl:pppoe-llc-fcs", 36, 44, 84, 2),
        ] {
            let layer = LinkLayer::named(name).expect("a name");
            assert_eq!(layer.overhead() - AAL5, sscs, "{name}");
            assert_eq!(layer.overhead(), total, "{name}");
            assert_eq!(40 + layer.overhead(), bytes, "{name}");
            assert_eq!(layer.wire_bytes(40), cells * 53, "{name}");
            assert_eq!(layer.framing(), Atm);
        }
        let two = LinkLayer::all()
            .filter(|l| l.framing() == Atm && l.wire_bytes(40) == 106)
            .count();
        assert_eq!(two, 11, "ADSL-5.3: two cells in 11 of 12");
        // Brouer 6.1.2: why a table with 8-byte steps needed the overhead
        // added in the look-up.
        let steps = LinkLayer::all().filter(|l| l.framing() == Atm && l.overhead() % 8 == 0);
        assert_eq!(steps.count(), 6, "6 of 12 overheads are multiples of 8");
        let pppoe = LinkLayer::named("adsl:pppoe-llc-fcs").expect("a name");
        assert_eq!(
            ((1.0 - pppoe.efficiency(40)) * 100.0).round(),
            62.0,
            "62 % of them overhead"
        );
    }

    /// Brouer 5.1.4: a frame whose FCS is kept is at least 64 bytes, so 40
    /// bytes of IP make 82 with LLC, and 6 of them are padding.
    #[test]
    fn the_ethernet_minimum_where_the_fcs_is_kept() {
        for (name, bytes) in [
            ("adsl:bridged-vc-fcs", 74),
            ("adsl:bridged-llc-fcs", 82),
            ("adsl:pppoe-vc-fcs", 76),
            ("adsl:pppoe-llc-fcs", 84),
        ] {
            let layer = LinkLayer::named(name).expect("a name");
            let plain = LinkLayer::custom(layer.overhead(), layer.mpu(), Bytes).expect("in range");
            assert_eq!(plain.wire_bytes(40), bytes, "{name}");
            assert_eq!(plain.wire_bytes(46), 46 + layer.overhead() as u32, "{name}");
        }
        // The padding adds a cell only below 21 bytes of IP. No IP packet with a transport header
        // is that short.
        let fcs = LinkLayer::named("adsl:bridged-vc-fcs").expect("a name");
        let none = LinkLayer::custom(28, 0, Atm).expect("in range");
        assert!((21..2_048).all(|n| fcs.wire_bytes(n) == none.wire_bytes(n)));
        assert_eq!((fcs.wire_bytes(20), none.wire_bytes(20)), (106, 53));
    }

    /// tc-cake(8): `overhead` and `mpu` of its keywords.
    #[test]
    fn cake_keywords_agree() {
        for (name, overhead, framing) in [
            ("adsl:pppoa-vc", 10, Atm),
            ("adsl:pppoa-llc", 14, Atm),
            ("adsl:pppoe-vc", 32, Atm),
            ("adsl:pppoe-llc", 40, Atm),
            ("adsl:bridged-vc", 24, Atm),
            ("adsl:bridged-llc", 32, Atm),
            ("adsl:routed-vc", 8, Atm),
            ("adsl:routed-llc", 16, Atm),
            ("vdsl2:pppoe", 30, Ptm),
            ("vdsl2", 22, Ptm),
            ("docsis", 18, Bytes),
            ("ethernet", 38, Bytes),
            ("ethernet:vlan", 42, Bytes),
            ("raw", 0, Bytes),
        ] {
            let layer = LinkLayer::named(name).expect("a name");
            assert_eq!(
                (layer.overhead(), layer.framing()),
                (overhead, framing),
                "{name}"
            );
        }
        assert_eq!(LinkLayer::named("docsis").expect("a name").mpu(), 64);
        assert_eq!(LinkLayer::named("ethernet").expect("a name").mpu(), 84);
    }

    #[test]
    fn names_are_distinct_and_described() {
        for (at, row) in ROWS.iter().enumerate() {
            assert!(
                ROWS[..at]
                    .iter()
                    .all(|other| other.0 != row.0 && other.4 != row.4)
            );
            assert!(!row.4.is_empty() && row.4.len() < 90);
            assert_eq!(LinkLayer::named(row.0).map(|layer| layer.name()), Ok(row.0));
            // Named layers obey the limits of custom layers.
            assert!(
                LinkLayer::custom(row.1, row.2 as u32, row.3).is_ok(),
                "{}",
                row.0
            );
        }
        for (other, meant) in ELSEWHERE {
            assert!(LinkLayer::named(other).is_err(), "{other} is a name itself");
            assert!(
                meant.iter().all(|name| LinkLayer::named(name).is_ok()),
                "{other}"
            );
        }
    }

    #[test]
    fn unknown_names_get_near_ones() {
        let text = |name: &str| LinkLayer::named(name).expect_err("not a name").to_string();
        assert_eq!(
            text("pppoa-vcmux"),
            "`pppoa-vcmux` is not a link layer; did you mean `adsl:pppoa-vc`?"
        );
        assert_eq!(
            text("adsl:pppoe-lcc"),
            "`adsl:pppoe-lcc` is not a link layer; did you mean `adsl:pppoe-llc`, \
             `adsl:pppoe-vc`, `adsl:pppoe-llc-fcs` or `adsl:pppoa-llc`?"
        );
        assert_eq!(
            text("cable"),
            "`cable` is not a link layer; did you mean `docsis`?"
        );
        assert!(text("VDSL2").contains("did you mean `vdsl2`"));
        assert!(text("ethernt").contains("did you mean `ethernet`"));
        assert!(text("docisis").contains("did you mean `docsis`"));
        assert!(text("vdsl2_pppoe").contains("did you mean `vdsl2:pppoe`"));
        assert!(text("vdsl2:vlan-pppoe").contains("did you mean `vdsl2:pppoe-vlan`"));
        assert!(text("llc-pppoe:adsl").contains("did you mean `adsl:pppoe-llc`"));
        assert!(text("").starts_with("`` is not a link layer; write one of `adsl:pppoa-vc`, "));
        assert!(text("token ring").ends_with("`ethernet:pppoe-vlan` or `raw`"));
    }
}
