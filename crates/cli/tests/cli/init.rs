// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `init` on this machine's kernel: without a terminal, at one, and interrupted.

use crate::namespace::{Namespace, same};
use crate::program::{Ended, WEIRGATE};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A router with a default route, and a folder for its policy.
struct Router {
    namespace: Namespace,
    folder: TempDir,
}

impl Router {
    fn new() -> Self {
        let namespace = Namespace::new();
        for line in [
            "sysctl -qw net.ipv4.ip_forward=1",
            "ip addr add 192.0.2.2/24 dev wan",
            "ip addr add 192.168.1.1/24 dev lan",
            "ip route add default via 192.0.2.1",
        ] {
            namespace.run(line);
        }
        Self {
            namespace,
            folder: TempDir::new().unwrap(),
        }
    }

    fn file(&self) -> PathBuf {
        // `init` creates this folder too.
        self.folder.path().join("weirgate/site.toml")
    }

    fn command(&self, options: &str) -> Command {
        let mut command = self.namespace.command(WEIRGATE);
        command.arg("init").args(options.split_whitespace());
        command.arg("--output").arg(self.file());
        command
    }

    fn init(&self, options: &str) -> Ended {
        let mut command = self.command(options);
        Ended::of(&command.stdin(Stdio::null()).output().unwrap())
    }
}

#[test]
fn a_script_says_everything_by_options() {
    let router = Router::new();
    let before = router.namespace.snapshot();
    let lacking = router.init("--line cable");
    lacking.says(
        2,
        &[
            "there is no terminal for questions",
            "--for WHAT (calls, fairness, server)",
            "--up RATE and --down RATE, or --measure HOST",
        ],
    );
    assert!(!lacking.err.contains("--line KIND"), "{lacking:?}");
    router
        .init("--line isdn")
        .says(2, &["write one of `fibre`, `cable`"]);
    router
        .init("--yes --up 40 --down 100M")
        .says(2, &["--up <RATE>"]);
    router
        .init("--yes --up 40M --down 100M --device none")
        .says(2, &["there is no device none; there are far"]);
    assert!(!router.folder.path().join("weirgate").exists());

    let options = "--line vdsl --up 40M --down 100M --for server:443,25";
    let written = router.init(options);
    written.says(0, &["wrote ", "site.toml ("]);
    let text = fs::read_to_string(router.file()).unwrap();
    for part in [
        "device = \"wan\"",
        "layer = \"vdsl2:pppoe\"",
        "local-port = [25, 443]",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    same(&before, &router.namespace.snapshot());

    router
        .init(options)
        .says(2, &["exists already; `--replace` overwrites it"]);
    let began = Instant::now();
    let applied = router.init("--yes --up 40M --down 100M --replace --apply");
    applied.says(0, &["it is undone in 60 s unless"]);
    assert!(began.elapsed() < Duration::from_secs(90));
    assert!(applied.out.contains("Keep it: `weirgate confirm`"));
    router
        .namespace
        .weirgate("confirm")
        .says(0, &["is confirmed"]);
    let shown = router.namespace.weirgate("show --json");
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["differences"], Value::Array(Vec::new()));
    assert_eq!(router.namespace.weirgate("remove").status, 0);
    same(&before, &router.namespace.snapshot());
}

/// Creates a TUN device with the link type of PPP (512), and keeps it. Except for the driver, Linux
/// describes it like a PPP session.
const SESSION: &str = "
import fcntl, struct, sys
tun = open('/dev/net/tun', 'r+b', buffering=0)
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'ppp0', 0x1001))
fcntl.ioctl(tun, 0x400454cd, 512)
print('ready', flush=True)
sys.stdin.read()
";

