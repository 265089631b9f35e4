// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kinds of line in users' words, with their fields in a policy.

use weirgate_state::DeviceName;

/// The session or tag that is added to IP packets on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dial {
    /// Neither.
    Plain,
    /// An 802.1Q tag.
    Vlan,
    /// PPPoE.
    Pppoe,
    /// PPPoE in tagged frames.
    PppoeVlan,
    /// PPP over an unknown carrier.
    Ppp,
}

/// A kind of line.
#[derive(Debug, PartialEq, Eq)]
pub struct AccessLine {
    /// Its name in options.
    pub key: &'static str,
    /// A description.
    pub words: &'static str,
    /// Other names for it.
    pub also: &'static [&'static str],
    /// Where to find its rates, in words.
    pub rates: &'static str,
    /// Its link layer for each [`Dial`], in that order.
    layers: [&'static str; 5],
    /// The margin below the rates, if a policy's default is too small because the rates are a
    /// guess.
    pub margin: Option<&'static str>,
    /// Whether its rate changes during use.
    pub varies: bool,
    /// Prefixes of names of devices and drivers that suggest this kind.
    hints: &'static [&'static str],
}

const PPPOE_ETHERNET: [&str; 5] = [
    "ethernet",
    "ethernet:vlan",
    "ethernet:pppoe",
    "ethernet:pppoe-vlan",
    "ethernet:pppoe",
];

/// All kinds, the most common first.
pub const LINES: [AccessLine; 6] = [
    AccessLine {
        key: "fibre",
        words: "fibre, or a network socket in the wall",
        also: &["fiber", "ftth", "gpon", "xgs-pon", "ethernet"],
        rates: "what the provider sold",
        layers: PPPOE_ETHERNET,
        margin: None,
        varies: false,
        hints: &[],
    },
    AccessLine {
        key: "cable",
        words: "cable television",
        also: &["docsis", "coax"],
        rates: "what the provider sold",
        layers: ["docsis"; 5],
        margin: None,
        varies: false,
        hints: &[],
    },
    AccessLine {
        key: "vdsl",
        words: "DSL of 20 Mbit/s or more (VDSL)",
        also: &["vdsl2", "dsl"],
        rates: "what the modem shows",
        // Behind a router that dials in, the session is not visible.
        layers: [
            "vdsl2:pppoe",
            "vdsl2:vlan",
            "vdsl2:pppoe",
            "vdsl2:pppoe-vlan",
            "vdsl2:pppoe",
        ],
        margin: None,
        varies: false,
        hints: &["ppp", "dsl"],
    },
    AccessLine {
        key: "adsl",
        words: "DSL of less (ADSL)",
        also: &["adsl2", "adsl2+"],
        rates: "what the modem shows",
        // An overhead that no common encapsulation exceeds.
        layers: [
            "adsl:pppoe-llc-fcs",
            "adsl:pppoe-llc-fcs",
            "adsl:pppoe-llc-fcs",
            "adsl:pppoe-llc-fcs",
            "adsl:pppoa-llc",
        ],
        margin: None,
        varies: false,
        hints: &[],
    },
    AccessLine {
        key: "mobile",
        words: "mobile (LTE, 5G)",
        also: &["lte", "4g", "5g"],
        rates: "what a speed test shows at a busy hour",
        layers: ["raw"; 5],
        margin: Some("5%"),
        varies: true,
        hints: &["wwan", "wwp", "qmi_wwan", "cdc_mbim", "cdc_ncm", "mhi"],
    },
    AccessLine {
        key: "satellite",
        words: "satellite (Starlink)",
        also: &["starlink"],
        rates: "what a speed test shows at a busy hour",
        layers: ["raw"; 5],
        margin: Some("5%"),
        varies: true,
        hints: &[],
    },
];

impl AccessLine {
    /// Returns the kind with this key or other name.
    #[must_use]
    pub fn named(word: &str) -> Option<&'static Self> {
        let word = word.to_ascii_lowercase();
        let mut lines = LINES.iter();
        lines.find(|line| line.key == word || line.also.contains(&&*word))
    }

    /// Guesses the kind from a device and its driver; the first kind if there is no hint.
    #[must_use]
    pub fn guessed(device: &DeviceName, driver: Option<&str>) -> &'static Self {
        let looks = |hint: &&str| {
            device.as_str().starts_with(*hint)
                || driver.is_some_and(|driver| driver.starts_with(*hint))
        };
        let mut lines = LINES.iter();
        let hinted = lines.find(|line| line.hints.iter().any(&looks));
        hinted.unwrap_or(&LINES[0])
    }

    /// Returns the name of its link layer.
    #[must_use]
    pub const fn layer(&self, dial: Dial) -> &'static str {
        self.layers[dial as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weirgate_linklayer::LinkLayer;

    #[test]
    fn every_layer_has_a_name_and_every_word_is_of_one_kind() {
        let mut words = BTreeSet::new();
        for line in &LINES {
            assert!(words.insert(line.key));
            for word in line.also {
                assert!(words.insert(word), "{word}");
                assert_eq!(AccessLine::named(word), Some(line));
            }
            for layer in line.layers {
                assert!(LinkLayer::named(layer).is_ok(), "{layer}");
            }
        }
        assert_eq!(AccessLine::named("Fibre"), Some(&LINES[0]));
        assert_eq!(AccessLine::named("token ring"), None);
    }

    #[test]
    fn devices_hint_at_a_kind() {
        let guessed = |name: &str, driver| {
            AccessLine::guessed(&DeviceName::new(name).expect("a name"), driver).key
        };
        assert_eq!(guessed("eth0", Some("igc")), "fibre");
        assert_eq!(guessed("ppp0", None), "vdsl");
        assert_eq!(guessed("wwan0", None), "mobile");
        assert_eq!(guessed("usb0", Some("cdc_mbim")), "mobile");
    }
}
