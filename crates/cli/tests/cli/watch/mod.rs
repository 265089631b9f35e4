// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `watch` and `top` under an applied policy with real traffic: they must show what the kernel
//! counted. A browser opens the page, and the Prometheus project's parser reads the metrics.
//!
//! Over 500 lines, because one run with traffic serves all checks.

pub(crate) mod arriving;
pub(crate) mod behaviour;
pub(crate) mod browser;
pub(crate) mod circuits;
pub(crate) mod dashboard;
pub(crate) mod figures;
pub(crate) mod flood;
pub(crate) mod full;
pub(crate) mod kollegiegaarden;
pub(crate) mod links;
pub(crate) mod page;
pub(crate) mod timeline;
pub(crate) mod web;

use crate::namespace::Namespace;
use crate::program::{Ended, WEIRGATE, root, skipped, tool};
use crate::watch::web::web;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A service in a namespace, with packets upstream.
pub struct Watch {
    pub namespace: Namespace,
    service: Child,
    folder: TempDir,
    pub address: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

impl Watch {
    /// Starts to watch; `prepare` may write a history first.
    pub fn start(prepare: impl FnOnce(&Path)) -> Self {
        Self::under("flows.toml", prepare)
    }

    /// Does the same under a policy of `tests/cli`.
    pub fn under(policy: &str, prepare: impl FnOnce(&Path)) -> Self {
        let namespace = Namespace::new();
        namespace.run("ip link set lo up");
        // Only the packets that the test sends may pass.
        namespace.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
        let mut sysctl = namespace.command("sysctl");
        let everyone = "net.ipv4.ping_group_range=0 2147483647";
        assert!(sysctl.args(["-qw", everyone]).status().unwrap().success());
        namespace.run("ip addr add 10.9.0.1/24 dev wan");
        namespace.run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev wan");
        namespace.run("ip addr add 10.8.0.1/24 dev lan");
        namespace.run("ip neigh add 10.8.0.77 lladdr 02:00:00:00:00:77 nud permanent dev lan");
        let ended = namespace.weirgate(&format!("apply {policy}"));
        assert_eq!(ended.status, 0, "{ended:?}");
        let folder = tempfile::tempdir().unwrap();
        prepare(&folder.path().join("history"));
        let mut command = namespace.command(WEIRGATE);
        command
            .args(["watch", "--listen", "127.0.0.1:0", "--every", "200ms"])
            .args(["--probe", "here=127.0.0.1,46", "--history"])
            .arg(folder.path().join("history"))
            .stderr(Stdio::piped());
        let mut service = command.spawn().unwrap();
        let mut lines = BufReader::new(service.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the service ends at once").unwrap();
            if let Some((_, address)) = line.split_once("the page is at ") {
                break address.to_owned();
            }
        };
        // Later messages must not fill the pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self {
            namespace,
            service,
            folder,
            address,
        }
    }

    pub fn id(&self) -> u32 {
        self.service.id()
    }

