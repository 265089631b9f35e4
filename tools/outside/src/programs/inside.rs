// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the cases in the guest: weirgate's loader loads the objects.

use super::case::Case;
use crate::process::direct;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use weirgate_bpf::{Refused, Registered, register, verify};

/// The folder of the objects and of the list of cases in the guest.
pub const FOLDER: &str = "/suite";

/// How many bytes a connection transfers (`total_bytes` of the selftest).
const BYTES: usize = 10 << 20;

/// The time limit of a read or write.
const PATIENCE: Duration = Duration::from_secs(20);

/// A case of the list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Asked {
    /// The subtest's name.
    pub name: String,
    /// The object's file name.
    pub object: String,
    pub case: Case,
}

/// The result of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseResult {
    pub name: String,
    pub object: String,
    /// Why it failed; `None` if it passed.
    pub failed: Option<String>,
}

/// Runs every case, and prints a line of JSON for each.
pub fn run() -> Result<()> {
    let path = format!("{FOLDER}/cases.json");
    let asked: Vec<Asked> = serde_json::from_slice(&fs::read(&path).context(path)?)?;
    tc("ip link set lo up")?;
    for one in asked {
        let object = fs::read(format!("{FOLDER}/{}", one.object))?;
        let failed = done(&object, &one.case).err();
        let result = CaseResult {
            name: one.name,
            object: one.object,
            failed: failed.map(|error| format!("{error:#}")),
        };
        println!("{}", serde_json::to_string(&result)?);
    }
    Ok(())
}

fn done(object: &[u8], case: &Case) -> Result<()> {
    match case {
        Case::Carries(kind) => carries(object, kind),
        Case::UnderMq(kind) => {
            let _kind = registered(object)?;
            let there = under_mq(&["qdisc add dev veth0 parent 1:1 handle 11:", kind].join(" "));
            there.and_then(|shown| ensure_shown(&shown, &format!("qdisc {kind} 11:")))
        }
        Case::UnderAClass(kind) => under_a_class(object, kind),
        Case::Default(kind) => {
            let _kind = registered(object)?;
            let place = "/proc/sys/net/core/default_qdisc";
            let before = fs::read(place).context(place)?;
            fs::write(place, kind).context(place)?;
            let there = under_mq("qdisc show dev veth0");
            fs::write(place, before).context(place)?;
            there.and_then(|shown| ensure_shown(&shown, &format!("qdisc {kind} 0: ")))
        }
        Case::Incomplete => {
            verify(object).map_err(message)?;
            ensure!(register(object).is_err(), "its operations are taken");
            Ok(())
        }
        Case::Loaded => {
            verify(object).map_err(message)?;
            Ok(())
        }
        Case::Refused(words) => {
            let Err(refused) = verify(object) else {
                bail!("it is loaded");
            };
            let lacking: Vec<&String> = words
                .iter()
                .filter(|word| !refused.log.contains(*word))
                .collect();
            ensure!(
                lacking.is_empty(),
                "the log lacks {lacking:?}: {}",
                refused.log
            );
            Ok(())
        }
    }
}

fn registered(object: &[u8]) -> Result<Registered> {
    register(object).map_err(message)
}

fn message(Refused { why, log, .. }: Refused) -> anyhow::Error {
    anyhow::anyhow!(why + &log)
}

/// Runs a command that must succeed, and returns its output.
fn tc(line: &str) -> Result<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let done = direct(&words)?;
    ensure!(done.status == Some(0), "`{line}`: {}", done.message());
    Ok(done.output)
}

fn ensure_shown(shown: &str, what: &str) -> Result<()> {
    ensure!(shown.contains(what), "no `{what}` in {shown}");
    Ok(())
}

/// Checks that `lo` carries a connection through the qdisc.
fn carries(object: &[u8], kind: &str) -> Result<()> {
    let _kind = registered(object)?;
    tc(&format!("tc qdisc add dev lo root handle 800: {kind}"))?;
    let carried = connection();
    let shown = tc("tc -s qdisc show dev lo");
    let removed = tc("tc qdisc del dev lo root");
    carried?;
    let shown = shown?;
    removed?;
    let mut after = shown.split_whitespace().skip_while(|word| *word != "Sent");
    let sent: usize = after.nth(1).unwrap_or_default().parse()?;
    ensure!(
        sent >= BYTES,
        "the qdisc sent {sent} of {BYTES} bytes: {shown}"
    );
    Ok(())
}

/// Transfers the bytes over a connection on `lo`.
fn connection() -> Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let sender = thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream.write_all(&vec![0x5a; BYTES])?)
    });
    let mut stream = TcpStream::connect((Ipv6Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut room = vec![0; BYTES];
    stream.read_exact(&mut room)?;
    let sent = sender.join();
    sent.map_err(|_| anyhow::anyhow!("the sender failed"))??;
    ensure!(room.iter().all(|byte| *byte == 0x5a), "other bytes arrived");
    Ok(())
}

/// Runs a command with `mq` on a device, and returns tc's list afterwards. The device has several
/// queues explicitly: a machine with one processor would give it one.
fn under_mq(command: &str) -> Result<String> {
    tc("ip link add veth0 numtxqueues 2 type veth peer name veth1 numrxqueues 2")?;
    let done = || {
        tc("tc qdisc add dev veth0 root handle 1: mq")?;
        tc(&format!("tc {command}"))?;
        tc("tc qdisc show dev veth0")
    };
    let shown = done();
    tc("ip link del veth0")?;
    shown
}

/// Checks that a class rejects the kind.
fn under_a_class(object: &[u8], kind: &str) -> Result<()> {
    let _kind = registered(object)?;
    tc("tc qdisc add dev lo root handle 1: htb")?;
    tc("tc class add dev lo parent 1: classid 1:1 htb rate 75Kbit")?;
    let taken = tc(&format!("tc qdisc add dev lo parent 1:1 handle 11: {kind}"));
    tc("tc qdisc del dev lo root")?;
    ensure!(taken.is_err(), "a class takes it");
    Ok(())
}
