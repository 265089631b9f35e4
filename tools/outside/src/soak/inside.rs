// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the soak in the guest: a router with the dormitory's policy between two namespaces. Every
//! command runs in turn, with occasional faults, and everything is checked after each.

use super::judge::{Expected, Look, look};
use super::traffic::Probe;
use crate::process::{direct, within};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Two policies with different rates, and a list of circuits.
pub const POLICIES: [&str; 2] = ["/soak/one.toml", "/soak/other.toml"];
pub const CIRCUITS: [&str; 2] = ["/soak/devices.csv", "/soak/network.json"];

/// The folder of weirgate's states: a separate file system, which can be filled.
const STATES: &str = "/var/lib/weirgate";
const ROOM: &str = "size=64m,mode=0755";

/// The approximate number of system calls with which an `apply` of these policies sends.
const CALLS: u64 = 80;

/// How far the clock is moved, in seconds.
const DAY: i64 = 86_400;

/// The interval between commands.
const ROUND: Duration = Duration::from_mins(1);

/// The result of a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Round {
    /// The step's name.
    pub step: String,
    /// Deviations from the expected state.
    pub faults: Vec<String>,
    pub look: Look,
    /// The longest round trip of a packet of the class `urgent` under load in milliseconds, and the
    /// promise of `check`; `None` if no policy was in force.
    pub longest: Option<(f64, f64)>,
}

/// Commands that change nothing, with their permitted exit statuses. `plan` returns 1 if something
/// would change, `doctor` if it warns.
const READERS: [(&str, &[i32]); 16] = [
    ("check /soak/one.toml", &[0]),
    ("plan /soak/other.toml", &[0, 1]),
    ("export /soak/one.toml", &[0]),
    ("explain /soak/one.toml ssh", &[0]),
    ("doctor /soak/one.toml", &[0, 1]),
    ("show --json", &[0]),
    ("history --json", &[0]),
    ("rules", &[0]),
    ("ruleset", &[0]),
    ("metrics", &[0]),
    ("top --once", &[0]),
    ("flows", &[0]),
    ("flows --summary", &[0]),
    ("schema", &[0]),
    ("services", &[0]),
    ("aqm list", &[0]),
];

/// A step, which returns the state that is expected afterwards.
type Step = fn(&mut Soak) -> Result<Expected>;

/// The steps of a cycle.
const STEPS: [(&str, Step); 17] = [
    ("apply", |_| apply(0)),
    ("commands that read", |soak| soak.read()),
    ("probe and survey", |soak| soak.measured()),
    ("apply another, confirm", Soak::confirmed),
    ("apply, not confirmed", Soak::forgotten),
    ("rollback", Soak::rolled_back),
    ("keep is killed", Soak::keep_killed),
    ("watch is ended and begun", Soak::watch_again),
    ("the LAN's device goes and comes", Soak::device),
    ("the disk is full", Soak::full),
    ("a request of netlink fails", Soak::request),
    ("the clock is set back", |soak| soak.clock(-DAY)),
    ("the clock is set forward", |soak| soak.clock(DAY)),
    ("apply is killed, boot", Soak::killed),
    ("circuits apply, remove", Soak::circuits),
    ("ruleset off, on", Soak::ruleset),
    ("remove", |_| remove()),
];

struct Soak {
    keep: Child,
    watch: Child,
    /// The policy in force.
    now: Expected,
    /// What tc, ip and nft show without weirgate's state.
    bare: String,
    number: u64,
}

/// Runs for `seconds`, and prints a line of JSON for each round. `seed` changes the times at which
/// processes are killed.
pub fn run(seed: u64, seconds: u64) -> Result<()> {
    prepare()?;
    let bare = super::judge::shown()?;
    let probe = Probe::begin()?;
    let bounds = [bound(POLICIES[0])?, bound(POLICIES[1])?];
    let mut soak = Soak {
        keep: started("keep")?,
        watch: started("watch")?,
        now: Expected::Nothing,
        bare,
        number: seed,
    };
    let begin = Instant::now();
    for (name, step) in STEPS.iter().cycle() {
        let at = begin.elapsed();
        if at.as_secs() >= seconds {
            break;
        }
        soak.number += 1;
        let mut faults = Vec::new();
        match step(&mut soak) {
            Ok(now) => soak.now = now,
            Err(error) => faults.push(format!("{error:#}")),
        }
        let longest = match soak.now {
            Expected::Nothing => None,
            Expected::Policy(policy) => {
                let longest = probe.longest(Duration::from_secs(4))?;
                Some((longest, bounds[policy]))
            }
        };
        faults.extend(super::judge::wrong(soak.now, &soak.bare)?);
        let round = Round {
            step: (*name).to_owned(),
            faults,
            look: look(&soak.services()?)?,
            longest,
        };
        println!("{}", serde_json::to_string(&round)?);
        // This clock is not the one that the test sets.
        thread::sleep((at + ROUND).saturating_sub(begin.elapsed()));
    }
    soak.keep.kill()?;
    soak.watch.kill()?;
    Ok(())
}

