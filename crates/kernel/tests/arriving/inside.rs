// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest. This namespace is the router and its host; the other end of
//! `wan0` is the outside, in its own namespace.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use weirgate_compile::compile;
use weirgate_kernel::{Fault, Kernel, Scope};
use weirgate_plan::{Options, plan_with, verify, with_former};
use weirgate_policy::Direction;
use weirgate_state::{Capabilities, State};
use weirgate_units::Handle;

/// Downstream settings without receive windows, because their programs take the most time to load.
const DOWN: &str = "down = \"10mbit\"\ninbound = \"ifb\"";

/// Returns a policy of two classes, with these lines for its link and these rules.
pub fn policy(link: &str, rules: &str) -> String {
    format!(
        r#"
version = 1
[link]
device = "wan0"
up = "10mbit"
layer = "ethernet"
{link}
[[class]]
name = "first"
share = "20%"
priority = 0
[[class]]
name = "rest"
share = "80%"
default = true
{rules}"#
    )
}

/// Returns a policy in which an upstream packet with EF decides for its connection. Downstream
/// packets have no other sign of the class.
pub fn kept() -> String {
    let rule = r#"
[[rule]]
name = "kept"
class = "first"
direction = "up"
dscp = "EF"
keep = true
"#;
    policy(DOWN, rule)
}

