// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weirgate on other machines, over ssh with the user's own keys and agent.
//!
//! Every call is a list of words: the program, the machine's name, `weirgate`
//! and its arguments, which are fixed words and numbers of ours. No shell here
//! sees them, and what the one at the other end sees holds nothing that it
//! could take for more than words. Policies go through standard input.

use clap::Args;
use std::collections::BTreeMap;
use std::io::{self, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_domain::Domain;
use weirgate_units::Inserted as _;

/// How other machines are reached.
#[derive(Args, Debug, Clone)]
pub struct Ssh {
    /// What reaches a machine: a program and its arguments, divided by spaces, to which the
    /// machine's name and a command's words are added.
    ///
    /// With ssh as it stands, keys come from the agent or from files without a passphrase, and
    /// nothing is asked.
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    #[arg(default_value = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5")]
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

/// For how long a machine is waited for that has not to be asked by a given time.
pub const PATIENCE: Duration = Duration::from_mins(1);

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
            ssh: Words(["weirgate", "domain", "within"].map(str::to_owned).to_vec()),
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

    /// Runs weirgate on a machine to its end, which is waited for so long; what
    /// takes longer counts as not reached.
    pub fn ask(&self, host: &str, words: &[&str], input: &str, patience: Duration) -> Answer {
        let failed = |why: String| Answer {
            status: None,
            out: String::new(),
            err: format!("{}: {why}", self.ssh.0.join(" ")),
        };
        let child = self.command(host, words).stderr(Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return failed(error.to_string()),
        };
        let late = || format!("{host} has not answered for {} s", patience.as_secs());
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut to), Some(out), Some(err)) = pipes else {
            return failed("its pipes are missing".to_owned());
        };
        let input = input.to_owned();
        // One that ends without reading says why itself. What a machine that
        // does not answer leaves open is left to these threads.
        thread::spawn(move || to.write_all(input.as_bytes()));
        let (out, err) = (all_of(out), all_of(err));
        let end = Instant::now() + patience;
        let rest = || end.saturating_duration_since(Instant::now());
        let texts = out.recv_timeout(rest()).and_then(|out| {
            let err = err.recv_timeout(rest())?;
            Ok((out, err))
        });
        if texts.is_err() {
            // It may have ended just now.
            let _ = child.kill();
        }
        match (texts, child.wait()) {
            (Ok((out, err)), Ok(status)) => Answer {
                status: status.code().filter(|code| *code != UNREACHED),
                out,
                err,
            },
            (Err(_), _) => failed(late()),
            (_, Err(error)) => failed(error.to_string()),
        }
    }

    /// The same on several routers at once, each with what it reads.
    pub fn ask_all(
        &self,
        domain: &Domain,
        words: &[&str],
        inputs: &BTreeMap<String, String>,
        patience: Duration,
    ) -> BTreeMap<String, Answer> {
        thread::scope(|scope| {
            let started: Vec<_> = inputs
                .iter()
                .map(|(name, input)| {
                    let host = host(domain, name);
                    (
                        name,
                        scope.spawn(move || self.ask(host, words, input, patience)),
                    )
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
            ended.inserted()
        })
    }
}

/// All that a pipe brings, as text, when it has ended.
fn all_of(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before a failure is all there is.
        let _ = pipe.read_to_end(&mut bytes);
        // Nobody may wait for it any more.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// How ssh calls a router.
pub fn host<'d>(domain: &'d Domain, router: &'d str) -> &'d str {
    let stated = domain.routers.get(router);
    let stated = stated.and_then(|router| router.host.as_deref());
    stated.unwrap_or(router)
}