impl Soak {
    /// Returns `keep`, `watch`, and the process of `watch` that answers browsers.
    fn services(&self) -> Result<[u32; 3]> {
        let (keep, watch) = (self.keep.id(), self.watch.id());
        // Any of its threads may have started it.
        let threads = format!("/proc/{watch}/task");
        let threads = fs::read_dir(&threads).context(threads)?.flatten();
        let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
        let lists: Vec<String> = lists.flatten().collect();
        let web = lists.iter().find_map(|list| list.split_whitespace().next());
        let none = || {
            let said = fs::read_to_string(said("watch")).unwrap_or_default();
            format!("watch has no process for browsers: {said}")
        };
        let web = web.with_context(none)?;
        Ok([keep, watch, web.parse()?])
    }

    /// Returns the policy that is not in force.
    fn other(&self) -> usize {
        usize::from(self.now == Expected::Policy(0))
    }

    fn read(&self) -> Result<Expected> {
        for (line, statuses) in READERS {
            weirgate(&line.split(' ').collect::<Vec<_>>(), statuses)?;
        }
        Ok(self.now)
    }

    /// Measures the line with a server at the provider's end, and then surveys it.
    fn measured(&self) -> Result<Expected> {
        let mut server = within("isp", || begun(&["probe", "--serve"]))?;
        thread::sleep(Duration::from_secs(2));
        let probed = weirgate(&["probe", "--time", "3s", "192.0.2.2"], &[0]);
        server.kill()?;
        server.wait()?;
        probed?;
        weirgate(&["survey", "--for", "3s", "wan"], &[0])?;
        Ok(self.now)
    }

    fn confirmed(&mut self) -> Result<Expected> {
        let other = self.other();
        let file = POLICIES[other];
        weirgate(&["apply", "--confirm", "30s", file], &[0])?;
        weirgate(&["confirm"], &[0])?;
        Ok(Expected::Policy(other))
    }

    fn forgotten(&mut self) -> Result<Expected> {
        let file = POLICIES[self.other()];
        weirgate(&["apply", "--confirm", "5s", file], &[0])?;
        thread::sleep(Duration::from_secs(15));
        Ok(self.now)
    }

    fn rolled_back(&mut self) -> Result<Expected> {
        let other = self.other();
        weirgate(&["rollback"], &[0])?;
        Ok(Expected::Policy(other))
    }

    fn keep_killed(&mut self) -> Result<Expected> {
        self.keep.kill()?;
        self.keep.wait()?;
        self.keep = started("keep")?;
        Ok(self.now)
    }

    fn watch_again(&mut self) -> Result<Expected> {
        let process = self.watch.id().to_string();
        direct(&["kill", "-TERM", &process])?;
        self.watch.wait()?;
        self.watch = started("watch")?;
        Ok(self.now)
    }

    /// Removes a device; `keep` must restore its state when it returns.
    fn device(&mut self) -> Result<Expected> {
        asked("ip link del lan")?;
        thread::sleep(Duration::from_secs(5));
        lan()?;
        thread::sleep(Duration::from_secs(10));
        Ok(self.now)
    }

    /// Fills the file system: a change that cannot be recorded must not be made.
    fn full(&mut self) -> Result<Expected> {
        let file = format!("{STATES}/filler");
        let mut filler = fs::File::create(&file)?;
        while filler.write_all(&[0; 4096]).is_ok() {}
        let other = self.other();
        let applied = direct(&["weirgate", "apply", POLICIES[other]]);
        fs::remove_file(&file).context(file)?;
        if applied?.status == Some(0) {
            bail!("a change was made that could not be recorded");
        }
        Ok(self.now)
    }

    /// Makes one system call that sends to the kernel fail with ENOBUFS, a different one each time:
    /// the change must not be made, or must be rolled back.
    fn request(&mut self) -> Result<Expected> {
        let when = 1 + self.number * 7 % CALLS;
        let inject = format!("inject=sendto,sendmsg:error=ENOBUFS:when={when}");
        let other = self.other();
        let traced = ["strace", "-f", "-qq", "-o", "/dev/null"];
        let calls = ["-e", "trace=sendto,sendmsg", "-e", &inject];
        let apply = ["weirgate", "apply", POLICIES[other]];
        let done = direct(&[&traced[..], &calls, &apply].concat())?;
        Ok(match done.status {
            Some(0) => Expected::Policy(other),
            _ => self.now,
        })
    }

    fn clock(&mut self, by: i64) -> Result<Expected> {
        let done = direct(&["date", "+%s"])?;
        let now: i64 = done.output.trim().parse().context("date")?;
        asked(&format!("date -s @{}", now + by))?;
        thread::sleep(Duration::from_secs(10));
        Ok(self.now)
    }

