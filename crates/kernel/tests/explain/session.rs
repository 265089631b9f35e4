// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On a bridge that carries PPPoE, explain and the kernel agree on every frame's class and on every
//! rule's counter. Policies are random; frames are plain, tagged or in a session, whole, fragmented
//! or truncated.

use crate::draw::{CLASSES, Drawn, sequence};
use crate::router::{Wire, apply, feed, in_namespace, observe_classes, path, state_of};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use weirgate_compile::compile;
use weirgate_explain::{Fate, IPV4, Packet, Simulator};
use weirgate_kernel::Kernel;
use weirgate_state::{Capabilities, Device, IpVersion, Origin, PPPOE_SESSION, State};
use weirgate_units::Handle;

const SITE: &str = r#"
[link]
bridge = true
device = "wan"
lan = "lan"
up = "10mbit"
down = "50mbit"
layer = "ethernet"
"#;

/// Conditions and effects of rules, some of which can be combined.
const PARTS: [&str; 36] = [
    "protocol = [\"tcp\", \"udp\"]",
    "protocol = \"udp\"",
    "protocol = \"tcp\"",
    "protocol = [\"esp\", \"gre\"]",
    "local-port = [22, \"5000-5010\"]",
    "remote-port = \"@g\"",
    "port = [80, 443, 53]",
    "port = \"1-1030\"",
    "local-address = \"@g\"",
    "remote-address = [\"203.0.113.6/31\", \"2001:db8:9::1\"]",
    "dscp = [\"EF\", \"CS1\"]",
    "dscp = \"CS1\"",
    "tos = \"minimize-delay\"",
    "length = [\"0-128\", \"600-700\"]",
    "length = \"0-52\"",
    "service = [\"ssh\", \"dns\"]",
    "service = \"web\"",
    "service = [\"tcp-ack\", \"ping\"]",
    "service = \"tcp-handshake\"",
    "service = [\"vpn\", \"p2p\"]",
    "tcp-flags = \"syn/syn,ack,rst,fin\"",
    "pure-ack = true",
    "fragment = \"later\"",
    "icmp-type = [\"echo-request\", \"destination-unreachable\"]",
    "not = { local-address = \"@g\", remote-port = 25, dscp = \"LE\" }",
    "not = { protocol = \"tcp\", port = 80 }",
    "not = { protocol = \"udp\" }",
    "payload = \"bittorrent\"",
    "service = \"p2p-payload\"",
    "final = true",
    "set-dscp = \"AF41\"",
    "rate = { over = \"2/h\", burst = 3 }",
    "rate = { over = \"1/h\", per = \"all\", burst = 9 }",
    "rate = { over = \"1/h\", per = \"remote\", burst = 5 }",
    "rate = { within = \"1/h\", per = \"local\", burst = 2 }",
    "rate = { within = \"1B/s\", burst = 2000 }",
];

const DEVICES: &str = "\
link add wan type veth peer name far
link add lan type veth peer name inside
link add br0 type bridge mcast_snooping 0
link set wan master br0 addrgenmode none
link set lan master br0 addrgenmode none
link set far arp off addrgenmode none
link set inside arp off addrgenmode none
link set br0 addrgenmode none
link set wan up
link set lan up
link set far up
link set inside up
link set br0 up
";