/// A TUN device stands in for the session, because the kernels of these tests lack PPP.
#[test]
fn a_session_is_shaped_by_one_command() {
    let router = Router::new();
    let namespace = &router.namespace;
    let mut session = namespace
        .command("/usr/bin/python3")
        .args(["-c", SESSION])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 5];
    let out = session.stdout.as_mut().unwrap();
    out.read_exact(&mut ready).unwrap();
    for line in [
        "ip addr add 198.51.100.2 peer 198.51.100.1 dev ppp0",
        "ip link set ppp0 mtu 1492 up",
        "ip route replace default dev ppp0",
    ] {
        namespace.run(line);
    }
    let began = Instant::now();
    let ended = router.init("--line vdsl --up 40M --down 100M --for calls --apply");
    ended.says(0, &["steps done and read back"]);
    namespace.weirgate("confirm").says(0, &["is confirmed"]);
    assert!(began.elapsed() < Duration::from_secs(90));
    for part in [
        "ppp0, a PPP session",
        "hosts         behind lan",
        "layer = \"vdsl2:pppoe\"",
        "mtu = 1492",
    ] {
        assert!(ended.out.contains(part), "{part} in {ended:?}");
    }
    let shown: Value = serde_json::from_str(&namespace.weirgate("show --json").out).unwrap();
    assert_eq!(shown["differences"], Value::Array(Vec::new()));
    assert_eq!(shown["links"][0]["directions"][0]["device"], "ppp0");
    assert!(
        namespace
            .run("tc qdisc show dev ppp0")
            .contains("htb 1: root")
    );
    assert_eq!(namespace.weirgate("remove").status, 0);
    drop(session.stdin.take());
    session.wait().unwrap();
}

#[test]
fn what_was_found_is_json_too() {
    let router = Router::new();
    let mut command = router.namespace.command(WEIRGATE);
    let ended = command.args(["init", "--json", "--up", "40M", "--down", "100M"]);
    let ended = Ended::of(&ended.stdin(Stdio::null()).output().unwrap());
    assert_eq!(ended.status, 0, "{ended:?}");
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["device"], "wan");
    assert_eq!(document["lan"][0], "lan");
    let policy = document["policy"].as_str().unwrap();
    assert!(policy.contains("up = \"40mbit\""), "{policy}");
}

#[test]
fn a_root_of_somebody_else_is_named_and_left_alone() {
    let router = Router::new();
    let root = "tc qdisc add dev wan root handle 5: tbf rate 1mbit burst 2000 limit 3000";
    router.namespace.run(root);
    let before = router.namespace.snapshot();
    let ended = router.init("--yes --up 40M --down 100M --apply");
    ended.says(2, &["K302: wan", "--adopt"]);
    for part in ["shapers       tbf 5: on wan", "[foreign-root]"] {
        assert!(ended.out.contains(part), "{part} in {ended:?}");
    }
    same(&before, &router.namespace.snapshot());
}

/// The program at a terminal, which script(1) creates.
struct Terminal {
    script: Child,
    input: ChildStdin,
    out: Receiver<Vec<u8>>,
    read: String,
    /// The length of the part of `read` that was searched already.
    seen: usize,
}

/// The longest wait for a text.
const PATIENCE: Duration = Duration::from_mins(1);

