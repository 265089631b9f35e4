// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every policy: nothing makes the parser panic, an accepted policy is consistent,
//! and the default policy is valid for every link.

use proptest::prelude::*;
use std::fmt::Write;
use weirgate_document::Severity;
use weirgate_linklayer::LinkLayer;
use weirgate_policy::template::Template;
use weirgate_policy::{Direction, Policy, parse};
use weirgate_state::DeviceName;
use weirgate_units::{Rate, Size};

/// Checks that an accepted policy can keep its guarantees.
fn adds_up(policy: &Policy) -> Result<(), TestCaseError> {
    for direction in Direction::BOTH {
        let Some(shares) = policy.share_out(direction) else {
            continue;
        };
        prop_assert!(
            shares.gate < shares.line
                || policy.link.margin.value.of(shares.line) < Rate::bits_per_second(8)
        );
        let sum: u64 = shares
            .classes
            .iter()
            .map(|class| class.rate.as_bits_per_second())
            .sum();
        prop_assert!(
            sum <= shares.gate.as_bits_per_second(),
            "{sum} of {}",
            shares.gate
        );
        prop_assert_eq!(
            shares.classes.iter().filter(|class| class.default).count(),
            1
        );
        for class in &shares.classes {
            prop_assert!(
                class.rate >= Rate::kbit(1),
                "{} of {}",
                class.rate,
                class.name
            );
            prop_assert!(class.ceiling >= class.rate && class.ceiling <= shares.gate);
            prop_assert_eq!(class.rate.as_bits_per_second() % 8, 0);
            prop_assert!(class.rate.time_for(Size::bytes(1)).is_some());
        }
    }
    Ok(())
}

fn words() -> impl Strategy<Value = String> {
    let fields = prop_oneof![
        Just("version = 1"),
        Just("[link]"),
        Just("device = \"wan\""),
        Just("lan = [\"lan\"]"),
        Just("up = \"512kbit\""),
        Just("down = \"2mbit\""),
        Just("layer = \"docsis\""),
        Just("layer = { overhead = -4, relative-to = \"device\", framing = \"atm\", oam = true }"),
        Just("margin = \"1%\""),
        Just("margin = \"600kbit\""),
        Just("inbound = \"lan\""),
        Just("[ack]"),
        Just("reserve = true"),
        Just("reserve = \"1gbit\""),
        Just("[[class]]"),
        Just("name = \"a\""),
        Just("name = \"b\""),
        Just("share = \"50%\""),
        Just("share = \"60%\""),
        Just("rate = \"3bit\""),
        Just("ceiling = \"1kbit\""),
        Just("default = true"),
        Just("queue = \"bfifo 28125\""),
        Just("queue = \"pfifo 0\""),
        Just("queue = { kind = \"cake\" }"),
        Just("burst = 99999999"),
        Just("priority = 0"),
        Just("direction = \"down\""),
        Just("[[rule]]"),
        Just("class = \"a\""),
        Just("protocol = [\"tcp\", \"icmp\"]"),
        Just("port = [\"1-65535\"]"),
        Just("local-address = [\"::/0\", \"0.0.0.0/0\"]"),
        Just("tcp-flags = \"syn/syn,ack\""),
        Just("pure-ack = true"),
        Just("fragment = \"later\""),
        Just("length = \"0-128\""),
        Just("dscp = []"),
        Just("= ["),
    ];
    proptest::collection::vec(fields, 0..40).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Generates lines of policies in any order.
    #[test]
    fn any_policy_is_judged(source in words()) {
        let (policy, problems) = parse(&source);
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        prop_assert_eq!(policy.is_some(), errors == 0);
        for problem in &problems {
            prop_assert!(problem.render("p.toml", &source).contains(problem.code));
        }
        if let Some(policy) = policy {
            adds_up(&policy)?;
        }
    }

    /// Shares that sum to at most the whole are accepted; one that exceeds it is refused.
    #[test]
    fn shares_up_to_the_whole(parts in proptest::collection::vec(1_u32..40, 1..8)) {
        let mut source = "version = 1\nlink = { device = \"wan\", up = \"1mbit\", layer = \"raw\" }\n".to_owned();
        for (at, part) in parts.iter().enumerate() {
            let _ = write!(source, "[[class]]\nname = \"c{at}\"\nshare = \"{part}%\"\ndefault = {}\n", at == 0);
        }
        let (policy, problems) = parse(&source);
        let sum: u32 = parts.iter().sum();
        prop_assert_eq!(policy.is_some(), sum <= 100, "{}: {:?}", sum, problems);
        if let Some(policy) = policy {
            adds_up(&policy)?;
        }
    }

    #[test]
    fn the_default_policy_is_right_for_every_link(
        up in 64_u64..10_000_000,
        factor in 1_u64..200,
        layer in 0_usize..22,
        oam: bool,
        lan in 0_usize..3,
        both: bool,
    ) {
        let name = |text: &str| DeviceName::new(text).expect("a name");
        let layer = LinkLayer::all().nth(layer).expect("22 names").with_oam(oam);
        let template = Template {
            device: name("wan"),
            lan: ["lan0", "lan1"].into_iter().take(lan).map(name).collect(),
            up: Rate::kbit(up),
            down: both.then(|| Rate::kbit(up * factor)),
            layer,
        };
        let text = template.text();
        let (policy, problems) = parse(&text);
        let shown: Vec<String> = problems.iter().map(|p| p.render("default", &text)).collect();
        prop_assert!(problems.is_empty(), "{}\n{}", text, shown.join("\n"));
        let policy = policy.expect("no problems");
        prop_assert_eq!(policy.link.layer.value, layer);
        adds_up(&policy)?;
    }
}

