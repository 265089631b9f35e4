// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate init`: writes a first policy.
//!
//! The kernel crate looks, and the init crate chooses and writes. This module asks the user,
//! measures, shows the result, and applies it with the code of `weirgate apply`.

mod ask;
mod delay;
mod file;

use crate::policy::{apply, change, check};
use ask::Ask;
use delay::Delay;
use file::Undo;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weirgate_compile::check_report;
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::json::Document;
use weirgate_console::policy::{self, Loaded};
use weirgate_console::runtime::in_runtime;
use weirgate_console::{output, time};
use weirgate_doctor::{Finding, Question, Severity, examine, offered};
use weirgate_init::{AccessLine, Answers, Asked, Found, LINES, PURPOSES, Purpose, Rates};
use weirgate_kernel::Kernel;
use weirgate_linklayer::LinkLayer;
use weirgate_state::{Capabilities, DeviceName, Machine, Network};
use weirgate_units::Inserted as _;
use weirgate_units::Rate;

/// What is wanted, as far as it is given.
#[derive(clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Arguments {
    /// The kind of line: fibre, cable, vdsl, adsl, mobile or satellite.
    #[arg(long, value_name = "KIND", value_parser = weirgate_init::line)]
    line: Option<&'static AccessLine>,
    /// The line's upstream rate, such as 40M.
    #[arg(long, value_name = "RATE", requires = "down")]
    up: Option<Rate>,
    /// The line's downstream rate.
    #[arg(long, value_name = "RATE", requires = "up")]
    down: Option<Rate>,
    /// Measure rates that are not given, and the delay before and after, with this host,
    /// where `weirgate probe --serve` runs. Each measurement fills the line for 12 s.
    #[arg(long, value_name = "HOST[:PORT]")]
    measure: Option<String>,
    /// What matters most: calls, fairness, or server with its ports, as in server:22,443.
    #[arg(long = "for", value_name = "WHAT", value_parser = weirgate_init::purpose)]
    purpose: Option<(&'static Purpose, Vec<u16>)>,
    /// The link's device; without it, the device of the default route.
    #[arg(long, value_name = "DEVICE", value_parser = policy::device)]
    device: Option<DeviceName>,
    /// A device that leads to the hosts; may be repeated.
    #[arg(long, value_name = "DEVICE", value_parser = policy::device)]
    lan: Vec<DeviceName>,
    /// The file to which the policy is written.
    #[arg(long, value_name = "FILE", default_value = policy::SITE)]
    output: PathBuf,
    /// Replace that file if it exists.
    #[arg(long)]
    replace: bool,
    /// Ask nothing; use the suggested value where no option gives one.
    #[arg(long, short)]
    yes: bool,
    /// Apply the policy.
    #[arg(long)]
    apply: bool,
    /// How long an applied policy waits for `weirgate confirm` before it is undone.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time::duration)]
    confirm: Duration,
    /// Replace root qdiscs that weirgate did not make.
    #[arg(long)]
    adopt: bool,
    /// Ask and write nothing; print the findings and the policy as one JSON document.
    #[arg(long, conflicts_with_all = ["apply", "adopt", "replace", "output"])]
    json: bool,
}

/// Findings of the doctor that are not shown, because `apply` mends them.
const MENDED: [&str; 2] = ["segmentation-offload", "receive-offload"];

