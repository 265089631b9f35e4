// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stored files that are damaged, belong to another namespace, or are writable by others; and a
//! service that hangs.

use crate::apply::safe::{guards, within};
use crate::namespace::{Namespace, Running, same};
use crate::program::{Ended, WEIRGATE};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_damaged_head_costs_nothing() {
    let namespace = Namespace::named();
    let head = "/run/kept/netns-site/head";
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let first = namespace.snapshot();
    namespace.damage(head);
    namespace.restart();
    namespace.weirgate("boot").says(
        0,
        &["its copy was used", "head.damaged", "state 1 is in force"],
    );
    same(&first, &namespace.snapshot());
    namespace.weirgate("show").says(0, &["head.damaged"]);
    let doctor = namespace.weirgate("doctor").out;
    assert!(doctor.contains("note: state: the file that"), "{doctor}");
    // An unconfirmed state is in the copy, too, and stays unconfirmed.
    namespace
        .weirgate("apply --confirm 600s upstream.toml")
        .says(0, &["state 2"]);
    for guard in guards(&namespace) {
        Command::new("kill").args(["-9", &guard]).status().unwrap();
    }
    namespace.damage(head);
    namespace.restart();
    namespace.weirgate("boot").says(0, &["state 1 is in force"]);
    same(&first, &namespace.snapshot());
    let history = namespace.weirgate("history").out;
    assert!(history.contains("returned by itself"), "{history}");
}

#[test]
fn a_damaged_state_gives_way_to_the_newest_sound_one() {
    let namespace = Namespace::named();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let first = namespace.snapshot();
    for (policy, state) in [("changed.toml", "state 2"), ("upstream.toml", "state 3")] {
        namespace
            .weirgate(&format!("apply {policy}"))
            .says(0, &[state]);
    }
    let third = namespace.snapshot();
    for number in [2, 3] {
        namespace.damage(&format!("/run/kept/netns-site/00000{number}.state"));
    }
    // The part that is in force in the running kernel is not undone.
    namespace
        .weirgate("boot")
        .says(1, &["state 3, which is in force, is damaged"]);
    same(&third, &namespace.snapshot());
    namespace.run("tc qdisc del dev wan root");
    namespace.weirgate("boot").says(1, &["state 3 is in force"]);
    same(&third, &namespace.snapshot());
    namespace.restart();
    let mut keep = namespace.command("timeout");
    let keep = keep.args(["2", WEIRGATE, "keep"]);
    let keep = Ended::of(&keep.output().unwrap());
    let served = "state 3, the last confirmed one, is damaged: state 1 replaces it";
    assert!(keep.err.contains(served), "{keep:?}");
    same(&first, &namespace.snapshot());
    namespace.weirgate("boot").says(
        1,
        &[served, "000003.damaged", "state 1 is in force: 0 steps"],
    );
    namespace.weirgate("show").says(1, &[served]);
    let doctor = namespace.weirgate("doctor");
    doctor.says(1, &[]);
    assert!(doctor.out.contains("warning: state: state 3"), "{doctor:?}");
    namespace.weirgate("history").says(1, &[served]);
    namespace
        .weirgate("apply upstream.toml")
        .says(0, &["state 4"]);
    same(&third, &namespace.snapshot());
    namespace.weirgate("show").says(0, &["state 3 was damaged"]);
}

/// Automatic recovery restores neither an unconfirmed state nor a removed one.
#[test]
fn only_a_confirmed_state_serves_in_place_of_a_damaged_one() {
    let namespace = Namespace::named();
    let bare = namespace.snapshot();
    namespace
        .weirgate("apply --confirm 600s both.toml")
        .says(0, &["state 1"]);
    namespace
        .weirgate("rollback")
        .says(0, &["state 1 is taken back"]);
    namespace
        .weirgate("apply changed.toml")
        .says(0, &["state 2"]);
    namespace.damage("/run/kept/netns-site/000002.state");
    namespace.restart();
    namespace
        .weirgate("boot")
        .says(1, &["000002.state is damaged (its checksum is wrong)"]);
    same(&bare, &namespace.snapshot());
    namespace.weirgate("apply both.toml").says(0, &["state 3"]);
    namespace.weirgate("remove").says(0, &[]);
    namespace
        .weirgate("apply changed.toml")
        .says(0, &["state 5"]);
    namespace.damage("/run/kept/netns-site/000005.state");
    namespace.restart();
    namespace
        .weirgate("boot")
        .says(1, &["000005.state is damaged"]);
    same(&bare, &namespace.snapshot());
}

/// After a reboot, any namespace may have a given kernel number.
#[test]
fn a_namespace_without_a_name_is_not_known_again() {
    let namespace = Namespace::new();
    let bare = namespace.snapshot();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    namespace
        .weirgate("boot")
        .says(0, &["state 1 is in force", "has no name"]);
    namespace.restart();
    namespace
        .weirgate("boot")
        .says(0, &["no policy is applied", "has no name"]);
    same(&bare, &namespace.snapshot());
}