    /// Kills an `apply` at any time, then runs what runs at boot: it must restore the last
    /// confirmed state.
    fn killed(&mut self) -> Result<Expected> {
        let other = self.other();
        let mut apply = begun(&["apply", POLICIES[other]])?;
        thread::sleep(Duration::from_millis(self.number * 37 % 400));
        apply.kill()?;
        let done = apply.wait()?.success();
        // The guard may have to roll back first.
        thread::sleep(Duration::from_secs(10));
        weirgate(&["boot"], &[0])?;
        Ok(if done {
            Expected::Policy(other)
        } else {
            self.now
        })
    }

    fn circuits(&mut self) -> Result<Expected> {
        let [devices, network] = CIRCUITS;
        let words = ["circuits", "apply", "access", devices, network];
        weirgate(&words, &[0])?;
        weirgate(&["circuits", "show", "access"], &[0])?;
        weirgate(&["circuits", "remove", "access", "--all"], &[0])?;
        Ok(self.now)
    }

    fn ruleset(&mut self) -> Result<Expected> {
        for way in ["off", "on"] {
            weirgate(&["ruleset", "p2p", way], &[0])?;
        }
        Ok(self.now)
    }
}

fn apply(policy: usize) -> Result<Expected> {
    weirgate(&["apply", "--adopt", POLICIES[policy]], &[0])?;
    Ok(Expected::Policy(policy))
}

fn remove() -> Result<Expected> {
    weirgate(&["remove"], &[0])?;
    Ok(Expected::Nothing)
}

/// Returns the promise of `check` for a packet of `urgent` there and back, in milliseconds. The
/// rest of the path takes no time here.
fn bound(policy: &str) -> Result<f64> {
    let done = direct(&["weirgate", "check", "--json", policy])?;
    let report: Value = serde_json::from_str(&done.output).context("check --json")?;
    let directions = report["links"][0]["directions"].as_array();
    let classes = directions
        .context("no directions")?
        .iter()
        .flat_map(|direction| {
            let classes = direction["classes"].as_array();
            classes.into_iter().flatten()
        });
    let urgent = classes.filter(|class| class["name"] == "urgent");
    let bounds = urgent.map(|class| class["within_guarantee"]["ms"].as_f64());
    let bounds: Option<Vec<f64>> = bounds.collect();
    Ok(bounds.context("no bound")?.iter().sum())
}

/// Makes namespaces and devices, and the file system for states.
fn prepare() -> Result<()> {
    fs::create_dir_all(STATES)?;
    asked(&format!("mount -t tmpfs -o {ROOM} tmpfs {STATES}"))?;
    for line in [
        "ip link set lo up",
        "ip netns add isp",
        "ip netns add home",
        "ip link add wan type veth peer name far netns isp",
        "ip link set wan up",
        "ip addr add 192.0.2.1/24 dev wan",
        "ip -n isp link set lo up",
        "ip -n isp link set far up",
        "ip -n isp addr add 192.0.2.2/24 dev far",
        "ip -n isp route add default via 192.0.2.1",
        "ip -n home link set lo up",
        // The module creates two IFB devices when it is loaded; this loads it.
        "ip link add first type ifb",
        "ip link del first",
        "ip link add access type dummy",
        "ip link set access up",
    ] {
        asked(line)?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    // The kernel then lists BPF programs with its symbols.
    fs::write("/proc/sys/net/core/bpf_jit_kallsyms", "1")?;
    lan()
}

/// Makes the device of the users, which is removed and made again.
fn lan() -> Result<()> {
    for line in [
        "ip link add lan type veth peer name user netns home",
        "ip link set lan up",
        "ip addr add 198.51.100.1/24 dev lan",
        "ip -n home link set user up",
        "ip -n home addr add 198.51.100.2/24 dev user",
        "ip -n home route add default via 198.51.100.1",
    ] {
        asked(line)?;
    }
    Ok(())
}

/// Runs a command that must succeed.
fn asked(line: &str) -> Result<()> {
    let done = direct(&line.split(' ').collect::<Vec<_>>())?;
    if done.status != Some(0) {
        bail!("{line}: {}", done.message());
    }
    Ok(())
}

/// Runs weirgate, which must exit with one of these statuses.
fn weirgate(words: &[&str], statuses: &[i32]) -> Result<()> {
    let done = direct(&[&["weirgate"], words].concat())?;
    if !done.status.is_some_and(|status| statuses.contains(&status)) {
        bail!(
            "{} ends with {:?}: {}",
            words.join(" "),
            done.status,
            done.error
        );
    }
    Ok(())
}

fn begun(words: &[&str]) -> Result<Child> {
    let mut command = Command::new("weirgate");
    let quiet = command.args(words).stdin(Stdio::null());
    let said = fs::File::create(said(words[0])).context("what it says")?;
    let child = quiet.stdout(Stdio::null()).stderr(said).spawn();
    child.with_context(|| words.join(" "))
}

/// Returns the file of a command's messages.
fn said(command: &str) -> String {
    format!("/tmp/{command}.said")
}

/// Starts a service, and waits until it is probably ready.
fn started(service: &str) -> Result<Child> {
    let child = begun(&[service])?;
    thread::sleep(Duration::from_secs(5));
    Ok(child)
}
