// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of sqm-scripts in both of its formats: `/etc/config/sqm` of OpenWrt and
//! luci-app-sqm, and `/etc/sqm/DEVICE.iface.conf` elsewhere.
//!
//! The options are defined by `src/functions.sh`, `src/defaults.sh` and the recipes (`*.qos`) of
//! sqm-scripts 1.6. This module uses UCI's names of options for both formats.

mod cake;
mod queue;
mod shell;

use crate::{Imported, begun, codes, finished};
use cake::{CakeLayer, CakeOptions};
use queue::{Queue, Setting};
use weirgate_document::{Draft, Problem, Problems, quoted};
use weirgate_units::Arrange as _;

/// Converts the enabled queue of the file to a policy; `device` selects one of several.
///
/// A file of the second format is named after its device, and does not contain the name, so
/// `device` is required.
///
/// # Errors
///
/// Fails if the text has neither format, or has no queue for the device, if the queue has no upload
/// rate, or if a policy cannot have one of its values. All mistakes are returned, in the order of
/// their places.
pub fn import(text: &str, device: Option<&str>) -> Result<Imported, Vec<Problem>> {
    let problems = Problems::default();
    let queues = if shell::is_meant(text) {
        vec![shell::parse(text, device, &problems)]
    } else {
        let mut sections = weirgate_uci::read(text, &problems);
        sections.retain(|section| section.kind == "queue");
        sections.into_iter().map(Queue::of_uci).collect()
    };
    let on = |queue: &&Queue| queue.value("enabled") == Some("1");
    let named = |queue: &&Queue| device.is_none() || queue.value("interface") == device;
    let chosen = queues.iter().filter(named);
    let first = chosen.clone().find(on).or_else(|| chosen.clone().next());
    let Some(queue) = first else {
        let (what, right) = if queues.is_empty() {
            (
                "there is no `config queue`",
                "give /etc/config/sqm, or an .iface.conf with UPLINK=RATE",
            )
        } else {
            (
                "there is no `config queue` of this device",
                "name one of the file's devices with --device",
            )
        };
        if !problems.has_errors() {
            problems.error(codes::MISSING, 0..0, what, right);
        }
        return Err(problems.into_sorted());
    };
    let mut left_out = Vec::new();
    for other in queues.iter().filter(|other| other.line != queue.line) {
        left_out.push(format!(
            "line {}: the queue of {}; a policy has one link",
            other.line,
            other.value("interface").unwrap_or("no interface")
        ));
    }
    if queue.value("enabled") != Some("1") {
        left_out.push(format!(
            "line {}: option enabled, which is off in sqm: `weirgate apply` shapes all the same",
            queue.line
        ));
    }
    let kind = kind(queue, &mut left_out);
    let cake = match kind {
        "cake" => cake::options(queue, &mut left_out),
        _ => CakeOptions::default(),
    };
    let mut draft = begun();
    link(&mut draft, queue, kind, &cake, &mut left_out, &problems);
    let classes = classes(queue, kind, &cake, &mut left_out);
    draft.push(&format!("\n{classes}"), queue.place("script"));
    left_out.push("the LAN devices, which sqm does not know: fill in `lan`".to_owned());
    unknown(queue, kind, &mut left_out);
    finished("sqm-scripts", &draft, left_out, problems)
}

/// The default margins of a policy below the line's rate, upstream and downstream (docs/policy.md).
const MARGINS: [f64; 2] = [0.002, 0.03];

/// Returns the rate of a line in kbit/s on which a policy shapes to this rate.
fn line_rate(shaped: u64, margin: f64) -> f64 {
    (shaped as f64 / (1.0 - margin)).ceil()
}

