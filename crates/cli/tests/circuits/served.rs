// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate circuits serve`: tests that run in the guest. Ignored elsewhere.

use crate::inside::{done, fails, in_force_of, line, net, settled};
use crate::kept::{InForce, KEPT, Killed, addresses, boot, forget_all, make};
use crate::lists::{CircuitLine, written};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SOCKET: &str = "/run/weirgate/circuits.sock";

/// The service, which is killed when this is dropped.
pub(crate) struct Service(Child);

impl Service {
    pub(crate) fn start() -> Self {
        let mut command = Command::new("weirgate");
        let command = command.args(["circuits", "serve"]).stderr(Stdio::inherit());
        let own = Self(command.spawn().expect("weirgate"));
        for _ in 0..500 {
            if UnixStream::connect(SOCKET).is_ok() {
                return own;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no service");
    }

    fn signal(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.0), signal).expect("a process");
        self.0.wait().expect("a process")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection to the service.
pub(crate) struct Client(BufReader<UnixStream>);

impl Client {
    pub(crate) fn connect() -> Self {
        Self(BufReader::new(UnixStream::connect(SOCKET).expect(SOCKET)))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("a service");
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a service");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        self.send(format!("{request}\n").as_bytes());
        self.answer()
    }

    /// Sends a request that must succeed. Returns the numbers of nodes added, changed and removed,
    /// and of entries written.
    fn done(&mut self, request: &Value) -> [u64; 4] {
        let answer = self.ask(request);
        ["added", "changed", "removed", "written"].map(|what| {
            let count = answer["done"][what].as_u64();
            count.unwrap_or_else(|| panic!("{request}: {answer}"))
        })
    }
}

fn add(id: &str, address: &str) -> Value {
    json!({
        "do": "add", "device": "sub0", "circuit": id, "parent": "site-1", "addresses": address,
        "down-min": "1mbit", "down-max": "20mbit", "up-max": "2mbit",
    })
}

fn remove(id: &str) -> Value {
    json!({ "do": "remove", "device": "sub0", "circuit": id })
}

fn show(id: &str) -> Value {
    json!({ "do": "show", "device": "sub0", "circuit": id })
}

/// Checks that the kept list restores the state in force after a simulated reboot.
fn is_kept() {
    let expected: InForce = in_force_of("sub0");
    assert!(!boot().contains("sub0"), "nothing is to be mended");
    forget_all();
    boot();
    assert_eq!(in_force_of("sub0"), expected);
}

/// Sends invalid requests, and lines that are not requests.
fn what_is_wrong_is_answered(client: &mut Client) {
    for (request, part) in [
        (add("new,1", "203.0.113.9"), "already"),
        (add("x", "100.64.0.2"), "is of the circuit `2`"),
        (add("x", "100.64.0.300"), "no address"),
        (add("", "203.0.113.9"), "no identifier"),
        (show("x"), "no circuit `x`"),
        (
            json!({ "do": "change", "device": "sub0", "circuit": "x" }),
            "no circuit `x`",
        ),
        (
            json!({ "do": "change", "device": "sub0", "circuit": "3", "down-min": "1gbit" }),
            "at most",
        ),
        (
            json!({ "do": "change", "device": "sub0", "circuit": "3", "suspended": "perhaps" }),
            "`yes` or `no`",
        ),
        (
            json!({ "do": "change", "device": "sub0", "circuit": "3", "down_max": "1mbit" }),
            "unknown field",
        ),
        (
            json!({ "do": "change", "device": "wan7", "circuit": "3" }),
            "wan7",
        ),
        (
            json!({ "do": "change", "device": "../sub0", "circuit": "3" }),
            "cannot be",
        ),
        (json!({ "do": "remove", "device": "sub0" }), "circuit"),
        (json!({ "do": "leave" }), "leave"),
        (json!({}), "do"),
        (json!([[[[]]]]), "JSON"),
    ] {
        let answer = client.ask(&request);
        let text = answer["wrong"].as_str().unwrap_or_default();
        assert!(text.contains(part) || part == "JSON", "{request}: {answer}");
    }
    for garbage in [&b"\xff\xfe\n"[..], b"\n\n{\n", b"{\"do\":\n"] {
        client.send(garbage);
        assert!(client.answer()["wrong"].is_string());
    }
    // A line that is too long ends its connection; one without a newline at the end counts as a
    // line.
    let mut long = Client::connect();
    long.send(&vec![b' '; 1 << 16]);
    long.send(b"  \n");
    assert!(
        long.answer()["wrong"]
            .as_str()
            .unwrap_or_default()
            .contains("65536")
    );
    assert_eq!(long.0.read(&mut [0; 9]).unwrap_or(0), 0);
    let mut short = Client::connect();
    short.send(show("3").to_string().as_bytes());
    short
        .0
        .get_ref()
        .shutdown(std::net::Shutdown::Write)
        .expect("a service");
    assert_eq!(short.answer()["shown"]["name"], "3");
}

/// Uses two connections at once; each gets its answers in order.
fn two_at_once() {
    let all = [1, 2].map(|net| {
        thread::spawn(move || {
            let mut client = Client::connect();
            let requests =
                (0..30).map(|host| add(&format!("{net}-{host}"), &format!("203.0.{net}.{host}")));
            for request in requests.clone() {
                client.send(format!("{request}\n").as_bytes());
            }
            for request in requests {
                let answer = client.answer();
                assert_eq!(answer["done"]["added"], 1, "{request}: {answer}");
            }
        })
    });
    for one in all {
        one.join().expect("a client");
    }
}

/// A circuit is added, changed, shown and removed. Invalid requests are answered and change
/// nothing. Two connections change circuits at once.
#[test]
#[ignore = "runs in the lab's kernel"]
fn circuits_come_by_a_socket() {
    settled([0; 3]);
    make();
    let lines: Vec<CircuitLine> = (1..=100).map(line).collect();
    done(&format!("apply sub0 {}", written("served", &lines, 100)));
    let before: InForce = in_force_of("sub0");
    let mut service = Service::start();
    let mode = fs::metadata(SOCKET).expect(SOCKET).permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(fails("serve", 3).contains("circuits"));
    let mut client = Client::connect();
    let added = add("new,1", "203.0.113.7,2001:db8:9::/48");
    assert_eq!(client.done(&added), [1, 0, 0, 2]);
    assert_eq!(client.done(&added), [0; 4]);
    let change = json!({
        "do": "change", "device": "sub0", "circuit": "new,1", "parent": "site-2",
        "down-max": "10mbit", "addresses": "203.0.113.8", "suspended": null,
    });
    assert_eq!(client.done(&change), [0, 1, 0, 3]);
    let shown = client.ask(&show("new,1"))["shown"].clone();
    assert_eq!(shown["ceiling_bit_s"], 10_000_000, "{shown}");
    assert_eq!(shown["guarantee_bit_s"], 1_000_000, "{shown}");
    assert_eq!(shown["addresses"], json!(["203.0.113.8"]), "{shown}");
    assert_eq!(
        (&shown["below"], &shown["sent_packets"]),
        (&"site-2".into(), &0.into())
    );
    let (nodes, table) = in_force_of("sub0");
    assert_eq!(nodes["cnew,1"], 1_250_000);
    assert_eq!(table["203.0.113.8"], "cnew,1");
    // Sites include what their circuits take and release.
    let site = |name: &str| -> Value {
        let text = done(&format!("show sub0 {name} --json"));
        serde_json::from_str::<Value>(&text).expect("JSON")[0]["guarantee_bit_s"].clone()
    };
    assert_eq!(
        (site("site-1"), site("site-2")),
        (0.into(), 1_000_000.into())
    );
    let expected: InForce = in_force_of("sub0");
    let kept = fs::read(KEPT).expect(KEPT);
    what_is_wrong_is_answered(&mut client);
    assert_eq!(in_force_of("sub0"), expected);
    assert_eq!(fs::read(KEPT).expect(KEPT), kept);
    assert_eq!(client.done(&remove("new,1")), [0, 0, 1, 1]);
    assert_eq!(client.done(&remove("new,1")), [0; 4]);
    assert_eq!(in_force_of("sub0"), before);
    two_at_once();
    assert_eq!(in_force_of("sub0").0.len(), before.0.len() + 60);
    is_kept();
    // Circuits that were closed in memory are opened again.
    assert_eq!(client.done(&remove("1-7")), [0, 0, 1, 1]);
    assert!(service.signal(Signal::TERM).success());
    assert!(!fs::exists(SOCKET).expect("a folder"));
    done("remove sub0 --all");
    net::run("ip link del sub0");
    settled([0; 3]);
}

/// The service notices changes by others: another list, single circuits, no list, and another
/// device with the same name.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_socket_heeds_what_others_change() {
    settled([0; 3]);
    make();
    let lines: Vec<CircuitLine> = (1..=60).map(line).collect();
    let lists = [
        written("one", &lines[..40], 100),
        written("other", &lines[20..], 100),
    ];
    done(&format!("apply sub0 {}", lists[0]));
    let mut service = Service::start();
    let mut client = Client::connect();
    assert_eq!(client.done(&add("a", "203.0.113.1")), [1, 0, 0, 1]);
    done(&format!("apply sub0 {}", lists[1]));
    assert!(client.ask(&show("a"))["wrong"].is_string());
    assert_eq!(client.done(&add("a", "203.0.113.1")), [1, 0, 0, 1]);
    assert!(client.ask(&show("7"))["wrong"].is_string());
    // A command allocates one row, and frees another.
    done("add sub0 b --parent site-1 --addresses 203.0.113.2 --down-max 1mbit --up-max 1mbit");
    assert_eq!(client.done(&add("c", "203.0.113.3")), [1, 0, 0, 1]);
    assert_eq!(
        client.ask(&show("b"))["shown"]["addresses"],
        json!(["203.0.113.2"])
    );
    done("remove sub0 b");
    assert_eq!(client.done(&add("d", "203.0.113.2")), [1, 0, 0, 1]);
    is_kept();
    // The open state must not prevent a new qdisc kind.
    client.done(&remove("d"));
    done("remove sub0 --all");
    assert!(
        client.ask(&show("a"))["wrong"]
            .as_str()
            .unwrap_or_default()
            .contains("no circuits")
    );
    done(&format!("apply sub0 {}", lists[0]));
    client.done(&add("a", "203.0.113.1"));
    done("remove sub0 --all");
    done(&format!("apply sub0 {}", lists[0]));
    assert_eq!(client.done(&add("a", "203.0.113.1")), [1, 0, 0, 1]);
    is_kept();
    // The device is created again, and its circuits are restored from the kept list.
    net::run("ip link del sub0");
    assert!(client.ask(&show("a"))["wrong"].is_string());
    make();
    assert_eq!(client.ask(&show("a"))["shown"]["name"], "a");
    assert_eq!(client.done(&remove("a")), [0, 0, 1, 1]);
    is_kept();
    drop(client);
    assert!(service.signal(Signal::INT).success());
    done("remove sub0 --all");
    net::run("ip link del sub0");
    settled([0; 3]);
}

/// A service that is killed at any moment leaves the old circuit or the new one, after the next
/// command; the next service takes its socket over.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_killed_service_is_mended() {
    const KILLS: u32 = 16;
    settled([0; 3]);
    make();
    let lines: Vec<CircuitLine> = (1..=1_500).map(line).collect();
    done(&format!("apply sub0 {}", written("killed", &lines, 100)));
    let to = [0, 1].map(|net| {
        json!({
            "do": "change", "device": "sub0", "circuit": "8",
            "down-max": format!("{}kbit", 1_000 + net), "addresses": addresses(net),
        })
    });
    let service = Service::start();
    let mut client = Client::connect();
    client.done(&to[1]);
    let new = in_force_of("sub0");
    let began = Instant::now();
    client.done(&to[0]);
    let whole = began.elapsed();
    let old = in_force_of("sub0");
    client.done(&to[1]);
    let mut killed = Killed::of([old, new]);
    drop(service);
    for kill in 0..KILLS {
        let wanted = killed.wanted();
        let mut service = Service::start();
        let mut client = Client::connect();
        // The slow part is done: the circuits are open.
        assert_eq!(client.ask(&show("8"))["shown"]["name"], "8");
        client.send(format!("{}\n", to[wanted]).as_bytes());
        // Half of the kills come during the change.
        thread::sleep(whole * 2 * (kill + 1) / KILLS);
        assert!(!service.signal(Signal::KILL).success());
        assert!(fs::exists(SOCKET).expect("a folder"));
        killed.look();
    }
    let (ms, told) = (whole.as_secs_f64() * 1e3, killed.told());
    println!("{KILLS} changes of {ms:.1} ms killed: {told}");
    done("remove sub0 --all");
    net::run("ip link del sub0");
    let _ = fs::remove_file(SOCKET);
}

