// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs weirgate on other machines, over ssh with the user's own keys and agent.
//!
//! Every call is a list of arguments: the program, the machine's name, `weirgate`, and weirgate's
//! arguments, which are fixed words and numbers. No local shell is involved, and the remote shell
//! sees nothing that it could interpret. Policies and lists go through standard input.

use crate::part::{Part, Parts};
use clap::Args;
use std::collections::BTreeMap;
use std::io::{self, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_domain::Domain;
use weirgate_units::{Inserted as _, PeerText};

/// How to reach other machines.
#[derive(Args, Debug, Clone)]
pub struct Ssh {
    /// The program that reaches a machine, with its arguments, separated by spaces. The machine's
    /// name and the words of the command are appended.
    ///
    /// The default is ssh without prompts: keys come from the agent, or from files without a
    /// passphrase.
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    #[arg(default_value = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5")]
    ssh: Words,
    /// The name or path of weirgate on the other machines.
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

/// Checks that a program's name contains nothing that a shell would interpret.
fn plain(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err("write a path of letters, digits and `/._-+`".to_owned())
}

/// The result of a command on another machine.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Its exit status; `None` if the machine was not reached, or a signal ended the command.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: PeerText,
    /// Its standard error.
    pub err: PeerText,
}

/// How long to wait for a machine, if nothing else sets a time.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The maximum length of standard output.
const MOST_PRINTED: u64 = 4 << 20;

/// The maximum length of standard error.
pub const MOST_BESIDE: u64 = 64 << 10;

/// The exit status of ssh if it could not reach the machine (ssh(1)).
const UNREACHED: i32 = 255;

impl Answer {
    /// Returns whether the command succeeded.
    pub fn done(&self) -> bool {
        self.status == Some(0)
    }

    /// Returns whether the remote program does not have this command: the build for small routers
    /// lacks many.
    pub fn lacks(&self, command: &str) -> bool {
        let line = format!("unrecognized subcommand '{command}'");
        self.status == Some(2) && self.err.contains(&line)
    }

    /// Returns the steps of the printed plan, without the comparison of set-ups that follows them.
    pub fn steps(&self) -> impl Iterator<Item = PeerText> {
        self.out.lines().take_while(|line| !line.is_blank())
    }

    /// Describes the failure in a few lines.
    pub fn why(&self) -> String {
        match (self.status, self.err.is_blank()) {
            (_, false) => self.err.to_string(),
            (Some(status), true) => format!("it ended with status {status} and printed nothing"),
            (None, true) => "it was not reached".to_owned(),
        }
    }
}

impl Ssh {
    /// Returns a configuration that uses network namespaces of this machine as hosts.
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
        let all = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        all.stderr(Stdio::piped());
        command
    }

    /// Starts weirgate on a machine, with pipes to it.
    pub fn start(&self, host: &str, words: &[&str]) -> io::Result<Child> {
        self.command(host, words).spawn()
    }

    /// Runs weirgate on a machine to its end. If it takes longer than `patience`, or prints too
    /// much, it counts as not reached.
    pub fn ask(&self, host: &str, words: &[&str], input: &str, patience: Duration) -> Answer {
        let failed = |why: String| Answer {
            err: PeerText::new(format!("{}: {why}", self.ssh.0.join(" "))),
            ..Answer::default()
        };
        let mut child = match self.command(host, words).spawn() {
            Ok(child) => child,
            Err(error) => return failed(error.to_string()),
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut to), Some(out), Some(err)) = pipes else {
            return failed("its pipes are missing".to_owned());
        };
        let input = input.to_owned();
        // Ignore errors: a program that ends without reading reports the reason itself. These
        // threads stay behind if a machine does not close its pipes.
        thread::spawn(move || to.write_all(input.as_bytes()));
        let (sender, output) = mpsc::sync_channel(2);
        all_of(out, MOST_PRINTED, sender.clone(), Ok);
        all_of(err, MOST_BESIDE, sender, Err);
        let end = Instant::now() + patience;
        let mut answer = Answer::default();
        let mut heard = Ok(());
        for _ in 0..2 {
            let rest = end.saturating_duration_since(Instant::now());
            heard = match output.recv_timeout(rest) {
                Ok(Ok(Some(out))) => {
                    answer.out = out;
                    Ok(())
                }
                Ok(Err(Some(err))) => {
                    answer.err = err;
                    Ok(())
                }
                Ok(Ok(None)) => Err(format!("{host} printed more than {MOST_PRINTED} bytes")),
                Ok(Err(None)) => Err(format!(
                    "{host} wrote more than {MOST_BESIDE} bytes beside its answer"
                )),
                Err(_) => Err(format!(
                    "{host} has not answered for {} s",
                    patience.as_secs()
                )),
            };
            if heard.is_err() {
                // Ignore errors: it may have just ended.
                let _ = child.kill();
                break;
            }
        }
        match (heard, child.wait()) {
            (Ok(()), Ok(status)) => {
                answer.status = status.code().filter(|code| *code != UNREACHED);
                answer
            }
            (Err(why), _) => failed(why),
            (_, Err(error)) => failed(error.to_string()),
        }
    }

    /// Does the same for several parts at once, each with its input.
    pub fn ask_all(
        &self,
        domain: &Domain,
        words: &[&str],
        inputs: &Parts,
        patience: Duration,
    ) -> BTreeMap<Part, Answer> {
        thread::scope(|scope| {
            let started: Vec<_> = inputs
                .iter()
                .map(|(part, input)| {
                    let host = host(domain, &part.router);
                    let words = part.words(words);
                    (
                        part,
                        scope.spawn(move || self.ask(host, &words, input, patience)),
                    )
                })
                .collect();
            let ended = started
                .into_iter()
                .map(|(part, thread)| (part.clone(), thread.join().unwrap_or_default()));
            ended.inserted()
        })
    }
}

