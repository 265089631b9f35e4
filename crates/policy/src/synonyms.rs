// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names from tc, iptables, sqm-scripts, RFCs and providers' contracts, with the policy fields
//! of the same meaning. The fields' rows have their former names.

use weirgate_document::{Synonym, Vocabulary};

/// The data for hints about unknown fields.
pub(crate) static VOCABULARY: Vocabulary = Vocabulary {
    synonyms: SYNONYMS,
    manual: "weirgate-policy(5)",
};

const fn of(name: &'static str, fields: &'static [&'static str]) -> Synonym {
    Synonym {
        name,
        fields,
        why: "",
    }
}

/// Returns the synonym for a source or destination. The direction decides which of the two
/// fields is meant.
const fn side(name: &'static str, fields: &'static [&'static str]) -> Synonym {
    Synonym {
        name,
        fields,
        why: "`local` is the inside host and `remote` the outside one, in both directions",
    }
}

const SYNONYMS: &[Synonym] = &[
    of("bandwidth", &["up", "down", "rate"]),
    of("cbs", &["burst"]),
    of("ceil", &["ceiling"]),
    of("cir", &["rate"]),
    of("classes", &["class", "classes"]),
    of("dev", &["device", "interface"]),
    of("download", &["down"]),
    of("downlink", &["down"]),
    of("downstream", &["down"]),
    side("dport", &["remote-port", "local-port"]),
    side("dst", &["remote-address", "local-address"]),
    side("dst-address", &["remote-address", "local-address"]),
    side("dst-ip", &["remote-address", "local-address"]),
    side("dst-port", &["remote-port", "local-port"]),
    of("ebs", &["excess-burst"]),
    of("egress", &["up"]),
    of("encapsulation", &["layer"]),
    of("flowid", &["class"]),
    of("fwmark", &["mark"]),
    Synonym {
        name: "guarantee",
        fields: &["share", "rate"],
        why: "a part of the link, or a rate",
    },
    side("host", &["local-address", "remote-address"]),
    of("iface", &["device", "interface"]),
    of("ingress", &["down"]),
    of("interface", &["device"]),
    of("initrwnd", &["initial-window"]),
    of("linklayer", &["layer"]),
    of("mac", &["local-mac"]),
    of("maxseg", &["mss"]),
    of("pbs", &["peak-burst"]),
    of("pir", &["peak"]),
    of("prio", &["priority"]),
    of("proto", &["protocol"]),
    of("qdisc", &["queue"]),
    of("set-mss", &["mss"]),
    side("sport", &["local-port", "remote-port"]),
    side("src", &["local-address", "remote-address"]),
    side("src-address", &["local-address", "remote-address"]),
    side("src-ip", &["local-address", "remote-address"]),
    side("src-port", &["local-port", "remote-port"]),
    of("target", &["class"]),
    of("uplink", &["up"]),
    of("upload", &["up"]),
    of("upstream", &["up"]),
    of("wan", &["device"]),
];

#[cfg(test)]
mod tests {
    use super::SYNONYMS;
    use crate::{TABLES, Table};

    #[test]
    fn synonyms_lead_to_fields() {
        for synonym in SYNONYMS {
            for field in synonym.fields {
                let mut all = TABLES.iter().flat_map(Table::fields);
                assert!(all.any(|one| one.name == *field), "{synonym:?}");
            }
        }
        // A former name must not be a synonym too, because its row takes precedence.
        let former = TABLES.iter().flat_map(Table::fields);
        for old in former.flat_map(|field| field.former) {
            assert!(SYNONYMS.iter().all(|one| one.name != *old), "{old}");
        }
    }
}