/// Returns a policy whose rules have a few of the parts each, and the additions of a variant.
fn policy(rules: &[(Vec<usize>, bool, u8)], variant: usize) -> String {
    let mut text = String::from("version = 1\n");
    if variant.is_multiple_of(3) {
        text += "final = false\n";
    }
    text += SITE;
    text += CLASSES;
    if variant % 4 == 1 {
        text += "[ack]\nreserve = true\n";
    }
    text += match variant % 5 {
        1 => "[dscp]\nwash = \"both\"\n",
        2 => "[dscp]\nmap = { CS1 = \"LE\" }\n",
        3 => "[dscp]\ndistrust = \"down\"\n",
        _ => "",
    };
    if variant % 2 == 1 {
        text += "[[share]]\ngroup = \"g\"\nshare = \"30%\"\nclasses = [\"good\", \"rest\"]\n";
    }
    if variant % 5 == 4 {
        text += "[[rule]]\nclass = \"bad\"\nrate = { within = \"1B/s\", burst = 9000 }\n";
    }
    for (index, (parts, set, class)) in rules.iter().enumerate() {
        let mut keys = BTreeSet::new();
        let mut body = String::new();
        for part in parts {
            let part = PARTS[*part];
            // Some policies have no part that behaves differently in sessions.
            if variant.is_multiple_of(5) && (part.starts_with("rate") || part.starts_with("set-")) {
                continue;
            }
            // nft refuses rules with two protocols.
            let key = match part.split(' ').next().unwrap_or_default() {
                "service" | "tcp-flags" | "pure-ack" | "icmp-type" => "protocol",
                other => other,
            };
            if keys.insert(key) {
                body = body + part + "\n";
            }
        }
        if body.contains("payload") {
            body += "keep = true\n";
        }
        let class = ["first", "good", "bad", "rest"][usize::from(*class % 4)];
        let head = if *set {
            let off = if *class == *"bad" {
                "enabled = false\n"
            } else {
                ""
            };
            format!("[[ruleset]]\nname = \"set-{index}\"\n{off}[[ruleset.rule]]\n")
        } else {
            "[[rule]]\n".to_owned()
        };
        let rule = format!("{head}class = \"{class}\"\n{body}");
        // Check each rule alone with the site, so that a contradiction affects only that rule.
        if state(&(text.clone() + &rule)).is_some() {
            text += &rule;
        }
    }
    text
}

/// Returns the state of a policy without its queues; `None` if it is refused.
fn state(source: &str) -> Option<State> {
    let policy = weirgate_policy::parse(source).0?;
    let compiled = compile(&policy, &Capabilities::all()).0?;
    let mut state = state_of(&compiled.tables);
    state.hooks = compiled.hooks;
    state.hooks.retain(|_, place| !place.is_bare());
    for name in state.hooks.keys() {
        let device = Device {
            owned_ifb: false,
            offloads: None,
            root: None,
            origin: Origin::default(),
        };
        state.devices.insert(name.clone(), device);
    }
    Some(state)
}

/// The time in nanoseconds between the kernel's and the test's readings of the clock.
const NEAR: u64 = 20_000_000;

/// How a packet is encapsulated and altered.
#[derive(Debug, Clone, Copy)]
struct Wrapping {
    tag: bool,
    /// PPP's protocol if the packet is in a session; 0 for its own.
    session: Option<u16>,
    /// How much of the frame remains, in 256ths; 255 means all.
    left: u8,
    /// A changed byte.
    other: Option<(prop::sample::Index, u8)>,
}

fn wrapping() -> impl Strategy<Value = Wrapping> {
    let session = prop_oneof![
        2 => Just(None),
        9 => Just(Some(0)),
        1 => prop::sample::select(&[0x21, 0x57, 0xc021, 0x8021, 0x8057, 0x0281, 0x7fff, 0x8000][..])
            .prop_map(Some),
    ];
    let left = prop_oneof![6 => Just(255), 1 => any::<u8>()];
    let other = prop_oneof![
        8 => Just(None),
        1 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(Some),
    ];
    (any::<bool>(), session, left, other).prop_map(|(tag, session, left, other)| Wrapping {
        tag,
        session,
        // `random` tests invalid plain packets.
        left: session.map_or(255, |_| left),
        other: session.and(other),
    })
}

