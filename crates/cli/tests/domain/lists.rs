// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Circuits of a domain on two boxes. Whatever fails, either both lists come into force, or both
//! boxes keep their former ones.

use crate::inside::{SSH, domain};
use crate::topology::{ended, run};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BOXES: [&str; 2] = ["north", "south"];
const DEVICES: [&str; 2] = ["access0", "core0"];

/// The list files of both boxes.
type Kept = [Vec<Vec<u8>>; 2];

/// The time after which a box returns by itself.
const GUARD: Duration = Duration::from_secs(20);

/// The number of commands to kill, at times spread over their run.
const KILLS: u32 = 24;

/// Writes a domain with a list whose circuits have this rate; returns its file.
fn written(name: &str, mbit: u32) -> String {
    let folder = format!("/run/{name}");
    fs::create_dir_all(&folder).unwrap();
    let write = |file: &str, text: &str| fs::write(format!("{folder}/{file}"), text).unwrap();
    let sites = "{\"downloadBandwidthMbps\": 300, \"uploadBandwidthMbps\": 100}";
    let network = format!("{{\"North\": {sites},\n\"South\": {sites}}}\n");
    write("network.json", &network);
    let mut devices = "Circuit ID,Parent Node,IPv4,Plan\n".to_owned();
    for number in 1..=200 {
        let site = if number % 2 == 0 { "North" } else { "South" };
        let _ = writeln!(devices, "{number},{site},10.0.0.{number},home");
    }
    write("devices.csv", &devices);
    let plans = format!("Plan,Download Max Mbps,Upload Max Mbps\nhome,{mbit},5\n");
    write("plans.csv", &plans);
    let mut text = "version = 1\n[circuits]\nfiles = [\"devices.csv\", \"network.json\", \
                    \"plans.csv\"]\n"
        .to_owned();
    for (router, site) in [("north", "North"), ("south", "South")] {
        let _ = write!(
            text,
            "[router.{router}.circuits]\nsites = [\"{site}\"]\naccess = \"access0\"\n\
             core = \"core0\"\nrate = \"1gbit\"\n"
        );
    }
    write("domain.toml", &text);
    format!("{folder}/domain.toml")
}

/// Writes a replacement of ssh with which `south` never answers some commands of circuits. With
/// `done`, the commands run first; otherwise they do not.
fn silent(name: &str, commands: &str, done: bool) -> String {
    let file = format!("/run/{name}");
    let first = if done {
        "weirgate domain within \"$@\"; "
    } else {
        ""
    };
    let script = format!(
        "#!/bin/sh\ncase \"$1 $3 $4\" in\n{commands}) {first}exec sleep 100000 ;;\nesac\n\
         exec weirgate domain within \"$@\"\n"
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn apply(file: &str, ssh: &str) -> (i32, String) {
    domain(&["apply", file, "--confirm", "20s", "--ssh", ssh])
}

/// Runs a command in a box; returns its status and its output.
fn at(router: &str, line: &str) -> (i32, String) {
    let (status, out, err) = ended(&format!("weirgate domain within {router} weirgate {line}"));
    (status, out + &err)
}

/// Returns the list files of a box.
fn kept(router: &str) -> Vec<Vec<u8>> {
    let path = |device| format!("/var/lib/weirgate/netns-{router}/circuits/{device}.list");
    DEVICES
        .map(|device| fs::read(path(device)).unwrap_or_default())
        .into()
}

/// Returns whether all lists of a domain are stored and in force.
fn is_in_force(file: &str) -> bool {
    domain(&["plan", file, "--ssh", SSH]).0 == 0
}

#[track_caller]
fn comes(file: &str, most: Duration) {
    let begun = Instant::now();
    while !is_in_force(file) {
        assert!(
            begun.elapsed() < most,
            "{}",
            domain(&["plan", file, "--ssh", SSH]).1
        );
        sleep(Duration::from_millis(500));
    }
    println!("in force after {:.1} s", begun.elapsed().as_secs_f64());
}

fn dying(file: &str, ssh: &str) -> Child {
    let words = ["domain", "apply", file, "--confirm", "20s", "--ssh", ssh];
    let mut command = Command::new("weirgate");
    command.args(words).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the guards, which would take the lists back; returns their number.
fn without_guards() -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let guards = all.filter(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains("circuits\0guard\0")
    });
    let pids: Vec<String> = guards
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    for pid in &pids {
        let killed = Command::new("sh")
            .args(["-c", "kill -9 \"$0\"", pid])
            .status();
        assert!(killed.unwrap().success());
    }
    pids.len()
}

#[test]
#[ignore = "runs in the guest"]
fn two_boxes() {
    for router in BOXES {
        run(&format!("ip netns add {router}"));
        for device in DEVICES {
            run(&format!("ip -n {router} link add {device} type dummy"));
            run(&format!("ip -n {router} link set {device} up"));
        }
    }
    let (first, second) = (&written("first", 50), &written("second", 70));
    let (status, text) = domain(&["check", first]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("north: 100 circuits below 1 site"), "{text}");

    // One box refuses the very first list, so neither has circuits.
    run("tc -n south qdisc add dev core0 root pfifo limit 10");
    let (status, text) = apply(first, SSH);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("south (circuits): not applied"), "{text}");
    assert!(text.contains("1 returned"), "{text}");
    for router in BOXES {
        assert_eq!(kept(router).concat(), b"", "{router}");
        let (status, text) = at(router, "circuits show access0");
        assert_eq!(status, 2, "{text}");
    }
    run("tc -n south qdisc del dev core0 root");

    // Both lists come into force.
    let (status, text) = apply(first, SSH);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("2 routers have their circuits"), "{text}");
    assert!(is_in_force(first) && !is_in_force(second));
    let (status, text) = at("north", "circuits show core0 2 --json");
    assert!(status == 0 && text.contains("5000000"), "{text}");
    assert_eq!(at("south", "circuits show core0 2").0, 2);
    let before = BOXES.map(kept);

    // One box refuses at its second device, after its first got the new list.
    run("tc -n south qdisc replace dev core0 root pfifo limit 10");
    let (status, text) = apply(second, SSH);
    assert_eq!(status, 3, "{text}");
    assert_eq!(BOXES.map(kept), before);
    run("tc -n south qdisc del dev core0 root");
    run("weirgate domain within south weirgate boot");
    assert!(is_in_force(first));

    whoever_applies_dies(first, second, &before);
    a_box_is_not_confirmed(first, second, &before);
    commands_are_killed(first, second, &before);
    what_differs_is_named(second);
    // A box can still roll back to the earlier list.
    run("weirgate domain within north weirgate circuits rollback");
    assert_eq!(kept("north"), before[0]);
    lists_that_are_not_named_go(second);
}

