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
        table: "",
        hint: "",
    }
}

/// Returns a synonym in one table that needs more than another name.
const fn told(
    table: &'static str,
    name: &'static str,
    fields: &'static [&'static str],
    hint: &'static str,
) -> Synonym {
    Synonym {
        name,
        fields,
        why: "",
        table,
        hint,
    }
}

/// Returns the synonym for a source or destination. The direction decides which of the two
/// fields is meant.
const fn side(name: &'static str, fields: &'static [&'static str]) -> Synonym {
    Synonym {
        name,
        fields,
        why: "`local` is the inside host and `remote` the outside one, in both directions",
        table: "",
        hint: "",
    }
}

const SYNONYMS: &[Synonym] = &[
    told(
        "rule",
        "bandwidth",
        &[],
        "write `rate`, `share` or `ceiling` in the `[[class]]` of the rule: a rule only chooses \
         the class",
    ),
    told(
        "class",
        "limit",
        &[],
        "write `ceiling`, such as `ceiling = \"2mbit\"`, for the largest rate, or `limit` in \
         `[class.queue]` for the length of the queue",
    ),
    told(
        "rule",
        "limit",
        &[],
        "write `ceiling` in the `[[class]]` of the rule for its largest rate, or \
         `rate = { over = \"20/s\" }` for packets beyond a rate",
    ),
    told(
        "rule",
        "group",
        &[],
        "write `local-address = \"@{name}\"` for the addresses of `[group.{name}]`, or \
         `cgroup = {}` for processes of this machine",
    ),
    told(
        "rule",
        "match",
        &[],
        "write the conditions into the rule itself, such as `remote-port = 443`, or name a \
         service, such as `service = \"web\"`",
    ),
    told(
        "link",
        "mpu",
        &["layer"],
        "write `layer = { overhead = 44, relative-to = \"ip\", framing = \"none\", mpu = {} }` with \
         the line's overhead, or the line's name, such as `layer = \"vdsl2:pppoe\"`",
    ),
    told(
        "link",
        "overhead",
        &["layer"],
        "write `layer = { overhead = {}, relative-to = \"ip\", framing = \"none\" }`, which counts \
         as cake does, or the line's name, such as `layer = \"vdsl2:pppoe\"`",
    ),
    told(
        "class",
        "weight",
        &["share"],
        "write the part of the link that the class has for certain, such as `share = \"30%\"`",
    ),
    of("bandwidth", &["up", "down", "rate"]),
    of("cbs", &["burst"]),
    of("ceil", &["ceiling"]),
    of("cir", &["rate"]),
    of("classes", &["class", "classes"]),
    side("dest", &["remote-address", "local-address"]),
    side("dest-address", &["remote-address", "local-address"]),
    side("dest-ip", &["remote-address", "local-address"]),
    side("dest-port", &["remote-port", "local-port"]),
    side("destination", &["remote-address", "local-address"]),
    side("destination-address", &["remote-address", "local-address"]),
    side("destination-port", &["remote-port", "local-port"]),
    of("dev", &["device", "interface"]),
    of("down-rate", &["down"]),
    of("download", &["down"]),
    of("download-bandwidth", &["down"]),
    of("download-rate", &["down"]),
    of("download-speed", &["down"]),
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
        table: "",
        hint: "",
    },
    side("host", &["local-address", "remote-address"]),
    of("iface", &["device", "interface"]),
    of("ingress", &["down"]),
    of("interface", &["device"]),
    of("initrwnd", &["initial-window"]),
    of("linklayer", &["layer"]),
    of("mac", &["local-mac"]),
    of("max", &["ceiling"]),
    of("max-rate", &["ceiling"]),
    of("maximum", &["ceiling"]),
    of("maxseg", &["mss"]),
    of("min", &["rate"]),
    of("min-rate", &["rate"]),
    of("minimum", &["rate"]),
    of("pbs", &["peak-burst"]),
    of("pir", &["peak"]),
    of("prio", &["priority"]),
    of("proto", &["protocol"]),
    of("qdisc", &["queue"]),
    of("rate-down", &["down"]),
    of("rate-up", &["up"]),
    of("set-mss", &["mss"]),
    side("source", &["local-address", "remote-address"]),
    side("source-address", &["local-address", "remote-address"]),
    side("source-ip", &["local-address", "remote-address"]),
    side("source-port", &["local-port", "remote-port"]),
    side("sport", &["local-port", "remote-port"]),
    side("src", &["local-address", "remote-address"]),
    side("src-address", &["local-address", "remote-address"]),
    side("src-ip", &["local-address", "remote-address"]),
    side("src-port", &["local-port", "remote-port"]),
    of("target", &["class"]),
    of("up-rate", &["up"]),
    of("uplink", &["up"]),
    of("upload", &["up"]),
    of("upload-bandwidth", &["up"]),
    of("upload-rate", &["up"]),
    of("upload-speed", &["up"]),
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
            assert!(
                !synonym.fields.is_empty() || !synonym.hint.is_empty(),
                "{synonym:?}"
            );
            for field in synonym.fields {
                let mut all = TABLES.iter().flat_map(Table::fields);
                assert!(all.any(|one| one.name == *field), "{synonym:?}");
            }
        }
        // A former name must not be a synonym in all tables too, because its row takes precedence.
        let former = TABLES.iter().flat_map(Table::fields);
        for old in former.flat_map(|field| field.former) {
            let all = |one: &super::Synonym| one.table.is_empty() && one.name == *old;
            assert!(!SYNONYMS.iter().any(all), "{old}");
        }
    }
}