    /// Returns the processor time of both processes of the service, in milliseconds. It is the sum
    /// of user's and system's ticks of a hundredth of a second (proc(5), `/proc/pid/stat`, fields
    /// 14 and 15).
    pub fn worked_ms(&self) -> f64 {
        let both = [Some(self.service.id()), web(self.service.id())];
        let worked = both.into_iter().flatten().map(|process| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            let (_, after) = stat.rsplit_once(") ").unwrap();
            let ticks = after.split(' ').skip(11).take(2);
            ticks
                .map(|one| one.parse::<f64>().unwrap() * 10.0)
                .sum::<f64>()
        });
        worked.sum()
    }

    /// Returns how many packets left a queue but were not seen to enter it.
    fn untimed(&self) -> i64 {
        let own = self.get("metrics");
        let untimed = own.lines().find_map(|line| {
            let count = line.strip_prefix("weirgate_packets_untimed_total ")?;
            count.split(' ').next()?.parse().ok()
        });
        untimed.unwrap()
    }

    /// Returns how often the kernel skipped a program of the service, because it would have
    /// interrupted itself on its processor (`recursion_misses`, kernel/bpf/syscall.c).
    fn skipped(&self) -> i64 {
        let folder = format!("/proc/{}/fdinfo", self.service.id());
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let skipped: Vec<i64> = texts
            .filter_map(|text| {
                let mut lines = text.lines();
                let count = lines.find_map(|line| line.strip_prefix("recursion_misses:"));
                count.map(|count| count.trim().parse().unwrap())
            })
            .collect();
        assert!(!skipped.is_empty(), "the service holds no program");
        skipped.iter().sum()
    }

    /// Sends datagrams of 100 bytes from the router to a port; port 53 is urgent.
    pub fn send(&self, to: &str, port: u16, count: u32) {
        let mut command = self.namespace.command("bash");
        let line =
            format!("for i in $(seq {count}); do printf %0100d 0 > /dev/udp/{to}/{port}; done");
        assert!(command.args(["-c", &line]).status().unwrap().success());
    }

    pub fn get(&self, path: &str) -> String {
        let mut command = self.namespace.command("/usr/bin/python3");
        let script = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())";
        let output = command
            .args(["-c", script, &format!("{}{path}", self.address)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// Waits for a sample that satisfies a condition; the service samples five times a second.
    pub fn look(&self, has: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..600 {
            let text = self.get("api/now");
            let now: Value = serde_json::from_str(&text).unwrap_or_default();
            if has(&now) {
                return now;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{}", self.get("api/now"));
    }

    /// Returns a counter's series, found by the start of its name and one of its labels, and its
    /// total in the history.
    pub fn counted(&self, metric: &str, label: &str) -> (String, i64) {
        let (name, points) = self.points(metric, label);
        let sum = points.iter().map(|point| point[5].as_i64().unwrap()).sum();
        (name, sum)
    }

    /// Returns the counter's rates per second, one for each sample.
    pub fn rates(&self, metric: &str, label: &str) -> Vec<f64> {
        let (_, points) = self.points(metric, label);
        let rate = |point: &Value| {
            let [start, end, count] = [0, 1, 5].map(|at| point[at].as_f64().unwrap());
            count * 1000.0 / (end - start)
        };
        points.iter().map(rate).collect()
    }

    /// Returns a series, found by the start of its name and one of its labels, and all its points.
    fn points(&self, metric: &str, label: &str) -> (String, Vec<Value>) {
        let names: Value = self.json("api/series");
        let name = names["series"].as_array().unwrap().iter().find(|name| {
            let name = name.as_str().unwrap();
            name.starts_with(metric) && name.contains(label)
        });
        let name = name
            .unwrap_or_else(|| panic!("{metric} in {names}; {}", self.get("api/about")))
            .as_str()
            .unwrap();
        let encoded = name
            .replace('{', "%7B")
            .replace('}', "%7D")
            .replace('"', "%22")
            .replace('=', "%3D");
        let read: Value = self.json(&format!("api/read?series={encoded}"));
        let points = read["series"][name]["points"].as_array().unwrap();
        (name.to_owned(), points.clone())
    }

    /// Returns the page as a browser has it after its scripts ran, or takes a picture of it.
    pub fn browser(&self, fragment: &str, options: &[&str]) -> String {
        let profile = self.folder.path().join("profile");
        let mut command = self.namespace.command("chromium");
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--no-first-run",
                "--disable-extensions",
                "--disable-background-networking",
            ])
            .arg("--virtual-time-budget=8000")
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(options)
            .arg(format!("{}?still{fragment}", self.address));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

pub fn class<'a>(now: &'a Value, name: &str) -> Option<&'a Value> {
    let objects = now["objects"].as_array()?;
    let mut own = objects.iter().filter(|one| one["labels"]["class"] == name);
    own.find(|one| one["labels"]["direction"] == "up")
}

#[test]
fn what_is_shown_is_what_passed() {
    let watch = Watch::start(|_| {});
    // The programs that time packets are attached after the classes are first read. Packets that
    // pass before then are sent, but not timed.
    watch.look(|now| {
        class(now, "urgent").is_some_and(|one| one["numbers"]["timed_packets"].is_number())
    });
    watch.send("10.9.0.2", 53, 30);
    watch.send("10.8.0.77", 5_000, 25);
    // More than one megabit per second, until it is killed.
    let mut flood = watch.namespace.command("bash");
    let line = "while :; do printf %01000d 0 > /dev/udp/10.9.0.2/9000; done";
    let mut flood = flood
        .args(["-c", line])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The promise is judged by the measured waits of packets, because they can be observed.
    watch.look(|now| {
        class(now, "rest")
            .is_some_and(|one| one["promise"] == "kept" && one["judged_by"] == "measured")
    });
    // Under a policy with a shorter queue, the same waits are too long.
    let strict = std::fs::read_to_string(root().join("tests/cli/flows.toml")).unwrap();
    let file = watch.folder.path().join("strict.toml");
    std::fs::write(&file, strict.replace("pfifo 50", "pfifo 2")).unwrap();
    let words = format!(
        "top --once --packets --json --every 1s --policy {}",
        file.display()
    );
    let top = watch.namespace.weirgate(&words);
    assert_eq!(top.status, 0, "{top:?}");
    let top: Value = serde_json::from_str(&top.out).unwrap();
    let rest = class(&top, "rest").unwrap();
    assert_eq!(rest["promise"], "wait", "{rest}");
    assert_eq!(rest["judged_by"], "measured", "{rest}");
    flood.kill().unwrap();
    flood.wait().unwrap();
    let state: Value = watch.json("api/about");
    let classes = state["legend"]["classes"].as_array().unwrap();
    assert!(
        classes
            .iter()
            .any(|one| one["name"] == "urgent" && one["guaranteed"] == 299_400),
        "{state}"
    );
    // Once the queues are empty, the history must have counted what the kernel sent.
    watch.look(|now| {
        let of = |name| class(now, name).and_then(|one| one["numbers"]["backlog_packets"].as_f64());
        of("urgent") == Some(0.0) && of("rest") == Some(0.0)
    });
    let urgent = "direction=\"up\",class=\"urgent\"";
    let (name, sent) = watch.counted("class_sent_packets", urgent);
    assert_eq!(sent, 30);
    // Every packet was timed, and the host on the inside was noticed. The history gets the timed
    // packets a little later than the sent ones.
    let timed = || watch.counted("class_timed_packets", urgent).1;
    for _ in 0..100 {
        if timed() >= 30 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let (timed, skipped, untimed) = (timed(), watch.skipped(), watch.untimed());
    assert!(
        timed <= 30 && timed + skipped >= 30,
        "{timed} timed, {skipped} skipped, {untimed} untimed: {}",
        watch.get("api/about")
    );
    assert_eq!(watch.counted("class_ip_bytes", urgent).1, 30 * 128);
    let host = "host=\"10.8.0.77\"";
    assert_eq!(watch.counted("host_received_packets", host).1, 25);
    assert_eq!(watch.counted("host_received_bytes", host).1, 25 * 128);
    // The host's packets went through a queue, which dropped none.
    assert_eq!(watch.counted("host_received_drops", host).1, 0);
    let (_, waits) = watch.points("host_wait_seconds", host);
    assert!(!waits.is_empty());
    metrics(&watch);
    // The earlier connections may have expired: one without an answer is kept for half a minute.
    watch.send("10.9.0.2", 53, 1);
    link(&watch.look(|now| {
        let of = |sort, label, value| number(now, sort, label, value, "connections");
        of("service", "port", "53") >= Some(1.0) && of("class", "class", "urgent") >= Some(1.0)
    }));
    page(&watch);
    let file = watch.folder.path().join("history");
    let ended = watch.namespace.weirgate(&format!(
        "watch export --from 1h --history {}",
        file.display()
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains(&name), "{ended:?}");
    let top = watch
        .namespace
        .powerless("top --once --json --every 200ms --policy flows.toml");
    assert_eq!(top.status, 0, "{top:?}");
    let top: Value = serde_json::from_str(&top.out).unwrap();
    assert_eq!(class(&top, "urgent").unwrap()["promise"], "idle");
    let text = watch.namespace.weirgate("top --once --every 200ms");
    assert_eq!(text.status, 0, "{text:?}");
    assert!(
        text.out.lines().all(|line| line.chars().count() <= 80),
        "{text:?}"
    );
    assert!(text.out.contains("up urgent"), "{text:?}");
    keys(&watch);
}

/// Returns a number of the first object of a sort that has the given label.
fn number(now: &Value, sort: &str, label: &str, value: &str, name: &str) -> Option<f64> {
    let mut all = now["objects"].as_array()?.iter();
    let one = all.find(|one| one["sort"] == sort && one["labels"][label] == value)?;
    one["numbers"][name].as_f64()
}

/// Checks that the link's rate is that of the kernel and of the policy, and that the connection
/// table reports its limit.
fn link(now: &Value) {
    let up = |name| number(now, "link", "direction", "up", name);
    assert_eq!(up("rate_bits_per_second"), Some(998_000.0), "{now}");
    assert_eq!(up("policy_bits_per_second"), Some(998_000.0), "{now}");
    let all = now["objects"].as_array().unwrap();
    let limit = all.iter().find(|one| one["sort"] == "connections").unwrap();
    assert!(limit["numbers"]["limit"].as_f64() > Some(0.0), "{now}");
}

/// Runs `top` in its own terminal: one key shows hosts, another quits.
fn keys(watch: &Watch) {
    let mut sender = watch.namespace.command("bash");
    let line = "while :; do echo > /dev/udp/10.8.0.77/5000; sleep 0.05; done";
    let mut sender = sender.args(["-c", line]).spawn().unwrap();
    let mut command = watch.namespace.command("script");
    let line = format!("{WEIRGATE} top --every 200ms");
    let mut top = command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (top.stdin.take().unwrap(), top.stdout.take().unwrap());
    let mut shown = String::new();
    let mut until = |part: &str, key: &[u8]| {
        let mut bytes = [0; 4096];
        while !shown.contains(part) {
            let read = output.read(&mut bytes).unwrap();
            assert!(read > 0, "{part} in {shown}");
            shown.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        shown.clear();
        input.write_all(key).unwrap();
    };
    until("by rate)", b"o");
    until("by down)", b"\x1b[B");
    until("10.8.0.77", b"h");
    until("by down)", b"q");
    sender.kill().unwrap();
    sender.wait().unwrap();
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(top.wait().unwrap().success());
    // The terminal's state is restored.
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\x1b[?25h\x1b[?1049l"), "{rest:?}");
}

/// `admit` adds a name to the access file or gives it another token; `dismiss` removes it.
#[test]
fn names_are_admitted_and_dismissed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access");
    let run = |words: &[&str], input: &str| {
        let mut command = Command::new(WEIRGATE);
        command.arg("watch").args(words).arg("--access").arg(&file);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ended::of(&child.wait_with_output().unwrap())
    };
    let first = run(&["admit", "grafana"], "");
    assert_eq!((first.status, first.out.trim().len()), (0, 64), "{first:?}");
    let ann = run(&["admit", "ann", "--password"], "correct horse\n");
    assert_eq!((ann.status, &*ann.out), (0, ""), "{ann:?}");
    let second = run(&["admit", "grafana"], "");
    assert_ne!(first.out, second.out);
    let text = std::fs::read_to_string(&file).unwrap();
    let names: Vec<&str> = text
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(names, ["ann", "grafana"]);
    assert!(!text.contains("correct") && !text.contains(second.out.trim()));
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(run(&["dismiss", "ann"], "").status, 0);
    for (words, input) in [
        (&["dismiss", "ann"][..], ""),
        (&["admit", "a b"], ""),
        (&["admit", "bob", "--password"], "short\n"),
    ] {
        let ended = run(words, input);
        assert_eq!((ended.status, &*ended.out), (2, ""), "{ended:?}");
    }
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("grafana token ")
    );
}

/// Checks that the Prometheus project's parser accepts the metrics and finds the sent packets.
fn metrics(watch: &Watch) {
    let text = watch.get("metrics");
    let script = "import sys\nfrom prometheus_client.openmetrics.parser import text_string_to_metric_families as p\n\
        print(sum(s.value for f in p(sys.stdin.read()) for s in f.samples\n\
        if s.name == 'weirgate_class_sent_packets_total' and s.labels['class'] == 'urgent' and s.labels['direction'] == 'up'))";
    let mut parser = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    parser
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "{text}");
    let sum = String::from_utf8(output.stdout).unwrap();
    assert_eq!(sum.trim().parse(), Ok(30.0), "{text}");
}

/// The Prometheus project's own tool accepts the alert rules, and the rules' own tests pass.
#[test]
fn alert_rules_do_as_they_say() {
    let folder = root().join("packaging/monitoring");
    for words in [
        ["check", "rules", "alerts.yaml"],
        ["test", "rules", "alerts-test.yaml"],
    ] {
        let mut command = Command::new(tool("promtool"));
        let Ok(output) = command.args(words).current_dir(&folder).output() else {
            skipped("promtool (package prometheus) is not installed");
            return;
        };
        assert!(output.status.success(), "{output:?}");
    }
}

/// Checks that the page shows the service's data in a browser. With `WEIRGATE_PICTURES=FOLDER`,
/// saves screenshots for inspection.
fn page(watch: &Watch) {
    let now = watch.browser("#now", &["--dump-dom"]);
    for part in [
        "up urgent",
        "299 kbit/s",
        "nothing waits",
        "<td>127.0.0.1</td>",
    ] {
        assert!(now.contains(part), "{part} in {now}");
    }
    let history = watch.browser("#history/12", &["--dump-dom"]);
    for part in [
        "Rate by class",
        "class=\"now s0\"",
        "up rest, at most",
        "Bytes waiting",
        "Packets sent by the second",
        "Borrowed: part of",
        "up urgent: kept, or nothing waited<",
    ] {
        assert!(history.contains(part), "{part} in {history}");
    }
    let hosts = watch.browser("#hosts/10.8.0.77", &["--dump-dom"]);
    for part in ["Host 10.8.0.77", "Receives", "10.8.0.77, at most"] {
        assert!(hosts.contains(part), "{part} in {hosts}");
    }
    let link = watch.browser("#link", &["--dump-dom"]);
    for part in [
        "Rate of the link",
        "up has, at most 998 kbit/s",
        "Histogram: round trips",
    ] {
        assert!(link.contains(part), "{part} in {link}");
    }
    // An invalid fragment falls back to the list of hosts.
    let hosts = watch.browser("#hosts/%zz", &["--dump-dom"]);
    assert!(hosts.contains("<form id=\"period\" hidden"), "{hosts}");
    // Check a rule's totals and its own graphs.
    let now: Value = watch.json("api/now");
    let mut objects = now["objects"].as_array().unwrap().iter();
    let rule = objects.find(|one| one["sort"] == "rule" && one["totals"]["packets"] == 31);
    let rule = rule.unwrap_or_else(|| panic!("{now}"));
    assert_eq!(rule["totals"]["bytes"], 31 * 128, "{rule}");
    let counter = rule["labels"]["rule"].as_str().unwrap();
    let rules = watch.browser(&format!("#rules/{counter}"), &["--dump-dom"]);
    for part in [
        "names",
        "<td>31</td><td>3.97 kB</td>",
        &format!("<h3 id=\"rule-name\">Rule {counter}</h3>"),
        "Packets by the second",
        &format!("{counter}, at most"),
    ] {
        assert!(rules.contains(part), "{part} in {rules}");
    }
    let events = watch.browser("#events", &["--dump-dom"]);
    assert!(events.contains("watching begins"), "{events}");
    let Some(folder) = std::env::var_os("WEIRGATE_PICTURES") else {
        return;
    };
    let folder = root().join(folder);
    for (name, fragment, size) in [
        ("now", "#now", "1280,900"),
        ("history", "#history/0.25", "1280,2400"),
        ("telephone", "#now", "390,844"),
        ("telephone-history", "#history/0.25", "390,4800"),
        ("rules", &format!("#rules/{counter}"), "1280,1000"),
        ("telephone-rules", &format!("#rules/{counter}"), "390,1400"),
        ("link", "#link/0.25", "1280,1700"),
        ("telephone-link", "#link", "390,1600"),
        ("events", "#events", "1280,700"),
        ("hosts", "#hosts/10.8.0.77", "1280,1400"),
        ("telephone-hosts", "#hosts", "390,844"),
    ] {
        for dark in [false, true] {
            let file = folder.join(format!("{name}{}.png", if dark { "-dark" } else { "" }));
            let shot = format!("--screenshot={}", file.display());
            let size = format!("--window-size={size}");
            let mut options = vec![&*shot, &*size];
            if dark {
                options.push("--blink-settings=preferredColorScheme=0");
            }
            watch.browser(fragment, &options);
        }
    }
}
