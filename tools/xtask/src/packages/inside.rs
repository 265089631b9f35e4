// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs in the machine: installs and removes packages while traffic passes, and checks state, units
//! and program after each step.

use crate::files::text;
use crate::packages::machine::MARK;
use crate::packages::traffic::{GOES_ON, RECEIVER};
use anyhow::{Context, Result, ensure};
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const OLDER: &str = "/packages/older.deb";
const NEWER: &str = "/packages/newer.deb";
const SITE: &str = "/etc/weirgate/site.toml";

/// The applied policy: it has a class for the small packets.
const POLICY: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"8mbit\"\n\
    down = \"20mbit\"\nmargin = \"0%\"\nlayer = \"ethernet\"\ninbound = \"ifb\"\n\
    [[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\n\
    [[class]]\nname = \"normal\"\nshare = \"80%\"\ndefault = true\n\
    [[rule]]\nclass = \"urgent\"\nprotocol = \"udp\"\nremote-port = 5001\n";

/// The duration of traffic before the first step and after each.
const PAUSE: Duration = Duration::from_secs(5);

/// The confirmation time of a change, and when its rollback is checked.
const CONFIRM: &str = "10s";
const RETURNED: Duration = Duration::from_secs(14);

/// Reports a figure to the program outside.
#[allow(clippy::print_stdout, reason = "the console is the way out")]
pub fn say(name: &str, value: f64) {
    println!("{MARK} {name} {value}");
}

#[allow(clippy::print_stdout, reason = "the console is the way out")]
fn tell(words: &str) {
    println!("{MARK} - {words}");
}

/// Tests the packages. An error is reported, and its figures are missing.
pub fn run() {
    if let Err(error) = all() {
        tell(&format!("{error:#}"));
        for line in text(Command::new("journalctl").args(["-n", "60", "--no-pager"]))
            .unwrap_or_default()
            .lines()
        {
            tell(line);
        }
    }
}

/// What must be the same before and after a step.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    /// Queues, classes and filters of all devices, without counters. Classes of fq_codel are left
    /// out, because tc lists a flow as a class while it has a backlog.
    traffic_control: String,
    rules: String,
    /// The applied states, as `weirgate` lists them.
    history: String,
    /// Whether each unit is enabled, and whether it is active.
    units: Vec<(String, String)>,
    /// Whether the administrator's file still exists.
    written: bool,
}

/// The numbers of successful and failed checks.
#[derive(Default)]
struct Checks {
    held: u32,
    broken: u32,
}

thread_local! {
    static CHECKS: RefCell<Checks> = RefCell::default();
}

/// Counts a check, and reports it if it fails.
fn check(what: &str, holds: bool) {
    CHECKS.with_borrow_mut(|checks| {
        if holds {
            checks.held += 1;
        } else {
            checks.broken += 1;
            tell(&format!("does not hold: {what}"));
        }
    });
}

fn all() -> Result<()> {
    printed("dpkg -i /packages/older.deb")?;
    let program = fs::metadata("/usr/bin/weirgate")?.len();
    say("program", program as f64 / 1e6);
    let fresh = unit("weirgate.service");
    check(
        "a new installation enables and starts the service",
        fresh == ("enabled".to_owned(), "active".to_owned()),
    );
    network()?;
    fs::create_dir_all("/etc/systemd/system/weirgate.service.d")?;
    fs::write(DROP_IN, "[Service]\nEnvironment=WRITTEN=here\n")?;
    fs::create_dir_all("/etc/weirgate")?;
    fs::write(SITE, POLICY)?;
    printed("systemctl daemon-reload")?;
    printed("weirgate apply --confirm 60s")?;
    printed("weirgate confirm")?;
    printed("systemctl enable --now weirgate-watch")?;
    let monitor = monitor()?;
    let receiver = traffic("--receive", &["ip", "netns", "exec", "far"])?;
    let before = passed()?;
    fs::write(GOES_ON, "")?;
    let sender = traffic("--send", &[])?;
    sleep(PAUSE);

    step("upgrade", NEWER)?;
    step("downgrade", OLDER)?;
    // What the administrator disabled stays disabled, in both directions.
    printed("systemctl disable --now weirgate-watch")?;
    step("upgrade with watch switched off", NEWER)?;
    step("downgrade with watch switched off", OLDER)?;
    step("upgrade again", NEWER)?;
    let deleted = deletions(monitor)?;
    pending()?;
    abandoned()?;

    fs::remove_file(GOES_ON)?;
    let sent = ended(sender)?;
    let seen = ended(receiver)?;
    let after = passed()?;
    let figure = |name: &str| -> Result<f64> {
        let lines = seen.iter().chain(&sent);
        let mut words = lines.filter_map(|line| line.strip_prefix(MARK)?.trim().split_once(' '));
        let value = words.find(|(found, _)| *found == name);
        Ok(value.with_context(|| format!("no `{name}`"))?.1.parse()?)
    };
    for name in ["sent", "windows", "above", "full", "latest"] {
        say(name, figure(name)?);
    }
    say("lost", figure("sent")? - figure("received")?);
    let beside = (after.device - before.device) - (after.shaper - before.shaper);
    say("beside", beside.abs());
    say("deleted", deleted as f64);
    removed()?;
    CHECKS.with_borrow(|checks| {
        say("checks", f64::from(checks.held));
        say("broken", f64::from(checks.broken));
    });
    Ok(())
}

