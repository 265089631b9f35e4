// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One mistake is reported once, without its consequences.

use weirgate_policy::parse;

/// A valid policy.
const GOOD: &str = "version = 1\n\
    [link]\ndevice = 'wan'\nup = '512kbit'\ndown = '2mbit'\nlayer = 'adsl:pppoe-llc'\n\
    [ack]\nreserve = true\n\
    [[class]]\nname = 'first'\nshare = '20%'\n\
    [[class]]\nname = 'rest'\nshare = '80%'\ndefault = true\n\
    [[rule]]\nclass = 'first'\ndscp = 'CS7'\n";

/// Returns the codes found in the valid policy with `from` replaced by `to`.
#[track_caller]
fn codes(from: &str, to: &str) -> Vec<&'static str> {
    assert!(GOOD.contains(from), "`{from}` is not in the policy");
    let (_, problems) = parse(&GOOD.replacen(from, to, 1));
    problems.iter().map(|problem| problem.code).collect()
}

#[test]
fn the_good_policy_is_good() {
    assert_eq!(codes("version", "version"), Vec::<&str>::new());
}

#[test]
fn a_rate_that_cannot_be_read_has_no_consequences() {
    assert_eq!(codes("up = '512kbit'", "up = '512 elephants'"), ["D004"]);
    assert_eq!(codes("up = '512kbit'", "up = 512"), ["D004"]);
    assert_eq!(codes("up = '512kbit'\n", ""), ["D002"]);
    assert_eq!(codes("up = '512kbit'", "up = '0kbit'"), ["P103"]);
    assert_eq!(codes("down = '2mbit'", "down = '2 elephants'"), ["D004"]);
}

#[test]
fn an_unknown_condition_is_not_also_a_missing_one() {
    assert_eq!(codes("dscp = 'CS7'", "dcsp = 'CS7'"), ["D003"]);
    assert_eq!(codes("dscp = 'CS7'", ""), ["P149"]);
    // An unknown key of a rule does not affect its class.
    assert_eq!(
        codes(
            "class = 'first'\ndscp",
            "name = 'one'\nclass = 'first'\nport-of = 1\ndscp"
        ),
        ["D003"]
    );
}