impl Terminal {
    fn new(router: &Router, options: &str) -> Self {
        // A shell's background jobs ignore SIGINT (POSIX, asynchronous lists), and so do tests that
        // run in one. Ctrl-C would have no effect then.
        let line = format!(
            "echo pid $$ end; exec env --default-signal=INT {WEIRGATE} init {options} --output {}",
            router.file().display()
        );
        let mut command = router.namespace.command("script");
        let mut script = command
            .args(["-qefc", &line, "/dev/null"])
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = script.stdin.take().unwrap();
        let mut stdout = script.stdout.take().unwrap();
        let (to, out) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(length @ 1..) = stdout.read(&mut bytes) {
                let _ = to.send(bytes[..length].to_vec());
            }
        });
        Self {
            script,
            input,
            out,
            read: String::new(),
            seen: 0,
        }
    }

    /// Reads the next output; returns false at its end.
    #[track_caller]
    fn more(&mut self, text: &str) -> bool {
        match self.out.recv_timeout(PATIENCE) {
            Ok(bytes) => {
                self.read.push_str(&String::from_utf8_lossy(&bytes));
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("no {text} after {}", self.read),
        }
    }

    /// Reads until a text appears.
    #[track_caller]
    fn until(&mut self, text: &str) {
        loop {
            if let Some(at) = self.read[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(self.more(text), "`{text}` in {}", self.read);
        }
    }

    /// Sends SIGHUP to the program, as a lost terminal does.
    fn hangs_up(&self) {
        let rest = self.read.split("pid ").nth(1).unwrap();
        let pid = rest.split(' ').next().unwrap();
        let sent = Command::new("kill").args(["-HUP", pid]).status();
        assert!(sent.unwrap().success());
    }

    fn types(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
    }

    /// Returns the whole output and the exit status.
    fn ended(mut self) -> (String, Option<i32>) {
        while self.more("end") {}
        (self.read, self.script.wait().unwrap().code())
    }
}

#[test]
fn three_answers_at_a_terminal_shape_the_line() {
    let router = Router::new();
    let before = router.namespace.snapshot();
    let mut terminal = Terminal::new(&router, "");
    terminal.until("What kind of line is it?");
    terminal.until("> [1] ");
    terminal.types("cable\n");
    terminal.until("How fast is it up and down");
    terminal.until("> ");
    terminal.types("20 250\n");
    terminal.until("has no unit; write `20M`");
    terminal.types("20M 250M\n");
    terminal.until("What matters most?");
    terminal.until("> [1] ");
    terminal.types("\n");
    terminal.until("unless you keep it. [y/N] ");
    assert!(!router.file().exists());
    terminal.types("y\n");
    terminal.until("reach what you need? [y/N] ");
    terminal.types("y\n");
    let (text, status) = terminal.ended();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("is confirmed"), "{text}");
    assert_eq!(text.matches('?').count(), 5, "three questions, two offers");
    let policy = fs::read_to_string(router.file()).unwrap();
    assert!(policy.contains("layer = \"docsis\""), "{policy}");
    assert_eq!(router.namespace.weirgate("show").status, 0);
    assert_eq!(router.namespace.weirgate("remove").status, 0);
    same(&before, &router.namespace.snapshot());
}

#[test]
fn an_interruption_anywhere_changes_nothing() {
    let router = Router::new();
    let before = router.namespace.snapshot();
    let asked = "--up 40M --down 100M --line fibre --for calls";
    let applied = || vec!["unless you keep it. [y/N] ", "reach what you need? [y/N] "];
    // Interrupt at a question, at the offer, and while the applied policy waits for confirmation.
    // The terminal turns the character of Ctrl-C into SIGINT, and that of Ctrl-D into the end of
    // the input.
    for (options, texts, key, expected) in [
        ("--up 40M --down 100M", vec!["> [1] "], "\x03", 130),
        (asked, vec!["unless you keep it. [y/N] "], "\x03", 130),
        (asked, applied(), "\x03", 130),
        (asked, vec!["unless you keep it. [y/N] "], "\x04", 2),
        (asked, applied(), "\x04", 2),
        (asked, applied(), "SIGHUP", 130),
    ] {
        let mut terminal = Terminal::new(&router, options);
        for (number, text) in texts.iter().enumerate() {
            terminal.until(text);
            if number + 1 < texts.len() {
                terminal.types("y\n");
            }
        }
        if key == "SIGHUP" {
            terminal.hangs_up();
        } else {
            terminal.types(key);
        }
        let (text, status) = terminal.ended();
        assert_eq!(status, Some(expected), "{text}");
        // The guard restores the former state at once.
        let until = Instant::now() + Duration::from_secs(5);
        while router.namespace.snapshot() != before && Instant::now() < until {
            sleep(Duration::from_millis(50));
        }
        same(&before, &router.namespace.snapshot());
        assert!(!router.folder.path().join("weirgate").exists(), "{text}");
    }
}

/// A link is measured through itself only.
#[test]
fn another_link_is_not_measured_in_place_of_the_named_one() {
    let router = Router::new();
    for line in [
        "ip link add lte type veth peer name mast",
        "ip link set lte up",
        "ip addr add 198.51.100.2/24 dev lte",
        "ip route add default via 198.51.100.1 dev lte metric 20",
    ] {
        router.namespace.run(line);
    }
    let ended = router.init("--device lte --line lte --for calls --yes --measure 203.0.113.9");
    ended.says(
        2,
        &[
            "203.0.113.9 is reached through wan, not through lte",
            "dev lte",
        ],
    );
    assert!(!router.file().exists());
}
