// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of DNS names, with a test name server in the namespace.

use crate::namespace::Namespace;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The file of `name address` lines that the server answers from.
const ZONE: &str = "WEIRGATE_TEST_ZONE";

/// Not a test: the name server, when a test has started this program as one.
#[test]
fn server() {
    let Some(zone) = std::env::var_os(ZONE) else {
        return;
    };
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    let mut packet = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut packet).unwrap();
        let zone = fs::read_to_string(Path::new(&zone)).unwrap_or_default();
        if let Some(answer) = answer(&packet[..length], &zone) {
            socket.send_to(&answer, from).unwrap();
        }
    }
}

/// Returns an answer with the addresses of the requested name and type (RFC 1035 section 4.1), for
/// 7 seconds; NXDOMAIN for a name without any.
fn answer(query: &[u8], zone: &str) -> Option<Vec<u8>> {
    let (mut at, mut name) = (12, String::new());
    while *query.get(at)? != 0 {
        let length = usize::from(query[at]);
        name += std::str::from_utf8(query.get(at + 1..at + 1 + length)?).ok()?;
        name.push('.');
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([*query.get(at + 1)?, *query.get(at + 2)?]);
    let addresses: Vec<IpAddr> = zone
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(own, _)| format!("{own}.").eq_ignore_ascii_case(&name))
        .filter_map(|(_, address)| address.parse().ok())
        .collect();
    let data: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match address {
            IpAddr::V4(v4) if kind == 1 => Some(v4.octets().to_vec()),
            IpAddr::V6(v6) if kind == 28 => Some(v6.octets().to_vec()),
            _ => None,
        })
        .collect();
    let code = if addresses.is_empty() { 3 } else { 0 };
    let mut out = query[..2].to_vec();
    out.extend([0x81, 0x80 | code, 0, 1, 0, data.len() as u8, 0, 0, 0, 0]);
    out.extend(&query[12..at + 5]);
    for one in data {
        out.extend([0xc0, 12]);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1, 0, 0, 0, 7, 0, one.len() as u8]);
        out.extend(one);
    }
    Some(out)
}

