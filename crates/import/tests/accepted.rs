// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A policy that was imported passes the policy's reader and the compiler, whatever the files have;
//! or else the import is refused, with places that are in the files.

use proptest::prelude::*;
use std::fmt::Write as _;
use weirgate_document::{Problem, Severity};
use weirgate_import::{libreqos, sqm, uci};
use weirgate_state::Capabilities;

/// Panics if `weirgate check` would refuse the policy.
fn accepted(text: &str) {
    let (policy, problems) = weirgate_policy::parse(text);
    let policy = policy.unwrap_or_else(|| panic!("{problems:?}\n{text}"));
    let (state, problems) = weirgate_compile::compile(&policy, &Capabilities::all());
    assert!(state.is_some(), "{problems:?}\n{text}");
}

/// Panics unless each mistake is in the file and says what would be right.
fn placed(text: &str, errors: &[Problem]) {
    for error in errors {
        assert_eq!(error.severity, Severity::Error);
        assert!(error.span.end <= text.len(), "{error:?}\n{text}");
        assert!(!error.hint.is_empty(), "{error:?}\n{text}");
    }
}

fn word(valid: &'static [&'static str], other: &'static [&'static str]) -> BoxedStrategy<String> {
    let valid = prop::sample::select(valid).prop_map(str::to_owned);
    let other = prop::sample::select(other).prop_map(str::to_owned);
    prop_oneof![60 => valid, 1 => other].boxed()
}

/// Values of sqm's options: mostly those that people have, and some that no policy can have.
fn options() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let options = [
        (
            "interface",
            word(
                &["eth1", "pppoe-wan", "wan"],
                &["a b", "a/b", "sixteen-bytes-ab", "..", ""],
            ),
        ),
        (
            "upload",
            word(
                &["9400", "18000", "900000"],
                &["1", "-5", "0", "99999999999999", "x", "9.5"],
            ),
        ),
        (
            "download",
            word(
                &["47000", "0", "900000"],
                &["1", "-5", "18446744073709551615", "x"],
            ),
        ),
        (
            "qdisc",
            word(&["cake", "fq_codel", "sfq"], &["pie", "\"", ""]),
        ),
        (
            "script",
            word(
                &[
                    "piece_of_cake.qos",
                    "layer_cake.qos",
                    "simple.qos",
                    "simplest.qos",
                ],
                &["own.qos", "\\"],
            ),
        ),
        (
            "linklayer",
            word(&["none", "ethernet", "atm", "ptm"], &["tin\u{7}", "x\ny"]),
        ),
        (
            "overhead",
            word(
                &["0", "34", "44", "-4"],
                &["-4000", "250", "257", "x", "9999999999999999999"],
            ),
        ),
        ("tcMPU", word(&["0", "64"], &["-1", "900", "x"])),
        (
            "eqdisc_opts",
            word(
                &["nat dual-srchost", "ack-filter", ""],
                &["pppoe-ptm", "atm \u{1b}[2J"],
            ),
        ),
        ("squash_dscp", word(&["0", "1"], &["x"])),
    ];
    options
        .map(|(name, value)| value.prop_map(move |value| (name, value)))
        .to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_sqm_has(options in options(), absent in 0_usize..40) {
        let mut text = String::from("config queue\n\toption enabled '1'\n");
        for (number, (name, value)) in options.iter().enumerate() {
            if number != absent {
                let _ = writeln!(text, "\toption {name} '{value}'");
            }
        }
        match sqm::import(&text, None) {
            Ok(imported) => accepted(&imported.policy),
            Err(errors) => placed(&text, &errors),
        }
    }

    #[test]
    fn what_libreqos_has(
        rows in prop::collection::vec(
            (
                "[a-zA-Z0-9 .-]{0,24}",
                word(
                    &["10.0.0.1", "fd00::/56", "10.0.1.0/24", "10.0.0.2;10.0.0.3"],
                    &["10.0.0.300", "x", "", "10.0.0.0/33"],
                ),
                word(&["1", "2.5", "50"], &["0", "0.001", "-1", "x", "1e9", "NaN"]),
                word(&["5", "100", "900"], &["0.1", "x", "1e12"]),
            ),
            1..60,
        ),
        device in word(&["eth0", "wan"], &["a b", ""]),
        rate in word(&["500", "1000.5", "90"], &["0", "0.01", "1e9", "-3", "\"x\""]),
    ) {
        let mut devices = String::new();
        for (id, (name, address, least, most)) in rows.iter().enumerate() {
            let _ = writeln!(
                devices,
                "{id},{name},,,,,{address},,{least},{least},{most},{most}"
            );
        }
        let conf = format!(
            "[bridge]\nto_internet = \"{device}\"\nto_network = \"eth1\"\n[queues]\n\
             uplink_bandwidth_mbps = {rate}\ndownlink_bandwidth_mbps = {rate}\n"
        );
        match libreqos::import(&devices, &conf) {
            Ok(imported) => accepted(&imported.policy),
            Err([first, second]) => {
                prop_assert!(!first.is_empty() || !second.is_empty());
                placed(&devices, &first);
                placed(&conf, &second);
            }
        }
    }
}

#[test]
fn both_outcomes_occur() {
    let right = "1,a,,,,,10.0.0.1,,1,1,5,5\n";
    let conf = "[bridge]\nto_internet = \"eth0\"\n[queues]\nuplink_bandwidth_mbps = 50\n";
    let imported = libreqos::import(right, conf).expect("two right files");
    accepted(&imported.policy);
    let right = "config queue\n option interface wan\n option upload 900\n";
    accepted(&sqm::import(right, None).expect("a right file").policy);
}

#[test]
fn a_value_in_uci_that_no_policy_has_is_refused_at_its_place() {
    let shipped = weirgate_testing::read("packaging/openwrt/files/weirgate.config");
    let kernel = Capabilities::all();
    let right = uci::import(&shipped, &kernel).expect("what OpenWrt is shipped");
    accepted(&right.policy);
    let text = "config policy\n\toption version '1'\n\nconfig link\n\toption device 'a b'\n\
                \toption up '40'\n\toption layer 'vdls'\n\nconfig class\n\
                \toption name 'all'\n\toption share '100%'\n\toption default '1'\n\n\
                config rule\n\toption class 'al'\n\tlist remote_port '5000'\n\
                \tlist remote_port '99999'\n";
    let errors = uci::import(text, &kernel).expect_err("five mistakes");
    let places: Vec<(usize, usize)> = errors.iter().map(|one| one.line_column(text)).collect();
    for place in [(5, 16), (6, 12), (7, 15), (15, 15), (17, 19)] {
        assert!(places.contains(&place), "{place:?} in {errors:#?}");
    }
    placed(text, &errors);
    // What is not UCI, or no option, is reported in the same run.
    let more = text.replacen("config link\n", "config link\n\toption upp '1'\nwhat\n", 1);
    let all = uci::import(&more, &kernel).expect_err("seven mistakes");
    assert_eq!(all.len(), errors.len() + 2, "{all:#?}");
    // Included files are not at hand here, and may have what the policy lacks.
    let including = text.replacen("'1'\n", "'1'\n\tlist include 'more.toml'\n", 1);
    assert!(uci::import(&including, &kernel).is_ok());
}
