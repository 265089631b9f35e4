// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies an arm's module parameters and commands to the topology before traffic starts. Module
//! `shaper` applies policies.

use super::Machine;
use super::command::{output, output_of, succeeded};
use super::nodes::{Nodes, name};
use super::recorder::Recorder;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
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
