// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wrong arguments and wrong files.

use crate::program::{golden, root, weirgate};
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use tempfile::TempDir;

/// Returns the policies or experiments in a folder of `tests/cli`.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("tests/cli").join(folder)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    files
}

/// Checks that the command refuses every file of the folder with the text stored beside the file.
fn refused(folder: &str, command: &[&str]) {
    let mut count = 0;
    for file in files(folder) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let mut arguments = command.to_vec();
        arguments.push(name);
        let ended = weirgate(file.parent().unwrap(), &arguments);
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{name}");
        golden(&file.with_extension("txt"), &ended.err);
        count += 1;
    }
    assert!(count >= 4, "{count}");
}

#[test]
fn wrong_policies() {
    refused("check", &["check"]);
    let twenty = fs::read_to_string(root().join("tests/cli/check/twenty.txt")).unwrap();
    assert!(twenty.matches("error[").count() >= 20);
}

#[test]
fn wrong_experiments() {
    refused("lab-run", &["lab", "run"]);
}

#[test]
fn several_experiments_are_all_read_before_one_is_run() {
    let folder = root().join("tests/cli");
    let arguments = ["lab", "run", "tiny.toml", "lab-run/unknown-probe.toml"];
    weirgate(&folder, &arguments).says(2, &["no probe `interactiv`"]);
}

#[test]
fn files_that_are_none() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    fs::write(path.join("garbage"), [0xff, 0xfe, 0, 1, 0x80].repeat(999)).unwrap();
    fs::write(path.join("zeros"), [0; 500]).unwrap();
    fs::write(path.join("empty"), "").unwrap();
    fs::write(path.join("deep"), "[".repeat(200_000)).unwrap();
    fs::create_dir(path.join("folder")).unwrap();
    std::os::unix::fs::symlink("circle", path.join("circle")).unwrap();
    // A sparse file that is larger than memory.
    let huge = File::create(path.join("huge")).unwrap();
    huge.set_len(1 << 42).unwrap();
    for command in [&["check"][..], &["plan"], &["lab", "run"], &["lab", "list"]] {
        for (file, part) in [
            ("garbage", "is not UTF-8 text: byte 0 is wrong"),
            ("zeros", "error[D001]"),
            ("empty", "`version` is missing"),
            ("deep", "error[D001]"),
            ("folder", "folder: "),
            ("circle", "circle: Too many levels of symbolic links"),
            (
                "huge",
                "huge: has 4398046511104 bytes; at most 1048576 are read",
            ),
            ("absent", "absent: No such file or directory"),
            ("", ": "),
            ("/dev/zero", "/dev/zero: is not a file"),
        ] {
            let mut arguments = command.to_vec();
            arguments.push(file);
            weirgate(path, &arguments).says(2, &[part]);
        }
    }
    weirgate(path, &["report", "folder"]).says(2, &["folder/experiment.toml: No such file"]);
    assert!(!path.join("report.html").exists());
}

#[test]
fn a_failed_check_is_one_document() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let policy = "version = 1\n[link]\ndevice = \"wan\"\nup = \"40 furlongs\"\n";
    fs::write(path.join("policy.toml"), policy).unwrap();
    let ended = weirgate(path, &["check", "--json", "policy.toml"]);
    ended.says(2, &["policy.toml:4:6"]);
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    let problems = found["problems"].as_array().unwrap();
    let at_rate = |one: &&Value| one["line"] == 4 && one["column"] == 6;
    let problem = problems.iter().find(at_rate).expect("the rate's problem");
    assert_eq!(problem["file"], "policy.toml");
    assert_eq!(problem["severity"], "error");
    assert!(problem["message"].as_str().unwrap().contains("40 furlongs"));
    let ended = weirgate(path, &["check", "--json", "absent"]);
    ended.says(2, &["absent: No such file"]);
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(found["error"].as_str().unwrap().contains("No such file"));
    assert_eq!(found["problems"], Value::Array(Vec::new()));
}

