// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate keep`: runs the service as a process, with signals, log and systemd.

pub mod announce;
pub mod track;

use crate::policy::apply::{refused, site};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use weirgate_console::exit::{Outcome, Status};
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;
use weirgate_keep::{Pulse, Report, Terms, keep};

/// A group of this machine, by its number.
#[derive(Debug, Clone, Copy)]
pub struct Group(pub u32);

impl FromStr for Group {
    type Err = String;

    /// Parses a number, or a name that the system knows (nsswitch.conf(5)).
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok();
        number
            .or_else(|| uzers::get_group_by_name(text).map(|group| group.gid()))
            .map(Self)
            .ok_or_else(|| format!("there is no group `{text}`; a number is also accepted"))
    }
}

/// Keeps the confirmed state in force until SIGTERM or SIGINT.
pub fn run(state: &Path, announcers: Option<Group>) -> Outcome {
    in_runtime(async {
        let site = site(state)?;
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let following = track::following;
        let terms = Terms {
            announcers: announcers.map(|group| group.0),
            pulse: pulse(),
        };
        keep(&site, terms, stop, following, ready, |report| {
            output::note(&line(&report));
        })
        .await
        .map_err(refused)?;
        Ok(Status::Done)
    })
}

fn line(report: &Report) -> String {
    match report {
        Report::Mended { steps, pause } => {
            let steps = output::count(*steps, "step");
            format!("weirgate: {steps} taken; the next in {pause} ms at the earliest")
        }
        Report::Circuits { device, done } => {
            let how = match (done.put, done.reattached) {
                (Some(_), _) => "the qdisc was put on the device",
                (_, true) => "programs were put on the device again",
                _ => "a change that a command left unfinished is now complete",
            };
            let mended = if done.mended {
                "; the stored list was damaged: what is sound of it and of its copy replaces it"
            } else {
                ""
            };
            format!("weirgate: {device}: circuits are in force: {how}{mended}")
        }
        Report::TakenBack { number } => format!(
            "weirgate: state {number} was neither confirmed nor undone by its guard: it is taken \
             back now"
        ),
        Report::Damaged(damage) => format!("weirgate: warning: {damage}"),
        Report::Refreshed { sets } => {
            format!("weirgate: {sets} sets have new addresses of DNS names")
        }
        Report::Followed { what, sets } => {
            format!("weirgate: {what} appeared, disappeared or were recreated: {sets} sets")
        }
        Report::NotFollowing { what, error } => {
            format!("weirgate: {what} are not followed: {error}")
        }
        Report::Rates(now) => {
            let lines = track::lines(now).join("; ");
            format!("weirgate: the line: {lines}")
        }
        Report::NotFollowed(error) => {
            format!("weirgate: the rate of the line is not followed: {error}")
        }
        Report::Announced(0) => "weirgate: no session is announced now".to_owned(),
        Report::Announced(count) => format!("weirgate: {count} sessions are announced"),
        Report::NotAnnounced(error) => {
            format!("weirgate: sessions cannot be announced: {error}")
        }
        Report::NotFound(names) => {
            format!("weirgate: not looked up: {}", names.join("; "))
        }
        Report::Failed { error, pause } => format!("weirgate: {error}; again in {pause} ms"),
    }
}

/// Returns the interval of the notifications to systemd's watchdog (`sd_watchdog_enabled(3)`). It
/// is a third of the watchdog's timeout, so that one notification may be late.
pub fn watchdog() -> Option<Duration> {
    Some(sd_notify::watchdog_enabled()? / 3)
}

/// Returns the beats for systemd's watchdog, if there is one.
pub fn pulse() -> Option<Pulse> {
    watchdog().map(|every| Pulse { every, beat: alive })
}

/// Notifies systemd's watchdog. Only the loop that does the work calls this.
pub fn alive() {
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
}

/// Tells systemd that the service has begun its work (`sd_notify(3)`).
pub fn ready() {
    // Ignore an error: the process that set the variable may not be listening.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}
