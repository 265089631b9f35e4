// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weirgate on other machines, over ssh with the user's own keys and agent.
//!
//! Every call is a list of words: the program, the machine's name, `weirgate`
//! and its arguments, which are fixed words and numbers of ours. No shell here
//! sees them, and what the one at the other end sees holds nothing that it
//! could take for more than words. Policies go through standard input.

use clap::Args;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use weirgate_domain::Domain;

/// How other machines are reached.
#[derive(Args, Debug, Clone)]
pub struct Ssh {
    /// What reaches a machine: a program and its arguments, divided by spaces, to which the
    /// machine's name and a command's words are added.
    ///
    /// With ssh as it stands, keys come from the agent or from files without a passphrase, and
    /// nothing is asked.
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    #[arg(default_value = "ssh -o BatchMode=yes -o ConnectTimeout=10")]
    ssh: Words,
    /// How weirgate is called on the other machines.
    #[arg(long, value_name = "PROGRAM", default_value = "weirgate", value_parser = plain)]
    remote: String,
}

/// A program and its first arguments.
#[derive(Debug, Clone)]
struct Words(Vec<String>);

fn words(text: &str) -> Result<Words, String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err("name a program".to_owned());
    }
    Ok(Words(words))
}

/// A program's name without anything that a shell could take for more.
fn plain(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err("write a path of letters, digits and `/._-+`".to_owned())
}

/// How a command ended on another machine.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its exit status; none where it was not reached or was ended by a signal.
    pub status: Option<i32>,
    /// What it printed.
    pub out: String,
    /// What it said beside that.
    pub err: String,
}

/// What ssh returns where it could not reach the machine (ssh(1)).
const UNREACHED: i32 = 255;

impl Answer {
    /// Whether it was done.
    pub fn done(&self) -> bool {
        self.status == Some(0)
    }

    /// What went wrong, in a few lines.
    pub fn why(&self) -> String {
        let said = self.err.trim();
        match (self.status, said.is_empty()) {
            (_, false) => said.to_owned(),
            (Some(status), true) => format!("it ended with status {status} and said nothing"),
            (None, true) => "it was not reached".to_owned(),
        }
    }
}

impl Ssh {
    /// Namespaces of this machine in place of others: each host is one.
    pub fn namespaces() -> Self {
        Self {
            ssh: Words(["ip", "netns", "exec"].map(str::to_owned).to_vec()),
            remote: "weirgate".to_owned(),
        }
    }

    fn command(&self, host: &str, words: &[&str]) -> Command {
        let (program, first) = match &self.ssh.0[..] {
            [program, first @ ..] => (program.as_str(), first),
            [] => ("ssh", &[][..]),
        };
        let mut command = Command::new(program);
        command.args(first).arg(host).arg(&self.remote).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Starts weirgate on a machine, to be spoken to.
    pub fn start(&self, host: &str, words: &[&str]) -> io::Result<Child> {
        self.command(host, words).spawn()
    }

    /// Runs weirgate on a machine to its end.
    pub fn ask(&self, host: &str, words: &[&str], input: &str) -> Answer {
        let failed = |error: io::Error| Answer {
            status: None,
            out: String::new(),
            err: format!("{}: {error}", self.ssh.0.join(" ")),
        };
        let child = self.command(host, words).stderr(Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return failed(error),
        };
        let pipe = child.stdin.take();
        let output = thread::scope(|scope| {
            scope.spawn(move || {
                // One that ends without reading says why itself.
                pipe.map(|mut pipe| pipe.write_all(input.as_bytes()))
            });
            child.wait_with_output()
        });
        match output {
            Ok(output) => Answer {
                status: output.status.code().filter(|code| *code != UNREACHED),
                out: String::from_utf8_lossy(&output.stdout).into_owned(),
                err: String::from_utf8_lossy(&output.stderr).into_owned(),
            },
            Err(error) => failed(error),
        }
    }

    /// The same on several routers at once, each with what it reads.
    pub fn ask_all(
        &self,
        domain: &Domain,
        words: &[&str],
        inputs: &BTreeMap<String, String>,
    ) -> BTreeMap<String, Answer> {
        thread::scope(|scope| {
            let started: Vec<_> = inputs
                .iter()
                .map(|(name, input)| {
                    let host = host(domain, name);
                    (name, scope.spawn(move || self.ask(host, words, input)))
                })
                .collect();
            let ended = started.into_iter().map(|(name, thread)| {
                let answer = thread.join().unwrap_or_else(|_| Answer {
                    status: None,
                    out: String::new(),
                    err: String::new(),
                });
                (name.clone(), answer)
            });
            ended.collect()
        })
    }
}

/// How ssh calls a router.
pub fn host<'d>(domain: &'d Domain, router: &'d str) -> &'d str {
    let stated = domain.routers.get(router);
    let stated = stated.and_then(|router| router.host.as_deref());
    stated.unwrap_or(router)
}
