// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `survey`: it counts exactly what was sent.

use crate::namespace::Namespace;
use crate::program::WEIRGATE;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use weirgate_linklayer::LinkLayer;

/// Returns the row of a table with the given name.
fn row<'a>(table: &'a Value, name: &str) -> &'a Value {
    let rows = table.as_array().unwrap();
    let found = rows.iter().find(|row| row["name"] == name);
    found.unwrap_or_else(|| panic!("{name} in {table}"))
}

#[test]
fn what_passes_is_counted() {
    let namespace = Namespace::new();
    namespace.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
    namespace.run("ip addr add 10.9.0.1/24 dev wan");
    namespace.run("ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev wan");
    let mut survey = namespace
        .command(WEIRGATE)
        .args(["survey", "wan", "--for", "1h", "--rate", "1mbit", "--json"])
        .args(["--link", "adsl:bridged-llc"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(survey.stderr.take().unwrap()).lines();
    let note = notes.next().expect("the survey ends at once").unwrap();
    assert!(note.contains("counts on wan for 3600 s"), "{note}");
    let line = "for i in $(seq 40); do printf %0100d 0 > /dev/udp/10.9.0.2/5001; done; \
                for i in $(seq 10); do printf %0400d 0 > /dev/udp/10.9.0.2/53; done";
    let mut sender = namespace.command("bash");
    assert!(sender.args(["-c", line]).status().unwrap().success());
    // The kernel handles ten datagrams as one: UDP_SEGMENT is 103 (linux/udp.h).
    let merged = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.setsockopt(17, 103, 500)\ns.sendto(bytes(5000), ('10.9.0.2', 5002))";
    let mut sender = namespace.command("/usr/bin/python3");
    assert!(sender.args(["-c", merged]).status().unwrap().success());
    let end = Command::new("kill")
        .args(["-INT", &survey.id().to_string()])
        .status();
    assert!(end.unwrap().success());
    let mut text = String::new();
    let mut out = survey.stdout.take().unwrap();
    out.read_to_string(&mut text).unwrap();
    assert!(survey.wait().unwrap().success(), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let (small, large, merged) = (40 * 128, 10 * 428, 10 * 528);
    let all = small + large + merged;
    let leaves = |table: &str, name: &str| row(&found[table], name)["leaves"].clone();
    let counted =
        |packets: u64, bytes: u64| serde_json::json!({ "packets": packets, "bytes": bytes });
    assert_eq!(leaves("ports", "UDP 5001"), counted(40, small));
    assert_eq!(leaves("ports", "UDP 53"), counted(10, large));
    assert_eq!(leaves("ports", "UDP 5002"), counted(10, merged));
    assert_eq!(leaves("protocols", "UDP"), counted(60, all));
    assert_eq!(leaves("versions", "IPv4"), counted(60, all));
    assert_eq!(leaves("sizes", "128 to 191"), counted(40, small));
    assert_eq!(leaves("sizes", "384 to 447"), counted(10, large));
    assert_eq!(found["leaves"]["all"], counted(60, all));
    // Cells are counted for each packet by itself.
    let layer = LinkLayer::named("adsl:bridged-llc").unwrap();
    let cells = [(40, 128), (10, 428), (10, 528)]
        .map(|(packets, size)| packets * u64::from(layer.wire_bytes(size)));
    let wire = cells.iter().sum::<u64>();
    assert_eq!(found["leaves"]["wire_bytes"], wire);
    assert!(wire > all + all / 5, "{wire} of {all}");
    assert!(found["leaves"]["gaps"]["mean_ns"].as_u64() > Some(0));
    let steps = found["leaves"]["gaps"]["histogram"].as_array().unwrap();
    let counts = steps.iter().map(|step| step["count"].as_u64().unwrap());
    let gaps = counts.sum::<u64>();
    assert_eq!(
        gaps, 50,
        "one less than packets, merged ones as one: {steps:?}"
    );
    let bound = |step: &Value, end: &str| step[end].as_u64().unwrap();
    for pair in steps.windows(2) {
        assert!(bound(&pair[0], "to_ns") <= bound(&pair[1], "from_ns"));
    }
    assert_eq!(found["arrives"]["all"], counted(0, 0));

    let ended = namespace.weirgate("survey nowhere");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("no device `nowhere`"), "{ended:?}");
    let powerless = namespace
        .command("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", WEIRGATE])
        .args(["survey", "wan", "--for", "1s"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&powerless.stderr).into_owned();
    assert_eq!(powerless.status.code(), Some(2), "{message}");
    assert!(message.contains("CAP_PERFMON"), "{message}");
    let ended = namespace.weirgate("survey wan --for 1s --rate 1mbit --link ethernet");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(
        ended.out.contains("on the wire: 0 % of the line"),
        "{ended:?}"
    );
    let ended = namespace.weirgate("survey wan --for 1s --rate 1mbit");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains("% of the line"), "{ended:?}");
}

/// Frames of a router and to it arrive as copies, for neither of which the device has the address.
#[test]
fn a_mirror_port_shows_both_directions() {
    let namespace = Namespace::new();
    let mut survey = namespace
        .command(WEIRGATE)
        .args(["survey", "wan", "--for", "1h", "--json"])
        .args(["--mirror", "02:00:00:00:00:01"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(survey.stderr.take().unwrap()).lines();
    let note = notes.next().expect("the survey ends at once").unwrap();
    assert!(note.contains("counts on wan"), "{note}");
    let details = namespace.run("ip -d link show wan");
    assert!(details.contains("promiscuity 1"), "{details}");
    // UDP from the router to port 53, and answers of another size. The checksums do not matter.
    let copies = "import socket, struct\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind(('far', 0))\n\
        router, other = bytes.fromhex('020000000001'), bytes.fromhex('020000000002')\n\
        def frame(to, by, ports, size):\n\
        \x20   udp = struct.pack('!HHHH', *ports, size - 20, 0) + bytes(size - 28)\n\
        \x20   ip = struct.pack('!BBHHHBBH', 0x45, 0, size, 0, 0, 64, 17, 0) + bytes(8)\n\
        \x20   s.send(to + by + b'\\x08\\x00' + ip + udp)\n\
        for i in range(7): frame(other, router, (4000, 53), 100)\n\
        for i in range(5): frame(router, other, (53, 4000), 400)\n";
    let mut sender = namespace.command("/usr/bin/python3");
    assert!(sender.args(["-c", copies]).status().unwrap().success());
    let end = Command::new("kill")
        .args(["-INT", &survey.id().to_string()])
        .status();
    assert!(end.unwrap().success());
    let mut text = String::new();
    let mut out = survey.stdout.take().unwrap();
    out.read_to_string(&mut text).unwrap();
    assert!(survey.wait().unwrap().success(), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let port = row(&found["ports"], "UDP 53");
    let counted =
        |packets: u64, bytes: u64| serde_json::json!({ "packets": packets, "bytes": bytes });
    assert_eq!(port["leaves"], counted(7, 700));
    assert_eq!(port["arrives"], counted(5, 2_000));
    let details = namespace.run("ip -d link show wan");
    assert!(details.contains("promiscuity 0"), "{details}");
}

#[test]
fn the_report_is_kept_with_the_run() {
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("run");
    let mut command = namespace.command(WEIRGATE);
    command.args(["survey", "wan", "--for", "1s", "--write"]);
    let output = command.arg(&kept).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let file = |name: &str| std::fs::read_to_string(kept.join(name)).unwrap();
    assert_eq!(
        file("result.txt").trim(),
        String::from_utf8_lossy(&output.stdout).trim()
    );
    assert!(file("seconds.csv").starts_with("second,arrived_bytes,left_bytes\r\n"));
    assert!(file("gaps.csv").starts_with("from_ns,to_ns,arrived,left\r\n"));
    let result: Value = serde_json::from_str(&file("result.json")).unwrap();
    assert!(result["seconds"].as_f64() >= Some(1.0), "{result}");
    assert!(file("setup.json").contains("\"survey\""));
}