fn link(
    draft: &mut Draft,
    queue: &Queue,
    kind: &str,
    cake: &CakeOptions,
    left_out: &mut Vec<String>,
    problems: &Problems,
) {
    // What is missing may be in a line that could not be read, and is reported.
    let complete = !problems.has_errors();
    let missing = |what: &str| {
        if complete {
            problems.error(
                codes::MISSING,
                queue.span.clone(),
                format!("the queue has no {what}"),
                "add `option upload` (UPLINK in an .iface.conf), in kbit/s, and `option interface`",
            );
        }
    };
    let device = queue.value("interface").unwrap_or_else(|| {
        missing("interface");
        "wan"
    });
    let rate = |option: &str| {
        let right = "write a whole number of kbit/s; 0 leaves the direction as it is";
        queue.number(option, right, problems)
    };
    // A rate that cannot be read is reported, and any other takes its place.
    let up = match rate("upload") {
        None if queue.options.contains_key("upload") => 1_000,
        None | Some(0) => {
            missing("upload rate, without which nothing can be shaped");
            1_000
        }
        Some(up) => up,
    };
    let down = rate("download").filter(|rate| *rate > 0);
    // sqm's rates are those it shapes to; a policy's are those of the line.
    let rates = match down {
        Some(down) => format!("{up} kbit/s up and {down} down"),
        None => format!("{up} kbit/s up"),
    };
    draft.push("[link]\n", &queue.span);
    let line = format!("device = {}\n", quoted(device));
    draft.push(&line, queue.place("interface"));
    let line = format!(
        "# A line on which weirgate shapes to {rates}, as sqm did. Write the line's own\n# rates in \
         their place, as the modem shows them.\nup = \"{}kbit\"\n",
        line_rate(up, MARGINS[0])
    );
    draft.push(&line, queue.place("upload"));
    if let Some(down) = down {
        let line = format!("down = \"{}kbit\"\n", line_rate(down, MARGINS[1]));
        draft.push(&line, queue.place("download"));
    }
    let bytes = |option: &str| -> i64 {
        let right = "write a whole number of bytes";
        queue.number(option, right, problems).unwrap_or(0)
    };
    let (overhead, mpu) = (bytes("overhead"), bytes("tcMPU"));
    let linklayer = queue.value("linklayer").unwrap_or("none");
    let (framing, overhead) = match linklayer {
        "atm" | "adsl" => ("atm", overhead),
        "ethernet" => ("none", overhead),
        // sqm-scripts treats these as Ethernet.
        "ptm" | "vdsl" | "vdsl2" => ("ptm", overhead),
        "none" => ("none", 0),
        other => {
            left_out.push(format!(
                "linklayer {other}, which sqm-scripts does not know"
            ));
            ("none", overhead)
        }
    };
    // cake's overhead is relative to the IP packet (`cake_calc_overhead`, sch_cake.c), a size
    // table's to the length that the device counts.
    let by_cake = kind == "cake"
        && linklayer != "none"
        && queue.value("linklayer_adaptation_mechanism") != Some("tc_stab");
    let from = if by_cake { "ip" } else { "device" };
    let framing = match cake.layer {
        Some(CakeLayer::Named(name)) => {
            draft.push(&format!("layer = \"{name}\"\n"), queue.place("linklayer"));
            None
        }
        Some(CakeLayer::Framing(framing)) => Some(framing),
        None => Some(framing),
    };
    if let Some(framing) = framing {
        draft.push("layer = { overhead = ", queue.place("linklayer"));
        draft.push(&overhead.to_string(), queue.place("overhead"));
        let middle = format!(", relative-to = \"{from}\", framing = \"{framing}\", mpu = ");
        draft.push(&middle, queue.place("linklayer"));
        draft.push(&mpu.to_string(), queue.place("tcMPU"));
        draft.push(" }\n", queue.place("linklayer"));
    }
    if let Some(filter) = cake.ack_filter {
        let line = format!("ack-filter = \"{filter}\"\n");
        draft.push(&line, queue.place("eqdisc_opts"));
    }
}

/// Returns the kind of the classes' queues.
fn kind(queue: &Queue, left_out: &mut Vec<String>) -> &'static str {
    match queue.value("qdisc").unwrap_or("fq_codel") {
        "cake" | "cake_mq" => "cake",
        "fq_codel" => "fq_codel",
        "sfq" => "sfq",
        other => {
            left_out.push(format!("qdisc {other}: fq_codel takes its place"));
            "fq_codel"
        }
    }
}

