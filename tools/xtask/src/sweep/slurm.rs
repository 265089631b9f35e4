// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Slurm cluster in one folder: munged, slurmctld, and two slurmd of one processor each, all from
//! Debian's packages. No files outside the folder are read or written.

use crate::files::text;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit for the start of a daemon.
const START: Duration = Duration::from_secs(30);

/// The names of the nodes.
pub const NODES: [&str; 2] = ["n1", "n2"];

/// A running cluster, which is shut down when this value is dropped.
pub struct Cluster {
    folder: PathBuf,
    daemons: BTreeMap<&'static str, Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.values_mut() {
            // Ignore errors: the daemon has ended already.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Cluster {
    /// Starts a cluster.
    pub fn start(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("state"))?;
        let mut cluster = Self {
            folder: folder.to_owned(),
            daemons: BTreeMap::new(),
        };
        fs::write(folder.join("slurm.conf"), cluster.settings())?;
        let at = |name: &str| folder.join(name).display().to_string();
        let mut key = Command::new("mungekey");
        key.args(["--create", "--keyfile", &at("munge.key")]);
        text(&mut key).context("mungekey (package munge)")?;
        let mut munged = vec!["munged".to_owned(), "--foreground".to_owned()];
        for name in ["socket", "key", "log", "pid", "seed"] {
            let option = if name == "socket" {
                name.to_owned()
            } else {
                format!("{name}-file")
            };
            munged.push(format!("--{option}={}", at(&format!("munge.{name}"))));
        }
        cluster.spawn("munged", &munged)?;
        let socket = folder.join("munge.socket");
        until(START, "munged has a socket", || Ok(socket.exists()))?;
        cluster.spawn("slurmctld", &["slurmctld".to_owned(), "-D".to_owned()])?;
        for node in NODES {
            cluster.boot(node)?;
        }
        until(START, "both nodes are idle", || {
            // The command fails until the controller answers.
            let states = cluster.states();
            Ok(states.is_ok_and(|all| all.iter().all(|state| state == "idle")))
        })?;
        Ok(cluster)
    }

    /// Returns the contents of `slurm.conf`.
    fn settings(&self) -> String {
        let folder = self.folder.display();
        format!(
            "ClusterName=weirgate\nSlurmctldHost=localhost\nSlurmctldPort=17000\n\
             SlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\nCredType=cred/munge\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool.%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.%n.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory\n\
             SlurmdParameters=config_overrides\n\
             SlurmdTimeout=10\nReturnToService=2\nJobRequeue=1\n\
             NodeName=n[1-2] NodeHostname=localhost Port=[17001-17002] CPUs=1 RealMemory=4096\n\
             PartitionName=lab Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP\n"
        )
    }

    /// Starts a node: a slurmd in its own PID namespace, so that all its processes end with it.
    pub fn boot(&mut self, node: &'static str) -> Result<()> {
        let words = "unshare --pid --fork --kill-child --mount-proc slurmd -D -N";
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.push(node.to_owned());
        self.spawn(node, &words)
    }

    /// Kills a node with all its processes, like a power failure. The controller is not notified.
    pub fn kill(&mut self, node: &'static str) -> Result<()> {
        let mut daemon = self.daemons.remove(node).context("no such node")?;
        daemon.kill()?;
        daemon.wait()?;
        Ok(())
    }

    /// Returns the states of the nodes, such as `idle` or `down*`.
    pub fn states(&self) -> Result<Vec<String>> {
        let states = text(self.command("sinfo").args(["-h", "-N", "-o", "%t"]))?;
        Ok(states.lines().map(str::to_owned).collect())
    }

    /// Returns a Slurm command for this cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }

    /// Starts a daemon that ends with this process.
    fn spawn(&mut self, name: &'static str, words: &[String]) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{name}.out")))?;
        let mut command = self.command("setpriv");
        command.arg("--pdeathsig=KILL").args(words);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn().with_context(|| words.join(" "))?;
        self.daemons.insert(name, child);
        Ok(())
    }
}

/// Waits for a condition, which is checked twice a second.
pub fn until(
    longest: Duration,
    what: &str,
    mut happened: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let started = Instant::now();
    while !happened()? {
        let seconds = longest.as_secs();
        ensure!(
            started.elapsed() < longest,
            "not within {seconds} s: {what}"
        );
        sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Fails with what is missing for a cluster.
pub fn needed() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("two nodes on one machine need root");
    }
    for program in [
        "munged",
        "mungekey",
        "slurmctld",
        "slurmd",
        "sbatch",
        "sinfo",
        "squeue",
    ] {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&paths).any(|folder| folder.join(program).is_file());
        ensure!(found, "{program} is missing: apt install slurm-wlm munge");
    }
    Ok(())
}
