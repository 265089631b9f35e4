// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest.

use crate::net::{OWN, SERVER, build, router, run, set, thread_in};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const FILE: &str = "/run/links.toml";
pub const LINKS: &str = r#"
version = 1

[[link]]
name = "first"
device = "wan0"
gateway = "192.0.2.1"
probe = "203.0.113.1"
weight = 3

[[link]]
name = "second"
device = "wan1"
gateway = "198.51.100.1"
probe = "203.0.113.1"
"#;

/// The upstream rate of each link in bits per second; the load exceeds it.
const RATE: f64 = 8e6;
const LOAD: Duration = Duration::from_millis(1);
const LOAD_BYTES: usize = 1_400;
/// The interval of the call's datagrams.
const CALL: Duration = Duration::from_millis(20);
/// The window over which bits are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// The bits that a window may have above the rate: one full packet at each edge, and what the gate
/// may send at once.
const ABOVE: f64 = 6_000.0 * 8.0;

/// `weirgate links run`, with its messages and their times.
pub struct Service(Child, Receiver<(Instant, String)>);

impl Service {
    pub fn begin() -> Self {
        Self::begin_with(&[FILE])
    }

    pub fn begin_with(arguments: &[&str]) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", "router", "weirgate", "links", "run"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (send, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = send.send((Instant::now(), line));
            }
        });
        Self(child, messages)
    }

    /// Waits for a message with this text; returns its time.
    #[track_caller]
    pub fn says(&self, text: &str, within: Duration) -> Instant {
        let end = Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (at, line) = self
                .1
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("not: {text}"));
            println!("  {line}");
            if line.contains(text) {
                return at;
            }
        }
    }

    /// Returns the messages that nobody has waited for yet.
    pub fn so_far(&self) -> Vec<(Instant, String)> {
        self.1.try_iter().collect()
    }

    pub fn end(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

/// A failed test must kill the service, because the guest would wait for it.
impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The load's datagrams at the server: the time, and the router's address that each came from.
type Arrived = Vec<(Instant, IpAddr)>;

/// Sends the load until it is stopped.
pub fn load(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    thread_in("host", move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((SERVER, 5_000)).unwrap();
        while !stop.load(Ordering::Relaxed) {
            // Without a route, sending fails for a moment.
            let _ = socket.send(&[0; LOAD_BYTES]);
            sleep(LOAD);
        }
    });
}

fn count(stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<Arrived> {
    let stop = Arc::clone(stop);
    thread_in("server", move || {
        let socket = UdpSocket::bind((SERVER, 5_000)).unwrap();
        socket.set_read_timeout(Some(WINDOW)).unwrap();
        let mut arrived = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if let Ok((_, from)) = socket.recv_from(&mut [0; 2_000]) {
                arrived.push((Instant::now(), from.ip()));
            }
        }
        arrived
    })
}

/// Runs a call that the server echoes; returns the times of the answers.
pub fn call(stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Instant>> {
    thread_in("server", || {
        let socket = UdpSocket::bind((SERVER, 6_000)).unwrap();
        let mut room = [0; 2_000];
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..length], from);
        }
    });
    let stop = Arc::clone(stop);
    thread_in("host", move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((SERVER, 6_000)).unwrap();
        let listening = socket.try_clone().unwrap();
        listening.set_read_timeout(Some(WINDOW)).unwrap();
        let over = Arc::clone(&stop);
        let heard = thread_in("host", move || {
            let mut heard = Vec::new();
            while !over.load(Ordering::Relaxed) {
                if listening.recv(&mut [0; 2_000]).is_ok() {
                    heard.push(Instant::now());
                }
            }
            heard
        });
        while !stop.load(Ordering::Relaxed) {
            let _ = socket.send(&[0; 172]);
            sleep(CALL);
        }
        heard.join().unwrap()
    })
}

/// Returns the longest time without an answer between two times.
pub fn longest(heard: &[Instant], from: Instant, until: Instant) -> Duration {
    let within = heard.iter().filter(|at| (from..until).contains(at));
    let times: Vec<Instant> = [from]
        .into_iter()
        .chain(within.copied())
        .chain([until])
        .collect();
    times.windows(2).map(|two| two[1] - two[0]).max().unwrap()
}