/// The administrator's drop-in of the unit, and the output of `tc monitor`.
const DROP_IN: &str = "/etc/systemd/system/weirgate.service.d/written.conf";
const MONITORED: &str = "/run/packages-monitored";

/// Makes a device to the outside with a remote host behind it, and one to the inside.
fn network() -> Result<()> {
    for line in [
        "ip netns add far",
        "ip link add wan type veth peer name far netns far",
        "ip link add lan type veth peer name inside",
        "ip link set wan up",
        "ip link set lan up",
        "ip link set inside up",
        "ip address add 10.9.0.1/24 dev wan",
        "ip -n far link set far up",
    ] {
        printed(line)?;
    }
    printed(&format!("ip -n far address add {RECEIVER}/24 dev far"))?;
    Ok(())
}

/// Installs a package over the other one under traffic.
fn step(what: &str, package: &str) -> Result<()> {
    tell(what);
    let before = Kept::now()?;
    let process = main_process()?;
    printed(&format!("dpkg -i {package}"))?;
    sleep(PAUSE);
    let after = Kept::now()?;
    if before != after {
        tell(&format!("before: {before:?}"));
        tell(&format!("after: {after:?}"));
    }
    let same = |name: &str, holds: bool| check(&format!("{what}: {name} is kept"), holds);
    same(
        "traffic control",
        before.traffic_control == after.traffic_control,
    );
    same("nftables", before.rules == after.rules);
    same("history", before.history == after.history);
    same("units", before.units == after.units);
    same("what was written", before.written && after.written);
    let shown = Command::new("weirgate").arg("show").output()?;
    check(
        &format!("{what}: show finds no difference"),
        shown.status.success(),
    );
    let runs = main_process()?;
    let program = fs::read_link(format!("/proc/{runs}/exe"))?;
    check(
        &format!("{what}: the service runs the installed program"),
        runs != process && program == Path::new("/usr/bin/weirgate"),
    );
    Ok(())
}

/// Checks a change that waits for confirmation while the package is installed again: its guard must
/// roll it back in time.
fn pending() -> Result<()> {
    tell("a change that waits");
    let before = Kept::now()?;
    let changed = POLICY
        .replace("\"20%\"", "\"30%\"")
        .replace("\"80%\"", "\"70%\"");
    fs::write("/tmp/changed.toml", changed)?;
    printed(&format!(
        "weirgate apply --confirm {CONFIRM} /tmp/changed.toml"
    ))?;
    let waits = Kept::now()?;
    check(
        "the change is in force",
        waits.traffic_control != before.traffic_control,
    );
    printed("dpkg -i /packages/newer.deb")?;
    let still = Kept::now()?;
    check(
        "an upgrade leaves a change that waits",
        waits.traffic_control == still.traffic_control,
    );
    sleep(RETURNED);
    let after = Kept::now()?;
    check(
        "a change that nobody confirms is taken back after an upgrade",
        before.traffic_control == after.traffic_control && before.rules == after.rules,
    );
    Ok(())
}