/// A namespace whose resolver asks 127.0.0.1.
struct Site {
    namespace: Namespace,
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let namespace = Namespace::new();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("resolv.conf");
        fs::write(
            &file,
            "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
        )
        .unwrap();
        let switch = folder.path().join("nsswitch.conf");
        fs::write(&switch, "hosts: files dns\n").unwrap();
        namespace.run("ip link set lo up");
        namespace.run(&format!("mount --bind {} /etc/resolv.conf", file.display()));
        namespace.run(&format!(
            "mount --bind {} /etc/nsswitch.conf",
            switch.display()
        ));
        Self { namespace, folder }
    }

    fn zone(&self, text: &str) {
        fs::write(self.folder.path().join("zone"), text).unwrap();
    }

    fn serve(&self) -> Served {
        let program = std::env::current_exe().unwrap();
        let mut command = self.namespace.command(program.to_str().unwrap());
        command
            .args(["--exact", "apply::names::server", "--nocapture"])
            .env(ZONE, self.folder.path().join("zone"))
            .stdout(Stdio::null());
        Served(command.spawn().unwrap())
    }

    /// Returns the contents of both sets, and the handles of the table's rules.
    fn sets(&self) -> (String, String) {
        let text = self.namespace.run("nft -a list table inet weirgate");
        let mut sets = String::new();
        for set in text.split("set group_updates_").skip(1) {
            let body = set.split('}').take(2).collect::<Vec<_>>().join("}");
            let elements = body.split("elements = {").nth(1).unwrap_or_default();
            sets += elements.split('}').next().unwrap_or_default().trim();
            sets += ";";
        }
        let rules = text.lines().filter(|line| line.contains("# handle"));
        (sets, rules.collect::<Vec<_>>().join("\n"))
    }

    /// Waits until the sets contain exactly this.
    #[track_caller]
    fn come_to_hold(&self, wanted: &str, limit: Duration) -> Duration {
        let begin = Instant::now();
        while self.sets().0 != wanted {
            assert!(
                begin.elapsed() < limit,
                "{:?} is not {wanted}",
                self.sets().0
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        begin.elapsed()
    }
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SOON: Duration = Duration::from_secs(8);

#[test]
fn names_are_looked_up_replaced_in_place_and_remembered() {
    let site = Site::new();
    let namespace = &site.namespace;
    // No name server answers: the policy is in force nevertheless.
    let begin = Instant::now();
    namespace
        .weirgate("apply names.toml")
        .says(0, &["updates.example.org", "or none", "state 1"]);
    assert!(
        begin.elapsed() < Duration::from_secs(6),
        "{:?}",
        begin.elapsed()
    );
    assert!(
        namespace
            .run("tc class show dev wan")
            .contains("class htb 2:4a6b")
    );
    assert_eq!(site.sets().0, ";;");
    // The next apply puts an answer into the sets, and changes nothing else in the table.
    site.zone("updates.example.org 192.0.2.1\nupdates.example.org 2001:db8::1\nmore.example.org 192.0.2.7\n");
    let served = site.serve();
    let rules = site.sets().1;
    let begin = Instant::now();
    while site.sets().0 == ";;" {
        // The server needs a moment to start.
        assert!(begin.elapsed() < SOON);
        let again = namespace.weirgate("apply names.toml");
        assert!(again.out.contains("nothing to change"), "{again:?}");
    }
    assert_eq!(
        site.sets(),
        (
            "192.0.2.1, 192.0.2.7;2001:db8::1;".to_owned(),
            rules.clone()
        )
    );
    namespace.weirgate("plan names.toml").says(0, &[]);
    // The service resolves when it starts, and again after `refresh`.
    site.zone("updates.example.org 192.0.2.2\n");
    let log = fs::File::create(site.folder.path().join("log")).unwrap();
    let keeper = Served(
        namespace
            .command(crate::program::WEIRGATE)
            .arg("keep")
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    // A name without addresses keeps its former ones.
    site.come_to_hold("192.0.2.2, 192.0.2.7;;", SOON);
    assert_eq!(site.sets().1, rules);
    site.zone("updates.example.org 192.0.2.3\nmore.example.org 192.0.2.7\n");
    let late = site.come_to_hold("192.0.2.3, 192.0.2.7;;", Duration::from_secs(40));
    assert!(
        late > Duration::from_secs(20),
        "looked up too often: after {late:?}"
    );
    assert_eq!(site.sets().1, rules);
    namespace.weirgate("plan names.toml").says(0, &[]);
    namespace.weirgate("show").says(0, &[]);
    // Without a name server, a table that is created again gets the known addresses.
    drop(served);
    namespace.run("nft flush ruleset");
    let begin = Instant::now();
    while !namespace.run("nft list tables").contains("weirgate") {
        assert!(begin.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(site.sets().0, "192.0.2.3, 192.0.2.7;;");
    drop(keeper);
    namespace.weirgate("remove").says(0, &[]);
    namespace.weirgate("boot").says(0, &[]);
}

/// Another policy with names was applied, but not confirmed.
#[test]
fn names_of_the_state_that_comes_back_are_not_forgotten() {
    let site = Site::new();
    let namespace = &site.namespace;
    site.zone("updates.example.org 192.0.2.1\nother.example.org 192.0.2.9\n");
    let served = site.serve();
    let begin = Instant::now();
    // The server may not answer yet.
    loop {
        namespace.weirgate("apply names.toml").says(0, &[]);
        if site.sets().0 == "192.0.2.1;;" {
            break;
        }
        assert!(begin.elapsed() < SOON);
    }
    let own = fs::read_to_string(crate::program::root().join("tests/cli/names.toml")).unwrap();
    let other = site.folder.path().join("other.toml");
    let names = own.replace("\"updates.example.org\", \"more", "\"other");
    fs::write(&other, names).unwrap();
    let apply = format!("apply --confirm 600s {}", other.display());
    namespace.weirgate(&apply).says(0, &[]);
    assert_eq!(site.sets().0, "192.0.2.9;;");
    // An attempt that is blocked looks names up, too.
    namespace
        .weirgate("apply names.toml")
        .says(1, &["is not confirmed yet"]);
    namespace.weirgate("rollback").says(0, &[]);
    assert_eq!(site.sets().0, "192.0.2.1;;");
    // The name server is away when the table has to be created again.
    drop(served);
    namespace.run("nft flush ruleset");
    namespace.weirgate("boot").says(0, &[]);
    assert_eq!(site.sets().0, "192.0.2.1;;");
}

#[test]
fn a_script_says_that_it_looks_nothing_up() {
    let namespace = Namespace::new();
    namespace
        .weirgate("export names.toml")
        .says(0, &["group_updates_4 is empty", "group_updates_6 is empty"]);
}