/// Returns the most bits in a window, of the datagrams that came from an address.
fn most(arrived: &Arrived, by: IpAddr) -> f64 {
    let times: Vec<Instant> = arrived
        .iter()
        .filter(|one| one.1 == by)
        .map(|one| one.0)
        .collect();
    let mut most = 0;
    for (first, start) in times.iter().enumerate() {
        most = most.max(
            times[first..]
                .iter()
                .take_while(|at| **at - *start < WINDOW)
                .count(),
        );
    }
    // Bytes on the wire have UDP, IP, and Ethernet with preamble, FCS and gap.
    (most * (LOAD_BYTES + 28 + 38) * 8) as f64
}

pub fn policies() -> String {
    let part = |device: &str| {
        format!(
            "version = 1\n[link]\ndevice = \"{device}\"\nlan = \"lan\"\nup = \"{}bit\"\n\
             layer = \"ethernet\"\nmargin = \"0%\"\n\
             [[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n",
            RATE as u64
        )
    };
    format!("{}---\n{}", part("wan0"), part("wan1"))
}

/// Returns rules, the routes of all tables, and the tables of nftables. Routes of IPv6 link-local
/// addresses are left out, because the kernel adds them after duplicate address detection.
pub fn routing() -> Vec<String> {
    let mut all = Vec::new();
    for version in ["-4", "-6"] {
        all.push(router(&format!("ip {version} rule")));
        let routes = router(&format!("ip {version} route show table all"));
        all.extend(
            routes
                .lines()
                .filter(|line| !line.contains("fe80::"))
                .map(str::to_owned),
        );
    }
    all.push(router("nft list ruleset"));
    all
}

#[test]
#[ignore = "runs in the guest"]
fn a_link_dies_silently() {
    build();
    // Foreign routing that weirgate must not touch.
    router("ip rule add pref 100 from 10.0.0.77 lookup 100");
    router("ip route add default via 192.0.2.1 table 100");
    let before = routing();
    fs::write("/run/site.toml", policies()).unwrap();
    fs::write(FILE, LINKS).unwrap();
    println!(
        "{}",
        router(&format!(
            "weirgate links check {FILE} --policy /run/site.toml"
        ))
    );
    router("weirgate apply /run/site.toml");
    let shaped = routing();
    let service = Service::begin();
    service.says("routing: ", Duration::from_secs(5));
    let stop = Arc::new(AtomicBool::new(false));
    let (arrived, heard) = (count(&stop), call(&stop));
    sleep(Duration::from_millis(200));
    load(&stop);
    sleep(Duration::from_secs(2));
    let loaded = Instant::now();
    sleep(Duration::from_secs(1));

    // The provider stops forwarding; its router still answers.
    set("isp0", "ipv4/ip_forward", "0");
    let cut = Instant::now();
    let down = service.says("first (wan0) is down", Duration::from_secs(10));
    sleep(Duration::from_secs(4));
    set("isp0", "ipv4/ip_forward", "1");
    let mended = Instant::now();
    let up = service.says("first (wan0) is up", Duration::from_mins(1));
    sleep(Duration::from_secs(5));
    let end = Instant::now();
    stop.store(true, Ordering::Relaxed);
    let (arrived, heard) = (arrived.join().unwrap(), heard.join().unwrap());

    let [first, second] = OWN.map(IpAddr::from);
    let in_force = arrived.iter().find(|one| one.1 == second).unwrap().0;
    let gap = longest(&heard, loaded, mended);
    let later = longest(&heard, mended, end);
    let rates = [first, second].map(|by| most(&arrived, by) / WINDOW.as_secs_f64() / 1e6);
    println!(
        "detected after {:?}, in force {:?} later, call interrupted {gap:?}, {:?} after the \
         return; up again after {:?}; most in {WINDOW:?}: {rates:.2?} Mbit/s",
        down - cut,
        in_force.saturating_duration_since(down),
        later,
        up - mended,
    );
    assert!(down - cut <= Duration::from_secs(3));
    assert!(in_force.saturating_duration_since(down) <= Duration::from_secs(1));
    assert!(gap <= Duration::from_secs(4));
    assert!(up - mended >= Duration::from_secs(10));
    // The link's return must not move the call.
    assert!(later <= Duration::from_millis(200), "{later:?}");
    let allowed = RATE / 1e6 + ABOVE / WINDOW.as_secs_f64() / 1e6;
    assert!(
        rates.iter().all(|rate| *rate <= allowed),
        "{rates:?} above {allowed}"
    );

    let shown = router("weirgate links show --json");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["links"][0]["up"], true, "{shown}");
    service.end();
    // The routing stays in force until it is removed.
    assert_ne!(routing(), shaped);
    router("weirgate links remove");
    assert_eq!(routing(), shaped);
    router("weirgate remove");
    assert_eq!(routing(), before);
}