impl Wrapping {
    fn packet(&self, inner: &Packet) -> Packet {
        let (mut ethertype, mut bytes) = (inner.ethertype, inner.bytes.clone());
        if let Some(number) = self.session {
            let own = if ethertype == IPV4 { 0x21 } else { 0x57 };
            let number = if number == 0 { own } else { number };
            let mut session = vec![0x11, 0, 0, 7];
            session.extend((bytes.len() as u16 + 2).to_be_bytes());
            session.extend(number.to_be_bytes());
            session.extend(bytes);
            (ethertype, bytes) = (PPPOE_SESSION, session);
        }
        if let Some((place, value)) = self.other {
            // Within the headers.
            let most = bytes.len().min(70);
            bytes[place.index(most)] = value;
        }
        if self.left < 255 {
            bytes.truncate(bytes.len() * usize::from(self.left) / 256);
        }
        Packet::whole(ethertype, bytes)
    }

    fn frame(&self, up: bool, packet: &Packet) -> Vec<u8> {
        let (to, from) = if up { (9, 8) } else { (8, 9) };
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0xff, 0xff, 0, from];
        if self.tag {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend(packet.ethertype.to_be_bytes());
        frame.extend(&packet.bytes);
        frame
    }
}

type Sent = (Wrapping, Drawn);

/// The results of a policy's run.
#[derive(Debug, Default)]
struct Tally {
    frames: usize,
    sessions: usize,
    /// Frames that were too short to be forwarded.
    lost: usize,
    /// Packets in sessions whose class was compared with that of the same packet without PPPoE.
    compared: usize,
    classes: BTreeMap<String, usize>,
    betrayed: usize,
}

fn class_of(fate: &Fate) -> Option<Handle> {
    fate.passes.iter().rev().find_map(|pass| pass.class)
}

/// Returns whether an IP packet's upper-layer header is at its offset without options and
/// extensions.
fn has_fixed_places(packet: &Packet) -> bool {
    let headers = packet.headers();
    let place = match headers.version {
        Some(IpVersion::V4) => 20,
        Some(IpVersion::V6) => 40,
        None => return false,
    };
    headers.transport == place && headers.fragment == 0
}