#[test]
fn a_link_layer_by_hand_survives_the_template() {
    let layer = LinkLayer::custom(-4, 60, weirgate_linklayer::Framing::Ptm).expect("in range");
    let template = Template {
        device: DeviceName::new("wan").expect("a name"),
        lan: Vec::new(),
        up: Rate::kbit(512),
        down: None,
        layer,
    };
    let (policy, problems) = parse(&template.text());
    assert_eq!(problems, []);
    assert_eq!(policy.expect("right").link.layer.value, layer);
}

/// `policies/default.toml` is the template's text for the line of ADSL-2M.
#[test]
fn the_default_policy_is_the_template() {
    let template = Template {
        device: DeviceName::new("wan").expect("a name"),
        lan: vec![DeviceName::new("lan").expect("a name")],
        up: Rate::kbit(512),
        down: Some(Rate::kbit(2000)),
        layer: LinkLayer::named("adsl:bridged-vc-fcs").expect("a name"),
    };
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/default.toml");
    let text = format!(
        "# SPDX-License-Identifier: Apache-2.0 OR MIT\n{}",
        template.text()
    );
    if std::env::var_os("WEIRGATE_ACCEPT").is_some() {
        std::fs::write(&path, &text).expect("writable");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text);
}

/// The figures of Brouer B.6.1 and 8.1, from whole policies.
#[test]
fn the_thesis_reserves_this_for_acks() {
    for (up, down, ack) in [
        (512, 1800, 85),
        (512, 2000, 95),
        (767, 7200, 340),
        (512, 512, 25),
    ] {
        let source = format!(
            "version = 1\n[link]\ndevice = \"wan\"\nup = \"{up}kbit\"\ndown = \"{down}kbit\"\n\
             layer = \"adsl:bridged-vc-fcs\"\nmargin = \"1kbit\"\n[ack]\nreserve = true\n\
             [[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n"
        );
        let (policy, problems) = parse(&source);
        let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
        assert_eq!(policy.ack_rate(Direction::Up), Some(Rate::kbit(ack)));
        let shares = policy.share_out(Direction::Up).expect("shaped");
        assert_eq!(shares.gate, Rate::kbit(up - 1));
        assert_eq!(shares.classes[1].rate, Rate::kbit(up - 1 - ack));
    }
}