/// Opens this many connections; counts those that arrived from each address.
fn opened(from: &'static str, to: u16, connections: u16) -> BTreeMap<IpAddr, u16> {
    let socket = thread_in("server", move || UdpSocket::bind((SERVER, to)).unwrap());
    let socket = socket.join().unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let opens = thread_in("host", move || {
        for port in 0..connections {
            let socket = UdpSocket::bind((from, 20_000 + port)).unwrap();
            socket.send_to(b"hello", (SERVER, to)).unwrap();
            // A second packet, sent before any answer, must take the same link.
            socket.send_to(b"again", (SERVER, to)).unwrap();
            sleep(Duration::from_millis(1));
        }
    });
    let mut seen: BTreeMap<u16, Vec<IpAddr>> = BTreeMap::new();
    while let Ok((_, from)) = socket.recv_from(&mut [0; 100]) {
        seen.entry(from.port()).or_default().push(from.ip());
    }
    opens.join().unwrap();
    assert_eq!(seen.len(), usize::from(connections));
    let mut by = BTreeMap::new();
    for (port, sources) in seen {
        assert!(
            sources.len() == 2 && sources[0] == sources[1],
            "{port}: {sources:?}"
        );
        *by.entry(sources[0]).or_default() += 1;
    }
    by
}

#[test]
#[ignore = "runs in the guest"]
fn balance() {
    build();
    run("ip -n host address add 10.0.0.3/24 dev eth");
    let rule = "[[rule]]\nfrom = \"10.0.0.3\"\nuse = [\"second\", \"first\"]\n\
                [[rule]]\nprotocol = \"udp\"\nto-port = \"7001-7002\"\nuse = [\"first\"]\n";
    let text = LINKS.replace("version = 1", "version = 1\nuse = \"balance\"");
    fs::write(FILE, format!("{text}{rule}")).unwrap();
    let before = routing();
    let planned = Command::new("ip")
        .args(["netns", "exec", "router", "weirgate", "links", "plan", FILE])
        .output();
    assert_eq!(planned.unwrap().status.code(), Some(1));
    router(&format!("weirgate links apply {FILE}"));
    let text = router(&format!("weirgate links plan {FILE}"));
    assert_eq!(text.trim(), "nothing to change");
    let [first, second] = OWN.map(IpAddr::from);
    let by = opened("10.0.0.2", 7_000, 400);
    println!("weights 3 and 1: {by:?}");
    assert!(by[&first].abs_diff(300) <= 4, "{by:?}");
    // The rule's hosts use only the second link.
    let by = opened("10.0.0.3", 7_000, 50);
    assert_eq!(by, BTreeMap::from([(second, 50)]));
    // The rule's ports use the first link only; other ports do not.
    for (port, all_first) in [(7_000, false), (7_001, true), (7_002, true), (7_003, false)] {
        let by = opened("10.0.0.2", port, 40);
        assert_eq!(by.get(&first) == Some(&40), all_first, "{port}: {by:?}");
    }
    // A flushed table is created again.
    router("nft flush table inet weirgate-links");
    router(&format!("weirgate links apply {FILE}"));
    let by = opened("10.0.0.3", 7_000, 50);
    assert_eq!(by, BTreeMap::from([(second, 50)]));
    router("weirgate links remove");
    assert_eq!(routing(), before);
}
