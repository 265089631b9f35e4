// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm verify`: runs kernels' verifiers on a discipline, or on every program that
//! weirgate loads.

use crate::kit::Subject;
use anyhow::Context;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use weirgate_aqm::Discipline;
use weirgate_bpf::{Cost, Refused, programs, verify as load_once};
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::output;
use weirgate_lab::{KernelChoice, Lab, LabError, Limits, Options};

/// Functions that only a kernel with BPF qdiscs has (net/sched/bpf_qdisc.c).
const QDISC_FUNCTIONS: [&str; 2] = ["bpf_kfree_skb", "bpf_qdisc_skb_drop"];

/// The time limit of the lab's kernel for a program, including its boot.
const PATIENCE: Duration = Duration::from_mins(5);

/// Implements `weirgate aqm verify`.
pub fn verify(what: &[PathBuf], lab: bool, kernels: &[KernelChoice]) -> Outcome {
    let is_object = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "o");
    let (objects, named): (Vec<&PathBuf>, Vec<&PathBuf>) = what.iter().partition(is_object);
    let subjects = named.into_iter().map(|path| Subject::find(path));
    // Compiled files are in the subjects' folders, which are removed with the subjects.
    let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
    let mut objects: Vec<PathBuf> = objects.into_iter().cloned().collect();
    for subject in &subjects {
        subject.look()?;
        for host in subject.hosts()? {
            objects.push(subject.bpf(host)?);
        }
    }
    if !lab && kernels.is_empty() {
        return if objects.is_empty() {
            everything()
        } else {
            each(&objects)
        };
    }
    // Try every kernel, so that one run reports all of them.
    let own = lab.then_some(None);
    let named = kernels.iter().map(Some);
    let mut refusals = Vec::new();
    let mut all = Status::Done;
    for kernel in own.into_iter().chain(named) {
        match in_the_lab(&objects, kernel) {
            Err(Failure::Input(message)) => {
                let prefix = kernel.map(|kernel| format!("{kernel}: "));
                refusals.push(prefix.unwrap_or_default() + &message);
            }
            Ok(Status::Done) => {}
            other => all = other?,
        }
    }
    if refusals.is_empty() {
        Ok(all)
    } else {
        Err(Failure::Input(refusals.join("\n")))
    }
}

/// Loads each object into the running kernel.
fn each(objects: &[PathBuf]) -> Outcome {
    let mut text = String::new();
    for object in objects {
        let bytes = fs::read(object).with_context(|| object.display().to_string())?;
        let costs = load_once(&bytes)
            .map_err(|refused| Failure::Input(format!("{}{}", refusal(&refused), refused.log)))?;
        write_costs(&mut text, costs);
    }
    output::data(&text)?;
    Ok(Status::Done)
}

/// Writes a line for each program.
fn write_costs(text: &mut String, costs: Vec<Cost>) {
    for cost in costs {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<24}{:>8} instructions, {:>8} verified of 1,000,000 allowed",
            cost.program, cost.instructions, cost.verified
        );
    }
}

/// Loads every program of weirgate into the running kernel, one after the other. Reports the
/// instructions of each object's programs together, and the instructions that the verifier
/// processes for the most expensive one.
fn everything() -> Outcome {
    let mut status = Status::Done;
    for (name, object) in programs() {
        let line = match load_once(&object) {
            Ok(costs) => {
                let instructions: usize = costs.iter().map(|cost| cost.instructions).sum();
                let verified = costs.iter().map(|cost| cost.verified).max();
                format!(
                    "{name:<18}{instructions:>8} instructions, {:>8} verified at most of 1,000,000 \
                     allowed",
                    verified.unwrap_or(0)
                )
            }
            Err(refused) => {
                status = Status::Differs;
                let older = if Discipline::named(name).is_some() || name == "shaper" {
                    "; disciplines are qdiscs of BPF programs (CONFIG_NET_SCH_BPF, Linux 6.16)"
                } else {
                    ""
                };
                format!("{name:<18}not taken: {}{older}", refusal(&refused))
            }
        };
        output::data(&line)?;
    }
    Ok(status)
}

/// Returns the position at which the verifier refuses, and the reason.
fn refusal(refused: &Refused) -> String {
    if QDISC_FUNCTIONS
        .iter()
        .any(|name| refused.log.contains(&format!("extern '{name}'")))
    {
        return "this kernel has no qdiscs of BPF programs (CONFIG_NET_SCH_BPF, Linux 6.16), so \
                that nothing can be verified here; `--lab` asks the lab's kernel"
            .to_owned();
    }
    let line = refused.line.as_deref().unwrap_or("the kernel");
    let code = match refused.code.as_str() {
        "" => String::new(),
        code => format!("\n  {code}"),
    };
    format!("{line}: the verifier refuses it: {}{code}", refused.why)
}

/// Runs this program in the lab's kernel.
fn in_the_lab(objects: &[PathBuf], kernel: Option<&KernelChoice>) -> Outcome {
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut words = vec![base(&own), "aqm".to_owned(), "verify".to_owned()];
    let brought = BTreeSet::from([own]);
    // The path of each file in the lab's machine, and its contents.
    let mut packed = Vec::new();
    for (number, path) in objects.iter().enumerate() {
        let content = fs::read(path).with_context(|| path.display().to_string())?;
        packed.push((format!("/verified{number}.bpf.o"), content));
    }
    words.extend(packed.iter().map(|(path, _)| path.clone()));
    let files: Vec<(&str, &[u8])> = packed.iter().map(|(at, it)| (&**at, &it[..])).collect();
    let options = Options {
        kernel: kernel.cloned(),
        programs: brought,
        ..Options::default()
    };
    let lab = Lab::open(&options, &mut |_| ()).map_err(anyhow::Error::from)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut limits = Limits::default();
    if !objects.is_empty() {
        limits.wall = PATIENCE * objects.len() as u32;
    }
    let wall = limits.wall;
    let output = lab
        .execute(&words, &files, (1, limits), &mut |_| ())
        .map_err(|error| match error {
            LabError::Run {
                failure: weirgate_lab::Failure::Hang { .. },
                ..
            } if !objects.is_empty() => Failure::Input(format!(
                "the verifier has come to no end within {} s: look for a loop or a function \
                 whose end it cannot see",
                wall.as_secs()
            )),
            error => anyhow::Error::from(error).into(),
        })?;
    let text = String::from_utf8_lossy(&output.result).into_owned();
    let (status, message) = text.split_once('\n').unwrap_or((&text, ""));
    let status = match status {
        "status: 0" => Status::Done,
        "status: 1" if objects.is_empty() => Status::Differs,
        _ => return Err(Failure::Input(message.trim_end().to_owned())),
    };
    output::data(&format!("kernel {}\n{message}", output.kernel))?;
    Ok(status)
}
