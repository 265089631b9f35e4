// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weirgate on other machines, over ssh with the user's own keys and agent.
//!
//! Every call is a list of words: the program, the machine's name, `weirgate`
//! and its arguments, which are fixed words and numbers of ours. No shell here
//! sees them, and what the one at the other end sees holds nothing that it
//! could take for more than words. Policies and lists go through standard input.

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

/// How other machines are reached.
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

/// A program's name without anything that a shell could take for more.
fn plain(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err("write a path of letters, digits and `/._-+`".to_owned())
}

/// How a command ended on another machine.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Its exit status; none where it was not reached or was ended by a signal.
    pub status: Option<i32>,
    /// What it printed.
    pub out: PeerText,
    /// What it wrote to standard error.
    pub err: PeerText,
}

/// For how long a machine is waited for that has not to be asked by a given time.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The most bytes that a machine may print to one question.
const MOST_PRINTED: u64 = 4 << 20;

/// The most that it may say beside that.
pub const MOST_BESIDE: u64 = 64 << 10;

/// What ssh returns where it could not reach the machine (ssh(1)).
const UNREACHED: i32 = 255;

impl Answer {
    /// Whether it was done.
    pub fn done(&self) -> bool {
        self.status == Some(0)
    }

    /// Whether the program there has no such command: that of a small router goes without many.
    pub fn lacks(&self, command: &str) -> bool {
        let line = format!("unrecognized subcommand '{command}'");
        self.status == Some(2) && self.err.contains(&line)
    }

    /// The steps of the plan that it printed, without the comparison of set-ups that follows
    /// them.
    pub fn steps(&self) -> impl Iterator<Item = PeerText> {
        self.out.lines().take_while(|line| !line.is_blank())
    }

    /// What went wrong, in a few lines, for people.
    pub fn why(&self) -> String {
        match (self.status, self.err.is_blank()) {
            (_, false) => self.err.to_string(),
            (Some(status), true) => format!("it ended with status {status} and printed nothing"),
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
        let all = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        all.stderr(Stdio::piped());
        command
    }

    /// Starts weirgate on a machine, to be spoken to.
    pub fn start(&self, host: &str, words: &[&str]) -> io::Result<Child> {
        self.command(host, words).spawn()
    }

    /// Runs weirgate on a machine to its end, which is waited for so long; what
    /// takes longer, or says more than is taken, counts as not reached.
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
        // One that ends without reading says why itself. What a machine that
        // does not answer leaves open is left to these threads.
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
                // It may have ended just now.
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

    /// The same of several parts at once, each with what it reads.
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

/// Sends all that a pipe brings, as text, when it has ended; nothing where that is more
/// than so many bytes.
pub fn all_of<T: Send + 'static>(
    pipe: impl Read + Send + 'static,
    most: u64,
    to: SyncSender<T>,
    message: impl FnOnce(Option<PeerText>) -> T + Send + 'static,
) {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut pipe = pipe.take(most + 1);
        // What came before a failure is all there is.
        let _ = pipe.read_to_end(&mut bytes);
        let all = (bytes.len() as u64 <= most).then(|| String::from_utf8_lossy(&bytes));
        // Nobody may wait for it any more.
        let _ = to.send(message(all.map(PeerText::new)));
    });
}

/// How ssh calls a router.
pub fn host<'d>(domain: &'d Domain, router: &'d str) -> &'d str {
    let stated = domain.routers.get(router);
    let stated = stated.and_then(|router| router.host.as_deref());
    stated.unwrap_or(router)
}

#[cfg(test)]
impl Ssh {
    /// A script of the shell in place of ssh, whose `$0` is the machine's name.
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

    /// What a machine answers that runs this script.
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
