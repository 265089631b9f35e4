// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs small experiments in namespaces of the running kernel, in real time.
//! Needs root, /dev/net/tun and veth.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as expected"
)]

use std::collections::BTreeMap;
use std::fs;
use weirgate_experiment::{Direction, Fate, Job, Recording};
use weirgate_guest::agent::{Machine, run};

/// The phases on the line, alone and with an upload; a test appends its own tables.
const LINE: &str = r#"
[[phase]]
name = "alone"
end = "1s"

[[phase]]
name = "upload"
end = "2s"

[[probe]]
name = "echo"
from = "host1"
to = "provider"
interval = "50ms"
class = "interactive"

[[probe]]
name = "echo6"
from = "gateway"
to = "server1"
interval = "50ms"
ipv6 = true

[[traffic]]
name = "up"
kind = "udp"
from = "host1"
to = "server1"
during = ["upload"]
interval = "20ms"
packet = 1500
"#;

fn job(arm: &str, more: &str) -> Job {
    Job {
        experiment: format!(
            "{}{LINE}\n[[arm]]\nname = \"{arm}\"\nabout = \"a test\"\n{more}",
            weirgate_testing::adsl("here", "40kB")
        ),
        arm: arm.to_owned(),
        parameters: BTreeMap::new(),
        seed: 1,
        files: BTreeMap::new(),
        disciplines: BTreeMap::new(),
    }
}

/// Runs a job, and checks that the thread's namespace is unchanged.
fn run_here(job: &Job) -> anyhow::Result<Recording> {
    let look = || {
        let space = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let names = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
        (space, devices.lines().map(names).collect::<Vec<_>>())
    };
    let before = look();
    let result = run(job, Machine::Shared, &mut |_, _, _| ());
    assert_eq!(look(), before);
    result
}

fn failure(job: &Job) -> String {
    format!("{:#}", run_here(job).unwrap_err())
}

#[test]
fn a_line_keeps_its_promises_in_real_time() {
    let recording = run_here(&job("own", "")).unwrap();
    assert_eq!(recording.arm, "own");
    assert_eq!(recording.duration_ns, 2_000_000_000);

    // 84 bytes are three cells each way, on 512 and on 2000 kbit/s, with 2 ms
    // of delay each way; 104 bytes of IPv6 as well.
    let floor_ns = 3 * 53 * 8 * 1_000_000 / 512 + 3 * 53 * 8 * 1_000_000 / 2_000 + 4_000_000;
    for probe in 0..2 {
        let answers = recording.probes.iter().filter(|reply| reply.probe == probe);
        let times: Vec<u64> = answers.filter_map(|reply| reply.rtt_ns).collect();
        assert!(times.len() >= 20, "{} answers", times.len());
        let fastest = *times.iter().min().unwrap();
        assert!(fastest >= floor_ns, "{fastest} ns, {floor_ns} at least");
        assert!(
            fastest < floor_ns + 5_000_000,
            "{fastest} ns, about {floor_ns}"
        );
    }

    // The upload sends 50 packets of 32 cells in 1 s, of which 512 kbit/s carry 37.7. The backlog
    // grows, and some packets remain.
    let up: Vec<_> = recording
        .line
        .iter()
        .filter(|packet| packet.direction == Direction::Up && packet.ip_bytes == 1_500)
        .collect();
    assert!((45..=51).contains(&up.len()), "{} packets", up.len());
    assert!(up.iter().all(|packet| packet.wire_bytes == 1_696));
    assert!(up.iter().all(|packet| packet.flow == up[0].flow));
    assert!(up.iter().any(|packet| packet.ahead_packets >= 8));
    assert!(up.iter().any(|packet| packet.fate == Fate::Left));
    for packet in &recording.line {
        if let Fate::Sent { start_ns, end_ns } = packet.fate {
            assert!(packet.arrived_ns <= start_ns && start_ns < end_ns);
            assert!(end_ns <= recording.duration_ns);
        }
    }

    // The waits of stamped packets in the gateway are recorded.
    assert_eq!(recording.classes, ["interactive"]);
    for direction in [Direction::Up, Direction::Down] {
        let mut waits = recording.sojourns.iter();
        assert!(waits.any(|sojourn| sojourn.direction == direction));
    }
}