/// Writes the domain with circuits at one device of `north`, and none at `south`; returns its file.
fn without(file: &str, more: &str) -> String {
    let text = fs::read_to_string(file).unwrap();
    let head = text.split("[router.south").next().unwrap();
    let head = head.replace("core = \"core0\"\n", "");
    let head = head.replace("sites = [\"North\"]", "sites = [\"North\", \"South\"]");
    let other = file.replace("domain.toml", "without.toml");
    let south = format!("[router.south]\nrole = \"interior\"\n{more}");
    fs::write(&other, head + &south).unwrap();
    other
}

/// Lists that the file does not name are reported. Like new lists, they are removed on all boxes
/// until the change is confirmed, or on none.
fn lists_that_are_not_named_go(second: &str) {
    let (status, text) = apply(second, SSH);
    assert_eq!(status, 0, "{text}");
    let before = BOXES.map(kept);
    let third = &without(second, "");
    let (status, text) = domain(&["check", third]);
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("south: no circuits; `apply` removes"),
        "{text}"
    );
    let goes = "its list is taken away: 100 circuits with 100 addresses";
    let (status, text) = domain(&["plan", third, "--ssh", SSH]);
    assert_eq!(status, 1, "{text}");
    let (north, south) = text.split_once("router south (circuits)").unwrap();
    assert!(north.contains(&format!("core0: {goes}")), "{text}");
    assert!(!north.contains(&format!("access0: {goes}")), "{text}");
    for device in DEVICES {
        assert!(south.contains(&format!("{device}: {goes}")), "{text}");
    }
    let verify = |file: &str| domain(&["verify", file, "--ssh", SSH]);
    let (status, text) = verify(third);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("The router `south` is not"), "{text}");
    assert!(text.contains(&format!("access0: {goes}")), "{text}");
    // With `other-circuits`, a box's own lists are left alone.
    let own = &without(second, "other-circuits = true\n");
    assert!(!domain(&["plan", own, "--ssh", SSH]).1.contains("south"));

    // One box refuses after the other's lists were removed, so they are restored.
    run("tc -n north qdisc replace dev access0 root pfifo limit 10");
    let third = &without(second, "");
    let (status, text) = apply(third, SSH);
    assert_eq!(status, 3, "{text}");
    assert_eq!(BOXES.map(kept), before);
    run("tc -n north qdisc del dev access0 root");
    run("weirgate domain within north weirgate boot");
    assert!(is_in_force(second));

    // The applying command dies after the lists were removed.
    let mut child = dying(third, &silent("taken", "'south circuits apply'", true));
    comes(third, GUARD);
    child.kill().unwrap();
    child.wait().unwrap();
    comes(second, GUARD + Duration::from_secs(10));
    assert_eq!(BOXES.map(kept), before);
    // What a killed removal leaves is finished by the next command.
    fs::write("/run/none", "only\n").unwrap();
    killed("south", "/run/none", second, &before);

    let (status, text) = apply(third, SSH);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("1 router has no circuits any more"), "{text}");
    assert!(text.contains("core0: its list is taken away"), "{text}");
    assert!(is_in_force(third));
    assert_eq!(kept("south").concat(), b"");
    for (router, device) in [("south", "access0"), ("south", "core0"), ("north", "core0")] {
        let (status, text) = at(router, &format!("circuits show {device}"));
        assert_eq!(status, 2, "{text}");
    }
    let (status, text) = verify(third);
    assert_eq!(status, 0, "{text}");
    // A confirmed removal can be rolled back, too.
    run("weirgate domain within south weirgate circuits rollback");
    assert_eq!(kept("south"), before[1]);
    assert_eq!(verify(third).0, 1);
}