/// Sends the whole output of a pipe as text when it ends; `None` if it has more than `most` bytes.
pub fn all_of<T: Send + 'static>(
    pipe: impl Read + Send + 'static,
    most: u64,
    to: SyncSender<T>,
    message: impl FnOnce(Option<PeerText>) -> T + Send + 'static,
) {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut pipe = pipe.take(most + 1);
        // After a read error, what arrived before it is used.
        let _ = pipe.read_to_end(&mut bytes);
        let all = (bytes.len() as u64 <= most).then(|| String::from_utf8_lossy(&bytes));
        // Ignore errors: the receiver may have given up.
        let _ = to.send(message(all.map(PeerText::new)));
    });
}

/// Returns a router's host name for ssh.
pub fn host<'d>(domain: &'d Domain, router: &'d str) -> &'d str {
    let stated = domain.routers.get(router);
    let stated = stated.and_then(|router| router.host.as_deref());
    stated.unwrap_or(router)
}

#[cfg(test)]
impl Ssh {
    /// Returns a shell script in place of ssh. Its `$0` is the machine's name.
    pub fn script(script: &str) -> Self {
        Self {
            ssh: Words(["sh", "-c", script].map(str::to_owned).to_vec()),
            remote: "weirgate".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the answer of a machine that runs this script.
    fn answer(script: &str) -> Answer {
        let ssh = Ssh::script(script);
        ssh.ask("far", &["plan", "-"], "", Duration::from_secs(20))
    }

    #[test]
    fn who_says_too_much_is_named_and_ended() {
        for (to, what) in [
            ("", "far printed more than 4194304 bytes"),
            (" >&2", "far wrote more than 65536 bytes beside its answer"),
        ] {
            let begun = Instant::now();
            let answer = answer(&format!("exec cat /dev/zero{to}"));
            assert_eq!(answer.status, None);
            assert!(answer.why().ends_with(what), "{}", answer.why());
            assert!(answer.out.is_blank());
            assert!(begun.elapsed() < Duration::from_secs(15));
        }
        let answer = answer("printf most; printf all >&2; exit 1");
        assert_eq!(answer.status, Some(1));
        assert!(answer.out.contains("most") && answer.err.contains("all"));
    }

    #[test]
    fn what_it_says_does_nothing_to_the_terminal() {
        let why = answer(r"printf '\033]0;mine\007no\rweirgate: all is well' >&2; exit 2").why();
        assert_eq!(why, r"\u{1b}]0;mine\u{7}no\rweirgate: all is well");
    }
}