/// Returns an arm whose loop changes a rate with a program that accepts any rate.
fn with_loop(program: &str) -> Job {
    let side = format!(
        "least = \"100kbit\", base = \"500kbit\", most = \"1mbit\", \
         command = \"gateway: {program} {{kbit}}\""
    );
    let more = format!(
        "programs = [\"{program}\"]\n[arm.autorate]\nask = \"provider\"\nup = {{ {side} }}\n"
    );
    job("loop", &more)
}

#[test]
fn a_loop_changes_the_rate_by_load_and_by_late_echoes() {
    let recording = run_here(&with_loop("true")).unwrap();
    let named = |what: &str| recording.transcript.iter().find(|one| one.what == what);
    let record = &named("gateway: the record of autorate").unwrap().output;
    // The upload exceeds the shaper's rate, and then the line's: the queue grows.
    let whys: Vec<&str> = record
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').nth(3))
        .collect();
    assert_eq!(whys.first(), Some(&"high"), "{record}");
    assert!(whys.contains(&"bloat"), "{record}");
    assert!(record.lines().skip(1).all(|line| line.contains(" up ")));
}

#[test]
fn a_command_of_a_loop_that_fails_ends_the_run() {
    let text = failure(&with_loop("false"));
    assert!(text.contains("false 500: exit status: 1"), "{text}");
}

#[test]
fn a_command_runs_in_its_node_and_is_kept() {
    let more = r#"
programs = ["cat"]
commands = ["host1: cat /proc/net/dev", "gateway: cat /proc/net/dev"]
"#;
    let recording = run_here(&job("commands", more)).unwrap();
    let [host, gateway] = &recording.transcript[..] else {
        panic!("{:?}", recording.transcript);
    };
    assert_eq!(host.what, "host1: cat /proc/net/dev");
    assert!(host.output.contains("eth0:") && !host.output.contains("wan:"));
    assert!(gateway.output.contains("wan:") && gateway.output.contains("lan:"));
}

#[test]
fn a_program_runs_beside_the_traffic_and_not_longer() {
    let more = r#"
programs = ["tail", "sleep"]
background = ["host1: tail -n 2 -f /proc/self/net/dev", "gateway: sleep 1000.25"]
"#;
    let recording = run_here(&job("beside", more)).unwrap();
    let [tail, sleep] = &recording.transcript[..] else {
        panic!("{:?}", recording.transcript);
    };
    assert_eq!(tail.what, "host1: tail -n 2 -f /proc/self/net/dev");
    assert!(tail.output.contains("eth0:"), "{}", tail.output);
    assert_eq!((sleep.output.as_str(), sleep.status), ("", 0));
    let processes = fs::read_dir("/proc").unwrap();
    let lines = processes.filter_map(|one| fs::read(one.unwrap().path().join("cmdline")).ok());
    let left = lines.filter(|line| line == b"sleep\x001000.25\x00").count();
    assert_eq!(left, 0);
}

#[test]
fn a_program_that_ends_before_the_traffic_ends_the_run() {
    let more = "programs = [\"ls\"]\nbackground = [\"gateway: ls /nowhere\"]\n";
    let failed = failure(&job("short", more));
    assert!(
        failed.starts_with("gateway: ls /nowhere: ended before the traffic"),
        "{failed}"
    );
    assert!(failed.contains("No such file or directory"), "{failed}");
}

#[test]
fn a_command_that_fails_ends_the_run() {
    let more = r#"
programs = ["cat"]
commands = ["gateway: cat /nowhere"]
"#;
    let failed = failure(&job("fails", more));
    assert!(
        failed.starts_with("gateway: cat /nowhere: exit status: 1"),
        "{failed}"
    );
    assert!(failed.contains("No such file or directory"), "{failed}");

    let more = r#"
programs = ["weirgate-no-such-program"]
commands = ["gateway: weirgate-no-such-program"]
"#;
    let failed = failure(&job("absent", more));
    assert!(failed.contains("cannot be started"), "{failed}");
}

#[test]
fn what_netem_cannot_express_is_refused() {
    let failed = failure(&job("netem", "emulator = \"netem\"\n"));
    assert!(failed.contains("its limit is in packets"), "{failed}");
}