/// Checks a change that waits for confirmation while its unit is stopped, like a session that ends.
/// systemd kills all processes of the unit, and no keeper restores the kernel's state. The guard
/// has its own unit, survives, and rolls the change back.
fn abandoned() -> Result<()> {
    tell("a change whose caller is stopped");
    let before = traffic_control()?;
    printed("systemctl stop weirgate")?;
    // The unit remains when its process has ended.
    printed(&format!(
        "systemd-run --quiet --unit=caller --remain-after-exit \
         weirgate apply --confirm {CONFIRM} /tmp/changed.toml"
    ))?;
    for _ in 0..100 {
        if printed("systemctl show -P SubState caller")?.trim() == "exited" {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    let guards = || printed("systemctl list-units --plain --no-legend weirgate-guard-*.scope");
    let waits = traffic_control()?;
    check("the caller's change is in force", waits != before);
    check("its guard has a unit", guards()?.lines().count() == 1);
    printed("systemctl stop caller")?;
    let still = traffic_control()?;
    check("the change outlives its caller", still == waits);
    check("so does its guard", guards()?.lines().count() == 1);
    sleep(RETURNED);
    check(
        "the guard alone takes the change back",
        traffic_control()? == before,
    );
    check("the guard's unit ends with it", guards()?.is_empty());
    printed("systemctl start weirgate")?;
    Ok(())
}

/// Removes the package, then purges its files.
fn removed() -> Result<()> {
    printed("dpkg -r weirgate")?;
    let left = text(Command::new("tc").args(["qdisc", "show"]))?;
    check(
        "removal leaves no qdisc",
        !left.contains("htb") && !left.contains("ingress"),
    );
    let rules = text(Command::new("nft").args(["list", "ruleset"]))?;
    check("removal leaves no rule", !rules.contains("weirgate"));
    check(
        "removal keeps the states",
        Path::new("/var/lib/weirgate").exists(),
    );
    check("removal keeps the policy", Path::new(SITE).exists());
    printed("dpkg -P weirgate")?;
    check(
        "purge leaves no state",
        !Path::new("/var/lib/weirgate").exists(),
    );
    let links = printed("find /etc/systemd /var/lib/systemd -name weirgate*.service")?;
    check("purge leaves no unit", links.is_empty());
    Ok(())
}

impl Kept {
    fn now() -> Result<Self> {
        Ok(Self {
            traffic_control: traffic_control()?,
            rules: printed("nft -s list ruleset")?,
            history: printed("weirgate history --json")?,
            units: vec![unit("weirgate.service"), unit("weirgate-watch.service")],
            written: Path::new(DROP_IN).exists() && fs::read_to_string(SITE)? == POLICY,
        })
    }
}

/// Returns the traffic-control part of [`Kept`].
fn traffic_control() -> Result<String> {
    let mut all = printed("tc qdisc show")?;
    for device in ["wan", "lan", "ifb-wan"] {
        let classes = printed(&format!("tc class show dev {device}"))?;
        let stay = classes
            .lines()
            .filter(|line| !line.starts_with("class fq_codel"));
        all.extend(stay.flat_map(|line| [line, "\n"]));
        all += &printed(&format!("tc filter show dev {device}"))?;
        all += &printed(&format!("tc filter show dev {device} ingress"))?;
    }
    Ok(all)
}

/// Returns whether a unit is enabled, and whether it is active, in systemd's words.
fn unit(name: &str) -> (String, String) {
    let ask = |what: &str| {
        let asked = Command::new("systemctl").args([what, name]).output();
        asked.map_or_else(
            |error| error.to_string(),
            |found| String::from_utf8_lossy(&found.stdout).trim().to_owned(),
        )
    };
    (ask("is-enabled"), ask("is-active"))
}

fn main_process() -> Result<u32> {
    let shown = printed("systemctl show -P MainPID weirgate.service")?;
    Ok(shown.trim().parse()?)
}

/// Packets that left the device, and packets that its shaper sent.
struct Passed {
    device: f64,
    shaper: f64,
}

fn passed() -> Result<Passed> {
    let device = fs::read_to_string("/sys/class/net/wan/statistics/tx_packets")?;
    let shown: serde_json::Value =
        serde_json::from_str(&printed("tc -j -s qdisc show dev wan root")?)?;
    let root = shown
        .as_array()
        .and_then(|all| all.iter().find(|qdisc| qdisc["root"] == true));
    let shaper = root.and_then(|root| root["packets"].as_f64());
    Ok(Passed {
        device: device.trim().parse()?,
        shaper: shaper.context("no root qdisc")?,
    })
}

/// Starts to record changes of traffic control.
fn monitor() -> Result<Child> {
    let file = fs::File::create(MONITORED)?;
    let child = Command::new("tc").arg("monitor").stdout(file).spawn()?;
    sleep(Duration::from_millis(500));
    Ok(child)
}

/// Returns how many objects were deleted until now (tc-monitor marks these lines).
fn deletions(mut monitor: Child) -> Result<usize> {
    monitor.kill()?;
    monitor.wait()?;
    let seen = fs::read_to_string(MONITORED)?;
    let deleted = |line: &&str| line.to_ascii_lowercase().starts_with("deleted");
    Ok(seen.lines().filter(deleted).count())
}

/// Runs this program as one end of the traffic, with real-time priority. `within` is a command
/// prefix that runs it elsewhere.
fn traffic(end: &str, within: &[&str]) -> Result<Child> {
    let child = Command::new("chrt")
        .args(["-f", "50"])
        .args(within)
        .arg(std::env::current_exe()?)
        .args(["test-packages", end])
        .stdout(Stdio::piped())
        .spawn()?;
    sleep(Duration::from_millis(500));
    Ok(child)
}

/// Returns the output of a process until it ended.
fn ended(mut child: Child) -> Result<Vec<String>> {
    let found = lines(&mut child)?;
    let status = child.wait()?;
    ensure!(
        status.success(),
        "an end of the traffic ended with {status}"
    );
    Ok(found)
}

fn lines(child: &mut Child) -> Result<Vec<String>> {
    let output = child.stdout.take().context("its output")?;
    let found: std::io::Result<_> = BufReader::new(output).lines().collect();
    Ok(found?)
}

/// Returns a program's output; fails if it fails. The command line is split at spaces.
fn printed(line: &str) -> Result<String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    text(command.args(words))
}