/// The applying command dies when both boxes have the new lists.
fn whoever_applies_dies(first: &str, second: &str, before: &Kept) {
    let ssh = silent("endless", "'south circuits apply'", true);
    let mut child = dying(second, &ssh);
    comes(second, GUARD);
    child.kill().unwrap();
    child.wait().unwrap();
    let (status, text) = apply(second, SSH);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("a change of circuits waits"), "{text}");
    comes(first, GUARD + Duration::from_secs(10));
    assert_eq!(&BOXES.map(kept), before);

    // If the guards die as well, the next command takes the lists back.
    let mut child = dying(second, &ssh);
    comes(second, GUARD);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(without_guards(), 2);
    sleep(GUARD);
    assert!(is_in_force(second));
    let (status, text) = at("north", "circuits confirm");
    assert!(status != 0 && text.contains("was over"), "{text}");
    run("weirgate domain within south weirgate boot");
    assert!(is_in_force(first));
    assert_eq!(&BOXES.map(kept), before);
}

/// A confirmation is lost: the other box is rolled back, and that one returns by itself.
fn a_box_is_not_confirmed(first: &str, second: &str, before: &Kept) {
    let commands = "'south circuits confirm'|'south circuits rollback'";
    let (status, text) = apply(second, &silent("unconfirmed", commands, false));
    assert_eq!(status, 4, "{text}");
    assert!(
        text.contains("south (circuits): it returns by itself"),
        "{text}"
    );
    comes(first, GUARD);
    assert_eq!(&BOXES.map(kept), before);
}

/// What a killed command leaves on a box is finished by the next one.
fn commands_are_killed(first: &str, second: &str, before: &Kept) {
    run(&format!(
        "weirgate domain apply {second} --files /run/files"
    ));
    killed("north", "/run/files/north.circuits", first, before);
}

/// Kills commands that apply this text on a box, at times spread over their run. The given domain
/// is in force before and after.
fn killed(router: &str, text: &str, file: &str, before: &Kept) {
    let start = || {
        let words = format!("domain within {router} weirgate circuits apply - --confirm 60s");
        let mut command = Command::new("weirgate");
        let command = command.args(words.split(' '));
        let command = command.stdin(fs::File::open(text).unwrap());
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let taken_back = || {
        let (status, text) = at(router, "circuits rollback --waiting");
        assert_eq!(status, 0, "{text}");
    };
    let began = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = began.elapsed();
    taken_back();
    let mut changed = 0;
    for kill in 1..=KILLS {
        let mut child = start();
        sleep(whole * kill / KILLS);
        child.kill().unwrap();
        child.wait().unwrap();
        changed += u32::from(&BOXES.map(kept) != before);
        taken_back();
        assert_eq!(&BOXES.map(kept), before, "kill {kill}");
        assert!(is_in_force(file), "kill {kill}");
    }
    let ms = whole.as_millis();
    println!("{KILLS} commands of {ms} ms killed, {changed} after a list was changed");
    assert!((1..KILLS).contains(&changed));
}

/// Without failures, the second list is applied and verified. A change made on a box is then named.
fn what_differs_is_named(second: &str) {
    let (status, text) = apply(second, SSH);
    assert_eq!(status, 0, "{text}");
    let verify = || domain(&["verify", second, "--ssh", SSH]);
    let (status, text) = verify();
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("Of 2 routers 2 are as"), "{text}");
    run("weirgate domain within south weirgate circuits change access0 7 --down-max 9mbit");
    let (status, text) = verify();
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("The router `south` is not"), "{text}");
    assert!(text.contains("access0: changed circuits: 1 (7)"), "{text}");
    assert!(!text.contains("`north`"), "{text}");
}