#[test]
fn a_job_that_cannot_be_understood_names_the_mistake() {
    let mut other = job("one", "");
    other.arm = "two".to_owned();
    assert_eq!(failure(&other), "there is no arm `two`; there are one");

    let mut broken = job("one", "");
    broken.experiment.push_str("nonsense = 1\n");
    let failed = failure(&broken);
    assert!(failed.contains("nonsense"), "{failed}");

    let failed = failure(&job("one", "policy = \"house.toml\"\n"));
    assert!(
        failed.contains("its text did not come with the job"),
        "{failed}"
    );

    let mut wrong = job("one", "policy = \"house.toml\"\n");
    let policy = ("house.toml".to_owned(), "version = 7\n".to_owned());
    wrong.files = BTreeMap::from([policy]);
    let failed = failure(&wrong);
    assert!(failed.contains("house.toml has mistakes"), "{failed}");
}

#[test]
fn the_machine_itself_is_not_changed() {
    let file = "/sys/module/kernel/parameters/panic";
    let current = fs::read_to_string(file).unwrap();
    let more = format!(
        "module-parameters = [\"kernel.panic={}\"]\n",
        current.trim_end().parse::<i64>().unwrap() + 1
    );
    let failed = failure(&job("parameter", &more));
    assert!(
        failed.contains("changing it would change the machine"),
        "{failed}"
    );
    assert_eq!(fs::read_to_string(file).unwrap(), current);

    let failed = failure(&job(
        "absent",
        "module-parameters = [\"sch_none.none=1\"]\n",
    ));
    assert!(
        failed.contains("/sys/module/sch_none/parameters/none"),
        "{failed}"
    );
}

/// A policy with one class up and down.
const HOUSE: &str = r#"
version = 1
[link]
device = "wan"
lan = "lan"
up = "512kbit"
down = "2mbit"
layer = "adsl:bridged-vc-fcs"
[[class]]
name = "all"
share = "100%"
queue = "pfifo 50"
default = true
"#;

#[test]
fn a_policy_comes_while_traffic_runs_and_is_applied_again() {
    let more = r#"
then = [
    { at = "500ms", policy = "house.toml" },
    { at = "1200ms", policy = "house.toml" },
]
"#;
    let mut job = job("then", more);
    // Changes take longer on a busy machine; the run must outlast them.
    job.experiment = job.experiment.replace("end = \"2s\"", "end = \"12s\"");
    job.files = BTreeMap::from([("house.toml".to_owned(), HOUSE.to_owned())]);
    let recording = run_here(&job).unwrap();
    let [first, again] = &recording.changes[..] else {
        panic!("{:?}", recording.changes);
    };
    for (change, at_ns) in [(first, 500_000_000), (again, 1_200_000_000)] {
        assert_eq!(change.failure, None);
        assert_eq!(change.policy, "house.toml");
        assert!(change.began_ns >= at_ns && change.began_ns < change.planned_ns);
        assert!(change.planned_ns <= change.shaped_ns || change.shaped_ns == change.began_ns);
        assert!(change.planned_ns < change.ended_ns && change.ended_ns < recording.duration_ns);
    }
    let root = first
        .requests
        .iter()
        .find(|one| one.what.contains("add htb 1: at root"));
    assert!(root.is_some(), "{:?}", first.requests);
    assert!(first.shaped_ns > first.planned_ns && first.steps > 4);
    assert_eq!((again.steps, &again.requests[..]), (0, &[][..]));
    // The policy's root is sampled after the change, and removed at the end: a run that leaves
    // anything would fail.
    let place = recording.places.iter().position(|place| place == "wan 2:1");
    let place = u16::try_from(place.unwrap()).unwrap();
    let mut samples = recording
        .queues
        .iter()
        .filter(|sample| sample.place == place);
    assert!(samples.all(|sample| sample.at_ns > first.planned_ns));

    let broken = ("house.toml".to_owned(), "version = 7\n".to_owned());
    job.files = BTreeMap::from([broken]);
    let failed = failure(&job);
    assert!(
        failed.contains("apply the policy house.toml at 500ms"),
        "{failed}"
    );
    assert!(failed.contains("house.toml has mistakes"), "{failed}");
}
