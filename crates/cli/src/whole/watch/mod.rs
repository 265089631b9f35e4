// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate watch`: runs the service as a process, and exports its history as text.

mod access;
mod send;
mod web;

use crate::keep::{alive, watchdog};
use crate::metrics::legend::{self, legend, tracked};
use crate::policy::apply::refused;
use crate::whole::flows::sorter;
use crate::whole::links;
use access::{Admit, Dismiss};
use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};
use weirgate_console::exit::{Failure, Outcome, Status, wrong as wrong_argument};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_history::{csv, json};
use weirgate_keep::{Folders, trusted};
use weirgate_units::{ParseError, Span};
use weirgate_watch::{Config, FileStorage, Listen, Target, Tls, WatchError, serve, target};

/// The default largest size of a history, in MB.
///
/// With 1,504 series, a row takes 3.5 kB at a step of two hours (`weirgate-history`, example
/// `day`). So the last ring, which is 16 % of the file, holds five years of rows. The first holds
/// five days at a step of one second.
const SIZE_MB: u64 = 512;

/// The arguments of `weirgate watch`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Serve the page and the metrics at this address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9617")]
    listen: SocketAddr,
    /// Serve them at a Unix socket instead.
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// Allow any address and any host name, because a proxy with TLS and authentication is in
    /// front.
    #[arg(long)]
    behind_proxy: bool,
    /// Serve over TLS with this certificate (PEM, with its intermediate certificates); it is
    /// reloaded when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Admit only users named in this file, with password or token; `weirgate watch admit` writes
    /// the file.
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,
    /// Admit this local user over loopback without a token, besides root, the user who runs `watch`
    /// and the user who called sudo; may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "access")]
    user: Vec<web::User>,
    #[command(flatten)]
    send: send::Arguments,
    /// The policy that names classes and their promises; without it, the applied one, or
    /// /etc/weirgate/site.toml if the applied one cannot be read.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The history's file [default: below $STATE_DIRECTORY, $XDG_STATE_HOME or ~/.local/state].
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The largest size of a new history, in megabytes.
    #[arg(long, value_name = "MB", default_value_t = SIZE_MB)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..1_000_000))]
    size: u64,
    /// The time between two samples.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every)]
    every: Duration,
    /// Send this host an ICMP echo request at every sample, with a code point of 0 to 63; may be
    /// repeated.
    #[arg(long, value_name = "NAME=ADDRESS[,DSCP]", value_parser = target)]
    probe: Vec<Target>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the history as CSV or JSON, even while `watch` writes it.
    Export(Export),
    /// Admit a user: write a name, with the hash of a new token or a password, into the file of
    /// --access.
    Admit(Admit),
    /// Remove a user from the file of --access.
    Dismiss(Dismiss),
    /// Answer requests; started by `watch`.
    #[command(hide = true)]
    Web,
}

#[derive(clap::Args)]
struct Export {
    /// The history's file [default: as for `watch`].
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// A series; may be repeated. Without one, the names of all series are printed.
    #[arg(long, value_name = "NAME")]
    series: Vec<String>,
    /// The start: seconds of Unix time, or how long ago, such as `12h`.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = time)]
    from: i64,
    /// The end, in the same form.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    to: i64,
    /// The length of steps; `0s` prints values as recorded.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = step)]
    step: i64,
    /// Print JSON, which includes events, instead of CSV.
    #[arg(long)]
    json: bool,
}

