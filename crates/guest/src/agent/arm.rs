// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies an arm's module parameters and commands to the topology before traffic starts, and runs
//! others beside it. Module `shaper` applies policies.

use super::Machine;
use super::command::{begin, output, output_of, succeeded};
use super::nodes::{Nodes, name};
use super::recorder::Recorder;
use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command};
use weirgate_experiment::{Arm, Command as ArmCommand};

/// Sets the arm's module parameters, which apply to the whole machine. If the machine is not the
/// run's own, they are only compared.
pub fn set_parameters(arm: &Arm, machine: Machine, recorder: &Recorder) -> Result<()> {
    for (parameter, value) in &arm.module_parameters {
        let set = set_parameter(parameter, value, machine);
        set.with_context(|| format!("module parameter {parameter}={value}"))?;
        recorder.transcript(format!("{parameter}={value}"), String::new(), 0);
    }
    Ok(())
}

fn set_parameter(parameter: &str, value: &str, machine: Machine) -> Result<()> {
    let (module, field) = parameter
        .split_once('.')
        .context("it has to be written MODULE.PARAMETER")?;
    let plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    ensure!(
        plain(module) && plain(field),
        "letters, digits and _ are possible, and one dot"
    );
    let file = format!("/sys/module/{module}/parameters/{field}");
    if machine == Machine::Own && !Path::new(&file).exists() {
        let load = Command::new("/sbin/modprobe").arg(module).output();
        let load = load.with_context(|| format!("load the module {module}"))?;
        ensure!(
            load.status.success(),
            "the module {module} cannot be loaded: {}",
            output_of(&load)
        );
    }
    let current = fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    if current.trim_end() == value {
        return Ok(());
    }
    if machine == Machine::Shared {
        bail!(
            "this machine has {}; changing it would change the machine, so run this arm in a \
             virtual machine",
            current.trim_end()
        );
    }
    fs::write(&file, value).with_context(|| format!("write {file}"))
}

/// Runs the arm's commands in order. Each must succeed.
pub fn run_commands(
    arm: &Arm,
    parameters: &BTreeMap<String, String>,
    nodes: &Nodes,
    recorder: &Recorder,
) -> Result<()> {
    for command in &arm.commands {
        run_command(command, parameters, nodes, recorder)?;
    }
    Ok(())
}

fn run_command(
    command: &ArmCommand,
    parameters: &BTreeMap<String, String>,
    nodes: &Nodes,
    recorder: &Recorder,
) -> Result<()> {
    let argv = command.resolve(parameters);
    let what = format!("{}: {}", name(command.node), argv.join(" "));
    let output = nodes
        .enter(command.node, || output(&argv))
        .with_context(|| format!("{what}: cannot be started"))?;
    let status = output.status.code().unwrap_or(-1);
    recorder.transcript(what.clone(), output_of(&output), status);
    succeeded(&what, &output)
}

/// How long a program may take to end.
const TO_END: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// A program that runs beside the traffic. It is ended when this is dropped.
#[derive(Debug)]
pub struct Background {
    what: String,
    child: Child,
    /// What it prints.
    output: File,
}

impl Background {
    /// Starts the arm's commands that run beside the traffic.
    pub fn start(
        arm: &Arm,
        parameters: &BTreeMap<String, String>,
        nodes: &Nodes,
    ) -> Result<Vec<Self>> {
        let commands = arm.background.iter();
        commands
            .map(|command| {
                let argv = command.resolve(parameters);
                let what = format!("{}: {}", name(command.node), argv.join(" "));
                let begun = nodes.enter(command.node, || begin(&argv));
                let (child, output) =
                    begun.with_context(|| format!("{what}: cannot be started"))?;
                Ok(Self {
                    what,
                    child,
                    output,
                })
            })
            .collect()
    }

    /// Ends it, which must not have ended before. It is asked to end first, so that it can print
    /// what it has found.
    pub fn end(mut self, recorder: &Recorder) -> Result<()> {
        let ended = self.child.try_wait().context("wait for a program")?;
        if ended.is_none() {
            self.ask_to_end().context("end a program")?;
        }
        let mut text = Vec::new();
        let mut output = &self.output;
        output.rewind().context("read a program's output")?;
        let read = output.read_to_end(&mut text);
        read.context("read a program's output")?;
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(status) = ended {
            let what = &self.what;
            bail!(
                "{what}: ended before the traffic: {status}: {}",
                text.trim_end()
            );
        }
        recorder.transcript(self.what.clone(), text, 0);
        Ok(())
    }
}

impl Background {
    /// Sends SIGTERM, and waits until the program has ended or the time is over.
    fn ask_to_end(&self) -> io::Result<()> {
        let id = Pid::from_child(&self.child);
        let handle = pidfd_open(id, PidfdFlags::empty())?;
        pidfd_send_signal(&handle, Signal::TERM)?;
        let mut ended = [PollFd::new(&handle, PollFlags::IN)];
        poll(&mut ended, Some(&TO_END))?;
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
