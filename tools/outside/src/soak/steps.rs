// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of the soak: what is done to the policy in force, and which state must follow.

use super::commands::{asked, begun, ended, running, started, weirgate};
use super::files::{CIRCUITS, LINKS, POLICIES};
use super::inside::{REMOVE, Soak};
use super::judge::{Expected, in_force};
use super::look::Process;
use super::network::{STATES, lan};
use crate::process::{direct, within};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The approximate number of system calls with which an `apply` of these policies sends.
const CALLS: u64 = 80;

/// How far the clock is moved, in seconds.
const DAY: i64 = 86_400;

/// Where `weirgate circuits serve` listens, and where `keep` writes how it follows a rate.
const SOCKET: &str = "/run/weirgate/circuits.sock";
const RUN: &str = "/run/weirgate";

/// Commands that change nothing, with their permitted exit statuses. `plan` returns 1 if something
/// would change, `doctor` if it warns.
const READERS: [(&str, &[i32]); 18] = [
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
    ("links check /soak/links.toml", &[0, 1]),
    ("track status", &[0]),
];

/// A step.
pub struct Step {
    pub name: &'static str,
    /// Does it, and returns the state that is expected afterwards.
    pub run: fn(&mut Soak) -> Result<Expected>,
    /// Whether it ends `keep` or `watch`, whose memory can then not be followed.
    pub ends_service: bool,
}

const fn step(name: &'static str, run: fn(&mut Soak) -> Result<Expected>) -> Step {
    Step {
        name,
        run,
        ends_service: false,
    }
}

const fn ending(name: &'static str, run: fn(&mut Soak) -> Result<Expected>) -> Step {
    Step {
        name,
        run,
        ends_service: true,
    }
}

/// The steps of a turn.
pub const STEPS: [Step; 22] = [
    step("a rate is followed", |_| followed()),
    step("apply", |_| apply(0)),
    step("commands that read", |soak| soak.read()),
    step("probe and survey", |soak| soak.measured()),
    step("apply another, confirm", Soak::confirmed),
    step("apply, not confirmed", Soak::forgotten),
    step("the guard is killed", Soak::unguarded),
    step("rollback", Soak::rolled_back),
    ending("keep is killed", Soak::keep_killed),
    ending("watch is ended and begun", Soak::watch_again),
    step("announce", Soak::announced),
    step("the LAN's device goes and comes", Soak::device),
    step("the disk is full", Soak::full),
    step("a request of netlink fails", Soak::request),
    step("the clock is set back", |soak| soak.clock(-DAY)),
    step("the clock is set forward", |soak| soak.clock(DAY)),
    step("apply is killed, boot", Soak::killed),
    step("links apply, run, remove", Soak::links),
    step("circuits apply, remove", Soak::circuits),
    step("circuits serve", Soak::served),
    step("ruleset off, on", Soak::ruleset),
    step(REMOVE, |_| remove()),
];