#[test]
fn a_folder_that_others_may_change_is_not_trusted() {
    let namespace = Namespace::new();
    namespace.run("mkdir /run/open /run/open/state /run/weirgate");
    let weirgate = |line: &str| {
        let first = ["WEIRGATE_STATE_DIR=/run/open/state", WEIRGATE];
        namespace.started_by("env", &first, line)
    };
    for (folder, remedy) in [
        ("/run/open", "chmod go-w"),
        ("/run/open/state", "chmod go-w"),
        ("/run/open", "chown 0"),
        ("/run/weirgate", "chmod go-w"),
    ] {
        let wrong = if remedy == "chown 0" {
            namespace.run(&format!("chown 1000 {folder}"));
            "belongs to user 1000".to_owned()
        } else {
            namespace.run(&format!("chmod 0777 {folder}"));
            "may be written by others (mode 0777)".to_owned()
        };
        let expected = [format!("{folder} {wrong}"), format!("`{remedy} {folder}`")];
        for command in ["apply both.toml", "boot"] {
            weirgate(command).says(1, &[&expected[0], &expected[1]]);
        }
        namespace.run(&format!("{remedy} {folder}"));
    }
    weirgate("apply both.toml").says(0, &["state 1"]);
}

/// `keep` is restarted however often it fails, and also if it hangs.
#[test]
fn no_number_of_failures_ends_a_service() {
    for unit in [
        "weirgate.service",
        "weirgate-circuits.service",
        "weirgate-links.service",
        "weirgate-watch.service",
    ] {
        let path = crate::program::root().join("packaging/systemd").join(unit);
        let text = std::fs::read_to_string(path).unwrap();
        for line in [
            "StartLimitIntervalSec=0",
            "Restart=on-failure",
            "Type=notify",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {unit}");
        }
        assert!(text.contains("\nWatchdogSec="), "{unit}");
        assert!(!text.contains("StartLimitBurst"), "{unit}");
    }
}

/// Starts a service; returns it with its notifications to the service manager.
fn watched(namespace: &Namespace, service: &[&str], micros: &str) -> (Running, UnixDatagram) {
    let run = format!("/proc/{}/root/run", namespace.holder());
    let notify = UnixDatagram::bind(format!("{run}/notify")).unwrap();
    // Loading programs takes seconds.
    let patience = Duration::from_mins(1);
    notify.set_read_timeout(Some(patience)).unwrap();
    let mut command = namespace.command(WEIRGATE);
    command
        .args(service)
        .env("NOTIFY_SOCKET", "/run/notify")
        .env("WATCHDOG_USEC", micros)
        .stderr(Stdio::null());
    (Running(command.spawn().unwrap()), notify)
}

fn next(notify: &UnixDatagram) -> String {
    received(notify).expect("it has told nothing for so long")
}