/// Looks at the machine, asks, writes the policy, and applies it if requested.
pub fn run(state: &Path, arguments: &Arguments) -> Outcome {
    if !arguments.json && !arguments.replace && arguments.output.exists() {
        return Err(wrong(format!(
            "{} exists already; `--replace` overwrites it, `--output FILE` writes another",
            arguments.output.display()
        )));
    }
    let (machine, network) = look()?;
    let asked = Asked {
        device: arguments.device.clone(),
        lan: arguments.lan.clone(),
    };
    let found = Found::of(&machine, &network, &asked).map_err(wrong)?;
    if !arguments.json {
        output::text(&listed(&found))?;
    }
    let ask = Ask::of(arguments.yes || arguments.json);
    let wanted = wanted(ask, arguments, &found)?;
    let host = match &wanted.rates {
        Rates::Measure(host) => Some(host.clone()),
        Rates::Given(..) => arguments.measure.clone(),
    };
    let towards = found.bridge.as_ref().unwrap_or(&found.device);
    let measure = |host: &str| Delay::measure(host, towards);
    let before = host.as_deref().map(measure).transpose()?;
    let answers = answers(wanted, &found, before.as_ref())?;
    let text = weirgate_init::policy(&found, &answers);
    let loaded = policy::parse(&arguments.output, &text)?;
    loaded.compile(&Capabilities::all())?;
    let findings = findings(&machine, &loaded);
    if arguments.json {
        return document(&found, &text, &findings, before.as_ref());
    }
    shown(&text, &loaded, &findings)?;
    let applies = arguments.apply
        || ask.offer(&format!(
            "\nWrite {} and apply it? It is undone after {} s unless you keep it.",
            arguments.output.display(),
            arguments.confirm.as_secs()
        ))?;
    let undo = Undo::watch(state, &arguments.output)?;
    undo.write(&text, arguments.replace)?;
    output::note(&format!(
        "weirgate: wrote {} ({} lines)",
        arguments.output.display(),
        text.lines().count()
    ));
    if !applies {
        undo.keep();
        let file = arguments.output.display();
        let next = format!("Apply it: `weirgate apply --confirm 60s {file}`.\n");
        return print_delays(before.as_ref(), None, &next);
    }
    let confirm = Some(arguments.confirm);
    let adopt = arguments.adopt;
    let outcome = in_runtime(apply::applied(
        state,
        &arguments.output,
        adopt,
        confirm,
        apply::Printed::End,
    ));
    if outcome.is_err() {
        // Keep the file: the answers and findings are useful, and nothing is applied.
        undo.keep();
        return outcome;
    }
    undo.applied();
    let after = || host.as_deref().map(measure).transpose();
    let ended = confirmed(state, ask, &undo, before.as_ref(), &after);
    if ended.is_err() {
        // The measurement failed, or the terminal is gone or at its end.
        undo.undo(state);
    }
    ended
}

/// Measures the delay under the applied policy, and asks whether to keep the policy.
fn confirmed(
    state: &Path,
    ask: Ask,
    undo: &Undo,
    before: Option<&Delay>,
    measure: &dyn Fn() -> Result<Option<Delay>, Failure>,
) -> Outcome {
    let after = measure()?;
    if !ask.asks() {
        undo.keep();
        let next = "Keep it: `weirgate confirm`. Whether it shapes: `weirgate doctor`.\n";
        return print_delays(before, after.as_ref(), next);
    }
    print_delays(before, after.as_ref(), "")?;
    let kept = ask.offer("Keep the policy, if you can still reach what you need?")?;
    undo.keep();
    if kept {
        change::confirm(state, &Document::none())
    } else {
        change::take_back(state, &Document::none())
    }
}

fn look() -> Result<(Machine, Network), Failure> {
    let mut seen = None;
    in_runtime(async {
        let kernel = Kernel::open()?;
        seen = Some((kernel.machine().await?, kernel.network().await?));
        Ok(Status::Done)
    })?;
    seen.ok_or_else(|| wrong("nothing was seen"))
}

fn listed(found: &Found) -> String {
    let mut text = String::new();
    for (title, line) in found.lines() {
        let _ = writeln!(text, "{title:<12}  {line}");
    }
    text
}