/// Sends frames through a bridge that is made by weirgate, or by the script that replaces it.
fn compare(source: &str, list: &[Sent], by_script: bool) -> Result<Tally, String> {
    let mut state = state(source).ok_or("refused")?;
    feed("ip -batch -", DEVICES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let kernel = runtime.block_on(async { Kernel::open().unwrap() });
    if by_script {
        // A script does not load programs.
        let arriving = std::mem::take(&mut state.hooks);
        state.devices.retain(|name, _| !arriving.contains_key(name));
        let export = weirgate_plan::export(&state).map_err(|wrong| format!("{wrong:?}"))?;
        assert_eq!(export.inexact, Vec::<String>::new());
        feed("sh -s", &export.script);
    } else {
        apply(&runtime, &kernel, &state);
    }
    observe_classes(&state.tables);
    let (inside, far) = (Wire::open("inside"), Wire::open("far"));
    let mut simulator = Simulator::new(&state.tables).with_hooks(&state.hooks);
    // The same packets without PPPoE, for which rules use other offsets.
    let mut plain = Simulator::new(&state.tables).with_hooks(&state.hooks);
    let same_as_plain = !["dscp]", "set-dscp", "rate ="]
        .iter()
        .any(|other| source.contains(other));
    let mut tally = Tally::default();
    let start = Instant::now();
    for (wrapping, drawn) in list {
        for part in &drawn.parts {
            let packet = wrapping.packet(part);
            // For this plain fragment, the bytes that the kernel takes for ports are in the frame's
            // header here.
            let headers = packet.headers();
            if headers.version == Some(IpVersion::V6) && headers.fragment != 0 {
                continue;
            }
            let frame = wrapping.frame(drawn.up, &packet);
            let (from, to) = if drawn.up {
                (&inside, &far)
            } else {
                (&far, &inside)
            };
            to.drain();
            from.send(&frame);
            let seen = to.receive(None, Duration::from_millis(100));
            let now = start.elapsed().as_nanos() as u64;
            let carried = packet.carried();
            let fate = simulator.pass(packet, &path(drawn.up), now, None);
            // Too close to a limit to decide.
            if fate.passes.iter().any(|pass| pass.slack < NEAR) {
                return Ok(tally);
            }
            let own = class_of(&fate);
            if let Some(carried) = carried {
                let usual = has_fixed_places(&carried);
                let bare = class_of(&plain.pass(carried, &path(drawn.up), now, None));
                if usual && same_as_plain && bare != own {
                    return Err(format!(
                        "{frame:02x?}: {own:?}, without PPPoE {bare:?}\n{source}"
                    ));
                }
                tally.compared += usize::from(usual && same_as_plain);
            }
            let counters = runtime.block_on(kernel.rule_counters(true, "weirgate"));
            let mut differ = String::new();
            for (name, count) in counters.unwrap() {
                let key = (true, name.clone());
                let own = simulator.counters().get(&key).copied().unwrap_or(0);
                if own != count.packets {
                    let _ = write!(
                        differ,
                        "{name}: explain {own}, the kernel {}; ",
                        count.packets
                    );
                }
            }
            let class = seen.as_ref().and_then(|seen| seen.class);
            if (seen.is_some() && class != own) || !differ.is_empty() {
                let tried: Vec<_> = fate.passes.iter().flat_map(|pass| &pass.tried).collect();
                return Err(format!(
                    "{frame:02x?}: explain says {own:?}, the kernel {class:?}; {differ}\n{source}\n\
                     {tried:#?}"
                ));
            }
            tally.frames += 1;
            tally.lost += usize::from(seen.is_none());
            tally.sessions += usize::from(wrapping.session.is_some());
            tally.betrayed += usize::from(wrapping.session.is_some() && fate.payload.is_some());
            let key = own.map_or_else(String::new, |class| class.to_string());
            *tally.classes.entry(key).or_default() += 1;
        }
    }
    Ok(tally)
}

/// Runs random policies on `count` sequences.
fn run(count: usize, seed: u8, by_script: bool) -> Tally {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let parts = prop::collection::vec(0..PARTS.len(), 1..4);
    let rules = prop::collection::vec((parts, prop::bool::weighted(0.2), any::<u8>()), 12..13);
    let one = (prop::collection::vec(wrapping(), 8), sequence());
    let mut all = Tally::default();
    for variant in 0..count.div_ceil(25) {
        let drawn = rules.new_tree(&mut runner).unwrap().current();
        let mut list: Vec<Sent> = Vec::new();
        for _ in 0..25 {
            let (wrappings, packets) = one.new_tree(&mut runner).unwrap().current();
            list.extend(wrappings.into_iter().cycle().zip(packets));
        }
        let source = policy(&drawn, variant);
        let tally = in_namespace(move || compare(&source, &list, by_script))
            .unwrap_or_else(|error| panic!("policy {variant}: {error}"));
        all.frames += tally.frames;
        all.sessions += tally.sessions;
        all.lost += tally.lost;
        all.compared += tally.compared;
        all.betrayed += tally.betrayed;
        for (class, count) in tally.classes {
            *all.classes.entry(class).or_default() += count;
        }
    }
    println!("{all:?}");
    assert!(all.sessions > all.frames / 2, "{all:?}");
    assert!(all.compared > all.sessions / 20, "{all:?}");
    assert!(all.lost < all.frames / 20, "{all:?}");
    assert!(all.classes.len() >= 4, "{all:?}");
    all
}

/// `WEIRGATE_SEQUENCES` sets the number, for `cargo xtask explain-random`.
#[test]
fn explain_and_the_kernel_agree_on_random_frames_of_pppoe() {
    let wanted = std::env::var("WEIRGATE_SEQUENCES").ok();
    let count = wanted.and_then(|text| text.parse().ok()).unwrap_or(300);
    let all = run(count, 11, false);
    assert!(all.betrayed > 0, "{all:?}");
}

/// nft has no names for fields in PPPoE, so their offsets are written in bytes.
#[test]
fn a_script_sees_the_same_in_pppoe() {
    run(150, 12, true);
}
