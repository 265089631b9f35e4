// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate advise`: settings compared in the laboratory, ranked by a goal.

use clap::{Args, Subcommand};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_advise::{AskedLine, Goal, Match, Question, answer};
use weirgate_campaign::bundled;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::{output, policy, source};
use weirgate_linklayer::LinkLayer;
use weirgate_units::{Rate, Share, Size, Span};

/// The question.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    goal: Wanted,
}

/// The goal for a link.
#[derive(Subcommand)]
enum Wanted {
    /// Limit a stream of datagrams to a rate, with the shortest delay.
    Cap {
        /// The rate that the stream may have, on the wire.
        #[arg(long, value_name = "RATE")]
        limit: Rate,
        /// The rate of the stream without a limit, on the wire.
        #[arg(long, value_name = "RATE")]
        stream: Rate,
        /// The length of its IP packets.
        #[arg(long, value_name = "BYTES", default_value_t = 1400)]
        packet: u16,
        /// TCP connections beside it.
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
        tcp: u16,
        /// Limit it even when nobody else sends.
        #[arg(long)]
        always: bool,
        /// How its packets are recognised: `udp`, `dscp=AF41`, `port=5004` or `address=PREFIX`.
        #[arg(long = "match", value_name = "WHAT", default_value = "udp")]
        chosen: Match,
        #[command(flatten)]
        of: Common,
    },
    /// Give a department as much as possible, and leave a part to the others.
    Prefer {
        /// TCP connections of the department.
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
        tcp: u16,
        /// TCP connections of the others, each from a host of its own.
        #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=100))]
        others: u16,
        /// The part of the link that the others must get.
        #[arg(long, value_name = "SHARE", default_value = "10%")]
        leave: Share,
        /// How its packets are recognised: `address=PREFIX`, `dscp=AF21` or `port=443`.
        #[arg(long = "match", value_name = "WHAT")]
        chosen: Match,
        #[command(flatten)]
        of: Common,
    },
    /// Give calls the shortest delay beside TCP.
    Voice {
        /// Calls at once, each 50 packets of 200 bytes a second.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
        calls: u16,
        /// TCP connections beside them.
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
        tcp: u16,
        /// How their packets are recognised: `dscp=EF`, `udp`, `port=5004` or `address=PREFIX`.
        #[arg(long = "match", value_name = "WHAT", default_value = "dscp=EF")]
        chosen: Match,
        #[command(flatten)]
        of: Common,
    },
}

/// The link, and the form of the answer.
#[derive(Args)]
struct Common {
    /// The link's rate in the direction of the question, on the wire.
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// The link layer, by its name in policies.
    #[arg(long, value_name = "LAYER", default_value = "ethernet", value_parser = layer)]
    layer: LinkLayer,
    /// The one-way propagation delay.
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    delay: Span,
    /// The queue of the modem, which matters for settings without a shaper.
    #[arg(long, value_name = "SIZE", default_value = "100kB")]
    buffer: Size,
    /// The router's device towards the link, for the policy.
    #[arg(long, default_value = "wan")]
    device: String,
    /// The router's device towards the inside, for the policy.
    #[arg(long, default_value = "lan")]
    lan: String,
    /// Runs of each setting.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    seeds: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write the experiment and its policies here, for `weirgate lab run`.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// A kernel to use: cloud, generic, 6.12, 6.1, a bzImage, or a folder with `vmlinuz` and
    /// modules.
    #[arg(long)]
    kernel: Option<weirgate_lab::KernelChoice>,
}

fn layer(name: &str) -> Result<LinkLayer, String> {
    LinkLayer::named(name).map_err(|error| error.to_string())
}

/// Measures the settings and prints the answer. The exit status is 1 if no setting meets the goal.
pub fn run(arguments: Arguments) -> Outcome {
    let (goal, chosen, of) = match arguments.goal {
        Wanted::Cap {
            limit,
            stream,
            packet,
            tcp,
            always,
            chosen,
            of,
        } => {
            let goal = Goal::Cap {
                limit,
                stream,
                packet,
                tcp,
                always,
            };
            (goal, chosen, of)
        }
        Wanted::Prefer {
            tcp,
            others,
            leave,
            chosen,
            of,
        } => (Goal::Prefer { tcp, others, leave }, chosen, of),
        Wanted::Voice {
            calls,
            tcp,
            chosen,
            of,
        } => (Goal::Voice { calls, tcp }, chosen, of),
    };
    let question = Question {
        line: AskedLine {
            rate: of.rate,
            layer: of.layer,
            delay: of.delay,
            buffer: of.buffer,
        },
        goal,
        chosen,
        device: of.device,
        lan: of.lan,
        seeds: of.seeds,
    };
    question
        .check()
        .map_err(|error| Failure::Input(format!("weirgate: {error}")))?;
    let text = question.experiment();
    let files = question.policies();
    let file = Path::new("advise.toml");
    let experiment = source::parse(file, &text, weirgate_experiment::parse)?;
    for (path, text) in &files {
        policy::parse(Path::new(path), text)?;
    }
    if let Some(folder) = &of.out {
        write(folder, &text, &files)?;
    }
    let arms = experiment.arms.len();
    output::note(&format!(
        "Comparing {arms} settings in the laboratory, each in a virtual machine of its own."
    ));
    let result = bundled(file, &text, experiment, files, of.kernel)?;
    let answer = answer(&question, &result.figures);
    if let Some(text) = &answer.policy {
        policy::parse(Path::new("the best setting's policy"), text)?;
    }
    if of.json {
        output::data(&serde_json::to_string_pretty(&answer)?)?;
    } else {
        output::data(&answer.to_string())?;
    }
    let answered = answer.settings.first().is_some_and(|one| one.missed() == 0);
    Ok(if answered {
        Status::Done
    } else {
        Status::Differs
    })
}

fn write(folder: &Path, text: &str, files: &BTreeMap<String, String>) -> Result<(), Failure> {
    let named = |path: &Path, error: std::io::Error| {
        Failure::Input(format!("weirgate: {}: {error}", path.display()))
    };
    let experiment = ("advise.toml", text);
    let policies = files.iter().map(|(path, text)| (&**path, &**text));
    for (path, text) in [experiment].into_iter().chain(policies) {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| named(parent, error))?;
        fs::write(&path, text).map_err(|error| named(&path, error))?;
    }
    Ok(())
}