fn classes(queue: &Queue, kind: &str, cake: &CakeOptions, left_out: &mut Vec<String>) -> String {
    let (kind, fair) = (cake.queue(kind), cake.fair());
    let script = queue.value("script").unwrap_or("simple.qos");
    let normal = |share: &str| {
        format!(
            "[[class]]\nname = \"normal\"\nshare = \"{share}\"\nqueue = {kind}\n{fair}\
             default = true\n"
        )
    };
    match script {
        "piece_of_cake.qos" | "simplest.qos" | "simplest_tbf.qos" => {
            for option in ["squash_dscp", "squash_ingress"] {
                if let Some(set) = queue.options.get(option).filter(|set| set.text != "0") {
                    left_out.push(format!(
                        "line {}: {} '{}': code points stay as they are; this policy does not \
                         look at them",
                        set.line, set.written, set.text
                    ));
                }
            }
            normal("100%")
        }
        "layer_cake.qos" | "simple.qos" => {
            // The shares of cake's diffserv3: a quarter for voice, a sixteenth for bulk.
            if queue.value("squash_dscp") != Some("0") || queue.value("squash_ingress") != Some("0")
            {
                left_out.push(
                    "squash_dscp, squash_ingress: code points of arriving packets are trusted here; \
                     delete the rules, or limit them to `direction = \"up\"`"
                        .to_owned(),
                );
            }
            format!(
                "[[class]]\nname = \"voice\"\nshare = \"25%\"\npriority = 1\nqueue = {kind}\n{fair}\n\
                 {}\n[[class]]\nname = \"bulk\"\nshare = \"6.25%\"\npriority = 6\nqueue = \
                 {kind}\n{fair}\n[[rule]]\nclass = \"voice\"\ndscp = [\"EF\", \"VA\", \"CS6\", \
                 \"CS7\"]\n\n[[rule]]\nclass = \"bulk\"\ndscp = [\"CS1\", \"LE\"]\n",
                normal("68.75%")
            )
        }
        other => {
            left_out.push(format!("script {other}: one class takes its place"));
            normal("100%")
        }
    }
}

/// Options that were used above, or that have no effect on the kernel.
const KNOWN: [&str; 15] = [
    "enabled",
    "interface",
    "download",
    "upload",
    "qdisc",
    "script",
    "linklayer",
    "overhead",
    "tcMPU",
    "squash_dscp",
    "squash_ingress",
    "debug_logging",
    "verbosity",
    "linklayer_advanced",
    "linklayer_adaptation_mechanism",
];

