// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that serve and dial, and how the tests stop them.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

/// The address of the provider's end of the session.
pub const PEER: &str = "10.64.0.1";

/// The log file of pppd.
pub const LOG: &str = "/tmp/pppd.log";

/// The log file of `weirgate keep`.
pub const KEEP_LOG: &str = "/tmp/keep.log";

/// Options of both ends: a peer that does not answer three echoes counts as gone.
const OPTIONS: &str = "noauth\nnoccp\nnovj\nlcp-echo-failure 3\n";

/// Options of the router's end. It dials again as soon as a session has ended.
const DIALLER: &str = "plugin pppoe.so\nnic-wire\nnodetach\ndebug\npersist\nmaxfail 0\n\
                       holdoff 0\nnoipdefault\nipcp-accept-local\nipcp-accept-remote\n\
                       defaultroute\n+ipv6\nmtu 1492\nmru 1492\n";

/// Writes the options of both ends, with this name for the dialler's device. Both send an echo
/// request after this many seconds, or never for 0.
pub fn configure(device: &str, echo: u32) {
    fs::create_dir_all("/etc/ppp/peers").unwrap();
    fs::write("/etc/ppp/options", "").unwrap();
    let options = format!("{OPTIONS}lcp-echo-interval {echo}\n");
    fs::write("/etc/ppp/pppoe-server-options", &options).unwrap();
    // The first device gets this name by default.
    let name = if device == "ppp0" {
        String::new()
    } else {
        format!("ifname {device}\n")
    };
    let dialler = format!("{options}{DIALLER}{name}");
    fs::write("/etc/ppp/peers/provider", dialler).unwrap();
}

/// A daemon, which is killed when the test ends.
pub struct Daemon(Child);

impl Daemon {
    /// Starts a command line, whose output goes to this file.
    pub fn start(line: &str, log: &str) -> Self {
        let mut words = line.split(' ');
        let out = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).stdin(Stdio::null());
        command.stderr(out.try_clone().unwrap()).stdout(out);
        Self(command.spawn().unwrap())
    }

    /// Starts the provider's server.
    pub fn server() -> Self {
        let addresses = format!("-L {PEER} -R 10.64.0.2 -N 128");
        Self::start(
            &format!("ip netns exec isp pppoe-server -F -I isp0 {addresses}"),
            "/tmp/server.log",
        )
    }

    /// Starts the router's dialler, which dials again when a session ends.
    pub fn dialler() -> Self {
        Self::start("pppd call provider", LOG)
    }

    /// Starts `weirgate keep`.
    pub fn keep() -> Self {
        Self::start("weirgate keep", KEEP_LOG)
    }

    /// Kills the daemon.
    pub fn ends(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Makes the dialler end its session.
    pub fn hangs_up(&self) {
        kill_process(Pid::from_child(&self.0), Signal::HUP).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ends();
    }
}

/// Kills the provider's pppd processes, which are all except the dialler's.
pub fn sessions_end(dialler: &Daemon) {
    let own = dialler.0.id();
    let mut ended = 0;
    for entry in fs::read_dir("/proc").unwrap() {
        let entry = entry.unwrap();
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.trim() == "pppd" && id != own {
            let id = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
            kill_process(id, Signal::KILL).unwrap();
            ended += 1;
        }
    }
    assert!(ended > 0, "the provider has no session");
}