impl Soak {
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
        let guard = guard()?;
        self.seen.push(Process::of("guard", guard)?);
        weirgate(&["confirm"], &[0])?;
        Ok(Expected::Policy(other))
    }

    fn forgotten(&mut self) -> Result<Expected> {
        let file = POLICIES[self.other()];
        weirgate(&["apply", "--confirm", "5s", file], &[0])?;
        thread::sleep(Duration::from_secs(15));
        Ok(self.now)
    }

    /// Kills the guard of a change that waits: `keep` must take the change back in its place.
    fn unguarded(&mut self) -> Result<Expected> {
        let file = POLICIES[self.other()];
        weirgate(&["apply", "--confirm", "5s", file], &[0])?;
        asked(&format!("kill -KILL {}", guard()?))?;
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
        self.keep = started(&["keep"])?;
        Ok(self.now)
    }

    fn watch_again(&mut self) -> Result<Expected> {
        let process = self.watch.id().to_string();
        direct(&["kill", "-TERM", &process])?;
        self.watch.wait()?;
        self.watch = started(&["watch"])?;
        Ok(self.now)
    }

    /// Announces a session while a program runs, and one that ends with a signal.
    fn announced(&mut self) -> Result<Expected> {
        weirgate(&["announce", "sleep", "3"], &[0])?;
        let session = begun(&["announce"])?;
        thread::sleep(Duration::from_secs(2));
        self.seen.push(Process::of("announce", session.id())?);
        ended(session, "announce")?;
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
        // It may have been killed after its change was confirmed.
        let found = in_force()?;
        ensure!(
            !done || found == other,
            "apply ended well, but its policy is not in force"
        );
        Ok(Expected::Policy(found))
    }

    fn circuits(&mut self) -> Result<Expected> {
        let [devices, network] = CIRCUITS;
        let words = ["circuits", "apply", "access", devices, network];
        weirgate(&words, &[0])?;
        weirgate(&["circuits", "show", "access"], &[0])?;
        weirgate(&["circuits", "remove", "access", "--all"], &[0])?;
        Ok(self.now)
    }

    /// Routes over two links, probes them, and removes the routing.
    fn links(&mut self) -> Result<Expected> {
        weirgate(&["links", "apply", LINKS], &[0])?;
        let service = started(&["links", "run"])?;
        thread::sleep(Duration::from_secs(10));
        let shown = weirgate(&["links", "show", "--json"], &[0]);
        self.seen.push(Process::of("links run", service.id())?);
        ended(service, "links")?;
        weirgate(&["links", "remove"], &[0])?;
        let shown: Value = serde_json::from_str(&shown?).context("links show --json")?;
        let links = shown["links"].as_array().map_or(0, Vec::len);
        ensure!(links == 2, "links show has not both links: {shown}");
        Ok(self.now)
    }

    /// Changes a circuit by the service's socket.
    fn served(&mut self) -> Result<Expected> {
        let [devices, network] = CIRCUITS;
        weirgate(&["circuits", "apply", "access", devices, network], &[0])?;
        let service = started(&["circuits", "serve"])?;
        let asked = questions();
        self.seen.push(Process::of("circuits serve", service.id())?);
        ended(service, "circuits")?;
        weirgate(&["circuits", "remove", "access", "--all"], &[0])?;
        asked?;
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

/// Follows a rate for some seconds, and repeats the decisions from the record.
fn followed() -> Result<Expected> {
    weirgate(&["apply", "--adopt", POLICIES[2]], &[0])?;
    thread::sleep(Duration::from_secs(20));
    let status = weirgate(&["track", "status", "--json"], &[0]);
    let replayed = records().and_then(|records| {
        // `keep` writes on.
        let copy = "/tmp/rate.record";
        for record in &records {
            fs::copy(record, copy).context(copy)?;
            weirgate(&["track", "replay", copy], &[0])?;
        }
        Ok(records.len())
    });
    weirgate(&["remove"], &[0])?;
    let status: Value = serde_json::from_str(&status?).context("track status --json")?;
    ensure!(!status.is_null(), "no rate is followed");
    ensure!(replayed? > 0, "there is no record of a rate");
    Ok(Expected::Nothing)
}

/// Returns the records of rates: one, in the folder of this namespace.
fn records() -> Result<Vec<PathBuf>> {
    let folders = fs::read_dir(RUN).context(RUN)?.flatten();
    let records = folders.map(|folder| folder.path().join("rate.record"));
    Ok(records.filter(|record| record.is_file()).collect())
}

/// Asks the service to add, change, show and remove a circuit.
fn questions() -> Result<()> {
    let stream = UnixStream::connect(SOCKET).context(SOCKET)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut stream = BufReader::new(stream);
    let place = json!({ "device": "access", "circuit": "3" });
    let added = json!({
        "parent": "mast", "addresses": "203.0.113.3",
        "down-min": "1mbit", "down-max": "10mbit", "up-max": "2mbit",
    });
    for (what, more) in [
        ("add", added),
        ("change", json!({ "down-max": "20mbit" })),
        ("show", json!({})),
        ("remove", json!({})),
    ] {
        let mut request = json!({ "do": what });
        for part in [&place, &more] {
            let fields = part.as_object().into_iter().flatten();
            for (name, value) in fields {
                request[name] = value.clone();
            }
        }
        writeln!(stream.get_mut(), "{request}")?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("an answer")?;
        let done = answer["done"].is_object() || answer["shown"].is_object();
        ensure!(done, "{request}: {answer}");
    }
    Ok(())
}

/// Returns the guard of the change that waits.
fn guard() -> Result<u32> {
    match running("weirgate", "guard")?[..] {
        [guard] => Ok(guard),
        ref found => bail!("a change waits with {} guards", found.len()),
    }
}