/// Returns the kernel's log so far, one string for each record.
fn log() -> Vec<String> {
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/kmsg")
        .unwrap();
    let mut records = Vec::new();
    let mut bytes = [0; 8_192];
    while let Ok(length) = file.read(&mut bytes) {
        records.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    assert!(!records.is_empty());
    records
}

pub fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Moves this thread to a new network namespace, without remains of earlier tests.
fn alone() {
    #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
    // SAFETY: a new network namespace affects no memory.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
}

/// Creates the devices and the outside, which echoes datagrams to port 7.
pub fn outside() {
    alone();
    let (ready, wait) = channel();
    let (moved, go) = channel::<()>();
    thread::spawn(move || {
        alone();
        ready.send(rustix::thread::gettid()).unwrap();
        go.recv().unwrap();
        // IPv6's own requests would be counted with the packets that are sent here.
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
        run("ip addr add 10.0.0.2/24 dev far0");
        run("ip link set far0 up");
        let echo = UdpSocket::bind(("0.0.0.0", 7)).unwrap();
        ready.send(rustix::thread::gettid()).unwrap();
        let mut space = [0; 2_048];
        while let Ok((count, from)) = echo.recv_from(&mut space) {
            let _ = echo.send_to(&space[..count], from);
        }
    });
    let other = wait.recv().unwrap();
    run("ip link add wan0 type veth peer name far0");
    run(&format!(
        "ip link set far0 netns {}",
        other.as_raw_nonzero()
    ));
    run("ip addr add 10.0.0.1/24 dev wan0");
    run("ip addr add 10.0.0.3/24 dev wan0");
    run("ip link set wan0 up");
    run("ip link set lo up");
    moved.send(()).unwrap();
    wait.recv().unwrap();
}

pub fn desired() -> State {
    let (policy, problems) = weirgate_policy::parse(&kept());
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    compile(&policy, &Capabilities::all()).0.unwrap()
}

pub fn rt() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

pub async fn apply(kernel: &Kernel, wanted: &State, previous: &State) -> usize {
    let before = kernel
        .observe(&Scope::of([wanted, previous]))
        .await
        .unwrap();
    let options = Options {
        previous: Some(previous),
        replace_foreign: false,
    };
    let plan = plan_with(&before, wanted, &options).unwrap();
    let applied = kernel.apply(&plan).await.unwrap();
    assert_eq!(verify(&applied.after, wanted), []);
    applied.steps
}

/// Sends one datagram from a port and receives the answer.
pub fn exchange(port: u16, dscp: u32) {
    exchange_from("10.0.0.1", port, dscp);
}

/// Does the same from an address.
fn exchange_from(address: &str, port: u16, dscp: u32) {
    let socket = UdpSocket::bind((address, port)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    rustix::net::sockopt::set_ip_tos(&socket, (dscp << 2).to_ne_bytes()[0]).unwrap();
    socket.send_to(b"hello", ("10.0.0.2", 7)).unwrap();
    let mut space = [0; 64];
    assert_eq!(socket.recv_from(&mut space).unwrap().0, 5);
}

pub async fn counted(kernel: &Kernel, netdev: bool, name: &str) -> u64 {
    let counters = kernel.rule_counters(netdev, "weirgate").await.unwrap();
    counters
        .get(name)
        .unwrap_or_else(|| panic!("{counters:?}"))
        .packets
}

#[test]
#[ignore = "runs in the guest"]
fn kept_behind_nat() {
    outside();
    run("nft add table ip nat");
    run("nft add chain ip nat out { type nat hook postrouting priority 100 ; }");
    run("nft add rule ip nat out oifname wan0 snat to 10.0.0.3");
    rt().block_on(async {
        let kernel = Kernel::open().unwrap();
        assert!(kernel.capabilities().await.unwrap().restore_marks);
        let told: Vec<String> = log();
        let told = told.iter().filter(|line| line.contains("netlink: '"));
        assert_eq!(told.collect::<Vec<_>>(), Vec::<&String>::new());
        let wanted = desired();
        assert!(apply(&kernel, &wanted, &wanted).await > 0);
        assert_eq!(
            apply(&kernel, &wanted, &wanted).await,
            0,
            "nothing is left to do"
        );
        for (port, dscp, up, down) in [
            (5_001, 46, 1, 1),
            (5_002, 0, 1, 1),
            // The connection's decision is kept, whatever code point the packet has.
            (5_001, 0, 2, 2),
            (5_002, 46, 3, 3),
        ] {
            exchange(port, dscp);
            let place = format!("port {port} code point {dscp}");
            assert_eq!(counted(&kernel, false, "up_kept").await, up, "{place}");
            assert_eq!(counted(&kernel, true, "down_kept").await, down, "{place}");
        }
        // The mark of another program stays in the connection and is not restored to the packet.
        let listed = run("tc filter show dev wan0 ingress");
        assert!(
            listed.contains("0x00ff0000") || listed.contains("0xff0000"),
            "{listed}"
        );
    });
}

#[test]
#[ignore = "runs in the guest"]
fn shared() {
    outside();
    rt().block_on(async {
        let kernel = Kernel::open().unwrap();
        let wanted = desired();
        let scope = Scope::of([&wanted]);
        let former = kernel.observe(&scope).await.unwrap();
        assert!(former.hooks.is_empty());
        // With every request refused in turn, the former state must be restored.
        let options = Options::default();
        let plan = plan_with(&former, &wanted, &options).unwrap();
        kernel.inject(None);
        kernel.apply(&plan).await.unwrap();
        let requests = kernel.requests();
        let remove = with_former(&State::default(), &former);
        apply(&kernel, &remove, &wanted).await;
        assert_eq!(kernel.observe(&scope).await.unwrap(), former);
        for number in 0..requests {
            kernel.inject(Some(Fault::Refused(number)));
            assert!(kernel.apply(&plan).await.is_err(), "request {number}");
            kernel.inject(None);
            let left = kernel.observe(&scope).await.unwrap();
            assert_eq!(left, former, "request {number}");
        }
        assert!(!run("tc qdisc show dev wan0").contains("clsact"));
        // A foreign filter stays, and so does the qdisc that holds it.
        apply(&kernel, &wanted, &wanted).await;
        run("tc filter add dev wan0 ingress pref 90 protocol all matchall action pass");
        exchange(5_001, 46);
        assert_eq!(counted(&kernel, true, "down_kept").await, 1);
        let foreign = || run("tc -s filter show dev wan0 ingress pref 90");
        assert!(foreign().contains("Sent"), "{}", foreign());
        assert!(!foreign().contains("Sent 0 bytes"), "it sees packets too");
        assert_eq!(apply(&kernel, &wanted, &wanted).await, 0);
        apply(&kernel, &remove, &wanted).await;
        let left = kernel.observe(&scope).await.unwrap();
        let place = left.hooks.values().next().unwrap();
        assert!(place.others && place.is_bare());
        assert!(foreign().contains("matchall"));
        assert!(!run("tc filter show dev wan0 ingress").contains("ctinfo"));
        // An empty clsact qdisc that existed before stays.
        run("tc filter del dev wan0 ingress pref 90");
        let former = kernel.observe(&scope).await.unwrap();
        apply(&kernel, &wanted, &wanted).await;
        let remove = with_former(&State::default(), &former);
        apply(&kernel, &remove, &wanted).await;
        assert_eq!(kernel.observe(&scope).await.unwrap(), former);
        assert!(run("tc qdisc show dev wan0").contains("clsact"));
    });
}

/// Returns the packets that a class of the IFB has sent.
fn class_sent(class: Handle) -> u64 {
    let listed = run("tc -s class show dev ifb-wan0");
    let head = format!("class htb {class} ");
    let lines = listed.lines().skip_while(|line| !line.starts_with(&head));
    let sent = lines.skip(1).find(|line| line.trim().starts_with("Sent"));
    let words = sent.unwrap_or_else(|| panic!("{class}: {listed}"));
    // `Sent 47 bytes 1 pkt (dropped ...`.
    let words: Vec<&str> = words.split_whitespace().collect();
    words[3].parse().unwrap()
}

/// Two kinds of inside hosts share one address. An answer to it gets the class of the host that
/// sent the request.
#[test]
#[ignore = "runs in the guest"]
fn parts_behind_nat() {
    outside();
    // IPv6's own requests would be counted with the packets that are sent here.
    std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
    run("ip addr add 10.0.0.4/24 dev wan0");
    run("ip addr add 10.0.0.5/24 dev wan0");
    run("nft add table ip nat");
    run("nft add chain ip nat out { type nat hook postrouting priority 100 ; }");
    run("nft add rule ip nat out oifname wan0 snat to 10.0.0.3");
    let rules = r#"
[marks]
inside = "0x0000ff00"
[group.office]
addresses = ["10.0.0.1"]
[group.guests]
addresses = ["10.0.0.5"]
[[share]]
group = "office"
share = "40%"
classes = ["rest"]
[[cap]]
group = "guests"
class = "first"
down = "1mbit"
[[rule]]
class = "first"
local-address = "10.0.0.5"
keep = true
"#;
    let (policy, problems) = weirgate_policy::parse(&policy(DOWN, rules));
    let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
    let wanted = compile(&policy, &Capabilities::all()).0.unwrap();
    let scheduler = weirgate_compile::scheduler(&policy, Direction::Down).unwrap();
    let of = |class: &str| {
        let mut parents = scheduler.parents.iter();
        let parent = parents.find(|parent| parent.class.name == class).unwrap();
        (scheduler.named(class).unwrap().id, parent.members[0].1)
    };
    let ((rest, office), (_, guest)) = (of("rest"), of("first"));
    rt().block_on(async {
        let kernel = Kernel::open().unwrap();
        assert!(apply(&kernel, &wanted, &wanted).await > 0);
        assert_eq!(apply(&kernel, &wanted, &wanted).await, 0);
        // The first class also has ARP, and is not checked.
        let sent = || [office, rest, guest].map(class_sent);
        let mut known = sent();
        for (address, port, place) in [
            ("10.0.0.1", 5_001, 0),
            ("10.0.0.4", 5_002, 1),
            ("10.0.0.5", 5_003, 2),
            ("10.0.0.1", 5_004, 0),
        ] {
            exchange_from(address, port, 0);
            let now = sent();
            known[place] += 1;
            assert_eq!(now, known, "{address}: office, rest, guest");
        }
    });
}