fn unknown(queue: &Queue, kind: &str, left_out: &mut Vec<String>) {
    let read =
        |name: &str| KNOWN.contains(&name) || (kind == "cake" && cake::OPTIONS.contains(&name));
    let mut others: Vec<&Setting> = queue
        .options
        .iter()
        .filter(|(name, _)| !read(name.as_str()))
        .map(|(_, set)| set)
        .collect();
    others.arrange_by_key(|set| set.line);
    for set in others {
        left_out.push(format!(
            "line {}: option {} '{}'",
            set.line, set.written, set.text
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
config queue 'eth1'
\toption enabled '1'
\toption interface 'pppoe-wan'
\toption download '85000'
\toption upload '10000'   # measured
\toption qdisc 'cake'
\toption script 'layer_cake.qos'
\toption linklayer 'atm'
\toption overhead '44'
\toption eqdisc_opts 'nat dual-srchost'

config queue
\toption enabled '0'
\toption interface \"eth9\"
";

    #[test]
    fn a_usual_file_becomes_a_policy_without_mistakes() {
        let imported = import(FILE, None).unwrap();
        let (policy, problems) = weirgate_policy::parse(&imported.policy);
        assert!(policy.is_some(), "{problems:?}\n{}", imported.policy);
        for part in [
            "pppoe-wan",
            // 97 % of it is sqm's 85000.
            "down = \"87629kbit\"",
            // cake's overhead is relative to the IP packet.
            "overhead = 44, relative-to = \"ip\"",
            "framing = \"atm\"",
            "queue = { kind = \"cake\", nat = true }",
            "fair = \"hosts\"",
        ] {
            assert!(imported.policy.contains(part), "{part}");
        }
        let left = imported.left_out.join("\n");
        for part in [
            "eth9",
            "dual-srchost in one direction",
            "LAN devices",
            "squash",
        ] {
            assert!(left.contains(part), "{part} in {left}");
        }
        assert!(!left.contains("overhead"));
    }

    #[test]
    fn a_size_table_counts_from_the_device() {
        let text = FILE.replace("qdisc 'cake'", "qdisc 'fq_codel'");
        let imported = import(&text, None).unwrap();
        let layer = "overhead = 44, relative-to = \"device\"";
        assert!(imported.policy.contains(layer), "{}", imported.policy);
        assert!(
            imported
                .left_out
                .join("\n")
                .contains("eqdisc_opts 'nat dual-srchost'")
        );
    }

    #[test]
    fn a_vdsl2_line_is_counted_as_one() {
        let layer = |text: &str| {
            let imported = import(text, None).unwrap();
            let (policy, problems) = weirgate_policy::parse(&imported.policy);
            assert!(policy.is_some(), "{problems:?}\n{}", imported.policy);
            let left = imported.left_out.join("\n");
            assert!(
                !left.contains("ptm") && !left.contains("linklayer"),
                "{left}"
            );
            let mut lines = imported.policy.lines();
            lines
                .find(|line| line.starts_with("layer"))
                .unwrap()
                .to_owned()
        };
        let by_number =
            "layer = { overhead = 44, relative-to = \"ip\", framing = \"ptm\", mpu = 0 }";
        assert_eq!(layer(&FILE.replace("'atm'", "'ptm'")), by_number);
        let keyword = |word| {
            let ethernet = FILE.replace("'atm'", "'ethernet'");
            layer(&ethernet.replace("'nat dual-srchost'", &format!("'nat {word}'")))
        };
        assert_eq!(keyword("ptm"), by_number);
        assert_eq!(keyword("pppoe-ptm"), "layer = \"vdsl2:pppoe\"");
        assert_eq!(keyword("bridged-ptm"), "layer = \"vdsl2\"");
    }

    #[test]
    fn a_policy_of_one_class_names_what_it_leaves_of_code_points() {
        let text = "config queue\n option enabled 1\n option interface wan\n option upload 9400\n \
                    option qdisc cake\n option script piece_of_cake.qos\n option squash_dscp 1\n \
                    option squash_ingress 1\n option iqdisc_opts 'nat dual-dsthost wash'\n \
                    option eqdisc_opts 'nat dual-srchost ack-filter'\n";
        let imported = import(text, None).unwrap();
        let left = imported.left_out.join("\n");
        for part in [
            "line 7: squash_dscp '1'",
            "line 8: squash_ingress '1'",
            "line 9: wash",
        ] {
            assert!(left.contains(part), "{part} in {left}");
        }
        assert!(!left.contains("dual-"), "{left}");
        let (policy, problems) = weirgate_policy::parse(&imported.policy);
        assert!(policy.is_some(), "{problems:?}\n{}", imported.policy);
        for part in ["fair = \"hosts\"", "nat = true", "ack-filter = \"on\""] {
            assert!(imported.policy.contains(part), "{part}");
        }
    }

    #[test]
    fn every_recipe_gives_a_policy() {
        for script in ["simple.qos", "simplest.qos", "piece_of_cake.qos", "own.qos"] {
            let text = FILE.replace("layer_cake.qos", script);
            let imported = import(&text, None).unwrap();
            assert!(
                weirgate_policy::parse(&imported.policy).0.is_some(),
                "{script}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("config queue\n option upload 'x", 2),
            ("config queue\n option interface a\n option upload x\n", 3),
            ("config queue\nwhat is this\n", 2),
            ("config queue\n option interface a\n", 1),
        ] {
            let errors = import(text, None).unwrap_err();
            assert_eq!(errors[0].line_column(text).0, line, "{text}");
        }
    }

    #[test]
    fn every_mistake_is_reported_in_one_run_at_its_place() {
        let places = |text: &str, device: Option<&str>| -> Vec<(usize, usize)> {
            let errors = import(text, device).unwrap_err();
            assert!(errors.iter().all(|one| !one.hint.is_empty()), "{errors:?}");
            errors.iter().map(|one| one.line_column(text)).collect()
        };
        // The values that a policy cannot have, among others.
        let text = "config queue\n\toption interface 'a long name of a device'\n\
                    \toption upload '-5'\n\toption download 'fast'\n\toption qdisc cake\n\
                    \toption linklayer ethernet\n\toption overhead '-4000'\n\
                    \toption tcMPU '900'\n";
        let expected = [(2, 19), (3, 16), (4, 18), (7, 18), (8, 15)];
        assert_eq!(places(text, None), expected);
        let text = "UPLINK=1$\n# all\nDOWNLINK='1\n. other\nOVERHEAD=x LINKLAYER=atm\n";
        let expected = [(1, 8), (3, 1), (4, 1), (5, 10)];
        assert_eq!(places(text, Some("eth0")), expected);
        // An overhead that is valid by itself, but not with the device's own 14 bytes.
        let text = "UPLINK=1000\nLINKLAYER=ethernet\nOVERHEAD=250\n";
        assert_eq!(places(text, Some("eth0")), [(3, 10)]);
    }

    #[test]
    fn any_text_is_harmless() {
        for length in 0..FILE.len() {
            if let Some(text) = FILE.get(..length) {
                let _ = import(text, None);
                let _ = import(&text.replace('\'', "\""), Some("eth9"));
            }
        }
    }
}