/// The three answers.
struct Wanted {
    line: &'static AccessLine,
    rates: Rates,
    purpose: (&'static Purpose, Vec<u16>),
}

/// Returns the answers of options, and asks for the others.
fn wanted(ask: Ask, arguments: &Arguments, found: &Found) -> Result<Wanted, Failure> {
    let given = arguments.up.zip(arguments.down);
    let given = given.map(|(up, down)| Rates::Given(up, down));
    let rates = given.or_else(|| arguments.measure.clone().map(Rates::Measure));
    let mut lacking = Vec::new();
    let keys = |keys: Vec<&str>| keys.join(", ");
    if !ask.asks() && !ask.takes_defaults() {
        if arguments.line.is_none() {
            let all = keys(LINES.iter().map(|one| one.key).collect());
            lacking.push(format!("--line KIND ({all})"));
        }
        if arguments.purpose.is_none() {
            let all = keys(PURPOSES.iter().map(|one| one.key).collect());
            lacking.push(format!("--for WHAT ({all})"));
        }
    }
    if !ask.asks() && rates.is_none() {
        lacking.push("--up RATE and --down RATE, or --measure HOST".to_owned());
    }
    if !lacking.is_empty() {
        return Err(wrong(format!(
            "there is no terminal for questions; give {}",
            lacking.join("; ")
        )));
    }
    let line = match arguments.line {
        Some(line) => line,
        None => ask.question(
            &weirgate_init::Question::line(found.guess()),
            weirgate_init::line,
        )?,
    };
    let rates = match rates {
        Some(rates) => rates,
        None => ask.question(&weirgate_init::Question::rates(line), weirgate_init::rates)?,
    };
    let purpose = match &arguments.purpose {
        Some(purpose) => purpose.clone(),
        None => ask.question(&weirgate_init::Question::purpose(), weirgate_init::purpose)?,
    };
    Ok(Wanted {
        line,
        rates,
        purpose,
    })
}

/// Returns the answers for the policy. Measured rates are of TCP payload and are converted to rates
/// on the wire.
fn answers(wanted: Wanted, found: &Found, before: Option<&Delay>) -> Result<Answers, Failure> {
    let (purpose, ports) = wanted.purpose;
    let name = wanted.line.layer(found.dial);
    let (up, down, measured) = match (wanted.rates, before) {
        (Rates::Given(up, down), _) => (up, down, None),
        (Rates::Measure(host), Some(before)) => {
            let layer = LinkLayer::named(name)?;
            let mtu = found.mtu.min(1500);
            let [up, down] = [before.up.rate, before.down.rate];
            let wire = |rate| delay::on_the_wire(rate, layer, mtu);
            (wire(up), wire(down), Some(host))
        }
        (Rates::Measure(_), None) => return Err(wrong("nothing was measured")),
    };
    Ok(Answers {
        line: wanted.line,
        up,
        down,
        measured,
        purpose,
        ports,
    })
}

/// Returns the findings of the doctor for this policy, without those that `apply` mends.
fn findings(machine: &Machine, loaded: &Loaded) -> Vec<Finding> {
    let mut all = Vec::new();
    for policy in loaded.policies() {
        let most = Capabilities::all();
        let compiled = |found| weirgate_compile::compile(policy, found).0;
        let (desired, possible) = (compiled(&most), compiled(&offered(machine, &most)));
        all.extend(examine(&Question {
            machine,
            policy: Some(policy),
            desired: desired.as_ref(),
            possible: possible.as_ref(),
            windows_refused: false,
            applied: None,
            differences: &[],
            devices: &BTreeSet::new(),
        }));
    }
    all.retain(|one| one.severity < Severity::Note && !MENDED.contains(&one.code));
    all
}

fn shown(text: &str, loaded: &Loaded, findings: &[Finding]) -> Result<(), Failure> {
    output::data(&format!("\n{text}"))?;
    for policy in loaded.policies() {
        let report = check_report(policy);
        output::text(&format!("\n{}", check::summary(policy, &report)))?;
    }
    for finding in findings {
        output::text(&format!("\n{finding}"))?;
    }
    Ok(())
}

fn document(found: &Found, text: &str, findings: &[Finding], before: Option<&Delay>) -> Outcome {
    let lines: serde_json::Map<String, serde_json::Value> = found
        .lines()
        .into_iter()
        .map(|(title, line)| (title.to_owned(), line.into()))
        .inserted();
    let document = json!({
        "found": lines,
        "device": found.device.as_str(),
        "lan": found.lan.iter().map(DeviceName::as_str).collect::<Vec<_>>(),
        "findings": findings,
        "delay": before.map(Delay::json),
        "policy": text,
    });
    output::data(&format!("{document:#}\n"))?;
    Ok(Status::Done)
}

/// Prints the delay, or how to measure it, and the next step.
fn print_delays(before: Option<&Delay>, after: Option<&Delay>, next: &str) -> Outcome {
    let delay = before.map_or_else(
        || "\nThe delay is not measured, because no host was named: `--measure HOST`.\n".to_owned(),
        |before| delay::table(before, after),
    );
    output::text(&format!("{delay}{next}"))?;
    Ok(Status::Done)
}