fn span(text: &str) -> Result<Duration, String> {
    let span: Span = text
        .parse()
        .map_err(|error: ParseError| error.to_string())?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// Parses the time between two samples.
pub fn every(text: &str) -> Result<Duration, String> {
    let every = span(text)?;
    if every < Duration::from_millis(200) || every > Duration::from_mins(1) {
        return Err(String::from("from 200ms to 60s"));
    }
    Ok(every)
}

fn step(text: &str) -> Result<i64, String> {
    Ok(span(text)?.as_millis() as i64)
}

/// Parses a time. Returns milliseconds since 1970.
fn time(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse::<i64>() {
        return Ok(seconds.saturating_mul(1000));
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(now.as_millis() as i64 - span(text)?.as_millis() as i64)
}

/// `weirgate watch`.
pub fn run(state: &Path, arguments: Arguments) -> Outcome {
    match arguments.command {
        Some(Command::Export(export)) => self::export(&export),
        Some(Command::Admit(admit)) => access::admit(&admit),
        Some(Command::Dismiss(dismiss)) => access::dismiss(&dismiss),
        Some(Command::Web) => web::run(),
        None => watch(state, arguments),
    }
}

fn watch(state: &Path, arguments: Arguments) -> Outcome {
    in_runtime(async {
        for file in arguments.access.iter().chain(&arguments.tls_key) {
            // To `trusted`, only the mode of `/dev/null` would be wrong.
            if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
                return Err(wrong_argument(format!("{} is not a file", file.display())));
            }
            trusted(file).map_err(refused)?;
        }
        let history = file(arguments.history)?;
        trusted(&history).map_err(refused)?;
        let here = Folders::here(state).ok();
        let sources = legend::sources(here.as_ref(), arguments.policy.as_deref());
        let legend = legend(state, arguments.policy.as_deref(), sorter)?;
        let listen = match arguments.socket {
            Some(path) => Listen::Socket(path),
            None => Listen::Address(arguments.listen),
        };
        let place = match &listen {
            Listen::Socket(path) => path.display().to_string(),
            Listen::Address(_) => String::new(),
        };
        let scheme = match arguments.tls_cert {
            Some(_) => "https",
            None => "http",
        };
        let tokens = arguments.access.is_some();
        let config = Config {
            listen: vec![listen],
            behind_proxy: arguments.behind_proxy,
            tls: arguments
                .tls_cert
                .zip(arguments.tls_key)
                .map(|(certificate, key)| Tls { certificate, key }),
            access: arguments.access,
            users: web::users(&arguments.user),
            begin_web: web::begin,
            sending: arguments.send.sending()?,
            history,
            size: arguments.size * 1_000_000,
            every: arguments.every,
            probes: arguments.probe,
            sources,
        };
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let ready = |addresses: &[SocketAddr]| {
            for address in addresses {
                output::note(&format!("weirgate: the page is at {scheme}://{address}/"));
                if let Some(command) = tunnel(*address, scheme, tokens) {
                    output::note(&format!("weirgate: from another machine: {command}"));
                }
            }
            if addresses.is_empty() {
                output::note(&format!("weirgate: the page is at the socket {place}"));
            }
            crate::keep::ready();
        };
        let report = |text: &str| output::note(&format!("weirgate: {text}"));
        let policy = arguments.policy;
        // The policy file may be invalid for a moment while it is written. Then the old legend
        // stays.
        let again = || legend::legend(state, policy.as_deref(), sorter).ok();
        let beat = Cell::new(Instant::now());
        let pulse = watchdog();
        // The sampling loop calls this before each sample.
        let told = || {
            if pulse.is_some_and(|pulse| beat.get().elapsed() >= pulse) {
                beat.set(Instant::now());
                alive();
            }
            let here = here.as_ref();
            let links = here.map(links::held).unwrap_or_default();
            (here.map(tracked).unwrap_or_default(), links)
        };
        let served = serve(config, legend, again, told, stop, ready, report).await;
        served.map_err(wrong)?;
        Ok(Status::Done)
    })
}

/// Returns the ssh command that makes a page on a loopback address reachable, the address to open
/// then, and who is admitted. The connection belongs to the user who logs in.
fn tunnel(address: SocketAddr, scheme: &str, tokens: bool) -> Option<String> {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let port = address.port();
    let (login, admitted) = if tokens {
        ("", "with a name of --access")
    } else {
        ("root@", "other users get 403 without `--user NAME`")
    };
    address.ip().is_loopback().then(|| {
        format!(
            "ssh -L {port}:{address} {login}{machine}, then {scheme}://localhost:{port}/ \
             ({admitted})"
        )
    })
}

pub fn wrong(error: WatchError) -> Failure {
    match error {
        WatchError::Kernel(_) => Failure::Other(error.into()),
        _ => Failure::Input(format!("weirgate: {error}")),
    }
}

/// Returns the history's file, or its default place.
fn file(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let found = named
        .or_else(|| Some(folder("STATE_DIRECTORY")?.join("history")))
        .or_else(|| Some(folder("XDG_STATE_HOME")?.join("weirgate/history")))
        .or_else(|| Some(folder("HOME")?.join(".local/state/weirgate/history")));
    found.ok_or_else(|| Failure::Input(String::from("weirgate: name a file with --history")))
}

fn export(arguments: &Export) -> Outcome {
    let path = file(arguments.history.clone())?;
    let history = FileStorage::open_reading(&path).map_err(wrong)?;
    let (from, to) = (arguments.from, arguments.to);
    if from > to {
        return Err(Failure::Input(String::from(
            "weirgate: --from is later than --to",
        )));
    }
    if arguments.series.is_empty() && !arguments.json {
        for name in history.series(from, to)?.into_keys() {
            output::data(&name)?;
        }
        return Ok(Status::Done);
    }
    let names: Vec<&str> = arguments.series.iter().map(|name| &**name).collect();
    let (readings, events) = history.read_with_events(&names, from, to, arguments.step)?;
    let unknown = readings.iter().filter(|reading| reading.kind.is_none());
    for reading in unknown {
        output::note(&format!(
            "weirgate: the history has no series `{}` at that time",
            reading.name
        ));
    }
    let text = if arguments.json {
        json(&readings, &events)
    } else {
        csv(&readings)
    };
    output::data(&text)?;
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connection belongs to the user who logs in, so the command says who is admitted.
    #[test]
    fn a_page_of_this_machine_is_reached_by_ssh() {
        let command = |text: &str, tokens| tunnel(text.parse().unwrap(), "http", tokens);
        let found = command("127.0.0.1:9617", false).unwrap();
        let begins = "ssh -L 9617:127.0.0.1:9617 root@";
        assert!(found.starts_with(begins), "{found}");
        for part in [
            ", then http://localhost:9617/ (",
            "get 403 without `--user NAME`",
        ] {
            assert!(found.contains(part), "{found}");
        }
        let found = command("[::1]:80", true).unwrap();
        assert!(found.starts_with("ssh -L 80:[::1]:80 "), "{found}");
        assert!(
            !found.contains("root@") && found.contains("--access"),
            "{found}"
        );
        assert_eq!(command("192.0.2.1:9617", false), None);
    }
}