/// Returns the next message, or `None` if none arrives in time.
fn received(notify: &UnixDatagram) -> Option<String> {
    let mut word = [0; 64];
    loop {
        match notify.recv(&mut word) {
            Ok(length) => return Some(String::from_utf8_lossy(&word[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            // A signal of another test in this process.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
        }
    }
}

#[test]
fn the_loop_of_watch_tells_the_watchdog() {
    let namespace = Namespace::new();
    namespace.run("ip link set lo up");
    let line = ["watch", "--listen", "127.0.0.1:0", "--history", "/run/seen"];
    let (_watch, notify) = watched(&namespace, &line, "3000000");
    // The first check may end before the web process is ready.
    let first = [next(&notify), next(&notify)];
    assert!(first.contains(&"READY=1\n".to_owned()), "{first:?}");
    let begin = Instant::now();
    for _ in 0..3 {
        assert_eq!(next(&notify), "WATCHDOG=1\n");
    }
    // There is one check a second, but not every check notifies.
    assert!(begin.elapsed() > Duration::from_secs(2));
}

/// Those of links and of pods tell it even if nothing happens.
#[test]
fn idle_services_tell_the_watchdog() {
    let namespace = Namespace::new();
    let (links, pods) = ("/run/links.toml", "/run/pods");
    let run = format!("/proc/{}/root", namespace.holder());
    let text = "version = 1\n[[link]]\ndevice = \"wan\"\n[[link]]\ndevice = \"lan\"\n";
    std::fs::write(format!("{run}{links}"), text).unwrap();
    std::fs::create_dir(format!("{run}{pods}")).unwrap();
    for service in [&["links", "run", links][..], &["pods", pods]] {
        let (_service, notify) = watched(&namespace, service, "600000");
        let words: Vec<String> = (0..6).map(|_| next(&notify)).collect();
        let beats = words.iter().filter(|word| *word == "WATCHDOG=1\n");
        assert_eq!(beats.count(), 5, "{service:?}: {words:?}");
        std::fs::remove_file(format!("{run}/run/notify")).unwrap();
    }
}

#[test]
fn an_access_list_that_others_may_change_is_not_trusted() {
    let namespace = Namespace::new();
    namespace.run("touch /run/access /run/certificate /run/key");
    let watch = "watch --tls-cert /run/certificate --tls-key /run/key --access /run/access";
    for file in ["/run/key", "/run/access"] {
        namespace.run(&format!("chmod 0646 {file}"));
        let expected = format!("{file} may be written by others (mode 0646)");
        namespace
            .weirgate(watch)
            .says(1, &[&expected, &format!("`chmod go-w {file}`")]);
        namespace.run(&format!("chmod go-w {file}"));
    }
}

#[test]
fn a_history_and_files_of_pods_that_others_may_change_are_not_trusted() {
    let namespace = Namespace::new();
    namespace.run("mkdir /run/open /run/shut");
    namespace.run("chmod 0777 /run/open");
    let expected = "/run/open may be written by others (mode 0777)";
    let watch = "watch --socket /run/socket --history";
    for line in [&format!("{watch} /run/open/seen"), "pods --once /run/open"] {
        namespace.weirgate(line).says(1, &[expected]);
    }
    // A read-only mount, as Kubernetes makes one.
    namespace.run("mount --bind -o ro /run/open /run/open");
    namespace.weirgate("pods --once /run/open").says(0, &[]);
    // A file of another user in a folder that is root's.
    namespace.run("touch /run/shut/wan");
    namespace.run("chown 4711 /run/shut/wan");
    let pods = namespace.weirgate("pods --once /run/shut");
    assert!(pods.err.contains("belongs to user 4711"), "{pods:?}");
    namespace.run("ln -s /run/other /run/shut/seen");
    let watched = namespace.weirgate(&format!("{watch} /run/shut/seen"));
    assert_ne!(watched.status, 0, "{watched:?}");
    namespace.run("test ! -e /run/other");
}

/// Only the working loop notifies the watchdog: if it hangs in its work, the notifications stop.
#[test]
fn a_service_that_hangs_tells_the_watchdog_nothing() {
    let namespace = Namespace::new();
    namespace.weirgate("apply both.toml").says(0, &["state 1"]);
    let second = Duration::from_secs(1);
    let (_keep, notify) = watched(&namespace, &["keep"], "600000");
    let next = || next(&notify);
    let mut words = [next(), next()];
    words.sort();
    assert_eq!(words, ["READY=1\n", "WATCHDOG=1\n"]);
    let begin = Instant::now();
    for _ in 0..5 {
        assert_eq!(next(), "WATCHDOG=1\n");
    }
    assert!(begin.elapsed() < 2 * second, "{:?}", begin.elapsed());
    // A process that holds the lock blocks the loop in the middle of a repair.
    let folder = namespace.run("find /run/weirgate -name net-* -type d");
    let file = format!("{}.lock", folder.trim());
    silent_while_locked(&namespace, &file, &notify, || {
        namespace.run("ip link add other type veth peer name another");
    });
}

/// Holds a lock while the service has `work` to do for which it needs the lock: the watchdog is not
/// notified until the lock is free.
fn silent_while_locked(
    namespace: &Namespace,
    file: &str,
    notify: &UnixDatagram,
    work: impl FnOnce(),
) {
    let second = Duration::from_secs(1);
    let flock = |options: &[&str], words: &[&str]| {
        let mut flock = namespace.command("flock");
        flock.args(options).arg(file).args(words);
        flock
    };
    let is_free = || {
        let tried = flock(&["--nonblock"], &["true"]).status();
        tried.unwrap().success()
    };
    // `cat` ends with its input.
    let held = flock(&[], &["cat"]).stdin(Stdio::piped()).spawn();
    let mut lock = Running(held.unwrap());
    within(5 * second, "the lock", || !is_free());
    work();
    notify.set_read_timeout(Some(second)).unwrap();
    // Whatever the service is told, it looks every ten seconds.
    within(25 * second, "a second without a word", || {
        received(notify).is_none()
    });
    drop(lock.0.stdin.take());
    within(5 * second, "the next word", || {
        received(notify).is_some_and(|word| word == "WATCHDOG=1\n")
    });
}

/// The service of circuits notifies the watchdog while requests are carried out. A process that
/// holds the lock on circuits blocks a request.
#[test]
fn a_request_of_circuits_that_hangs_tells_the_watchdog_nothing() {
    let namespace = Namespace::new();
    let (_service, notify) = watched(&namespace, &["circuits", "serve"], "600000");
    let mut words = [next(&notify), next(&notify)];
    words.sort();
    assert_eq!(words, ["READY=1\n", "WATCHDOG=1\n"]);
    let run = format!("/proc/{}/root/run", namespace.holder());
    let mut requests = UnixStream::connect(format!("{run}/weirgate/circuits.sock")).unwrap();
    let mut answers = BufReader::new(requests.try_clone().unwrap());
    let mut ask = || {
        let line = b"{\"do\": \"show\", \"device\": \"lo\", \"circuit\": \"one\"}\n";
        requests.write_all(line).unwrap();
    };
    ask();
    // By its answer, the service has made the folder that is locked below.
    answers.read_line(&mut String::new()).unwrap();
    for _ in 0..5 {
        assert_eq!(next(&notify), "WATCHDOG=1\n");
    }
    silent_while_locked(&namespace, "/sys/fs/bpf/weirgate/circuits", &notify, ask);
}