/// Measures the time for one circuit among 10^5.
#[test]
#[ignore = "runs in the lab's kernel"]
fn many_served() {
    make();
    for (what, kind) in [
        ("addresses", (|_| true) as fn(u32) -> bool),
        ("half of them prefixes of both versions", |number| {
            number.is_multiple_of(2)
        }),
    ] {
        let lines = (1..=100_000).map(|number| CircuitLine {
            kbit: 10_000,
            is_host: kind(number),
            ..line(number)
        });
        let lines: Vec<CircuitLine> = lines.collect();
        done(&format!("apply sub0 {}", written("many", &lines, 10_000)));
        let _service = Service::start();
        let mut client = Client::connect();
        let change = |number: u32, field: &str, value: &str| json!({ "do": "change", "device": "sub0", "circuit": number.to_string(), field: value });
        for request in [
            show("77777"),
            add("new", "203.0.113.7,2001:db8:9::/48"),
            add("new2", "203.0.113.8,2001:db8:8::/48"),
            add("new3", "203.0.113.9,2001:db8:7::/48"),
            change(77_777, "down-max", "3mbit"),
            change(77_778, "down-min", "1mbit"),
            change(77_777, "suspended", "yes"),
            show("77777"),
            remove("99999"),
            remove("99998"),
            remove("99998"),
        ] {
            let began = Instant::now();
            let answer = client.ask(&request);
            let took = began.elapsed().as_secs_f64() * 1e3;
            assert!(
                answer["wrong"].is_null() && answer["refused"].is_null(),
                "{answer}"
            );
            println!("{what}: {took:.2} ms: {request}");
        }
        done("remove sub0 --all");
    }
    net::run("ip link del sub0");
}