#[test]
fn wrong_arguments() {
    let folder = TempDir::new().unwrap();
    for (arguments, part) in [
        (&[][..], "Usage: weirgate [OPTIONS] <COMMAND>"),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (&["check"], "/etc/weirgate/site.toml: No such file"),
        (&["check", "a", "b"], "unexpected argument 'b'"),
        (
            &["check", "--strict", "a"],
            "unexpected argument '--strict'",
        ),
        (&["lab"], "Usage: weirgate-lab lab <COMMAND>"),
        (&["lab", "run"], "<FILES>"),
        (
            &["lab", "run", "--jobs", "0", "a"],
            "invalid value '0' for '--jobs <N>'",
        ),
        (
            &["lab", "run", "--limit", "0", "a"],
            "invalid value '0' for '--limit",
        ),
        (&["lab", "run", "--seed", "-1", "a"], "'-1'"),
        (
            &["lab", "run", "--seed", "x", "a"],
            "invalid value 'x' for '--seed",
        ),
        (
            &["lab", "run", "--here", "--kernel", "k", "a"],
            "cannot be used with",
        ),
        (&["report"], "<FOLDERS>"),
        (&["try", "a"], "unexpected argument 'a'"),
    ] {
        weirgate(folder.path(), arguments).says(2, &[part]);
    }
    let tiny = root().join("tests/cli/tiny.toml");
    let arguments = ["lab", "run", tiny.to_str().unwrap(), "--arm", "modem"];
    weirgate(folder.path(), &arguments).says(
        2,
        &["tests/cli/tiny.toml: there is no arm `modem`; it has modem-only"],
    );
    for arguments in [&["--version"][..], &["--help"], &["lab", "run", "--help"]] {
        weirgate(folder.path(), arguments).says(0, &[]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A file's name comes from another person as often as not.
#[test]
fn names_do_not_control_the_terminal() {
    let folder = TempDir::new().unwrap();
    let name = "a\x1b[31m\u{202e}b\r.toml";
    let shown = "a\\u{1b}[31m\\u{202e}b\\r.toml";
    let plain = |text: &str| !text.contains(|c: char| c.is_control() && c != '\n');
    let absent = weirgate(folder.path(), &["check", name]);
    absent.says(2, &[&format!("{shown}: No such file")]);
    fs::write(folder.path().join(name), "version = 1\n").unwrap();
    let wrong = weirgate(folder.path(), &["check", name]);
    wrong.says(2, &[&format!("weirgate: {shown}: ")]);
    assert!(plain(&absent.err) && plain(&wrong.err), "{wrong:?}");
}

/// Somebody who has written no policy yet learns which command does.
#[test]
fn without_an_installed_policy_init_is_named() {
    let folder = TempDir::new().unwrap();
    let absent = weirgate(folder.path(), &["check"]);
    absent.says(
        2,
        &[
            "/etc/weirgate/site.toml",
            "`weirgate init` writes a first policy",
        ],
    );
    let other = weirgate(folder.path(), &["check", "home.toml"]);
    assert!(!other.err.contains("init"), "{other:?}");
}

/// Plain `check` says if the rates ask for an ACK filter and there is none, and why.
#[test]
fn missing_ack_filters_are_told() {
    let folder = TempDir::new().unwrap();
    let policy = |engine: &str, ack: &str| {
        let link =
            "device = \"wan\"\nlan = \"lan\"\nup = \"2mbit\"\ndown = \"20mbit\"\nlayer = \"raw\"";
        let class = "[[class]]\nname = \"all\"\nshare = \"90%\"\ndefault = true\n";
        let text = format!("version = 1\n[link]\n{link}\nengine = \"{engine}\"\n{ack}\n{class}");
        fs::write(folder.path().join("acks.toml"), text).unwrap();
        let check = |more: &[&str]| {
            let ended = weirgate(folder.path(), &[&["check", "acks.toml"], more].concat());
            assert_eq!(ended.status, 0, "{ended:?}");
            let words: Vec<&str> = ended.out.split_whitespace().collect();
            words.join(" ")
        };
        (check(&[]), check(&["--all"]))
    };
    let none = "`ack-filter` drops no acknowledgement, because ";
    // BPF engines filter in every class.
    for engine in ["kit", "rows"] {
        for ack in ["", "[ack]\nreserve = true"] {
            let (plain, all) = policy(engine, ack);
            assert!(!plain.contains(none), "{plain}");
            assert!(
                all.contains("a later one replaces them are dropped"),
                "{all}"
            );
        }
    }
    let (plain, _) = policy("htb", "");
    let advice = "no class has cake; `[ack]` makes one that does.";
    assert!(plain.contains(&format!("{none}{advice}")), "{plain}");
    let (plain, _) = policy("htb", "[ack]\nreserve = true");
    assert!(!plain.contains(none), "{plain}");
}

#[test]
fn places_of_another_kind_are_told_as_such() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("plain"), "").unwrap();
    fs::write(folder.path().join("policy"), "").unwrap();
    for (arguments, part) in [
        (
            &["--state-dir", "/dev/null", "show"][..],
            "--state-dir: /dev/null is not a folder",
        ),
        (
            &["watch", "--access", "/dev/null"],
            "/dev/null is not a file",
        ),
        (
            &["watch", "--history", "h", "--socket", "plain"],
            "plain: it exists and is no socket; name another path, or remove it",
        ),
    ] {
        let ended = weirgate(folder.path(), arguments);
        ended.says(2, &[part]);
        assert!(!ended.err.contains("chmod"), "{ended:?}");
    }
    // It is not removed.
    assert!(folder.path().join("plain").exists());
}

#[test]
fn the_rate_of_a_devices_circuits_has_limits() {
    let folder = TempDir::new().unwrap();
    let list =
        "Circuit ID,IPv4,Download Max Mbps,Upload Max Mbps,VLAN\n1,192.0.2.1,9,9,\n2,,9,9,7\n";
    fs::write(folder.path().join("list.csv"), list).unwrap();
    for rate in ["1bit", "999bit", "0bit", "1001gbit"] {
        let arguments = ["circuits", "plan", "lo", "list.csv", "--rate", rate];
        let part = "out of range; write from 1kbit to 1000gbit";
        weirgate(folder.path(), &arguments).says(2, &[part]);
    }
    let ended = weirgate(folder.path(), &["circuits", "check", "list.csv"]);
    assert_eq!(
        ended.out,
        "2 circuits with 1 address, 1 VLAN, below 0 sites\n"
    );
}

#[test]
fn a_right_policy_is_told_what_it_promises() {
    let ended = weirgate(&root(), &["check", "policies/default.toml", "--all"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let golden = fs::read_to_string(root().join("tests/policy/check/default.txt")).unwrap();
    // Lines are wrapped at the terminal's width.
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(words(&ended.out), words(&golden));
    let longest = ended.out.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{}", ended.out);
    // A continued cell is indented to its column.
    assert!(ended.out.contains("\n                   "), "{}", ended.out);
}

#[test]
fn experiments_are_found_without_their_folder() {
    let folder = TempDir::new().unwrap();
    // An installed program finds the experiments in `share`, from any folder.
    fs::create_dir_all(folder.path().join("bin")).unwrap();
    let program = folder.path().join("bin/weirgate");
    fs::copy(crate::program::WEIRGATE, &program).unwrap();
    fs::copy(crate::program::LAB, folder.path().join("bin/weirgate-lab")).unwrap();
    let list = |program: &std::path::Path| {
        let mut command = std::process::Command::new(program);
        let output = command.args(["lab", "list"]).current_dir("/").output();
        crate::program::Ended::of(&output.unwrap())
    };
    let share = folder.path().join("share/weirgate/experiments");
    list(&program).says(
        2,
        &[
            "no experiments found; looked at experiments, ",
            share.to_str().unwrap(),
        ],
    );
    fs::create_dir_all(&share).unwrap();
    fs::copy(root().join("tests/cli/tiny.toml"), share.join("tiny.toml")).unwrap();
    let listed = list(&program);
    assert!(
        listed.out.contains("Ten seconds of short flows"),
        "{listed:?}"
    );
}

/// A router without the laboratory reports that, and how to install it.
#[test]
fn without_the_laboratory_it_is_told_how_to_get_it() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("weirgate");
    fs::copy(crate::program::WEIRGATE, &program).unwrap();
    for arguments in [
        &["lab", "run", "a.toml"][..],
        &["try"],
        &["report", "folder"],
        &["advise", "voice"],
        &["aqm", "new", "mine"],
        &["aqm", "build", "mine"],
        &["domain", "try", "d.toml"],
        &["probe", "--sequence", "a.toml", "--to", "::1"],
    ] {
        let mut command = std::process::Command::new(&program);
        let output = command.args(arguments).env("PATH", "/nowhere").output();
        let ended = crate::program::Ended::of(&output.unwrap());
        ended.says(1, &["install the Debian package weirgate-lab"]);
    }
}

#[test]
fn what_cannot_be_written_is_told_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let tiny = root().join("tests/cli/tiny.toml");
    let tiny = tiny.to_str().unwrap();
    fs::write(folder.path().join("file"), "old").unwrap();
    for options in [
        ["--report", "file/report.html"],
        ["--report", "."],
        ["--out", "file"],
        ["--report", "/proc/report.html"],
        ["--out", "/proc/weirgate"],
    ] {
        let arguments = [&["lab", "run", tiny][..], &options].concat();
        let ended = weirgate(folder.path(), &arguments);
        ended.says(2, &[options[1], "cannot be written", "nothing was run"]);
        assert!(!ended.err.contains("virtual seconds"), "{ended:?}");
    }
    weirgate(folder.path(), &["try", "--report", "file/x"]).says(2, &["nothing was run"]);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_report_that_nobody_reads_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(crate::program::WEIRGATE)
        .args(["check", "policies/default.toml"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
